"""What a calibration has learned, and what became of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tercet.contracts.exit import Weights
from tercet.repair.calibration import Reliability


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What was learned, and how good it is."""

    weights: Weights
    before: Reliability
    """With the usual weights."""
    after: Reliability
    """With fitted weights, each on outcomes that it was not fitted to."""
    task_class: str | None = None
    in_force: Weights | None = None
    """What runs of the task class went by until now, if somebody had put other than the usual weights into force."""
    applied: str = ""
    """Under which name the fitted weights were put into force; empty where they were not."""

    def as_json(self) -> dict[str, Any]:
        """All of it as one JSON object."""
        return {
            "task_class": self.task_class,
            "weights": self.weights.model_dump(mode="json"),
            "before": asdict(self.before),
            "after": asdict(self.after),
            "in_force": self.in_force.model_dump(mode="json") if self.in_force else None,
            "applied": self.applied or None,
        }
