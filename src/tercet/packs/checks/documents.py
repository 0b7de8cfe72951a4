"""Checks values and documents: every value has a source, and every slot names a value in its role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.documents import TEMPLATE_SLOT, DocumentValue, find_malformed_slots, find_slots
from tercet.contracts.errors import PlanError, UsageError
from tercet.contracts.evidence import meets
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.outputs.quality_rules import Attack, QualityRules, TestCommand
from tercet.contracts.shape import JsonObject, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.references import Found, Reference, scan
from tercet.packs.checks import (
    Check,
    Problems,
    did_you_mean,
    fields_of,
    missing_field,
    unknown_fact,
    unknown_parameter,
    unknown_tool,
)
from tercet.packs.parts import Parts
from tercet.policy import schemas
from tercet.policy.expressions import ExpressionError, compile_planner


def judged(parts: Parts) -> Iterator[tuple[DecisionSpec, QualityRules]]:
    """Yield the decisions whose outputs are judged, with their quality rules."""
    return ((each, each.quality) for each in parts.decisions if each.quality is not None)


class _Codes(NamedTuple):
    """The codes of problems with one kind of trial."""

    not_read_only: str
    gated: str
    withheld: str
    unknown_parameter: str


_TEST = _Codes("test_not_read_only", "test_gated", "test_tool_withheld", "test_unknown_parameter")
_ATTACK = _Codes("attack_not_read_only", "attack_gated", "attack_tool_withheld", "attack_unknown_parameter")


def tests_can_be_run(parts: Parts) -> Problems:
    """A test command is a read_only tool that the decision may use, with parameters that it has."""
    for decision, rules in judged(parts):
        for number, command in enumerate(rules.tests):
            place = f"decision {decision.id}, quality.tests.{number}"
            yield from _trial_problems(parts, decision, command, _TEST, place)


def _trial_problems(
    parts: Parts,
    decision: DecisionSpec,
    trial: TestCommand | Attack,
    codes: _Codes,
    place: str,
) -> Problems:
    name = trial.tool
    tool = parts.tool.get(name)
    if tool is None:
        if parts.lacks_tool(name):
            yield unknown_tool(parts, f"{place}.tool", name)
        return
    if tool.mode is not ApprovalMode.READ_ONLY:
        yield parts.problem(
            codes.not_read_only,
            f"{place}.tool",
            f"{name} is {tool.mode}: tools that judge outputs must be read_only",
            'take a tool of mode = "read_only"',
        )
    if tool.gates:
        yield parts.problem(
            codes.gated,
            f"{place}.tool",
            f"{name} waits for {', '.join(tool.gates)}, and no gate can open while outputs are judged",
            "use a tool without gates",
        )
    is_listed = decision.tools is None or name in decision.tools
    if not is_listed or name in decision.prohibited_tools:
        yield parts.problem(
            codes.withheld,
            f"{place}.tool",
            f"decision {decision.id} may not use {name}",
            "add it to the tools of the decision",
        )
    known = fields_of(tool.parameters)
    for parameter in trial.params:
        if known is not None and parameter not in known:
            yield unknown_parameter(parts, codes.unknown_parameter, f"{place}.params", parameter, known)


def attacks_can_be_made(parts: Parts) -> Problems:
    """An attack uses such a tool as well; one of its parameters takes cases, and cases can be generated."""
    for decision, rules in judged(parts):
        for number, attack in enumerate(rules.attacks):
            place = f"decision {decision.id}, quality.attacks.{number}"
            yield from _trial_problems(parts, decision, attack, _ATTACK, place)
            yield from _case_problems(parts, attack, rules, place)


def _case_problems(parts: Parts, attack: Attack, rules: QualityRules, place: str) -> Problems:
    tool = parts.tool.get(attack.tool)
    known = fields_of(tool.parameters) if tool is not None else None
    if known is not None and attack.case not in known:
        yield unknown_parameter(parts, _ATTACK.unknown_parameter, f"{place}.case", attack.case, known)
        return
    schema = attack.case_schema if tool is None else attack.schema_for(tool)
    if not schema:
        if tool is not None:
            yield parts.problem(
                "attack_without_schema",
                f"{place}.case",
                f"nothing says what a case looks like: {attack.tool} takes anything as {attack.case}",
                "describe cases by a JSON Schema under case_schema",
            )
        return
    yield from _schema_problems(parts, schema, attack, place)
    if attack.max_cases is None and rules.critique.max_edge_cases == 0:
        yield parts.problem(
            "attack_without_cases",
            f"{place}.max_cases",
            "critique.max_edge_cases is 0, so no case would be tried, and no output committed",
            "say max_cases, or drop the attack",
        )
    if attack.imagined and not parts.models.critic:
        yield parts.warning(
            "imagined_without_model",
            f"{place}.imagined",
            "no model is named that could think of cases, so only those of the schema are tried",
            'add critic = ["…"] under [models] in pack.toml, or say imagined = 0',
        )


def _schema_problems(parts: Parts, schema: JsonObject, attack: Attack, place: str) -> Problems:
    try:
        schemas.validator(canonical(schema).decode())
    except UsageError as error:
        remedy = "write a JSON Schema of draft 2020-12"
        yield parts.problem("schema_invalid", f"{place}.case_schema", error.message, remedy)
        return
    lacking = missing_field(schema, attack.probe_at) if attack.probe_at else None
    if lacking is not None:
        yield parts.problem(
            "attack_probe_nowhere",
            f"{place}.probe_at",
            f"a case has no {lacking}, so no text can be planted at {attack.probe_at}",
            "name a member of the case that holds a text",
        )


TRIAL_CHECKS: tuple[Check, ...] = (tests_can_be_run, attacks_can_be_made)


# --- documents ---


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
        yield parts.warning(
            "label_language_missing",
            f"{place}.labels",
            f"there are no labels in {language}, the language of the locale: no text can name this value",
            f"add {language} = [...] to labels",
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
    for line, braces in find_malformed_slots(text):
        told = f"line {line}: {braces!r} is not a slot"
        yield parts.problem("slot_invalid", place, told, "write {{ name }} or {{ name | role }}")
    named = sum(match["inside"] is not None for match in TEMPLATE_SLOT.finditer(text))
    if named > len(find_slots(text)):
        yield parts.problem(
            "slot_invalid", place, "a slot does not name a value", "write {{ name }} or {{ name | role }}"
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
