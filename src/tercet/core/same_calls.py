"""Identical and similar calls of different runs: their keys, outcomes, and the description of a repetition."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import msgspec

from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.tool import OncePer, ToolSpec
from tercet.contracts.values.canonical import digest
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.prepared_call import PreparedCall
from tercet.core.state import State
from tercet.core.transcript import timestamp

REPEATED = "repeated_call"
"""The code of a call that another run has made, where its tool allows it once."""
DAY_MS = 24 * 60 * 60 * 1000

CallOutcome: TypeAlias = Literal["done", "unknown", "not_done", "compensated"]
"""The outcome of a call; `unknown` also means that it is in progress."""


class RecentCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the tenant that resembles the one at a gate."""

    session: str
    step: str
    at: int
    identical: bool
    """Whether it is the same call; otherwise only the first compared parameter is the same."""
    outcome: CallOutcome
    attempts: int = 1
    """The number of calls of its step."""
    params: dict[str, Any]
    """The compared parameters, without secrets."""


_END = 10**14
"""A time that no call reaches: the keys of recent calls count backwards from it, so that the newest come first."""


def shown_marks(config: RunConfig, call: EffectiveStep, params: dict[str, Any]) -> dict[str, Any]:
    """Return the marks that a gate stores so that similar calls are found when it is shown; empty for a call that only
    reads, and under earlier rules."""
    marks = PreparedCall(call, params, is_strict=config.is_strict, reads_all=config.reads_all).marks
    return {} if marks is None else {"marks": msgspec.to_builtins(marks)}


# --- the keys of recent calls ---


class RecentKey(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a key by which other runs find a call."""

    at: int
    same: str
    seq: int
    """The position of its INTENT."""


def recent_claim(event: e.Event, by: str, seq: int, *, is_long: bool = False) -> str | None:
    """Return the key by which other runs find a call of the session `by`, as `shorten_session` names it, from its INTENT
    and the position of that; None if they need not find it. A long one is what earlier versions wrote."""
    if not isinstance(event, e.Intent) or (marks := event.marks) is None:
        return None
    # Where nothing sets a call apart from the calls like it, the key need not say it again. Earlier versions did.
    same = "" if marks.same == marks.like and not is_long else marks.same
    return f"{recent_prefix(marks)}{_END - event.at:014d}:{same}:{seq}:{by}"


def shorten_session(session: str) -> str:
    """Return the session's part of the keys of its recent calls."""
    return sha256(session.encode()).hexdigest()[:16]


def recent_prefix(marks: e.CallMarks) -> str:
    """Return the common prefix of the keys of similar calls."""
    return f"recent:{marks.like}:"


def read_recent_key(key: str) -> RecentKey | None:
    """Parse a key; None if `recent_claim` did not make it."""
    try:
        _, like, before_end, same, seq, _ = key.split(":")
        return RecentKey(at=_END - int(before_end), same=same or like, seq=int(seq))
    except ValueError:
        return None


# --- outcomes ---


def outcome_of(state: State, key: str) -> CallOutcome:
    """Return the outcome of a session's call, by its key."""
    if key in state.keys:
        return "compensated" if _is_compensated(state, key) else "done"
    is_open = any(step.key == key and step.may_have_happened for step in state.steps.values())
    return "unknown" if is_open else "not_done"


def _is_compensated(state: State, key: str) -> bool:
    ways = (
        undo
        for undo in find_compensations(state, key)
        if not (undo.bound is not None and undo.bound.proposed)  # a plan may propose one that undoes nothing
    )
    return any(state.steps[undo.name].status == "done" for undo in ways)


def find_compensations(state: State, key: str) -> Iterator[e.Undo]:
    """Yield the calls that compensate a call of a session, by its key."""
    tenant = state.start.tenant
    return (
        undo
        for undo in state.undo
        if undo.tool and undo.name in state.steps and undo.key == digest(["undo", tenant, key, undo.tool])
    )


# --- descriptions ---


def describe_repeat(tool: ToolSpec, once: OncePer, found: tuple[e.EarlierCall, ...]) -> str:
    """Return why a call is a repetition, and what to do about it."""
    what = " and ".join(once.identity) if once.identity else "identity"
    days = f"{once.days} day{'s' if once.days > 1 else ''}"
    return (
        f"{tool.name} with the same {what} may be called once in {days}, and {'; '.join(_earlier(found))}."
        f" Check that session first; a later call can be made from {timestamp(found[-1].at + once.days * DAY_MS)} on"
    )


def _earlier(found: tuple[e.EarlierCall, ...]) -> Iterator[str]:
    for call in found:
        doubt = "" if call.outcome == "done" else ", outcome unknown"
        yield f"session {call.session} called it at {timestamp(call.at)} (step {call.step}{doubt})"
