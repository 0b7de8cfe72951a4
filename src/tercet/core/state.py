"""The state of a run: the fold of its events. It is frozen; a change makes a new value that shares the rest."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tercet.contracts.loop import Phase
from tercet.contracts.question import Reply
from tercet.contracts.runs.session import SessionStatus
from tercet.core.events import EarlierCall, Need, SessionStarted, ToolRetry, Undo
from tercet.core.events.gate import GateKind

StepStatus = Literal["pending", "gated", "in_flight", "unknown", "done", "failed", "skipped"]

Ending = Literal["", "failed", "rejected", "expired", "cancelled"]

TERMINAL: frozenset[SessionStatus] = frozenset({"completed", "failed", "expired", "rejected", "cancelled"})

NOT_STARTED = SessionStarted(
    at=0,
    session="",
    run="",
    trace="",
    tenant="",
    actor={},
    request={},
    decision="",
    safety_mode="",
    budget={},
    pack="",
    pack_hash="",
    snapshot="",
    context="",
)


class StepState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The progress of one step."""

    status: StepStatus = "pending"
    unmet: int = 0
    """How many of its predecessors have not ended yet."""
    attempt: int = 0
    retries: int = 0
    not_before: int = 0
    occurrence: int = 0
    key: str = ""
    calls: int = 0
    """How many tool calls its last attempt is: none for a note."""
    tokens: int = 0
    cost: int = 0
    gate: str = ""
    approved: str = ""
    """The digest that was approved."""
    asked: int = 0
    """The number of times that its unknown outcome was reconciled."""
    look_up_error: str = ""
    """Why the last reconciliation failed."""
    value: Any = None
    blob: str = ""
    error: str = ""
    code: str = ""
    outcome: Literal["done", "not_done", "unknown", "refused"] = "done"
    """How the last attempt ended."""
    is_retriable: bool = True
    retry_after: int = 0
    """How long its tool asks not to be called again."""
    call: str = ""
    """The hash of a call in progress, which the loop guard compares."""
    repeated: int = 0
    """How many times this call has returned this result."""
    same: str = ""
    """Under what that is counted, in a run whose critics may discard the step."""
    since: int = 0
    """From when on its outcome is unknown and it can no longer take effect unseen."""
    deadline: int = 0
    """When the call of its last attempt must have ended."""
    began: int = 0
    """When its last attempt was about to begin."""
    is_added: bool = False
    """Whether a re-plan brought it, or a planner that had read untrusted data: then no policy grants its approval."""
    hold_calls: int = 0
    """The part of the budget that is held back for its compensation."""
    hold_cost: int = 0
    params: dict[str, Any] = {}
    """The parameters of its last attempt."""
    checked: str = ""
    """The key of the call that was looked for in other sessions, where its tool allows it once in a period."""
    earlier_calls: tuple[EarlierCall, ...] = ()
    """Those that were found."""
    refused_change: str = ""
    """Why the critic refused the values that an approver had set in its call; empty if it refused none."""
    compensates: str = ""
    """The step that it compensates; empty for a step of the plan."""
    is_lane: bool = False
    """Whether its call starts a lane."""
    lane: str = ""
    """The session of its lane, once that has ended or waits for a person."""
    lane_calls: int = 0
    """The tool calls that are reserved for its lane, and once it has ended, those that it made."""

    @property
    def may_have_happened(self) -> bool:
        """Whether its call took effect, or may have."""
        has_happened = self.outcome == "done" and self.status in ("done", "failed", "skipped")
        is_call = self.calls > 0 or self.is_lane
        return is_call and self.attempt > 0 and (has_happened or self.is_reserving)

    @property
    def has_failed_call(self) -> bool:
        """Whether it was called and has no usable result; a refused call has not failed."""
        has_ended = self.status in ("failed", "skipped") and not self.compensates
        return has_ended and self.calls > 0 and self.attempt > 0 and self.outcome != "refused"

    @property
    def is_unsettled(self) -> bool:
        """Whether the outcome of its last attempt is unknown, also while it waits to be called again."""
        return self.attempt > 0 and self.outcome == "unknown" and self.status in _OPEN

    @property
    def is_reserving(self) -> bool:
        """Whether tokens and money are reserved for it: while a call is in progress, and until its outcome is known."""
        return self.status == "in_flight" or self.is_unsettled


_OPEN = ("unknown", "pending", "gated")


class Used(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The used and the reserved amounts of the budget."""

    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost: int = 0
    wall_clock: int = 0
    replans: int = 0
    retries: int = 0
    repairs: int = 0
    model_tokens: int = 0
    """The tokens that language models used."""
    critic_tokens: int = 0
    """The tokens that models used for judging and repairing."""
    reserved_calls: int = 0
    reserved_tokens: int = 0
    reserved_cost: int = 0
    held_calls: int = 0
    """The amounts that are reserved for compensating completed steps."""
    held_cost: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The answer of a person or a policy to a gate."""

    gate: str
    names: tuple[str, ...]
    step: str
    actor: str
    auth: str
    answer: str
    digest: str
    at: int
    note: str = ""
    roles: tuple[str, ...] = ()
    listed: bool = False
    """Whether they held them by a list of people."""
    login: str = ""
    """The login that they answered from; empty if that is not known."""
    simulated_by: str = ""
    """The login of the person who acted as them in a development session."""
    changes: dict[str, Any] = {}
    """The values that they set in the call, by JSON Pointer into its parameters."""


class Entered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Who typed the result of a step."""

    by: str
    is_trusted: bool = False


class SetValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A value that an approver has set in the call of a step."""

    step: str
    tool: str
    place: str
    """The JSON Pointer into the parameters of the call."""
    value: Any
    by: str
    login: str = ""
    """The login that they answered from; empty if that is not known."""
    gates: tuple[str, ...] = ()
    """The gates at which it was set."""


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Values that an approver wants in a call, until the critic has reviewed the plan that has them."""

    step: str
    values: tuple[SetValue, ...]
    note: str
    params: dict[str, Any]
    """The parameters that the gate showed, with the tool's defaults."""
    defaults: tuple[str, ...] = ()
    """The JSON Pointers of those that are defaults."""
    plan: dict[str, Any] = {}
    """The previous plan; empty until the changed one was proposed."""
    changed: tuple[SetValue, ...] = ()
    """What `State.changed` was before."""
    refusal: str = ""
    """Why the critic refused the changed plan: then the one before is proposed again."""

    @property
    def by(self) -> str:
        """Who set the values."""
        return self.values[0].by


class OpenGate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A gate that still needs answers."""

    id: str
    kind: GateKind
    step: str
    names: tuple[str, ...] = ()
    needs: dict[str, Need] = {}
    digest: str = ""
    covers: dict[str, str] = {}
    """The other calls that the same answer is about: their digests by step."""
    shown: dict[str, Any] = {}
    at: int = 0
    expires: int = 0
    stale: int = 0
    """When evidence that it depends on expires."""
    approvals: tuple[Answer, ...] = ()
    """Who has approved so far."""
    lane: str = ""
    """The session of the lane whose gate it stands for; empty for a gate of the run itself."""

    @property
    def calls(self) -> dict[str, str]:
        """The digests of every call that an approval of this gate covers, by step."""
        return {self.step: self.digest, **self.covers}

    def counts(self, name: str, roles: tuple[str, ...]) -> bool:
        """Return whether a person with these roles is one of those that a name asks for."""
        wanted = self.needs[name].roles if name in self.needs else ()
        return not wanted or not set(wanted).isdisjoint(roles)

    def approvers(self, name: str) -> tuple[str, ...]:
        """The people whose approval counts for one of the names."""
        return tuple(dict.fromkeys(a.actor for a in self.approvals if self.counts(name, a.roles)))

    @property
    def unmet(self) -> tuple[str, ...]:
        """The names that still miss an approval."""
        return tuple(name for name, need in self.needs.items() if len(self.approvers(name)) < need.quorum)


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A language model that was asked and has not answered yet, with its reservation."""

    call: int
    prompt: str
    tokens: int = 0
    cost: int = 0


class Replied(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An answer of a model that was asked for the plan that is being made."""

    prompt: str
    model: str
    answer: str = ""
    blob: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    cut: bool = False
    latency: int = 0
    logprob: float | None = None

    def as_reply(self, text: str) -> Reply:
        """The answer with its text, which may be stored beside the events."""
        return Reply(
            text=text,
            model=self.model,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cost_microcents=self.cost,
            is_cut=self.cut,
            latency_ms=self.latency,
            logprob=self.logprob,
        )


class Learned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A trusted result of an earlier turn, whose values a later one may use."""

    step: str
    tool: str
    value: Any = None
    blob: str = ""


class EarlierStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A step of an earlier plan, or of an earlier turn, whose call took effect or may have."""

    step: dict[str, Any]
    """The step as its plan had it."""
    params: dict[str, Any] = {}
    """The arguments of the call."""
    place: int | None = None
    """Its place in `State.done`; None if it has not completed."""


class Round(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Outputs with their judgements."""

    number: int
    """How many repairs the run had made before."""
    outputs: dict[str, Any] = {}
    missing: dict[str, str] = {}
    read: tuple[dict[str, Any], ...] | None = None
    tests: tuple[dict[str, Any], ...] = ()
    verdict: dict[str, Any] = {}
    consistency: dict[str, Any] = {}
    diagnosis: dict[str, Any] = {}
    rubric: dict[str, Any] = {}
    confidence: dict[str, Any] = {}
    exit: dict[str, Any] = {}


class Quality(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The progress of judging and repairing the outputs."""

    stage: Literal["", "judged", "asking"] = ""
    """The result of VERIFY: none yet, judged, or waiting for a person to accept the outputs."""
    drawn: dict[str, Any] = {}
    """The experience of earlier runs that this run uses."""
    vote: dict[str, Any] = {}
    """What samples that were drawn agreed on, or why there are none."""
    read: tuple[dict[str, Any], ...] | None = None
    """The texts of the outputs as they were rendered and read; None before that."""
    rendered: dict[str, Any] = {}
    """The outputs that were rendered from templates of the pack, in their rendered form."""
    tests: tuple[dict[str, Any], ...] = ()
    """The result of each test command for the current outputs."""
    passed_tests: dict[str, tuple[str, ...]] = {}
    """The tests that have passed in any round, by the number of their command."""
    attacks: tuple[dict[str, Any], ...] = ()
    """The findings of each attack on them."""
    verdict: dict[str, Any] = {}
    consistency: dict[str, Any] = {}
    diagnosis: dict[str, Any] = {}
    rubric: dict[str, Any] = {}
    confidence: dict[str, Any] = {}
    exit: dict[str, Any] = {}
    control: dict[str, Any] = {}
    course: tuple[float, ...] = ()
    """The quality at each measurement, as the controller counts it."""
    log: tuple[dict[str, Any], ...] = ()
    """Every attempt at a repair."""
    memory: dict[str, Any] = {}
    """Kept to detect repairs that loop."""
    escalation: dict[str, Any] = {}
    """The defects that the last REPAIR phase left; empty if it repaired all."""
    drafts: dict[str, Any] = {}
    """The outputs as they were produced, once a repair has changed them."""
    feedback: str = ""
    """The changes that a person asked for."""
    has_fetched: bool = False
    """Whether more evidence was looked for in this REPAIR phase, and failed tools were called again."""
    fresh: tuple[str, ...] = ()
    """The ids of the found facts, and of the results of these tools."""
    retried: tuple[ToolRetry, ...] = ()
    """What tools brought that failed in the plan of these outputs and were called again for their repairs."""
    called_again: tuple[str, ...] = ()
    """The steps whose failed calls were made again in vain."""
    fetched: tuple[str, ...] = ()
    """The ids of all facts that were found for repairs of these outputs, which depend on them from then on."""
    best: Round | None = None
    """The best of the rounds before the last one."""
    before: Round | None = None
    """The round before the repairs that have just been made, until the repaired outputs are read."""
    logprob: float | None = None
    """The mean log-probability of a model's text in the outputs; None if there is none, or the model does not report
    it."""
    lapsed: str = ""
    """Why people who accepted the outputs are asked again."""
    restored: dict[str, Any] = {}
    """The round that the outputs were taken from, of how many; empty if they are the last."""


class Acceptance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The outputs that steps may deliver."""

    digest: str
    by: tuple[str, ...] = ()
    """The people who accepted them; empty if the decision's rules did."""


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A run."""

    position: int = 0
    at: int = 0
    phase: Phase = Phase.PLAN
    halted_from: Phase | None = None
    status: SessionStatus = "in_progress"
    reason: str = ""
    escalation: str | None = None
    """Why the run was escalated; None if it was not, or has continued since."""
    start: SessionStarted = NOT_STARTED
    """The start of the session, with its current pins."""
    plan: dict[str, Any] = {}
    plan_hash: str = ""
    plan_origin: str = "planner"
    exposure: str = ""
    """The first untrusted data that a planner of the run has read."""
    revision: int = 0
    refused: tuple[str, ...] = ()
    """Hashes of the plans that were refused: proposing one of them again is rejected."""
    verdict: dict[str, Any] = {}
    feedback: tuple[str, ...] = ()
    setbacks: tuple[tuple[str, ...], ...] = ()
    """For each abandoned plan, the steps that it was abandoned for; none if it was the whole plan."""
    steps: dict[str, StepState] = {}
    after: dict[str, tuple[str, ...]] = {}
    """For each step, those that wait for it."""
    frontier: tuple[str, ...] = ()
    """The steps that can be looked at: nothing before them is open, and they have not ended."""
    unjudged: tuple[str, ...] = ()
    """Steps that have ended, well or badly, and that the critic has not judged yet."""
    done: tuple[str, ...] = ()
    """Completed steps in the order of their completion."""
    needed: frozenset[str] = frozenset()
    """Steps whose results are referred to: only their values are kept here, the others' stay in the journal."""
    named: dict[str, Any] = {}
    """Outputs that the plan declares by name only, with the last value that a result carried."""
    named_in: dict[str, str] = {}
    """The same, where the last result that carried them is a blob: its digest."""
    head: str = ""
    """The head of the hash-linked list of results."""
    keys: dict[str, str] = {}
    """Idempotency keys that took effect, each with its step."""
    gates: dict[str, OpenGate] = {}
    opened: int = 0
    """How many gates were opened, so that no two have one id."""
    approved: dict[str, OpenGate] = {}
    """Gates with all their approvals, whose calls have not begun: an approval can still be withdrawn."""
    answers: tuple[Answer, ...] = ()
    inbox: int = 0
    """The position up to which the session's inbox has been read."""
    dropped: tuple[tuple[int, str, str], ...] = ()
    """The last messages that did not fit: position, code and reason."""
    used: Used = Used()
    extended: dict[str, int] = {}
    """What operators have added to the budget."""
    active_since: int = 0
    """When the clock of the wall-clock budget was last started; 0 while it is stopped."""
    repeats: dict[str, int] = {}
    """The number of times that the same call returned the same result."""
    asking: Asked | None = None
    """The model that is being asked."""
    asked: int = 0
    """How many calls of models there were."""
    replies: tuple[Replied, ...] = ()
    """What models have answered since the last plan: they are not asked that again."""
    facts: tuple[str, ...] = ()
    """The digests of the facts that plans have asked for and found."""
    turns: int = 0
    """How many turns of an agent have been judged."""
    entered: dict[str, Entered] = {}
    """Results of steps that people typed when they settled an unknown call."""
    change: Change | None = None
    """Values that an approver has set and the critic has not reviewed yet."""
    changed: tuple[SetValue, ...] = ()
    """Values that approvers have set in calls of the current plan."""
    learned: tuple[Learned, ...] = ()
    earlier: tuple[EarlierStep, ...] = ()
    """Calls of earlier plans that are not steps of this one, in order of completion; those of unknown outcome last."""
    proposals: tuple[dict[str, Any], ...] = ()
    """In a lane: the steps that it proposes to its parent."""
    lane_proposals: dict[str, tuple[dict[str, Any], ...]] = {}
    """What lanes have proposed and the critic has not reviewed yet, by the steps that started them."""
    trips: int = 0
    iterations: int = 0
    """How many phases the run has gone through."""
    outputs: dict[str, Any] = {}
    missing: dict[str, str] = {}
    accepted: Acceptance | None = None
    """Whether the outputs are accepted for delivery: they are not judged any more, and no other plan is made."""
    paused_by: str = ""
    """The person who paused it; empty if the runtime did."""
    paused_for: str = ""
    """The code of the obstacle when it was paused, such as `model_unavailable`; empty if there was none."""
    memory: tuple[dict[str, Any], ...] = ()
    """Proposed memories of the run."""
    quality: Quality = Quality()
    report: dict[str, Any] = {}
    envelope: dict[str, Any] = {}
    record: str = ""
    """The hash of the decision record."""
    kept: str = ""
    """The digest of the part of the record that is stored with the events."""
    ending: Ending = ""
    """How the session will end, once its effects are settled and compensated."""
    partial: str = ""
    """The person who accepted a partial result that the critic did not accept."""
    saga: Literal["", "agreed", "undoing", "kept"] = ""
    """What happens to the effects of a failed run."""
    undo: tuple[Undo, ...] = ()
    """The compensation of each effect, the last one first."""

    @property
    def is_started(self) -> bool:
        """Whether the session has been started."""
        return self.start is not NOT_STARTED

    @property
    def is_over(self) -> bool:
        """Whether nothing more can happen."""
        return self.status in TERMINAL

    @property
    def is_stepwise(self) -> bool:
        """Whether an agent decides one turn at a time."""
        return self.start.stepwise

    @property
    def is_turn_open(self) -> bool:
        """Whether the outcome of a turn has not been judged yet."""
        return self.is_stepwise and self.revision > self.turns

    @property
    def in_flight(self) -> tuple[str, ...]:
        """The steps whose calls have begun and not ended."""
        steps = self.steps
        return tuple([name for name in self.frontier if steps[name].status == "in_flight"])
