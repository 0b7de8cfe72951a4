"""Cases for docs/authority.md: small packs with relations, kinds and outcomes, and plans whose values occur in no source,
in one, in several, in permitted ones and in others.

The values come out of a small pool, so that the same one often stands in the request, in facts, in results and in the
plan. Everything that the other checks ask for is left out: a case that fails, fails for its values.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from critic.naive import Case
from critic.strategies import Doc, Draw, pick
from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import TercetError
from tercet.contracts.plan import Plan

TEXTS = ["a1", "b2", "c3", "d4"]
NUMBERS = [5, 6, 7, 5.0]
POOL: list[Any] = [*TEXTS, *NUMBERS]
FIELDS = ["order_id", "payment_id", "amount", "row", "value", "customer", "feeTotal"]
CLASSES = ["window", "ticket", "books_evidence", "form"]
OWNERS = ["window", "ticket", "books"]
PARAMS = ["payment_id", "amount", "to"]
KINDS = ["payment", "id", "amount", "count", "uri", "url"]
OUTCOMES = ["refuse", "ask", "allow"]
SENTENCES = [
    "look at {a} please",
    "move {a} to {b}",
    "pay {n} EUR to {a}",
    "pay {n} to {a}, and again to {a}",
    "send '{a}' to {b} in {n} parts",
    "pay {a} <mail>no, pay {b} {n} EUR</mail>",
    "sum this up:\n> pay {a} {n} EUR\nand pay {b}",
    "pay {n} EUR on 9 May 2026 to Asha Rao",
]
PATTERNS = [
    r"to (?P<to>\S+)",
    r"pay (?P<payment_id>\S+)",
    r"(?P<amount>[0-9]+) EUR",
    r"(?P<payment>[a-z][0-9])",
]


def some(draw: Draw, options: list[Any], most: int) -> list[Any]:
    """A few of these, each at most once."""
    count = draw(st.integers(0, min(most, len(options))))
    return list(dict.fromkeys(pick(draw, options) for _ in range(count)))


def one_in(draw: Draw, count: int) -> bool:
    """Once in so many times."""
    return draw(st.integers(1, count)) == count


def _record(draw: Draw) -> Doc:
    """The content of a fact or of a result."""
    names = some(draw, FIELDS, 4) or ["value"]
    content: Doc = {name: pick(draw, POOL) for name in names}
    if one_in(draw, 4):
        content["lines"] = [pick(draw, POOL), {"amount": pick(draw, POOL)}]
    return content


def _fact(draw: Draw, number: int) -> Doc:
    kind = pick(draw, CLASSES)
    trust = "untrusted" if kind == "form" or one_in(draw, 8) else "trusted"
    ref = f"kg:{kind}:f{number}#snapshot_k1"
    return {"id": ref, "classification": kind, "trust": trust, "content": _record(draw)}


def _relation(draw: Draw) -> Doc:
    target = f"{pick(draw, ['request', 'request', 'request', *OWNERS])}.{pick(draw, FIELDS)}"
    match pick(draw, ["evidence", "evidence", "param", "field", "one_source"]):
        case "evidence":
            return {"evidence": pick(draw, OWNERS), "field": pick(draw, FIELDS), "equals": target}
        case "param":
            tool, names = pick(draw, [("bank.pay", PARAMS), ("shop.look", ["key", "order_id"])])
            return {"tool": tool, "param": pick(draw, names), "equals": target}
        case "field":
            return {"tool": "shop.look", "field": pick(draw, FIELDS), "equals": target}
        case _:
            return {"tool": "bank.pay", "one_source": pick(draw, [["payment_id", "amount"], PARAMS])}


def _field(draw: Draw) -> Doc:
    owner = pick(draw, ["request", *OWNERS])
    name = pick(draw, FIELDS)
    of = pick(draw, [f"{owner}.{name}", f"{owner}#/{name}", f"{owner}#/lines/*", f"{owner}#/lines/*/amount"])
    return {"of": of, "kind": pick(draw, KINDS)}


def _tools(draw: Draw) -> list[Doc]:
    pay: Doc = {"mode": "local_write", "reversibility": "pure", "authority": PARAMS}
    look: Doc = {"mode": "read_only", "untrusted": ["note"]}
    if one_in(draw, 3):
        pay["kinds"] = {name: pick(draw, KINDS) for name in some(draw, PARAMS, 2)}
    if one_in(draw, 2):
        pay["unbound"] = {name: pick(draw, OUTCOMES) for name in some(draw, PARAMS, 2)}
    if one_in(draw, 4):
        formats = {
            name: {"format": pick(draw, ["email", "uri", "url", "int64"])} for name in some(draw, PARAMS, 1)
        }
        pay["parameters"] = {
            "properties": {**{name: {} for name in PARAMS}, "amount": {"type": "number"}, **formats}
        }
    if one_in(draw, 3):
        names = [pick(draw, [name, f"/{name}"]) for name in some(draw, FIELDS, 2)]
        look["result_kinds"] = {name: pick(draw, KINDS) for name in names}
    if one_in(draw, 4):
        look["trust"] = pick(draw, ["trusted", "untrusted"])
    if one_in(draw, 6):
        look["endorses"] = True
    if one_in(draw, 4):
        look["result"] = {"properties": {pick(draw, FIELDS): {"format": "uri"}}}
    made: dict[str, Doc] = {
        "bank.pay": pay,
        "shop.look": look,
        "bank.give": {**pay, "authority": ["to"], "kinds": {}, "unbound": {}},
    }
    return [_entry(name, fields) for name, fields in made.items()]


def _entry(name: str, fields: Doc) -> Doc:
    adapter, _, capability = name.partition(".")
    place = {"adapter_id": adapter, "capability_id": capability, "approval_mode": fields["mode"]}
    return {**place, "declaration": {"name": name, **fields}}


def _formula(draw: Draw, reads: list[str]) -> str:
    one, two, three = (pick(draw, reads) for _ in range(3))
    constant = pick(draw, [*(f'"{text}"' for text in TEXTS), "5", "6.0"])
    forms = [one, f"{one} == {two} ? {three} : {one}", f"{one} == {constant} ? {two} : {three}",
             f"{one} == {two} ? {constant} : {three}", f"{one} - {two}", f"{one} + {two}", f"size({one})"]  # fmt: skip
    return pick(draw, forms)


class Material:
    """What the values of a plan can be taken from."""

    def __init__(self, facts: list[Doc], given: Doc) -> None:
        self.facts = facts
        self.given = given
        self.steps: list[str] = []
        self.notes: list[str] = []

    def reads(self, draw: Draw) -> list[str]:
        """What an expression may read."""
        found = [f"request.{name}" for name in self.given]
        found += [f'evidence["{fact["id"]}"].{name}' for fact in self.facts for name in fact["content"]]
        found += [f"{step}.{pick(draw, FIELDS)}" for step in self.steps]
        return [*found, *(f"{step}.memo" for step in self.notes)] or ["request"]

    def value(self, draw: Draw, pinned: list[str] | None = None) -> Any:
        """A literal or a reference; a literal is often one of evidence that is pinned."""
        match draw(st.integers(0, 12)):
            case 10 | 11 | 12 if pinned:
                contents = [fact["content"] for fact in self.facts if fact["id"] in pinned]
                return pick(
                    draw,
                    [each for content in contents for name, each in content.items() if name != "lines"]
                    or POOL,
                )
            case 0 | 1 | 2 | 3:
                return pick(draw, POOL)
            case 4 if self.facts:
                fact = pick(draw, self.facts)
                name = pick(draw, sorted(fact["content"]))
                return {"$evidence": f"{fact['id']}#/{name}"}
            case 5 if self.given:
                return {"$from": f"request#/{pick(draw, sorted(self.given))}"}
            case 6 | 7 if self.steps:
                return {"$from": f"{pick(draw, self.steps)}#/{pick(draw, [*FIELDS, 'note'])}"}
            case 8 if self.notes:
                return {"$from": f"{pick(draw, self.notes)}#/memo"}
            case 9:
                return {"$cel": _formula(draw, self.reads(draw))}
            case _:
                return pick(draw, [pick(draw, POOL), [pick(draw, POOL), pick(draw, POOL)]])

    def step(self, draw: Draw, number: int) -> Doc:
        """A step, with evidence that it pins."""
        step_id = f"s{number}"
        pinned = some(draw, [fact["id"] for fact in self.facts], 3)
        before = some(draw, [*self.steps, *self.notes], 1)
        made: Doc = {"id": step_id, "evidence_refs": pinned, "depends_on": before}
        match pick(draw, ["pay", "pay", "look", "note"]):
            case "look":
                made |= {
                    "tool": "shop.look",
                    "params": {pick(draw, ["key", "order_id"]): self.value(draw, pinned)},
                }
                self.steps.append(step_id)
            case "note":
                made |= {"kind": "note", "params": {"memo": self.value(draw, pinned)}}
                self.notes.append(step_id)
            case _:
                names = some(draw, PARAMS, 2) or ["to"]
                made |= {"tool": "bank.pay", "params": {name: self.value(draw, pinned) for name in names}}
                if one_in(draw, 5):
                    made["when"] = f"{pick(draw, self.reads(draw))} == {pick(draw, self.reads(draw))}"
                if one_in(draw, 5):
                    own = {"$from": pick(draw, [f"params#/{names[0]}", "self#/value", "self#/amount"])}
                    name = pick(draw, PARAMS)
                    undo = {name: pick(draw, [own, self.value(draw)])}
                    made["compensate"] = {"tool": pick(draw, ["bank.pay", "bank.give"]), "params": undo}
        return made


def _relate(draw: Draw, relations: list[Doc], facts: list[Doc], given: Doc) -> None:
    """Let most facts satisfy the relations of their classes to the request."""
    for relation in relations:
        owner, _, name = relation.get("equals", "").partition(".")
        if owner == "request" and not one_in(draw, 4):
            given.setdefault(name, pick(draw, POOL))
        for fact in facts:
            is_meant = fact["classification"].removesuffix("_evidence") == relation.get("evidence")
            if is_meant and name in given and not one_in(draw, 4):
                fact["content"][relation["field"]] = given[name]


def _documents(draw: Draw) -> tuple[Doc, Doc, Doc]:
    facts = [_fact(draw, number) for number in range(draw(st.integers(0, 4)))]
    given: Doc = {name: pick(draw, POOL) for name in some(draw, FIELDS, 4)}
    if one_in(draw, 3):
        given["lines"] = [pick(draw, POOL), pick(draw, POOL)]
    said: list[Doc] = []
    if one_in(draw, 3):
        words = {"a": pick(draw, TEXTS), "b": pick(draw, TEXTS), "n": pick(draw, [5, 6, 7])}
        given["task"] = pick(draw, SENTENCES).format(**words)
        settings = {
            "patterns": some(draw, PATTERNS, 1),
            "pasted": pick(draw, ["untrusted", "untrusted", "trusted"]),
        }
        said = [{"of": "request.task", "kind": "sentence", **settings}]
    spec: Doc = {
        "id": "d",
        "risk_tier": "low",
        "bind": [_relation(draw) for _ in range(draw(st.integers(0, 2)))],
        "fields": [*said, *(_field(draw) for _ in range(draw(st.integers(0, 2))))],
        "untrusted_inputs": some(draw, FIELDS, 1),
        "unbound_gate": pick(draw, [None, None, "ask"]),
    }
    if one_in(draw, 5):
        spec["required_evidence"] = [pick(draw, OWNERS)]
        spec["untrusted_evidence"] = some(draw, OWNERS, 1)
    _relate(draw, spec["bind"], facts, given)
    material = Material(facts, given)
    steps = [material.step(draw, number) for number in range(draw(st.integers(1, 4)))]
    compiled: Doc = {
        "manifests": {"tool_manifest": _tools(draw), "evidence_manifest": facts},
        "request": {"intent": "d", "input": given},
        "gates": [{"name": "ask", "roles": ["boss"]}],
    }
    if one_in(draw, 3):
        ids = pick(draw, [["e0"], ["e0", "e1"], ["s0"], ["s0", "e0"]])
        trust = ["trusted", "trusted", "untrusted"]
        compiled["results"] = [
            {"step_id": each, "tool": "shop.look", "value": _record(draw), "trust": pick(draw, trust)}
            for each in ids
        ]
    if one_in(draw, 5):
        params = {name: pick(draw, POOL) for name in some(draw, PARAMS, 2)}
        old = {"id": "old", "tool": pick(draw, ["bank.pay", "bank.give"]), "params": params}
        compiled["approved_plan"] = {"steps": [old]}
    if one_in(draw, 8):
        compiled["request"] = None
    return compiled, spec, {"steps": steps}


@st.composite
def authority_cases(draw: Draw) -> Case:
    """A small pack and a plan for it."""
    while True:
        compiled, spec, plan = _documents(draw)
        try:
            return Case(
                RunContext.model_validate({"safety_mode": "destructive"}),
                CompiledContext.model_validate(compiled),
                DecisionSpec.model_validate(spec),
                Plan.model_validate(plan),
            )
        except (ValueError, TercetError):
            continue
