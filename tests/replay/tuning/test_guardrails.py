"""What no candidate may do: the floors, and the guardrail of each surface."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from tercet.contracts.packs.tuning import ScoreWeights, SurfaceName
from tercet.replay.tuning.frozen import GUARDRAILS, Evidence, hold
from tercet.replay.tuning.measuring import Outcome
from tercet.replay.tuning.scoring import Comparison, Wish

FINE = Outcome(session="s1", case="c1", status="completed", is_accepted=True, cost=10)
HANDED_OVER = Outcome(session="s1", case="c1", status="escalated", is_escalated=True)
FAILED = Outcome(session="s1", case="c1", status="failed")


def _changed(outcome: Outcome, **changes: Any) -> Outcome:
    return msgspec.structs.replace(outcome, **changes)


def _broken(surface: SurfaceName, old: Outcome, new: Outcome, **more: Any) -> list[str]:
    """The rules that a candidate of a surface breaks which turns the one into the other."""
    wishes = {"s1": Wish(accepted=True)}
    compared = Comparison([old], [new], wishes, ScoreWeights())
    evidence = Evidence(compared=compared, recorded=[more.pop("recorded", old)], **more)
    return [each.name for each in hold(evidence, [surface]) if not each.passed]


@pytest.mark.req("R277")
def test_each_of_the_five_surfaces_has_a_guardrail() -> None:
    """There is no surface without one."""
    assert set(GUARDRAILS) == set(get_args(SurfaceName))


@pytest.mark.req("R283")
@pytest.mark.parametrize("surface", get_args(SurfaceName))
def test_policy_and_safety_are_floors_of_every_surface(surface: SurfaceName) -> None:
    """A run that policy or safety refused may not be accepted, whatever is tuned and however good that looks."""
    refused = _changed(FAILED, is_below_floor=True)
    assert "policy_and_safety" in _broken(surface, refused, FINE)
    assert "policy_and_safety" in _broken(surface, FINE, FINE, recorded=refused)
    assert "policy_and_safety" not in _broken(surface, FAILED, FINE)


@pytest.mark.req("R281")
def test_templates_must_improve_and_add_no_risky_call() -> None:
    """Pass rate and utility improve, and no call above local_write is added: neither another one nor one more."""
    assert _broken("planner_templates", FAILED, FINE) == []
    assert _broken("planner_templates", FINE, FINE) == ["pass_rate_and_utility"]
    assert _broken("planner_templates", FINE, FAILED) == ["pass_rate_and_utility"]
    paid = _changed(FINE, risky=("money.pay",))
    assert _broken("planner_templates", FAILED, paid) == ["no_added_risk"]
    twice = _changed(FINE, risky=("money.pay", "money.pay"))
    assert _broken("planner_templates", _changed(FAILED, risky=("money.pay",)), twice) == ["no_added_risk"]
    assert _broken("planner_templates", _changed(FAILED, risky=("money.pay",)), paid) == []


@pytest.mark.req("R282")
def test_budgets_may_not_trip_the_loop_guard_or_ask_the_wrong_people() -> None:
    """The loop guard trips no more often; nobody is asked needlessly, and nobody is left out who was needed."""
    assert _broken("replan_budgets", FINE, FINE) == []
    assert _broken("replan_budgets", FINE, _changed(FINE, trips=1)) == ["loop_guard_trips"]
    assert _broken("replan_budgets", FINE, HANDED_OVER) == ["no_needless_escalation"]
    assert _broken("replan_budgets", HANDED_OVER, FAILED) == ["no_missed_escalation"]
    assert _broken("replan_budgets", HANDED_OVER, FINE) == []


@pytest.mark.req("R283")
def test_rubrics_need_a_replay_that_reproduces_verdicts() -> None:
    """Where a run of this very pack is not judged as it was, no other rubric is believed."""
    assert _broken("critic_rubrics", FAILED, FINE) == []
    assert _broken("critic_rubrics", FAILED, FINE, unreproduced=("s9",)) == ["verdicts_reproduced"]


@pytest.mark.req("R284")
def test_no_candidate_of_a_lane_passes() -> None:
    """As long as nothing shows that the parent's effects wait for its critic, lanes are not tuned."""
    for old, new in ((FAILED, FINE), (FINE, FINE)):
        assert _broken("subagent_lanes", old, new) == ["parent_effects_immutable"]


@pytest.mark.req("R285")
def test_no_session_is_cut_off() -> None:
    """A run that came to its end may not expire before it."""
    expired = _changed(FAILED, status="expired")
    assert _broken("background_sessions", FINE, expired) == ["nothing_cut_off"]
    assert _broken("background_sessions", FAILED, expired) == []


def test_too_few_runs_are_a_floor() -> None:
    """What rests on fewer runs than the pack asks for is not proposed."""
    assert _broken("replan_budgets", FINE, FINE, min_runs=2) == ["enough_runs"]


def test_an_end_that_is_not_told_counts_as_the_worst() -> None:
    """What people wanted and nobody knows any more is lost; a run of another plan says nothing."""
    wishes = {"s1": Wish(accepted=True)}
    untold = Outcome(session="s1", case="c1", is_told=False, why="?")
    assert Comparison([FINE], [untold], wishes, ScoreWeights()).objective == -1.0
    elsewhere = _changed(untold, is_elsewhere=True)
    assert Comparison([FINE], [elsewhere], wishes, ScoreWeights()).objective == 0.0


def test_intervals_are_the_same_every_time_and_hold_the_mean() -> None:
    """The same cases give the same interval; the mean lies in it, and more cases make it narrower."""
    few = [_changed(FINE, session=f"s{n}", case=f"c{n}", is_accepted=n % 3 > 0) for n in range(9)]
    many = [_changed(FINE, session=f"s{n}", case=f"c{n}", is_accepted=n % 3 > 0) for n in range(90)]
    narrow, wide = (
        Comparison(each, each, {}, ScoreWeights()).score(is_after=True).pass_rate for each in (many, few)
    )
    assert wide == Comparison(few, few, {}, ScoreWeights()).score(is_after=True).pass_rate
    assert wide.low < wide.value < wide.high
    assert wide.value == narrow.value == 0.666667
    assert narrow.high - narrow.low < wide.high - wide.low
