"""Reads a plan from a model's answer, and merges it with the part of the previous plan that is kept.

A model may answer anything. One JSON object is searched for, alone, in a code block or in text; everything else is a
`PlanningError` whose reason tells the model what to improve: `answer_not_json`, `answer_cut_off`, `answer_too_long`,
`answer_not_a_plan`. The object goes through the loader of all plans, so the result is typed.

When only a part is planned again, completed steps are kept, since their effects are. If a setback names steps, those
and everything that depends on them are abandoned, and the others are kept unchanged, so that the run continues with
them. If it names none, only completed steps are kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from math import isfinite
from typing import Any

from tercet.contracts.errors import PlanError
from tercet.contracts.plan import Plan, Step
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.question import Reply
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.text.pasted import show
from tercet.contracts.values import references
from tercet.contracts.values.references import RESERVED_IDS, Reference
from tercet.planner.plan_schema import without_nulls
from tercet.planner.sentences import Assignment
from tercet.planner.sources import PlanningError


def find_kept(plan: Plan, ended: Collection[str], blamed: Collection[str]) -> tuple[str, ...]:
    """Return the steps of a plan to keep after some were blamed; `ended` are those that completed or were skipped."""
    gone = _behind(plan, blamed) if blamed else {step.id for step in plan.steps}
    return tuple(step.id for step in plan.steps if step.id in ended or step.id not in gone)


def find_kept_outputs(plan: Plan, kept: Collection[str]) -> tuple[str, ...]:
    """Return the outputs that depend only on kept steps."""
    return tuple(name for name, value in plan.outputs.items() if _steps_named([value]) <= {*kept})


def merge(assignment: Assignment, part: Plan) -> Plan:
    """Return the plan of the new part and the kept steps: a revision of the previous plan, if there was one."""
    before, request = assignment.before, assignment.compiled.request
    if before is None:
        return part.model_copy(update={"intent": request.intent if request else None})
    kept = [step for step in before.steps if step.id in assignment.kept]
    steps = (*kept, *_joined(assignment, before, part.steps))
    outputs = {name: before.outputs[name] for name in assignment.outputs_kept}
    remembered = {
        n: value for n, value in before.memory.items() if _steps_named([value]) <= {*assignment.kept}
    }
    return before.revise(
        steps=steps,
        outputs={**outputs, **part.outputs},
        declared_outputs=tuple(name for name in part.declared_outputs if name not in outputs),
        memory={**remembered, **part.memory},
        decision_checkpoints=(
            *(point for point in before.decision_checkpoints if point.after_step in assignment.kept),
            *part.decision_checkpoints,
        ),
    )


def _behind(plan: Plan, blamed: Collection[str]) -> set[str]:
    """Return these steps, and all that wait for them."""
    position = {step.id: index for index, step in enumerate(plan.steps)}
    stack = [position[name] for name in blamed if name in position]
    found = {*stack}
    while stack:
        for after in plan.graph.successors[stack.pop()]:
            if after not in found:
                found.add(after)
                stack.append(after)
    return {plan.steps[index].id for index in found}


def _joined(assignment: Assignment, before: Plan, steps: tuple[Step, ...]) -> Iterable[Step]:
    """Return the new steps; the first of them waits for what the replaced steps had waited for."""
    if not steps or "depends_on" in steps[0].model_fields_set:
        return steps
    gone = [index for index, step in enumerate(before.steps) if step.id not in assignment.kept]
    waited = {before.steps[p].id for index in gone for p in before.graph.predecessors[index]}
    needed = tuple(name for name in assignment.kept if name in waited)
    return (steps[0].model_copy(update={"depends_on": needed}), *steps[1:]) if needed else steps


def _steps_named(values: list[object]) -> set[str]:
    found = references.scan(values)
    names = {name for item in found if isinstance(item, Reference) for name in item.names}
    return names - RESERVED_IDS


NOT_JSON = "answer_not_json"
CUT_OFF = "answer_cut_off"
TOO_LONG = "answer_too_long"
NOT_A_PLAN = "answer_not_a_plan"

MAX_CHARS = 256 * 1024
"""The maximum length of an answer."""
_MOST_TRIES = 64
"""The number of opening braces at which an object is searched for."""
_SHOWN = 120
_OURS = ("plan_id", "revision", "parent", "intent")
"""Fields of a plan that only the runtime sets."""
_REMEDY = 'answer with one JSON object: {"steps": […], "outputs": {…}}, and no other words'


def read_answer(reply: Reply, assignment: Assignment) -> Plan:
    """Return the plan of a reply merged with the kept steps; raise `PlanningError`."""
    document = find_object(reply.text, is_cut=reply.is_cut)
    steps = as_list(document.get("steps"))
    if steps is None:
        raise _refused(NOT_A_PLAN, f"the object has no list of steps but {show(sorted(document), _SHOWN)}")
    if len(steps) > assignment.max_steps:
        raise _refused(
            TOO_LONG,
            f"the plan has {len(steps):,} steps, and at most {assignment.max_steps} are left",
            "plan fewer steps",
        )
    return _merged({**document, "steps": [_cleaned(step, assignment) for step in steps]}, assignment)


def _merged(document: JsonObject, assignment: Assignment) -> Plan:
    written = {name: value for name, value in document.items() if name not in _OURS}
    try:
        return merge(assignment, load_plan(_named(written, assignment)))
    except PlanError as error:
        told = "; ".join(problem.line() for problem in error.problems[:3])
        more = f"; and {len(error.problems) - 3} more" if len(error.problems) > 3 else ""
        raise _refused(NOT_A_PLAN, f"the object is no plan: {told}{more}", "mend what is named") from error


# --- finding the object ---


class _UnfitError(ValueError):
    """A value that the JSON parser accepts but a plan must not contain."""


def find_object(text: str, *, is_cut: bool = False) -> JsonObject:
    """Return the one JSON object of an answer; raise `PlanningError` if there is none, a truncated one, or several."""
    if len(text) > MAX_CHARS:
        raise _refused(TOO_LONG, f"the answer has {len(text):,} characters", "plan fewer steps")
    found = list(_objects(text, is_cut=is_cut))
    plans = [each for each in found if "steps" in each]
    if len(plans) > 1:
        raise _refused(NOT_JSON, f"the answer holds {len(plans)} plans, and it is not said which one counts")
    if plans:
        return plans[0]
    if found and _parses_at(text, text.find("{")):
        return found[0]  # another document, not a part of a broken one
    raise _refused(NOT_JSON, f"the answer is no JSON object, it begins with {show(text.strip(), _SHOWN)}")


def _objects(text: str, *, is_cut: bool) -> Iterator[JsonObject]:
    """Yield the top-level objects in a text."""
    at, first = text.find("{"), True
    for _ in range(_MOST_TRIES):
        if at < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, at)
        except _UnfitError as error:
            raise _refused(NOT_JSON, str(error)) from error
        except RecursionError as error:
            raise _refused(NOT_JSON, "the answer nests too deep", "write it flat") from error
        except ValueError as error:
            if first and _runs_out(error, text, is_cut=is_cut):
                raise _refused(
                    CUT_OFF,
                    f"the answer ends in the middle, behind {show(text.rstrip()[-40:], _SHOWN)}",
                    "write a shorter plan: fewer steps, and shorter values",
                ) from error
            end = at + 1
        else:
            yield value
            first = False
        at = text.find("{", end)


def _parses_at(text: str, at: int) -> bool:
    try:
        _DECODER.raw_decode(text, at)
    except ValueError:
        return False
    return True


def _runs_out(error: ValueError, text: str, *, is_cut: bool) -> bool:
    """Return whether the parser stopped at the very end, or inside an unclosed string."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    is_open = error.msg.startswith("Unterminated string")
    return is_cut or is_open or error.pos >= len(text.rstrip())


def _members(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _UnfitError(f"the key {show(twice, _SHOWN)} stands twice in one object")
    return found


def _constant(name: str) -> Any:
    raise _UnfitError(f"{name} is no JSON number")


def _number(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise _UnfitError(f"the number {show(text, 40)} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > 20:  # longer ones are refused by the loader, and slow to parse
        raise _UnfitError(f"the number {show(text, 40)} is too large")
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_constant=_constant, parse_float=_number, parse_int=_whole
)


# --- making a plan of it ---


def _cleaned(step: Any, assignment: Assignment) -> Any:
    """Return a step without parameters that are null only because the schema has no other way to omit them."""
    fields = as_object(step)
    params = as_object((fields or {}).get("params"))
    tool = assignment.tools.get(str((fields or {}).get("tool")))
    if fields is None or params is None or tool is None:
        return step
    return {**fields, "params": without_nulls(tool, params)}


def _named(document: JsonObject, assignment: Assignment) -> JsonObject:
    """Return the document with an id for every step without one: s1, s2 and so on, as the prompt says.

    Steps run in sequence unless they say what they wait for. A step that repeats a kept step is that step: models tend
    to write the whole plan, whatever they were asked for.
    """
    taken = {*assignment.kept}
    previous: str | None = None
    steps: list[Any] = []
    same: dict[str, str] = {}
    for position, raw in enumerate(document["steps"]):
        fields = as_object(raw)
        if fields is None:
            steps.append(raw)
            continue
        own = fields.get("id")
        if (stays := _said_again(fields, assignment)) is not None:
            same[own if isinstance(own, str) else f"s{assignment.first + position}"] = previous = stays
            continue
        name = own if isinstance(own, str) and own not in taken else _fresh(assignment, position, taken)
        taken.add(name)
        waits = {} if previous is None or "depends_on" in fields else {"depends_on": [previous]}
        steps.append({**fields, **waits, "id": name})
        previous = name
    named = {**document, "steps": steps}
    return {name: _renamed(value, same) for name, value in named.items()} if same else named


def _said_again(fields: JsonObject, assignment: Assignment) -> str | None:
    """Return the kept step that does the same, if any."""
    before = () if assignment.before is None else assignment.before.steps
    said = (fields.get("tool"), fields.get("params", {}))
    return next(
        (step.id for step in before if step.id in assignment.kept and (step.tool, step.params) == said), None
    )


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """Return the value with references to these steps replaced."""
    if (items := as_list(value)) is not None:
        return [_renamed(item, names) for item in items]
    if (fields := as_object(value)) is None:
        return value
    renamed = {key: _renamed(member, names) for key, member in fields.items()}
    if isinstance(source := fields.get("$from"), str):
        step, mark, place = source.partition("#")
        renamed["$from"] = f"{names.get(step, step)}{mark}{place}"
    if (waits := as_list(fields.get("depends_on"))) is not None:
        renamed["depends_on"] = list(dict.fromkeys(names.get(str(name), name) for name in waits))
    return renamed


def _fresh(assignment: Assignment, position: int, taken: set[str]) -> str:
    number = assignment.first + position
    while f"s{number}" in taken:
        number += 1
    return f"s{number}"


def _refused(code: str, message: str, remedy: str = _REMEDY) -> PlanningError:
    return PlanningError(message, code=code, remedy=remedy)
