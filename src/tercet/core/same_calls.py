"""The keys of calls, what makes calls of different runs the same or alike, what became of one, and repetitions in words."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import msgspec
import orjson

from tercet.contracts.behaviour import Behaviour
from tercet.contracts.canonical import canonical_dump, digest, hash_bytes
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.tool import OncePer, ToolSpec
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.state import State
from tercet.core.transcript import timestamp
from tercet.policy.call_params import canonical_params, identity_params, repeat_params


def idempotency_key(
    tenant: str,
    session: str,
    tool: ToolSpec,
    params: dict[str, Any],
    occurrence: int,
    *,
    is_strict: bool = True,
) -> str:
    """Return the key of an action: what it is, in which session, and its occurrence; never its place in a plan.

    Give `canonical_params`, so that one action has one key however it is written.
    """
    identity = identity_params(tool, params, is_strict=is_strict)
    return _hashed([tenant, session, tool.name, identity, occurrence])


def params_digest(tool: str, params: dict[str, Any]) -> str:
    """Return the digest of a tool's name with some of its parameters: equal calls of any session have the same."""
    return _hashed([tool, params])


def call_hash(tool: str, params: dict[str, Any]) -> str:
    """The hash of a call: what the loop guard compares, within one run, so that sorted JSON is enough."""
    return hash_bytes(_sorted([tool, params]))


def _hashed(value: list[Any]) -> str:
    try:
        return hash_bytes(canonical_dump(value))  # parameters of a call are built-in types only
    except UsageError:
        # An integer that canonical JSON does not have. Sorted JSON still says the same thing the same way.
        return hash_bytes(_sorted(value))


def _sorted(value: list[Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=str)


REPEATED = "repeated_call"
"""The code of a call that another run has made, where its tool allows it once."""
DAY_MS = 24 * 60 * 60 * 1000

CallOutcome: TypeAlias = Literal["done", "unknown", "not_done", "compensated"]
"""What became of a call; `unknown` also means that it is in progress."""

_END = 10**14
"""A time that no call reaches: the keys of recent calls count backwards from it, so that the newest come first."""


# --- what a call is compared by ---


def marks_of(setting: RunConfig, call: EffectiveStep, compared: dict[str, Any]) -> e.CallMarks | None:
    """Return the marks of a call with these `canonical_params`; None for one that only reads, and under earlier rules."""
    if call.mode is ApprovalMode.READ_ONLY or not setting.ctx.goes_by(Behaviour.STRICT_CALLS):
        return None
    tool = call.tool
    names = _names(tool)
    same = _short(tool, repeat_params(tool, compared))
    like = _short(tool, {names[0]: compared.get(names[0])}) if names else same
    return e.CallMarks(same=same, like=like, names=names)


def _names(tool: ToolSpec) -> tuple[str, ...]:
    declared = (tool.once_per.identity if tool.once_per else ()) or tool.identity or tool.authority
    return declared or tuple(sorted(tool.authority_parameters))


def _short(tool: ToolSpec, params: dict[str, Any]) -> str:
    return params_digest(tool.name, params).removeprefix("sha256:")[:32]


def shown_marks(setting: RunConfig, call: EffectiveStep, params: dict[str, Any]) -> dict[str, Any]:
    """Return what a gate keeps of a call, so that recent calls like it are found when the gate is shown."""
    marks = marks_of(setting, call, canonical_params(call.tool, params))
    return {} if marks is None else {"marks": msgspec.to_builtins(marks)}


# --- the keys of recent calls ---


class RecentKey(msgspec.Struct, frozen=True, kw_only=True):
    """What the key says by which other runs find a call."""

    at: int
    same: str
    seq: int
    """The position of its INTENT."""


def recent_claim(event: e.Event, by: str, seq: int, *, is_long: bool = False) -> str | None:
    """Return the key by which other runs find a call of the session `by`, as `shorten_session` names it, from its INTENT
    and the position of that; None if they need not find it. A long one is what earlier versions wrote."""
    if not isinstance(event, e.Intent) or event.marks is None:
        return None
    marks = event.marks
    # Where nothing sets a call apart from the calls like it, the key need not say it again. Earlier versions did.
    same = "" if marks.same == marks.like and not is_long else marks.same
    return f"{recent_prefix(marks)}{_END - event.at:014d}:{same}:{seq}:{by}"


def shorten_session(session: str) -> str:
    """Return the session's part of the keys of its recent calls."""
    return sha256(session.encode()).hexdigest()[:16]


def recent_prefix(marks: e.CallMarks) -> str:
    """Return what the keys of all calls like one begin with."""
    return f"recent:{marks.like}:"


def read_recent_key(key: str) -> RecentKey | None:
    """Return what a key says; None for one that `recent_claim` has not made."""
    try:
        _, like, before_end, same, seq, _ = key.split(":")
        return RecentKey(at=_END - int(before_end), same=same or like, seq=int(seq))
    except ValueError:
        return None


# --- what became of a call ---


def outcome_of(state: State, key: str) -> CallOutcome:
    """Return what became of a call of a session, by its key."""
    if key in state.keys:
        return "compensated" if _is_compensated(state, key) else "done"
    is_open = any(step.key == key and step.may_have_happened for step in state.steps.values())
    return "unknown" if is_open else "not_done"


def _is_compensated(state: State, key: str) -> bool:
    tenant = state.start.tenant
    ways = (
        undo
        for undo in state.undo
        if undo.tool
        and undo.key == digest(["undo", tenant, key, undo.tool])
        and not (undo.bound is not None and undo.bound.proposed)  # a plan may propose one that undoes nothing
    )
    return any(state.steps[undo.name].status == "done" for undo in ways)


# --- repetitions in words ---


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
