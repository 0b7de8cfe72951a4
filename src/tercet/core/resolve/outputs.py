"""The quality loop: its judgements are made in `core.outputs`, from the answers of models and tools."""

from __future__ import annotations

from tercet.core import commands as c
from tercet.core.answers import Observed
from tercet.core.resolve.made import Made, made
from tercet.core.run import Run


def record(run: Run, command: c.Command, answer: Observed) -> Made:
    """Record what was judged, tested, fetched or repaired."""
    del run, command
    return made(answer.event, blobs=answer.blobs)
