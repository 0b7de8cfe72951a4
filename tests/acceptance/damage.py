"""Damaged files and full disks: a part of `make crash`, on SQLite.

A worker is killed at a random one of the named points. Then a bit of its journal's log or file is flipped, or the end is cut off, and
the session is resumed. Either it goes on and nothing happens twice, or the damage is reported before any call.

A worker whose files may not grow beyond a random size stops in the middle of a run, as on a full disk. With room again
the run goes on to its end, and nothing happens twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from tercet import Actor, TercetError
from tercet.core.state import TERMINAL
from tercet.runtime import Runtime, RuntimeOptions
from tercet.testing.crash_points import POINTS

from . import effects, worker
from .parts import Report
from .scenes import scene
from .trial import Found, Trial, count_effects, operate, start, watch
from .trial import work as work_until_killed
from .witness import witness

MOST_WORKERS = 12
ROUNDS = 5
SCENES = ("twelve:nothing", "refunds:nothing")
WAYS = ("flip the log", "cut the log", "flip the file", "cut the file")
FULL = "full disk"
DEEPEST = {"twelve": 9, "refunds": 2}
"""How often a worker passes a point at most before it is killed there."""
SESSION, LIMIT = "TERCET_SESSION", "TERCET_FILE_LIMIT"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one trial."""

    trial: Trial
    way: str
    ended: str
    """A final status, or the code of the error that reported the damage."""
    repeats: int
    is_reported: bool = False

    @property
    def violation(self) -> str:
        """What breaks a promise; empty if nothing does."""
        if self.repeats:
            return f"{self.repeats} effects happened again"
        if self.is_reported and self.way != FULL:
            return ""
        return "" if self.ended == "completed" else f"it ended as {self.ended}"


def carry_on(words: Sequence[str], say: worker.Say) -> None:
    """What a process does: go on with the session that its environment names, or start one; its files may be limited."""
    journal, tenant, name, lease_ms = words
    if limit := int(os.environ.get(LIMIT) or 0):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    chosen, session = scene(name), os.environ.get(SESSION)

    async def run() -> dict[str, Any]:
        async with Runtime(
            chosen.pack, journal, tenant=tenant, options=RuntimeOptions(lease_ms=int(lease_ms))
        ) as runtime:
            say("ready")
            witness().journal = runtime.journal
            result = (
                await runtime.resume(session)
                if session
                else await runtime.run(chosen.request, plan=chosen.plan, actor=Actor(id="agt_campaign"))
            )
            return {"status": result.status, "reason": result.reason}

    try:
        ended = asyncio.run(run())
    except TercetError as error:
        ended = {"error": error.code, "reason": str(error)}
    say(json.dumps(ended))


async def damage(trial: Trial, way: str) -> Outcome | None:
    """Kill a worker, damage what it left, and resume; None if it was killed before its session had begun."""
    effects.create(trial.effects)
    draw = random.Random(f"{trial.seed} {way}")  # noqa: S311 - places, not secrets
    if trial.pack == "refunds":  # the payment comes behind its gate
        await work_until_killed(trial, "", draw)
        await operate(trial, Found(trial=trial), [], draw)
    point = draw.choice(POINTS)
    await work_until_killed(trial, f"{point}:{draw.randint(1, DEEPEST[trial.pack])}", draw)
    path = Path(trial.journal.removeprefix("sqlite:///"))
    session = _session_in(path)
    if session is None:
        return None
    _damage(path, way, draw)
    return await _resume(trial, way, session)


async def fill_disk(trial: Trial) -> Outcome | None:
    """Let a run hit the largest size of a file at a random moment, and go on with room again."""
    effects.create(trial.effects)
    draw = random.Random(trial.seed)  # noqa: S311 - sizes, not secrets
    await watch(start(trial, main=carry_on, more={LIMIT: str(draw.randrange(60_000, 700_000))}))
    session = _session_in(Path(trial.journal.removeprefix("sqlite:///")))
    return await _resume(trial, FULL, session or "")


async def _resume(trial: Trial, way: str, session: str) -> Outcome:
    """Go on with a session until it is over or an error reports that something is damaged."""
    ended, is_reported = "nothing", False
    for _ in range(MOST_WORKERS):
        code, told = await watch(start(trial, main=carry_on, more={SESSION: session}))
        ended = told.get("status") or told.get("error") or f"exit {code}"
        is_reported = "error" in told and ended != "hung"
        if is_reported or ended in TERMINAL:
            break
        if ended in ("awaiting_gate", "paused"):
            try:
                found = Found(trial=trial)
                await operate(trial, found, [], random.Random(0))  # noqa: S311 - nobody is killed
            except TercetError as error:
                ended, is_reported = error.code, True
                break
            session = session or _session_in(Path(trial.journal.removeprefix("sqlite:///"))) or ""
    happened = count_effects(trial)
    repeats = sum(number - 1 for number in happened.values())
    return Outcome(trial=trial, way=way, ended=ended, repeats=repeats, is_reported=is_reported)


def _session_in(path: Path) -> str | None:
    """The session in a journal, read from a copy: opening the journal itself would repair or remove its log."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (path.name, f"{path.name}-wal"):
            if (path.parent / name).exists():
                shutil.copy(path.parent / name, folder)
        try:
            with closing(sqlite3.connect(Path(folder) / path.name)) as database:
                row = database.execute("SELECT session_id FROM sessions").fetchone()
        except sqlite3.OperationalError:  # killed before there were tables
            return None
    return row[0] if row else None


def _damage(path: Path, way: str, draw: random.Random) -> None:
    if way.endswith("file"):
        with closing(sqlite3.connect(path)) as database:  # so that the file holds everything
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    target = Path(f"{path}-wal") if way.endswith("log") else path
    content = bytearray(target.read_bytes()) if target.exists() else bytearray()
    if not content:
        return
    place = draw.randrange(len(content))
    if way.startswith("cut"):
        del content[place:]
    else:
        content[place] ^= 1 << draw.randrange(8)
    target.write_bytes(content)


def trials(folder: Path, rounds: int) -> Iterator[tuple[Trial, str]]:
    """All trials: every scene, every way, with another seed each."""
    for seed in range(rounds):
        for name in SCENES:
            for way in (*WAYS, FULL):
                label = f"{name}-{way}-{seed}".replace(":", "_").replace(" ", "_")
                journal = f"sqlite:///{folder}/{label}.db"
                yield Trial(name=label, journal=journal, scene=name, folder=folder, seed=seed), way


async def run(folder: Path, parallel: int) -> Report:
    """Every trial, several at once."""
    folder = folder / "damage"
    folder.mkdir()
    slots = asyncio.Semaphore(max(1, parallel // 2))

    async def one(trial: Trial, way: str) -> Outcome | None:
        async with slots:
            return await (fill_disk(trial) if way == FULL else damage(trial, way))

    found = await asyncio.gather(*(one(*each) for each in trials(folder, ROUNDS)))
    outcomes = [outcome for outcome in found if outcome is not None]
    return Report(
        table=_table(outcomes),
        violations=[f"{each.trial.name}: {each.violation}" for each in outcomes if each.violation],
    )


def _table(found: Sequence[Outcome]) -> Table:
    table = Table(title=f"{len(found)} damaged journals and full disks")
    for head in ("what", "trials", "went on", "reported", "repeats"):
        table.add_column(head, justify="left" if head == "what" else "right")
    rows: dict[str, Counter[str]] = {}
    for each in found:
        row = rows.setdefault(each.way, Counter())
        row.update(("trials", "reported" if each.is_reported else "went on"))
        row["repeats"] += each.repeats
    for way, row in rows.items():
        table.add_row(way, *(str(row[name]) for name in ("trials", "went on", "reported", "repeats")))
    return table
