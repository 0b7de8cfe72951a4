"""`tercet calibrate`: the weights of confidence out of recorded outcomes, and how well it keeps its word."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tercet.cli.exit_code import ExitCode
from tercet.cli.options import AsJson
from tercet.cli.outcomes import read_outcomes
from tercet.cli.reliability_figure import draw_reliability
from tercet.cli.reliability_view import show_calibration
from tercet.cli.screen import Screen, print_json
from tercet.cli.text import json_text
from tercet.contracts.errors import UsageError
from tercet.contracts.exit import Weights
from tercet.repair.calibration import Reliability, cross_rate, fit, rate
from tercet.repair.confidence import DEFAULT_WEIGHTS

EXAMPLES = """\
tercet calibrate --outcomes outcomes.jsonl
tercet calibrate --outcomes outcomes.jsonl --svg reliability.svg
tercet calibrate --outcomes outcomes.jsonl --save weights.json --json
"""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What was learned, and how good it is."""

    weights: Weights
    before: Reliability
    """With the weights before."""
    after: Reliability
    """With fitted weights, each on outcomes that it was not fitted to."""

    def as_json(self) -> dict[str, Any]:
        """All of it as one JSON object."""
        return {
            "weights": self.weights.model_dump(mode="json"),
            "before": asdict(self.before),
            "after": asdict(self.after),
        }


def calibrate(
    *,
    outcomes: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="Recorded outcomes, one JSON object a line: a file, or - for stdin."
        ),
    ],
    svg: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also draw the reliability into this file, as SVG; one that is there is replaced.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the weights into this file, as JSON; one that is there is replaced."
        ),
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Learn from recorded outcomes how much each measurement says about whether an output is right.

    Confidence keeps its word if of the outputs that it gives 0.9 nine in ten are right. What is shown is measured on outcomes that the weights were not fitted to. Nothing is run, and no pack is changed.
    """
    rows = read_outcomes(outcomes)
    found = Calibration(weights=fit(rows), before=rate(rows, DEFAULT_WEIGHTS), after=cross_rate(rows))
    if svg is not None:
        _write(svg, draw_reliability(found.before, found.after))
    if save is not None:
        _write(save, f"{json_text(found.weights.model_dump(mode='json'))}\n")
    if as_json:
        print_json(found.as_json())
    else:
        show_calibration(Screen(), found.weights, found.before, found.after)
    return ExitCode.ACCEPTED


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}",
            code="file_unwritable",
            remedy="name a file in a folder that is there and that you may write to",
        ) from error
