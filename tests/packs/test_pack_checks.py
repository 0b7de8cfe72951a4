"""What `check` finds: each defect by its code and place, with a remedy, and nothing in a pack without defects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tercet.contracts.decision import DecisionSpec, Threshold
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate, Notify
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.problem import Problem
from tercet.contracts.relations import Relation
from tercet.contracts.request import Actor
from tercet.contracts.runs.budget import RunBudget
from tercet.contracts.runs.session import RoleLimit, SessionRules
from tercet.packs import Pack, check, check_folder
from tercet.policy.comparisons import may_match_tool
from tercet.tools import Tool

WritePack = Callable[..., Path]


def act(**parameters: object) -> None:
    """Stands in for the code of every tool."""


PARAMETERS = {
    "type": "object",
    "properties": {"account": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["account"],
    "additionalProperties": False,
}
RESULT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "notes": {"type": "array", "items": {"type": "object", "properties": {"text": {"type": "string"}}}},
        "more": {"$ref": "#/$defs/more"},
    },
    "$defs": {"more": {"type": "object", "properties": {"by": {"type": "string"}}}},
}
OPEN = {"anyOf": [PARAMETERS, {"type": "object"}]}


def enumerated(**more: Any) -> dict[str, Any]:
    """A result of listed words, with other fields."""
    word = {"enum": ["paid", "open"], "type": "string"}
    properties = {
        "state": word,
        "is_new": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        "all": {"type": "array", "items": {"$ref": "#/$defs/word"}},
        **more,
    }
    return {"type": "object", "properties": properties, "$defs": {"word": word}}


def reading(**changes: Any) -> Tool:
    fields: dict[str, Any] = {
        "name": "a.read",
        "call": act,
        "mode": "read_only",
        "parameters": PARAMETERS,
        "result": RESULT,
        "trust": "trusted",
    }
    return Tool(**fields | changes)


def paying(**changes: Any) -> Tool:
    undo = {"tool": "a.undo", "params": {"account": {"$from": "params#/account"}}}
    fields: dict[str, Any] = {
        "name": "a.pay", "call": act, "mode": "network", "parameters": PARAMETERS, "result": RESULT,
        "reversibility": "compensable", "compensate": undo, "trust": "trusted",
    }  # fmt: skip
    return Tool(**fields | changes)


UNDO = paying(name="a.undo", reversibility="reversible", compensate=None, no_compensation="pay again")
GATE = Gate(name="G", roles=("boss",))
CONDITIONAL = Gate(name="C", roles=("boss",), when="args.amount > 5")
BIND = (Relation(evidence="rules", field="account", equals="request.account"),)
DECISION = DecisionSpec(id="d", intents=("do.d",), bind=BIND)
BOSS = Actor(id="ada", roles=("boss",))


def build(**changes: Any) -> Pack:
    fields: dict[str, Any] = {
        "name": "p", "version": "1.0.0", "safety_mode": "destructive",
        "tools": [reading(), paying(), UNDO], "decisions": [DECISION], "gates": [GATE, CONDITIONAL], "actors": [BOSS],
        "evidence": [Evidence(id="kg:rules:all#snapshot_1")],
    }  # fmt: skip
    return Pack(**fields | changes)


IDLE = {"gate_unused", "actor_roles_unused"}
"""Most packs here have a gate that nothing names; `test_unused.py` is about that."""


def found(pack: Pack) -> tuple[Problem, ...]:
    """What checking finds beside gates and roles that nothing names."""
    return tuple(problem for problem in check(pack) if problem.code not in IDLE)


def decide(**fields: Any) -> dict[str, Any]:
    known: dict[str, Any] = {"id": "d", "bind": BIND, **fields}
    return {"decisions": [DecisionSpec(**known)]}


def final(expression: str = "true", **fields: Any) -> dict[str, Any]:
    """A grant for what the expression says, and a tool whose calls cannot be compensated."""
    declared: dict[str, Any] = {
        "name": "a.tell",
        "reversibility": None,
        "compensate": None,
        "no_compensation": "said is said",
    }
    grant = Policy(name="p", expression=expression, scope="step", effect="grant")
    return {"policies": [grant], "tools": [reading(), paying(), UNDO, paying(**declared | fields)]}


def pay(**fields: Any) -> dict[str, Any]:
    return {"tools": [reading(), paying(**fields), UNDO]}


def undo_with(**params: Any) -> dict[str, Any]:
    return pay(compensate={"tool": "a.undo", "params": params})


Case: TypeAlias = tuple[dict[str, Any], str, str, str]
"""What is changed; the code, the place, and a word of the message or remedy."""

DEFECTS: dict[str, Case] = {
    "unknown tool": (decide(tools=("a.reed",)), "unknown_tool", "decision d, tools", "did you mean a.read?"),
    "unknown prohibited tool": (decide(prohibited_tools=("b.x",)), "unknown_tool", "decision d, prohibited_tools", "a.pay"),
    "unknown repeatable tool": (decide(repeatable=("b.x",)), "unknown_tool", "decision d, repeatable", "no tool b.x"),
    "unknown gate of a tool": (pay(gates=("H",)), "unknown_gate", "tool a.pay, gates", "no gate H"),
    "unknown gate of a decision": (decide(gates=("H",)), "unknown_gate", "decision d, gates", "no gate H"),
    "unknown unbound gate": (decide(unbound_gate="H"), "unknown_gate", "decision d, unbound_gate", "no gate H"),
    "unknown gate of a policy": (
        {"policies": [Policy(name="p", expression="true", effect="gate", gate="H")]},
        "unknown_gate", "policy p, gate", "no gate H",
    ),
    "gate policy without a gate": (
        {"policies": [Policy(name="p", expression="true", effect="gate")]}, "policy_without_gate", "policy p, gate", "names none",
    ),
    "deny policy with a gate": (
        {"policies": [Policy(name="p", expression="true", gate="G")]}, "policy_gate_unused", "policy p, gate", "never asked",
    ),
    "gate without roles": ({"gates": [Gate(name="G", roles=())]}, "gate_unapprovable", "gate G, roles", "names no role"),
    "gate whose role nobody holds": (
        {"gates": [Gate(name="G", roles=("chief",))]}, "gate_unapprovable", "gate G, roles", "no actor holds the role chief",
    ),
    "gate in a pack without actors": (
        {"gates": [GATE], "actors": []}, "gate_unapprovable", "gate G, roles", "the pack has no actors",
    ),
    "gate with too few approvers": (
        {"gates": [Gate(name="G", roles=("boss",), quorum=2)]}, "gate_unapprovable", "gate G, roles", "needs 2 approvers",
    ),
    "gate that needs the owner of some runs": (
        {
            "gates": [Gate(name="G", roles=("boss",), quorum=2)],
            "actors": [Actor(id="ann", roles=("boss",)), Actor(id="bob", roles=("boss",))],
        },
        "gate_without_owner", "gate G, roles", "it needs all of ann and bob",
    ),
    "grant over the plan": (
        {"policies": [Policy(name="p", expression="true", effect="grant")]}, "grant_of_plan", "policy p, scope", 'scope = "step"',
    ),
    "grant with a gate": (
        {"policies": [Policy(name="p", expression="true", scope="step", effect="grant", gate="G")]},
        "grant_of_gate", "policy p, gate", "waits for people",
    ),
    "grant that does not compile": (
        {"policies": [Policy(name="p", expression="plan.steps.size() > 1", scope="step", effect="grant")]},
        "expression_invalid", "policy p, expression", "plan.steps",
    ),
    **{
        f"grant of a final call: {rule}": (
            final(rule), "final_call_granted", "policy p, effect", 'give a.tell reversibility = "irreversible"',
        )
        for rule in (
            "true", "step.tool == 'a.tell'", "step.tool.startsWith('a.')", "step.tool != 'a.pay'", "step.mode == 'network'",
            "step.tool in ['a.pay', 'a.tell'] && step.params.amount < 5", "!(step.tool == 'a.pay')",
            "(step.tool == 'a.pay' || step.tool == 'a.tell') && step.params.amount < 5",
            "step.tool == 'a.pay' ? false : true", "step.tool == r'a.tell'", "step.params.account == 'x' || step.tool == 'a.pay'",
        )
    },
    "instructions that do not fit": (
        {"context": {"tokens": {"instructions": 5}}}, "instructions_overflow", "pack, context.tokens.instructions", "every request for it is refused",
    ),
    "tools that do not fit": (
        {"context": {"tokens": {"tools": 100}}}, "tools_overflow", "pack, context.tokens.tools", "some are left out",
    ),
    "tool whose role nobody holds": (
        pay(roles=("chief", "clerk")), "tool_unusable", "tool a.pay, roles", "no actor holds the role chief or clerk",
    ),
    "tool with roles in a pack without actors": (
        pay(roles=("chief",)) | {"gates": [], "actors": []}, "tool_unusable", "tool a.pay, roles", "the pack has no actors",
    ),
    "planner in a hurry": (
        {"limits": {"planner": RoleLimit(timeout_ms=4_999)}},
        "planner_timeout_unusual", "pack, limits.planner.timeout_ms", "4,999 ms",
    ),
    "planner with all the time in the world": (
        {"limits": {"planner": RoleLimit(timeout_ms=30_001)}},
        "planner_timeout_unusual", "pack, limits.planner.timeout_ms", 'between 5000 and 30000; a local model may take longer if the pack names it',
    ),
    "session without a sign of life": (
        {"session": SessionRules(ttl_ms=30_000)}, "heartbeat_too_slow", "pack, session.heartbeat_interval_ms", "raise ttl_ms",
    ),
    "limit with a number beyond JSON": (
        {"limits": {"critic": RoleLimit(tokens=2**60)}}, "not_canonical", "pack, limits.critic", "2^53",
    ),
    "notification with an unpaired surrogate": (
        {"notify": Notify(command=("\ud800",))}, "not_canonical", "pack, notify", "it cannot be hashed",
    ),
    "plan policy that does not compile": (
        {"policies": [Policy(name="p", expression="step.mode == 'network'")]},
        "expression_invalid", "policy p, expression", "column 5",
    ),
    "step policy that is no condition": (
        {"policies": [Policy(name="p", expression="step.mode", scope="step")]},
        "expression_invalid", "policy p, expression", "not a boolean",
    ),
    "policy with an unpaired surrogate": (
        {"policies": [Policy(name="p", expression="'\ud800' == ''")]}, "expression_invalid", "policy p, expression", "surrogate",
    ),
    "gate condition that does not compile": (
        {"gates": [Gate(name="G", roles=("boss",), when="amount > 5")]}, "expression_invalid", "gate G, when", "amount",
    ),
    "limit over an unknown parameter": (
        pay(limits=({"expression": "args.amout < 5"},)), "expression_invalid", "tool a.pay, limits", "args.amout is no parameter",
    ),
    "limit over a wrong type": (
        pay(limits=({"expression": "args.account < 5"},)), "expression_invalid", "tool a.pay, limits", "args.account < 5",
    ),
    "limit that does not compile for an open schema": (
        pay(parameters=OPEN, limits=({"expression": "arg.x < 5"},)), "expression_invalid", "tool a.pay, limits", "arg",
    ),
    "parameters that are no schema": (
        {"tools": [reading(parameters={"type": "object", "properties": 3}), UNDO]},
        "schema_invalid", "tool a.read, parameters", "not a JSON Schema",
    ),
    "parameters that are no object": (
        {"tools": [reading(parameters={"type": "array"}), UNDO]}, "schema_invalid", "tool a.read, parameters", "have names",
    ),
    "result that is no schema": (
        {"tools": [reading(result={"type": "text"}), UNDO]}, "schema_invalid", "tool a.read, result", "not a JSON Schema",
    ),
    "schema that reaches out": (
        {"tools": [reading(result={"$ref": "https://example.org/x"}), UNDO]}, "schema_invalid", "tool a.read, result", "",
    ),
    "outputs schema that is none": (
        decide(outputs_schema={"required": 1}), "schema_invalid", "decision d, outputs_schema", "not a JSON Schema",
    ),
    "tool with an unpaired surrogate": (
        pay(description="\ud800"), "not_canonical", "tool a.pay", "it cannot be hashed",
    ),
    "compensation with NaN": (undo_with(account=float("nan")), "compensation_malformed", "tool a.pay, compensate", "no JSON number"),
    "gate with an unpaired surrogate": (
        {"gates": [Gate(name="G", roles=("boss",), description="\ud800")]}, "not_canonical", "gate G", "it cannot be hashed",
    ),
    "budget with a number beyond JSON": ({"budget": RunBudget(tokens=2**60)}, "not_canonical", "pack, budget", "2^53"),
    "unknown authority": (pay(authority=("acount",)), "authority_unknown", "tool a.pay, authority", "did you mean account?"),
    "unknown identity": (pay(identity=("x",)), "identity_unknown", "tool a.pay, identity", "it takes account, amount"),
    "unknown alias": (pay(aliases={"sum": "total"}), "alias_unknown", "tool a.pay, aliases", "no parameter total"),
    "alias that is a parameter": (pay(aliases={"amount": "account"}), "alias_shadows", "tool a.pay, aliases", "amount"),
    "destructive tool without a gate": (pay(mode="destructive"), "ungated", "tool a.pay, gates", "it is destructive"),
    "irreversible tool without a gate": (
        pay(reversibility="irreversible"), "ungated", "tool a.pay, gates", "it is irreversible",
    ),
    "destructive tool with a conditional gate": (
        pay(mode="destructive", gates=("C",)), "ungated", "tool a.pay, gates", "no 'when'",
    ),
    "destructive tool gated by some decisions": (
        pay(mode="destructive") | {"decisions": [DECISION, DecisionSpec(id="e", bind=BIND, gates=("G",))]},
        "ungated", "tool a.pay, gates", "",
    ),
    "irreversible reading tool gated by a decision only": (
        {"tools": [reading(reversibility="irreversible", no_compensation="read once"), UNDO], **decide(gates=("G",))},
        "ungated", "tool a.read, gates", "",
    ),
    "no word on compensation": (pay(compensate=None), "compensation_missing", "tool a.pay, compensate", "no_compensation"),
    "two words on compensation": (
        pay(no_compensation="none"), "compensation_contradicts", "tool a.pay, compensate", "keep one",
    ),
    "compensation by an unknown tool": (
        pay(compensate={"tool": "a.nodo"}), "compensation_unknown_tool", "tool a.pay, compensate", "no tool a.nodo",
    ),
    "compensation with an unknown parameter": (
        undo_with(account="x", sum=3), "compensation_unknown_parameter", "tool a.pay, compensate", "no parameter sum",
    ),
    "compensation without a required parameter": (
        undo_with(amount=3), "compensation_incomplete", "tool a.pay, compensate", "also needs account",
    ),
    "compensation with a malformed reference": (
        undo_with(account={"$form": "self#/id"}), "compensation_malformed", "tool a.pay, compensate", "$form",
    ),
    "compensation that names a step": (
        undo_with(account={"$from": "s1#/id"}), "compensation_malformed", "tool a.pay, compensate", "no steps",
    ),
    "compensation that reads an absent result": (
        undo_with(account={"$from": "self#/ident"}), "compensation_malformed", "tool a.pay, compensate", "'ident'",
    ),
    "compensation that reads an absent parameter": (
        undo_with(account={"$from": "params#/acct"}), "compensation_malformed", "tool a.pay, compensate", "'acct'",
    ),
    "compensation computed wrongly": (
        undo_with(account={"$cel": "self.id +"}), "compensation_malformed", "tool a.pay, compensate", "does not compile",
    ),
    "untrusted field that is not there": (
        pay(untrusted=("note",)), "untrusted_unknown", "tool a.pay, untrusted", "it has id, notes, more",
    ),
    "untrusted field of an item that is not there": (
        pay(untrusted=("/notes/*/txt",)), "untrusted_unknown", "tool a.pay, untrusted", "'txt'",
    ),
    "untrusted field of an item that is not there, without its item": (
        pay(untrusted=("/notes/txt",)), "untrusted_unknown", "tool a.pay, untrusted", "'txt'",
    ),
    "untrusted field behind a reference that is not there": (
        pay(untrusted=("/more/bye",)), "untrusted_unknown", "tool a.pay, untrusted", "'bye'",
    ),
    "result whose worth nothing says": (
        pay(trust=None), "trust_undeclared", "tool a.pay, trust", "so they are trusted",
    ),
    "unknown result whose worth nothing says": (
        pay(trust=None, result=None), "trust_undeclared", "tool a.pay, trust", 'trust="trusted"',
    ),
    "result of which one field is free, and nothing says its worth": (
        pay(trust=None, result=enumerated(more={"type": "integer"})), "trust_undeclared", "tool a.pay, trust", "",
    ),
    "repetition by a parameter that is not there": (
        pay(once_per={"identity": ["acct"], "days": 1}), "identity_unknown", "tool a.pay, once_per", "acct",
    ),
    "repetition that asks at a gate that is not there": (
        pay(once_per={"days": 1, "then": "ask", "gate": "H"}), "unknown_gate", "tool a.pay, once_per", "H",
    ),
    "compensation with a key that cannot be one": (
        undo_with(account={"$cel": "{{}: self.id}"}), "compensation_malformed", "tool a.pay, compensate", "map key type",
    ),
    "mark that no request field can match": (
        decide(untrusted_inputs=("order..note",)),
        "untrusted_input_invalid", "decision d, untrusted_inputs", "order.note",
    ),
    "untrusted evidence that nothing requires": (
        decide(untrusted_evidence=("letter",)),
        "untrusted_evidence_unknown", "decision d, untrusted_evidence", "leave it out",
    ),
    "required output that the schema lacks": (
        decide(required_outputs=("x",), outputs_schema={"type": "object", "properties": {"y": {}}}),
        "output_unknown", "decision d, required_outputs", "require one of y",
    ),
    "intent of two decisions": (
        {"decisions": [DECISION, DecisionSpec(id="e", bind=BIND, intents=("do.d",))]},
        "intent_claimed_twice", "decision e, intents", "do.d already belongs to decision d",
    ),
    "intent that is another's id": (
        {"decisions": [DECISION, DecisionSpec(id="e", bind=BIND, intents=("d",))]}, "intent_claimed_twice", "decision e, intents", "",
    ),
    "evidence class of a decision that no file has": (
        decide(required_evidence=("window_evidence",)), "evidence_class_unknown", "decision d, required_evidence", "class window",
    ),
    "evidence class of a tool that no file has": (
        pay(requires_evidence=("window",)), "evidence_class_unknown", "tool a.pay, requires_evidence", "class window",
    ),
    "threshold set twice": (
        decide(thresholds=(Threshold(name="policy"), Threshold(name="policy", minimum=0.5))),
        "threshold_duplicate", "decision d, thresholds", "2 times",
    ),
    "many re-plans without a reason": (
        {"budget": RunBudget(max_replans=3)}, "replans_unexplained", "pack, budget.max_replans", "replans_rationale",
    ),
    "tool above the safety mode": (
        {"safety_mode": "local_write", "tools": [paying(compensate=None, no_compensation="none")]},
        "above_safety_mode", "tool a.pay, mode", "network",
    ),
    "no decisions": ({"decisions": []}, "no_decisions", "decisions", "nothing can be asked"),
    "no tools": ({"tools": []}, "no_tools", "tools", "can do nothing"),
    "precondition that nothing establishes": (
        pay(preconditions=("checked",)), "precondition_unestablished", "tool a.pay, preconditions", "checked",
    ),
    "timeout below the estimate": (
        pay(timeout_ms=10, estimated_ms=20), "timeout_short", "tool a.pay, timeout_ms", "estimated_ms is 20",
    ),
}  # fmt: skip

NOTES = {"gate_without_owner", "trust_undeclared"}
WARNINGS = {
    "final_call_granted",
    "untrusted_evidence_unknown",
    "policy_gate_unused", "evidence_class_unknown", "above_safety_mode", "no_tools", "precondition_unestablished", "timeout_short",
    "planner_timeout_unusual", "tools_overflow",
}  # fmt: skip


@pytest.mark.parametrize("case", DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_found(case: Case) -> None:
    """One defect gives one problem: its code, its place, what is wrong and what to do."""
    changes, code, place, said = case
    problems = found(build(**changes))
    assert [(problem.code, problem.place) for problem in problems] == [(code, place)]
    assert said in problems[0].line()
    assert problems[0].remedy
    assert problems[0].severity == ("warning" if code in WARNINGS else "note" if code in NOTES else "error")


SOUND: dict[str, dict[str, Any]] = {
    "as it stands": {},
    "gated by the tool": pay(mode="destructive", gates=("G",)),
    "gated by every decision that offers it": pay(mode="destructive") | decide(gates=("G",)),
    "gated where it is not prohibited": pay(mode="destructive")
    | {"decisions": [DecisionSpec(id="e", bind=BIND, gates=("G",)), DecisionSpec(id="f", bind=BIND, prohibited_tools=("a.pay",))]},
    "gated by one of two gates": pay(mode="destructive", gates=("C", "G")),
    "no compensation, with a reason": pay(compensate=None, no_compensation="it is gone"),
    "compensation by alias": {
        "tools": [paying(compensate={"tool": "a.undo", "params": {"acct": "x"}}), UNDO.model_copy(update={"aliases": {"acct": "account"}})]
    },
    "compensation computed from result and parameters": undo_with(
        account={"$cel": "self.id + params.account"}, amount={"$from": "request#/amount"}
    ),
    "compensation by a tool with an open schema": {
        "tools": [paying(compensate={"tool": "a.undo", "params": {"any": 1}}), UNDO.model_copy(update={"parameters": OPEN})]
    },
    "idempotent and reconciling": pay(idempotent=True, reconcile=act),
    "limits that fit": pay(limits=({"expression": "!has(args.amount) || args.amount <= 5"},)),
    "authority over an open schema": pay(parameters=OPEN, authority=("anything",), compensate=None, no_compensation="none"),
    "authority over a schema that takes more": pay(
        parameters={**PARAMETERS, "additionalProperties": True}, authority=("anything",)
    ),
    "untrusted fields that are there": pay(untrusted=("*", "/notes", "/notes/*/text", "/more/by", "/more")),
    "untrusted fields of items, which lists do not hide": pay(
        result={"properties": {"rows": {"items": {"items": {"properties": {"by": {"properties": {"name": {}}}}}}}}},
        untrusted=("/rows/by/name", "/rows/*/by/name", "/rows/0/0/by"),
    ),
    "untrusted field of lists in lists without end": pay(
        result={"items": {"$ref": "#"}}, untrusted=("note",),
    ),
    "untrusted field of an open result": pay(result={"type": "object"}, untrusted=("note",)),
    "untrusted field of an unknown result": pay(result=None, untrusted=("note",)),
    "untrusted field beside listed ones": pay(
        result={"type": "object", "properties": {"id": {}}, "additionalProperties": True}, untrusted=("note",)
    ),
    "untrusted fields say what the result is worth": pay(trust=None, untrusted=("notes",)),
    "untrusted result": pay(trust="untrusted"),
    "validator": pay(trust=None, endorses=True),
    "result of listed words": pay(trust=None, result=enumerated()),
    "tool of another kind": pay(trust=None, adapter="http"),
    "calls that may be made once": pay(once_per={"identity": ["account"], "days": 30, "then": "ask", "gate": "G"}),
    "evidence by either name": decide(required_evidence=("rules", "rules_evidence")),
    "output without a schema": decide(required_outputs=("x",)),
    "output of an open schema": decide(required_outputs=("x",), outputs_schema={"allOf": [{"type": "object"}]}),
    "precondition of a decision": pay(preconditions=("checked",)) | decide(conditions=("checked",)),
    "precondition that a tool establishes": {"tools": [reading(establishes=("checked",)), paying(preconditions=("checked",)), UNDO]},
    "its own id among the intents": decide(intents=("d",)),
    "explained re-plans": {"budget": RunBudget(max_replans=3, replans_rationale="the source is flaky")},
    "two approvers": {"gates": [Gate(name="G", roles=("boss", "chief"), quorum=2)], "actors": [BOSS, Actor(id="bo", roles=("chief",)), Actor(id="cy", roles=("chief",))]},
    "role that an actor holds": pay(roles=("chief", "boss")),
    "patient planner": {"limits": {"planner": RoleLimit(timeout_ms=30_000), "critic": RoleLimit(timeout_ms=1)}},
    "planner with a limit of tokens only": {"limits": {"planner": RoleLimit(tokens=5)}},
    "short session": {"session": SessionRules(ttl_ms=30_001)},
    "webhook": {"notify": Notify(webhook="https://hooks.example/gates?x=1")},
    "grant over each step": {"policies": [Policy(name="p", expression="step.mode == 'network'", scope="step", effect="grant")]},
    **{
        f"grant of another call: {rule}": final(rule)
        for rule in (
            "step.tool == 'a.pay'", "'a.pay' == step.tool && step.params.amount < 5", "step.tool != 'a.tell'", "step.tool in ['a.pay', 'a.undo']",
            "(step.tool == 'a.pay' || step.tool == 'a.undo') && step.params.amount < 5",
        )
    },
    "grant of a call that is never granted": final(reversibility="irreversible", gates=("G",)),
    "grant that is meant": final(reversibility="compensable"),
    "grant of a call that waits for people": final(gates=("G",)),
    "grant in a decision that waits for people": final() | decide(gates=("G",)),
    "final call of local mode": final(mode="local_write"),
    "gate that covers a sequence": {"gates": [Gate(name="G", roles=("boss",), covers="sequence"), CONDITIONAL]},
    "policies of both scopes": {
        "policies": [
            Policy(name="p", expression="plan.steps.all(s, s.mode != 'destructive')"),
            Policy(name="q", expression="step.mode == 'read_only'", scope="step", effect="gate", gate="G"),
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("changes", SOUND.values(), ids=SOUND)
def test_what_is_sound_is_left_alone(changes: dict[str, Any]) -> None:
    """A pack without a defect has no problem, not even a warning."""
    assert found(build(**changes)) == ()


def test_a_grant_in_too_many_brackets_may_match_every_tool() -> None:
    """A rule that does not compile is still looked at, and must not exhaust the stack."""
    assert may_match_tool("((step.tool == 'a.pay'))", "a.tell") is False
    assert may_match_tool(f"{'(' * 2_000}step.tool == 'a.pay'{')' * 2_000}", "a.tell") is True


def test_a_role_that_nobody_holds_is_found_where_all_actors_are_known(write_pack: WritePack) -> None:
    """The tool is named with its row; where actors cannot be read, nobody is told that a role is not held."""
    source = """
        from tercet.tools import tool


        @tool("desk.find_copy", mode="read_only", trust="trusted", roles=["archivist"])
        def find_copy(title: str) -> str:
            return title
    """
    decisions = '[[decision]]\nid = "d"\n'
    problems = check_folder(write_pack({"tools.py": source, "decisions.toml": decisions}))
    assert ("tools.py", 4, "tool_unusable") in [(p.file, p.row, p.code) for p in problems]
    broken = write_pack(
        {"tools.py": source, "decisions.toml": decisions, "actors.toml": "= ("}, folder="broken"
    )
    assert "tool_unusable" not in {problem.code for problem in check_folder(broken)}


def test_defects_are_reported_together() -> None:
    """Three defects of three kinds give three problems."""
    pack = build(**pay(authority=("x",), gates=("H",)), policies=[Policy(name="p", expression="1")])
    assert {problem.code for problem in found(pack)} == {
        "authority_unknown",
        "unknown_gate",
        "expression_invalid",
    }


def test_a_defect_in_a_folder_has_its_file_and_row(write_pack: WritePack) -> None:
    """A tool is found at its decorator, a table at its key, and a warning does not keep the pack from loading."""
    source = """
        from tercet.tools import tool


        @tool("desk.find_copy", mode="read_only", trust="trusted", authority=["titel"], estimated_ms=90_000)
        def find_copy(title: str) -> str:
            return title
    """
    gates = '[[gate]]\nname = "A"\nroles = ["librarian"]\n\n[[gate]]\nname = "B"\nquorum = 2\nroles = ["librarian"]\n'
    folder = write_pack(
        {
            "tools.py": source,
            "gates.toml": gates,
            "decisions.toml": '[[decision]]\nid = "d"\ngates = ["A", "B"]\nrequired_evidence = ["loan_rules"]\n',
        }
    )
    problems = [(problem.file, problem.row, problem.code) for problem in check_folder(folder)]
    assert problems == [
        ("gates.toml", 8, "gate_unapprovable"),
        ("tools.py", 4, "authority_unknown"),
        ("tools.py", 4, "timeout_short"),
    ]
    assert [(problem.file, problem.row, problem.code) for problem in check(Pack.load(folder))] == problems


def test_a_relation_to_a_misspelt_field_of_the_request_is_found() -> None:
    """Every run would be refused, since no request has the field that the relation reads."""
    plan = Plan.model_validate(
        {
            "intent": "d",
            "steps": [{"id": "s", "tool": "a.pay", "params": {"account": {"$from": "request#/account"}}}],
        }
    )
    for field, expected in (
        ("acount", {"did you mean account?"}),
        ("account", set[str]()),
        ("other", set[str]()),
    ):
        relation = Relation(tool="a.pay", param="account", equals=f"request.{field}")
        made = build(decisions=[DecisionSpec(id="d", bind=(relation,))], templates=[plan])
        assert {each.remedy for each in check(made) if each.code == "request_field_unknown"} == expected
