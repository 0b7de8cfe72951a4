"""What a controller foresaw and what was measured, as a small drawing: quality over measurements, against its aim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import floor
from typing import Any

from tercet.contracts.control import ControlPrediction, OverCost
from tercet.replay.report.loop_page import Curve, Dot, Stroke
from tercet.replay.report.wording import Wording, count, score, spoken

MOST = 24
"""How many measurements are drawn; beyond, the last ones are."""
WIDTH, HEIGHT = 340.0, 150.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 18.0, 26.0, 26.0
_ROOM = 34.0
"""How far apart measurements are whose numbers can stand beside them."""
_CHOICES: dict[OverCost, str] = {
    "fail": "that was more than repairs may cost, so nothing was repaired",
    "relax_epsilon": "that was more than repairs may cost, so less had to be reached",
    "reduce_kp": "that was more than repairs may cost, so it was steered more gently",
}


def draw_curve(controls: Sequence[Mapping[str, Any]], wording: Wording) -> Curve | None:
    """The course of what a controller remembered at each measurement; None where it had nothing to steer."""
    if not controls:
        return None
    foreseen = ControlPrediction.model_validate(controls[0]["prediction"])
    if len(controls) == 1 and not foreseen.iterations:
        return None
    measured = [float(each["quality"]) for each in controls]
    target = min(1.0, round(measured[0] + foreseen.start_error, 6))
    shown, expected = measured[-MOST:], [target - error for error in foreseen.errors][:MOST]
    scale = _Scale(longest=max(len(shown), len(expected)), lowest=min(*shown, *expected, target))
    return Curve(
        width=WIDTH,
        height=HEIGHT,
        left=_LEFT,
        base=HEIGHT - _BOTTOM,
        target_y=scale.y(target),
        target=f"aim {target:g}",
        lowest=f"{scale.lowest:g}",
        strokes=(
            Stroke(path=scale.path(expected), kind="foreseen"),
            Stroke(path=scale.path(shown), kind="measured"),
        ),
        dots=(*_dots(expected, scale, "foreseen"), *_dots(shown, scale, "measured")),
        ticks=tuple(_ticks(scale, len(measured) - len(shown))),
        summary=_summary(measured, expected, target),
        caption=wording.text(_caption(controls, measured, foreseen), 600),
    )


class _Scale:
    """Where measurements and qualities stand in the drawing."""

    def __init__(self, *, longest: int, lowest: float) -> None:
        self.longest = longest
        self.lowest = max(0.0, floor(lowest * 10 - 0.5) / 10)
        self.step = (WIDTH - _LEFT - _RIGHT - 24) / max(1, longest - 1)

    def x(self, place: int) -> float:
        return round(_LEFT + 12 + min(self.step, 130.0) * place, 1)

    def y(self, quality: float) -> float:
        inside = HEIGHT - _TOP - _BOTTOM
        share = (min(1.0, max(self.lowest, quality)) - self.lowest) / (1.0 - self.lowest)
        return round(_TOP + inside * (1.0 - share), 1)

    def path(self, qualities: Sequence[float]) -> str:
        points = [f"{self.x(place)} {self.y(quality)}" for place, quality in enumerate(qualities)]
        return f"M{' L'.join(points)}"


def _dots(qualities: Sequence[float], scale: _Scale, kind: Any) -> Iterator[Dot]:
    has_room = kind == "measured" and min(scale.step, 130.0) >= _ROOM
    for place, quality in enumerate(qualities):
        is_told = has_room or (kind == "measured" and place in (0, len(qualities) - 1))
        yield Dot(x=scale.x(place), y=scale.y(quality), kind=kind, text=score(quality) if is_told else "")


def _ticks(scale: _Scale, before: int) -> Iterator[Dot]:
    """The numbers of the measurements, as many as fit."""
    every = 1 if scale.longest <= 12 else 4
    for place in range(0, scale.longest, every):
        yield Dot(x=scale.x(place), y=HEIGHT - 8, kind="measured", text=str(before + place + 1))


# --- in words ---


def _summary(measured: Sequence[float], expected: Sequence[float], target: float) -> str:
    first, last = (", ".join(map(score, each[:12])) for each in (measured, expected))
    return f"Quality measured: {first}. Foreseen: {last}. Aimed at: {target:g}."


def _caption(
    controls: Sequence[Mapping[str, Any]], measured: Sequence[float], foreseen: ControlPrediction
) -> str:
    """What was foreseen, what came of it, and why it ended."""
    made = len(measured) - 1
    expected = f"The controller foresaw {count(foreseen.iterations, 'repair')}"
    if not foreseen.is_reached:
        expected += f", and that it would end with {spoken(foreseen.end)}"
    if foreseen.choice is not None:
        expected += f"; {_CHOICES[foreseen.choice.kind]}"
    went = f"quality went from {score(measured[0])} to {score(measured[-1])} in {count(made, 'repair')}"
    course = f"{expected}; {went}." if made else f"{expected}; quality was {score(measured[0])}."
    return f"{course}{_stop(controls[-1])}"


def _stop(control: Mapping[str, Any]) -> str:
    command: Mapping[str, Any] = control.get("command", {})
    return f" It stopped: {spoken(str(command['reason']))}." if command.get("kind") == "stop" else ""
