"""What `check` finds of rules that can never apply, and of rules about the order of a list."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.problem import Problem
from tercet.contracts.request import Actor
from tercet.contracts.tasks import TaskLibrary
from tercet.packs import Pack, check
from tercet.packs.parts import ModelChoice
from tercet.tools import Tool


def act(**parameters: object) -> None:
    """Stands in for the code of every tool."""


def tool(name: str, mode: str = "read_only", **declared: Any) -> Tool:
    fields: dict[str, Any] = {"call": act, "mode": mode, "trust": "trusted", "authority": ()}
    return Tool(name=name, **fields | declared)


LOOK = tool("shop.look")
PAY = tool("shop.pay", "destructive", gates=("BOSS",), no_compensation="paid is paid")
TELL = tool(
    "shop.tell", "network", reversibility="irreversible", gates=("DESK",), no_compensation="said is said"
)
FACT = Evidence(id="kg:order:o1#snapshot_1", trust=Trust.TRUSTED)
STEPS: list[dict[str, Any]] = [
    {"id": "look", "tool": "shop.look", "evidence_refs": ["kg:order:${input.order}#snapshot_1"]},
    {"id": "pay", "tool": "shop.pay", "depends_on": ["look"]},
    {"id": "tell", "tool": "shop.tell", "depends_on": ["pay"]},
]


def template(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"intent": "shop.refund", "steps": steps or STEPS, **fields})


def problems(**changes: Any) -> list[Problem]:
    """The problems of a small shop with these changes; without any it has none."""
    fields: dict[str, Any] = {
        "name": "p",
        "version": "1.0.0",
        "safety_mode": "destructive",
        "tools": [LOOK, PAY, TELL],
        "decisions": [DecisionSpec(id="refund", intents=("shop.refund",))],
        "gates": [Gate(name="BOSS", roles=("boss",)), Gate(name="DESK", roles=("desk",))],
        "actors": [
            Actor(id="ada", roles=("boss",)),
            Actor(id="bob", roles=("desk",)),
            Actor(id="cleo"),
        ],
        "evidence": [FACT],
        "templates": [template()],
    }
    return list(check(Pack(**fields | changes)))


def policy(expression: str, scope: str = "plan", **fields: Any) -> dict[str, Any]:
    made = {"name": "r", "expression": expression, "scope": scope, **fields}
    return {"policies": [Policy.model_validate(made)]}


def library(**fields: Any) -> dict[str, Any]:
    return {"library": TaskLibrary.model_validate(fields)}


TASKS = [{"name": "look", "tool": "shop.look"}, {"name": "idle", "tool": "shop.look"}]
GOAL = {"intent": "shop.refund", "task": "look"}


def test_a_pack_in_which_everything_applies_has_no_problem() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("changes", "code", "place", "said"),
    [
        (
            {"gates": [Gate(name=name, roles=("boss", "desk")) for name in ("BOSS", "DESK", "IDLE")]},
            "gate_unused",
            "gate IDLE",
            "nothing waits for it",
        ),
        (
            {"actors": [Actor(id="ada", roles=("boss", "desk")), Actor(id="bob", roles=("bos", "clerk"))]},
            "actor_roles_unused",
            "actor bob, roles",
            "bos or clerk",
        ),
        (
            {"decisions": [DecisionSpec(id="refund", intents=("shop.refund",)), DecisionSpec(id="close")]},
            "decision_unplanned",
            "decision close",
            "no template and no goal",
        ),
        (library(tasks=TASKS, goals=[GOAL]), "task_unreachable", "task idle", "no goal leads to it"),
        (
            {"evidence": [FACT, Evidence(id="kg:price:p1#snapshot_1", trust=Trust.TRUSTED)]},
            "evidence_class_unused",
            "evidence kg:price:p1#snapshot_1",
            "the class price",
        ),
        (
            policy("step.tool != 'shop.pya'", "step"),
            "rule_value_unknown",
            "policy r, expression",
            "shop.pay?",
        ),
        (
            policy("plan.steps.all(s, !(s.tool in ['shop.pay', 'shop.lok']))"),
            "rule_value_unknown",
            "policy r, expression",
            "shop.look?",
        ),
        (
            policy("'shop.lok' in step.before_tools", "step"),
            "rule_value_unknown",
            "policy r, expression",
            "shop.look?",
        ),
        (
            policy("plan.steps.all(s, 'BOS' in s.gates)"),
            "rule_value_unknown",
            "policy r, expression",
            "BOSS?",
        ),
        (policy("'destructiv' == step.mode", "step"), "rule_value_unknown", "policy r, expression", "e?"),
        (
            policy("step.reversibility != 'final'", "step"),
            "rule_value_unknown",
            "policy r, expression",
            "pure",
        ),
        (policy("decision.risk_tier != 'grave'"), "rule_value_unknown", "policy r, expression", "critical"),
        (policy("plan.intent != 'shop.refnd'"), "rule_value_unknown", "policy r, expression", "shop.refund?"),
        (
            policy("true", "step", effect="gate", gate="BOSS")
            | {"templates": [template(STEPS[0], STEPS[1], STEPS[2] | {"depends_on": ["look"]})]},
            "irreversible_before_gate",
            "template shop.refund, /steps/2",
            "tell cannot be undone, and may run before pay is denied at BOSS",
        ),
    ],
)
def test_what_can_never_apply_is_found(changes: dict[str, Any], code: str, place: str, said: str) -> None:
    """Each is a warning: the pack can be used, but not all of it does what its author thinks."""
    found = problems(**changes)
    assert [(each.code, each.place, each.severity) for each in found] == [(code, place, "warning")]
    assert said in found[0].line()


@pytest.mark.parametrize(
    "expression",
    [
        "plan.steps.all(a, plan.steps.all(b, a.index < b.index))",
        "plan.steps.exists(s, s.index > 0)",
        "plan.steps[0].tool == 'shop.look'",
        "plan.steps.size() > 3 || 0 == plan.steps.filter(s, s.optional)[0].index",
    ],
)
def test_a_policy_over_the_order_of_the_list_is_found(expression: str) -> None:
    """The remedy names the fields that say what runs first."""
    (found,) = problems(**policy(expression))
    assert (found.code, found.severity) == ("policy_compares_index", "warning")
    assert "before" in found.remedy


@pytest.mark.parametrize(
    "changes",
    [
        policy("plan.steps.filter(s, s.index >= 0).size() < 9 && !plan.steps.exists(s, s.index < 0)"),
        policy("request.index > 0 && request.tool != 'x' && step.params.mode != 'x'", "step"),
        policy("step.tool.startsWith('shop.') || step.tool == ''", "step"),
        policy("'clerk' in context.roles") | {"actors": [
            Actor(id="ada", roles=("boss", "desk")), Actor(id="bob", roles=("clerk",))]},
        {"gates": [Gate(name="BOSS", roles=("boss",)), Gate(name="DESK", roles=("desk",)), Gate(name="OUT", roles=("boss",))],
         "decisions": [DecisionSpec(id="refund", intents=("shop.refund",), output_gate="OUT")]},
        {"decisions": [DecisionSpec(id="refund", intents=("shop.refund",)), DecisionSpec(id="close")],
         "models": ModelChoice(planner=("local",)),
         "evidence": [FACT, Evidence(id="kg:price:p1#snapshot_1", trust=Trust.TRUSTED)]},
        {"decisions": [DecisionSpec(id="refund", intents=("shop.refund",), required_evidence=("price_evidence",))],
         "evidence": [FACT, Evidence(id="kg:price:p1#snapshot_1", trust=Trust.TRUSTED)]},
        {"evidence": [FACT, Evidence(id="kg:letter:l1#snapshot_1", trust=Trust.UNTRUSTED)]},
        {"tools": [tool("shop.look", attests=("price",)), PAY, TELL],
         "decisions": [DecisionSpec(id="refund", intents=("shop.refund",), required_evidence=("price",))]},
        {"gates": [Gate(name="BOSS", roles=("boss",), covers="sequence")],
         "actors": [Actor(id="ada", roles=("boss",))],
         "tools": [LOOK, PAY, tool("shop.tell", "network", reversibility="irreversible", gates=("BOSS",), no_compensation="x")],
         "templates": [template(STEPS[0], STEPS[1], STEPS[2] | {"depends_on": []})]},
        library(tasks=[TASKS[0], {"name": "all"}], goals=[{"intent": "shop.refund", "task": "all"}],
                methods=[{"name": "m", "task": "all", "subtasks": [{"task": "look"}]}]),
    ],
)  # fmt: skip
def test_what_may_apply_is_left_alone(changes: dict[str, Any]) -> None:
    assert problems(**changes) == []


BOTH = Actor(id="dana", roles=("boss", "desk"))
TWO_GATES = tool("shop.pay", "destructive", gates=("BOSS", "DESK"), no_compensation="paid is paid")


def asking(expression: str) -> dict[str, Any]:
    """A policy that sends what breaks it to the desk."""
    return policy(expression, "step", effect="gate", gate="DESK")


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": [LOOK, TWO_GATES, TELL]},
        asking('step.tool != "shop.pay" || step.params.cents <= 5'),
        asking("step.params.cents <= 5"),
        {"decisions": [DecisionSpec(id="refund", intents=("shop.refund",), gates=("DESK",))]},
        {"templates": [template(STEPS[0], {**STEPS[1], "gates": ["DESK"]}, STEPS[2])]},
        library(tasks=[{"name": "look", "tool": "shop.pay", "gates": ["DESK"]}], goals=[GOAL]),
    ],
    ids=["tool", "policy about the tool", "policy about every step", "decision", "template", "task"],
)
def test_one_actor_who_can_open_both_gates_of_a_call_is_found(changes: dict[str, Any]) -> None:
    """Two gates are two approvals; the warning names the actor, the gates and the call, and what makes them two people."""
    people = [Actor(id="ada", roles=("boss",)), Actor(id="bob", roles=("desk",))]
    codes = [each.code for each in problems(actors=people, **changes)]
    assert "gates_of_one_person" not in codes
    (found,) = [
        each for each in problems(actors=[*people, BOTH], **changes) if each.code == "gates_of_one_person"
    ]
    assert (found.place, found.severity) == ("actor dana, roles", "warning")
    assert found.message.startswith("dana alone can approve BOSS and DESK, for which shop.pay waits")
    assert "quorum = 2" in found.remedy


@pytest.mark.parametrize(
    "changes",
    [
        {"gates": [Gate(name="BOSS", roles=("boss",), quorum=2), Gate(name="DESK", roles=("desk",))]},
        {"gates": [Gate(name="BOSS", roles=("boss", "desk")), Gate(name="DESK", roles=("desk", "boss"))]},
        {"tools": [LOOK, PAY, TELL]},
        {"tools": [LOOK, PAY, TELL], **asking('step.tool != "shop.tell"')},
    ],
    ids=[
        "a gate that counts people",
        "gates for the same roles",
        "one gate for each call",
        "policy about another",
    ],
)
def test_gates_that_do_not_mean_two_people_are_left_alone(changes: dict[str, Any]) -> None:
    """No warning where people are counted, where the roles are the same, or where each call has one gate."""
    found = problems(
        **{"tools": [LOOK, TWO_GATES, TELL], "actors": [BOTH, Actor(id="ada", roles=("boss",))]} | changes
    )
    assert "gates_of_one_person" not in [each.code for each in found]
