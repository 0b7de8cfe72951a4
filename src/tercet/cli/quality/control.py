"""`tercet control`: the predicted and the recorded behaviour of a pack's controllers. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from tercet.cli import ExitCode
from tercet.cli.files import DRAWING, require_writable, write_file
from tercet.cli.inputs import load_pack
from tercet.cli.options import AsJson, Force, PackFolder, option
from tercet.cli.quality.control_view import draw_controls, show_controls
from tercet.cli.quality.records import (
    REPAIRS,
    MaybeJournal,
    find_journal,
    load_lessons,
    read_control,
    read_rows,
    task_classes,
)
from tercet.cli.screen import Screen, respond
from tercet.contracts.control import RepairObservation
from tercet.contracts.errors import UsageError
from tercet.packs import Pack
from tercet.view.terminal.text import printable

EXAMPLES = """\
tercet control my-pack
tercet control my-pack --task-class letter --start 0.4
tercet control my-pack --journal sqlite:///tercet.db
tercet control my-pack --trajectories repairs.jsonl --svg convergence.svg
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
    svg: Annotated[
        Path | None,
        option(
            "FILE", "Also draw the chart into this file, as SVG; an existing drawing by Tercet is replaced."
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Predict how the quality loop of each task class converges.

    Shown are the largest stable gain, the number of repairs, their cost, and the quality that noise allows. Repairs
    that were recorded in the journal or in a file are drawn beside the prediction, with the gain and the noise that
    they suggest. Nothing is run.
    """
    if svg is not None:
        require_writable(svg, is_forced=force, mark=DRAWING)
    loaded = load_pack(pack)
    chosen = _chosen(loaded, task_class)
    url = journal if trajectories is not None else find_journal(journal)
    rows = [
        *(read_rows(REPAIRS, trajectories) if trajectories is not None else ()),
        *(_recorded(url, (*loaded.control, *task_classes(loaded), *chosen)) if url else ()),
    ]
    readings = [read_control(loaded, name, rows, start=start) for name in chosen]
    if svg is not None:
        write_file(svg, DRAWING + draw_controls(loaded.ref, readings).encode())
        if not as_json:
            Screen(stderr=True).print(f"· drawn into {printable(str(svg))}", style="dim")
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
