"""Runs that follow from a number: the same seed gives the same events, byte for byte.

A seed is `100 * family + variant`. `make_run` plays it on a journal in memory. What an older version recorded for the same
seeds lies in an archive beside this file; so any version of the code can be held against it, by replay, by resuming the
sessions that waited then, and by playing the seeds again.
"""

from __future__ import annotations

import asyncio
import lzma
import tarfile
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import msgspec

from engine.workshop import Held
from tercet.contracts.runs.behaviour import CURRENT
from tercet.contracts.shape import as_list, as_object
from tercet.core import codec
from tercet.journal.memory import MemoryJournal
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import read_all
from tercet.replay.bundle.exporting import export_run

from .families import FAMILIES, Family
from .late_families import LATE_FAMILIES
from .model_families import MODEL_FAMILIES
from .rare_families import RARE_FAMILIES
from .world import MINUTE_MS, World

HERE = Path(__file__).parent
RUNS = HERE / "0.1.0-rules-5-seeded.tar.xz"
"""The bundles of every seed, as the version before recorded them, and what became of each."""
WAITING = HERE / "0.1.0-rules-5-waiting.db.xz"
"""A journal with the sessions of these seeds that wait after their first act."""

RULES = (1, 2, 3, 4, 5)
"""The numbers of the rules that the archive was recorded under."""
NEWER_EVENTS = frozenset(
    {"decision_taken", "outputs_accepted", "outputs_read", "proposals_reviewed", "step_proposed"}
)
"""Types of events that came after the archive."""

VARIANTS = 8
"""How many seeds each family has."""
KINDS: tuple[Family, ...] = (*FAMILIES, *MODEL_FAMILIES, *LATE_FAMILIES, *RARE_FAMILIES)
SEEDS: tuple[int, ...] = tuple(
    100 * number + variant for number in range(len(KINDS)) for variant in range(VARIANTS)
)
_PRESET = 9
SECOND_ACT_MS = 40 * MINUTE_MS
"""When the second act begins, after the beginning of virtual time."""


class SessionEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How one session of a run ended."""

    seed: int
    tenant: str
    session: str
    status: str
    outputs: dict[str, Any] = {}
    events: int
    """How many events it has."""
    waiting: int = 0
    """How many of them it had after the first act, if it waited then; else 0."""


class SeededRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a seed gives."""

    seed: int
    family: str
    sessions: tuple[SessionEnd, ...]
    calls: tuple[tuple[str, int], ...]
    """The calls of tools in both acts, as step and attempt."""
    later_calls: int = 0
    """How many of them were made in the second act."""


def family_of(seed: int) -> Family:
    """The family of a seed."""
    return KINDS[seed // 100]


def make_run(seed: int) -> tuple[SeededRun, Journal]:
    """Play a seed on a journal in memory, both acts in virtual time."""
    journal = MemoryJournal()
    family = family_of(seed)
    first = _world(seed, journal, "begin")
    session = first.clock.run(family.begin(first))
    waiting = first.clock.run(_counts(journal, first.tenant)) if family.finish is not None else {}
    second = _world(seed, journal, "finish")
    if family.finish is not None:
        second.clock.run(family.finish(second, session))
    ends = second.clock.run(_ends(journal, seed, waiting))
    run = SeededRun(
        seed=seed,
        family=family.name,
        sessions=tuple(ends),
        calls=(*first.calls, *second.calls),
        later_calls=len(second.calls),
    )
    return run, journal


def _world(seed: int, journal: Journal, act: str) -> World:
    world = World(seed, act=act, start_ms=0 if act == "begin" else SECOND_ACT_MS)
    world.journal = journal
    return world


def tenants_of(seed: int) -> tuple[str, ...]:
    """The tenants that a seed may use."""
    return (f"tenant-{seed}", f"tenant-{seed}-b")


async def _counts(journal: Journal, tenant: str) -> dict[str, int]:
    """How many events each session has that is not over."""
    rows = await journal.sessions(tenant, limit=200)
    return {
        row.session_id: len(await read_all(journal, tenant, row.session_id))
        for row in rows
        if not _is_over(row)
    }


def _is_over(row: Any) -> bool:
    return row.status in ("completed", "failed", "expired", "rejected", "cancelled")


async def _ends(journal: Journal, seed: int, waiting: dict[str, int]) -> list[SessionEnd]:
    found: list[SessionEnd] = []
    for tenant in tenants_of(seed):
        for row in await journal.sessions(tenant, limit=200):
            events = [codec.decode(each.data) for each in await read_all(journal, tenant, row.session_id)]
            found.append(
                SessionEnd(
                    seed=seed,
                    tenant=tenant,
                    session=row.session_id,
                    status=row.status,
                    outputs=getattr(events[-1], "outputs", {}),
                    events=len(events),
                    waiting=waiting.get(row.session_id, 0),
                )
            )
    return sorted(found, key=lambda each: each.session)


async def events_of(journal: Journal, end: SessionEnd) -> list[bytes]:
    """The events of a session as they are stored, without the seals, which depend on how a state is folded."""
    return [codec.strip_seal(each.data) for each in await read_all(journal, end.tenant, end.session)]


# --- what an older version recorded ---


@cache
def recorded_runs() -> dict[int, SeededRun]:
    """What became of each seed, as the version before recorded it."""
    index = msgspec.json.decode(_members()["index.json"], type=list[SeededRun])
    return {run.seed: run for run in index}


@cache
def _members() -> dict[str, bytes]:
    with tarfile.open(RUNS, "r:xz") as archive:
        return {each.name: cast("Any", archive.extractfile(each)).read() for each in archive if each.isfile()}


def recorded_bundle(end: SessionEnd, folder: Path) -> Path:
    """The bundle of a session, as a file in a folder."""
    path = folder / bundle_name(end)
    path.write_bytes(_members()[bundle_name(end)])
    return path


def bundle_name(end: SessionEnd) -> str:
    """The name of the bundle of a session."""
    return f"{end.seed:05}-{end.session}.tercet"


def is_waiting(run: SeededRun) -> bool:
    """Whether a session of this run waits in the recorded journal."""
    return any(end.waiting for end in run.sessions)


def unpack_waiting(folder: Path) -> Path:
    """A copy of the journal of waiting sessions."""
    path = folder / "waiting.db"
    path.write_bytes(lzma.decompress(WAITING.read_bytes()))
    return path


def finish_waiting(path: Path, seed: int) -> tuple[SeededRun, list[list[bytes]]]:
    """Play the second act of a seed on a journal that holds the first, and return what became of its sessions."""
    family, before = family_of(seed), recorded_runs()[seed]
    world = World(seed, act="finish", start_ms=SECOND_ACT_MS)

    async def main() -> tuple[list[SessionEnd], list[list[bytes]]]:
        async with _sqlite(path, world) as journal:
            world.journal = journal
            waiting = await _counts(journal, world.tenant)
            first = next(end.session for end in before.sessions if end.waiting)
            assert family.finish is not None
            await family.finish(world, first)
            ends = await _ends(journal, seed, waiting)
            return ends, [await events_of(journal, end) for end in ends]

    ends, events = world.clock.run(main())
    calls = tuple(world.calls)
    run = SeededRun(seed=seed, family=family.name, sessions=tuple(ends), calls=calls, later_calls=len(calls))
    return run, events


@asynccontextmanager
async def _sqlite(path: Path, world: World) -> AsyncGenerator[Journal]:
    with world.clock.hold():
        opening = open_journal(f"sqlite:///{path}")
        opened = await opening.__aenter__()
    try:
        yield cast("Journal", Held(opened, world.clock))
    finally:
        with world.clock.hold():
            await opening.__aexit__(None, None, None)


# --- recording ---


def record_runs(runs: Path, waiting: Path) -> None:
    """Play every seed and write both archives."""
    index: list[SeededRun] = []
    with tempfile.TemporaryDirectory() as name, tarfile.open(runs, "w:xz", preset=_PRESET) as archive:
        folder = Path(name)
        path = folder / "waiting.db"
        for seed in SEEDS:
            run, journal = make_run(seed)
            index.append(_record_waiting(path, run, journal))
            for end in run.sessions:
                bundle = folder / bundle_name(end)
                asyncio.run(export_run(journal, end.tenant, end.session, bundle))
                _add(archive, bundle.name, bundle.read_bytes())
        _add(archive, "index.json", msgspec.json.encode(index))
        waiting.write_bytes(lzma.compress(path.read_bytes(), preset=_PRESET))


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, BytesIO(data))


def _record_waiting(path: Path, run: SeededRun, journal: Journal) -> SeededRun:
    """Play the first act on the journal of waiting sessions too, and return the run, as one that does not wait where that
    came out otherwise: of several people who speak at the same moment, another one may be first in another store."""
    if not is_waiting(run):
        return run
    world = World(run.seed, act="begin")

    async def main() -> bool:
        async with _sqlite(path, world) as stored:
            world.journal = stored
            await family_of(run.seed).begin(world)
            waited = [end for end in run.sessions if end.waiting]
            return all(
                [
                    (await events_of(stored, end)) == (await events_of(journal, end))[: end.waiting]
                    for end in waited
                ]
            )

    if world.clock.run(main()):
        return run
    ends = tuple(msgspec.structs.replace(end, waiting=0) for end in run.sessions)
    return msgspec.structs.replace(run, sessions=ends)


# --- differences ---


def first_difference(recorded: Sequence[bytes], now: Sequence[bytes]) -> str:
    """A readable description of the first event that differs; empty where none does."""
    for number, (old, new) in enumerate(zip_longest(recorded, map(_under_recorded_rules, now)), start=1):
        if old == new:
            continue
        if old is None:
            return f"event {number} is new: {_show(new)}"
        if new is None:
            return f"event {number} is missing: {_show(old)}"
        return f"event {number} ({_tag(old)}): " + _first_field(
            msgspec.json.decode(old[1:]), msgspec.json.decode(new[1:]), ""
        )
    return ""


def _under_recorded_rules(data: bytes) -> bytes:
    """An event without the numbers of rules that came after the archive: none of its runs meets one of them."""
    return data.replace(_rules(CURRENT), _rules(RULES), 1)


def _rules(numbers: Iterable[int]) -> bytes:
    return b'"behaviour":' + msgspec.json.encode(tuple(numbers))


def _first_field(old: Any, new: Any, place: str) -> str:
    before, after = _members_of(old), _members_of(new)
    if before is not None and after is not None and type(old) is type(new):
        for name in (*before, *(each for each in after if each not in before)):
            one, other = before.get(name, "(absent)"), after.get(name, "(absent)")
            if one != other:
                return _first_field(one, other, f"{place}/{name}")
        return f"{place or 'the event'}: the order of members, or how a value is written, differs"
    return f"{place}: recorded {str(old)[:400]!r}, now {str(new)[:400]!r}"


def _members_of(value: Any) -> dict[str, Any] | None:
    """The members of an object, or the items of a list by their places."""
    if (items := as_list(value)) is not None:
        return {str(index): item for index, item in enumerate(items)}
    return as_object(value)


def _show(data: bytes) -> str:
    return data[1:].decode(errors="replace")[:300]


def _tag(data: bytes) -> str:
    return str(msgspec.json.decode(data[1:]).get("type"))


def count_events(histories: Iterable[Sequence[bytes]]) -> Counter[str]:
    """How often each type of event occurs in these histories."""
    return Counter(_tag(codec.strip_seal(data)) for events in histories for data in events)
