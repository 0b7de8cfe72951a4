"""Commands: what is due in a run. The world answers a command, and `resolve` makes events of the answer."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tercet.contracts.plan import EvidenceQuery
from tercet.core.events import BoundCompensation, Need
from tercet.core.events.gate import GateKind
from tercet.core.prepared_call import PreparedCall


class Command(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something for the shell to do; the answer to it, or the command alone, comes to events in `resolve`."""


class Propose(Command, frozen=True, kw_only=True):
    """Ask the planner for a plan."""


class Reflect(Command, frozen=True, kw_only=True):
    """Let an agent take in what its turn brought, and judge the turn."""


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
    """Take a note: its resolved parameters are its result."""

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
    """In a lane: propose a step to the parent instead of carrying it out."""

    step: str
    proposal: dict[str, Any]


class ReviewProposals(Command, frozen=True, kw_only=True):
    """Let the critic review what a lane proposes."""

    step: str


class Judge(Command, frozen=True, kw_only=True):
    """Let the critic judge a step."""

    step: str


class Settle(Command, frozen=True, kw_only=True):
    """Find out what became of a call whose outcome is unknown."""

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
    """While a call of unknown outcome may still take effect, no answer about it would be true for long."""


class Grant(Command, frozen=True, kw_only=True):
    """Let a policy approve a call."""

    step: str
    policy: str
    digest: str


class Escalate(Command, frozen=True, kw_only=True):
    """Open the gate at which a person decides how the run goes on."""


class Compensate(Command, frozen=True, kw_only=True):
    """Compensate the effects of the run, ask whether to, or keep them."""

    how: Literal["compensate", "ask", "keep"]


class Finish(Command, frozen=True, kw_only=True):
    """Every step has ended: work out the outputs."""


class DrawExperience(Command, frozen=True, kw_only=True):
    """Look up what earlier runs of the same kind have taught."""


class DrawSamples(Command, frozen=True, kw_only=True):
    """Call the step that brought an output again, to see whether it brings the same."""


class ReadOutputs(Command, frozen=True, kw_only=True):
    """Render the outputs, and read the values in their texts."""


class RunTests(Command, frozen=True, kw_only=True):
    """Call one of the decision's test commands on the outputs."""

    number: int


class VerifyOutputs(Command, frozen=True, kw_only=True):
    """Look at schema, values and words of the outputs."""


class Attack(Command, frozen=True, kw_only=True):
    """Try the edge cases of one of the decision's attacks on the outputs."""

    number: int


class Critique(Command, frozen=True, kw_only=True):
    """Judge the outputs by their rubric."""


class FetchEvidence(Command, frozen=True, kw_only=True):
    """Look for more evidence before outputs are repaired, and make read_only calls again that failed."""

    queries: tuple[EvidenceQuery, ...] = ()
    retries: tuple[str, ...] = ()
    """The steps whose calls are made again."""


class Repair(Command, frozen=True, kw_only=True):
    """Repair the outputs."""


class Score(Command, frozen=True, kw_only=True):
    """Let the critic score the run."""


class AcceptOutputs(Command, frozen=True, kw_only=True):
    """Let the steps begin that take the outputs, which the critic or a person has accepted."""


class StopExhausted(Command, frozen=True, kw_only=True):
    """The run has gone through more phases than it may: end it."""

    reason: str


class End(Command, frozen=True, kw_only=True):
    """Write the record and close the session."""

    status: str


class AskModel(Command, frozen=True, kw_only=True):
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


class AwaitModel(Command, frozen=True, kw_only=True):
    """Wait for a language model that was asked."""

    call: int
    began: int


class Receive(Command, frozen=True, kw_only=True):
    """Read a message from the inbox of the session."""

    data: bytes
    inbox: int
    outside: bool = False
    """Whether a process reads it that does not carry the session forward."""


class Expire(Command, frozen=True, kw_only=True):
    """End a session whose time is over."""

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
    """Carry a session on in another process."""

    owner: str
    epoch: int
    people: dict[str, Any] | None = None
    """Who is who by now, where the list of people has changed."""


DELAYED = (Dispatch, Settle, Ask)
"""The commands that may have to wait for a time, `not_before`."""
