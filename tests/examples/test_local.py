"""A real model plans for the loan desk: what must hold, whatever it answers."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tercet.cli.main import app
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.engine.session_reader import load_history
from tercet.journal.opening import open_journal
from tercet.packs import Pack, check

LOCAL = Path(__file__).parents[2] / "examples" / "local"
ASKED = (
    "--intent",
    "library.renew",
    "--input",
    '{"loan_id": "ln_7"}',
    "--planner",
    "local",
)


async def read(journal: str, session: str) -> tuple[e.Event, ...]:
    """All that the journal holds of a session."""
    async with open_journal(journal) as opened:
        return (await load_history(opened, "default", session)).events


def changes(library: Path) -> list[Any]:
    """By how many days loans were changed, if any was."""
    if not library.exists():
        return []
    with closing(sqlite3.connect(library)) as db:
        return db.execute("SELECT loan_id, days FROM changes").fetchall()


@pytest.mark.req("R57", "R63", "R274")
def test_a_real_model_proposes_and_the_critic_has_the_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No effect without a passed review, budgets respected, every question and answer recorded and enough to fold the
    run again; it ends in one of the ways that the page names, and if a person is asked, they get the whole story."""
    journal, library = f"sqlite:///{tmp_path}/tercet.db", tmp_path / "library.db"
    monkeypatch.setenv("TERCET_JOURNAL", journal)
    monkeypatch.setenv("TERCET_LIBRARY_DB", str(library))
    pack = shutil.copytree(LOCAL, tmp_path / "local", ignore=shutil.ignore_patterns("*.db", "__pycache__"))
    declared = (pack / "pack.toml").read_text(encoding="utf-8")
    (pack / "pack.toml").write_text(declared.replace("max_replans = 2", "max_replans = 1"), encoding="utf-8")
    run = CliRunner().invoke(app, ["run", str(pack), *ASKED, "--json"])
    assert run.exit_code in (0, 3, 5), run.output
    session = json.loads(run.stdout)["session_id"]
    state, passed = State(), set[str]()
    events = asyncio.run(read(journal, session))
    for event in events:
        state = fold_event(state, event)
        if isinstance(event, e.PlanReviewed) and event.verdict["outcome"] == "ok":
            passed.add(event.hash)
        assert not isinstance(event, e.Intent) or state.plan_hash in passed
    asked = [event for event in events if isinstance(event, e.ModelAsked)]
    answered = [event for event in events if isinstance(event, e.ModelAnswered)]
    assert 1 <= len(asked) == len(answered) <= 2
    assert {event.model for event in asked} == {"local:smollm2-135m"}
    assert state.used.tokens == sum(event.tokens_in + event.tokens_out for event in answered)
    assert state.used.tokens <= state.start.budget["tokens"]
    assert (state.used.reserved_tokens, state.used.replans <= 1) == (0, True)
    assert changes(library) in ([], [("ln_7", 14)])
    assert passed or not changes(library)
    refused = [event for event in events if isinstance(event, e.PlanReviewed) and event.escalates]
    assert bool(state.gates) == bool(refused) or not passed
    if state.gates:
        shown = CliRunner().invoke(app, ["gates", "show", next(iter(state.gates))])
        assert shown.output.count("asked local:smollm2-135m") == len(asked)


def test_the_loan_desk_has_no_problems() -> None:
    """Its time for the planner is long because its model runs here."""
    assert check(Pack.load(LOCAL)) == ()
