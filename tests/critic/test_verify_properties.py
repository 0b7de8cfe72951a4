"""What holds for every plan: `verify` against a second critic, and against itself."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from critic import naive
from critic.naive import Case
from critic.strategies import (
    cases,
    continued_cases,
    cyclic_cases,
    examples,
    faulty_refunds,
    lax_cases,
    mutated_refunds,
    nonsense,
    refund,
    without_check,
)
from tercet.contracts.context import ALL_CHECKS, CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan
from tercet.contracts.verdict import Code, RefusalKind, Verdict
from tercet.critic.verify import validate, verify

KINDS = {
    "missing_evidence",
    "approval_mode_mismatch",
    "violates_decision_spec",
    "loop_guard",
    "budget_exceeded",
}
SAMPLES = 700
ANY_CASE = st.one_of(cases(), mutated_refunds())
ANY_FAULT = faulty_refunds().map(lambda faulty: faulty[0])


def assert_agreement(case: Case) -> Verdict:
    """Both critics find the same first refusal, or none and the same policies over the plan to decide at dispatch.

    Of a cycle, any step on it may be blamed.
    """
    verdict, expected = verify(*case), naive.first_refusal(*case)
    if expected is None:
        assert verdict.ok, verdict
        open_policies = {f"policy {name}" for name in naive.policies_left_open(case)}
        steps = {rule for rule in verdict.deferred if " at step " in rule}
        assert {rule for rule in verdict.deferred if rule.startswith("policy ")} - steps == open_policies
    else:
        assert (verdict.kind, verdict.code) == (expected.kind, expected.code), (verdict, expected)
        blamed = (naive.on_a_cycle(case) if expected.code == "cyclic_dependency" else []) or [expected.step]
        assert verdict.offending_step in blamed, (verdict, expected)
    return verdict


def test_the_refund_passes() -> None:
    """The plan that the mutations begin with is sound, to both critics."""
    assert assert_agreement(refund().parsed()).ok


@pytest.mark.req("R81")
@examples(200)
@given(nonsense())
def test_verify_never_raises_and_agrees_on_nonsense(case: Case) -> None:
    """Whatever parses gets a verdict, and it is the one that the page gives it."""
    assert_agreement(case)


@pytest.mark.req("R81", "R93", "R94", "R95", "R105")
@examples(200)
@given(cases())
def test_verify_agrees_with_the_second_critic(case: Case) -> None:
    """Plans out of sound and spoilt parts pass and fail as the page says, for the reason and at the step it says."""
    assert_agreement(case)


@examples(200)
@given(continued_cases())
def test_both_critics_agree_on_a_run_that_has_done_something_before(case: Case) -> None:
    """Policies and preconditions see the calls of earlier plans."""
    assert_agreement(case)


@pytest.mark.req("R89")
@examples(200)
@given(faulty_refunds())
def test_the_first_fault_in_the_order_of_the_checks_decides(faulty: tuple[Case, list[str]]) -> None:
    """Of several faults in one plan the verdict names the one whose check comes first, and the others are kept."""
    case, codes = faulty
    verdict = assert_agreement(case)
    assert verdict.code == codes[0]
    known = codes[: codes.index("cyclic_dependency") + 1] if "cyclic_dependency" in codes else codes
    assert {refusal.code for refusal in verdict.refusals} >= set(known)


@pytest.mark.req("R90")
@examples(200)
@given(mutated_refunds())
def test_a_spoilt_refund_is_refused_for_what_was_spoilt(case: Case) -> None:
    """A change to a sound refund is refused as the page says; if it does no harm, the one reason counts what was covered."""
    verdict = assert_agreement(case)
    if verdict.ok:
        covered = f"{len(case.plan.steps)} steps, {len(case.spec.required_outputs)} required outputs covered"
        assert verdict.reasons == (covered,)
        assert verdict.refusals == ()


@pytest.mark.slow
@pytest.mark.req("R82", "R83", "R84", "R86", "R87", "R88", "R97", "R98", "R99")
def test_the_generators_meet_every_rule() -> None:
    """The samples that both critics agree on hold every code of a refusal, and at least one plan in seven passes."""
    seen: Counter[str | None] = Counter()

    @settings(max_examples=SAMPLES, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(st.one_of(ANY_CASE, ANY_FAULT))
    def sample(case: Case) -> None:
        seen[assert_agreement(case).code] += 1

    sample()
    missed = set(Code) - set(seen)
    # The first states a fact about the world, which no plan alone has; for the others see tests/lanes/test_review.py.
    of_lanes = {Code.LANE_NOT_ELIGIBLE, Code.FAN_OUT_EXCEEDED, Code.DEPTH_EXCEEDED}
    assert missed == {Code.TOOL_DEFINITION_CHANGED, *of_lanes}
    assert seen[None] > 0.15 * sum(seen.values())


@pytest.mark.req("R81")
@examples(150)
@given(st.one_of(ANY_CASE, nonsense()))
def test_verify_is_deterministic(case: Case) -> None:
    """The same input gives the same verdict, also after a trip through JSON."""
    first = verify(*case)
    assert verify(*case) == first
    again = Case(
        RunContext.model_validate_json(case.ctx.model_dump_json()),
        CompiledContext.model_validate_json(case.compiled.model_dump_json()),
        DecisionSpec.model_validate_json(case.spec.model_dump_json()),
        Plan.model_validate_json(case.plan.model_dump_json()),
    )
    assert verify(*again) == first
    assert validate(*again) == validate(*case)


@pytest.mark.req("R1", "R2")
@examples(150)
@given(ANY_CASE)
def test_the_published_verdict_has_one_of_two_shapes(case: Case) -> None:
    """A verdict is published as passed with reasons, or as refused with one of five kinds and perhaps a step."""
    verdict = verify(*case)
    published = verdict.published().model_dump(mode="json")
    assert set(RefusalKind) == KINDS
    if verdict.ok:
        assert published == {"ok": True, "reasons": list(verdict.reasons)}
        return
    assert published.pop("offending_step", None) == verdict.offending_step
    assert published.pop("kind") in KINDS
    assert published == {"ok": False, "reasons": list(verdict.reasons)}


@pytest.mark.req("R102")
@examples(150)
@given(ANY_CASE)
def test_a_plan_is_valid_where_it_passes_or_exceeds_a_budget(case: Case) -> None:
    """A valid plan has no issue worse than a warning, and only a budget keeps `verify` from letting it through."""
    result, verdict = validate(*case), verify(*case)
    assert result.valid == all(issue.severity == "WARNING" for issue in result.issues)
    budgets = ("tokens_exceeded", "latency_exceeded")
    assert result.valid == all(refusal.code in budgets for refusal in verdict.refusals)


@pytest.mark.req("R103")
@examples(100)
@given(cyclic_cases())
def test_a_cyclic_plan_has_one_critical_issue(case: Case) -> None:
    """A plan in which steps wait for each other has that one issue, whatever else is wrong with it."""
    (issue,) = validate(*case).issues
    assert (issue.severity, issue.code) == ("CRITICAL", "cyclic_dependency_detected")
    assert issue.step in naive.on_a_cycle(case)


def expected_outcome(ctx: RunContext, refused: naive.Refused) -> str:
    """The table of what follows, read line by line."""
    if refused.kind == "approval_mode_mismatch" or refused.code in ("policy_invariant", "unbound_argument"):
        return "reject"
    is_planned_again = ctx.plan_origin == "planner" and ctx.used.replans < ctx.run_budget.max_replans
    return "replan" if is_planned_again else "reject"


@pytest.mark.req("R96", "R97")
@examples(200)
@given(ANY_CASE, st.sampled_from(["planner", "caller"]), st.integers(0, 2), st.integers(0, 3))
def test_what_follows_from_a_refusal(case: Case, origin: str, allowed: int, used: int) -> None:
    """A refused plan goes back to its planner while re-plans are left, unless it wants what it must not have."""
    budget = case.ctx.run_budget.model_copy(update={"max_replans": allowed})
    use = case.ctx.used.model_copy(update={"replans": used})
    ctx = case.ctx.model_copy(update={"plan_origin": origin, "run_budget": budget, "used": use})
    refused = naive.first_refusal(*case)
    outcome = verify(ctx, case.compiled, case.spec, case.plan).outcome
    assert outcome == ("ok" if refused is None else expected_outcome(ctx, refused))


CODES_OF = {
    "preconditions": {Code.UNMET_PRECONDITION, Code.THREATENED_CONDITION},
    "compensation": {Code.COMPENSATION_MISSING},
    "latency": {Code.LATENCY_EXCEEDED},
    "concurrency": {Code.CONCURRENCY_EXCEEDED},
    "checkpoints": {Code.CHECKPOINT_UNBOUND, Code.EVIDENCE_NOT_PINNED},
    "duplicates": {Code.DUPLICATE_ACTION},
}


@pytest.mark.req("R104")
@examples(150)
@given(lax_cases(), st.sampled_from(ALL_CHECKS))
def test_a_tier_leaves_out_its_checks_and_no_others(case: Case, check: str) -> None:
    """A tier whose table leaves a check out never refuses for it, and refuses for everything else as before."""
    full, less = verify(*case).refusals, verify(*without_check(case, check)).refusals
    kept = tuple(refusal for refusal in full if refusal in less)
    assert less == kept
    assert {refusal.code for refusal in full if refusal not in less} <= CODES_OF[check]
    assert not {refusal.code for refusal in less} & CODES_OF[check]
