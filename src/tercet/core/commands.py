"""What the shell must do next. A command is a value; doing it ends in events."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from tercet.contracts.plan import EvidenceQuery
from tercet.core.events import BoundCompensation, Need
from tercet.core.events.gate import GateKind


class Propose(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Ask the planner for a plan."""


class Reflect(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Let an agent take in what its turn brought, and judge the turn."""


class Decompose(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Split the plan into sub-tasks."""


class Retrieve(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Look up the evidence that the plan pins."""


class Review(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Let the critic review the plan."""


class CheckRepeats(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Look for earlier calls that count against one which may be made once in a period."""

    step: str
    params: dict[str, Any]
    key: str


class Dispatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Make a call."""

    step: str
    params: dict[str, Any]
    key: str
    occurrence: int
    attempt: int
    not_before: int = 0
    compensation: BoundCompensation | None = None


class Await(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Wait for a call that has begun."""

    step: str
    attempt: int


class Note(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Take a note: its resolved parameters are its result."""

    step: str
    params: dict[str, Any]


class Skip(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Leave a step out."""

    step: str
    reason: Literal["condition_false", "optional_failed"]


class Fault(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A step that cannot be called: its references do not resolve, or it would break a rule."""

    step: str
    code: str
    reason: str


class Judge(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Let the critic judge a step."""

    step: str


class Settle(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Find out what became of a call whose outcome is unknown."""

    step: str
    not_before: int = 0


class Ask(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
    """While a call of unknown outcome may still take effect, no answer about it would be true for long."""


class Grant(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Let a policy approve a call."""

    step: str
    policy: str
    digest: str


class Escalate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Open the gate at which a person takes over."""


class Compensate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Take the effects of the run back, or ask whether to, or leave them."""

    how: Literal["compensate", "ask", "keep"]


class Finish(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Every step has ended: work out the outputs."""


class DrawExperience(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Look up what earlier runs of the same kind have taught."""


class DrawSamples(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Call the step that brought an output again, to see whether it brings the same."""


class RunTests(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Call one of the decision's test commands on the outputs."""

    number: int


class VerifyOutputs(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Look at schema, claims and facts of the outputs."""


class Attack(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Try the edge cases of one of the decision's attacks on the outputs."""

    number: int


class Critique(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Judge the outputs by their rubric."""


class FetchEvidence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Look for more evidence before outputs are mended."""

    queries: tuple[EvidenceQuery, ...]


class Repair(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Mend the outputs."""


class Score(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Let the critic score the run."""


class StopExhausted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The run has gone through more phases than it may: end it."""

    reason: str


class End(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Write the record and close the session."""

    status: str


class AskModel(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Ask a language model; what it may take is reserved."""

    purpose: str
    model: str
    prompt: str
    """The hash of the question."""
    attempt: int
    tokens: int
    cost: int
    timeout_ms: int
    question: bytes = b""
    """The question as it is stored beside the events."""


class AwaitModel(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Wait for a language model that was asked."""

    call: int
    began: int


class Receive(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Read a message from the inbox of the session."""

    data: bytes
    inbox: int
    outside: bool = False
    """Whether a process reads it that does not carry the session forward."""


class Expire(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """End a session whose time is over."""

    outside: bool = False


class Pause(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Stop here, so that the session can be resumed."""

    reason: str
    code: str = ""
    by: str = ""
    simulated_by: str = ""
    inbox: int = 0
    outside: bool = False


class Resume(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Carry a session on in another process."""

    owner: str
    epoch: int
    people: dict[str, Any] | None = None
    """Who is who by now, where the list of people has changed."""


Command: TypeAlias = (
    Propose
    | Reflect
    | Decompose
    | Retrieve
    | Review
    | CheckRepeats
    | Dispatch
    | Await
    | Note
    | Skip
    | Fault
    | Judge
    | Settle
    | Ask
    | Grant
    | Escalate
    | Compensate
    | Finish
    | DrawExperience
    | DrawSamples
    | RunTests
    | VerifyOutputs
    | Attack
    | Critique
    | FetchEvidence
    | Repair
    | Score
    | StopExhausted
    | End
    | AskModel
    | AwaitModel
    | Receive
    | Expire
    | Pause
    | Resume
)
