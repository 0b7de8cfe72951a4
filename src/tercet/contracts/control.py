"""The controller of the quality loop: what a pack says about it, what it remembers, what it decides and what it foresees.

The letters are those of control theory: a setpoint r*, a measured quality y, an error e = r* - y, a repair intensity u,
and a repair gain G, which says how much quality one unit of intensity brings: y' = y + G·u + w, with noise w.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Discriminator, Field, Tag, model_validator

from tercet.contracts.outputs.quality import RepairMeans, RepairStrategy
from tercet.contracts.shape import Authored, Count, Name, Score, Shape

PLACES = 6
"""Derived numbers are rounded to so many places before they are stored."""
MOST = 1e6
"""No number of a controller is larger; so nothing that is computed from them overflows."""
ANY_CLASS = "default"
"""The task class whose controller serves those that have none of their own."""

Quality: TypeAlias = float | Mapping[str, float]
"""What was measured: one number, or one for each dimension of the setpoint."""
Setpoint = Annotated[
    Annotated[Score, Tag("number")] | Annotated[dict[Name, Score], Tag("dimensions")],
    # An error is then about the form that was meant, not about both.
    Discriminator(lambda given: "dimensions" if isinstance(given, dict) else "number"),
]
Amount = Annotated[float, Field(ge=0.0, le=MOST)]
OverCost = Literal["fail", "relax_epsilon", "reduce_kp"]
Character = Literal["monotone", "oscillating", "unstable"]
"""How the error moves: towards zero from one side, around zero, or away from it."""
Escalation = Literal["switch_model", "retrieve_evidence", "decompose", "ask_human"]
ESCALATIONS: tuple[Escalation, ...] = ("switch_model", "retrieve_evidence", "decompose", "ask_human")
"""What is tried where repairing again does not help, the cheapest first."""


def rounded(value: float) -> float:
    """A derived number as it is stored; never the negative zero, which prints differently from the other one."""
    return round(value, PLACES) + 0.0


class ControlSpec(Authored):
    """The controller of one task class, as a pack declares it."""

    setpoint: Setpoint = 1.0
    """The quality that is aimed at; or one for each dimension, such as correct, complete, coherent and safe."""
    epsilon: Score = 0.1
    """How far below the setpoint an output may be, in its worst dimension, and be accepted."""
    kp: float | None = Field(default=None, ge=1e-6, le=MOST)
    """None means the damped gain, (1 - alpha) / gain."""
    ki: Amount = 0.0
    kd: Amount = 0.0
    alpha: float = Field(default=0.3, ge=0.2, le=0.5)
    """How much a gain that is not given is damped."""
    gain: float = Field(default=0.5, ge=0.001, le=1.0)
    """G: the quality that one unit of intensity is expected to bring; below a thousandth nothing is repaired."""
    sigma: Amount = 0.0
    """The standard deviation of what a repair brings."""
    u_min: float = Field(default=0.0, ge=-MOST, le=MOST)
    u_max: float = Field(default=1.0, ge=-MOST, le=MOST)
    section_from: Amount = 0.34
    """From this intensity on a section is rewritten; below, a minimal edit is made."""
    regenerate_from: Amount = 0.67
    """From this intensity on everything is regenerated."""
    k_max: int = Field(default=5, ge=0, le=1_000)
    """How many repairs there may be."""
    c_base: Amount = 1.0
    """What a repair costs at least, in whatever the pack counts: tokens, calls, cents."""
    beta: Amount = 1.0
    """How much dearer a repair is for each unit of intensity."""
    c_max: Amount | None = None
    """What all repairs of an output may cost; None leaves that to the budget of the run."""
    delta_min: Score = 0.01
    """From the third repair on, an error that changed by less has stalled."""
    on_over_cost: OverCost = "fail"
    """What is done where the repairs are foreseen to cost more than `c_max`."""
    epsilon_max: Score | None = None
    """How far `epsilon` may be relaxed; None means not at all."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if isinstance(self.setpoint, dict) and not self.setpoint:
            raise ValueError("a setpoint has at least one dimension")
        if self.u_min > self.u_max:
            raise ValueError("u_min is above u_max")
        if self.section_from > self.regenerate_from:
            raise ValueError("section_from is above regenerate_from")
        if 1.0 + self.beta * self.u_min < 0.0:
            raise ValueError("at u_min a repair would cost less than nothing: raise u_min or lower beta")
        return self

    @property
    def proportional(self) -> float:
        """Kp: the one that is given, or the damped one."""
        return (1.0 - self.alpha) / self.gain if self.kp is None else self.kp

    @property
    def target(self) -> float:
        """The setpoint as one number: the highest one, where there are several."""
        return max(self.setpoint.values()) if isinstance(self.setpoint, dict) else self.setpoint

    @property
    def is_proportional(self) -> bool:
        """Whether the error alone decides, neither its sum nor its change."""
        return self.ki == 0.0 and self.kd == 0.0


class ControlState(Shape):
    """What the controller remembers between two measurements; the empty one begins."""

    iteration: Count = 0
    """The repairs so far."""
    integral: float = 0.0
    last_error: float | None = None
    """The error of the measurement before; None at the first one."""
    cost: float = 0.0
    """What the repairs so far were estimated to cost."""


class StopReason(StrEnum):
    """Why there is no further repair."""

    REACHED = "quality_reached"
    ITERATIONS = "iteration_budget_exceeded"
    COST = "cost_budget_exceeded"
    STALLED = "convergence_stalled"
    NOISE = "noise_floor"


StopOutcome = Literal["commit", "fail", "escalate"]
OUTCOMES: dict[StopReason, StopOutcome] = {
    StopReason.REACHED: "commit",
    StopReason.ITERATIONS: "fail",
    StopReason.COST: "fail",
    StopReason.STALLED: "escalate",
    StopReason.NOISE: "escalate",
}


class RepairCommand(Shape):
    """Repair the output, with this intensity."""

    kind: Literal["repair"] = "repair"
    intensity: float
    strategy: RepairStrategy
    cost: float
    """What this repair is estimated to cost."""
    error: float
    worst: str | None = None
    """The dimension that is furthest from its setpoint; None where quality is one number."""


class StopCommand(Shape):
    """Stop repairing."""

    kind: Literal["stop"] = "stop"
    reason: StopReason
    error: float
    worst: str | None = None

    @property
    def outcome(self) -> StopOutcome:
        """What it leads to."""
        return OUTCOMES[self.reason]


ControlCommand: TypeAlias = RepairCommand | StopCommand


class NoiseFloor(Shape):
    """The smallest error that noise allows, however many repairs are made."""

    mean_square: float
    """The expected square of the error after many repairs; the clamp is not considered."""
    best_quality: float
    """The setpoint less the root of that."""
    is_above_epsilon: bool
    """Whether repairing alone cannot be relied on to reach the setpoint."""


class CostOption(Shape):
    """What can be done about repairs that would cost more than they may."""

    kind: OverCost
    epsilon: float | None = None
    """The tolerance instead of the pack's."""
    kp: float | None = None
    """The gain instead of the pack's."""
    iterations: Count | None = None
    """The repairs that this takes; None where it is to fail."""
    cost: float | None = None


class ControlPrediction(Shape):
    """What a controller is expected to do with an output of some quality, without noise."""

    start_error: float
    kp: float
    kp_bound: float
    """Every Kp above zero and below this is stable; there is none if this is not above zero."""
    character: Character
    end: StopReason
    iterations: Count
    cost: float
    errors: tuple[float, ...]
    """The error at each measurement, the first and the last included."""
    k_star: Count | None = None
    """The repairs by the closed formula; None where it does not apply."""
    cost_to_reach: float | None = None
    """What it would cost to come near enough, if cost were no matter; None if that is out of reach even so."""
    floor: NoiseFloor | None
    """None for a loop that is not stable."""
    options: tuple[CostOption, ...] = ()
    """Where it is too dear: everything that would help, and to fail."""
    choice: CostOption | None = None
    """The option that the pack asks for, or to fail where that one does not help."""

    @property
    def is_reached(self) -> bool:
        """Whether the quality is expected to be reached within the bounds."""
        return self.end is StopReason.REACHED


class RepairObservation(Shape):
    """One recorded repair: what it was asked to do, and what came of it."""

    task_class: Name
    run: Name
    """The output that was repaired; the repairs of one output make a trajectory."""
    iteration: Count
    """How many repairs that output had had before."""
    intensity: float = Field(ge=-MOST, le=MOST)
    before: float = Field(ge=-MOST, le=MOST)
    """The quality before; where it has several dimensions, the highest setpoint less the worst error."""
    after: float = Field(ge=-MOST, le=MOST)
    means: RepairMeans = "model"
    """Who made it: rules alone do the same at every intensity."""


class GainEstimate(Shape):
    """What recorded repairs say about a task class."""

    sample: Count
    """How many repairs there were."""
    gain: float
    low: float
    """The gain is above this with a probability of 97.5 per cent, if the model holds."""
    high: float
    sigma: float
    is_at_bound: bool = False
    """Whether the gain was outside of what a gain may be, and is the nearest that it may be."""

    def applied_to(self, spec: ControlSpec) -> ControlSpec:
        """A controller with the estimated gain and noise."""
        return spec.model_copy(update={"gain": self.gain, "sigma": self.sigma})
