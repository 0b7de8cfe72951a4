"""The decision of an agent: to act, with one call or several, or to end with an answer.

An agent may return its own kind of object or a dict; it is read by its fields, and an unreadable one is refused with an
error that names what was returned.

A decision becomes a plan, and a recorded plan a decision. A call is a step without dependencies; an answer is a note,
whose value is the answer. Step ids are unique over the whole run, so that steps of different turns cannot be confused.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from pydantic import ValidationError

from tercet.contracts.errors import PlanError, UsageError
from tercet.contracts.evidence import meets
from tercet.contracts.plan import Plan
from tercet.contracts.shape import JsonObject, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.plain import not_plain
from tercet.contracts.values.references import LITERAL
from tercet.core.config import RunConfig

Mode = Literal["act", "final"]

_REMEDY = (
    'return Decision.act("adapter.capability", name=value), Decision.final(answer), '
    'or {"mode": "act", "actions": [{"tool": …, "args": {…}}]}'
)


class DecisionError(UsageError):
    """A decision of an agent that cannot be read, or cannot become a plan."""

    default_code = "decision_invalid"


@dataclass(frozen=True, slots=True)
class Action:
    """One call that an agent wants to make."""

    tool: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    evidence_refs: tuple[str, ...] = ()
    """The evidence of the call; empty means what its tool and the decision require."""


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
        """Return the same decision with its reason, which is recorded."""
        return replace(self, rationale=rationale)


def read_decision(returned: object) -> Decision:
    """Return the decision in an agent's answer; raise `DecisionError`."""
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
    """Return whether critics can read mode and answer of the object itself as they would of a `Decision`."""
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
        raise _refused(f"{reprlib.repr(refs)} as evidence_refs, which is not a list of ids")
    return found


def _listed(given: Any) -> tuple[object, ...]:
    """Return the items of a list; anything else is wrapped twice, so that it is not taken for an item."""
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
    """Return the first of these fields that is present and not None, of a dict or of an object."""
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


ANSWER = "final_answer"
"""The name of an answer's output and parameter."""


def plan_of(decision: Decision, number: int, config: RunConfig) -> Plan:
    """Return the plan of one turn; raise `DecisionError` for a decision that cannot be a plan."""
    document = (
        _answering(decision, f"t{number}", config)
        if decision.mode == "final"
        else _acting(decision, number, config)
    )
    try:
        return Plan.model_validate(document)
    except PlanError as error:
        raise DecisionError(f"the decision makes no plan: {error.problems[0].line()}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = pointer.join([str(part) for part in first["loc"]])
        raise DecisionError(f"the decision makes no plan: {first['msg']} at {place}") from error


def decision_of(plan: Plan, recorded: JsonObject) -> Decision:
    """Return the decision of a recorded turn."""
    rationale = str(recorded.get("rationale", ""))
    if recorded.get("mode") == "final":
        held: Any = plan.steps[0].params[ANSWER]
        return Decision("final", final_answer=held[LITERAL], rationale=rationale)
    actions = tuple(Action(step.tool or "", step.params, step.evidence_refs) for step in plan.steps)
    return Decision("act", actions, rationale=rationale)


def _acting(decision: Decision, number: int, config: RunConfig) -> JsonObject:
    names = _names(number, len(decision.actions))
    wanted = config.spec.required_evidence
    steps: list[JsonObject] = []
    for name, action in zip(names, decision.actions, strict=True):
        tool = config.surface.get(action.tool)
        required = (*(() if tool is None else tool.requires_evidence), *(() if steps else wanted))
        refs = action.evidence_refs or _pinned(required, config)
        steps.append({"id": name, "tool": action.tool, "params": action.args, "evidence_refs": refs})
    # Required outputs are taken from the last result that has them, or from the answer.
    return {"steps": steps, "declared_outputs": config.spec.planned_outputs}


def _answering(decision: Decision, name: str, config: RunConfig) -> JsonObject:
    if (fault := not_plain(decision.final_answer)) is not None:
        raise DecisionError(
            f"the final answer is not a JSON value: {fault}",
            remedy="answer with strings, numbers, lists and dicts",
        )
    spec = config.spec
    said = as_object(decision.final_answer) or {}
    outputs = {
        key: {"$from": f"{name}#/{ANSWER}{pointer.join((key,))}"}
        for key in spec.planned_outputs
        if key in said
    }
    if _takes_answer(spec.outputs_schema):
        outputs.setdefault(ANSWER, {"$from": f"{name}#/{ANSWER}"})
    note = {
        "id": name,
        "kind": "note",
        "params": {ANSWER: {LITERAL: decision.final_answer}},
        "evidence_refs": _pinned(spec.required_evidence, config),
    }
    unsaid = tuple(key for key in spec.planned_outputs if key not in outputs)
    return {"steps": [note], "outputs": outputs, "declared_outputs": unsaid}


def _takes_answer(schema: JsonObject | None) -> bool:
    """Return whether the outputs of a decision may contain the answer as a whole, besides those that it requires."""
    if schema is None or schema.get("additionalProperties") is not False:
        return True
    return ANSWER in (as_object(schema.get("properties")) or {})


def _pinned(required: Iterable[str], config: RunConfig) -> tuple[str, ...]:
    """Return all evidence of this run of a required class."""
    known = config.compiled.manifests.evidence_manifest
    wanted = tuple(required)
    return tuple(entry.id for entry in known if any(meets(each, entry.classification) for each in wanted))


def _names(number: int, count: int) -> list[str]:
    return [f"t{number}"] if count == 1 else [f"t{number}{_letters(index)}" for index in range(count)]


def _letters(index: int) -> str:
    """Return a, b, …, z, aa, ab, … for a number."""
    before, letter = divmod(index, 26)
    return (_letters(before - 1) if before else "") + chr(ord("a") + letter)
