"""What a run has produced, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tercet.replay.report.parts import Row
from tercet.replay.report.wording import Wording


def output_rows(outputs: Mapping[str, Any], wording: Wording) -> tuple[Row, ...]:
    """One row for each output; a text of several lines keeps them."""
    return tuple(_row(name, value, wording) for name, value in outputs.items())


def _row(name: str, value: Any, wording: Wording) -> Row:
    label = wording.text(name, 120)
    if isinstance(value, str) and "\n" in value:
        return Row(label=label, text=wording.block(name, value), is_block=True)
    return Row(label=label, text=wording.member(name, value, 2_000), is_code=True)
