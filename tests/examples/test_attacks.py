"""No attack on a shipped pack has an effect without a person: each is refused at review, or at the latest before its call."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from examples.attacks import DESKS, MORE, Attack, Desk
from tercet.cli.main import app
from tercet.core import codec
from tercet.core import events as e
from tercet.journal.opening import open_journal
from tercet.packs import Pack
from tercet.replay.recording import list_rows

EXAMPLES = Path(__file__).parents[2] / "examples"
CASES = [
    *((desk, attack) for desk in DESKS for attack in desk.attacks),
    *((desk, attack) for desk, attacks in MORE for attack in attacks),
]


class Place(NamedTuple):
    """Where the packs of a test are, and what they are run with."""

    folder: Path
    port: str

    def pack(self, desk: Desk) -> Path:
        """The folder of a desk's pack."""
        if desk.name == "greenhouse":
            made = self.folder / "greenhouse"
            if not made.exists():
                assert CliRunner().invoke(app, ["init", str(made)]).exit_code == 0
            return made
        if desk.name != "http":
            return EXAMPLES / desk.name
        copied = self.folder / "billing"
        if not copied.exists():
            shutil.copytree(EXAMPLES / "http", copied)
            declared = (copied / "http.toml").read_text(encoding="utf-8")
            (copied / "http.toml").write_text(declared.replace("8917", self.port), encoding="utf-8")
        return copied


@pytest.fixture(scope="module")
def billing() -> Iterator[tuple[str, str]]:
    """The port and the token of a running billing service."""
    token = secrets.token_hex(16)
    words = [sys.executable, str(EXAMPLES / "http" / "service.py"), "0"]
    process = subprocess.Popen(
        words, env={**os.environ, "LANTERN_TOKEN": token}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), token
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, billing: tuple[str, str]) -> Place:
    """Databases, a journal and copies of packs of their own for one test."""
    port, token = billing
    monkeypatch.setenv("LANTERN_TOKEN", token)
    monkeypatch.setenv("TERCET_JOURNAL", f"sqlite:///{tmp_path}/tercet.db")
    for name in ("REFUNDS", "RUNBOOK", "NEWCOMERS", "LIBRARY"):
        monkeypatch.setenv(f"TERCET_{name}_DB", str(tmp_path / f"{name.lower()}.db"))
    return Place(tmp_path, port)


class Ran(NamedTuple):
    """How a command ended, and what happened meanwhile."""

    code: int
    answer: dict[str, Any]
    effects: list[str]
    """The tools above read_only that were called."""
    asked: list[str]
    """The steps that people were asked to approve."""


def verify(place: Place, desk: Desk, plan: dict[str, Any], given: dict[str, Any], *words: str) -> Ran:
    """Review a plan with its request."""
    return _command("verify", place, desk, plan, given, *words)


def run(place: Place, desk: Desk, plan: dict[str, Any], given: dict[str, Any], *words: str) -> Ran:
    """Run a plan with its request."""
    return _command("run", place, desk, plan, given, *words)


def _command(
    name: str, place: Place, desk: Desk, plan: dict[str, Any], given: dict[str, Any], *words: str
) -> Ran:
    path = place.folder / "plan.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    folder = place.pack(desk)
    target = [str(path)] if name == "verify" else ["--plan", str(path)]
    asked = [
        name,
        str(folder),
        *target,
        "--intent",
        desk.intent,
        "--input",
        json.dumps(given),
        "--json",
        *words,
    ]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code in (0, 3, 4, 5), result.output
    journal = place.folder / "tercet.db"
    found = asyncio.run(_recorded(journal)) if name == "run" and journal.exists() else []
    harmless = read_only_tools(folder)
    intents = [event for event in found if isinstance(event, e.Intent) and event.tool]  # a note has no tool
    effects = [event.tool for event in intents if event.tool not in harmless]
    gates = [event.step for event in found if isinstance(event, e.GateOpened) and event.kind == "approval"]
    return Ran(result.exit_code, json.loads(result.stdout), effects, gates)


@cache
def read_only_tools(pack: Path) -> frozenset[str]:
    """Return the tools of a pack that change nothing; the folder is read once."""
    return frozenset(tool.name for tool in Pack.load(pack).tools if tool.mode == "read_only")


async def _recorded(file: Path) -> list[e.Event]:
    async with open_journal(f"sqlite:///{file}") as journal:
        sessions = [row.session_id async for row in list_rows(journal, "default")]
        return [
            codec.decode(stored.data) for each in sessions for stored in await journal.read("default", each)
        ]


def _spoil(place: Place, desk: Desk, statement: str) -> None:
    """Make the database of the refund desk as its tools would, and change it."""
    folder = EXAMPLES / desk.name
    scripts = [(folder / name).read_text(encoding="utf-8") for name in ("schema.sql", "seed.sql")]
    with closing(sqlite3.connect(place.folder / f"{desk.name}.db")) as db:
        db.executescript(
            "\n".join([*scripts, "PRAGMA foreign_keys = OFF;", statement, ";PRAGMA user_version = 1;"])
        )
        db.commit()


def _name(case: tuple[Desk, Attack]) -> str:
    desk, attack = case
    return f"{desk.intent}: {attack}"


@pytest.mark.parametrize("desk", DESKS, ids=lambda desk: desk.intent)
def test_the_honest_plan_passes(place: Place, desk: Desk) -> None:
    """What the attacks begin with may run, and ends as the pack says."""
    reviewed = verify(place, desk, desk.honest, desk.given)
    assert reviewed.code == 0, reviewed.answer
    ran = run(place, desk, desk.honest, desk.given)
    assert ran.code == desk.honest_exit, ran.answer


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_an_attack_has_no_effect_without_a_person(place: Place, case: tuple[Desk, Attack]) -> None:
    """A plan for the wrong customer, order or amount, in the wrong order or without a check, is refused."""
    desk, attack = case
    plan, given = desk.plan(attack), {**desk.given, **attack.given}
    if attack.spoil:
        _spoil(place, desk, attack.spoil)
    reviewed = verify(place, desk, plan, given, *attack.words)
    ran = run(place, desk, plan, given, *attack.words)
    if attack.expected == "refused":
        assert reviewed.code == 3, "it passes review"
        assert (ran.code, ran.effects) == (3, [])
    if attack.expected in ("refused", "refused_late"):
        assert ran.code in (3, 5), f"the run ends with {ran.code}"
        assert ran.asked == [], "a person is asked to approve it"
    if attack.expected == "not_committed":
        assert ran.code != 0 or attack.marker not in json.dumps(ran.answer["outputs"])
    assert set(ran.effects) <= attack.effects
