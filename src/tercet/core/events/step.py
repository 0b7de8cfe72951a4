"""Events of steps: INTENT before a call, COMPLETE or ABORT after it; verdicts and compensations."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tercet.contracts.plan import COMPENSATES
from tercet.core.events.fact import Fact


class BoundCompensation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The call that compensates a step, resolved when the step was dispatched."""

    tool: str
    params: dict[str, Any] = {}
    """By their own names: values as `$literal`, and references where they read the step's own result."""
    error: str = ""
    """Why it could not be resolved; then nothing can be called."""
    proposed: bool = False
    """Whether the plan proposed it; otherwise the step's tool declares it."""
    evidence: tuple[str, ...] = ()
    """The evidence that the step pinned."""
    gates: tuple[str, ...] = ()
    """The gates that it needs because one of its values has no trusted source."""
    sources: dict[str, str] = {}
    """Where each of its parameters came from, and whether that place is trusted."""
    approved: tuple[str, ...] | None = None
    """The gates at which people approved exactly this call together with its step; None if they did not."""


class CallMarks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """By what calls of different runs are compared. The digests include the tool's name."""

    same: str
    """The digest of what makes two calls the same."""
    like: str
    """The digest of the first parameter of that."""
    names: tuple[str, ...] = ()
    """The parameters to show of a call beside another."""


class EarlierCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A call that another step, mostly of another session, made or may have made."""

    session: str
    step: str
    key: str
    at: int
    outcome: Literal["done", "unknown"] = "done"


class RepeatsChecked(Fact, frozen=True, kw_only=True, tag="repeats_checked"):
    """The earlier calls that count against a call that a tenant's runs may make once in a period."""

    step: str
    key: str
    """The key of the call that was checked."""
    found: tuple[EarlierCall, ...] = ()


class Intent(Fact, frozen=True, kw_only=True, tag="INTENT"):
    """A call is about to be made, with these parameters, under this key, for these reserved costs."""

    step: str
    tool: str
    params: dict[str, Any]
    key: str
    attempt: int
    occurrence: int = 0
    deadline: int = 0
    epoch: int = 0
    tokens: int = 0
    cost: int = 0
    breaker: str = "CLOSED"
    call: str = ""
    """The hash of tool and parameters: what the loop guard compares."""
    hold_calls: int = 0
    """How many calls are kept back for compensating it."""
    hold_cost: int = 0
    compensation: BoundCompensation | None = None
    """Its compensation, bound here: later events do not change its values."""
    marks: CallMarks | None = None
    """The key by which other runs recognise it; None for a call that only reads."""
    lane_calls: int = 0
    """How many tool calls are reserved for a lane; 0 for a call that is not one."""


class Complete(Fact, frozen=True, kw_only=True, tag="COMPLETE"):
    """A call happened. `error` says why its result is unusable; a reconciled one was found, not called."""

    step: str
    attempt: int
    value: Any = None
    blob: str = ""
    """The digest of a value that is too large for the event."""
    carries: tuple[str, ...] = ()
    """The outputs that the plan declares by name only and that a large value holds."""
    error: str = ""
    latency: int = 0
    tokens: int = 0
    cost: int = 0
    reconciled: bool = False
    lane: str = ""
    """The session of the lane that was started; empty for a call that is not one."""
    lane_calls: int = 0
    """How many tool calls it made."""
    proposals: tuple[dict[str, Any], ...] = ()
    """The steps that a lane proposes to its parent."""


class Abort(Fact, frozen=True, kw_only=True, tag="ABORT"):
    """A call did not happen (`not_done`), or its outcome is unknown (`unknown`)."""

    step: str
    attempt: int
    outcome: Literal["not_done", "unknown"]
    error: str
    code: str = ""
    retriable: bool = True
    retry_after: int = 0
    """How long, in milliseconds, the tool asks not to be called again."""
    attempt_only: bool = False
    """Whether `not_done` leaves the outcome of earlier attempts open."""
    latency: int = 0
    lane: str = ""
    """The session of a lane that waits for a person."""


class StepRefused(Fact, frozen=True, kw_only=True, tag="step_refused"):
    """The step is not called: a reference does not resolve, or the resolved call breaks a rule or the budget."""

    step: str
    code: str
    reason: str


class RetryScheduled(Fact, frozen=True, kw_only=True, tag="retry_scheduled"):
    """The step is tried again, not before a time."""

    step: str
    attempt: int
    not_before: int


class Settled(Fact, frozen=True, kw_only=True, tag="settled"):
    """An unknown outcome was settled: the call did not happen, may be repeated, or is looked up again later."""

    step: str
    attempt: int
    how: Literal["absent", "ask_again", "run_again"]
    by: str
    not_before: int = 0
    reason: str = ""
    """The reason why a look-up was inconclusive."""


class StepSkipped(Fact, frozen=True, kw_only=True, tag="step_skipped"):
    """The step does not run: its condition is false, or it is optional and failed."""

    step: str
    reason: Literal["condition_false", "optional_failed"]


class StepJudged(Fact, frozen=True, kw_only=True, tag="step_judged"):
    """The critic judged the result of a step."""

    step: str
    attempt: int
    outcome: str
    reason: str = ""


class LoopGuardTripped(Fact, frozen=True, kw_only=True, tag="loop_guard_tripped"):
    """The same call returned the same result too often, or the run made no progress."""

    step: str
    reason: str
    count: int


class DecisionTaken(Fact, frozen=True, kw_only=True, tag="decision_taken"):
    """A decision of the plan's checkpoints was taken after a step, or could not be taken."""

    decision: str
    step: str
    outcome: str
    """`accept`; if the decision lacks evidence, its alternative: `replan` or `escalate`."""
    evidence: tuple[str, ...] = ()
    """The evidence that it rests on."""
    reason: str = ""


class RunReported(Fact, frozen=True, kw_only=True, tag="run_reported"):
    """The critic scored the run and decided its outcome."""

    report: dict[str, Any]
    outcome: str
    envelope: dict[str, Any] = {}
    """The verdict in its published shape: the scores of each step, trips of the loop guard, re-plans."""
    reasons: tuple[str, ...] = ()
    exit: dict[str, Any] = {}
    """Thresholds, confidence and what asks for a person, where the outputs went through the quality loop or to a person."""
    restored: dict[str, Any] = {}
    """The round whose outputs are passed on because they were judged better than the last: after how many repairs, of
    how many, and what is left to be repaired in them; empty if the last are the best."""


class Undo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The compensation of one completed step: a resolved call, or the reason why there is none."""

    step: str
    tool: str = ""
    """Empty where nothing can be called."""
    params: dict[str, Any] = {}
    key: str = ""
    note: str = ""
    bound: BoundCompensation | None = None
    """How it was bound with its step, where it is not made without a check: the plan proposed it, or it reads a result that a
    person entered. Its parameters are those above."""

    @property
    def name(self) -> str:
        """The name of the step that makes the call."""
        return f"{COMPENSATES}{self.step}"


class CompensationBegun(Fact, frozen=True, kw_only=True, tag="compensation_begun"):
    """The effects of the run are compensated, the last one first; the calls are resolved here for good."""

    undo: tuple[Undo, ...]
    by: str = ""
    """Who decided so; empty if the pack did."""


class EffectsKept(Fact, frozen=True, kw_only=True, tag="effects_kept"):
    """The effects of the run are kept."""

    by: str = ""
