"""The recorded data of one run that its views are built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tercet.contracts.evidence import Citation, Evidence
from tercet.contracts.runs.saga import RollbackResult
from tercet.core import events as e
from tercet.core.state import State


@dataclass(frozen=True, kw_only=True)
class StoredFact:
    """A fact that a session has stored, and its source if it was looked up."""

    evidence: Evidence
    citation: Citation | None = None


@dataclass(frozen=True, kw_only=True)
class RunData:
    """A run: its state, the events that led to it, and what is stored beside the events."""

    state: State
    events: tuple[e.Event, ...]
    chain: str = ""
    """The last link of the verified hash chain."""
    facts: tuple[StoredFact, ...] = ()
    texts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Prompts and long answers by their digests, as far as they are still stored."""
    record: Mapping[str, Any] | None = None
    """The decision record, verified against its hash."""
    rollback: RollbackResult | None = None
    minimums: Mapping[str, float] = field(default_factory=dict[str, float])
    """The minimum of each dimension of the rubric; empty if the pack is not stored."""
