"""The course of a loop without noise: the controller, run against the plant y' = y + G·u that it believes in."""

from __future__ import annotations

from dataclasses import dataclass

from tercet.contracts.control import ControlSpec, ControlState, StopCommand, StopReason
from tercet.repair.control.controller import step


@dataclass(frozen=True, kw_only=True)
class ExecutionPlan:
    """Every error until the end, and what the end was."""

    errors: tuple[float, ...]
    end: StopReason
    cost: float

    @property
    def iterations(self) -> int:
        """The repairs."""
        return len(self.errors) - 1

    @property
    def is_reached(self) -> bool:
        """Whether the output came near enough to its setpoint."""
        return self.end is StopReason.REACHED


def foresee(spec: ControlSpec, quality: float) -> ExecutionPlan:
    """What the controller does with an output of this quality if every repair brings just what is expected of it.

    A prediction is about one number, so the setpoint counts as one, and noise is left out: also from the decision to
    stop because of it.
    """
    plain = spec.model_copy(update={"setpoint": spec.target, "sigma": 0.0})
    state, errors = ControlState(), list[float]()
    # It ends: every turn but the last is a repair, and there are at most `k_max` of them.
    while True:
        state, command = step(plain, state, quality)
        errors.append(command.error)
        if isinstance(command, StopCommand):
            return ExecutionPlan(errors=tuple(errors), end=command.reason, cost=state.cost)
        quality += spec.gain * command.intensity
