"""What of a pack may be tuned: five surfaces, each a typed value within bounds that a person has written down.

A candidate is one value for each of some surfaces, and nothing else. There is no place in it for a tool, a mode, a gate, a
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
"""The five surfaces."""

Value: TypeAlias = StrictBool | StrictInt | StrictFloat | StrictStr
"""What a surface can be set to: one scalar."""

ReplanBudget = Literal["max_replans", "max_retries", "max_step_retries", "max_repairs", "max_iterations"]
RubricValue = Literal["threshold", "minimum", "weight", "rubric_threshold", "verification_threshold"]
SessionValue = Literal["ttl_ms", "heartbeat_interval_ms"]

FLOORS: frozenset[str] = frozenset({"schema", "policy", "safety"})
"""The measurements whose limits may be raised and never lowered."""
SAFE = "safe"
"""The scorer whose dimension is a floor too."""
MOST_VALUES = 1_000
"""How many values one surface may have."""

Values = Annotated[tuple[Value, ...], Field(min_length=1, max_length=MOST_VALUES)]


class _Surface(Authored):
    surface: ClassVar[SurfaceName]
    """Which of the five it is."""
    label: ClassVar[str]

    @property
    def id(self) -> str:
        """What it is called in candidates and proposals."""
        return self.label.format(self)


class TemplateSurface(_Surface):
    """A parameter of a step of the pack's own template: one of the values that a person has listed."""

    surface = "planner_templates"
    label = "template {0.intent} {0.step}.{0.param}"
    intent: Name
    step: Name
    param: Name
    choices: Values


class MethodSurface(_Surface):
    """Which of the pack's own methods for a task is taken first: the cheapest one is."""

    surface = "planner_templates"
    label = "method {0.task}"
    task: Name
    choices: Annotated[tuple[StrictStr, ...], Field(min_length=1, max_length=MOST_VALUES)]


class ReplanSurface(_Surface):
    """How often a run may plan anew, call again, repair or go round."""

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
    """Which threshold, or which dimension of the rubric; not for a limit of the whole."""
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
        """What it is called in candidates and proposals."""
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
    """How long a session lives, or how often it must give a sign of life."""

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
    """How much each measurement counts in the one number that is searched by. Utility counts 1."""

    cost: Score = 0.1
    escalations: Score = 0.1
    held: Score = 0.05
    """The time for which sessions are open."""


class TuningRules(Authored):
    """`tuning.toml`: which surfaces of a pack may be tuned, and in which bounds. A pack without it cannot be tuned."""

    template: tuple[TemplateSurface, ...] = ()
    method: tuple[MethodSurface, ...] = ()
    replan: tuple[ReplanSurface, ...] = ()
    rubric: tuple[RubricSurface, ...] = ()
    lane: tuple[LaneSurface, ...] = ()
    session: tuple[SessionSurface, ...] = ()
    score: ScoreWeights = Field(default_factory=ScoreWeights)
    min_runs: int = Field(default=10, ge=1)
    """How many recorded runs must tell what a candidate would do, before it is proposed."""

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        ids = [each.id for each in self.surfaces]
        twice = sorted({each for each in ids if ids.count(each) > 1})
        if twice:
            raise ValueError(f"{twice[0]} stands here more than once")
        return self

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """All of them, in the order of their kinds."""
        return (*self.template, *self.method, *self.replan, *self.rubric, *self.lane, *self.session)


class Candidate(Authored):
    """A value for each of some surfaces, by their ids: all that a search can come up with."""

    values: dict[Name, Value] = {}


def domain_of(surface: Surface) -> tuple[Value, ...]:
    """Every value that a surface may be set to, in order."""
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
