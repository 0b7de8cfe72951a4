"""`tercet sessions`: looking at runs, following them, and going on with them."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import time

import pytest

from tercet.journal.opening import open_journal

from .harness import REFUNDS, Answer, Tercet
from .runs import BAKERY, LOOK, ORDER, ORDER_881, REFUND, Kitchen, bake


def started(answer: Answer) -> str:
    """The session that a run told first."""
    return answer.out.split()[1]


def test_sessions_are_listed_newest_first(tercet: Tercet, kitchen: Kitchen) -> None:
    """The list names each session with its state and the gate that it waits at, and can be narrowed to one state."""
    first = started(tercet("run", BAKERY, "--plan", kitchen.plan(LOOK)))
    second = started(tercet(*REFUND, ORDER_881))
    lines = tercet("sessions", "list").out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        [second, "waiting", "support.refund"],
        [first, "completed", "bake"],
    ]
    assert lines[0].endswith("gate g1")
    assert "gate" not in lines[1]
    (row,) = tercet("sessions", "list", "--status", "completed", "--json").json["sessions"]
    assert (row["session_id"], row["pack"], row["owner"]) == (first, "bakery@1.0.0", "agt_support")
    assert tercet("sessions", "list", "--status", "failed").out == "There is no matching session.\n"
    for word in ("waiting", "awaiting_gate"):
        (row,) = tercet("sessions", "list", "--status", word, "--json").json["sessions"]
        assert (row["session_id"], row["status"]) == (second, "awaiting_gate")


def test_a_session_is_shown_as_a_tree(tercet: Tercet, kitchen: Kitchen) -> None:
    """Each step has its mark and its latency; below stand verdicts, budget, the gate and the commands that answer it."""
    session = started(tercet(*REFUND, ORDER_881))
    shown = tercet("sessions", "show", session)
    assert shown.code == 0
    assert f"session   {session}, waiting" in shown.out
    assert "✓ order  adp_orders.lookup" in shown.out
    assert "   └─ ? refund  adp_payments.issue_refund  waits at gate g1" in shown.out
    assert "2 tool calls of 20" in shown.out
    assert "review    ok: 3 steps, 2 required outputs covered" in shown.out
    assert f"    tercet gates approve {session}.g1\n" in shown.out
    assert f"    tercet sessions resume {session} --pack {shlex.quote(str(REFUNDS))}\n" in shown.out


@pytest.mark.req("R69")
def test_a_session_shows_its_critical_path_and_who_may_wait(tercet: Tercet, kitchen: Kitchen) -> None:
    """Of a plan whose steps say how long they take, the longest chain is shown, and how long the others may wait."""
    slow = {**LOOK, "id": "slow", "estimated_ms": 2_500}
    quick = {**LOOK, "id": "quick", "estimated_ms": 400}
    last = {**LOOK, "id": "last", "depends_on": ["slow", "quick"]}
    run = tercet("run", BAKERY, "--plan", kitchen.plan(slow, quick, last), "--shadow", "--json").json
    shown = tercet("sessions", "show", run["session_id"])
    assert "time      2.5 s (2.9 s one after the other) along slow" in shown.out
    assert "may wait  quick 2.1 s" in shown.out
    assert "unknown   how long last takes" in shown.out
    schedule = tercet("sessions", "show", run["session_id"], "--json").json["schedule"]
    assert (schedule["total_ms"], schedule["sequential_ms"]) == (2_500, 2_900)
    assert {name: (step["source"], step["slack_ms"]) for name, step in schedule["steps"].items()} == {
        "slow": ("step", 0),
        "quick": ("step", 2_100),
        "last": ("unknown", 0),
    }


def test_an_answered_session_asks_to_be_resumed(tercet: Tercet, kitchen: Kitchen) -> None:
    """After the answer nobody is waited for; once it was gone on with and failed, the list names no next step."""
    session = started(tercet(*REFUND, ORDER_881))
    assert tercet("gates", "deny", f"{session}.g1").code == 0
    assert "· ending rejected: agt_support denied refund" in tercet("sessions", "show", session).out
    assert tercet("sessions", "resume", session, "--pack", REFUNDS).code == 5
    assert "next" not in tercet("sessions", "list").out


def test_a_session_that_is_over_is_shown_with_its_record(tercet: Tercet, kitchen: Kitchen) -> None:
    """What is left of a run is summed up, and whole in the JSON."""
    session = started(tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, bake(0))))
    shown = tercet("sessions", "show", session)
    assert "2 calls, 0 approvals, 0 facts pinned" in shown.out
    assert "critic    verify and score passed (policy 1, utility 1, latency 1, safety 1, cost 1)" in shown.out
    assert "tercet sessions show" not in shown.out
    record = tercet("sessions", "show", session, "--json").json["decision_record"]
    assert [entry["call"]["tool"] for entry in record["transcript"]] == ["bakery.look", "bakery.bake"]


def test_a_session_is_followed_from_its_first_event(tercet: Tercet, kitchen: Kitchen) -> None:
    """Watching a session that is over tells it all, and ends as the run did."""
    session = started(tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, bake(0))))
    answer = tercet("sessions", "watch", session)
    assert answer.code == 0
    assert answer.out.startswith(f"session   {session}\n")
    assert "✓ bake  bakery.bake" in answer.out
    assert "✓ completed in" in answer.out
    lines = [json.loads(line) for line in tercet("sessions", "watch", session, "--json").out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert [lines[0]["event"]["type"], lines[-1]["event"]["type"]] == ["session_started", "session_ended"]


def test_a_session_is_followed_while_it_runs(tercet: Tercet, kitchen: Kitchen) -> None:
    """Watching a session that another process carries ends when it is over."""
    running = kitchen.start_baking(1.5)
    assert running.stdout is not None
    session = running.stdout.readline().split()[1]
    answer = tercet("sessions", "watch", session, "--json")
    assert answer.code == 0
    assert json.loads(answer.out.splitlines()[-1])["event"]["status"] == "completed"
    running.communicate(timeout=600)


def test_a_session_that_is_over_is_not_resumed(tercet: Tercet, kitchen: Kitchen) -> None:
    """Going on with a finished session does nothing, says how it ended, and exits as it did."""
    session = started(tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, bake(0))))
    before = tercet("sessions", "show", session, "--json").json["updated_at"]
    answer = tercet("sessions", "resume", session, "--pack", BAKERY)
    assert answer.code == 0
    assert f"session {session} is over: nothing was done" in answer.text
    assert "✓ completed in" in answer.out
    refused = started(tercet("run", REFUNDS, "--plan", REFUNDS / "plans" / "plan_a.json"))
    assert tercet("sessions", "resume", refused, "--pack", REFUNDS).code == 3
    assert tercet("sessions", "show", session, "--json").json["updated_at"] == before
    assert kitchen.count("calls") == 1


@pytest.mark.parametrize("command", ["show", "watch", "resume"])
def test_an_unknown_session_is_wrong_use(tercet: Tercet, kitchen: Kitchen, command: str) -> None:
    """A session that is not in the journal is answered with how to find those that are."""
    tercet("run", BAKERY, "--plan", kitchen.plan(LOOK))
    pack = ("--pack", BAKERY) if command == "resume" else ()
    answer = tercet("sessions", command, "ses_nowhere", *pack, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "unknown_session")
    assert "tercet sessions list" in answer.json["error"]["remedy"]


def test_looking_makes_no_journal(tercet: Tercet, kitchen: Kitchen) -> None:
    """Where there is no journal, looking says so and makes none."""
    for words in (("sessions", "list"), ("sessions", "show", "ses_1"), ("gates", "list")):
        answer = tercet(*words, "--json")
        assert (answer.code, answer.json["error"]["code"]) == (2, "journal_not_found")
    assert not list(kitchen.folder.glob("*.db"))


def test_an_unknown_status_is_wrong_use(tercet: Tercet, kitchen: Kitchen) -> None:
    """A state that no session has is answered with those that there are."""
    answer = tercet("sessions", "list", "--status", "sleepy")
    assert answer.code == 2
    assert "choose one of in_progress, waiting" in answer.err


def test_another_pack_does_not_resume_a_session(tercet: Tercet, kitchen: Kitchen) -> None:
    """A session goes on only with the pack that it was started with, and can be tried again at once."""
    session = started(tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, ORDER)))
    for _ in range(2):
        answer = tercet("sessions", "resume", session, "--pack", REFUNDS, "--json")
        assert answer.code == 2
    assert tercet("sessions", "resume", session, "--pack", BAKERY).code == 4


def test_a_dead_process_is_waited_for_until_its_lease_ends(tercet: Tercet, kitchen: Kitchen) -> None:
    """Going on with a session whose process died says how long its lease still runs, and takes over then."""
    session = started(tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, ORDER)))

    async def hold() -> None:
        async with open_journal("sqlite:///tercet.db") as journal:
            now = int(time.time() * 1000)
            await journal.acquire("default", session, owner="oven:4711:ab", now_ms=now, ttl_ms=4_000)

    asyncio.run(hold())
    answer = tercet("sessions", "resume", session, "--pack", BAKERY)
    assert answer.code == 4
    assert "· process 4711 on oven holds the lease on this session; waiting" in answer.out


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_a_session_in_progress_says_which_process_has_it(tercet: Tercet, kitchen: Kitchen) -> None:
    """After a kill -9 it names the process and how long its lease still runs, then that it has ended, or that none has it."""
    running = kitchen.start_baking(60)
    running.kill()
    session = started(Answer(code=0, out=running.communicate(timeout=600)[0], err=""))
    shown = tercet("sessions", "show", session)
    assert f"▸ in progress: process {running.pid} on" in shown.out
    assert "runs it; its lease expires in" in shown.text
    assert tercet("sessions", "show", session, "--json").json["lease"]["has_ended"] is False

    async def hand_over(owner: str) -> None:
        async with open_journal("sqlite:///tercet.db") as journal:
            held = await journal.lease("default", session)
            assert held is not None
            await journal.release(held)
            if owner:
                await journal.acquire("default", session, owner=owner, now_ms=1, ttl_ms=1)

    asyncio.run(hand_over("oven:4711:ab"))
    assert "process 4711 on oven ran it, and its lease expired" in tercet("sessions", "show", session).text
    asyncio.run(hand_over(""))
    assert "▸ in progress: no process runs it: resume it" in tercet("sessions", "show", session).out
    assert tercet("sessions", "show", session, "--json").json["lease"] is None
