"""The parameters of the methods: what is not described here is an error."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from tercet.contracts.decision import RiskTier
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.request import Request, RequestRuntime
from tercet.contracts.runs.session import SessionStatus
from tercet.contracts.shape import Authored
from tercet.contracts.values.plain import PlainObject
from tercet.engine.models.planners import PlannerName
from tercet.engine.streams.stops import StopKind

WAIT_MS = 10_000
"""How long a call waits for a run unless it says otherwise."""
MOST_WAIT_MS = 30_000
"""How long a call may wait for a run."""
Searched: TypeAlias = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""A text that is looked for: no database finds, and PostgreSQL refuses, one with NUL."""
Place: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
"""A position or a time, as JSON and every database can hold it."""


class Params(Authored):
    """The parameters of a method: an unknown one is an error."""


class Mutation(Params):
    """The parameters of a method that changes something."""

    request_key: str | None = Field(default=None, min_length=1, max_length=200)
    """Sent again with the same key, the call returns what it returned first."""
    note: str = Field(default="", max_length=2_000)


class InvokeAgent(Params):
    """A request for a run. Its owner is the caller."""

    request: Request
    pack: str | None = None
    plan: PlainObject | None = None
    planner: PlannerName | None = None
    mode: Literal["inline", "stream", "batch", "long_running"] = "inline"
    """`inline` waits until the run is over or waits for a person; the others return when it is recorded."""
    runtime: RequestRuntime | None = None
    safety_mode: ApprovalMode | None = None
    """The most that the run may do; not more than the pack allows."""
    shadow: bool = False
    wait_ms: int = Field(default=WAIT_MS, ge=0, le=MOST_WAIT_MS)


# FastAPI takes the models of lists from the query of a path, which needs models that are built at once.
class Page(Params, defer_build=False):
    """A page of a list."""

    cursor: str | None = Field(default=None, max_length=512)
    limit: int = Field(default=50, ge=1, le=200)


class ListSessions(Page):
    """Which sessions to list."""

    status: SessionStatus | None = None
    intent: Searched | None = Field(default=None, min_length=1, max_length=512)
    owner: Searched | None = Field(default=None, min_length=1, max_length=512)
    risk: RiskTier | None = None
    """The risk tier of the intent, by the packs that are served."""
    text: Searched | None = Field(default=None, min_length=1, max_length=200)
    """What the id, intent, owner or pack contains. A page of a search, or of several filters, looks at some thousand
    sessions: it can hold fewer than `limit`, or none, and still have a `next_cursor`."""


class SessionRef(Params):
    """A session by its id."""

    session_id: str = Field(min_length=1, max_length=512)


class SessionCommand(Mutation):
    """A session by its id, and why it is changed."""

    session_id: str = Field(min_length=1, max_length=512)


class GateRef(Params):
    """A gate by its id."""

    gate_id: str = Field(min_length=1, max_length=512)


class GateAnswer(Mutation):
    """A gate by its id, and why it is answered so."""

    gate_id: str = Field(min_length=1, max_length=512)


class ApproveGate(GateAnswer):
    """An approval, bound to the digest of the call that was looked at."""

    digest: str | None = Field(default=None, min_length=1, max_length=200)
    """Absent, the approval is bound to the call that the gate shows now."""


class ModifyGate(GateAnswer):
    """Changes to a call, by parameter name or JSON Pointer; without them, a note to the planner."""

    changes: PlainObject | None = None


class SettleOutcome(GateAnswer):
    """Whether a call of unknown outcome happened, and what it returned."""

    happened: bool
    value: Any = None


class DecideEscalation(GateAnswer):
    """How an escalated run goes on, or whether the effects of a failed one are compensated."""

    decision: Literal["extend", "replan", "accept_partial", "abandon", "compensate", "keep"]
    value: Any = None


class ExtendBudget(SessionCommand):
    """By how much each dimension is extended."""

    more: dict[str, int]


class SettleRollback(SessionCommand):
    """A step whose effect a person has dealt with."""

    step: str = Field(min_length=1, max_length=512)


class StopRef(Mutation):
    """What is stopped: a tool, a pack, or the whole tenant (then `name` may be left out)."""

    kind: StopKind
    name: str = Field(default="", max_length=512)


class VerifyPlan(Params):
    """A plan, and the request that it is for."""

    plan: PlainObject
    request: Request | None = None
    pack: str | None = None


class Nothing(Params):
    """No parameters."""


class ListAudit(Params, defer_build=False):
    """A page of the audit log, oldest first."""

    after: Place = 0
    limit: int = Field(default=100, ge=1, le=1000)


class EraseSubject(Mutation):
    """The subject whose personal values are erased."""

    subject: str = Field(min_length=1, max_length=512)
    force: bool = False
    """Erase even while a session of the subject is not over; calls that need an erased value are then refused."""
