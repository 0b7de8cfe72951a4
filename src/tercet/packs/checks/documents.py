"""Checks values and documents: every value has a source, and every slot names a value in its role."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.documents import DocumentValue, find_slots
from tercet.contracts.errors import PlanError
from tercet.contracts.evidence import meets
from tercet.contracts.outputs.quality_rules import QualityRules
from tercet.contracts.shape import as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.references import Found, Reference, scan
from tercet.packs.checks import Check, Problems, did_you_mean, fields_of, unknown_fact
from tercet.packs.checks.trials import judged
from tercet.packs.parts import Parts
from tercet.policy.expressions import ExpressionError, compile_planner

_REQUEST = "request"


def values_have_sources(parts: Parts) -> Problems:
    """The source of a value is in the evidence of the pack, or a step or the request may provide it."""
    for decision, rules in judged(parts):
        for number, value in enumerate(rules.values):
            place = f"decision {decision.id}, quality.values.{number}"
            for field in ("from", "sum_of", "currency_from"):
                ref = getattr(value, "source" if field == "from" else field)
                if ref is not None:
                    yield from _source_problems(parts, decision, ref, f"{place}.{field}")
            if value.type == "table" and not value.columns:
                yield parts.problem(
                    "table_without_columns", f"{place}.columns", "the table shows nothing", "name its columns"
                )
            yield from _label_problems(parts, rules, value, place)


def _source_problems(parts: Parts, decision: DecisionSpec, ref: str, place: str) -> Problems:
    name, mark, at = ref.partition("#")
    if not mark or (at and not at.startswith("/")):
        yield parts.problem(
            "value_source_invalid",
            place,
            f"{ref} is not a reference",
            "write CLASS#/MEMBER, such as order#/total",
        )
        return
    if parts.is_partial("evidence") or name == _REQUEST:
        return
    facts = [fact for fact in parts.evidence if meets(name, fact.classification)]
    steps = {step.id for plan in parts.templates for step in plan.steps}
    elsewhere = {each.removesuffix("_evidence") for each in decision.required_evidence}
    if facts and not any(pointer.value_at(fact.content, at) is not None for fact in facts):
        known = sorted({found for fact in facts for found in _pointers(fact.content)})
        yield unknown_fact(parts, place, f"no fact of the class {name} has {at}", at, known)
    elif not facts and name not in steps | elsewhere:
        known = sorted({fact.classification for fact in parts.evidence} | steps | elsewhere)
        told = f"there is neither evidence of the class {name} in the pack nor a step of this name"
        yield unknown_fact(parts, place, told, name, known, severity="warning")


def _pointers(content: object) -> Iterator[str]:
    """Yield the pointers of an object's members, including nested ones."""
    for name, member in (as_object(content) or {}).items():
        yield pointer.join((name,))
        yield from (f"{pointer.join((name,))}{inner}" for inner in _pointers(member))


def _label_problems(parts: Parts, rules: QualityRules, value: DocumentValue, place: str) -> Problems:
    language = rules.locale.replace("-", "_").partition("_")[0]
    if value.labels and language not in value.labels and rules.locale_from is None:
        yield parts.problem(
            "label_language_missing",
            f"{place}.labels",
            f"there are no labels in {language}, the language of the locale: no text can name this value",
            f"add {language} = [...] to labels",
            severity="warning",
        )


def expressions_compile(parts: Parts) -> Problems:
    """The expression of a computed value compiles."""
    for decision, rules in judged(parts):
        for number, value in enumerate(rules.values):
            if value.cel is not None and (fault := _fault_of(value.cel)):
                place = f"decision {decision.id}, quality.values.{number}.cel"
                yield parts.problem("value_expression_invalid", place, fault, "correct the expression")


def _fault_of(text: str) -> str:
    """Return why an expression cannot be evaluated; empty if it can."""
    try:
        names = frozenset(name for found in scan({"cel": {"$cel": text}}) for name in _names(found))
        compile_planner(text, names)
    except (ExpressionError, PlanError) as error:
        return error.message
    return ""


def _names(found: Found) -> tuple[str, ...]:
    return found.names if isinstance(found, Reference) else ()


def documents_are_outputs(parts: Parts) -> Problems:
    """A document is rendered into an output of the decision."""
    for decision, rules in judged(parts):
        described = None if decision.outputs_schema is None else fields_of(decision.outputs_schema)
        known = {*decision.required_outputs, *(described or ())}
        for number, each in enumerate(rules.documents):
            if known and each.output not in known and described is not None:
                yield parts.problem(
                    "document_output_unknown",
                    f"decision {decision.id}, quality.documents.{number}.output",
                    f"the decision has no output {each.output}",
                    did_you_mean(each.output, known) or f"render into one of {', '.join(sorted(known))}",
                )


def slots_name_values(parts: Parts) -> Problems:
    """Every slot of a template or a section names a declared value in its own role; required values are declared."""
    for decision, rules in judged(parts):
        start = f"decision {decision.id}, quality"
        for number, each in enumerate(rules.documents):
            yield from _slot_problems(parts, rules, each.template, f"{start}.documents.{number}.template")
        for number, each in enumerate(rules.repair.sections):
            yield from _slot_problems(parts, rules, each.text, f"{start}.repair.sections.{number}.text")
        names = [each.name for each in rules.values]
        for name in rules.required_values:
            if name not in names:
                yield parts.problem(
                    "required_value_unknown",
                    f"{start}.required_values",
                    f"no value is called {name}",
                    did_you_mean(name, names) or "declare it under [[decision.quality.values]]",
                )


def _slot_problems(parts: Parts, rules: QualityRules, text: str, place: str) -> Problems:
    values = {each.name: each for each in rules.values}
    if text.count("{{") != len(find_slots(text)):
        yield parts.problem(
            "slot_invalid", place, "a slot is not written as one", "write {{ name }} or {{ name | role }}"
        )
    for slot in find_slots(text):
        value = values.get(slot.name)
        if value is None:
            remedy = did_you_mean(slot.name, values) or "declare it under [[decision.quality.values]]"
            yield parts.problem("slot_unknown", place, f"no value is called {slot.name}", remedy)
        elif slot.role and slot.role not in (value.type, value.unit, value.currency):
            known = ", ".join(filter(None, (value.type, value.unit, value.currency)))
            told = f"{slot.name} does not have the role {slot.role}"
            yield parts.problem("slot_role_mismatch", place, told, f"name its own role: {known}")


DOCUMENT_CHECKS: tuple[Check, ...] = (
    values_have_sources,
    expressions_compile,
    documents_are_outputs,
    slots_name_values,
)
