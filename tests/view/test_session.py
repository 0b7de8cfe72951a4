"""The view of a session: numbers that agree everywhere, everybody who approved, and what accepted the outputs."""

from __future__ import annotations

import io
from dataclasses import replace

import msgspec
import pytest

from engine.quality_desk import AUTHORED, LETTER, desk
from engine.test_limits import failing
from engine.workshop import ADA, ASK, BOB, CLEO, Workshop, plan, step
from tercet.cli.journals import RecordedSession
from tercet.cli.sessions.next_commands import Commands
from tercet.cli.sessions.session_view import show_session
from tercet.contracts.gate import Gate
from tercet.core import events as e
from tercet.replay.run_data import read_run
from tercet.view.events import RunData, describe
from tercet.view.gate import GateView
from tercet.view.html.graph import draw_plan
from tercet.view.html.page import render
from tercet.view.html.safe_text import SafeText
from tercet.view.quality import acceptance_text
from tercet.view.run import run_view
from tercet.view.session import count_run
from tercet.view.terminal.screen import Screen

from .runs import eventful, letter, sign_with_a_change


def shown(run: RunData) -> str:
    """Return what `tercet sessions show` prints about a run."""
    screen = Screen()
    screen.file, screen.width = io.StringIO(), 110
    story = RecordedSession(state=run.state, events=run.events, rollback=run.rollback)
    show_session(screen, story, Commands(journal="memory:"), now=run.state.at, record=run.record, holder="")
    return screen.file.getvalue()


def approved_by_two(workshop: Workshop) -> RunData:
    """Return a run of one call, approved by two people."""
    workshop.tool("do.it", mode="destructive", gates=["BOSS"], no_compensation="it is gone")
    pack = workshop.pack(gates=(Gate(name="BOSS", roles=("boss",), quorum=2),))

    async def main() -> RunData:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a", params={})), actor=ADA)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            await runtime.approve(result.gate.id, actor=CLEO, note="agreed")
            result = await runtime.resume(result.session_id)
            assert result.status == "completed", result
            return await read_run(runtime.journal, "default", result.session_id)

    return workshop.run(main())


def test_a_two_person_approval_names_both_everywhere(workshop: Workshop) -> None:
    """In the gate, at the step, in the graph, in the list of answers, on the terminal and in the record."""
    run = approved_by_two(workshop)
    view = run_view(run)
    (gate,) = view.gates
    assert isinstance(gate, GateView)
    assert (gate.state, view.plans[0].steps[0].people) == (
        "approved by bob and cleo",
        ("approved by bob and cleo",),
    )
    assert [line.text for line in view.session.answers] == [
        "g1 approved by bob",
        "g1 approved by cleo (agreed)",
    ]
    page, text = render(view), shown(run)
    assert '<text class="gate" x="29.0" y="87.0">approved by bob and cleo</text>' in page
    assert "answers   g1 approved by bob, g1 approved by cleo (agreed)" in text
    assert run.record is not None
    assert [each["approver"] for each in run.record["approvals"]] == ["bob", "cleo"]
    assert (view.session.counts.approvals, "1 call, 2 approvals" in text) == (2, True)


def compensated_run(workshop: Workshop, *, undo_failures: int = 0) -> RunData:
    """Return a failed run whose one effect is compensated, by a call that fails so many times."""
    workshop.tool("do.it", compensate={"tool": "undo.it", "params": {}}, reversibility="compensable")
    workshop.tool("undo.it", failing(undo_failures), no_compensation="it undoes")
    workshop.tool("fail.it", failing(99), no_compensation="it does nothing")

    async def main() -> RunData:
        async with workshop.runtime(workshop.pack(on_failure="compensate")) as runtime:
            steps = step("a", params={}), step("b", "fail.it", params={}, depends_on=("a",))
            result = await runtime.run(ASK, plan=plan(*steps), actor=ADA)
            assert result.gate is not None
            await runtime.decide(result.gate.id, "abandon", actor=BOB)
            result = await runtime.resume(result.session_id)
            assert result.status == "failed", result
            return await read_run(runtime.journal, "default", result.session_id)

    return workshop.run(main())


def test_a_compensated_step_is_not_shown_as_done(workshop: Workshop) -> None:
    """In the list of steps, in the graph, in the headline of the run and on the terminal."""
    run = compensated_run(workshop)
    view = run_view(run)
    done, failed = view.plans[0].steps
    assert (done.mark, done.tone, done.word) == ("↶", "quiet", "compensated by undo.it")
    assert failed.mark == "✗"
    drawing = draw_plan(view.plans[0], SafeText())
    assert drawing is not None
    assert (drawing.nodes[0].mark, drawing.nodes[0].how) == ("↶", "compensated by undo.it")
    assert view.session.effects == ("a was compensated by undo.it.",)
    assert "a was compensated by undo.it" in shown(run)


def test_a_failed_compensation_is_not_shown_as_skipped(workshop: Workshop) -> None:
    """At the step, on the terminal, and in the line that is printed when it fails."""
    run = compensated_run(workshop, undo_failures=99)
    step = run_view(run).plans[0].steps[0]
    assert (step.mark, step.tone, step.word) == ("✗", "bad", "compensation by undo.it: failed")
    tries = run.state.steps["~a"].attempt
    assert tries > 1
    assert f"✗ ↶ a  undo.it  failed after {tries} attempts: " in shown(run)
    skipped = next(event for event in run.events if isinstance(event, e.StepSkipped))
    line = describe(skipped, run.state)
    assert (line.mark, line.text) == ("✗", f"failed after {tries} attempts: its effect is still there")
    assert describe(skipped).text == "failed: its effect may still be there"


def test_the_numbers_of_a_run_agree(workshop: Workshop) -> None:
    """A retried call and one that a lost process cut off count as they were made, on the page and on the terminal."""
    run = eventful(workshop)
    view = run_view(run)
    counts = count_run(run.state, run.events)
    assert view.session.counts == counts
    assert counts.calls == sum(len(each.attempts) for each in view.plans[0].steps) == 4
    assert (counts.done, counts.steps, counts.approvals, counts.facts) == (2, 2, 1, 1)
    page, text = render(view), shown(run)
    assert "<dt>calls</dt><dd>4</dd>" in page
    assert "<dt>steps done</dt><dd>2 of 2</dd>" in page
    assert "4 calls, 1 approval, 1 fact pinned" in text
    assert "2 of 2 steps done" in text


def test_a_withdrawn_approval_does_not_count(workshop: Workshop) -> None:
    """Nor does an answer count once for each call that its gate covers."""
    state = approved_by_two(workshop).state
    first, second = state.answers
    again = msgspec.structs.replace(second, step="b")
    withdrawn = msgspec.structs.replace(first, answer="withdraw")
    assert count_run(msgspec.structs.replace(state, answers=(first, second, again)), ()).approvals == 2
    assert count_run(msgspec.structs.replace(state, answers=(first, second, withdrawn)), ()).approvals == 1


def test_skipped_steps_are_counted_apart(workshop: Workshop) -> None:
    """A step whose condition is false is neither done nor missing."""
    workshop.tool("do.it")

    async def main() -> RunData:
        async with workshop.runtime(workshop.pack()) as runtime:
            steps = plan(step("a"), step("b", when="1 > 2"))
            result = await runtime.run(ASK, plan=steps, actor=ADA)
            return await read_run(runtime.journal, "default", result.session_id)

    run = workshop.run(main())
    assert count_run(run.state, run.events).steps_text == "1 of 2 steps done, 1 skipped"
    assert "completed in 0 ms of work: 1 of 2 steps done, 1 skipped" in shown(run)
    assert "<dt>steps done, 1 skipped</dt><dd>1 of 2</dd>" in render(run_view(run))


def lowered(run: RunData) -> RunData:
    """Return a run whose last verification scored 0.66 of 0.85."""
    verified = [number for number, event in enumerate(run.events) if isinstance(event, e.OutputsVerified)]
    events = list(run.events)
    found = events[verified[-1]]
    assert isinstance(found, e.OutputsVerified)
    verdict = {**found.verdict, "score": 0.66, "threshold": 0.85}
    events[verified[-1]] = msgspec.structs.replace(found, verdict=verdict)
    return replace(run, events=tuple(events))


def committed(workshop: Workshop) -> RunData:
    """Return a run whose outputs the rules of its decision accepted."""
    pack = desk(workshop, {}, quality=AUTHORED)

    async def main() -> RunData:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(step("draft")), actor=ADA)
            assert (result.status, result.outputs) == ("completed", {"letter": LETTER}), result
            return await read_run(runtime.journal, "default", result.session_id)

    return workshop.run(main())


LOW = "the verification score 0.66 is below 0.85, which lowers confidence and is not a limit of the decision."


def test_outputs_with_a_low_score_say_which_rule_accepted_them(workshop: Workshop) -> None:
    """Every limit that was decided by is named, and that the verification score is not one of them."""
    run = committed(workshop)
    plainly = acceptance_text(run.state, run.events)
    assert plainly.startswith("Accepted by rule: every limit of the decision holds (schema 1 ≥ 1, ")
    assert LOW not in plainly
    low = lowered(run)
    assert acceptance_text(low.state, low.events).endswith(LOW)
    assert LOW in render(run_view(low))
    assert LOW in " ".join(shown(low).split())


def test_outputs_that_people_accepted_name_them() -> None:
    """A person's approval is named in place of a rule."""
    run = lowered(letter("key", answer=sign_with_a_change))
    text = acceptance_text(run.state, run.events)
    assert text.startswith("Accepted by user_editor; every limit of the decision holds (")
    assert text.endswith(LOW)


@pytest.mark.parametrize("faults", [("total", "claim"), ()])
def test_outputs_that_wait_are_accepted_by_nobody(faults: tuple[str, ...]) -> None:
    """A run that waits or escalated says nothing about acceptance."""
    run = letter(*faults)
    assert acceptance_text(run.state, run.events) == ""
