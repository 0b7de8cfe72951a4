"""The tunable parts of a pack: five kinds of surfaces, each a typed value within bounds that a person has declared.

A candidate is one value for each of some surfaces, and nothing else. It has no field for a tool, a mode, a gate, a
policy or a plan, so none can be proposed.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from tercet.contracts.decision import RiskTier, ThresholdName
from tercet.contracts.shape import Authored, Name, Score

SurfaceName = Literal[
    "planner_templates", "replan_budgets", "critic_rubrics", "subagent_lanes", "background_sessions"
]
"""The five kinds of surfaces."""

Value: TypeAlias = StrictBool | StrictInt | StrictFloat | StrictStr
"""The value of a surface: one scalar."""

ReplanBudget = Literal["max_replans", "max_retries", "max_step_retries", "max_repairs", "max_iterations"]
RubricValue = Literal["threshold", "minimum", "weight", "rubric_threshold", "verification_threshold"]
SessionValue = Literal["ttl_ms", "heartbeat_interval_ms"]

FLOORS: frozenset[str] = frozenset({"schema", "policy", "safety"})
"""The measurements whose limits may be raised but never lowered."""
SAFE = "safe"
"""The scorer whose dimension may not be lowered either."""
MOST_VALUES = 1_000
"""The maximum number of values of a surface."""

Values = Annotated[tuple[Value, ...], Field(min_length=1, max_length=MOST_VALUES)]


class _Surface(Authored):
    surface: ClassVar[SurfaceName]
    """The kind of surface."""
    label: ClassVar[str]

    @property
    def id(self) -> str:
        """Its name in candidates and proposals."""
        return self.label.format(self)


class TemplateSurface(_Surface):
    """A parameter of a step in the pack's own template: one of the values that a person has listed."""

    surface = "planner_templates"
    label = "template {0.intent} {0.step}.{0.param}"
    intent: Name
    step: Name
    param: Name
    choices: Values


class MethodSurface(_Surface):
    """Which of the pack's methods for a task is tried first, that is, the cheapest."""

    surface = "planner_templates"
    label = "method {0.task}"
    task: Name
    choices: Annotated[tuple[StrictStr, ...], Field(min_length=1, max_length=MOST_VALUES)]


class ReplanSurface(_Surface):
    """How often a run may re-plan, retry, repair or iterate."""

    surface = "replan_budgets"
    label = "replan {0.budget}"
    budget: ReplanBudget
    low: int = Field(ge=0, le=10_000)
    high: int = Field(ge=0, le=10_000)

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        _demand_range(self.low, self.high, 1)
        return self


class RubricSurface(_Surface):
    """A weight, a minimum or a threshold by which the outputs of a decision are judged."""

    surface = "critic_rubrics"
    decision: Name
    value: RubricValue
    name: ThresholdName | Name | None = None
    """The threshold, or the dimension of the rubric; absent for a limit of the whole rubric."""
    low: Score
    high: Score
    step: float = Field(default=0.01, gt=0.0, le=1.0)

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        _demand_range(self.low, self.high, self.step)
        if (self.name is None) != self.value.endswith("_threshold"):
            raise ValueError("name says which threshold or dimension it is; a limit of the whole has none")
        return self

    @property
    def id(self) -> str:
        """Its name in candidates and proposals."""
        return f"rubric {self.decision} {self.value}{f' {self.name}' if self.name else ''}"


class LaneSurface(_Surface):
    """For which risk tiers a lane may run, for how long, and how many of it; nothing is searched in a pack without lanes."""

    surface = "subagent_lanes"
    label = "lane {0.value}"
    lane: str | None = None
    """The lane, by its name; None for the only one."""
    value: Literal["risk_tier", "timeout_ms", "max_fan_out"]
    """`risk_tier` is the highest tier that the lane is for."""
    choices: Values

    @model_validator(mode="after")
    def _has_its_type(self) -> Self:
        known = set(RiskTier)
        is_tier = self.value == "risk_tier"
        for choice in self.choices:
            fits = choice in known if is_tier else type(choice) is int and choice > 0
            if not fits:
                number = "a number of milliseconds" if self.value == "timeout_ms" else "a number of lanes"
                wanted = f"one of {', '.join(known)}" if is_tier else number
                raise ValueError(f"{choice!r} is not {wanted}")
        return self

    @property
    def id(self) -> str:
        """What it is called in candidates and proposals."""
        return f"lane {self.lane} {self.value}" if self.lane else f"lane {self.value}"


class SessionSurface(_Surface):
    """The lifetime or the heartbeat interval of a session."""

    surface = "background_sessions"
    label = "session {0.value}"
    value: SessionValue
    choices: Annotated[
        tuple[Annotated[StrictInt, Field(ge=1)], ...], Field(min_length=1, max_length=MOST_VALUES)
    ]


Surface: TypeAlias = (
    TemplateSurface | MethodSurface | ReplanSurface | RubricSurface | LaneSurface | SessionSurface
)


class ScoreWeights(Authored):
    """The weight of each measurement in the score that is searched by. Utility has the weight 1."""

    cost: Score = 0.1
    escalations: Score = 0.1
    held: Score = 0.05
    """The time that sessions are open."""


class TuningRules(Authored):
    """`tuning.toml`: the tunable surfaces of a pack and their bounds. A pack without it cannot be tuned."""

    template: tuple[TemplateSurface, ...] = ()
    method: tuple[MethodSurface, ...] = ()
    replan: tuple[ReplanSurface, ...] = ()
    rubric: tuple[RubricSurface, ...] = ()
    lane: tuple[LaneSurface, ...] = ()
    session: tuple[SessionSurface, ...] = ()
    score: ScoreWeights = Field(default_factory=ScoreWeights)
    min_runs: int = Field(default=10, ge=1)
    """How many recorded runs must show what a candidate would do before it is proposed."""

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        ids = [each.id for each in self.surfaces]
        twice = sorted({each for each in ids if ids.count(each) > 1})
        if twice:
            raise ValueError(f"{twice[0]} is listed more than once")
        return self

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """All surfaces, ordered by kind."""
        return (*self.template, *self.method, *self.replan, *self.rubric, *self.lane, *self.session)


class Candidate(Authored):
    """A value for each of some surfaces, by id: everything that a search can propose."""

    values: dict[Name, Value] = {}


def domain_of(surface: Surface) -> tuple[Value, ...]:
    """Return every value that a surface may take, in order."""
    match surface:
        case ReplanSurface():
            return tuple(range(surface.low, surface.high + 1))
        case RubricSurface():
            count = int((surface.high - surface.low) / surface.step + 1e-9) + 1
            return tuple(round(surface.low + number * surface.step, 6) for number in range(count))
        case _:
            return tuple(dict.fromkeys(surface.choices))


def _demand_range(low: float, high: float, step: float) -> None:
    if low > high:
        raise ValueError(f"low is {low:g} and high is {high:g}: there is nothing between them")
    if (high - low) / step > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES:,} values: take larger steps")
