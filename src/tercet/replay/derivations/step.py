"""Steps: what was called and what it brought. Results are facts; every decision about them is derived."""

from __future__ import annotations

import msgspec

from tercet.contracts.invocation import Backoff
from tercet.contracts.loop import Phase
from tercet.contracts.shape import as_object
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.backoff import delay_ms
from tercet.core.decide import has_retries
from tercet.core.drift import approved_drift
from tercet.core.fold.base import INTERRUPTED, ROLE_LOST, STOPPED
from tercet.core.state import UNDO, StepState
from tercet.replay.derivations.derived import Derived
from tercet.replay.scene import ReplayState

BREAKER = "the circuit of its tool was open"
ANSWERED = "its tool looked the outcome up"
PEOPLE = "who holds a role had changed"
REPEATS = "which calls other runs had made"

_LEAST, _MOST = (lambda: 0.0), (lambda: 1.0)
"""The bounds of a jitter; what was drawn between them is a fact."""


# --- calls ---


def intent(scene: ReplayState, event: e.Intent) -> Derived | None:
    """The call that was due, resolved again, with its key, its reservation and its deadline."""
    if not event.tool:
        return _note(scene, event)
    command = scene.due(c.Dispatch, at=event.at, step=event.step)
    if command is None:
        return None
    if (drift := _drift(scene, event.step, event.at)) is not None:
        return Derived(event=drift)
    made = scene.work.intent(
        scene.state, scene.setting, scene.followed, command, event.at, event.epoch, event.breaker
    )
    return Derived(event=made)


def _note(scene: ReplayState, event: e.Intent) -> Derived | None:
    command = scene.due(c.Note, at=event.at, step=event.step)
    if command is None:
        return None
    attempt = scene.state.steps[event.step].attempt + 1
    scene.owed.append(e.Complete(at=event.at, step=event.step, attempt=attempt, value=command.params))
    key = f"note:{event.step}:{attempt}"
    return Derived(event=e.Intent(at=event.at, step=event.step, tool="", params={}, key=key, attempt=attempt))


def _drift(scene: ReplayState, name: str, at: int) -> e.StepRefused | None:
    """Evidence that had expired by then. Who held a role then is not known here, so nobody had lost theirs."""
    call = scene.followed.calls[name]
    found = approved_drift(scene.state, scene.setting, name, call, at, lambda _, __: "")
    if found is None or scene.state.steps[name].is_unsettled:
        return None
    return e.StepRefused(at=at, step=name, code=found.code, reason=found.reason)


def complete(scene: ReplayState, event: e.Complete) -> Derived | None:
    """A result is a fact; what it is booked with, and which outputs a large one carries, is not."""
    step = scene.state.steps.get(event.step)
    if step is None:
        return None
    declared: list[str] = scene.state.plan.get("declared_outputs", []) if event.blob else []
    large = as_object(scene.blobs[event.blob]) if event.blob else None
    carries = tuple(output for output in declared if output in (large or ()))
    booked = msgspec.structs.replace(event, tokens=step.tokens, cost=step.cost, carries=carries)
    return Derived(event=booked, fact="what a tool answers")


def repeats_checked(scene: ReplayState, event: e.RepeatsChecked) -> Derived | None:
    """The search for earlier calls that was due. What it found is a fact, and so is what turned up before the call."""
    command = scene.due(c.CheckRepeats, at=event.at, step=event.step)
    command = command or scene.due(c.Dispatch, at=event.at, step=event.step)
    if command is None:
        return None
    return Derived(event=msgspec.structs.replace(event, key=command.key), fact=REPEATS)


# --- refusals, skips ---


def step_refused(scene: ReplayState, event: e.StepRefused) -> Derived | None:
    """Why a step was not called."""
    name, at = event.step, event.at
    if (command := scene.due(c.Fault, at=at, step=name)) is not None:
        return Derived(event=e.StepRefused(at=at, step=name, code=command.code, reason=command.reason))
    if scene.due(c.Dispatch, at=at, step=name) is None:
        return None
    if (drift := _drift(scene, name, at)) is not None:
        return Derived(event=drift)
    if event.code == ROLE_LOST:
        return Derived(event=event, fact=PEOPLE)
    reason = f"the circuit of {scene.followed.calls[name].tool.name} is open"
    refused = e.StepRefused(at=at, step=name, code="circuit_open", reason=reason)
    return Derived(event=refused, fact=BREAKER)


def step_skipped(scene: ReplayState, event: e.StepSkipped) -> Derived | None:
    """A step that is left out: its condition is false, or nothing needs it. One that failed was judged before."""
    command = scene.due(c.Skip, at=event.at, step=event.step)
    if command is None:
        return None
    return Derived(event=e.StepSkipped(at=event.at, step=event.step, reason=command.reason))


# --- judgements ---


def judged(
    scene: ReplayState, event: e.StepJudged | e.LoopGuardTripped | e.RetryScheduled | e.StepSkipped
) -> Derived | None:
    """What the critic says of a step; what follows at once is owed, since it was appended together."""
    if scene.due(c.Judge, at=event.at, step=event.step) is None:
        return None
    args = scene.state, scene.setting, scene.course, event.step, event.at
    first, *rest = scene.work.judge(*args, _LEAST)
    scene.owed.extend(rest)
    return Derived(event=first)


def retry_within(event: e.RetryScheduled, owed: e.RetryScheduled, step: StepState) -> e.RetryScheduled:
    """A retry that is owed, with the time that was drawn if it lies within the jitter."""
    least = owed.not_before - owed.at
    most = max(delay_ms(Backoff(), step.retries, _MOST), step.retry_after)
    is_within = owed.at + least <= event.not_before <= event.at + most
    return msgspec.structs.replace(owed, not_before=event.not_before) if is_within else owed


# --- unknown outcomes ---


def settled(scene: ReplayState, event: e.Settled) -> Derived | None:
    """What followed from an unknown outcome: by what the tool declares, or by what it found when it looked it up."""
    name, at = event.step, event.at
    if scene.due(c.Settle, at=at, step=name) is None:
        return None
    call, step = scene.followed.calls[name], scene.state.steps[name]
    is_over = scene.state.phase is Phase.FAIL and not name.startswith(UNDO)
    if call.tool.reconciles:
        return _looked_up(scene, event, step, is_over=is_over)
    wait = _waits(step.attempt - 1) if step.attempt > 1 else (0, 0)
    is_within = scene.state.at + wait[0] <= event.not_before <= at + wait[1]
    return Derived(
        event=e.Settled(
            at=at,
            step=name,
            attempt=step.attempt,
            how="absent" if is_over else "run_again",
            by="idempotent" if call.tool.idempotent else "pure",
            not_before=event.not_before if is_within else at + wait[0],
        )
    )


def _looked_up(scene: ReplayState, event: e.Settled, step: StepState, *, is_over: bool) -> Derived:
    is_cut_off = step.code in (INTERRUPTED, STOPPED)
    can_retry = is_cut_off or has_retries(scene.state, scene.setting, step)
    if event.how == "absent" and not can_retry and not is_over:
        tool = scene.followed.calls[event.step].tool
        reason = f"{tool.name} did not happen, and has no retries left"
        scene.owed.append(
            e.StepRefused(at=event.at, step=event.step, code="retries_exhausted", reason=reason)
        )
    how = event.how if event.how != "run_again" else "ask_again"
    looked_up = msgspec.structs.replace(event, attempt=step.attempt, by="reconcile", how=how)
    return Derived(event=looked_up, fact=ANSWERED)


def _waits(retry: int) -> tuple[int, int]:
    return delay_ms(Backoff(), retry, _LEAST), delay_ms(Backoff(), retry, _MOST)
