"""What follows from a verdict: outcomes of a review, the report, and what the critic says about steps and runs."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tercet.contracts.context import RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan, Step
from tercet.contracts.policy import Policy
from tercet.contracts.runs.budget import BudgetUse
from tercet.contracts.runs.run import Outcome, ToolResult
from tercet.contracts.runs.scorecard import Evaluation, EvaluatorName, Finding, Scorecard
from tercet.contracts.verdict import (
    KIND_OF,
    Code,
    CriticReport,
    RefusalKind,
    ScoreVerdict,
    Verdict,
    VerifyPassed,
    VerifyRefused,
)
from tercet.critic.consolidate import consolidate
from tercet.critic.judge import judge, judge_step, missed_thresholds, review_outcome
from tercet.critic.review import MAX_REASON

from .houses import LOOKUP, SHOP, WINDOW, House, look_up, pay, plan, refused, step, ticket

WHEN = "2026-05-09T12:00:00Z"


# ---- the outcome of a review --------------------------------------------------------------------------------------

REJECTED = {
    Code.MODE_EXCEEDED,
    Code.MODE_UNDERSTATED,
    Code.GATE_MISSING,
    Code.GATE_UNKNOWN,
    Code.AUTHORIZATION_REQUIRED,
    Code.POLICY_INVARIANT,
    Code.UNBOUND_ARGUMENT,
}


@pytest.mark.req("R96", "R26")
@pytest.mark.parametrize("code", list(Code))
def test_a_refusal_leads_to_a_replan_or_a_rejection(code: Code) -> None:
    """What a plan must not have is rejected at once; what a better plan could mend is re-planned while re-plans last."""
    kind = KIND_OF[code]
    first = SHOP.ctx
    last = SHOP.running(used=BudgetUse(replans=2)).ctx
    callers = SHOP.running(plan_origin="caller").ctx
    assert review_outcome(first, kind, code) == ("reject" if code in REJECTED else "replan")
    assert review_outcome(last, kind, code) == "reject"
    assert review_outcome(callers, kind, code) == "reject"


@pytest.mark.req("R96", "R26")
def test_each_outcome_comes_out_of_a_review() -> None:
    """ok, replan and reject are what a review says, and nothing else."""
    house = SHOP.deciding(required_outputs=("amount",))
    assert SHOP.review(plan(look_up())).outcome == "ok"
    assert house.review(plan(look_up())).outcome == "replan"
    assert house.running(plan_origin="caller").review(plan(look_up())).outcome == "reject"
    assert house.allowing(max_replans=0).review(plan(look_up())).outcome == "reject"
    assert SHOP.review(plan(pay("p", "pay_6666"))).outcome == "reject"


def test_every_code_belongs_to_one_of_five_kinds() -> None:
    """The published kinds are exactly five, and no code is without one."""
    assert set(KIND_OF) == set(Code)
    assert {str(kind) for kind in RefusalKind} == {
        "missing_evidence",
        "approval_mode_mismatch",
        "violates_decision_spec",
        "loop_guard",
        "budget_exceeded",
    }
    assert set(KIND_OF.values()) == set(RefusalKind)


# ---- the published shape ------------------------------------------------------------------------------------------

REFUND_DESK = SHOP.deciding(required_outputs=("refund_amount_inr", "refund_reason_class"))


def refund_plan(**pins: Any) -> Plan:
    """The plan of the worked refund: look up, then pay."""
    paying = step("s1", "payments.refund", params={"payment_id": "pay_8861", "amount": 24_500}, **pins)
    return plan(
        step("s0", LOOKUP, params={"id": "ord_881"}),
        paying,
        declared_outputs=("refund_amount_inr", "refund_reason_class"),
    )


def test_the_refund_without_evidence_is_refused_in_its_published_shape() -> None:
    """Plan A: what is printed is kind, reasons and offending step, and nothing that the page does not have."""
    verdict = REFUND_DESK.review(refund_plan(requires_evidence=("refund_window_evidence",)))
    assert verdict.published().model_dump(mode="json") == {
        "ok": False,
        "kind": "missing_evidence",
        "reasons": ["step 1 requires evidence class refund_window_evidence, none pinned"],
        "offending_step": 1,
    }


@pytest.mark.req("R92")
def test_the_refund_with_evidence_passes_in_its_published_shape() -> None:
    """Plan B: one pinned reference makes the difference."""
    verdict = REFUND_DESK.review(
        refund_plan(requires_evidence=("refund_window_evidence",), evidence_refs=(WINDOW,))
    )
    assert verdict.published().model_dump(mode="json") == {
        "ok": True,
        "reasons": ["2 steps, 2 required outputs covered"],
    }


def test_a_refusal_without_a_step_prints_none() -> None:
    """An offending step that does not exist is left out, never printed as null."""
    verdict = SHOP.review(plan())
    assert verdict.published().model_dump(mode="json") == {
        "ok": False,
        "kind": "violates_decision_spec",
        "reasons": ["plan has no steps"],
    }


# ---- the report ---------------------------------------------------------------------------------------------------


def scored(**statuses: tuple[str, list[str]]) -> ScoreVerdict:
    """A scorecard on which these evaluators fail or warn with these findings, and the others pass."""
    scores: dict[EvaluatorName, Evaluation] = {}
    for name in get_args(EvaluatorName):
        status, messages = statuses.get(name, ("pass", []))
        scores[name] = Evaluation.model_validate(
            {
                "status": status,
                "score": {"pass": 1.0, "warn": 0.9, "fail": 0.0}[status],
                "findings": [Finding(code="x", message=message) for message in messages],
                "version": "1",
            }
        )
    is_ok = all(scores[name].status != "fail" for name in ("policy", "safety"))
    return ScoreVerdict(ok=is_ok, scorecard=Scorecard(scores=scores))


def reported(
    verify: Verdict | VerifyPassed | VerifyRefused, score: ScoreVerdict | None = None
) -> CriticReport:
    """The report on a run of the refund decision."""
    return consolidate(
        trace_id="trace_1", decision_key="support.refund", verify=verify, score=score, decided_at=WHEN
    )


PASSED = VerifyPassed(reasons=("2 steps, 2 required outputs covered",))
REFUSED = VerifyRefused(kind=RefusalKind.MISSING_EVIDENCE, reasons=("step 1 lacks it", "so does step 2"))


@pytest.mark.req("R189")
def test_a_plan_that_failed_verify_is_refused_by_the_critic() -> None:
    """The rationale names the kind and joins the reasons; no score can change it."""
    for score in (None, scored()):
        report = reported(REFUSED, score)
        assert report.status == "refused_by_critic"
        assert report.rationale == "verify failed: missing_evidence — step 1 lacks it; so does step 2"
        assert report.score is None


@pytest.mark.req("R190")
def test_a_plan_that_was_not_run_is_partial() -> None:
    """A dry run passes verify and has no score."""
    report = reported(PASSED)
    assert (report.status, report.rationale) == ("partial", "verify passed; no score (no execution)")


@pytest.mark.req("R191")
@pytest.mark.parametrize(
    ("score", "rationale"),
    [
        (scored(policy=("fail", ["a", "b"])), "policy fail: a, b"),
        (scored(safety=("fail", ["c"])), "safety fail: c"),
        (
            scored(policy=("fail", ["a", "b"]), safety=("fail", ["c"]), cost=("fail", ["d"])),
            "policy fail: a, b; safety fail: c",
        ),
        (ScoreVerdict(ok=False, scorecard=scored().scorecard), "score failed (unknown reason)"),
        (ScoreVerdict(ok=False, scorecard=Scorecard(scores={})), "score failed (unknown reason)"),
        (
            ScoreVerdict(ok=False, scorecard=scored(cost=("fail", ["d"])).scorecard),
            "score failed (unknown reason)",
        ),
    ],
)
def test_a_broken_floor_is_refused_by_the_critic(score: ScoreVerdict, rationale: str) -> None:
    """The rationale names the floors that broke with their findings, and no other evaluator."""
    report = reported(PASSED, score)
    assert (report.status, report.rationale) == ("refused_by_critic", rationale)


@pytest.mark.req("R192")
@pytest.mark.parametrize("score", [scored(), scored(cost=("fail", ["d"])), scored(latency=("warn", ["e"]))])
def test_a_run_whose_floors_hold_is_completed(score: ScoreVerdict) -> None:
    """What is no floor does not refuse a run."""
    report = reported(PASSED, score)
    assert (report.status, report.rationale) == ("completed", "verify and score passed")
    assert report.score == score


def test_a_report_takes_the_whole_verdict_or_its_published_part() -> None:
    """Both give one report, in its published shape."""
    verdict = SHOP.review(plan(look_up()))
    assert reported(verdict) == reported(verdict.published())
    assert reported(verdict).model_dump(mode="json") == {
        "trace_id": "trace_1",
        "decision_key": "support.refund",
        "verify": {"ok": True, "reasons": ["1 steps, 0 required outputs covered"]},
        "status": "partial",
        "rationale": "verify passed; no score (no execution)",
        "decided_at": WHEN,
    }


HOSTILE = "s1.total +\n\n" + " " * 900 + "\t1"


@pytest.mark.req("R193")
@pytest.mark.parametrize(
    "steps",
    [
        (step("a", "no.body"),),
        (pay("p", "line one\nline two"),),
        (look_up(), pay("p", {"$cel": HOSTILE})),
        (look_up(), step("n", params={"x": {"$from": "request#/" + "a\nb" * 2_000}})),
        (look_up(), ticket(title={"$evidence": WINDOW + "#/\n\n" + "x" * 2_000})),
        (look_up(), look_up("s2", depends_on=("a\n\nb",))),
    ],
)
def test_a_rationale_is_one_short_line(steps: tuple[Step, ...]) -> None:
    """Whatever a plan holds, the reason and the rationale made of it are one line that can be read."""
    verdict = SHOP.review(plan(*steps))
    assert not verdict.ok
    rationale = reported(verdict).rationale
    assert len(rationale.splitlines()) == 1
    assert len(rationale) <= MAX_REASON + 60


# ---- steps --------------------------------------------------------------------------------------------------------

PLANNERS = SHOP
LAST = SHOP.running(used=BudgetUse(replans=2))
CALLERS = SHOP.running(plan_origin="caller")


def result(outcome: Outcome, error: str | None = None) -> ToolResult:
    """What came of a call."""
    return ToolResult(step_id="s1", outcome=outcome, error=error)


@pytest.mark.req("R25", "R195")
@pytest.mark.parametrize(
    ("house", "ended", "retries_left", "outcome", "reason"),
    [
        (PLANNERS, result(Outcome.DONE), 0, "accept", "step s1 is done"),
        (PLANNERS, result(Outcome.NOT_DONE, "busy"), 1, "retry", "step s1 was not done: busy"),
        (CALLERS, result(Outcome.NOT_DONE, "busy"), 1, "retry", "step s1 was not done: busy"),
        (
            PLANNERS,
            result(Outcome.NOT_DONE, "busy"),
            0,
            "replan",
            "step s1 was not done and has no retries left: busy",
        ),
        (LAST, result(Outcome.NOT_DONE, "busy"), 0, "escalate", "step s1 was not done and has no retries"),
        (
            CALLERS,
            result(Outcome.NOT_DONE),
            0,
            "escalate",
            "step s1 was not done and has no retries left: no",
        ),
        (PLANNERS, result(Outcome.DONE, "bad"), 5, "replan", "step s1 is done, but failed: bad"),
        (LAST, result(Outcome.DONE, "bad"), 5, "escalate", "step s1 is done, but failed: bad"),
        (CALLERS, result(Outcome.DONE, "bad"), 5, "escalate", "step s1 is done, but failed: bad"),
        (
            PLANNERS,
            result(Outcome.UNKNOWN, "cut"),
            5,
            "escalate",
            "nobody knows whether step s1 happened: cut",
        ),
        (CALLERS, result(Outcome.UNKNOWN), 0, "escalate", "nobody knows whether step s1 happened: no reason"),
    ],
)
def test_what_follows_from_a_step(
    house: House, ended: ToolResult, retries_left: int, outcome: str, reason: str
) -> None:
    """Not done may be tried again, done is never repeated, and unknown is for a person to find out."""
    verdict = judge_step(house.ctx, ended, retries_left=retries_left)
    assert (verdict.stage, verdict.outcome, verdict.step_id) == ("step", outcome, "s1")
    assert verdict.reasons[0].startswith(reason)
    assert verdict.ok == (outcome == "accept")


# ---- runs ---------------------------------------------------------------------------------------------------------

SCHEMA = {"schema": 1.0}


@pytest.mark.req("R25", "R195")
def test_a_run_is_accepted_if_floors_hold_and_thresholds_pass() -> None:
    """The default thresholds are schema, policy and safety."""
    verdict = judge(SHOP.ctx, SHOP.spec, reported(PASSED, scored()), SCHEMA)
    assert (verdict.stage, verdict.outcome, verdict.reasons) == (
        "run",
        "accept",
        ("verify and score passed",),
    )


@pytest.mark.parametrize(
    "report",
    [
        reported(PASSED),
        reported(REFUSED),
        reported(PASSED, scored(policy=("fail", ["a"]))),
        reported(PASSED, scored(safety=("fail", ["a"]))),
    ],
    ids=["not run", "refused", "policy", "safety"],
)
@pytest.mark.parametrize("house", [PLANNERS, CALLERS])
def test_a_broken_floor_or_a_missing_score_escalates(report: CriticReport, house: House) -> None:
    """After effects another plan could only add to them, so a person decides, whatever else was measured."""
    verdict = judge(house.ctx, house.spec, report, SCHEMA)
    assert verdict.outcome == "escalate"
    assert verdict.reasons == (report.rationale,)
    assert verdict.remedy


def demanding(*thresholds: dict[str, Any]) -> DecisionSpec:
    """A decision with these thresholds only."""
    return DecisionSpec.model_validate({"id": "d", "thresholds": thresholds})


@pytest.mark.req("R195")
@pytest.mark.parametrize(
    ("house", "outcome"), [(PLANNERS, "replan"), (LAST, "escalate"), (CALLERS, "escalate")]
)
def test_a_missed_threshold_sends_the_run_back(house: House, outcome: str) -> None:
    """A re-plan needs a planner and a re-plan that is left; otherwise a person is asked."""
    spec = demanding({"name": "correctness"})
    verdict = judge(house.ctx, spec, reported(PASSED, scored()), {"correctness": 0.849})
    assert (verdict.outcome, verdict.reasons) == (outcome, ("threshold correctness: 0.849 < 0.85",))
    accepted = judge(house.ctx, spec, reported(PASSED, scored()), {"correctness": 0.85})
    assert accepted.outcome == "accept"


def test_a_threshold_without_a_measurement_fails() -> None:
    """What nobody measured is not passed, and neither is a measurement that is no number."""
    spec = demanding({"name": "coherence"}, {"name": "completeness", "minimum": 0.5})
    report = reported(PASSED, scored())
    assert judge(SHOP.ctx, spec, report).reasons == (
        "threshold coherence >= 0.8 has no measurement",
        "threshold completeness >= 0.5 has no measurement",
    )
    strange = judge(SHOP.ctx, spec, report, {"coherence": float("nan"), "completeness": 0.5})
    assert strange.reasons == ("threshold coherence: nan < 0.8",)


def test_a_measurement_does_not_overrule_an_evaluator() -> None:
    """What an evaluator found is not improved by a number that somebody hands in."""
    spec = demanding({"name": "safety", "minimum": 1.0})
    report = reported(PASSED, scored(safety=("warn", ["close"])))
    assert judge(SHOP.ctx, spec, report, {"safety": 1.0}).reasons == ("threshold safety: 0.9 < 1.0",)


@pytest.mark.parametrize(
    ("name", "minimum"),
    [
        ("schema", 1.0),
        ("policy", 1.0),
        ("safety", 0.98),
        ("correctness", 0.85),
        ("completeness", 0.80),
        ("coherence", 0.80),
        ("test_pass_rate", 1.0),
        ("self_consistency", 0.70),
        ("confidence", 0.90),
    ],
)
def test_a_threshold_has_its_usual_minimum(name: str, minimum: float) -> None:
    """A threshold that is only named asks for what is usual; exactly that passes."""
    spec = demanding({"name": name})
    assert missed_thresholds(spec, {name: minimum}) == ()
    assert missed_thresholds(spec, {name: minimum - 0.001}) != ()
    low = demanding({"name": name, "minimum": 0.0})
    assert missed_thresholds(low, {name: 0.0}) == ()


def test_an_overrun_escalates_with_what_was_overrun() -> None:
    """A failed evaluator that is no floor is put to a person, who may extend the budget or accept a part."""
    over = scored(cost=("fail", ["tokens: 2 of 1 tokens"]), latency=("fail", ["wall clock: 2 of 1 ms"]))
    verdict = judge(SHOP.ctx, SHOP.spec, reported(PASSED, over), SCHEMA)
    assert verdict.outcome == "escalate"
    assert verdict.reasons == ("latency: wall clock: 2 of 1 ms", "cost: tokens: 2 of 1 tokens")
    assert verdict.remedy == "extend the budget, or accept as partial"
    warned = scored(cost=("warn", ["nearly"]))
    assert judge(SHOP.ctx, SHOP.spec, reported(PASSED, warned), SCHEMA).outcome == "accept"


@pytest.mark.req("R25")
def test_a_failed_evaluator_without_findings_does_not_slip_through() -> None:
    """A fail is a fail even if the evaluator did not say why."""
    silent = scored(utility=("fail", []))
    assert judge(SHOP.ctx, SHOP.spec, reported(PASSED, silent), SCHEMA).outcome == "escalate"


# ---- what a verdict carries ---------------------------------------------------------------------------------------


def test_a_verdict_carries_the_finer_code_the_remedy_and_the_sources() -> None:
    """The published part is a view; the whole says more, and survives JSON."""
    house = SHOP.holding(policies=(Policy(name="never", expression="false"),))
    verdict = house.review(plan(pay("p", {"$from": "request#/order_id"}, 7)))
    assert refused(verdict) == ("violates_decision_spec", "unbound_argument", 0, "/steps/0/params/amount")
    assert verdict.step_id == "p"
    assert [str(r.code) for r in verdict.refusals] == ["unbound_argument", "policy_invariant"]
    assert verdict.sources[0].trust is Trust.UNTRUSTED
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


@pytest.mark.parametrize("code", [Code.POLICY_INVARIANT, Code.UNBOUND_ARGUMENT])
@pytest.mark.parametrize(
    ("frame", "outcome"),
    [
        ({"answers_feedback": True}, "replan"),
        ({}, "reject"),
        ({"answers_feedback": True, "plan_origin": "caller"}, "reject"),
        ({"answers_feedback": True, "used": BudgetUse(replans=2)}, "reject"),
        ({"answers_feedback": True, "behaviour": (1, 2, 3, 4)}, "reject"),
    ],
)
def test_only_a_planner_that_reads_refusals_answers_policies_and_unbound_values(
    code: Code, frame: dict[str, Any], outcome: str
) -> None:
    """While re-plans last; a caller's plan never, and not under the rules before."""
    assert review_outcome(RunContext.model_validate(frame), KIND_OF[code], code) == outcome


def test_a_mode_is_never_a_matter_of_another_plan() -> None:
    """Whoever plans."""
    ctx = RunContext(answers_feedback=True)
    assert review_outcome(ctx, RefusalKind.APPROVAL_MODE_MISMATCH, Code.MODE_EXCEEDED) == "reject"
