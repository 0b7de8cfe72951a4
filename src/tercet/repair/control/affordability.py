"""What can be done where repairs are foreseen to cost more than they may: accept less, repair more gently, or fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from tercet.contracts.control import PLACES, ControlSpec, CostOption, rounded
from tercet.repair.control.course import foresee


def affordable_options(spec: ControlSpec, quality: float) -> tuple[CostOption, ...]:
    """Everything that would help, and to fail, which always can be done."""
    return (*_relaxed(spec, quality), *_gentler(spec, quality), CostOption(kind="fail"))


def chosen(spec: ControlSpec, options: Sequence[CostOption]) -> CostOption:
    """What the pack asks for; the last option, which is to fail, where that does not help."""
    return next((option for option in options if option.kind == spec.on_over_cost), options[-1])


def apply(spec: ControlSpec, option: CostOption) -> ControlSpec:
    """The controller as an option changes it."""
    changed = {"epsilon": option.epsilon, "kp": option.kp}
    return spec.model_copy(update={name: value for name, value in changed.items() if value is not None})


def _relaxed(spec: ControlSpec, quality: float) -> Iterator[CostOption]:
    """The smallest tolerance that can be paid for, if the pack allows one so large."""
    nearest = min(foresee(spec, quality).errors)
    if spec.epsilon_max is not None and spec.epsilon < nearest <= spec.epsilon_max:
        yield from _working(spec, CostOption(kind="relax_epsilon", epsilon=nearest), quality)


def _gentler(spec: ControlSpec, quality: float) -> Iterator[CostOption]:
    """The largest smaller Kp that can be paid for.

    Repairs that go further than they need are what a smaller Kp saves. So the candidates are those that come out just
    at the tolerance, after one repair, after two, and so on.
    """
    error = spec.target - quality
    for count in range(1, spec.k_max + 1):
        shrinkage = (spec.epsilon / error) ** (1.0 / count)
        kp = _rounded_up((1.0 - shrinkage) / spec.gain)
        option = CostOption(kind="reduce_kp", kp=kp)
        found = next(_working(spec, option, quality), None) if kp < spec.proportional else None
        if found is not None:
            yield found
            return


def _working(spec: ControlSpec, option: CostOption, quality: float) -> Iterator[CostOption]:
    """The option with what it costs, if it does help."""
    course = foresee(apply(spec, option), quality)
    if course.is_reached:
        yield option.model_copy(update={"iterations": course.iterations, "cost": course.cost})


def _rounded_up(value: float) -> float:
    scale = 10**PLACES
    return rounded(ceil(value * scale + 1.0) / scale)
