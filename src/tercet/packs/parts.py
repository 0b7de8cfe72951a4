"""What a pack says about itself and declares, as the checks see it: whole, or as far as a broken folder could be read.

A place such as `gate GATE_FINANCE` or `gate GATE_FINANCE, quorum` names a declaration or one of its fields. Places are
the keys of `spots`, so a check that knows the place of a problem need not know about files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from tercet.contracts.buckets import ContextRules
from tercet.contracts.budget import RunBudget
from tercet.contracts.context import Check
from tercet.contracts.control import ANY_CLASS, ControlSpec
from tercet.contracts.decision import PLANNER_TIMEOUTS, DecisionSpec, OnFailure, RiskTier
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate, Notify
from tercet.contracts.lane import Lane
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.prices import TokenPrices
from tercet.contracts.problem import Problem
from tercet.contracts.request import Actor
from tercet.contracts.session import PLANNER_TIMEOUT_MS, RoleLimit, RoleName, SessionRules
from tercet.contracts.shape import Authored, Name
from tercet.contracts.tasks import TaskLibrary
from tercet.contracts.tool import ToolSpec
from tercet.contracts.tuning import TuningRules
from tercet.packs.lanes import lane_specs

ModelName = Annotated[str, Field(pattern=r"^(local|[A-Za-z0-9_.\-]+:\S+)$", max_length=300)]
"""`local`, or a provider and one of its models: `openai:gpt-5`."""


class ModelChoice(Authored):
    """The models that are asked for plans, how much they may read and write, and what they cost."""

    planner: tuple[ModelName, ...] = ()
    """The model that plans, and those that are asked when it does not answer."""
    critic: tuple[ModelName, ...] = ()
    """The models that judge outputs, where a decision asks for that; best others than those that wrote them."""
    repair: tuple[ModelName, ...] = ()
    """The models that mend outputs: the first one, and those that are asked when it does not answer or does no good."""
    max_tokens: int = Field(default=2_048, ge=1)
    """How long an answer may become."""
    max_prompt_tokens: int = Field(default=16_000, ge=256)
    """How much a model is told at most."""
    prices: dict[str, TokenPrices] = {}
    """Prices by model, for those that the installed list does not know, or knows wrongly."""


NAME = "[a-z0-9][a-z0-9_-]{0,99}"
_NUMBER = "(0|[1-9][0-9]{0,8})"


class Header(Authored):
    """The name, the version and the frame of a pack."""

    name: str = Field(pattern=f"^{NAME}$")
    version: str = Field(pattern=rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}$")
    description: str = ""
    safety_mode: ApprovalMode = ApprovalMode.LOCAL_WRITE
    """How far a run of this pack may go unless it is told otherwise."""
    on_failure: OnFailure = "ask"
    """What becomes of effects when a run ends without success; a decision may say otherwise."""
    budget: RunBudget = RunBudget()
    risk_tiers: dict[RiskTier, tuple[Check, ...]] = {}
    """The checks of each risk tier; a tier that is not named keeps the usual ones."""
    session: SessionRules = SessionRules()
    limits: dict[RoleName, RoleLimit] = {}
    """How long each role may take at a time, and how many tokens it may use in a run."""
    models: ModelChoice = ModelChoice()
    """The language models that plan for this pack, and what they cost."""
    context: ContextRules = ContextRules()
    """How much of a context a planner is shown."""
    control: dict[Name, ControlSpec] = {}
    """How outputs of each task class are repaired; `default` serves the classes that are not named."""
    notify: Notify | None = None
    """Who is told that a gate has opened."""

    @property
    def ref(self) -> str:
        """The name and the version: `name@x.y.z`."""
        return f"{self.name}@{self.version}"

    def control_for(self, task_class: str) -> ControlSpec | None:
        """The controller of a task class: its own, or the default one; None where the pack has neither."""
        return self.control.get(task_class) or self.control.get(ANY_CLASS)

    def limit_for(self, role: RoleName, decision: DecisionSpec | None = None) -> RoleLimit:
        """The limit that applies to a role: what is declared. A planner's time is the decision's own where it has one,
        and where nothing is said, what the decision's risk tier gives."""
        given = self.limits.get(role, RoleLimit())
        if role != "planner":
            return given
        own = None if decision is None else decision.planner_timeout_ms
        usual = PLANNER_TIMEOUT_MS if decision is None else PLANNER_TIMEOUTS[decision.risk_tier]
        return RoleLimit(timeout_ms=own or given.timeout_ms or usual, tokens=given.tokens)


class PackFile(Header):
    """`pack.toml`."""

    tools: tuple[str, ...] | None = None
    """The Python files that hold the tools; None means `tools.py`, if it is there."""


Kind = Literal[
    "tool",
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
]
Severity = Literal["error", "warning", "note"]

PACK = "pack"
"""The place of what belongs to the pack as a whole."""
TUNING = "tuning"
"""The place of what is said about tuning it."""


class Spot(NamedTuple):
    """A file of the pack, by its path in the folder, and the line in it where that is known."""

    file: str
    row: int | None = None


def printable(text: str) -> str:
    """A text that can be shown and stored: what is no character, such as a byte of a file name, is spelt out."""
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The declarations of a pack, and what is known about those that could not be read."""

    safety_mode: ApprovalMode = ApprovalMode.LOCAL_WRITE
    budget: RunBudget = field(default_factory=RunBudget)
    session: SessionRules = field(default_factory=SessionRules)
    limits: Mapping[RoleName, RoleLimit] = field(default_factory=dict[RoleName, RoleLimit])
    models: ModelChoice = field(default_factory=ModelChoice)
    context: ContextRules = field(default_factory=ContextRules)
    control: Mapping[str, ControlSpec] = field(default_factory=dict[str, ControlSpec])
    notify: Notify | None = None
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
    """The places of declarations that exist but did not parse."""
    unread: frozenset[Kind] = frozenset()
    """The kinds of which some declarations may be missing here, since a file could not be read."""

    @cached_property
    def tool(self) -> Mapping[str, ToolSpec]:
        """The tools and lanes that a step may call, by name."""
        return {tool.name: tool for tool in (*self.tools, *lane_specs(self))}

    @cached_property
    def gate(self) -> Mapping[str, Gate]:
        """The gates by name."""
        return {gate.name: gate for gate in self.gates}

    def is_partial(self, kind: Kind) -> bool:
        """Whether declarations of this kind may be missing here that the author has written."""
        return kind in self.unread or any(place.startswith(f"{kind} ") for place in self.broken)

    def lacks_tool(self, name: str) -> bool:
        """Whether the pack certainly has no such tool."""
        return name not in self.tool and self._is_absent("tool", name)

    def lacks_gate(self, name: str) -> bool:
        """Whether the pack certainly has no such gate."""
        return name not in self.gate and self._is_absent("gate", name)

    def problem(
        self, code: str, place: str, message: str, remedy: str, *, severity: Severity = "error"
    ) -> Problem:
        """A problem at a place, with the file and row where that was written."""
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

    def _is_absent(self, kind: Kind, name: str) -> bool:
        return kind not in self.unread and f"{kind} {name}" not in self.broken
