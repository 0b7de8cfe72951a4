"""`tercet control`: the predicted and the recorded behaviour of a pack's controllers. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack
from tercet.cli.options import AsJson, PackFolder, option
from tercet.cli.replay.records import (
    REPAIRS,
    MaybeJournal,
    Reading,
    find_journal,
    load_lessons,
    read_control,
    read_rows,
    task_classes,
)
from tercet.cli.screen import Screen, respond
from tercet.contracts.control import ControlPrediction, NoiseFloor, RepairObservation, StopReason
from tercet.contracts.errors import UsageError
from tercet.packs import Pack
from tercet.quality.control import LEAST_SAMPLE
from tercet.view.terminal.text import count, printable

MOST = 12
"""The number of measurements that are shown of a course."""
_ENDS = {
    StopReason.REACHED: "good enough",
    StopReason.ITERATIONS: "out of repairs",
    StopReason.COST: "too expensive",
    StopReason.STALLED: "stalled",
    StopReason.NOISE: "lost in noise",
}


def show_controls(screen: Screen, pack: str, readings: Sequence[Reading]) -> None:
    """Print every controller."""
    screen.put(printable(pack, 120), first=f"{'pack':<10}")
    for reading in readings:
        screen.say()
        _show_facts(screen, reading)
    screen.say()
    screen.say(Text("Nothing was run.", style="dim"))


def _show_facts(screen: Screen, reading: Reading) -> None:
    screen.say(Text.assemble(("task class ", "bold"), printable(reading.task_class, 120)))
    for label, text in _facts(reading):
        screen.put(text, first=f"{label:<10}")


def _facts(reading: Reading) -> Iterator[tuple[str, Text | str]]:
    spec, expected = reading.spec, reading.expected
    yield "setpoint", f"{_setpoint(reading)}; accepted from {_number(reading.accepted_from)}"
    given = "" if spec.kp is not None else f", damped by {_number(spec.alpha)}"
    others = "" if spec.is_proportional else f", ki {_number(spec.ki)}, kd {_number(spec.kd)}"
    yield (
        "gains",
        f"kp {_number(expected.kp)}{given}{others}; stable below {_number(expected.kp_bound)}, {expected.character}",
    )
    yield (
        "model",
        f"a repair brings {_number(spec.gain)} of its intensity, give or take {_number(spec.sigma)}",
    )
    yield "expected", _predicted(reading.start, expected)
    yield "", _course(reading.qualities(expected))
    if expected.choice is not None:
        yield "", _choice(expected)
    if expected.floor is not None and spec.sigma:
        yield "noise", _floor(expected.floor)
    yield "recorded", _recorded_text(reading)
    if reading.mean:
        yield "", f"on average {_course(reading.mean)}"
    if reading.fitted is not None:
        yield "fitted", _predicted(reading.start, reading.fitted)
        if reading.fitted.floor is not None and reading.fitted.floor.is_above_epsilon:
            yield "", _floor(reading.fitted.floor)


def _number(value: float) -> str:
    """Return a number to three places."""
    return f"{round(value, 3):,}".removesuffix(".0")


def _setpoint(reading: Reading) -> str:
    setpoint = reading.spec.setpoint
    if not isinstance(setpoint, dict):
        return f"{_number(setpoint)}"
    return ", ".join(f"{printable(name, 40)} {_number(wanted)}" for name, wanted in setpoint.items())


def _predicted(start: float, prediction: ControlPrediction) -> Text:
    mark = ("✓ ", "green") if prediction.is_reached else ("✗ ", "red")
    repairs = count(prediction.iterations, "repair")
    formula = "" if prediction.k_star is None else f", k* {prediction.k_star}"
    return Text.assemble(
        mark,
        f"from {_number(start)}: {repairs} for {_number(prediction.cost)}, then {_ENDS[prediction.end]}{formula}",
    )


def _course(qualities: Sequence[float]) -> str:
    """Return the quality at each measurement."""
    more = " …" if len(qualities) > MOST else ""
    return f"quality {', '.join(map(_number, qualities[:MOST]))}{more}"


def _choice(prediction: ControlPrediction) -> str:
    choice = prediction.choice
    if choice is None or choice.kind == "fail":
        needed = prediction.cost_to_reach
        return f"it would need {_number(needed)}; so it fails" if needed is not None else "it fails"
    changed = {"epsilon": choice.epsilon, "kp": choice.kp}
    text = ", ".join(f"{name} {_number(value)}" for name, value in changed.items() if value is not None)
    return f"so it is done with {text}: {count(choice.iterations or 0, 'repair')} for {_number(choice.cost or 0.0)}"


def _floor(found: NoiseFloor) -> Text:
    text = f"keeps quality at about {_number(found.best_quality)} (mean square error {found.mean_square:.3g})"
    if found.is_above_epsilon:
        return Text.assemble(("✗ ", "red"), f"{text}: repairs alone are not enough")
    return Text.assemble(("✓ ", "green"), text)


def _recorded_text(reading: Reading) -> str:
    if not reading.repairs:
        return "nothing"
    seen = f"{count(reading.repairs, 'repair')} of {count(len(reading.courses), 'output')}"
    found = reading.estimate
    if found is None:
        return f"{seen}; {LEAST_SAMPLE} repairs are needed to estimate a gain"
    bound = ", the nearest that is possible" if found.is_at_bound else ""
    return f"{seen}: a gain of {_number(found.gain)} ({_number(found.low)} to {_number(found.high)}){bound}, noise {_number(found.sigma)}"


CONTROL_EXAMPLES = """\
tercet control examples/letters
tercet control examples/letters --task-class letter --start 0.4
tercet control examples/letters --journal sqlite:///tercet.db
tercet control examples/letters --trajectories repairs.jsonl
"""


def control(
    pack: PackFolder,
    *,
    task_class: Annotated[
        str | None,
        option("CLASS", "Show the controller of this task class only."),
    ] = None,
    start: Annotated[
        float | None,
        option(
            "QUALITY",
            "The quality of an output before its first repair: by default the mean of what was recorded, else 0.5.",
            min=0.0,
            max=1.0,
        ),
    ] = None,
    trajectories: Annotated[
        str | None,
        option(
            "FILE",
            "Recorded repairs, one JSON object per line: a file, or - for stdin. The journal is then read only if --journal names it.",
        ),
    ] = None,
    journal: MaybeJournal = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Predict how the quality loop of each task class converges.

    Shown are the largest stable gain, the number of repairs, their cost, and the quality that noise allows. Repairs
    that were recorded in the journal or in a file are shown beside the prediction, with the gain and the noise that
    they suggest. Nothing is run.
    """
    loaded = load_pack(pack)
    chosen = _chosen(loaded, task_class)
    url = journal if trajectories is not None else find_journal(journal)
    rows = [
        *(read_rows(REPAIRS, trajectories) if trajectories is not None else ()),
        *(_recorded(url, (*loaded.control, *task_classes(loaded), *chosen)) if url else ()),
    ]
    readings = [read_control(loaded, name, rows, start=start) for name in chosen]
    return respond(
        lambda: {
            "pack": loaded.ref,
            "pack_hash": loaded.hash,
            "classes": [reading.as_json() for reading in readings],
        },
        lambda screen: show_controls(screen, loaded.ref, readings),
        as_json=as_json,
    )


def _recorded(url: str, classes: Sequence[str]) -> Iterator[RepairObservation]:
    """Return the repairs that runs have recorded."""
    for experience in load_lessons(url, classes).values():
        yield from experience.observations


def _chosen(pack: Pack, task_class: str | None) -> Sequence[str]:
    if not pack.control:
        raise UsageError(
            f"{pack.ref} declares no controller",
            code="no_control",
            remedy="add a table [control.default] to pack.toml; it may be empty",
        )
    if task_class is None:
        return sorted(pack.control)
    if pack.control_for(task_class) is None:
        raise UsageError(
            f"{pack.ref} has no controller for task class '{task_class}', and no default one",
            code="unknown_task_class",
            remedy=f"choose one of {', '.join(sorted(pack.control))}",
        )
    return [task_class]
