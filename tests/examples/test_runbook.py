"""The runbook: a service comes back by the cheapest way that works, and no machine is left half done."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tercet.cli.main import app

RUNBOOK = Path(__file__).parents[2] / "examples" / "runbook"


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of its own for one test, and a journal beside it."""
    path = tmp_path / "runbook.db"
    monkeypatch.setenv("TERCET_RUNBOOK_DB", str(path))
    monkeypatch.setenv("TERCET_JOURNAL", f"sqlite:///{tmp_path}/tercet.db")
    return path


def recover(service: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer of the command line for a service."""
    words = [
        "run",
        str(RUNBOOK),
        "--intent",
        "ops.recover",
        "--input",
        json.dumps({"service": service}),
        "--json",
    ]
    result = CliRunner().invoke(app, words)
    return result.exit_code, json.loads(result.stdout)


def ask(machines: Path, query: str, *values: str) -> list[tuple[Any, ...]]:
    """What the machines' database says."""
    with closing(sqlite3.connect(machines)) as db:
        return db.execute(query, values).fetchall()


@pytest.mark.req("R68")
@pytest.mark.parametrize(
    ("service", "done"),
    [
        ("search", [("drain", "web-1"), ("restart", "web-1"), ("undrain", "web-1")]),
        ("cart", [("drain", "web-2"), ("deploy 8.0.4", "web-2"), ("undrain", "web-2")]),
        (
            "checkout",
            [("drain", "web-3"), ("add_host", "spare-1"), ("retire", "web-3"), ("undrain", "web-3")],
        ),
    ],
)
def test_the_cheapest_way_that_works_is_taken(
    machines: Path, service: str, done: list[tuple[str, str]]
) -> None:
    """A restart, else the release before, else another host; each change is made once, whatever failed in between."""
    code, told = recover(service)
    assert code == 0, told
    assert ask(machines, "SELECT what, host FROM actions ORDER BY rowid") == done
    serving = "SELECT min(in_balancer), max(memory_percent) FROM hosts WHERE service = ?"
    ((in_balancer, memory),) = ask(machines, serving, service)
    assert in_balancer == 1
    assert memory < 90


@pytest.mark.req("R75", "R77")
@pytest.mark.parametrize(
    ("service", "ways", "effects"),
    [
        ("cart", [["repair__restart"], ["repair__deploy"]], {"drain": 1, "deploy 8.0.4": 1, "undrain": 1}),
        (
            "checkout",
            [["repair__restart"], ["repair__deploy"], ["repair__add_host", "repair__replace"]],
            {"drain": 1, "add_host": 1, "retire": 1, "undrain": 1},
        ),
    ],
)
def test_a_plan_made_anew_keeps_the_rest_hash_by_hash_and_says_so(
    machines: Path, service: str, ways: list[list[str]], effects: dict[str, int]
) -> None:
    """Each re-plan replaces the way that failed; what was done is done once, and the report names what was kept."""
    code, told = recover(service)
    assert code == 0, told
    done = ask(machines, "SELECT what, count(*) FROM actions GROUP BY what")
    assert dict(done) == effects, "each effect once, whatever was planned anew"
    assert told["used"]["replans"] == len(ways) - 1 <= told["budget"]["max_replans"]

    shown = CliRunner().invoke(app, ["sessions", "show", told["session_id"], "--json"])
    first, *later = json.loads(shown.stdout)["revisions"]
    hashes = {step["id"]: step["hash"] for step in first["new"]}
    assert (first["number"], first["planner"], first["why"]) == (1, "htn", [])
    for before, way, revision in zip(ways[:-1], ways[1:], later, strict=True):
        kept = {step["id"]: step for step in revision["kept"]}
        assert {name: step["hash"] for name, step in kept.items()} == {
            name: hashes[name] for name in ("inspect", "drain", "confirm")
        }
        assert [name for name, step in kept.items() if step["is_done"]] == ["inspect", "drain"]
        assert [step["id"] for step in revision["new"]] == way
        assert [(step["id"], step["status"]) for step in revision["given_up"]] == [(before[0], "failed")]
        assert [(step["id"], step["fields"]) for step in revision["changed"]] == [("undrain", ["depends_on"])]
        assert revision["why"] == [revision["given_up"][0]["why"]] != [""]

    text = " ".join(CliRunner().invoke(app, ["sessions", "show", told["session_id"]]).stdout.split())
    assert f"given up {ways[-2][0]} (failed)" in text
    assert "kept inspect (done), drain (done), confirm" in text
    timed = json.loads(shown.stdout)["schedule"]["steps"]
    assert list(timed) == ["inspect", "drain", *ways[-1], "undrain", "confirm"]
    assert {(step["source"], step["slack_ms"]) for step in timed.values()} == {("measured", 0)}


@pytest.mark.req("R76")
def test_the_way_back_is_in_the_journal_before_anything_happens(machines: Path) -> None:
    """Each review that let a plan pass recorded the reversibility and compensation of its steps, before the first call."""
    _, told = recover("cart")
    watched = CliRunner().invoke(app, ["sessions", "watch", told["session_id"], "--json"])
    events = [json.loads(line)["event"] for line in watched.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds.index("plan_reviewed") < kinds.index("INTENT")
    first, second = (event["verdict"]["effects"] for event in events if event["type"] == "plan_reviewed")
    assert [effect["step_id"] for effect in first] == ["drain", "repair__restart", "undrain"]
    assert [effect["step_id"] for effect in second] == ["drain", "repair__deploy", "undrain"]
    assert {effect["reversibility"] for effect in (*first, *second)} == {"compensable"}
    assert second[0]["compensate"]["tool"] == "ops_balancer.undrain"
    assert second[1]["compensate"]["tool"] == "ops_deploys.deploy"
    assert second[2]["no_compensation"].startswith("a host that serves again")


def test_where_nothing_helps_the_host_goes_back(machines: Path) -> None:
    """When no way is left the run fails, and what it did to the balancer is taken back."""
    code, _ = recover("invoices")
    assert code == 5
    assert ask(machines, "SELECT what, host FROM actions ORDER BY rowid") == [
        ("drain", "web-4"),
        ("undrain", "web-4"),
    ]
    assert ask(machines, "SELECT in_balancer FROM hosts WHERE host = 'web-4'") == [(1,)]


def test_facts_of_the_snapshot_decide_what_applies(machines: Path, tmp_path: Path) -> None:
    """Without a spare host in the capacity plan, scaling out is no way at all, though the fleet has one."""
    folder = tmp_path / "runbook"
    folder.mkdir()
    for name in ("pack.toml", "decisions.toml", "methods.toml", "tools.py", "schema.sql", "seed.sql"):
        (folder / name).write_bytes((RUNBOOK / name).read_bytes())
    (evidence,) = (RUNBOOK / "evidence").iterdir()
    (folder / "evidence").mkdir()
    text = evidence.read_text(encoding="utf-8").replace('"spare_hosts": 1', '"spare_hosts": 0')
    (folder / "evidence" / evidence.name).write_text(text, encoding="utf-8")
    words = ["run", str(folder), "--intent", "ops.recover", "--input", '{"service": "checkout"}']
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 5
    assert "restart_it, roll_it_back (" in " ".join(result.stdout.split())
    assert ask(machines, "SELECT count(*) FROM actions WHERE what = 'add_host'") == [(0,)]


@pytest.mark.parametrize(
    ("planner", "said"), [("template", "no template for this intent"), ("magic", "'template', 'htn'")]
)
def test_a_planner_that_is_not_there_is_wrong_use(machines: Path, planner: str, said: str) -> None:
    """The runbook has no template, and nobody has magic; neither starts a session or touches a machine."""
    words = ["run", str(RUNBOOK), "--input", '{"service": "search"}', "--planner", planner]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert not machines.exists()
