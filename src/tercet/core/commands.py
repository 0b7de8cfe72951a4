"""Commands: what is due in a run. The world answers a command, and `resolve` makes events of the answer."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec

from tercet.contracts.plan import EvidenceQuery
from tercet.core.events import BoundCompensation, Need
from tercet.core.events.gate import GateKind
from tercet.core.prepared_call import PreparedCall


class Command(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A command to the driver; `resolve` turns it and its answer into events."""


class Propose(Command, frozen=True, kw_only=True):
    """Ask the planner for a plan."""


class Reflect(Command, frozen=True, kw_only=True):
    """Let an agent process the results of its turn, and judge the turn."""


class Decompose(Command, frozen=True, kw_only=True):
    """Split the plan into sub-tasks."""


class Retrieve(Command, frozen=True, kw_only=True):
    """Look up the evidence that the plan pins."""


class Review(Command, frozen=True, kw_only=True):
    """Let the critic review the plan."""


class CheckRepeats(Command, frozen=True, kw_only=True):
    """Look for earlier calls that count against one which may be made once in a period."""

    step: str
    params: dict[str, Any]
    key: str


class Dispatch(Command, frozen=True, kw_only=True):
    """Make a call."""

    step: str
    call: PreparedCall
    key: str
    occurrence: int
    attempt: int
    not_before: int = 0
    compensation: BoundCompensation | None = None

    @property
    def params(self) -> dict[str, Any]:
        """The resolved parameters."""
        return self.call.params


class Await(Command, frozen=True, kw_only=True):
    """Wait for a call that has begun."""

    step: str
    attempt: int


class Note(Command, frozen=True, kw_only=True):
    """Record a note: its resolved parameters are its result."""

    step: str
    params: dict[str, Any]


class Skip(Command, frozen=True, kw_only=True):
    """Leave a step out."""

    step: str
    reason: Literal["condition_false", "optional_failed"]


class Fault(Command, frozen=True, kw_only=True):
    """A step that cannot be called: its references do not resolve, or it would break a rule."""

    step: str
    code: str
    reason: str


class ProposeStep(Command, frozen=True, kw_only=True):
    """In a lane: propose a step to the parent instead of executing it."""

    step: str
    proposal: dict[str, Any]


class ReviewProposals(Command, frozen=True, kw_only=True):
    """Let the critic review the proposals of a lane."""

    step: str


class Judge(Command, frozen=True, kw_only=True):
    """Let the critic judge a step."""

    step: str


class Settle(Command, frozen=True, kw_only=True):
    """Find out the outcome of a call whose outcome is unknown."""

    step: str
    not_before: int = 0


class Ask(Command, frozen=True, kw_only=True):
    """Open a gate."""

    step: str
    kind: GateKind
    digest: str
    shown: dict[str, Any]
    names: tuple[str, ...] = ()
    needs: dict[str, Need] = {}
    covers: dict[str, str] = {}
    stale: int = 0
    """When the first piece of the evidence that it is about expires."""
    ttl_ms: int = 0
    """How long it waits; 0 means as long as the session lives."""
    not_before: int = 0
    """A call of unknown outcome may still take effect before this time, so it is too early to ask about it."""


class AskForLane(Command, frozen=True, kw_only=True):
    """Open the gate that a lane waits at in the run that started it."""

    step: str
    lane: str
    """The session of the lane."""


class Grant(Command, frozen=True, kw_only=True):
    """Let a policy approve a call."""

    step: str
    policy: str
    digest: str


class Escalate(Command, frozen=True, kw_only=True):
    """Open the gate at which a person decides how the run continues."""


class Compensate(Command, frozen=True, kw_only=True):
    """Compensate the effects of the run, ask whether to, or keep them."""

    how: Literal["compensate", "ask", "keep"]


class Finish(Command, frozen=True, kw_only=True):
    """Every step has ended: compute the outputs."""


class DrawExperience(Command, frozen=True, kw_only=True):
    """Load the experience of earlier runs of the same task class."""


class DrawSamples(Command, frozen=True, kw_only=True):
    """Repeat the call that produced an output, to compare the results."""


class ReadOutputs(Command, frozen=True, kw_only=True):
    """Render the outputs, and read the values in their texts."""


class RunTests(Command, frozen=True, kw_only=True):
    """Call one of the decision's test commands on the outputs."""

    number: int


class VerifyOutputs(Command, frozen=True, kw_only=True):
    """Check the schema, values and statements of the outputs."""


class Attack(Command, frozen=True, kw_only=True):
    """Try the edge cases of one of the decision's attacks on the outputs."""

    number: int


class Critique(Command, frozen=True, kw_only=True):
    """Judge the outputs by their rubric."""


class FetchEvidence(Command, frozen=True, kw_only=True):
    """Look for more evidence before outputs are repaired, and retry failed read_only calls."""

    queries: tuple[EvidenceQuery, ...] = ()
    retries: tuple[str, ...] = ()
    """The steps whose calls are retried."""


class Repair(Command, frozen=True, kw_only=True):
    """Repair the outputs."""


class Score(Command, frozen=True, kw_only=True):
    """Let the critic score the run."""


class AcceptOutputs(Command, frozen=True, kw_only=True):
    """Start the steps that deliver the outputs, which the critic or a person has accepted."""


class StopExhausted(Command, frozen=True, kw_only=True):
    """The run has gone through more phases than it may: end it."""

    reason: str


class End(Command, frozen=True, kw_only=True):
    """Write the record and close the session."""

    status: str


class AskModel(Command, frozen=True, kw_only=True):
    """Ask a language model, after reserving its budget."""

    purpose: str
    model: str
    prompt: str
    """The hash of the question."""
    attempt: int
    tokens: int
    cost: int
    timeout_ms: int
    question: bytes = b""
    """The question as the bytes of a blob."""


class AwaitModel(Command, frozen=True, kw_only=True):
    """Wait for a language model that was asked."""

    call: int
    began: int


class Receive(Command, frozen=True, kw_only=True):
    """Read a message from the inbox of the session."""

    data: bytes
    inbox: int
    outside: bool = False
    """Whether a process that does not run the session reads it."""


class Expire(Command, frozen=True, kw_only=True):
    """End a session whose time to live has passed."""

    outside: bool = False


class Pause(Command, frozen=True, kw_only=True):
    """Stop here, so that the session can be resumed."""

    reason: str
    code: str = ""
    by: str = ""
    simulated_by: str = ""
    inbox: int = 0
    outside: bool = False


class Resume(Command, frozen=True, kw_only=True):
    """Resume a session in another process."""

    owner: str
    epoch: int
    people: dict[str, Any] | None = None
    """The current list of people, if it has changed."""


OutputCommand: TypeAlias = (
    DrawExperience
    | DrawSamples
    | ReadOutputs
    | RunTests
    | VerifyOutputs
    | Attack
    | Critique
    | FetchEvidence
    | Repair
)
"""The commands of the quality loop, each answered by one event."""
OUTPUT_COMMANDS: tuple[type[OutputCommand], ...] = get_args(OutputCommand)

DELAYED = (Dispatch, Settle, Ask)
"""The commands that may have to wait for a time, `not_before`."""
