"""What an agent decides: to act, with one call or several, or to end with an answer.

An agent may return its own kind of object or a dict; it is read by its fields, and what cannot be read is refused with
an error that names what was returned.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import as_object

Mode = Literal["act", "final"]

_REMEDY = (
    'return Decision.act("adapter.capability", name=value), Decision.final(answer), '
    'or {"mode": "act", "actions": [{"tool": …, "args": {…}}]}'
)


class DecisionError(UsageError):
    """What an agent decided cannot be read, or cannot become a plan."""

    default_code = "decision_invalid"


@dataclass(frozen=True, slots=True)
class Action:
    """One call that an agent wants to make."""

    tool: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    evidence_refs: tuple[str, ...] = ()
    """The evidence that the call is pinned to; none means what its tool and the decision require."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of an agent."""

    mode: Mode
    actions: tuple[Action, ...] = ()
    final_answer: Any = None
    rationale: str = ""

    @classmethod
    def act(cls, first: str | Action, /, *others: Action, **args: Any) -> Decision:
        """Make one call, by its tool and arguments, or several at once, in no order, as `Action`s."""
        if isinstance(first, Action):
            if args:
                raise DecisionError(f"{first.tool} has its arguments already", remedy=_REMEDY)
            return cls("act", (first, *others))
        return cls("act", (Action(first, args), *others))

    @classmethod
    def final(cls, answer: Any = None, /) -> Decision:
        """End with an answer."""
        return cls("final", final_answer=answer)

    def because(self, rationale: str) -> Decision:
        """The same decision with its reason, which is recorded."""
        return replace(self, rationale=rationale)


def read_decision(returned: object) -> Decision:
    """The decision that an agent's answer spells; raises `DecisionError`."""
    if isinstance(returned, Decision):
        _demand_actions(returned)
        return returned
    mode = _mode(returned)
    rationale = _field(returned, "rationale", "reasoning", "thought")
    said = rationale if isinstance(rationale, str) else ""
    if mode == "final":
        return Decision("final", final_answer=_field(returned, "final_answer"), rationale=said)
    decided = Decision("act", tuple(_actions(returned)), rationale=said)
    _demand_actions(decided)
    return decided


def is_readable(returned: object, decision: Decision) -> bool:
    """Whether critics can read mode and answer of the object itself as they would of a `Decision`."""
    missing = object()
    mode, answer = getattr(returned, "mode", missing), getattr(returned, "final_answer", missing)
    return isinstance(mode, str) and mode == decision.mode and answer is not missing


def _mode(returned: object) -> Mode:
    mode = _field(returned, "mode")
    word = getattr(mode, "value", mode)
    if word in ("act", "final"):
        return word
    if mode is not None:
        raise _refused(f"the mode {reprlib.repr(mode)}, which is neither act nor final")
    acts = _field(returned, "actions") is not None or _field(returned, "tool") is not None
    ends = _field(returned, "final_answer") is not None
    if acts == ends:
        raise _refused(f"{_shown(returned)}, which says neither to act nor to end")
    return "act" if acts else "final"


def _actions(returned: object) -> Sequence[Action]:
    listed = _field(returned, "actions")
    if listed is None:
        return [_action(returned)]
    if isinstance(listed, Action | Mapping):
        return [_action(cast("object", listed))]
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise _refused(f"{reprlib.repr(listed)} for actions")
    return [_action(each) for each in cast("Sequence[object]", listed)]


def _action(said: object) -> Action:
    if isinstance(said, Action):
        return said
    if isinstance(said, str):
        return Action(said)
    named = _field(said, "tool", "name")
    tool = getattr(named, "name", named)
    args = _field(said, "args", "params", "arguments")
    if not isinstance(tool, str):
        raise _refused(f"{_shown(said)} as an action, which names no tool")
    members = {} if args is None else as_object(args)
    if members is None:
        raise _refused(f"{reprlib.repr(args)} as the arguments of {tool}, which are no dict")
    return Action(tool, members, _refs(said))


def _refs(said: object) -> tuple[str, ...]:
    refs = _listed(_field(said, "evidence_refs"))
    found = tuple(ref for ref in refs if isinstance(ref, str))
    if len(found) < len(refs):
        raise _refused(f"{reprlib.repr(refs)} as evidence_refs, which is no list of ids")
    return found


def _listed(given: Any) -> tuple[object, ...]:
    """What a list holds; a thing that is no list is wrapped twice, so that it passes for no item."""
    if given is None:
        return ()
    is_list = isinstance(given, list | tuple)
    return tuple(cast("Sequence[object]", given)) if is_list else ((given,),)


def _demand_actions(decision: Decision) -> None:
    if decision.mode not in ("act", "final"):
        raise _refused(f"the mode {reprlib.repr(decision.mode)}, which is neither act nor final")
    if decision.mode == "act" and not decision.actions:
        raise _refused("a decision to act without an action")


def _field(thing: object, *names: str) -> Any:
    """The first of these fields that is there and not None, of a dict or of an object."""
    for name in names:
        found: Any = (
            cast("Mapping[str, Any]", thing).get(name)
            if isinstance(thing, Mapping)
            else getattr(thing, name, None)
        )
        if found is not None:
            return found
    return None


def _shown(thing: object) -> str:
    return f"{reprlib.repr(thing)} of type {type(thing).__name__}"


def _refused(what: str) -> DecisionError:
    return DecisionError(f"decide returned {what}", remedy=_REMEDY)
