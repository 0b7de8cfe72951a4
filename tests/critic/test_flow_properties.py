"""Information flow, rule by rule: who may decide what."""

from __future__ import annotations

import itertools
from typing import Any, get_args

from hypothesis import assume, given
from hypothesis import strategies as st

from critic import naive
from critic.naive import Case
from critic.strategies import Doc, cases, examples, mutated_refunds
from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan
from tercet.contracts.tool import AdapterKind
from tercet.contracts.values import pointer
from tercet.contracts.verdict import Code, Verdict
from tercet.critic.verify import verify

GOOD, BAD = "kg:good:1#snapshot_k1", "kg:bad:1#snapshot_k1"

PAY: Doc = {"mode": "local_write", "reversibility": "pure", "authority": ["to"], "adapter": "mcp"}
READ: Doc = {"mode": "read_only"}
TRUSTED: Any = {"$evidence": GOOD}
UNTRUSTED: Any = {"$evidence": BAD}

SCALARS = st.one_of(
    st.sampled_from([0, 1, 1.0, True, False, None, "", "1", "true", "a@b", 500, 500.0, 2.5]),
    st.integers(-3, 3),
    st.text(max_size=3),
)
NAMES = ["a", "b", "0"]
PLACES = st.lists(st.sampled_from(NAMES), max_size=3)
MARKS = st.lists(st.sampled_from([*NAMES, "*"]), min_size=1, max_size=3)
TRUST = st.sampled_from(["trusted", "untrusted"])


def entry(name: str, fields: Doc) -> Doc:
    """A tool of the manifest."""
    adapter, _, capability = name.partition(".")
    place = {"adapter_id": adapter, "capability_id": capability, "approval_mode": fields["mode"]}
    return {**place, "declaration": {"name": name, **fields}}


def review(
    *steps: Doc, tools: dict[str, Doc] | None = None, spec: Doc | None = None, **compiled: Any
) -> Verdict:
    """The verdict on steps that can only fail for what they trust."""
    surface = {"bank.pay": PAY, "shop.read": READ, **(tools or {})}
    evidence = [
        {"id": GOOD, "classification": "good", "trust": "trusted", "content": "good"},
        {"id": BAD, "classification": "bad", "trust": "untrusted", "content": "bad"},
    ]
    manifests = {"tool_manifest": [entry(*item) for item in surface.items()], "evidence_manifest": evidence}
    return verify(
        RunContext.model_validate({"safety_mode": "destructive"}),
        CompiledContext.model_validate({"manifests": manifests, **compiled}),
        DecisionSpec.model_validate({"id": "d", **(spec or {})}),
        Plan.model_validate({"steps": [{"id": f"s{index}", **step} for index, step in enumerate(steps)]}),
    )


def pay(to: Any, **fields: Any) -> Doc:
    """A payment: `to` carries authority."""
    return {"tool": "bank.pay", "params": {"to": to}, **fields}


def read(value: Any, tool: str = "shop.read") -> Doc:
    """A look-up by one value."""
    return {"tool": tool, "params": {"key": value}}


def is_bound(verdict: Verdict) -> bool:
    """Whether every authority has its source; there is no other way to fail here."""
    assert verdict.code in (None, Code.UNBOUND_ARGUMENT), verdict
    return verdict.ok


def request(**fields: Any) -> Doc:
    """A request with these fields."""
    return {"intent": "d", "input": fields}


def leaves(value: Any) -> list[Any]:
    """The scalars of a value."""
    if isinstance(value, dict):
        return [leaf for member in value.values() for leaf in leaves(member)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [leaf for member in value for leaf in leaves(member)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return [value]


def equals(first: Any, second: Any) -> bool:
    """Equality of JSON scalars: numbers by value, `true` no number."""
    return isinstance(first, bool) is isinstance(second, bool) and first == second


SOURCES: list[str] = ["request", "evidence", "result", "approved plan"]


def source(kind: str, value: Any) -> Doc:
    """A context in which this value stands in one trusted source."""
    match kind:
        case "request":
            return {"request": request(field=value)}
        case "evidence":
            extra = {"id": "kg:x:1#snapshot_k1", "classification": "x", "trust": "trusted", "content": value}
            return {"manifests": {"tool_manifest": [entry("bank.pay", PAY)], "evidence_manifest": [extra]}}
        case "result":
            known = {"step_id": "s9", "tool": "shop.read", "value": value, "trust": "trusted"}
            return {"results": [known]}
        case _:
            return {"approved_plan": {"steps": [{"id": "s9", "tool": "bank.pay", "params": {"to": value}}]}}


JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@examples(120)
@given(SCALARS, JSON, st.sampled_from(SOURCES))
def test_a_literal_needs_an_equal_in_a_trusted_source(literal: Any, content: Any, kind: str) -> None:
    """A literal carries authority exactly where a trusted source holds a scalar that equals it."""
    pinned = {"evidence_refs": ["kg:x:1#snapshot_k1"]} if kind == "evidence" else {}
    verdict = review(pay(literal, **pinned), **source(kind, content))
    assert is_bound(verdict) == any(equals(literal, leaf) for leaf in leaves(content))


@examples(60)
@given(SCALARS)
def test_untrusted_evidence_never_suffices(value: Any) -> None:
    """What stands in untrusted evidence or an untrusted result alone is authority for nothing, copied or referred to."""
    extra = {"id": "kg:x:1#snapshot_k1", "classification": "x", "trust": "untrusted", "content": {"v": value}}
    manifests = {"tool_manifest": [entry("bank.pay", PAY)], "evidence_manifest": [extra]}
    known = {"step_id": "s9", "tool": "shop.read", "value": value, "trust": "untrusted"}
    assert not is_bound(review(pay(value), manifests=manifests, results=[known]))
    assert not is_bound(review(pay({"$evidence": "kg:x:1#snapshot_k1#/v"}), manifests=manifests))


def do_overlap(mark: list[str], place: list[str]) -> bool:
    """Whether one is the other, or lies inside it, with any items of lists between: `0` may be one."""
    return naive.overlaps(pointer.join(mark), tuple(place))


def tree(depth: int) -> Any:
    """An object in which every place is there."""
    return {name: tree(depth - 1) for name in NAMES} if depth else "leaf"


@examples(150)
@given(MARKS, PLACES)
def test_a_marked_request_field_never_suffices(mark: list[str], place: list[str]) -> None:
    """A part of the request is trusted exactly where it neither is, holds nor lies in a marked field."""
    marked = pointer.join(mark)
    verdict = review(
        pay({"$from": f"request#{pointer.join(place)}" if place else "request"}),
        spec={"untrusted_inputs": [marked]},
        request={"intent": "d", "input": tree(3)},
    )
    assert is_bound(verdict) != do_overlap(mark, place)


@examples(100)
@given(MARKS, st.sampled_from(list(itertools.product(NAMES, repeat=2))))
def test_a_literal_of_a_marked_request_field_never_suffices(mark: list[str], place: tuple[str, str]) -> None:
    """A literal that stands in one field of the request is trusted exactly where that field is not marked."""
    fields = {first: {second: f"{first}{second}" for second in NAMES} for first in NAMES}
    verdict = review(
        pay("".join(place)),
        spec={"untrusted_inputs": [pointer.join(mark)]},
        request={"intent": "d", "input": fields},
    )
    assert is_bound(verdict) != do_overlap(mark, list(place))


@examples(150)
@given(MARKS, PLACES, st.booleans())
def test_a_marked_result_field_never_suffices(mark: list[str], place: list[str], endorses: bool) -> None:
    """A part of a result is trusted exactly where it does not overlap a marked field, even where the tool endorses."""
    tool = {**READ, "untrusted": [pointer.join(mark)], "endorses": endorses}
    value = {"$from": f"s0#{pointer.join(place)}" if place else "s0"}
    verdict = review(read(TRUSTED), pay(value), tools={"shop.read": tool})
    assert is_bound(verdict) != do_overlap(mark, place)


@examples(30)
@given(PLACES)
def test_a_star_marks_every_field(place: list[str]) -> None:
    """A tool that marks `*` has no trusted field at all."""
    value = {"$from": f"s0#{pointer.join(place)}" if place else "s0"}
    assert not is_bound(review(read(TRUSTED), pay(value), tools={"shop.read": {**READ, "untrusted": ["*"]}}))


@examples(100)
@given(st.lists(st.tuples(TRUST, st.booleans()), min_size=1, max_size=5), st.booleans())
def test_a_result_is_worth_the_least_of_declaration_and_inputs(
    chain: list[tuple[str, bool]], is_trusted: bool
) -> None:
    """Along a chain of calls trust is lost at the first tool or input without it, and comes back where a tool endorses."""
    steps = [read(TRUSTED if is_trusted else UNTRUSTED, "t.t0")]
    steps += [read({"$from": f"s{index}#/v"}, f"t.t{index + 1}") for index in range(len(chain) - 1)]
    tools = {
        f"t.t{n}": {**READ, "trust": trust, "endorses": endorses} for n, (trust, endorses) in enumerate(chain)
    }
    expected = is_trusted
    for trust, endorses in chain:
        expected = trust == "trusted" and (expected or endorses)
    assert is_bound(review(*steps, pay({"$from": f"s{len(chain) - 1}#/v"}), tools=tools)) == expected


@examples(40)
@given(st.sampled_from(get_args(AdapterKind)), st.sampled_from([None, "trusted", "untrusted"]))
def test_only_python_results_are_trusted_by_default(adapter: str, declared: str | None) -> None:
    """Results of Python tools are trusted and all others' are not, unless the tool says otherwise."""
    verdict = review(
        read(TRUSTED),
        pay({"$from": "s0"}),
        tools={"shop.read": {**READ, "adapter": adapter, "trust": declared}},
    )
    assert is_bound(verdict) == (declared == "trusted" if declared else adapter == "python")


HARMLESS: list[Any] = [True, False, None, "slow", {"$literal": "fast"}, [], {}]
ENUMERATING: Doc = {
    **READ,
    "parameters": {"properties": {"key": {"enum": ["slow", "fast", True, False, None, [], {}]}}},
}


@examples(60)
@given(st.sampled_from(HARMLESS))
def test_small_vocabulary_does_not_taint(value: Any) -> None:
    """Booleans, null and words of the tool's own schema as inputs leave a result trusted; any other literal does not."""
    assert is_bound(review(read(value), pay({"$from": "s0"}), tools={"shop.read": ENUMERATING}))
    assert not is_bound(review(read("made up"), pay({"$from": "s0"})))


@examples(60)
@given(
    st.sampled_from(["read_only", "local_write", "network", "delegated"]),
    st.sampled_from([None, [], ["x"], ["y"]]),
)
def test_authority_is_everything_above_local_write_unless_declared(
    mode: str, authority: list[str] | None
) -> None:
    """A tool above local_write that declares no authority has it in every parameter, one of local_write in none."""
    tool: Doc = {"mode": mode, "reversibility": "pure", "authority": authority}
    verdict = review({"tool": "some.tool", "params": {"x": "made up"}}, tools={"some.tool": tool})
    has_authority = "x" in authority if authority is not None else mode in ("network", "delegated")
    assert is_bound(verdict) != has_authority


CONDITIONS = [
    (f'evidence["{GOOD}"] == "good"', True),
    (f'evidence["{BAD}"] == "good"', False),
    ("request.open", True),
    ("request.said", False),
    ("request.open && request.said", False),
    ("s0.v == 1", True),
    ("s1.v == 1", False),
    ("s0.v == 1 || s1.v == 1", False),
    ("1 < 2", True),
]


@examples(80)
@given(st.sampled_from(CONDITIONS), st.booleans())
def test_an_untrusted_value_decides_no_effect(condition: tuple[str, bool], is_read_only: bool) -> None:
    """What `when` reads must be trusted for a step above read_only, and may be anything for one that only reads."""
    text, is_trusted = condition
    step = read(TRUSTED) if is_read_only else pay(TRUSTED)
    verdict = review(
        read(TRUSTED),
        read(UNTRUSTED),
        {**step, "when": text},
        spec={"untrusted_inputs": ["said"]},
        request=request(open=True, said=True),
    )
    assert is_bound(verdict) == (is_read_only or is_trusted)


OPERANDS = [("s0.v", True), ("s1.v", False), ("request.n", True), ("request.said", False), ('s0["v"]', True)]
NUMBERS = [("7", True), ("7.0", True), ("8", False), ('"seven"', True), ('"eight"', False), ("true", False)]


@examples(100)
@given(
    st.lists(st.sampled_from(OPERANDS), min_size=1, max_size=3),
    st.lists(st.sampled_from(NUMBERS), max_size=1),
)
def test_an_expression_is_worth_the_least_of_what_it_reads(
    reads: list[tuple[str, bool]], constants: list[tuple[str, bool]]
) -> None:
    """A choice between values is trusted if all that it reads is, and each constant equals a trusted scalar."""
    parts = [*reads, *constants]
    verdict = review(
        read(TRUSTED),
        read(UNTRUSTED),
        pay({"$cel": " : ".join(f"{text} == {text} ? {text}" for text, _ in parts) + f" : {parts[0][0]}"}),
        spec={"untrusted_inputs": ["said"]},
        request=request(n=7, word="seven", said=8),
    )
    assert is_bound(verdict) == all(is_trusted for _, is_trusted in parts)


SPELLINGS = [
    "s0.note", 's0["note"]', "s0['note']", 's0[r"note"]', 's0["""note"""]', 's0["\\x6eote"]', 's0["no" + "te"]', "s0.`note`",
    "(s0).note", "(s0)['note']", "dyn(s0).note", "[s0][0].note", "[s0][0.0].note", "{'v': s0}['v'].note", "{'v': s0}.v.note",
    ".s0.note", "s0.v + .s0.note", "s0.v in .s0.note", "s0 . note", "s0\n.note", "s0.// x\nnote", "s0.note.size()",
    "size(s0.note)", "has(s0.note)", "s0[s0.v]", "s0.v == 'v' ? s0.note : s0.v", "s0.v in [s0.note]", "-s0.note", "!s0.note",
]  # fmt: skip


@examples(60)
@given(
    st.sampled_from(SPELLINGS),
    st.sampled_from(["", "s0.v == s0.v ? {} : s0.v", "[s0.v, {}]", "string(dyn({}))"]),
)
def test_no_spelling_hides_a_read(text: str, around: str) -> None:
    """However an expression spells the read of a marked field, it is worth what that field is value_trust."""
    expression = around.replace("{}", text) or text
    steps = [read(TRUSTED), pay({"$cel": expression})]
    known = request(known=["v", "note", "te", "no", 0])
    assert not review(*steps, tools={"shop.read": {**READ, "untrusted": ["note"]}}, request=known).ok
    assert not review(*steps[:1], {**pay(TRUSTED), "when": f"dyn({expression}) == 'x'"},
                      tools={"shop.read": {**READ, "untrusted": ["note"]}}, request=known).ok  # fmt: skip


FORMULAS = [
    "s0.v == {} ? s0.v : s0.w",
    "s0.lines[0] != {} ? s0.v : s0.w",
    "s0.v == s0.w ? s0.lines[s0.v] : {}",
]
WRAPPERS = [
    *FORMULAS,
    "s0.v + dyn({})", "s0.v in [{}]", "[s0.v, {}]", "[[{}], s0.v]", "dyn({{s0.v: {}}})",
    "s0[s0.v] == {}", "s0.lines[0] == {}", "[s0.v][0] == {}", "s0.v.startsWith(string(dyn({})))", "{} in s0.lines",
]  # fmt: skip


@examples(100)
@given(st.sampled_from(WRAPPERS), st.sampled_from(NUMBERS))
def test_no_place_hides_a_constant(wrapper: str, constant: tuple[str, bool]) -> None:
    """Wherever a constant stands in a formula, it counts as a literal; any other expression is opaque anyway."""
    text, is_trusted = constant
    verdict = review(read(TRUSTED), pay({"$cel": wrapper.format(text)}), request=request(n=7, word="seven"))
    assert is_bound(verdict) == (is_trusted and wrapper in FORMULAS)


@examples(100)
@given(st.lists(TRUST, min_size=2, max_size=4), st.integers(0, 3), st.booleans())
def test_a_note_passes_trust_through(worths: list[str], index: int, nested: bool) -> None:
    """A note is worth at each place what was written there, and as a list the least of its items."""
    values = [TRUSTED if value_trust == "trusted" else UNTRUSTED for value_trust in worths]
    notes: list[Doc] = [{"kind": "note", "params": {"items": values}}]
    if nested:
        notes.append({"kind": "note", "params": {"items": {"$from": "s0#/items"}}})
    last = f"s{len(notes) - 1}"
    assert is_bound(review(*notes, pay({"$from": f"{last}#/items"}))) == ("untrusted" not in worths)
    at = index % len(worths)
    assert is_bound(review(*notes, pay({"$from": f"{last}#/items/{at}"}))) == (worths[at] == "trusted")


@examples(60)
@given(
    st.text("abc", min_size=1, max_size=4),
    st.sampled_from(["direct", "note", "literal", "input", "compensation"]),
)
def test_an_object_key_that_nobody_names_is_a_literal(key: str, way: str) -> None:
    """A key that neither the schema nor a trusted source has carries no authority, whatever way it takes."""
    value = {key: TRUSTED}
    payee: dict[str, Any] = {
        "direct": pay(value),
        "literal": pay({"$literal": {key: "good"}}, evidence_refs=[GOOD]),
        "note": pay({"$from": "s0#/value"}),
        "input": pay({"$from": "s1#/v"}),
        "compensation": pay(TRUSTED, compensate={"tool": "bank.pay", "params": {"to": value}}),
    }
    steps = [{"kind": "note", "params": {"value": value}}, read(value), payee[way]]
    assert not is_bound(review(*steps))
    assert is_bound(review(*steps, request=request(known=[key, "v", "value"])))


@examples(60)
@given(st.sampled_from(["self", "params"]), TRUST, st.booleans())
def test_a_compensation_is_worth_what_its_step_is(name: str, trust: str, computed: bool) -> None:
    """In a plan's own compensation `self` is worth the step's result and `params` the step's parameters."""
    value = TRUSTED if trust == "trusted" else UNTRUSTED
    undo = {"$cel": f"{name}.free"} if computed else {"$from": f"{name}#/free"}
    step = {
        "tool": "shop.write",
        "params": {"free": value},
        "compensate": {"tool": "bank.pay", "params": {"to": undo}},
    }
    tools = {"shop.write": {"mode": "local_write", "reversibility": "pure"}}
    assert is_bound(review(step, tools=tools)) == (trust == "trusted")


GATES: list[Doc] = [
    {"name": "free", "roles": ["r"]},
    {"name": "bound", "roles": ["r"], "when": "false"},
]


@examples(40)
@given(st.sampled_from([None, "free", "bound", "nobody"]), st.sampled_from(["params", "when", "compensate"]))
def test_only_a_gate_without_a_condition_takes_an_unbound_value(gate: str | None, where: str) -> None:
    """A gate that is not there, or that a condition could lift, refuses an unbound value as if none were named."""
    undo = {"tool": "bank.pay", "params": {"to": UNTRUSTED}}
    step: dict[str, Doc] = {
        "params": pay(UNTRUSTED),
        "when": pay(TRUSTED, when=f'evidence["{BAD}"] == "bad"'),
        "compensate": pay(TRUSTED, compensate=undo),
    }
    verdict = review(step[where], spec={"unbound_gate": gate}, gates=GATES)
    assert is_bound(verdict) == (gate == "free")
    assert [(demand.step, demand.gate) for demand in verdict.gates] == ([(0, "free")] if verdict.ok else [])


GATED = "unbound"


def flow_cases() -> st.SearchStrategy[Case]:
    """Any plan of the refund desk."""
    return st.one_of(mutated_refunds(), cases())


def with_gate(case: Case, gate: str | None) -> Case:
    """The case with the gate for unbound values, or without one; and without policies, which may ask for the same."""
    spec = case.spec.model_copy(update={"unbound_gate": gate})
    return case._replace(spec=spec, compiled=case.compiled.model_copy(update={"policies": ()}))


@examples(250)
@given(flow_cases())
def test_an_unbound_value_goes_to_the_gate_that_asks_for_it(case: Case) -> None:
    """Where the decision names a gate for them, unbound values are no refusals, and their steps wait for that gate."""
    assume(any(gate.name == GATED and gate.when is None for gate in case.compiled.gates))
    refused, asked = verify(*with_gate(case, None)), verify(*with_gate(case, GATED))
    assert Code.UNBOUND_ARGUMENT not in {refusal.code for refusal in asked.refusals}
    if asked.ok:
        waiting = {demand.step for demand in asked.gates if demand.gate == GATED}
        unbound = {refusal.step for refusal in refused.refusals}
        assert waiting == unbound == set(naive.flow_violations(case))


def raised(case: Case, how: str) -> Case:
    """The case with more trust in it, of one sort."""
    compiled = case.compiled.model_dump(mode="json")
    spec = case.spec.model_dump(mode="json")
    for found in compiled["manifests"]["evidence_manifest"] if how == "evidence" else ():
        found["trust"] = "trusted"
    for found in compiled["results"] if how == "results" else ():
        found["trust"] = "trusted"
    for found in compiled["manifests"]["tool_manifest"]:
        if found["declaration"] and how in ("trust", "untrusted", "endorses"):
            found["declaration"][how] = {"trust": "trusted", "untrusted": [], "endorses": True}[how]
    if how == "untrusted_inputs":
        spec[how] = []
    if how == "approved_plan":
        compiled[how] = case.plan.model_dump(mode="json")
    return case._replace(
        compiled=CompiledContext.model_validate(compiled), spec=DecisionSpec.model_validate(spec)
    )


SORTS = ["evidence", "results", "trust", "untrusted", "endorses", "untrusted_inputs", "approved_plan"]


@examples(250)
@given(flow_cases(), st.sampled_from(SORTS))
def test_more_trust_never_refuses_and_less_never_lets_through(case: Case, how: str) -> None:
    """What passes with less trust passes with more, and what is refused with more is refused with less."""
    less, more = verify(*case), verify(*raised(case, how))
    assert more.ok or not less.ok, more
    found = [
        {refusal.code for refusal in verdict.refusals} - {Code.EVIDENCE_NOT_PINNED}
        for verdict in (more, less)
    ]
    if Code.UNBOUND_ARGUMENT not in found[1]:
        assert found[0] == found[1]
