"""What a tool states when it fails: that it was not done, that it was and has nothing to show, and when to ask again."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import GatewayError, NotDone, Unusable
from tercet.core import events as e
from tercet.tools import ToolContext

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


def test_what_would_fail_again_is_not_tried_again(workshop: Workshop) -> None:
    """A tool that says so is called once, though the step has retries left."""
    workshop.tool("do.it", one_after_the_other(NotDone("no such customer", is_retriable=False)))
    run(workshop)
    assert workshop.calls == [("a", 1)]


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
