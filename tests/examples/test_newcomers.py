"""The newcomers: plans from templates, filled in by the request, run side by side, and refused where they do not fit."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tercet.cli.main import app

NEWCOMERS = Path(__file__).parents[2] / "examples" / "newcomers"
ASHA = {"name": "Asha Rao", "team": "workshop"}


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of its own for one test, and a journal beside it."""
    path = tmp_path / "newcomers.db"
    monkeypatch.setenv("TERCET_NEWCOMERS_DB", str(path))
    monkeypatch.setenv("TERCET_JOURNAL", f"sqlite:///{tmp_path}/tercet.db")
    return path


def run(intent: str, given: dict[str, Any], *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer of the command line for a request."""
    asked = ["run", str(NEWCOMERS), "--intent", intent, "--input", json.dumps(given), "--json", *words]
    result = CliRunner().invoke(app, asked)
    return result.exit_code, json.loads(result.stdout)


def rows(office: Path, query: str) -> list[tuple[Any, ...]]:
    """What the database of the office says."""
    with closing(sqlite3.connect(office)) as db:
        return db.execute(query).fetchall()


@pytest.mark.req("R79")
def test_a_request_fills_the_template_of_its_intent(office: Path) -> None:
    """Two requests of one intent are two fillings of one plan; values come from the request and from the evidence."""
    code, told = run("people.welcome", ASHA)
    assert code == 0, told
    assert told["outputs"] == {"account": "asha.rao", "desk": "1-1"}
    assert run("people.welcome", {"name": "Ben Okri", "team": "books"})[0] == 0
    assert rows(office, "SELECT name, groups, desk, greeting FROM people") == [
        ("Asha Rao", "orders, stock", "1-1", "Welcome to the team workshop!"),
        ("Ben Okri", "ledger", "2-1", "Welcome to the team books!"),
    ]


@pytest.mark.req("R79")
def test_each_intent_has_a_plan_of_its_own(office: Path) -> None:
    """Whoever leaves loses account and desk, by the other template."""
    assert run("people.welcome", ASHA)[0] == 0
    code, told = run("people.goodbye", {"person": 1})
    assert code == 0, told
    assert [step["id"] for step in told["steps"]] == ["close", "free"]
    assert rows(office, "SELECT groups, desk FROM people") == [(None, None)]


def test_a_full_floor_leaves_nothing_half_done(office: Path) -> None:
    """Where there is no desk left the run fails, and the account that was opened meanwhile is closed again."""
    for number in range(4):
        assert run("people.welcome", {**ASHA, "name": f"Asha {number}"})[0] == 0
    code, told = run("people.welcome", {**ASHA, "name": "One Toomany"})
    assert code == 5
    assert "floor 1 has no free desk" in told["reason"]
    assert rows(office, "SELECT groups, desk FROM people WHERE name = 'One Toomany'") == [(None, None)]


@pytest.mark.parametrize(
    ("given", "code", "why"),
    [
        ({"name": "Ben Okri", "team": "circus"}, 3, "evidence_unresolved"),
        ({"name": "Ben Okri"}, 2, "planning_failure"),
        ({"name": "Ben Okri", "team": ["books"]}, 3, "evidence_unresolved"),
        ({"team": "books"}, 3, "unresolved_reference"),
    ],
)
def test_a_request_that_does_not_fit_changes_nothing(
    office: Path, given: dict[str, Any], code: int, why: str
) -> None:
    """A field that the template needs and a team that is not in the evidence are missed before anything is called."""
    found, told = run("people.welcome", given)
    assert (found, told["error"]["code"] if code == 2 else told["verdict"]["code"]) == (code, why)
    assert not office.exists()
