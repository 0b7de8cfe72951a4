"""Controllers of the quality loop: gains that let the error die away, and limits under which it can."""

from __future__ import annotations

from tercet.contracts.control import ControlSpec
from tercet.packs.checks import Check, Problems
from tercet.packs.parts import PACK, Parts
from tercet.repair.control import character_of, is_stable, kp_bound, noise_floor


def controls_are_stable(parts: Parts) -> Problems:
    """The error of every controller dies away: an unstable one would repair for ever, or until its budget is gone."""
    for name, spec in parts.control.items():
        if not is_stable(spec):
            message, remedy = _instability(spec)
            yield parts.problem("control_unstable", _place(name, spec, "kp"), message, remedy)


def _place(name: str, spec: ControlSpec, key: str) -> str:
    """Where a key stands; where it is not written, the table that it would stand in."""
    table = f"{PACK}, control.{name}"
    return f"{table}.{key}" if key in spec.model_fields_set else table


def _instability(spec: ControlSpec) -> tuple[str, str]:
    bound = kp_bound(spec)
    if bound <= 0.0:
        return (
            f"no kp is stable with ki = {spec.ki:g}, kd = {spec.kd:g} and a gain of {spec.gain:g}: 2/gain - ki/2 - 2·kd is {bound:g}",
            "lower ki or kd",
        )
    rule = "2/gain" if spec.is_proportional else "2/gain - ki/2 - 2·kd"
    damped = (1.0 - spec.alpha) / spec.gain
    advice = f"leave kp out, which gives {damped:g}" if damped < bound else f"choose about {bound / 2:.4g}"
    return (
        f"kp = {spec.proportional:g} is unstable with a gain of {spec.gain:g}: it must be below {bound:.6g} ({rule})",
        f"choose a kp below {bound:.6g}, or {advice}",
    )


def controls_are_calm(parts: Parts) -> Problems:
    """No controller repairs too much and then too little."""
    for name, spec in parts.control.items():
        if character_of(spec) == "oscillating":
            yield parts.problem(
                "control_oscillates",
                _place(name, spec, "kp"),
                f"with kp = {spec.proportional:g} the error goes to and fro around the setpoint before it dies away",
                f"choose a kp of at most {(1.0 - spec.alpha) / spec.gain:.4g}, or less ki and kd",
                severity="warning",
            )


def controls_can_reach(parts: Parts) -> Problems:
    """Noise lets every controller come as near to its setpoint as it has to."""
    for name, spec in parts.control.items():
        floor = noise_floor(spec)
        if floor is not None and floor.is_above_epsilon:
            yield parts.problem(
                "control_in_noise",
                _place(name, spec, "sigma"),
                f"noise keeps the quality at about {floor.best_quality:g}, below the {spec.target - spec.epsilon:g} that would be accepted, so repairs end in escalation",
                "raise epsilon, lower kp, or repair by means that vary less",
                severity="warning",
            )


CONTROL_CHECKS: tuple[Check, ...] = (controls_are_calm, controls_can_reach)
"""What makes a controller a poor one; that it is stable is looked at when the pack is loaded."""
