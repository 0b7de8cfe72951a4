"""Folds that an earlier version has written: `earlier_folds.json` holds its events and the fold of the state after them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tercet.core import codec
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.engine.checkpoint import fold, is_taken_of, read_fold
from tercet.journal.protocol import StoredCheckpoint

FOLDS: dict[str, Any] = json.loads(Path(__file__).with_name("earlier_folds.json").read_text(encoding="utf-8"))


def stored(kept: dict[str, Any]) -> StoredCheckpoint:
    """The fold as a journal holds it."""
    return checkpoint(kept["seq"], base64.b64decode(kept["fold"]))


def checkpoint(seq: int, data: bytes) -> StoredCheckpoint:
    """A fold with this data."""
    return StoredCheckpoint(kind="fold", seq=seq, data=data, hash="")


def folded(kept: dict[str, Any]) -> State:
    """The state that this version comes to by the same events."""
    state = State()
    for event in kept["events"]:
        state = fold_event(state, codec.decode(event.encode()))
    return state


@pytest.mark.parametrize("name", FOLDS)
def test_an_earlier_fold_is_the_state_of_its_events(name: str) -> None:
    """It loads, compares equal on replay, and a session that goes on from it is the same as one that folds all again."""
    kept, state = FOLDS[name], folded(FOLDS[name])
    assert read_fold(stored(kept)) == state
    assert is_taken_of(state, stored(kept))
    assert not is_taken_of(msgspec.structs.replace(state, reason="another"), stored(kept))


def test_what_earlier_folds_said_in_words_is_typed() -> None:
    """An escalation has its reason, and a compensation names its step."""
    escalated = read_fold(stored(FOLDS["escalated"]))
    assert escalated.reason == f"escalated: {escalated.escalation}"
    compensating = read_fold(stored(FOLDS["compensating"]))
    assert compensating.escalation is None
    made = {name: step.compensates for name, step in compensating.steps.items() if step.compensates}
    assert made
    assert all(name == f"~{host}" for name, host in made.items())


@pytest.mark.parametrize("name", FOLDS)
def test_a_fold_of_this_version_is_read_as_it_was_written(name: str) -> None:
    """Nothing is upgraded that needs no upgrade."""
    state = folded(FOLDS[name])
    written = fold(state)
    assert read_fold(checkpoint(written.seq, written.data)) == state


def test_a_pause_with_such_a_reason_is_not_an_escalation() -> None:
    """A person may write what they like: only the run itself escalates."""
    state = folded(FOLDS["escalated"])
    paused = msgspec.structs.replace(state, escalation=None, paused_by="ada")
    written = fold(paused)
    assert read_fold(checkpoint(written.seq, written.data)).escalation is None
