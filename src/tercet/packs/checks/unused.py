"""Finds declarations that can never apply, and sentences of requests that are not declared as such."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan
from tercet.contracts.relations import REQUEST, SENTENCE, FieldSpec, is_of_class
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import references
from tercet.contracts.values.kinds import declared_kind, suggested_kind
from tercet.contracts.values.references import Leaf, Reference
from tercet.contracts.values.trust import input_marks, is_marked, with_dotted
from tercet.packs.checks import Check, Problems, did_you_mean, offers
from tercet.packs.checks.gates import gates_named
from tercet.packs.checks.templates import decision_of
from tercet.packs.parts import Parts
from tercet.policy.comparisons import compared_texts


def gates_are_named(parts: Parts) -> Problems:
    """Each gate is named by a tool, decision, policy, template or task."""
    if any(parts.is_partial(kind) for kind in ("tool", "decision", "policy", "task")):
        return
    named = {name for _, name in gates_named(parts)} | {each.output_gate for each in parts.decisions}
    for gate in parts.gates:
        if gate.name not in named:
            yield parts.warning(
                "gate_unused",
                f"gate {gate.name}",
                "no tool, decision, policy, template or task names it, so nothing waits for it",
                "name it where an approval is needed, or remove it",
            )


def actors_hold_used_roles(parts: Parts) -> Problems:
    """An actor with roles holds one that a gate, a tool or a rule names."""
    if any(parts.is_partial(kind) for kind in ("tool", "gate", "policy")):
        return
    named = {role for gate in parts.gates for role in gate.roles}
    named |= {role for tool in parts.tools for role in tool.roles}
    rules = [policy.expression for policy in parts.policies]
    rules += [gate.when for gate in parts.gates if gate.when is not None]
    rules += [limit.expression for tool in parts.tools for limit in tool.limits]
    named |= {each.text for rule in rules for each in compared_texts(rule)}
    for actor in parts.actors:
        if actor.roles and named.isdisjoint(actor.roles):
            yield parts.warning(
                "actor_roles_unused",
                f"actor {actor.id}, roles",
                f"no gate, tool or rule names the role {' or '.join(actor.roles)}",
                "correct the role, or leave it out",
            )


def decisions_are_planned(parts: Parts) -> Problems:
    """In a pack with plans, each decision has one, or a language model plans for it."""
    planned = {plan.intent for plan in parts.templates} | {goal.intent for goal in parts.library.goals}
    is_partial = any(parts.is_partial(kind) for kind in ("decision", "goal"))
    if not planned or parts.models.planner or is_partial:
        return
    if any(decision_of(parts, intent) is None for intent in planned):
        return  # a misspelt intent is reported separately
    taken = {point.decision_id for plan in parts.templates for point in plan.decision_checkpoints}
    for decision in parts.decisions:
        if decision.id not in taken and planned.isdisjoint((decision.id, *decision.intents)):
            yield parts.warning(
                "decision_unplanned",
                f"decision {decision.id}",
                "no template and no goal is for its intents, and no language model plans, so only a caller's plan reaches it",
                "add a template or a goal for one of its intents, or remove it",
            )


def tasks_are_reached(parts: Parts) -> Problems:
    """A goal leads to each task, directly or through methods."""
    library = parts.library
    if any(parts.is_partial(kind) for kind in ("task", "method", "goal")):
        return
    reached: set[str] = set()
    waiting = [goal.task for goal in library.goals]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [each.task for method in library.methods_of.get(name, ()) for each in method.subtasks]
    for task in library.tasks:
        if task.name not in reached:
            yield parts.warning(
                "task_unreachable",
                f"task {task.name}",
                "no goal leads to it, so it and its methods are never used",
                "name it in a goal or in a method that a goal leads to, or remove it",
            )


def evidence_is_used(parts: Parts) -> Problems:
    """Trusted evidence of each class is required, pinned or read.

    A language model that plans sees all evidence, and outputs that are judged are compared with all of it.
    """
    is_partial = any(parts.is_partial(kind) for kind in ("tool", "decision", "task", "fact", "policy"))
    is_shown = bool(parts.models.planner) or any(decision.quality for decision in parts.decisions)
    if is_partial or is_shown:
        return
    named = set(_classes_named(parts))
    if any("${" in name for name in named):
        return  # the request says which classes are pinned
    rules = " ".join(policy.expression for policy in parts.policies)
    for fact in {
        each.classification: each for each in parts.evidence if each.trust is Trust.TRUSTED
    }.values():
        name = fact.classification
        if not any(is_of_class(each, name) for each in named) and name not in rules:
            yield parts.warning(
                "evidence_class_unused",
                f"evidence {fact.id}",
                f"nothing requires, pins or reads evidence of the class {name}",
                "require it where a decision or a tool depends on it, or remove it",
            )


def _classes_named(parts: Parts) -> Iterator[str]:
    for decision in parts.decisions:
        yield from (*decision.required_evidence, *decision.untrusted_evidence)
        for relation in decision.bind:
            yield from (name for name in (relation.evidence,) if name is not None)
            if relation.target is not None:
                yield relation.target.owner
        yield from (field.path.owner for field in decision.fields)
    for tool in parts.tools:
        yield from tool.requires_evidence
    for plan in parts.templates:
        yield from _classes_in_plan(plan)
    for task in parts.library.tasks:
        yield from (
            *task.requires_evidence,
            *_classes_in(list(task.evidence_refs)),
            *_classes_in(task.params),
        )
    for value in (
        *(fact.value for fact in parts.library.facts),
        *(goal.outputs for goal in parts.library.goals),
        *(goal.memory for goal in parts.library.goals),
        *(goal.args for goal in parts.library.goals),
        *(dict(subtask.args) for method in parts.library.methods for subtask in method.subtasks),
    ):
        yield from _classes_in(value)


def _classes_in_plan(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        yield from step.requires_evidence
        yield from (query.classification for query in step.evidence_queries)
        yield from _classes_in(list(step.evidence_refs))
        yield from _classes_in(step.params)
    yield from _classes_in([plan.outputs, plan.memory])


def _classes_in(value: object) -> Iterator[str]:
    """Return the classes of the evidence ids in a value, and of those that its references read."""
    for item in references.scan(value):
        refs: list[str] = []
        if isinstance(item, Leaf) and isinstance(item.value, str):
            refs = [item.value]
        elif isinstance(item, Reference):
            refs = [item.target, *(references.evidence_read(item.text) or ())] if item.kind != "from" else []
        yield from (found.classification for ref in refs if (found := parse_ref(ref)) is not None)


UNUSED_CHECKS: tuple[Check, ...] = (
    gates_are_named,
    actors_hold_used_roles,
    decisions_are_planned,
    tasks_are_reached,
    evidence_is_used,
)


# --- sentences ---


def sentences_are_declared_as_such(parts: Parts) -> Problems:
    """Patterns and pasted text are declared for sentences, and sentences for trusted fields of the request."""
    for decision in parts.decisions:
        for field in decision.fields:
            place = f"decision {decision.id}, fields {field.of}"
            if field.kind != SENTENCE:
                if field.patterns or field.pasted != "untrusted":
                    yield parts.problem(
                        "sentence_settings_unused",
                        place,
                        f"patterns and pasted apply to sentences only, and the kind of this field is {field.kind}",
                        f'write kind = "{SENTENCE}", or leave them out',
                    )
            elif field.path.owner != REQUEST:
                yield parts.problem(
                    "sentence_not_in_request",
                    place,
                    "only fields of the request can be sentences, so this one vouches for nothing",
                    f"write {REQUEST}.FIELD, or give the field of the evidence another kind",
                )
            elif _is_untrusted(decision, field):
                yield parts.warning(
                    "sentence_untrusted",
                    place,
                    "untrusted_inputs marks this field, so nothing that it names counts",
                    "remove one of the two declarations",
                )


def _is_untrusted(decision: DecisionSpec, field: FieldSpec) -> bool:
    marks = input_marks(with_dotted(decision.untrusted_inputs))
    return is_marked(marks, field.path.place)


def groups_name_parameters(parts: Parts) -> Problems:
    """Each named group of a pattern is a parameter, or a kind of parameters, of a tool that the decision may use."""
    if parts.is_partial("tool"):
        return
    for decision in parts.decisions:
        known = {
            name for tool in parts.tools if offers(decision, tool.name) for name in _names_and_kinds(tool)
        }
        for field in decision.fields:
            for group in dict.fromkeys(
                name for pattern in field.patterns for name in re.compile(pattern).groupindex
            ):
                if group not in known:
                    yield parts.warning(
                        "pattern_group_unknown",
                        f"decision {decision.id}, fields {field.of}",
                        f"no tool of the decision has a parameter or a kind {group}, so what the group captures counts for nothing",
                        did_you_mean(group, sorted(known)) or "name the group after a parameter or its kind",
                    )


def _names_and_kinds(tool: ToolSpec) -> Iterator[str]:
    """Yield the parameters of a tool, and the kinds of values that they take at any depth."""
    yield from tool.parameter_names
    yield from (suggested_kind(name).name for name in tool.known_keys)
    yield from (declared_kind(kind).name for kind in tool.kinds.values())
    yield from (declared_kind(text).name for text in _formats(tool.parameters))


def _formats(schema: Any) -> Iterator[str]:
    if (members := as_object(schema)) is not None:
        if isinstance(text := members.get("format"), str):
            yield text
        for member in members.values():
            yield from _formats(member)
    for item in as_list(schema) or ():
        yield from _formats(item)


SENTENCE_CHECKS: tuple[Check, ...] = (sentences_are_declared_as_such, groups_name_parameters)
