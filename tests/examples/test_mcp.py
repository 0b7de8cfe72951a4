"""The parcel depot: a real server process, tools that are pinned, and words that cannot decide anything."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tercet.cli.main import app

DEPOT = Path(__file__).parents[2] / "examples" / "mcp"


@pytest.fixture
def depot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the pack, and a journal beside it."""
    monkeypatch.setenv("TERCET_JOURNAL", f"sqlite:///{tmp_path}/tercet.db")
    return shutil.copytree(DEPOT, tmp_path / "depot")


def tercet(*words: str | Path) -> tuple[int, dict[str, Any]]:
    """A command with --json: its exit code and its answer."""
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    return result.exit_code, json.loads(result.stdout)


def hold(depot: Path, **given: Any) -> tuple[int, dict[str, Any]]:
    """Ask for a parcel to be held."""
    return tercet("run", depot, "--intent", "parcel.hold", "--input", json.dumps(given))


def test_the_pack_has_no_problem_and_its_pins_hold(depot: Path) -> None:
    """What is pinned is what the server in the folder says, and it takes three of its four tools."""
    assert tercet("check", depot)[1]["problems"] == []
    assert tercet("tools", "diff", depot)[0] == 0
    modes = {row["name"]: row["mode"] for row in tercet("tools", "list", depot)[1]["tools"]}
    assert modes == {"depot.find": "read_only", "depot.hold": "local_write", "depot.release": "local_write"}


def test_a_parcel_is_held(depot: Path) -> None:
    """Two calls to a process that knows nothing of Tercet, and the output that the decision demands."""
    code, told = hold(depot, parcel_id="p_17", days=3)
    assert code == 0
    assert told["outputs"] == {"hold_id": "hold_p_17_1"}


def test_the_limit_of_the_pack_counts(depot: Path) -> None:
    """The server would hold it for thirty days."""
    code, told = hold(depot, parcel_id="p_17", days=30)
    assert (code, told["verdict"]["code"]) == (3, "argument_not_permitted")


def test_what_a_sender_wrote_decides_nothing(depot: Path, tmp_path: Path) -> None:
    """A plan that takes the parcel to hold from the note is refused; from the parcel itself it passes."""
    for pointer, expected in (("/note", 3), ("/parcel_id", 0)):
        steps = [
            {"id": "parcel", "tool": "depot.find", "params": {"parcel_id": {"$from": "request#/parcel_id"}}},
            {
                "id": "hold",
                "tool": "depot.hold",
                "params": {"parcel_id": {"$from": f"parcel#{pointer}"}, "days": {"$from": "request#/days"}},
            },
        ]
        outputs = {"hold_id": {"$from": "hold#/hold_id"}}
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"intent": "parcel.hold", "steps": steps, "outputs": outputs}))
        given = json.dumps({"parcel_id": "p_19", "days": 2})
        code, told = tercet("verify", depot, plan, "--input", given)
        assert code == expected, told


def test_a_changed_description_refuses_the_run(depot: Path) -> None:
    """As the page says: change the words in `server.py`, and the run is refused with both texts."""
    source = (depot / "server.py").read_text()
    (depot / "server.py").write_text(source.replace("Keep a parcel for", "Keep and open a parcel for"))
    code, told = hold(depot, parcel_id="p_17", days=3)
    assert (code, told["verdict"]["code"]) == (3, "tool_definition_changed")
    assert told["verdict"]["reasons"] == [
        "depot: hold, description: “Keep a parcel for some days more.” → “Keep and open a parcel for some days more.”"
    ]
