"""Earlier calls like the one of a gate, as view models: those that it repeats, and recent ones of other sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tercet.contracts.shape import as_list
from tercet.core import events as e
from tercet.core.same_calls import RecentCall
from tercet.core.state import OpenGate
from tercet.view.vocabulary import CALL_OUTCOMES


@dataclass(frozen=True, kw_only=True)
class EarlierCallView:
    """An earlier call that the call of a gate repeats or resembles."""

    session: str
    step: str
    at: int
    outcome: str
    """Its outcome in words."""
    is_repeat: bool
    """Whether the tool allows it only once in a period."""
    is_identical: bool
    is_grave: bool
    """Whether it has, or may have, happened with the same parameters."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])


def repeated_calls(gate: OpenGate) -> Iterator[EarlierCallView]:
    """Yield the calls that the call of a gate repeats."""
    for call in msgspec.convert(as_list(gate.shown.get("repeats")) or [], list[e.EarlierCall]):
        yield EarlierCallView(
            session=call.session, step=call.step, at=call.at, outcome=_became(call.outcome), is_repeat=True, is_identical=True, is_grave=True
        )  # fmt: skip


def recent_call(call: RecentCall) -> EarlierCallView:
    """Return a call of another session as a view model."""
    return EarlierCallView(
        session=call.session,
        step=call.step,
        at=call.at,
        outcome="; ".join(filter(None, (_became(call.outcome), _attempts(call.attempts)))),
        is_repeat=False,
        is_identical=call.identical,
        is_grave=call.identical and call.outcome in ("done", "unknown"),
        params=call.params,
    )


def _attempts(number: int) -> str:
    return f"{number} attempts" if number > 1 else ""


def _became(outcome: str) -> str:
    words = {"not_done": "it did not happen", "compensated": "it was compensated"}
    return words.get(outcome) or CALL_OUTCOMES[outcome].word
