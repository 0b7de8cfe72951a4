"""Taking effects back."""

from __future__ import annotations

from typing import Any

import msgspec

from tercet.contracts.plan import COMPENSATES
from tercet.core.events.fact import Fact
from tercet.core.events.step import BoundCompensation


class Undo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The way back from one completed step: a resolved call, or the reason why there is none."""

    step: str
    tool: str = ""
    """Empty where nothing can be called."""
    params: dict[str, Any] = {}
    key: str = ""
    note: str = ""
    bound: BoundCompensation | None = None
    """How it was bound with its step, where it is not made without a check: the plan proposed it, or it reads a result that a
    person entered. Its parameters are those above."""

    @property
    def name(self) -> str:
        """The name of the step that makes the call."""
        return f"{COMPENSATES}{self.step}"


class CompensationBegun(Fact, frozen=True, kw_only=True, tag="compensation_begun"):
    """What the run did is taken back, the last effect first; the calls are resolved here, once and for all."""

    undo: tuple[Undo, ...]
    by: str = ""
    """Who decided so; empty where the pack did."""


class EffectsKept(Fact, frozen=True, kw_only=True, tag="effects_kept"):
    """What the run did stays as it is."""

    by: str = ""
