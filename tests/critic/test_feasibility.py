"""Whether a plan can be carried out: preconditions, time, width, money, checkpoints, repetitions, and risk tiers."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from critic import naive
from tercet.contracts.context import ALL_CHECKS
from tercet.contracts.decision import DecisionSpec, RiskTier
from tercet.contracts.plan import Plan
from tercet.contracts.runs.budget import BudgetUse

from .houses import (
    CANCEL,
    CLOSE,
    FILE,
    LOOKUP,
    REFUND,
    SHOP,
    WINDOW,
    House,
    evidence,
    look_up,
    pay,
    plan,
    refused,
    step,
    takes,
    ticket,
    tool,
)

OPEN = tool("shop.open", parameters=takes(), establishes=("shop_open", "lights_on"))
SELL = tool("shop.sell", parameters=takes(), preconditions=("shop_open",))
MALL = SHOP.with_tools(OPEN, SELL)


# ---- preconditions ------------------------------------------------------------------------------------------------


@pytest.mark.req("R99", "R100")
def test_a_precondition_that_nothing_establishes_is_unmet() -> None:
    """The remedy is to reorder, or to add the step that establishes it."""
    verdict = MALL.review(plan(look_up(), step("sell", "shop.sell")))
    assert refused(verdict) == (
        "violates_decision_spec",
        "unmet_precondition",
        1,
        "/steps/1/preconditions",
    )
    assert verdict.reasons == ("step 1 presupposes shop_open, which nothing before it establishes",)
    assert verdict.remedy == "reorder, or add a step before it that calls shop.open"


@pytest.mark.req("R99")
def test_a_precondition_is_met_on_a_path_and_not_beside_it() -> None:
    """Only what a step waits for has happened before it, however far back and whatever is between."""
    before = plan(step("open", OPEN), step("n", depends_on=("open",)), step("sell", SELL, depends_on=("n",)))
    assert refused(MALL.review(before)) is None
    beside = plan(step("open", OPEN), step("sell", SELL))
    assert MALL.review(beside).code == "unmet_precondition"
    after = plan(step("sell", SELL), step("open", OPEN, depends_on=("sell",)))
    assert MALL.review(after).code == "unmet_precondition"
    itself = tool("x.y", parameters=takes(), preconditions=("a",), establishes=("a",))
    assert SHOP.with_tools(itself).review(plan(step("s", itself))).code == "unmet_precondition"


def test_a_reference_is_a_path_too() -> None:
    """A step that reads another's result comes after it."""
    reading = tool("shop.resell", parameters=takes("till"), preconditions=("lights_on",))
    house = MALL.with_tools(reading)
    read = plan(step("open", OPEN), step("sell", reading, params={"till": {"$from": "open#/till"}}))
    assert refused(house.review(read)) is None


def test_a_decision_may_begin_with_conditions() -> None:
    """A condition that the decision lists holds at the start, and a step may presuppose more than its tool."""
    sell = plan(step("sell", SELL, preconditions=("sunny",)))
    assert MALL.deciding(conditions=("shop_open",)).review(sell).reasons == (
        "step 0 presupposes sunny, which nothing before it establishes",
    )
    assert refused(MALL.deciding(conditions=("shop_open", "sunny")).review(sell)) is None


def test_a_condition_that_no_tool_establishes_is_a_persons_case() -> None:
    """Where no step could help, the remedy does not ask for one."""
    verdict = SHOP.review(plan(look_up(preconditions=("miracle",))))
    assert verdict.remedy == "no tool of this run establishes it: hand the case to a person"


@pytest.mark.parametrize("unsure", [{"optional": True}, {"when": "request.order_id == 'x'"}])
def test_a_precondition_that_may_not_be_established_is_decided_at_dispatch(unsure: dict[str, Any]) -> None:
    """An optional or conditional step may not complete, so the verdict says what is still to be checked."""
    house = SHOP.with_tools(OPEN, SELL)
    later = plan(step("open", OPEN, **unsure), step("sell", SELL, depends_on=("open",)))
    verdict = house.review(later)
    assert (refused(verdict), verdict.deferred) == (None, ("precondition shop_open at step 1",))
    sure = plan(
        step("first", OPEN), step("open", OPEN, **unsure), step("sell", SELL, depends_on=("first", "open"))
    )
    assert house.review(sure).deferred == ()


# ---- threats ------------------------------------------------------------------------------------------------------

SHUT = tool("shop.shut", parameters=takes(), revokes=("shop_open",))
STREET = MALL.with_tools(SHUT)


@pytest.mark.req("R72", "R99")
def test_what_may_revoke_a_condition_in_between_is_refused() -> None:
    """The offender is the step that revokes; the reason names all three, and the remedies are the two orders."""
    verdict = STREET.review(
        plan(step("open", OPEN), step("shut", SHUT), step("sell", SELL, depends_on=("open",)))
    )
    assert refused(verdict) == (
        "violates_decision_spec",
        "threatened_condition",
        1,
        "/steps/1/depends_on",
    )
    assert verdict.reasons == (
        "step 1 revokes shop_open, which step 0 establishes and step 2 presupposes, and may come between the two",
    )
    assert verdict.remedy == "add depends_on sell to shut or add depends_on shut to open"


@pytest.mark.req("R72")
def test_either_order_of_the_remedy_takes_the_threat_away() -> None:
    """After its use a condition may be revoked, and before it is established too."""
    after = (step("open", OPEN), step("sell", SELL, depends_on=("open",)))
    assert refused(STREET.review(plan(*after, step("shut", SHUT, depends_on=("sell",))))) is None
    first = (step("shut", SHUT), step("open", OPEN, depends_on=("shut",)))
    assert refused(STREET.review(plan(*first, step("sell", SELL, depends_on=("open",))))) is None


@pytest.mark.req("R72")
def test_a_condition_of_the_start_can_only_be_revoked_later() -> None:
    """Nobody brings it about, so the one remedy is to wait until it was used."""
    street = STREET.deciding(conditions=("shop_open",))
    verdict = street.review(plan(step("sell", SELL), step("shut", SHUT)))
    assert verdict.reasons == (
        "step 1 revokes shop_open, which holds at the start and step 0 presupposes, and may come before it",
    )
    assert verdict.remedy == "add depends_on sell to shut"
    assert refused(street.review(plan(step("sell", SELL), step("shut", SHUT, depends_on=("sell",))))) is None


@pytest.mark.req("R72")
def test_a_condition_that_is_surely_gone_must_be_brought_about_again() -> None:
    """Where the order itself puts the threat between the two, another one is asked for, or another step."""
    opened = (step("open", OPEN), step("shut", SHUT, depends_on=("open",)))
    verdict = STREET.review(plan(*opened, step("sell", SELL, depends_on=("shut",))))
    assert verdict.code == "threatened_condition"
    assert verdict.remedy == (
        "do not let sell wait for shut or let sell wait for a step after shut that calls shop.open"
    )
    again = (step("again", OPEN, depends_on=("shut",)), step("sell", SELL, depends_on=("again",)))
    assert refused(STREET.deciding(repeatable=("shop.open",)).review(plan(*opened, *again))) is None


def test_a_step_may_use_up_what_it_needs() -> None:
    """What revokes its own condition threatens others that need it, and not itself."""
    last = tool("shop.clear", parameters=takes(), preconditions=("shop_open",), revokes=("shop_open",))
    street = STREET.with_tools(last).deciding(conditions=("shop_open",))
    assert refused(street.review(plan(step("clear", last)))) is None
    assert street.review(plan(step("a", last), step("sell", SELL))).offending_step == 0


# ---- branches -----------------------------------------------------------------------------------------------------


def _cascade(depth: int) -> Plan:
    first = look_up("s0")
    return plan(first, *(look_up(f"s{n}", when=f"s{n - 1}.amount > 0") for n in range(1, depth + 1)))


@pytest.mark.req("R74")
def test_conditions_on_conditions_are_bounded() -> None:
    """A step may hang on three conditions, one inside the other, unless the pack says two or four."""
    assert refused(SHOP.review(_cascade(3))) is None
    assert refused(SHOP.review(_cascade(4))) == ("budget_exceeded", "branches_exceeded", 4, "/steps/4/when")
    assert refused(SHOP.allowing(max_branch_depth=4).review(_cascade(4))) is None
    assert SHOP.allowing(max_branch_depth=2).review(_cascade(3)).reasons == (
        "step 3 hangs on 3 conditions, one inside the other, 2 may be",
    )
    with pytest.raises(ValidationError):
        SHOP.allowing(max_branch_depth=5)


@pytest.mark.req("R74")
def test_depth_comes_through_values_and_not_through_waiting() -> None:
    """A value of a conditional step hangs on its condition; a step that only waits runs whatever was skipped."""
    seen = look_up("seen", when="request.yes")
    value = step("value", kind="note", params={"x": {"$from": "seen"}})
    house = SHOP.allowing(max_branch_depth=1)
    assert house.review(plan(seen, value, look_up("on", when="value.x.ok"))).offending_step == 2
    assert house.review(plan(seen, look_up("on", depends_on=("seen",), when="request.yes"))).code is None


# ---- latency ------------------------------------------------------------------------------------------------------


@pytest.mark.req("R99", "R100")
def test_the_critical_path_must_fit_into_the_wall_clock() -> None:
    """Only the longest chain counts; the remedy is to run in parallel or to reduce."""
    house = SHOP.allowing(wall_clock_ms=100)
    chain = plan(look_up("a", estimated_ms=60), look_up("b", estimated_ms=41, depends_on=("a",)))
    verdict = house.review(chain)
    assert refused(verdict) == ("budget_exceeded", "latency_exceeded", None, "/steps")
    assert verdict.reasons == ("the critical path takes 101 ms, 100 ms are left",)
    assert verdict.remedy == (
        "let steps run in parallel or reduce the scope; the slowest on the path is step 0"
    )
    beside = plan(look_up("a", estimated_ms=60), look_up("b", estimated_ms=41))
    assert refused(house.review(beside)) is None


def test_a_step_inherits_the_time_that_its_tool_takes() -> None:
    """A step without an estimate takes as long as its tool says, and what the run used is gone."""
    house = SHOP.allowing(wall_clock_ms=1_000).running(used=BudgetUse(wall_clock_ms=601))
    verdict = house.review(plan(pay()))
    assert verdict.reasons == ("the critical path takes 400 ms, 399 ms are left",)
    assert refused(house.review(plan(pay(estimated_ms=399)))) is None
    assert refused(house.allowing(wall_clock_ms=1_001).review(plan(pay()))) is None


def test_a_run_without_a_clock_has_no_latency() -> None:
    """No limit, no refusal."""
    house = SHOP.allowing(wall_clock_ms=None)
    assert refused(house.review(plan(look_up(estimated_ms=10**12)))) is None


# ---- concurrency --------------------------------------------------------------------------------------------------


@pytest.mark.req("R99", "R100")
def test_no_more_steps_run_at_once_than_may() -> None:
    """Three steps that could run at once are too many for two slots; the remedy is to serialise."""
    house = SHOP.allowing(max_parallel=2)
    verdict = house.review(plan(*(look_up(f"s{n}") for n in range(3))))
    assert refused(verdict) == ("budget_exceeded", "concurrency_exceeded", None, "/steps")
    assert verdict.reasons == ("3 steps would run at once, 2 may",)
    assert verdict.remedy == "serialise some of them with depends_on"
    serial = plan(look_up("s0"), look_up("s1"), look_up("s2", depends_on=("s0",)))
    assert refused(house.review(serial)) is None


def test_width_is_measured_in_time() -> None:
    """A step that ends before others begin does not run beside them."""
    house = SHOP.allowing(max_parallel=2)
    steps = (
        look_up("a", estimated_ms=10),
        look_up("b", estimated_ms=100),
        look_up("c", estimated_ms=10, depends_on=("a",)),
        look_up("d", estimated_ms=10, depends_on=("c",)),
    )
    assert refused(house.review(plan(*steps))) is None


# ---- what is left -------------------------------------------------------------------------------------------------


@pytest.mark.req("R99", "R100")
@pytest.mark.parametrize(
    ("limits", "used", "code", "reason"),
    [
        ({"tool_calls": 3}, {}, "tool_calls_exceeded", "plan needs 4 tool calls, 3 are left"),
        ({"tool_calls": 6}, {"tool_calls": 3}, "tool_calls_exceeded", "plan needs 4 tool calls, 3 are left"),
        ({"tokens": 1_999}, {}, "tokens_exceeded", "plan needs 2,000 tokens, 1,999 are left"),
        ({"tokens": 3_000}, {"tokens": 1_001}, "tokens_exceeded", "plan needs 2,000 tokens, 1,999 are left"),
        ({"cost_microcents": 49}, {}, "cost_exceeded", "plan needs 50 micro-cents, 49 are left"),
        (
            {"cost_microcents": 60},
            {"cost_microcents": 11},
            "cost_exceeded",
            "plan needs 50 micro-cents, 49 are left",
        ),
    ],
)
def test_a_plan_fits_into_what_is_left(
    limits: dict[str, int], used: dict[str, int], code: str, reason: str
) -> None:
    """Calls, tokens and cost are counted against the budget less what is used up; one more is enough."""
    needing = plan(
        look_up(estimated_tokens=1_000), look_up("s2"), pay(estimated_tokens=1_000), step("n", params={})
    )
    house = SHOP.allowing(**limits).running(used=BudgetUse(**used))
    verdict = house.review(needing)
    assert refused(verdict) == ("budget_exceeded", code, None, "/steps")
    assert verdict.reasons == (reason,)
    assert verdict.remedy.startswith("prune low-priority steps, or ask for a larger budget")
    one_more = {name: limit + 1 for name, limit in limits.items()}
    assert refused(house.allowing(**one_more).review(needing)) is None


@pytest.mark.req("R236")
def test_the_way_back_is_reserved_with_the_step() -> None:
    """Each step that a call could take back needs a second call, and what that call costs."""
    house = SHOP.with_tool(CANCEL, cost_microcents=9)
    once, twice = plan(pay()), plan(pay(), ticket())
    verdict = house.allowing(tool_calls=3).review(twice)
    assert verdict.reasons == ("plan needs 4 tool calls, 3 are left",)
    assert verdict.remedy.endswith("; 2 calls are reserved for compensations")
    verdict = house.allowing(cost_microcents=58).review(once)
    assert verdict.reasons == ("plan needs 59 micro-cents, 58 are left",)
    assert verdict.remedy.endswith("; 1 call is reserved for compensations")
    for limits in ({"tool_calls": 4}, {"cost_microcents": 59}):
        assert refused(house.allowing(**limits).review(twice)) is None


@pytest.mark.req("R236")
def test_a_steps_own_way_back_is_the_one_that_counts() -> None:
    """A step's compensation replaces its tool's, a pure step needs none, and one off the surface is a call all the same."""
    house = SHOP.with_tool(CANCEL, cost_microcents=9)
    closing = pay(compensate={"tool": CLOSE.name, "params": {"id": {"$from": "self#/refund_id"}}})
    assert refused(house.allowing(cost_microcents=50).review(plan(closing))) is None
    pure = house.with_tool(FILE, reversibility="pure")
    assert refused(pure.allowing(tool_calls=1).review(plan(ticket()))) is None
    gone = SHOP.with_tool(REFUND, compensate={"tool": "no.body"})
    assert refused(gone.allowing(tool_calls=2, cost_microcents=50).review(plan(pay()))) is None
    refusal = refused(gone.allowing(tool_calls=1).review(plan(pay())))
    assert refusal is not None
    assert refusal.code == "tool_calls_exceeded"


# ---- checkpoints --------------------------------------------------------------------------------------------------

CATALOGUE = SHOP.holding(
    decisions=(DecisionSpec(id="fraud.check", required_evidence=("refund_window_evidence",)),)
)


def with_checkpoint(decision_id: str, after_step: str, *steps: Any) -> Plan:
    """A plan that takes a decision after a step."""
    checkpoint = {"decision_id": decision_id, "after_step": after_step}
    return plan(*steps, decision_checkpoints=(checkpoint,))


@pytest.mark.req("R13")
@pytest.mark.parametrize(
    ("decision_id", "after_step", "reason", "remedy"),
    [
        (
            "fraud.chek",
            "s1",
            "checkpoint 0 names decision fraud.chek, which is not in the catalogue",
            "name one of fraud.check, support.refund",
        ),
        ("fraud.check", "s9", "checkpoint 0 stands after step s9, which no step is", "name one of s1"),
    ],
)
def test_a_checkpoint_names_a_decision_and_a_step(
    decision_id: str, after_step: str, reason: str, remedy: str
) -> None:
    """A checkpoint that is bound to nothing is refused, and the remedy lists what there is."""
    verdict = CATALOGUE.review(with_checkpoint(decision_id, after_step, look_up()))
    assert refused(verdict) == (
        "violates_decision_spec",
        "checkpoint_unbound",
        None,
        "/decision_checkpoints/0",
    )
    assert verdict.reasons == (reason,)
    assert verdict.remedy == remedy
    bound = with_checkpoint("fraud.check", "s1", look_up(evidence_refs=(WINDOW,)))
    assert refused(CATALOGUE.review(bound)) is None


@pytest.mark.req("R13")
def test_the_decision_under_review_is_in_its_own_catalogue() -> None:
    """A checkpoint may name the decision that the plan is for."""
    assert refused(SHOP.review(with_checkpoint("support.refund", "s1", look_up()))) is None


@pytest.mark.req("R98", "R105")
def test_a_decision_stands_on_evidence_pinned_by_then() -> None:
    """At its checkpoint a decision's evidence must be pinned by that step or one before it; later is too late."""
    late = with_checkpoint(
        "fraud.check", "s1", look_up(), look_up("s2", depends_on=("s1",), evidence_refs=(WINDOW,))
    )
    verdict = CATALOGUE.review(late)
    assert refused(verdict) == ("missing_evidence", "evidence_not_pinned", 0, "/steps/0/evidence_refs")
    assert verdict.reasons == (
        "decision fraud.check after step 0 requires evidence class refund_window_evidence, none pinned by then",
    )
    assert verdict.remedy == "pin it at that step or at one before it"
    beside = with_checkpoint("fraud.check", "s1", look_up(), look_up("s2", evidence_refs=(WINDOW,)))
    assert CATALOGUE.review(beside).code == "evidence_not_pinned"
    early = with_checkpoint(
        "fraud.check", "s2", look_up(evidence_refs=(WINDOW,)), look_up("s2", depends_on=("s1",))
    )
    assert refused(CATALOGUE.review(early)) is None


# ---- duplicates ---------------------------------------------------------------------------------------------------


def test_an_effect_is_proposed_once() -> None:
    """The same tool with the same identity a second time is refused where it repeats."""
    verdict = SHOP.review(plan(pay("a"), look_up(), pay("b")))
    assert refused(verdict) == ("loop_guard", "duplicate_action", 2, "/steps/2")
    assert verdict.reasons == ("step 2 repeats the action of step 0: payments.refund with the same identity",)
    assert verdict.remedy == "drop one of them; a decision may list the tool as repeatable"
    once = SHOP.deciding(repeatable=("payments.refund",)).review(plan(pay("a"), look_up(), pay("b")))
    assert refused(once) is None


def test_reads_may_repeat() -> None:
    """Honest plans look twice."""
    assert refused(SHOP.review(plan(look_up("a"), look_up("b")))) is None


@pytest.mark.parametrize(
    ("first", "second", "declared", "is_repeated"),
    [
        ({"title": "x"}, {"title": "x"}, {}, True),
        ({"title": "x"}, {"title": "y"}, {}, False),
        ({"title": "x", "text": "1"}, {"title": "x", "text": "2"}, {}, False),
        ({"title": "x", "text": "1"}, {"title": "x", "text": "2"}, {"identity": ("title",)}, True),
        ({"title": "x", "text": "1"}, {"title": "y", "text": "1"}, {"identity": ("title",)}, False),
        ({"title": "order", "text": "1"}, {"title": "order", "text": "2"}, {"authority": ("title",)}, False),
        ({"title": "order", "text": "1"}, {"title": "order", "text": "1"}, {"authority": ("title",)}, True),
        ({"title": "x"}, {"name": "x"}, {"aliases": {"name": "title"}}, True),
    ],
    ids=[
        "same",
        "other",
        "text differs",
        "identity same",
        "identity differs",
        "authority",
        "same text",
        "alias",
    ],
)
def test_identity_is_what_the_tool_says_it_is(
    first: dict[str, Any], second: dict[str, Any], declared: dict[str, Any], is_repeated: bool
) -> None:
    """Identity parameters count, else authority parameters if one of them is a number, else all, under their own names."""
    house = SHOP.with_tool(FILE, **declared).asked(order_id="ord_881", word="order")
    verdict = house.review(plan(step("a", FILE, params=first), step("b", FILE, params=second)))
    assert (verdict.code == "duplicate_action") == is_repeated
    assert verdict.ok != is_repeated


ORDER = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}


ACTIONS: list[Any] = [
    ({"type": "integer", "default": 9900}, {}, {"x": 9900}, True),
    ({"type": "integer", "default": 9900}, {}, {"x": 9901}, False),
    ({"type": "string", "format": "date"}, {"x": "2026-05-01"}, {"x": "2026-05-01T00:00:00"}, True),
    ({"type": "string", "format": "date-time"}, {"x": "2026-05-01T00:00:00Z"}, {"x": "2026-05-01T02:00:00+02:00"}, True),
    ({"type": "string", "format": "date-time"}, {"x": "2026-05-01T00:00:00Z"}, {"x": "2026-05-01T00:00:00"}, False),
    ({"type": "string", "format": "uuid"}, {"x": "A" * 32}, {"x": "a" * 32}, True),
    ({"type": "string"}, {"x": "A" * 32}, {"x": "a" * 32}, False),
    ({"anyOf": [{"type": "number"}, {"type": "string"}]}, {"x": 1}, {"x": "1.0"}, True),
    ({"anyOf": [{"type": "number"}, {"type": "string"}]}, {"x": 1}, {"x": "one"}, False),
    ({"type": "string", "format": "time"}, {"x": "10:00:00Z"}, {"x": "12:00:00+02:00"}, True),
    ({"additionalProperties": ORDER}, {"x": {"k": {}}}, {"x": {"k": {"n": 1}}}, True),
    ({"additionalProperties": ORDER}, {"x": {"k": {}}}, {"x": {"k": {"n": 2}}}, False),
    ({"additionalProperties": {"anyOf": [{"type": "number"}, {"type": "string"}]}}, {"x": {"k": 1}}, {"x": {"k": "1.0"}}, True),
    ({"prefixItems": [{"type": "integer"}, ORDER]}, {"x": [1, {}]}, {"x": [1, {"n": 1}]}, True),
    ({"items": ORDER}, {"x": [{}, {"n": 2}]}, {"x": [{"n": 1}, {"n": 2}]}, True),
    ({"items": ORDER}, {"x": [{}, {"n": 2}]}, {"x": [{"n": 2}, {}]}, False),
    ({"type": "array", "uniqueItems": True}, {"x": ["a", "b"]}, {"x": ["b", "a"]}, True),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "first", "second", "is_repeated"), ACTIONS)
def test_an_action_is_what_its_tool_receives(
    schema: dict[str, Any], first: dict[str, Any], second: dict[str, Any], is_repeated: bool
) -> None:
    """A default left out is the default written, and a value has one meaning in all its spellings; both critics agree."""
    house = SHOP.with_tool(FILE, parameters={"type": "object", "properties": {"x": schema}})
    twice = plan(step("a", FILE, params=first), step("b", FILE, params=second))
    verdict = house.review(twice)
    assert (verdict.code == "duplicate_action") == is_repeated
    naively = naive.first_refusal(house.ctx, house.compiled, house.spec, twice)
    assert (None if naively is None else naively.code) == verdict.code


# ---- risk tiers ---------------------------------------------------------------------------------------------------


def _slow(house: House) -> tuple[House, Plan]:
    return house, plan(look_up(estimated_ms=10_001))


def _wide(house: House) -> tuple[House, Plan]:
    return house.allowing(max_parallel=1), plan(look_up("a"), look_up("b"))


def _unprepared(house: House) -> tuple[House, Plan]:
    return house, plan(look_up(preconditions=("dawn",)))


def _one_way(house: House) -> tuple[House, Plan]:
    return house.with_tool(FILE, compensate=None), plan(ticket())


def _unbound(house: House) -> tuple[House, Plan]:
    return house, with_checkpoint("nobody", "s1", look_up())


def _twice(house: House) -> tuple[House, Plan]:
    return house, plan(ticket("a"), ticket("b"))


OPTIONAL = {
    "preconditions": (_unprepared, "unmet_precondition"),
    "compensation": (_one_way, "compensation_missing"),
    "latency": (_slow, "latency_exceeded"),
    "concurrency": (_wide, "concurrency_exceeded"),
    "checkpoints": (_unbound, "checkpoint_unbound"),
    "duplicates": (_twice, "duplicate_action"),
}
USUAL = {
    "low": {"checkpoints", "duplicates"},
    "medium": {"preconditions", "compensation", "checkpoints", "duplicates"},
    "high": set(OPTIONAL),
    "critical": set(OPTIONAL),
}


@pytest.mark.req("R104")
@pytest.mark.parametrize("tier", list(RiskTier))
@pytest.mark.parametrize("check", list(OPTIONAL))
def test_strictness_follows_the_risk_tier(check: str, tier: RiskTier) -> None:
    """Of the optional checks each tier runs those of the usual table, and no others."""
    build, code = OPTIONAL[check]
    house, faulty = build(SHOP.deciding(risk_tier=tier))
    assert (house.review(faulty).code == code) == (check in USUAL[tier])


@pytest.mark.req("R104")
@pytest.mark.parametrize("check", list(OPTIONAL))
def test_a_pack_may_bring_its_own_table(check: str) -> None:
    """The table is the pack's; a tier that it does not name gets every check."""
    build, code = OPTIONAL[check]
    house, faulty = build(SHOP.holding(risk_tiers={"high": [c for c in ALL_CHECKS if c != check]}))
    assert refused(house.review(faulty)) is None
    assert house.deciding(risk_tier="low").review(faulty).code == code


@pytest.mark.req("R104")
def test_no_tier_leaves_out_the_others() -> None:
    """Modes, evidence, arguments, authority, gates and policies are checked at the lowest tier as well."""
    house = SHOP.deciding(risk_tier="low").holding(risk_tiers={"low": []})
    assert house.review(plan(pay("p", "pay_6666"))).code == "unbound_argument"
    assert house.review(plan(step("s", LOOKUP, params={}))).code == "argument_invalid"
    assert house.review(plan(pay(evidence_refs=("kg:a:b#snapshot_c",)))).code == "evidence_unresolved"
    rich = house.with_evidence(evidence(WINDOW, {"payment_id": "pay_8861", "amount": 100_001}))
    assert rich.review(plan(pay())).code == "argument_not_permitted"
