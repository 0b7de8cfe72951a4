"""The declarations of a pack as the checks see them: complete, or as far as a broken folder could be read.

A place such as `gate GATE_FINANCE` or `gate GATE_FINANCE, quorum` names a declaration or one of its fields. Places are
the keys of `spots`, so a check that knows the place of a problem need not know about files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from tercet.contracts.buckets import ContextRules
from tercet.contracts.context import Check
from tercet.contracts.control import ANY_CLASS, ControlSpec
from tercet.contracts.decision import PLANNER_TIMEOUTS, DecisionSpec, OnFailure, RiskTier
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate, Notify
from tercet.contracts.lane import LANE, Lane, envelope_schema
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.packs.tuning import TuningRules
from tercet.contracts.personal import PersonalMarks
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.prices import TokenPrices
from tercet.contracts.problem import Problem
from tercet.contracts.request import Actor
from tercet.contracts.runs.budget import RunBudget
from tercet.contracts.runs.session import PLANNER_TIMEOUT_MS, RoleLimit, RoleName, SessionRules
from tercet.contracts.shape import Authored, Name, as_object
from tercet.contracts.tasks import TaskLibrary
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.plain import PlainObject

GRACE_MS = 5_000
"""How much longer than a lane may take its parent waits for it: a lane that has run out of time still has to end."""


def lane_specs(parts: Parts) -> tuple[ToolSpec, ...]:
    """Return each lane as the tool that a step calls: it only reads, and the same key leads to the same session."""
    return tuple(_spec(parts, lane) for lane in parts.lanes)


def decision_of(lane: Lane, decisions: Iterable[DecisionSpec]) -> DecisionSpec | None:
    """Return the decision that a lane takes; None if there is none, or more than one."""
    found = [each for each in decisions if lane.intent == each.id or lane.intent in each.intents]
    return found[0] if len(found) == 1 else None


def why_untrusted(parts: Parts, lane: Lane) -> str:
    """Return why the outputs of a lane cannot be trusted, whatever it declares; empty if they can be."""
    known = {tool.name: tool for tool in parts.tools}
    for name in lane.tools:
        tool = known.get(name)
        if tool is None:
            return f"{name} is not a tool of this pack"
        if tool.result_trust is not Trust.TRUSTED or tool.untrusted:
            return f"the result of {name} is not trusted"
    planned = {plan.intent for plan in parts.templates} | {goal.intent for goal in parts.library.goals}
    if lane.intent not in planned:
        return f"a language model plans {lane.intent}"
    for decision in parts.decisions:
        related = {relation.tool for relation in decision.bind if relation.tool}
        if lane.tool_name not in related and (around := related.intersection(lane.tools)):
            return (
                f"{decision.id} relates {min(around)} to its request and not {lane.tool_name}, which calls it"
            )
    return ""


def _spec(parts: Parts, lane: Lane) -> ToolSpec:
    decision = decision_of(lane, parts.decisions)
    untrusted_inputs = () if decision is None else decision.untrusted_inputs
    schema: PlainObject = {**lane.params, "additionalProperties": False}
    given = as_object(schema.get("properties")) or {}
    is_trusted = lane.trust is Trust.TRUSTED and not why_untrusted(parts, lane)
    return ToolSpec(
        name=lane.tool_name,
        description=lane.description,
        parameters=schema,
        result=envelope_schema(),
        mode=ApprovalMode.READ_ONLY,
        adapter=LANE,
        # What the lane's own run counts as trusted input must come from a trusted source here.
        authority=tuple(sorted(name for name in given if name not in untrusted_inputs)),
        trust=Trust.TRUSTED if is_trusted else Trust.UNTRUSTED,
        untrusted=("reason", "proposals") if is_trusted else (),
        idempotent=True,
        timeout_ms=lane.timeout_ms + GRACE_MS,
        reserves=lane.budget,
    )


# --- parts ---


ModelName = Annotated[str, Field(pattern=r"^(local|[A-Za-z0-9_.\-]+:\S+)$", max_length=300)]
"""`local`, or a provider and one of its models: `openai:gpt-5`."""


class ModelChoice(Authored):
    """The language models of a pack, their token limits and their prices."""

    planner: tuple[ModelName, ...] = ()
    """The planning model and its fallbacks."""
    critic: tuple[ModelName, ...] = ()
    """The models that judge outputs, for decisions that need it; preferably not the ones that wrote them."""
    repair: tuple[ModelName, ...] = ()
    """The models that repair outputs: the first one, and fallbacks for when it does not answer or does not improve them."""
    max_tokens: int = Field(default=2_048, ge=1)
    """The maximum length of an answer, in tokens."""
    max_prompt_tokens: int = Field(default=16_000, ge=256)
    """The maximum length of a prompt, in tokens."""
    prices: dict[str, TokenPrices] = {}
    """Prices by model, for models that are missing or wrong in the installed price list."""


NAME = "[a-z0-9][a-z0-9_-]{0,99}"
_NUMBER = "(0|[1-9][0-9]{0,8})"


class Header(Authored):
    """The name, the version and the settings of a pack."""

    name: str = Field(pattern=f"^{NAME}$")
    version: str = Field(pattern=rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}$")
    description: str = ""
    safety_mode: ApprovalMode = ApprovalMode.LOCAL_WRITE
    """The default safety mode of runs."""
    on_failure: OnFailure = "ask"
    """What happens to effects when a run ends without success; a decision may override it."""
    budget: RunBudget = RunBudget()
    risk_tiers: dict[RiskTier, tuple[Check, ...]] = {}
    """The checks of each risk tier; a tier that is not named keeps the defaults."""
    session: SessionRules = SessionRules()
    limits: dict[RoleName, RoleLimit] = {}
    """The time per turn and tokens per run of each role."""
    models: ModelChoice = ModelChoice()
    """The language models of this pack, and their prices."""
    context: ContextRules = ContextRules()
    """The token limits of a planner's context."""
    control: dict[Name, ControlSpec] = {}
    """The repair controller of each task class; `default` applies to classes that are not named."""
    notify: Notify | None = None
    """Who is notified when a gate opens."""
    personal: PersonalMarks = PersonalMarks()
    """The personal values of this pack, which can be erased."""

    @property
    def ref(self) -> str:
        """The name and the version: `name@x.y.z`."""
        return f"{self.name}@{self.version}"

    def control_for(self, task_class: str) -> ControlSpec | None:
        """Return the controller of a task class: its own, or the default one; None if the pack has neither."""
        return self.control.get(task_class) or self.control.get(ANY_CLASS)

    def limit_for(self, role: RoleName, decision: DecisionSpec | None = None) -> RoleLimit:
        """Return the limit of a role. A planner's time is the decision's own, else the pack's, else the default of the
        decision's risk tier.
        """
        given = self.limits.get(role, RoleLimit())
        if role != "planner":
            return given
        own = None if decision is None else decision.planner_timeout_ms
        usual = PLANNER_TIMEOUT_MS if decision is None else PLANNER_TIMEOUTS[decision.risk_tier]
        return RoleLimit(timeout_ms=own or given.timeout_ms or usual, tokens=given.tokens)


class PackFile(Header):
    """`pack.toml`."""

    tools: tuple[str, ...] | None = None
    """The Python files with the tools; None means `tools.py`, if it exists."""


Kind = Literal[
    "tool",
    "service",
    "command",
    "decision",
    "gate",
    "policy",
    "actor",
    "evidence",
    "fact",
    "task",
    "method",
    "goal",
    "server",
    "lane",
    "scenario",
]
Severity = Literal["error", "warning", "note"]

PACK = "pack"
"""The place of problems with the pack as a whole."""
TUNING = "tuning"
"""The place of problems with tuning."""


class Spot(NamedTuple):
    """A file of the pack, by its path in the folder, and the line if known."""

    file: str
    row: int | None = None


def printable(text: str) -> str:
    """Return a text that can be shown and stored: bytes that are not characters, as in file names, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The declarations of a pack, and which of them could not be read."""

    safety_mode: ApprovalMode = ApprovalMode.LOCAL_WRITE
    budget: RunBudget = field(default_factory=RunBudget)
    session: SessionRules = field(default_factory=SessionRules)
    limits: Mapping[RoleName, RoleLimit] = field(default_factory=dict[RoleName, RoleLimit])
    models: ModelChoice = field(default_factory=ModelChoice)
    context: ContextRules = field(default_factory=ContextRules)
    control: Mapping[str, ControlSpec] = field(default_factory=dict[str, ControlSpec])
    notify: Notify | None = None
    personal: PersonalMarks = field(default_factory=PersonalMarks)
    tools: tuple[ToolSpec, ...] = ()
    decisions: tuple[DecisionSpec, ...] = ()
    gates: tuple[Gate, ...] = ()
    policies: tuple[Policy, ...] = ()
    lanes: tuple[Lane, ...] = ()
    actors: tuple[Actor, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    templates: tuple[Plan, ...] = ()
    library: TaskLibrary = field(default_factory=TaskLibrary)
    tuning: TuningRules = field(default_factory=TuningRules)
    spots: Mapping[str, Spot] = field(default_factory=dict[str, Spot])
    broken: frozenset[str] = frozenset()
    """The places of declarations that did not parse."""
    unread: frozenset[Kind] = frozenset()
    """The kinds of declarations that may be incomplete, since a file could not be read."""

    @cached_property
    def tool(self) -> Mapping[str, ToolSpec]:
        """The tools and lanes that a step may call, by name."""
        return {tool.name: tool for tool in (*self.tools, *lane_specs(self))}

    @cached_property
    def gate(self) -> Mapping[str, Gate]:
        """The gates by name."""
        return {gate.name: gate for gate in self.gates}

    def is_partial(self, kind: Kind) -> bool:
        """Return whether declarations of this kind may be missing because a file could not be read."""
        return kind in self.unread or any(place.startswith(f"{kind} ") for place in self.broken)

    def lacks_tool(self, name: str) -> bool:
        """Return whether the pack certainly has no such tool."""
        return name not in self.tool and self._is_absent("tool", name)

    def lacks_gate(self, name: str) -> bool:
        """Return whether the pack certainly has no such gate."""
        return name not in self.gate and self._is_absent("gate", name)

    def problem(
        self, code: str, place: str, message: str, remedy: str, *, severity: Severity = "error"
    ) -> Problem:
        """Return a problem at a place, with the file and row where that was written."""
        spot = self.spots.get(place) or self.spots.get(place.rpartition(", ")[0])
        return Problem(
            code=code,
            place=printable(place),
            message=printable(message),
            remedy=printable(remedy),
            file=printable(spot.file) if spot else None,
            row=spot.row if spot else None,
            severity=severity,
        )

    def warning(self, code: str, place: str, message: str, remedy: str) -> Problem:
        """Return a problem that does not keep the pack from loading."""
        return self.problem(code, place, message, remedy, severity="warning")

    def _is_absent(self, kind: Kind, name: str) -> bool:
        return kind not in self.unread and f"{kind} {name}" not in self.broken
