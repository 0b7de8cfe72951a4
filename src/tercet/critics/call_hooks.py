"""The stages `tool` and `recovery` of hooks, which are read from the events of a run as they become durable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tercet.contracts.plan import compensated_step
from tercet.contracts.shape import as_object
from tercet.core import events as e
from tercet.core.state import State
from tercet.critics.hooks import Recovery, ToolCall
from tercet.critics.stepper import AnySteps


class CallHooks:
    """Calls the hooks of one run before and after each tool call, and when the run recovers from a failure."""

    def __init__(self, steps: AnySteps) -> None:
        self._steps = steps
        self._calls: dict[str, ToolCall] = {}
        """The calls in progress, by their steps."""

    def __call__(self, state: State, event: e.Event) -> None:
        """Receive an event of any run of the runtime."""
        if state.start.run != self._steps.run_id:
            return
        match event:
            case e.Intent() if event.tool:
                call = ToolCall(step=event.step, tool=event.tool, args=event.params, attempt=event.attempt)
                if (of := compensated_step(event.step)) and event.attempt == 1:
                    self._recover("compensate", f"{event.tool} compensates step {of}")
                self._calls[event.step] = call
                self._mention("before", call)
            case e.Complete():
                self._end(event.step, _failed(event.error) if event.error else _result(event))
            case e.Abort():
                self._end(event.step, _failed(event.error))
            case e.RetryScheduled():
                self._recover("retry", f"step {event.step} is called again after attempt {event.attempt}")
            case e.PlanningFailed() if event.outcome == "replan":
                self._recover("decide", event.reason)
            case e.SessionResumed() if event.in_flight:
                self._recover("resume", f"step {', '.join(event.in_flight)} was interrupted")
            case _:
                pass

    def _end(self, step: str, result: dict[str, Any]) -> None:
        if (call := self._calls.pop(step, None)) is not None:
            self._mention("after", replace(call, result=result))

    def _mention(self, when: Any, call: ToolCall) -> None:
        self._steps.hooks.mention(when, "tool", replace(self._steps.next_moment(), call=call))

    def _recover(self, kind: Any, reason: str) -> None:
        moment = replace(self._steps.next_moment(), recovery=Recovery(kind=kind, reason=reason))
        for when in ("before", "after"):
            self._steps.hooks.mention(when, "recovery", moment)


def _failed(error: str) -> dict[str, Any]:
    return {"error": error}


def _result(event: e.Complete) -> dict[str, Any]:
    """Return the result of a call; a large one is stored apart, and is in the results of its step."""
    if event.blob:
        return {"blob": event.blob}
    members = as_object(event.value)
    return {"result": event.value} if members is None else members
