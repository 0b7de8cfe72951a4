"""Reading recorded repairs and outcomes, and estimating gain and noise from them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from tercet.cli.inputs import STDIN
from tercet.cli.journals import DEFAULT, TENANT, VARIABLE, is_missing, use_journal
from tercet.cli.options import option
from tercet.contracts.control import (
    ANY_CLASS,
    ControlPrediction,
    ControlSpec,
    GainEstimate,
    RepairObservation,
    rounded,
)
from tercet.contracts.errors import UsageError
from tercet.contracts.outputs.exit import OutcomeRow
from tercet.engine.streams.experience import RECENT, Experience, recall
from tercet.journal.protocol import Journal
from tercet.packs import Pack
from tercet.quality.control import estimate, mean_course, predict, trajectories

MOST_ROWS = 200_000
LONGEST_LINE = 10_000

Row = TypeVar("Row", bound=BaseModel)


class Kind(NamedTuple, Generic[Row]):
    """A kind of record in a file."""

    shape: type[Row]
    name: str
    """Its name in the singular."""
    file: str
    """The prefix of its error codes."""
    sample: str


OUTCOMES = Kind(
    OutcomeRow,
    name="outcome",
    file="outcomes",
    sample='{"features": {"verify": 0.92, "evidence": 1.0, "critic": 0.88, "repairs": 1}, "is_correct": true}',
)
REPAIRS = Kind(
    RepairObservation,
    name="repair",
    file="trajectories",
    sample=(
        '{"task_class": "letter", "run": "ses_1", "iteration": 0, "intensity": 0.6, "before": 0.4, "after": 0.7}'
    ),
)


def read_rows(kind: Kind[Row], name: str) -> tuple[Row, ...]:
    """Read the records of a file, or of stdin if the name is `-`; empty lines are skipped."""
    try:
        if name == STDIN:
            return _all(kind, "stdin", sys.stdin.buffer)
        with Path(name).open("rb") as stream:
            return _all(kind, name, stream)
    except OSError as error:
        raise UsageError(
            f"cannot read {name}: {error.strerror or error}",
            code=f"{kind.file}_unreadable",
            remedy=f"name the file that holds the {kind.name}s, or - for stdin",
        ) from error


def _all(kind: Kind[Row], name: str, stream: Iterable[bytes]) -> tuple[Row, ...]:
    rows = tuple(islice(_each(kind, name, stream), MOST_ROWS + 1))
    if len(rows) > MOST_ROWS:
        raise UsageError(
            f"{name} has more than {MOST_ROWS:,} {kind.name}s",
            code=f"{kind.file}_too_large",
            remedy="pass only the newest ones",
        )
    return rows


def _each(kind: Kind[Row], name: str, stream: Iterable[bytes]) -> Iterator[Row]:
    for number, line in enumerate(stream, start=1):
        if line.strip():
            yield _row(kind, f"{name}, line {number}", line)


def _row(kind: Kind[Row], place: str, line: bytes) -> Row:
    try:
        if len(line) <= LONGEST_LINE:
            return kind.shape.model_validate_json(line)
        fault = f"it has more than {LONGEST_LINE:,} bytes"
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        fault = f"{where}: {first['msg']}" if where else first["msg"]
    raise UsageError(
        f"{place} is not a valid {kind.name}: {fault}",
        code=f"{kind.file}_invalid",
        remedy=f"write one JSON object per line, such as {kind.sample}",
    )


# --- what runs have recorded ---


MaybeJournal: TypeAlias = Annotated[
    str | None,
    option(
        "URL",
        f"The journal, of which the last {RECENT} runs of each task class are used: by default {VARIABLE}, else tercet.db in this folder if it exists.",
        "--journal",
        show_default=False,
    ),
]


def find_journal(given: str | None) -> str | None:
    """Return the given journal, else the default one; None if that does not exist."""
    return given or os.environ.get(VARIABLE) or (None if is_missing(DEFAULT) else DEFAULT)


def load_lessons(url: str, classes: Iterable[str]) -> dict[str, Experience]:
    """Load the lessons of each task class."""

    async def recalled(journal: Journal) -> dict[str, Experience]:
        return {name: await recall(journal, TENANT, name) for name in dict.fromkeys(classes)}

    return use_journal(url, recalled)


def task_classes(pack: Pack) -> tuple[str, ...]:
    """Return the task classes that the decisions of a pack name."""
    return tuple(
        dict.fromkeys(spec.quality.task_class for spec in pack.decisions if spec.quality is not None)
    )


USUAL_START = 0.5


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A controller with its prediction and its recorded repairs."""

    task_class: str
    spec: ControlSpec
    start: float
    expected: ControlPrediction
    """The prediction with the gain and the noise that the pack declares."""
    repairs: int
    courses: Mapping[str, tuple[float, ...]]
    """The recorded qualities of each output, in their order."""
    estimate: GainEstimate | None
    """The estimate from recorded repairs; None if there are too few."""
    fitted: ControlPrediction | None
    """The prediction with the recorded gain and noise."""

    @property
    def accepted_from(self) -> float:
        """The lowest quality that is accepted."""
        return rounded(self.spec.target - self.spec.epsilon)

    @property
    def mean(self) -> tuple[float, ...]:
        """The mean recorded quality after each repair."""
        return mean_course(self.courses.values())

    def qualities(self, prediction: ControlPrediction) -> tuple[float, ...]:
        """Return the expected quality after each repair."""
        return tuple(rounded(self.spec.target - error) for error in prediction.errors)

    def as_json(self) -> dict[str, Any]:
        """Return the whole result as JSON."""
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
    """Return prediction and records of one task class; `start` is the quality before the first repair."""
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
    """Return whether a repair belongs to a class; the default class has all that the pack does not name."""
    is_unnamed = task_class == ANY_CLASS and row.task_class not in pack.control
    return row.task_class == task_class or is_unnamed


def _spread(spec: ControlSpec, quality: float) -> float | dict[str, float]:
    """Return a measurement with this quality: the same error in every dimension."""
    if not isinstance(spec.setpoint, dict):
        return quality
    return {name: wanted - (spec.target - quality) for name, wanted in spec.setpoint.items()}


def _fitted(spec: ControlSpec, found: GainEstimate) -> ControlSpec:
    """Return the controller with the recorded gain and noise; a kp that was derived from the declared gain is kept."""
    return found.applied_to(spec.model_copy(update={"kp": spec.proportional}))
