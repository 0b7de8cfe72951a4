"""One task class of a pack, with what is expected of its controller and what was recorded of its repairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.contracts.control import (
    ANY_CLASS,
    ControlPrediction,
    ControlSpec,
    GainEstimate,
    RepairObservation,
    rounded,
)
from tercet.packs import Pack
from tercet.quality.control import estimate, mean_course, predict, trajectories

USUAL_START = 0.5


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is known about a controller."""

    task_class: str
    spec: ControlSpec
    start: float
    expected: ControlPrediction
    """With the gain and the noise that the pack declares."""
    repairs: int
    courses: Mapping[str, tuple[float, ...]]
    """The recorded qualities of each output."""
    estimate: GainEstimate | None
    """What the recorded repairs say; None if they are too few."""
    fitted: ControlPrediction | None
    """What to expect with the gain and the noise that were recorded."""

    @property
    def accepted_from(self) -> float:
        """The least quality that is accepted."""
        return rounded(self.spec.target - self.spec.epsilon)

    @property
    def mean(self) -> tuple[float, ...]:
        """The mean of the recorded qualities after each repair."""
        return mean_course(self.courses.values())

    def qualities(self, prediction: ControlPrediction) -> tuple[float, ...]:
        """The qualities that are expected after each repair."""
        return tuple(rounded(self.spec.target - error) for error in prediction.errors)

    def as_json(self) -> dict[str, Any]:
        """All of it for programs."""
        return {
            "task_class": self.task_class,
            "spec": self.spec.model_dump(mode="json"),
            "start": self.start,
            "accepted_from": self.accepted_from,
            "prediction": self.expected.model_dump(mode="json"),
            "estimate": None if self.estimate is None else self.estimate.model_dump(mode="json"),
            "fitted": None if self.fitted is None else self.fitted.model_dump(mode="json"),
            "recorded": {
                "outputs": len(self.courses),
                "repairs": self.repairs,
                "mean": list(self.mean),
                "courses": {name: list(course) for name, course in self.courses.items()},
            },
        }


def read_control(
    pack: Pack, task_class: str, rows: Sequence[RepairObservation], *, start: float | None = None
) -> Reading:
    """What is known about one task class; `start` is the quality before the first repair."""
    spec = pack.control_for(task_class) or ControlSpec()
    own = [row for row in rows if _is_of(pack, task_class, row)]
    courses = trajectories(own)
    begun = mean_course(course[:1] for course in courses.values())
    quality = next((each for each in (start, *begun) if each is not None), USUAL_START)
    found = estimate(own)
    return Reading(
        task_class=task_class,
        spec=spec,
        start=rounded(quality),
        expected=predict(spec, _spread(spec, quality)),
        repairs=len(own),
        courses=courses,
        estimate=found,
        fitted=None if found is None else predict(_fitted(spec, found), _spread(spec, quality)),
    )


def _is_of(pack: Pack, task_class: str, row: RepairObservation) -> bool:
    """Whether a repair belongs to a class; the default one has all that the pack does not name."""
    is_unnamed = task_class == ANY_CLASS and row.task_class not in pack.control
    return row.task_class == task_class or is_unnamed


def _spread(spec: ControlSpec, quality: float) -> float | dict[str, float]:
    """A quality as a measurement that means it: the same error in every dimension."""
    if not isinstance(spec.setpoint, dict):
        return quality
    return {name: wanted - (spec.target - quality) for name, wanted in spec.setpoint.items()}


def _fitted(spec: ControlSpec, found: GainEstimate) -> ControlSpec:
    """The controller as it is, on the plant that was recorded: a gain that follows from the pack's stays."""
    return found.applied_to(spec.model_copy(update={"kp": spec.proportional}))
