"""From a decision to the plan that carries it out, and back from the recorded plan to the decision.

A call is a step without order among the others; an answer is a note, whose value is the answer. Step ids are unique
over the whole run, so that no step of one turn passes for one of another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from tercet.contracts import pointer
from tercet.contracts.errors import PlanError
from tercet.contracts.evidence import meets
from tercet.contracts.plain import not_plain
from tercet.contracts.plan import Plan
from tercet.contracts.references import LITERAL
from tercet.contracts.shape import JsonObject, as_object
from tercet.core.config import RunConfig
from tercet.critics.decision import Action, Decision, DecisionError

ANSWER = "final_answer"
"""The output and the parameter that hold an answer."""


def plan_of(decision: Decision, number: int, setting: RunConfig) -> Plan:
    """The plan of one turn; raises `DecisionError` for what no plan can hold."""
    document = (
        _answering(decision, f"t{number}", setting)
        if decision.mode == "final"
        else _acting(decision, number, setting)
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
    """The decision that a recorded turn began with."""
    rationale = str(recorded.get("rationale", ""))
    if recorded.get("mode") == "final":
        held: Any = plan.steps[0].params[ANSWER]
        return Decision("final", final_answer=held[LITERAL], rationale=rationale)
    actions = tuple(Action(step.tool or "", step.params, step.evidence_refs) for step in plan.steps)
    return Decision("act", actions, rationale=rationale)


def _acting(decision: Decision, number: int, setting: RunConfig) -> JsonObject:
    names = _names(number, len(decision.actions))
    wanted = setting.spec.required_evidence
    steps: list[JsonObject] = []
    for name, action in zip(names, decision.actions, strict=True):
        tool = setting.surface.get(action.tool)
        required = (*(() if tool is None else tool.requires_evidence), *(() if steps else wanted))
        refs = action.evidence_refs or _pinned(required, setting)
        steps.append({"id": name, "tool": action.tool, "params": action.args, "evidence_refs": refs})
    # What the decision requires is taken from the last result that carries it, or said with the answer.
    return {"steps": steps, "declared_outputs": setting.spec.required_outputs}


def _answering(decision: Decision, name: str, setting: RunConfig) -> JsonObject:
    if (fault := not_plain(decision.final_answer)) is not None:
        raise DecisionError(
            f"the final answer is no JSON value: {fault}",
            remedy="answer with strings, numbers, lists and dicts",
        )
    spec = setting.spec
    said = as_object(decision.final_answer) or {}
    outputs = {
        key: {"$from": f"{name}#/{ANSWER}{pointer.join((key,))}"}
        for key in spec.required_outputs
        if key in said
    }
    if _takes_answer(spec.outputs_schema):
        outputs.setdefault(ANSWER, {"$from": f"{name}#/{ANSWER}"})
    note = {
        "id": name,
        "kind": "note",
        "params": {ANSWER: {LITERAL: decision.final_answer}},
        "evidence_refs": _pinned(spec.required_evidence, setting),
    }
    unsaid = tuple(key for key in spec.required_outputs if key not in outputs)
    return {"steps": [note], "outputs": outputs, "declared_outputs": unsaid}


def _takes_answer(schema: JsonObject | None) -> bool:
    """Whether the outputs of a decision may hold the answer as a whole, beside those that it requires."""
    if schema is None or schema.get("additionalProperties") is not False:
        return True
    return ANSWER in (as_object(schema.get("properties")) or {})


def _pinned(required: Iterable[str], setting: RunConfig) -> tuple[str, ...]:
    """All the evidence of this run that is of a required class."""
    known = setting.compiled.manifests.evidence_manifest
    wanted = tuple(required)
    return tuple(entry.id for entry in known if any(meets(each, entry.classification) for each in wanted))


def _names(number: int, count: int) -> list[str]:
    return [f"t{number}"] if count == 1 else [f"t{number}{_letters(index)}" for index in range(count)]


def _letters(index: int) -> str:
    """a, b, …, z, aa, ab, …"""
    before, letter = divmod(index, 26)
    return (_letters(before - 1) if before else "") + chr(ord("a") + letter)
