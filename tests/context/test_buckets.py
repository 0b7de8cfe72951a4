"""Token limits: what fits is whole, what does not is left out whole, and what must fit is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.context import compile as compile_context
from tercet.context import measure
from tercet.contracts.buckets import MOST_NAMES, ContextRules, TokenLimits, estimate_tokens
from tercet.contracts.context import CompiledContext
from tercet.contracts.decision import DecisionSpec, RiskTier
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan, Step
from tercet.contracts.policy import Policy
from tercet.contracts.request import Request
from tercet.contracts.text.planner_view import show_evidence, show_tool
from tercet.contracts.values.canonical import canonical
from tercet.critic.verify import verify
from tercet.packs import Pack

from .shop import ASK, compiled, entries, fact, make, shop

ONE_TOOL = estimate_tokens(show_tool(make("a.tool1")))
ONE_FACT = estimate_tokens(show_evidence(fact("note:1")))


def facts(context: CompiledContext) -> list[str]:
    """The facts that a planner is shown."""
    shown = [name for name, entry in context.evidence.items() if entry.is_shown]
    return [name.removeprefix("kg:").partition("#")[0] for name in shown]


def overflow(pack: Pack, **frame: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        compiled(pack, **frame)
    assert caught.value.code == "context_overflow"
    assert "[context.tokens]" in str(caught.value.remedy)
    return caught.value


@given(st.recursive(st.none() | st.integers(-9, 9) | st.text(), st.lists))
def test_a_token_is_four_bytes_of_canonical_json(value: Any) -> None:
    """Rounded up, and never fewer than the bytes need."""
    size = len(canonical(value))
    assert estimate_tokens(value) * 4 - 3 <= size <= estimate_tokens(value) * 4


def test_without_limits_everything_is_admitted() -> None:
    """The default is no limit, and it changes neither the pack's hash nor the context's."""
    plain = Pack(name="shop", version="1.0.0", tools=[make("a.b")], decisions=[DecisionSpec(id="sell")])
    said = shop(make("a.b"), tokens={})
    roomy = shop(make("a.b"), tokens={"tools": 10_000})
    assert plain.hash == said.hash != roomy.hash
    assert compiled(plain).hash == compiled(said).hash
    assert compiled(roomy).truncation == ()


def test_tools_are_admitted_in_the_order_of_the_decision() -> None:
    """What a decision lists first goes first, and what is left out is told with its reason."""
    tools = [make(f"a.tool{number}") for number in range(1, 6)]
    spec = DecisionSpec(id="sell", tools=("a.tool4", "a.tool2", "a.tool5", "a.tool1"))
    context = compiled(shop(*tools, decisions=[spec], tokens={"tools": 2 * ONE_TOOL + 1}))
    assert list(context.surface) == ["a.tool2", "a.tool4"]
    (entry,) = context.truncation
    assert (entry.bucket, entry.limit, entry.needed, entry.used) == (
        "tools", 2 * ONE_TOOL + 1, 4 * ONE_TOOL, 2 * ONE_TOOL,
    )  # fmt: skip
    assert (entry.admitted, entry.left_out, entry.left_out_count) == (2, ("a.tool5", "a.tool1"), 2)
    told = entries(context, "tool")
    assert told["a.tool1"] == (
        False,
        f"it needs {ONE_TOOL} tokens, and 1 of the {2 * ONE_TOOL + 1} for tools were left",
    )
    assert told["a.tool3"] == (False, "decision sell does not list it")


def test_without_a_list_tools_are_admitted_by_name() -> None:
    """The order in which the pack has them does not count."""
    tools = [make(f"a.tool{number}") for number in (3, 1, 2)]
    assert list(compiled(shop(*tools, tokens={"tools": 2 * ONE_TOOL})).surface) == ["a.tool1", "a.tool2"]


def test_tools_that_nobody_is_shown_take_no_room() -> None:
    """One above the safety mode stays on the surface, and one that is not permitted keeps nobody out."""
    tools = [make("a.tool0", "network"), make("a.tool1", roles=("clerk",)), make("a.tool2")]
    context = compiled(shop(*tools, tokens={"tools": ONE_TOOL}))
    assert (list(context.surface), list(context.offered)) == (["a.tool0", "a.tool2"], ["a.tool2"])
    assert context.truncation == ()


def test_a_surface_that_would_be_empty_is_an_error() -> None:
    """A run that is offered no tool because none fits could only fail."""
    error = overflow(shop(make("a.tool1"), make("a.tool2"), tokens={"tools": ONE_TOOL - 1}))
    assert "none of the tools of decision sell fits" in error.message


def test_a_large_thing_does_not_shut_out_those_behind_it() -> None:
    """It is passed over, and what still fits is admitted."""
    tools = [make("a.tool1", description="long " * 200), make("a.tool2"), make("a.tool3")]
    context = compiled(shop(*tools, tokens={"tools": 2 * ONE_TOOL}))
    assert list(context.surface) == ["a.tool2", "a.tool3"]


def test_evidence_is_admitted_required_first_then_trusted_then_by_id() -> None:
    """Each step of the order is seen by giving room for one fact more."""
    given_facts = [
        fact("aaaa:1", trusted=False), fact("aaaa:2"), fact("need:3", trusted=False), fact("need:4"), fact("bbbb:5"),
    ]  # fmt: skip
    spec = DecisionSpec(id="sell", required_evidence=("need_evidence",))
    biggest = max(estimate_tokens(show_evidence(each)) for each in given_facts)
    seen = [
        set(
            facts(
                compiled(shop(make("a.b"), decisions=[spec], evidence=given_facts, tokens={"evidence": room}))
            )
        )
        for room in (number * biggest for number in range(1, 6))
    ]
    order = ["need:4", "need:3", "aaaa:2", "bbbb:5", "aaaa:1"]
    assert seen == [set(order[:number]) for number in range(1, 6)]


def test_one_fact_of_each_required_class_goes_before_all_others() -> None:
    """Many facts of one class do not take the room of the one that another class must have."""
    given_facts = [*(fact(f"aaaa:{number}") for number in range(5)), fact("zzzz:9")]
    spec = DecisionSpec(id="sell", required_evidence=("aaaa", "zzzz"))
    context = compiled(
        shop(make("a.b"), decisions=[spec], evidence=given_facts, tokens={"evidence": 2 * ONE_FACT})
    )
    assert facts(context) == ["aaaa:0", "zzzz:9"]


def test_a_required_class_of_which_nothing_fits_is_an_error() -> None:
    """The error says which class and how to make room; a class that has no facts at all is left to the critic."""
    spec = DecisionSpec(id="sell", required_evidence=("need_evidence", "none_evidence"))
    long = fact("need:1", "long " * 200)
    pack = shop(make("a.b"), decisions=[spec], evidence=[long, fact("note:1")], tokens={"evidence": 50})
    assert "must have need_evidence, and none of the 1" in overflow(pack).message
    short = shop(make("a.b"), decisions=[spec], evidence=[fact("need:1")], tokens={"evidence": 50})
    assert facts(compiled(short)) == ["need:1"]


def test_a_request_is_whole_or_refused() -> None:
    """Its own bucket is asked for every request, also where the frame is kept."""
    pack = shop(make("a.b"), tokens={"request": 20})
    short = Request(intent="sell", input={"order": "o1"})
    long = Request(intent="sell", input={"order": "o" * 100})
    assert compiled(pack, request=short).input() == {"order": "o1"}
    assert overflow(pack, request=long).message.startswith("the request needs ")
    assert compiled(pack, request=short).request == short


def test_instructions_are_whole_or_refused() -> None:
    """A decision is not judged by a part of its rules."""
    rules: dict[str, Any] = {
        "gates": [Gate(name="G", roles=("r",))],
        "policies": [Policy(name="p", expression="true", message="word " * 50)],
    }
    error = overflow(shop(make("a.b"), tokens={"instructions": 30}, **rules))
    assert "decision sell" in error.message
    assert len(compiled(shop(make("a.b"), tokens={"instructions": 300}, **rules)).policies) == 1


def test_a_long_list_of_names_is_bounded() -> None:
    """The entry names the first ones and counts them all; the ledger has each."""
    many = [fact(f"note:{number:03}") for number in range(60)]
    context = compiled(shop(make("a.b"), evidence=many, tokens={"evidence": ONE_FACT + 1}))
    (entry,) = context.truncation
    assert (len(entry.left_out), entry.left_out_count) == (MOST_NAMES, 59)
    assert sum(not admitted for admitted, _ in entries(context, "evidence").values()) == 59


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    limit=st.integers(1, 120),
    order=st.randoms(use_true_random=False),
)
def test_what_is_admitted_fits_and_nothing_is_lost(sizes: list[int], limit: int, order: Any) -> None:
    """No bucket holds more than its limit, each fact is admitted whole or left out, and what is left out would not fit;
    the order of the pack changes nothing, down to the hash."""
    given_facts = [fact(f"note:{number}", "x" * size) for number, size in enumerate(sizes)]
    context = compiled(shop(make("a.b"), evidence=given_facts, tokens={"evidence": limit}))
    order.shuffle(given_facts)
    again = compiled(shop(make("a.b"), evidence=given_facts, tokens={"evidence": limit}))
    assert (again, again.hash, again.ledger) == (context, context.hash, context.ledger)
    used = {use.bucket: use.used for use in measure(context, DecisionSpec(id="sell"), TokenLimits())}
    assert used["evidence"] <= limit
    assert [entry.used for entry in context.truncation] in ([], [used["evidence"]])
    known = {each.id: each.content for each in given_facts}
    assert {name: entry.content for name, entry in context.evidence.items()} == known
    out = [each for each in given_facts if not context.evidence[each.id].is_shown]
    assert all(used["evidence"] + estimate_tokens(show_evidence(each)) > limit for each in out)
    assert sum(entry.left_out_count for entry in context.truncation) == len(out)


def test_use_is_measured_by_what_a_planner_is_shown() -> None:
    """Every bucket has its use, also where it has no limit, and an unoffered tool is in none of them."""
    pack = shop(make("a.tool1"), make("a.tool2", "network"), evidence=[fact("note:1")], tokens={"tools": 99})
    context = compiled(pack, safety_mode=ApprovalMode.READ_ONLY)
    uses = {
        use.bucket: (use.used, use.limit) for use in measure(context, pack.decisions[0], pack.context.tokens)
    }
    assert list(uses) == ["instructions", "tools", "evidence", "request"]
    assert uses["tools"] == (ONE_TOOL, 99)
    assert uses["evidence"] == (ONE_FACT, None)
    assert uses["request"] == (estimate_tokens({"intent": "sell"}), None)


def test_a_planner_is_not_shown_who_else_may_use_a_tool() -> None:
    """Roles and tenants are nobody's business who plans."""
    told = show_tool(make("a.b", roles=("clerk",), tenants=("north",), timeout_ms=5))
    assert told == {"name": "a.b", "mode": "read_only"}


@pytest.mark.parametrize("wrong", [{"tools": 0}, {"tools": -1}, {"tols": 5}, {"tools": "many"}])
def test_a_limit_is_a_positive_number_of_a_known_bucket(wrong: dict[str, Any]) -> None:
    """Anything else does not load."""
    with pytest.raises(ValueError, match="tokens"):
        ContextRules.model_validate({"tokens": wrong})


def test_evidence_that_is_handed_in_takes_the_place_of_the_packs() -> None:
    """Its snapshot need not be one of the pack, and neither limits nor expiry are forgotten."""
    pack = shop(make("a.b"), evidence=[fact("note:1")], tokens={"evidence": ONE_FACT + 2})
    other = [Evidence(id=f"kg:note:{number}#snapshot_t", content="x") for number in range(3)]
    context = compiled(pack, evidence=other)
    assert (context.snapshot, facts(context)) == ("t", ["note:0"])
    assert context.truncation[0].left_out == ("kg:note:1#snapshot_t", "kg:note:2#snapshot_t")
    assert "kg:note:1#snapshot_s" not in entries(context, "evidence")
    assert facts(compiled(pack)) == ["note:1"]
    assert compiled(pack, evidence=[]).evidence == {}


def test_evidence_that_is_handed_in_must_be_clear() -> None:
    """Two snapshots need a name, facts of another are not admitted, and one id stands for one fact."""
    pack = shop(make("a.b"))
    mixed = [Evidence(id="kg:note:1#snapshot_t"), Evidence(id="kg:note:1#snapshot_u")]
    with pytest.raises(UsageError, match="2 snapshots: t, u"):
        compiled(pack, evidence=mixed)
    context = compiled(pack, evidence=mixed, snapshot="u")
    assert list(context.evidence) == ["kg:note:1#snapshot_u"]
    assert entries(context, "evidence")["kg:note:1#snapshot_t"] == (False, "it is not of snapshot u")
    with pytest.raises(UsageError, match="more than one fact"):
        compiled(pack, evidence=[mixed[0], mixed[0]])


@pytest.mark.req("R15")
def test_the_ledger_says_what_a_fact_is_worth() -> None:
    """Its trust, its class and its snapshot."""
    pack = shop(make("a.b"), evidence=[fact("rate:a"), fact("mail:b", trusted=False)])
    assert entries(compiled(pack), "evidence") == {
        "kg:rate:a#snapshot_s": (True, "trusted rate of snapshot s"),
        "kg:mail:b#snapshot_s": (True, "untrusted mail of snapshot s"),
    }


def test_the_ledger_says_how_each_policy_applies() -> None:
    """Every policy of the pack applies, each in its own way."""
    policies = [
        Policy(name="a", expression="true"),
        Policy(name="b", expression="true", scope="step"),
        Policy(name="c", expression="true", scope="step", effect="gate", gate="G"),
        Policy(name="d", expression="true", scope="step", effect="grant"),
    ]
    told = entries(compiled(shop(make("a.b"), policies=policies)), "policy")
    assert all(reason.endswith("; every policy of the pack applies") for _, reason in told.values())
    assert [reason.partition(";")[0] for _, reason in told.values()] == [
        "it refuses a plan that does not meet it",
        "it refuses a plan with a step that does not meet it",
        "it lets a step that does not meet it wait for G",
        "it approves network and delegated steps that meet it",
    ]


ORDER = {"evidence": "order", "field": "number", "equals": "request.order"}
ORDERS = [fact(f"order:{number}", {"number": number}) for number in range(5)]
ONE_ORDER = estimate_tokens(show_evidence(ORDERS[0]))


def test_facts_that_belong_to_the_request_are_shown_first() -> None:
    """Which facts fit depends on the request, also if the pack compiles for several requests one after the other."""
    spec = DecisionSpec.model_validate({"id": "sell", "bind": [ORDER]})
    pack = shop(make("a.b"), decisions=[spec], evidence=ORDERS, tokens={"evidence": ONE_ORDER + 1})
    for number in (3, 1, 4):
        context = compiled(pack, request=Request(intent="sell", input={"order": number}))
        assert facts(context) == [f"order:{number}"]
        assert context.count_unseen("order") == 4


def test_what_is_not_shown_can_still_be_pinned() -> None:
    """The critic knows every fact of the snapshot, and the remedy says how many a planner did not see."""
    spec = DecisionSpec(id="sell", required_evidence=("order",), risk_tier=RiskTier.LOW)
    pack = shop(make("a.b"), decisions=[spec], evidence=ORDERS, tokens={"evidence": ONE_ORDER + 1})
    context = compiled(pack)
    assert (facts(context), len(context.evidence)) == (["order:0"], 5)
    frame = pack.run_context()
    pinned = Step(id="s", tool="a.b", evidence_refs=("kg:order:4#snapshot_s",))
    assert verify(frame, context, spec, Plan(steps=(pinned,))).ok
    refused = verify(frame, context, spec, Plan(steps=(Step(id="s", tool="a.b"),)))
    assert "4 facts of class order were left out" in (refused.remedy or "")


def test_before_the_rule_changed_left_out_facts_were_not_known() -> None:
    """A session that goes by the older rules compiles to what it recorded."""
    pack = shop(make("a.b"), evidence=ORDERS, tokens={"evidence": ONE_ORDER + 1})
    frame = pack.run_context().model_copy(update={"behaviour": (1, 2, 3, 4)})
    assert list(compile_context(pack, ASK, frame).evidence) == ["kg:order:0#snapshot_s"]
    assert len(compiled(pack).evidence) == 5
