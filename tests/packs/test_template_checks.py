"""What `check` finds in templates, goals and rules: whatever every plan of the pack would be refused for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate, Policy
from tercet.contracts.plan import Plan
from tercet.contracts.problem import Problem
from tercet.contracts.request import Actor
from tercet.contracts.tasks import TaskLibrary
from tercet.packs import Pack, check, check_folder
from tercet.tools import Tool

WritePack = Callable[..., Path]
ROOT = Path(__file__).parents[2]

PARAMETERS = {
    "type": "object",
    "properties": {"account": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["account"],
    "additionalProperties": False,
}
RESULT = {"type": "object", "properties": {"receipt": {"type": "string"}, "paid": {"type": "boolean"}}}


def act(**parameters: object) -> None:
    """Stands in for the code of every tool."""


def tool(name: str, **changes: Any) -> Tool:
    fields: dict[str, Any] = {
        "call": act,
        "mode": "read_only",
        "trust": "trusted",
        "parameters": PARAMETERS,
        "result": RESULT,
    }
    return Tool(name=name, **fields | changes)


def build(**changes: Any) -> Pack:
    fields: dict[str, Any] = {
        "name": "p",
        "version": "1.0.0",
        "tools": [tool("till.look"), tool("till.pay"), tool("till.audit")],
        "decisions": [
            DecisionSpec(
                id="pay",
                intents=("till.pay",),
                required_outputs=("receipt",),
                tools=("till.look", "till.pay"),
                output_gate="GATE_BOSS",
            )
        ],
        "gates": [Gate(name="GATE_BOSS", roles=("boss",))],
        "actors": [Actor(id="ada", roles=("boss",))],
        "evidence": [Evidence(id="kg:order:o1#snapshot_1")],
    }
    return Pack(**fields | changes)


LOOK: dict[str, Any] = {
    "id": "look",
    "tool": "till.look",
    "params": {"account": {"$from": "request#/account"}},
}
PAY: dict[str, Any] = {
    "id": "pay",
    "tool": "till.pay",
    "params": {"account": "${input.account}", "amount": {"$cel": "request.cents"}},
    "when": "look.paid",
    "evidence_refs": ["kg:order:${input.order}#snapshot_${snapshot}"],
}
OUTPUTS = {"receipt": {"$from": "pay#/receipt"}}


def template(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"intent": "till.pay", "steps": steps or (LOOK, PAY), "outputs": OUTPUTS}
    return {"templates": [Plan.model_validate(fields | changes)]}


def paying(**changes: Any) -> dict[str, Any]:
    return template(LOOK, PAY | changes)


def policy(expression: str, scope: str = "plan") -> dict[str, Any]:
    return {"policies": [Policy.model_validate({"name": "r", "expression": expression, "scope": scope})]}


def limited(expression: str) -> dict[str, Any]:
    return {"tools": [tool("till.pay", limits=({"expression": expression},)), tool("till.look")]}


def found(changes: dict[str, Any]) -> list[Problem]:
    return list(check(build(**changes)))


def test_a_sound_template_has_no_problem() -> None:
    """References, placeholders and expressions that lead somewhere are no problem, whatever they will become."""
    assert found(template()) == []
    undone = {"tool": "till.look", "params": {"account": {"$from": "self#/receipt"}}}
    checkpoints = [{"decision_id": "pay", "after_step": "look"}]
    query = {"classification": "form", "query": "form of ${input.order}"}
    steps = (LOOK, PAY | {"compensate": undone, "gates": ["GATE_BOSS"], "evidence_queries": [query]})
    assert found(template(*steps, decision_checkpoints=checkpoints, memory={"n": {"$from": "look"}})) == []
    assert found(paying(params={"account": {"$literal": "a"}, "amount": "${input.cents}"})) == []
    delivered = PAY | {"params": {"account": {"$from": "outputs#/receipt"}}, "when": "outputs.receipt != ''"}
    assert found(template(LOOK, delivered, outputs={"receipt": {"$from": "look#/receipt"}})) == []


@pytest.mark.parametrize(
    ("changes", "code", "place", "said"),
    [
        (paying(tool="till.pya"), "unknown_tool", "/steps/1/tool", "did you mean till.pay?"),
        (paying(tool="till.audit"), "step_tool_withheld", "/steps/1/tool", "may not use till.audit"),
        (paying(gates=["GATE_BOS"]), "unknown_gate", "/steps/1/gates", "did you mean GATE_BOSS?"),
        (paying(depends_on=["lok"]), "unknown_step", "/steps/1/depends_on", "did you mean look?"),
        (
            paying(params={"account": {"$from": "lok#/receipt"}}),
            "unknown_step",
            "/steps/1/params/account",
            "did you mean look?",
        ),
        (paying(when="lokk.paid"), "unknown_step", "/steps/1/when", "did you mean look?"),
        (paying(when="look.payd"), "result_field_unknown", "/steps/1/when", "did you mean paid?"),
        (paying(when="1 + 1"), "expression_invalid", "/steps/1/when", "no boolean"),
        (paying(when="look.paid &&"), "expression_invalid", "/steps/1/when", "look.paid &&"),
        (paying(when="look.paid == ${input.x}"), "expression_invalid", "/steps/1/when", "request.order_id"),
        (
            template(outputs={"receipt": {"$from": "pya#/receipt"}}),
            "unknown_step",
            "/outputs/receipt",
            "did you mean pay?",
        ),
        (
            template(outputs={"receipt": {"$from": "pay#/reciept"}}),
            "result_field_unknown",
            "/outputs/receipt",
            "did you mean receipt?",
        ),
        (template(outputs={"reciept": {"$from": "pay"}}), "output_missing", "/outputs", "instead of reciept"),
        (template(memory={"m": {"$from": "pya"}}), "unknown_step", "/memory/m", "did you mean pay?"),
        (
            template(
                LOOK,
                PAY | {"params": {"account": {"$from": "outputs#/reciept"}}},
                outputs={"receipt": {"$from": "look#/receipt"}},
            ),
            "unknown_output",
            "/steps/1/params/account",
            "did you mean receipt?",
        ),
        (
            paying(params={"account": {"$from": "outputs#/receipt"}}),
            "step_cycle",
            "/outputs/receipt",
            "waits for accepted outputs",
        ),
        (
            paying(params={"account": "a", "amuont": 1}),
            "step_argument",
            "/steps/1/params/amuont",
            "did you mean amount?",
        ),
        (
            paying(params={"account": "a", "amount": "1"}),
            "step_argument",
            "/steps/1/params/amount",
            "integer",
        ),
        (paying(params={"amount": "${input.x}"}), "step_argument", "/steps/1/params", "account"),
        (
            paying(compensate={"tool": "till.undo"}),
            "unknown_tool",
            "/steps/1/compensate/tool",
            "no tool till.undo",
        ),
        (
            paying(evidence_refs=["kg:ordr:${input.order}#snapshot_${snapshot}"]),
            "evidence_class_unknown",
            "/steps/1",
            "did you mean order?",
        ),
        (paying(requires_evidence=["form_evidence"]), "evidence_class_unknown", "/steps/1", "class form"),
        (
            template(decision_checkpoints=[{"decision_id": "pya", "after_step": "look"}]),
            "unknown_decision",
            "/decision_checkpoints/0/decision_id",
            "did you mean pay?",
        ),
        (
            template(decision_checkpoints=[{"decision_id": "pay", "after_step": "lok"}]),
            "unknown_step",
            "/decision_checkpoints/0/after_step",
            "did you mean look?",
        ),
        (
            template(LOOK | {"depends_on": ["pay"]}, PAY),
            "step_cycle",
            "/steps/0",
            "wait for each other",
        ),
        (paying(params={"account": "${inptu.account}"}), "placeholder_malformed", "", "${input.field}"),
    ],
)
def test_a_fault_of_a_template_is_found(changes: dict[str, Any], code: str, place: str, said: str) -> None:
    """One fault gives one problem, at its place in the plan, with what was probably meant."""
    problems = found(changes)
    where = f"template till.pay, {place}" if place else "template till.pay"
    assert [(each.code, each.place) for each in problems] == [(code, where)]
    assert said in problems[0].line()
    assert problems[0].remedy


def test_an_intent_that_no_decision_has_is_found() -> None:
    """A template for it could never be asked for."""
    (problem,) = found(template(intent="till.pya"))
    assert (problem.code, problem.place) == ("unknown_intent", "template till.pya, /intent")
    assert problem.remedy == "did you mean till.pay?"


def test_the_file_of_a_template_is_named(write_pack: WritePack) -> None:
    """A fault of a template in a folder is said with its file."""
    plan = {
        "intent": "desk.hold",
        "steps": [{"id": "find", "tool": "desk.find_copi", "params": {"title": "${input.title}"}}],
        "outputs": {"copy_id": {"$from": "find#/copy_id"}},
    }
    (problem,) = check_folder(write_pack({"templates/hold.json": json.dumps(plan)}))
    assert problem.line() == (
        "templates/hold.json template desk.hold, /steps/0/tool: there is no tool desk.find_copi; "
        "did you mean desk.find_copy?"
    )


@pytest.mark.parametrize(
    ("changes", "place", "said"),
    [
        (policy("plan.steps.all(s, s.tol != 'x')"), "policy r, expression", "did you mean tool?"),
        (policy("plan.steps.filter(s, s.index >= 0).all(t, t.mod != 'x')"), "policy r, expression", "mode?"),
        (policy("plan.steps.all(s, s['tol'] != 'x')"), "policy r, expression", "did you mean tool?"),
        (policy("plan.steps.filter(s, s.optional).all(t, t.tol != 'x')"), "policy r, expression", "tool?"),
        (policy("step.params.amuont < 5", "step"), "policy r, expression", "did you mean amount?"),
        (policy("plan.steps.all(s, s.params.amuont < 5)"), "policy r, expression", "did you mean amount?"),
        (policy("step.sources.amuont.trust == 'x'", "step"), "policy r, expression", "did you mean amount?"),
        (policy("step.sources.amount.turst == 'x'", "step"), "policy r, expression", "did you mean trust?"),
        (limited("args['amuont'] < 5"), "tool till.pay, limits", "did you mean amount?"),
        (
            {"gates": [Gate(name="GATE_BOSS", roles=("boss",), when="args.amuont > 5")]},
            "gate GATE_BOSS, when",
            "did you mean amount?",
        ),
    ],
)
def test_a_rule_over_an_unknown_field_is_found(changes: dict[str, Any], place: str, said: str) -> None:
    """Such a rule compiles, and then fails for every plan."""
    problems = found(changes)
    assert [(each.code, each.place) for each in problems] == [("rule_field_unknown", place)]
    assert said in problems[0].remedy


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (policy("step.tol != 'x'", "step"), "did you mean step.tool?"),
        (policy("plan.stps.size() < 3"), "did you mean plan.steps?"),
        (limited("args.amuont < 5"), "did you mean args.amount?"),
    ],
)
def test_a_rule_that_does_not_compile_says_what_was_meant(changes: dict[str, Any], said: str) -> None:
    """The nearest variable is named in place of all of them."""
    problems = check(build(**changes))
    assert [each.code for each in problems] == ["expression_invalid"]
    assert said in problems[0].remedy


@pytest.mark.parametrize(
    "expression",
    [
        "plan.steps.all(s, s.params.amount < 5 && has(s.params.account))",
        "request.lines.all(line, line.sku != '')",
        "plan.steps.all(s, s.gates.exists(g, g == 'GATE_BOSS') || request.rows.all(s, s.anything))",
        "plan.steps.map(s, s.tool).all(t, t.startsWith('till.'))",
    ],
)
def test_a_rule_over_what_is_there_has_no_problem(expression: str) -> None:
    """Only variables that stand for steps are held to their fields."""
    assert found(policy(expression)) == []


def test_a_tool_that_takes_anything_leaves_rules_alone() -> None:
    """Where a schema is open, nobody knows which parameters there are."""
    anything = tool("till.pay", parameters={"type": "object"})
    changes = policy("plan.steps.all(s, s.params.amuont < 5)")
    assert found({"tools": [anything, tool("till.look")], **changes}) == []


def library(**changes: Any) -> dict[str, Any]:
    look: dict[str, Any] = {
        "name": "look",
        "args": ["who"],
        "tool": "till.look",
        "params": {"account": {"$arg": "who"}},
    }
    goal: dict[str, Any] = {
        "intent": "till.pay",
        "task": "settle",
        "outputs": {"receipt": {"$from": "settle#/receipt"}},
    }
    method: dict[str, Any] = {
        "name": "once",
        "task": "settle",
        "result": "look",
        "subtasks": [{"task": "look", "args": {"who": {"$from": "request#/account"}}}],
    }
    fields = {
        "tasks": [{"name": "settle"}, look | changes.get("task", {})],
        "methods": [method],
        "goals": [goal | changes.get("goal", {})],
    }
    return {"library": TaskLibrary.model_validate(fields)}


@pytest.mark.parametrize(
    ("changes", "code", "place", "said"),
    [
        ({"goal": {"intent": "till.pya"}}, "unknown_intent", "goal till.pya, intent", "till.pay?"),
        ({"goal": {"outputs": {}}}, "output_missing", "goal till.pay, outputs", "receipt"),
        (
            {"goal": {"outputs": {"receipt": {"$from": "settle#/reciept"}}}},
            "result_field_unknown",
            "goal till.pay, outputs",
            "did you mean receipt?",
        ),
        (
            {"task": {"params": {"account": {"$arg": "who"}, "amuont": 1}}},
            "step_argument",
            "task look, params/amuont",
            "did you mean amount?",
        ),
        ({"task": {"gates": ["GATE_BOS"]}}, "unknown_gate", "task look, gates", "GATE_BOSS?"),
    ],
)
def test_a_fault_of_the_methods_is_found(changes: dict[str, Any], code: str, place: str, said: str) -> None:
    """Goals and tasks are held to the pack around them as templates are."""
    assert found(library()) == []
    problems = found(library(**changes))
    assert [(each.code, each.place) for each in problems] == [(code, place)]
    assert said in problems[0].line()


SECTION = {"heading": "Retruns", "text": "…"}


def judged(**changes: Any) -> dict[str, Any]:
    quality = {"required_sections": ("Returns",), "repair": {"sections": [SECTION]}}
    fields = {"id": "d", "required_outputs": ("x",), "output_gate": "GATE_BOSS", "quality": quality} | changes
    return {"decisions": [DecisionSpec.model_validate(fields)]}


def test_words_for_a_section_that_is_not_required_are_found() -> None:
    """A misspelt heading would leave the required section without words."""
    (problem,) = found(judged())
    assert (problem.code, problem.severity) == ("section_not_required", "warning")
    assert problem.place == "decision d, quality.repair.sections.0.heading"
    assert problem.remedy == "did you mean Returns?"


def test_words_for_a_section_that_somebody_may_ask_for_are_no_problem() -> None:
    """Where a person looks at outputs, other sections than the required ones can be missed: also at every output whose
    words are not the author's."""
    quality = {"repair": {"sections": [{"heading": "Warranty", "text": "…"}]}}
    authored = {**quality, "documents": [{"output": "x", "template": "Thank you."}]}
    assert [each.code for each in found(judged(quality=authored))] == ["section_not_required"]
    assert found(judged(quality=authored, requires_human_approval=True)) == []
    assert found(judged(quality=quality)) == []


@pytest.mark.parametrize(
    "folder",
    [
        *sorted(path.parent for path in (ROOT / "examples").glob("*/pack.toml")),
        ROOT / "src/tercet/packs/template",
    ],
    ids=lambda path: path.name,
)
def test_the_packs_of_the_project_are_free_of_findings(folder: Path) -> None:
    """What people copy from has no problem but what depends on the machine: variables, and programs that it looks up."""
    expected = ("variable_missing", "program_not_hashed")
    assert [each.line() for each in check_folder(folder) if each.code not in expected] == []


@pytest.mark.parametrize("place", ["when", "params"])
def test_an_expression_that_the_library_cannot_type_is_a_problem(place: str) -> None:
    """`check` reports it, and does not raise."""
    odd: Any = "{{}: 1}" if place == "when" else {"account": "a", "amount": {"$cel": "{{}: 1}"}}
    assert "expression_invalid" in {problem.code for problem in found(paying(**{place: odd}))}
