"""What a tool states when it fails: that it was not done, that it was and has nothing to show, and when to ask again."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import GatewayError, NotDone, Unusable
from tercet.contracts.runs.budget import RunBudget
from tercet.contracts.runs.invocation import Backoff
from tercet.core import events as e
from tercet.core.answers import delay_ms
from tercet.tools import ToolContext
from tercet.tools.tool import Absent

from .workshop import ADA, ASK, Behave, Workshop, events, plan, step


def one_after_the_other(*errors: Exception) -> Behave:
    """A tool that fails so, once each, and then works."""
    left = list(errors)

    async def behave(_: ToolContext, params: dict[str, Any]) -> Any:
        if left:
            raise left.pop(0)
        return params

    return behave


def run(workshop: Workshop) -> tuple[str, list[e.Event]]:
    """How a run of one step ends, and its events."""

    async def main() -> tuple[str, list[e.Event]]:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
            return str(result.status), await events(runtime.journal, result.session_id)

    return workshop.run(main())


@pytest.mark.req("R38")
def test_what_would_fail_again_is_not_tried_again(workshop: Workshop) -> None:
    """A tool that says so is called once, though the step has retries left; its own code is recorded."""
    error = NotDone("no such customer", code="unknown_customer", is_retriable=False)
    workshop.tool("do.it", one_after_the_other(error))
    _, found = run(workshop)
    assert workshop.calls == [("a", 1)]
    [aborted] = [event for event in found if isinstance(event, e.Abort)]
    assert (aborted.code, aborted.retriable) == ("unknown_customer", False)


@pytest.mark.req("R38")
def test_a_call_that_a_look_up_does_not_find_has_run_out_of_retries(workshop: Workshop) -> None:
    """A lost call is looked up and tried again until its retries are spent; then the step is refused with that code."""
    lost = GatewayError("lost", code="connection_lost")

    async def absent(**_: Any) -> Absent:
        return Absent()

    workshop.tool("do.it", one_after_the_other(*[lost] * 9), reconcile=absent)
    _, found = run(workshop)
    assert [event.code for event in found if isinstance(event, e.StepRefused)] == ["retries_exhausted"]
    assert len(workshop.calls) == 1 + RunBudget().max_step_retries


@pytest.mark.req("R36")
def test_a_call_is_made_on_the_terms_of_its_tool_and_budget(workshop: Workshop) -> None:
    """Every attempt has the tool's timeout, one key and the state of the breaker; retries wait longer each time, and end."""
    workshop.tool("do.it", one_after_the_other(*[NotDone("busy")] * 9), timeout_ms=700)
    _, found = run(workshop)
    intents = [event for event in found if isinstance(event, e.Intent)]
    assert [(event.attempt, event.deadline - event.at, event.breaker) for event in intents] == [
        (1 + retry, 700, "CLOSED") for retry in range(1 + RunBudget().max_step_retries)
    ]
    assert len({event.key for event in intents}) == 1
    waits = [event.not_before - event.at for event in found if isinstance(event, e.RetryScheduled)]
    assert (
        waits == [delay_ms(Backoff(), retry, lambda: 0.5) for retry in range(len(waits))] == [150, 250, 450]
    )


def test_a_tool_is_not_called_before_the_time_it_asked_for(workshop: Workshop) -> None:
    """The wait before a retry is at least what the tool asked for."""
    workshop.tool("do.it", one_after_the_other(NotDone("too many", retry_after_ms=45_000)))
    status, found = run(workshop)
    [retry] = [event for event in found if isinstance(event, e.RetryScheduled)]
    assert (status, workshop.calls) == ("completed", [("a", 1), ("a", 2)])
    assert retry.not_before - retry.at == 45_000


@pytest.mark.req("R110")
def test_an_attempt_that_did_nothing_says_nothing_of_the_one_before(workshop: Workshop) -> None:
    """An idempotent call was lost, the next one was turned away at the door: whether it happened is still open."""
    lost, away = (
        GatewayError("lost", code="connection_lost"),
        NotDone("closed", is_attempt_only=True, is_retriable=False),
    )
    workshop.tool("do.it", one_after_the_other(lost, away), idempotent=True)
    status, found = run(workshop)
    aborted = [(event.outcome, event.code) for event in found if isinstance(event, e.Abort)]
    assert aborted == [("unknown", "connection_lost"), ("not_done", "not_done")]
    assert [event.how for event in found if isinstance(event, e.Settled)] == ["run_again", "run_again"]
    assert (status, workshop.calls) == ("completed", [("a", 1), ("a", 2), ("a", 3)])


@pytest.mark.req("R110")
def test_what_was_done_and_cannot_be_read_is_done(workshop: Workshop) -> None:
    """The step failed, and its tool is never called again."""
    workshop.tool("do.it", one_after_the_other(Unusable("no JSON", code="answer_not_json")), idempotent=True)
    _, found = run(workshop)
    [complete] = [event for event in found if isinstance(event, e.Complete)]
    assert (complete.error, workshop.calls) == ("no JSON", [("a", 1)])


def test_a_read_whose_answer_cannot_be_used_may_be_read_again(workshop: Workshop) -> None:
    """Reading has no effect, so a broken answer is like none."""
    workshop.tool("do.it", one_after_the_other(Unusable("cut off")), mode="read_only")
    status, _ = run(workshop)
    assert (status, workshop.calls) == ("completed", [("a", 1), ("a", 2)])
