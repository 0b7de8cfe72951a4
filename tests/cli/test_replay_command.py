"""`tercet replay` and `tercet golden`, as people type them."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from tercet.cli.replay.replay import gather

from .harness import REFUNDS, Tercet
from .runs import BAKERY, LOOK, ORDER_881, REFUND, Kitchen

POLICIES = "policies.toml"


def run_two(tercet: Tercet, kitchen: Kitchen) -> tuple[str, str]:
    """A loaf that is looked at, and a refund that waits at its gate."""
    baked, waiting = tercet("run", BAKERY, "--plan", kitchen.plan(LOOK)), tercet(*REFUND, ORDER_881)
    return baked.out.split()[1], waiting.out.split()[1]


@pytest.mark.req("R272", "R275")
def test_a_run_is_judged_again(tercet: Tercet, kitchen: Kitchen) -> None:
    """The command says that it comes out the same, how many verdicts were re-derived, and what it took as facts."""
    first, second = run_two(tercet, kitchen)
    shown = tercet("replay", second)
    assert shown.code == 0
    assert f"replay_equal {second} refunds@1.0.0, waiting" in shown.text
    assert "5 verdicts re-derived, 0 taken from the record" in shown.text
    assert "fact 2 COMPLETE: the result of a tool" in shown.text
    told = tercet("replay", "--all", "--json").json
    assert (told["outcome"], told["equal"], told["different"]) == ("replay_equal", 2, 0)
    assert {run["session_id"] for run in told["runs"]} == {first, second}
    narrowed = tercet("replay", "--all", "--status", "completed", "--json").json
    assert [run["session_id"] for run in narrowed["runs"]] == [first]
    asked = tercet("replay", "--all", "--intent", "support.refund", "--json").json
    assert [run["session_id"] for run in asked["runs"]] == [second]
    assert "2 runs: 2 equal, 0 different" in tercet("replay", "--all").text


@pytest.mark.req("R276")
def test_another_pack_shows_what_would_change(tercet: Tercet, kitchen: Kitchen, pack: Path) -> None:
    """The same pack changes nothing; one with a tightened policy changes the run that it touches: exit 3, with why."""
    _, session = run_two(tercet, kitchen)
    assert tercet("replay", session, "--pack", pack).code == 0
    file = pack / POLICIES
    file.write_text(file.read_text().replace("amount_inr <= 50000", "amount_inr <= 100"))
    shown = tercet("replay", session, "--pack", pack)
    assert shown.code == 3
    assert "gate_opened refund: ask (GATE_FINANCE_APPROVAL ×1) → ask (GATE_DIRECTOR_APPROVAL ×1" in shown.text
    assert "1 run under refunds@1.0.0: 1 changed, 0 unchanged" in shown.text
    told = tercet("replay", "--all", "--pack", pack, "--json").json
    assert (told["changed"], told["unchanged"]) == (
        2,
        0,
    )  # the other run asks for what this pack does not know
    reasons = {run["session_id"]: run["change"]["new"]["reasons"] for run in told["runs"]}
    assert "GATE_DIRECTOR_APPROVAL" in reasons[session][0]


def test_a_folder_stands_for_the_bundles_in_it(tercet: Tercet, kitchen: Kitchen, pack: Path) -> None:
    """All of them are judged, under their own pack or another, and other files of the folder are left alone."""
    past = kitchen.folder / "past"
    past.mkdir()
    (past / "notes.txt").write_text("no bundle")
    sessions = run_two(tercet, kitchen)
    for session in sessions:
        assert tercet("export", session, "-o", past / f"{session}.tercet").code == 0
    assert "2 runs: 2 equal, 0 different" in tercet("replay", past).text
    told = tercet("replay", past, "--pack", pack, "--json").json
    assert {run["session_id"] for run in told["runs"]} == set(sessions)
    golden = kitchen.folder / "golden"
    assert tercet("golden", "add", past, "--to", golden).code == 0
    assert len(list(golden.glob("*.tercet"))) == 2


def test_a_journal_that_was_changed_is_not_replayed(tercet: Tercet, kitchen: Kitchen) -> None:
    """Bytes that do not fit their chain are told by the journal itself: nobody judges what was never recorded."""
    first, _ = run_two(tercet, kitchen)
    with closing(sqlite3.connect(kitchen.folder / "tercet.db")) as db:
        db.execute("UPDATE events SET data = CAST(replace(CAST(data AS TEXT), 'rye', 'rxe') AS BLOB)")
        db.commit()
    answer = tercet("replay", first)
    assert answer.code == 5
    assert "the journal is damaged at event" in answer.text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), "which_runs"),
        (("ses_0123456789abcdef",), "unknown_session"),
        (("run_0123456789abcdef",), "unknown_session"),
        (("nowhere.tercet",), "bundle_not_found"),
        (("--all", "ses_0123456789abcdef"), "which_runs"),
        (("ses_0123456789abcdef", "--intent", "bake"), "which_runs"),
        (("--all", "--pack", BAKERY, "--installed", BAKERY), "which_pack"),
        (("--all", "--status", "happy"), "unknown_status"),
        ((REFUNDS,), "no_runs"),
    ],
)
def test_wrong_use_is_told(tercet: Tercet, kitchen: Kitchen, words: tuple[str, ...], code: str) -> None:
    """Each mistake has its code and a remedy, and exits with 2."""
    run_two(tercet, kitchen)
    answer = tercet("replay", *words, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, code)
    assert answer.json["error"]["remedy"]


@pytest.mark.req("R275", "R276")
def test_golden_runs_are_kept_and_checked(tercet: Tercet, kitchen: Kitchen, pack: Path) -> None:
    """A set of runs is the same until a pack judges one of them otherwise, or a file is not what was kept."""
    _, session = run_two(tercet, kitchen)
    folder = kitchen.folder / "golden"
    assert tercet("golden", "check", folder, "--json").json["error"]["code"] == "no_golden_runs"
    assert tercet("golden", "add", session, "--to", folder).code == 0
    assert tercet("golden", "add", session, "--to", folder, "--json").json["error"]["code"] == "file_exists"
    assert tercet("golden", "add", folder / f"{session}.tercet", "--to", kitchen.folder / "copy").code == 0
    assert tercet("golden", "check", folder).code == 0
    assert tercet("golden", "check", folder, "--pack", pack).code == 0
    file = pack / POLICIES
    file.write_text(file.read_text().replace("amount_inr <= 50000", "amount_inr <= 100"))
    changed = tercet("golden", "check", folder, "--pack", pack)
    assert changed.code == 3
    assert "1 golden run under refunds@1.0.0: 0 the same, 1 changed" in changed.text
    assert "GATE_DIRECTOR_APPROVAL" in changed.text
    damaged = shutil.copytree(folder, kitchen.folder / "damaged") / f"{session}.tercet"
    damaged.write_bytes(damaged.read_bytes().replace(b"ord_881", b"ord_882", 1))
    answer = tercet("golden", "check", damaged.parent, "--json")
    assert answer.code == 3
    [run] = answer.json["runs"]
    assert (run["outcome"], "record" in run["error"]) == ("unreadable", True)


def test_ctrl_c_leaves_what_was_found() -> None:
    """A real SIGINT while the third run is judged: the two before it count, and what was open is closed."""
    steps: list[str] = []

    def judge() -> Generator[int]:
        try:
            yield from (1, 2)
            signal.raise_signal(signal.SIGINT)
            yield 3
        finally:
            steps.append("closed")

    taken: list[int] = []
    cut = gather(judge(), taken.append, 5, is_shown=True)
    assert isinstance(cut, KeyboardInterrupt)
    assert (taken, steps) == ([1, 2], ["closed"])


def test_a_run_that_is_damaged_does_not_hide_what_was_found_before(tercet: Tercet, kitchen: Kitchen) -> None:
    """The newest run is judged, then the damaged one is told: exit 5; a program gets the error alone."""
    run_two(tercet, kitchen)
    with closing(sqlite3.connect(kitchen.folder / "tercet.db")) as db:
        db.execute("UPDATE events SET data = CAST(replace(CAST(data AS TEXT), 'rye', 'rxe') AS BLOB)")
        db.commit()
    answer = tercet("replay", "--all")
    assert answer.code == 5
    assert "replay_equal" in answer.text
    assert "1 of 2 runs were judged" in answer.text
    assert "the journal is damaged at event" in answer.text
    told = tercet("replay", "--all", "--json")
    assert (told.code, set(told.json)) == (5, {"error"})
