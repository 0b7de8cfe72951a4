"""Checks the tests and attacks that are run on outputs: their tools exist and are read_only."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.outputs.quality_rules import Attack, QualityRules, TestCommand
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.canonical import canonical
from tercet.packs.checks import Check, Problems, fields_of, missing_field, unknown_parameter, unknown_tool
from tercet.packs.parts import Parts
from tercet.policy import schemas


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
        if rules.attacks and find_spec("hypothesis") is None:
            yield parts.problem(
                "adversarial_unavailable",
                f"decision {decision.id}, quality.attacks",
                "edge cases are made by Hypothesis, which is not installed here: no run of this decision would begin",
                "pip install 'tercet[adversarial]'",
                severity="warning",
            )


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
        yield parts.problem(
            "imagined_without_model",
            f"{place}.imagined",
            "no model is named that could think of cases, so only those of the schema are tried",
            'add critic = ["…"] under [models] in pack.toml, or say imagined = 0',
            severity="warning",
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
