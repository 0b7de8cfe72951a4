"""The structure of a plan: steps, kinds, cycles, references and expressions."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.plan import Step
from tercet.critic.verify import validate

from .houses import (
    LETTER,
    LOOKUP,
    SHOP,
    WINDOW,
    codes,
    look_up,
    pay,
    plan,
    refused,
    step,
    ticket,
    tool,
)

# ---- something to do ----------------------------------------------------------------------------------------------


def test_an_empty_plan_is_refused() -> None:
    """A plan without steps does nothing, and one step is enough."""
    verdict = SHOP.review(plan())
    assert refused(verdict) == ("violates_decision_spec", "empty_plan", None, "/steps")
    assert verdict.reasons == ("plan has no steps",)
    assert "at least one step" in verdict.remedy
    assert refused(SHOP.review(plan(step("n")))) is None


def test_a_lane_is_refused_while_there_are_none() -> None:
    """A lane parses, and is refused where it stands; the same step as a note passes."""
    verdict = SHOP.review(plan(look_up(), step("l", kind="lane")))
    assert refused(verdict) == ("violates_decision_spec", "kind_unavailable", 1, "/steps/1/kind")
    assert verdict.reasons == ("step 1 is a lane, and this runtime has no lanes",)
    assert "into the plan itself" in verdict.remedy
    assert refused(SHOP.review(plan(look_up(), step("l", kind="note")))) is None


# ---- cycles -------------------------------------------------------------------------------------------------------


@pytest.mark.req("R99", "R100")
def test_a_cycle_is_named_step_by_step() -> None:
    """Steps that wait for each other are refused with the way around, and the remedy is to drop a dependency."""
    verdict = SHOP.review(plan(step("a"), step("b", depends_on=("c",)), step("c", depends_on=("b",))))
    assert refused(verdict) == ("violates_decision_spec", "cyclic_dependency", 1, "/steps/1/depends_on")
    assert verdict.reasons[0].startswith("steps wait for each other: ")
    assert "b → c" in verdict.reasons[0]
    assert verdict.remedy.startswith("drop one of these dependencies or references")
    assert verdict.outcome == "replan"


@pytest.mark.parametrize(
    "steps",
    [
        (step("a", depends_on=("a",)),),
        (step("a", params={"x": {"$from": "b#/x"}}), step("b", depends_on=("a",))),
        (step("a", params={"x": {"$cel": "b.x + 1"}}), step("b", params={"x": {"$from": "a"}})),
        (step("a", when="b.x"), step("b", depends_on=("a",))),
        (step("a", when=".b.x"), step("b", depends_on=("a",))),
    ],
    ids=["itself", "by reference", "by expression", "by condition", "by a dotted root"],
)
def test_a_cycle_may_run_through_any_kind_of_edge(steps: tuple[Step, ...]) -> None:
    """A reference, an expression or a condition waits as much as depends_on does."""
    assert SHOP.review(plan(*steps)).code == "cyclic_dependency"


def test_steps_may_stand_in_any_order() -> None:
    """A dependency on a step that is written later is no cycle."""
    later = plan(step("a", depends_on=("b",)), step("b"), step("c", depends_on=("a", "b")))
    assert refused(SHOP.review(later)) is None


@pytest.mark.req("R103", "R35", "R102")
def test_a_cyclic_plan_has_a_single_critical_issue() -> None:
    """Whatever else is wrong with it, validation of a cyclic plan returns the cycle and nothing more."""
    broken = plan(
        step("a", "no.body", depends_on=("b",)),
        step("b", LOOKUP, params={"wrong": 1}, depends_on=("a", "nowhere")),
    )
    result = validate(*SHOP, broken)
    assert not result.valid
    assert [(issue.severity, issue.code) for issue in result.issues] == [
        ("CRITICAL", "cyclic_dependency_detected")
    ]
    assert result.issues[0].remedy


def test_nothing_is_checked_after_a_cycle() -> None:
    """The checks that need an order are not asked for one."""
    verdict = SHOP.review(
        plan(step("a", depends_on=("a",)), step("b", LOOKUP, params={}), ticket("t", compensate=None))
    )
    assert codes(verdict) == ["cyclic_dependency"]


def test_a_long_cycle_is_shown_short() -> None:
    """A cycle of a hundred steps does not make a reason of a hundred names."""
    ring = [step(f"s{n}", depends_on=(f"s{(n + 1) % 100}",)) for n in range(100)]
    verdict = SHOP.allowing(max_steps=100).review(plan(*ring))
    assert verdict.code == "cyclic_dependency"
    assert "…" in verdict.reasons[0]
    assert len(verdict.reasons[0]) < 100


# ---- validation ---------------------------------------------------------------------------------------------------


@pytest.mark.req("R35", "R102")
@pytest.mark.parametrize(
    ("steps", "severity", "code"),
    [
        ((step("a", "no.body"),), "ERROR", "tool_unavailable"),
        ((look_up(preconditions=("dawn",)),), "ERROR", "unmet_preconditions"),
        ((look_up(estimated_tokens=8_001),), "WARNING", "token_budget_exceeded"),
        ((look_up(estimated_ms=10_001),), "WARNING", "latency_budget_exceeded"),
        ((look_up(depends_on=("nowhere",)),), "ERROR", "unresolved_reference"),
        ((ticket(reversibility="irreversible"),), "BLOCKED", "gate_missing"),
    ],
)
def test_issues_have_their_published_names(steps: tuple[Step, ...], severity: str, code: str) -> None:
    """Each issue comes with its published name, a remedy and a message; only warnings leave a plan valid, and `verify`
    refuses these too."""
    result = validate(*SHOP, plan(*steps))
    first = result.issues[0]
    assert result.valid == (severity == "WARNING")
    assert not SHOP.review(plan(*steps)).ok
    assert (first.severity, first.code) == (severity, code)
    assert first.message
    assert first.remedy


@pytest.mark.req("R102", "R35")
def test_a_warning_does_not_make_a_plan_invalid() -> None:
    """A rule that is decided at dispatch is worth a warning, and the plan is valid where verify says ok."""
    known_late = plan(look_up(), pay("pay", None, {"$from": "s1#/total"}))
    result = validate(*SHOP, known_late)
    assert SHOP.review(known_late).ok
    assert result.valid
    assert [(issue.severity, issue.code) for issue in result.issues] == [("WARNING", "decided_at_dispatch")]


# ---- references ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "neighbour", "place", "reason"),
    [
        (
            {"depends_on": ("nowhere",)},
            {"depends_on": ("s1",)},
            "/steps/1/depends_on",
            "step 1 refers to 'nowhere', which no step has",
        ),
        (
            {"params": {"x": {"$from": "request#/order"}}},
            {"params": {"x": {"$from": "request#/order_id"}}},
            "/steps/1/params/x",
            "step 1 refers to request#/order, but the request has nothing at /order",
        ),
        (
            {"params": {"x": {"$evidence": f"{WINDOW}#/iban"}}},
            {"params": {"x": {"$evidence": f"{WINDOW}#/amount"}}},
            "/steps/1/params/x",
            f"step 1 refers to {WINDOW}#/iban, but {WINDOW} has nothing at /iban",
        ),
        (
            {"params": {"x": [{"y": {"$from": "s1#/price"}}]}},
            {"params": {"x": [{"y": {"$from": "s1#/total"}}]}},
            "/steps/1/params/x/0/y",
            (
                "step 1 refers to s1#/price, but the result of orders.lookup has no field 'price'"
                " (it has note, payment_id, total)"
            ),
        ),
        (
            {"params": {"x": {"$from": "self#/x"}}},
            {"params": {"x": {"$from": "s1"}}},
            "/steps/1/params/x",
            "step 1 refers to self#/x, but only a compensation may refer to 'self'",
        ),
        (
            {"params": {"x": {"$from": "params#/x"}}},
            {"params": {"x": {"$literal": {"$from": "params#/x"}}}},
            "/steps/1/params/x",
            "step 1 refers to params#/x, but only a compensation may refer to 'params'",
        ),
        (
            {"params": {"x": {"$cel": 'evidence["kg:a:b#snapshot_c"].x'}}},
            {"params": {"x": {"$cel": f'evidence["{WINDOW}"].amount'}}},
            "/steps/1/params/x",
            "step 1 refers to evidence kg:a:b#snapshot_c, which is not in the snapshot",
        ),
        (
            {"when": "self.done"},
            {"when": "s1.done"},
            "/steps/1/when",
            "step 1 refers to 'self', which only a compensation may",
        ),
    ],
    ids=["step", "request", "evidence", "result field", "self", "params", "evidence in cel", "self in when"],
)
def test_a_reference_must_lead_somewhere(
    made: dict[str, Any], neighbour: dict[str, Any], place: str, reason: str
) -> None:
    """Each way of pointing at nothing is refused at its place, and the nearest one that points at something passes."""
    verdict = SHOP.review(plan(look_up(), step("n", **made)))
    assert refused(verdict) == ("violates_decision_spec", "unresolved_reference", 1, place)
    assert verdict.reasons == (reason,)
    assert ("the request's input" if "request#" in reason else "s1, n") in verdict.remedy
    assert refused(SHOP.review(plan(look_up(), step("n", **neighbour)))) is None


def test_a_reference_to_a_step_that_is_not_there_is_refused_by_its_name() -> None:
    """A reference or expression that names no step is refused as a missing dependency."""
    for params in ({"x": {"$from": "nowhere#/x"}}, {"x": {"$cel": "nowhere.x"}}):
        verdict = SHOP.review(plan(look_up(), step("n", params=params)))
        assert (verdict.code, verdict.offending_step) == ("unresolved_reference", 1)
        assert "'nowhere'" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        ({"$from": "nowhere"}, "output amount refers to 'nowhere', which no step has"),
        ({"$cel": "nowhere.x"}, "output amount refers to 'nowhere', which no step has"),
        ({"$from": "s1#/price"}, "output amount refers to s1#/price, but the result of orders.lookup has no"),
        ({"$from": "self"}, "output amount refers to"),
        ({"$evidence": f"{WINDOW}#/iban"}, f"output amount refers to {WINDOW}#/iban, but"),
    ],
)
def test_an_output_must_lead_somewhere(bound: Any, reason: str) -> None:
    """A bound output is a reference like any other; no step is to blame for it."""
    verdict = SHOP.review(plan(look_up(), outputs={"amount": bound}))
    assert refused(verdict) == ("violates_decision_spec", "unresolved_reference", None, "/outputs/amount")
    assert verdict.reasons[0].startswith(reason)


@pytest.mark.parametrize(
    "bound",
    [
        {"$from": "s1#/total"},
        {"$from": "request#/order_id"},
        {"$cel": "s1.total + 1"},
        {"a": [1, {"$from": "s1"}]},
    ],
)
def test_an_output_may_be_bound_to_anything_known(bound: Any) -> None:
    """Results, the request and expressions over them may be an output."""
    assert refused(SHOP.review(plan(look_up(), outputs={"amount": bound}))) is None


RESULTS: list[tuple[Any, str, bool]] = [
    (None, "/a/b/c", True),
    ({"type": "object"}, "/a", True),
    ({"properties": {"a": {}}}, "/a/b", True),
    ({"properties": {"a": {}}}, "", True),
    ({"properties": {"a": {}}}, "/b", False),
    ({"properties": {"a": {}}, "additionalProperties": True}, "/b", True),
    ({"properties": {"a": {}}, "additionalProperties": False}, "/b", False),
    ({"properties": {"a": {"properties": {"b": {}}}}}, "/a/c", False),
    (
        {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"properties": {"b": {}}}}},
        "/a/c",
        False,
    ),
    (
        {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"properties": {"b": {}}}}},
        "/a/b",
        True,
    ),
    ({"properties": {"a": {"$ref": "#/properties/a"}}}, "/a/b", True),
    ({"properties": {"a": {}}, "anyOf": [{}]}, "/b", True),
    ({"properties": {"a": {"items": {"properties": {"b": {}}}}}}, "/a/0/c", True),
]


@pytest.mark.parametrize(("result", "where", "is_there"), RESULTS)
def test_a_result_is_held_to_its_schema_only_where_it_lists_its_fields(
    result: Any, where: str, is_there: bool
) -> None:
    """A pointer into a result is refused only if the schema lists the fields and this one is not among them."""
    house = SHOP.with_tools(tool("x.get", result=result))
    verdict = house.review(plan(step("g", "x.get"), step("n", params={"x": {"$from": f"g#{where}"}})))
    assert (refused(verdict) is None) == is_there


def test_one_item_of_a_list_has_one_name() -> None:
    """An index is written without leading zeros and in plain digits, and not longer than any list."""
    house = SHOP.asked(items=["a"])
    for index in ("0", "00", "٠", "1", "-1", "9" * 5_000):
        verdict = house.review(plan(step("n", params={"x": {"$from": f"request#/items/{index}"}})))
        assert (refused(verdict) is None) == (index == "0")


# ---- compensations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "way_back",
    [
        {"$from": "self#/id"},
        {"$from": "params#/title"},
        {"$from": "s1#/payment_id"},
        {"$cel": "self.id"},
        {"$cel": "params.title + s1.payment_id"},
    ],
)
def test_a_compensation_may_read_its_step(way_back: Any) -> None:
    """`self` and `params` stand for what the step gave and took."""
    undo = {"tool": "tickets.close", "params": {"id": way_back}}
    assert refused(SHOP.review(plan(look_up(), ticket(compensate=undo, depends_on=("s1",))))) is None


@pytest.mark.parametrize(
    ("way_back", "code"),
    [
        ({"$from": "nowhere#/id"}, "unresolved_reference"),
        ({"$from": "request#/nothing"}, "unresolved_reference"),
        ({"$from": "s1#/price"}, "unresolved_reference"),
        ({"$cel": "nowhere.id"}, "unresolved_reference"),
        ({"$cel": "self.id +"}, "expression_invalid"),
        ({"$cel": "self.ids.map(self, self)"}, "expression_invalid"),
    ],
)
def test_a_compensation_that_leads_nowhere_is_refused_before_it_is_needed(way_back: Any, code: str) -> None:
    """The way back is checked with the way there: when it is needed it is too late to find out."""
    undo = {"tool": "tickets.close", "params": {"id": way_back}}
    verdict = SHOP.review(plan(look_up(), ticket(compensate=undo)))
    assert (verdict.kind, verdict.code, verdict.offending_step) == ("violates_decision_spec", code, 1)
    assert verdict.place.startswith("/steps/1/compensate")


# ---- expressions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "neighbour", "why"),
    [
        ("s1.total +", "s1.total + 1", "does not compile"),
        ("s1.lines.map(s1, s1.price)", "s1.lines[0].price", "comprehension"),
        ("s1.lines.all(s1, true)", "s1.lines", "comprehension"),
        ("'" + "x" * 999 + "'", "'" + "x" * 998 + "'", "1,001 characters"),
        (" ", "0", "it is empty"),
        ("evidence", f'evidence["{WINDOW}"]', 'evidence in an expression is read as evidence["<ref>"]'),
        ("evidence[s1.ref]", f'evidence["{LETTER}"].text', "evidence in an expression"),
        ("frobnicate(s1)", "size(s1)", "does not compile"),
        ("1 + 'a'", "1 + 2", "does not compile"),
    ],
)
def test_an_expression_must_be_short_and_compile(expression: str, neighbour: str, why: str) -> None:
    """What a planner computes is bounded CEL, and is refused at its place otherwise."""
    verdict = SHOP.review(plan(look_up(), step("n", params={"x": {"$cel": expression}})))
    assert refused(verdict) == ("violates_decision_spec", "expression_invalid", 1, "/steps/1/params/x")
    assert why in verdict.reasons[0]
    assert "short CEL expression" in verdict.remedy
    assert refused(SHOP.review(plan(look_up(), step("n", params={"x": {"$cel": neighbour}})))) is None


@pytest.mark.parametrize(
    ("condition", "is_sound"),
    [
        ("s1.total > 0", True),
        ("s1.done", True),
        ("true", True),
        ("size(s1.note)", False),
        ("'yes'", False),
        ("s1.total >", False),
        ("s1.lines.exists(s1, s1)", False),
    ],
)
def test_a_condition_must_be_able_to_be_a_boolean(condition: str, is_sound: bool) -> None:
    """A `when` that can only be a number or a text is no condition."""
    verdict = SHOP.review(plan(look_up(), step("n", when=condition)))
    if is_sound:
        assert refused(verdict) is None
    else:
        assert refused(verdict) == ("violates_decision_spec", "expression_invalid", 1, "/steps/1/when")


def test_an_expression_in_an_output_is_checked_too() -> None:
    """An output is computed by the same bounded expressions."""
    verdict = SHOP.review(plan(look_up(), outputs={"n": {"$cel": "s1.total +"}}))
    assert refused(verdict) == ("violates_decision_spec", "expression_invalid", None, "/outputs/n")


@pytest.mark.parametrize("bomb", ['"\\', "'", "s1.", "(", "a ", "`", 'r"', '"""\\'])
def test_a_huge_expression_is_refused_without_being_read(bomb: str) -> None:
    """Megabytes of quotes, dots or brackets take no longer than a page of them."""
    verdict = SHOP.review(plan(look_up(), step("n", params={"x": {"$cel": bomb * 1_000_000}})))
    assert refused(verdict) == ("violates_decision_spec", "expression_invalid", 1, "/steps/1/params/x")


def test_a_long_expression_is_not_repeated_in_the_reason() -> None:
    """A refusal stays readable however long the expression is."""
    verdict = SHOP.review(plan(step("n", params={"x": {"$cel": "1 + " * 5_000 + "1"}})))
    assert verdict.code == "expression_invalid"
    assert len(verdict.reasons[0]) < 300
