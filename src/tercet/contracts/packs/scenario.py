"""A scenario: a request to a pack, what its tools return, what people answer, and what must come of it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from tercet.contracts.mode import ApprovalMode
from tercet.contracts.shape import Authored, JsonObject
from tercet.contracts.values.plain import PlainObject

GateAnswer = Literal[
    "approve", "deny", "modify", "happened", "did_not_happen", "extend", "replan", "accept_partial", "abandon",
    "compensate", "keep",
]  # fmt: skip
"""What a person may answer at a gate, an escalation or a question about an outcome."""


class ToolResult(Authored):
    """What a tool returns in a scenario, instead of being called."""

    tool: str
    params: PlainObject = {}
    """The parameters that a call must have for this result to be used; others do not matter."""
    value: Any = None
    """The result, which must fit the tool's schema."""
    outcome: Literal["done", "not_done", "unknown"] = "done"
    """Whether the call happens, does not happen, or ends without anyone knowing."""
    error: str = "the scenario says so"
    """The message of a call that does not happen, or of which no one knows."""
    times: int | None = Field(default=None, ge=1)
    """How often it is returned before the next result of the tool is; without it, always."""


class Answer(Authored):
    """What a person answers at a gate of a scenario."""

    gate: str
    """The name of the gate, or the kind of one without a name: `approval`, `compensation`, `escalation`, `output` or
    `reconcile`. `approval` is the approval that every network or delegated call waits for; one of them may be open.
    """
    by: str
    """The id of an actor."""
    answer: GateAnswer = "approve"
    note: str = ""
    changes: PlainObject | None = None
    """With `modify`, the new values of parameters."""
    value: Any = None
    """With `happened`, the result of the call; with `extend`, the amounts."""
    refused: str = ""
    """The code with which this answer must be refused, such as `own_gate`."""


class Expectation(Authored):
    """What must come of a scenario; what is not named is not compared."""

    verdict: Literal["ok", "replan", "reject"] | None = None
    """The critic's verdict on the last plan."""
    code: str | None = None
    """The code of the refusal, such as `unbound_argument`."""
    status: str | None = None
    """The status of the session in the end."""
    gates: tuple[str, ...] | None = None
    """The gates at which the run waited, in this order."""
    calls: tuple[str, ...] | None = None
    """The tools that were called, in this order."""
    outputs: JsonObject | None = None
    """Outputs and their values; others may be there too."""
    reason: str | None = None
    """A text that the reason of the ending contains."""


class Scenario(Authored):
    """One scenario of a pack, as `scenarios/*.toml` declares it."""

    name: str = Field(min_length=1, max_length=200)
    intent: str | None = None
    input: PlainObject = {}
    actor: str = "scenario"
    """The id of the actor who starts the run."""
    plan: str | JsonObject | None = None
    """A plan, or the path of one in the pack; without it, the pack's planner proposes one."""
    planner: Literal["template", "htn"] | None = None
    script: tuple[str | JsonObject, ...] = ()
    """What a language model answers, one answer for each time that it is asked: it then proposes the plan."""
    snapshot: str | None = None
    safety_mode: ApprovalMode | None = None
    now: AwareDatetime | None = None
    """The time at which it happens; by default, the time of the test."""
    real: tuple[str, ...] = ()
    """Tools that are really called; only those that are read_only or local_write can be."""
    results: tuple[ToolResult, ...] = ()
    answers: tuple[Answer, ...] = ()
    expect: Expectation
