"""The search finds a planted better setting, and never proposes one that breaks a rule."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.workshop import Workshop
from tercet.contracts.errors import UsageError
from tercet.contracts.packs.tuning import Candidate
from tercet.replay.tuning import search as searching
from tercet.replay.tuning.evaluation import Evaluated, Evaluation
from tercet.replay.tuning.search import search

from .callers import CHANNEL, PATIENT, RETRIES, call, call_with_all, centre
from .letters import LEAK, SURFACES, record, writers

SEEDS = range(50)


def _breaks_no_rule(evaluation: Evaluation, found: Evaluated) -> None:
    """What the rules say, worked out here once more from what was measured."""
    refused = {each.session for each in evaluation.recorded if each.is_below_floor}
    assert not [each for each in found.compared.after if each.is_accepted and each.session in refused]
    for old, new in found.compared.pairs:
        assert not Counter(new.risky) - Counter(old.risky)
        is_wanted = old.is_accepted and old.session not in evaluation.corrected
        assert not (is_wanted and (new.is_escalated or new.status == "expired"))
    assert all(each.risky == () for each in found.compared.after if each.is_told)


@pytest.mark.slow
@pytest.mark.req("R280", "R281")
def test_fifty_seeds_find_the_planted_setting_and_never_the_tempting_one() -> None:
    """Letting it ring for longer is better and allowed; a courier is better still, and no seed proposes one."""
    workshop = Workshop()
    pack = centre(workshop)
    evaluation = Evaluation(pack, call_with_all(workshop, pack))
    tempting = evaluation.evaluate(Candidate(values={CHANNEL: "courier", RETRIES: 2}))
    proposed: Counter[str] = Counter()
    for seed in SEEDS:
        found = search(evaluation, trials=30, seed=seed)
        assert found.space > found.tried  # so it is a search, and no enumeration
        assert found.best is not None
        assert found.best.is_allowed
        _breaks_no_rule(evaluation, found.best)
        assert tempting.objective > found.best.objective > 0.2
        proposed[found.best.candidate.model_dump_json()] += 1
    assert not tempting.is_allowed
    assert [each.name for each in tempting.guardrails if not each.passed] == ["no_added_risk"]
    planted = Candidate(values={PATIENT: 60, RETRIES: 2}).model_dump_json()
    assert proposed == {planted: len(SEEDS)}


@pytest.mark.slow
@pytest.mark.req("R280", "R283")
def test_fifty_seeds_find_the_limit_that_people_would_have_set() -> None:
    """Letters with two repetitions or more were corrected, and one that a person wanted had leaked a password: the limit
    rises to where those end, and the leak stays refused."""
    workshop = Workshop()
    pack = writers(workshop, SURFACES[:2])
    runs = record(workshop, pack, (0, 0, 1, 1, 2, 2, 3, 4, LEAK))
    corrected = frozenset(each.session for each in runs[4:])
    evaluation = Evaluation(pack, runs, corrected=corrected)
    assert evaluation.unreproduced == ()
    assert evaluation.recorded[-1].is_below_floor
    for seed in SEEDS:
        found = search(evaluation, trials=20, seed=seed)
        assert found.space > found.tried
        assert found.best is not None
        # As a threshold or as the minimum of the dimension: what is below either is not committed.
        assert tuple(found.best.candidate.values.values()) == (0.9,)
        _breaks_no_rule(evaluation, found.best)
        assert not found.best.compared.after[-1].is_accepted


@pytest.mark.slow
def test_the_same_seed_finds_the_same() -> None:
    """A seed comes to one candidate, by the same way."""
    workshop = Workshop()
    pack = centre(workshop)
    runs = call_with_all(workshop, pack)
    first, second = (search(Evaluation(pack, runs), trials=10, seed=3) for _ in range(2))
    assert first.best is not None
    assert second.best is not None
    assert first.best.candidate == second.best.candidate
    assert (first.tried, first.refused) == (second.tried, second.refused)


def test_few_candidates_are_all_tried() -> None:
    """Where there are no more candidates than trials, none is left out."""
    workshop = Workshop()
    pack = centre(
        workshop, tuning={"min_runs": 1, "replan": [{"budget": "max_step_retries", "low": 0, "high": 5}]}
    )
    evaluation = Evaluation(pack, call(workshop, pack))
    found = search(evaluation, trials=6, seed=1)
    assert (found.tried, found.space) == (6, 6)
    assert found.best is not None
    assert found.best.candidate.values == {RETRIES: 1}


def test_nothing_better_is_no_proposal() -> None:
    """A pack whose values are the best ones that the runs tell of stays as it is."""
    workshop = Workshop()
    tuning = {"min_runs": 1, "session": [{"value": "ttl_ms", "choices": [60_000, 3_600_000]}]}
    pack = centre(workshop, tuning=tuning)
    found = search(Evaluation(pack, call(workshop, pack)), trials=10)
    assert found.best is None


def test_ends_that_nobody_knows_gain_nothing() -> None:
    """More re-tries than were recorded might have helped, but no record tells, so they are not proposed."""
    workshop = Workshop()
    tuning = {"min_runs": 1, "replan": [{"budget": "max_step_retries", "low": 0, "high": 5}]}
    pack = centre(workshop, tuning=tuning, budget={"max_step_retries": 0, "max_retries": 20})
    evaluation = Evaluation(pack, call(workshop, pack))
    more = evaluation.evaluate(Candidate(values={RETRIES: 3}))
    assert {each.why.partition(":")[0] for each in more.compared.after if not each.is_told} == {"step_judged"}
    assert more.objective <= 0
    assert search(evaluation, trials=10).best is None


def test_too_few_runs_tell_too_little() -> None:
    """A candidate that rests on fewer runs than the pack asks for is refused."""
    workshop = Workshop()
    tuning = {"min_runs": 50, "replan": [{"budget": "max_step_retries", "low": 0, "high": 5}]}
    pack = centre(workshop, tuning=tuning)
    found = search(Evaluation(pack, call(workshop, pack)), trials=10)
    assert found.best is None
    assert found.refused == found.tried


@pytest.mark.parametrize(("tuning", "code"), [({}, "nothing_to_tune"), ({"lane": [{"value": "timeout_ms", "choices": [5]}]}, "nothing_to_tune")])  # fmt: skip
def test_a_pack_says_what_may_be_tuned(tuning: dict[str, object], code: str) -> None:
    """Without a surface that can be searched there is nothing to tune; lanes cannot be yet."""
    workshop = Workshop()
    pack = centre(workshop, tuning=tuning)
    with pytest.raises(UsageError) as refused:
        Evaluation(pack, call(workshop, pack, ["ann"]))
    assert refused.value.code == code


def test_no_runs_are_no_ground_to_tune_on() -> None:
    """Without recorded runs nothing can be scored."""
    with pytest.raises(UsageError) as refused:
        Evaluation(centre(Workshop()), ())
    assert refused.value.code == "no_runs"


def test_without_its_library_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named before any work is done."""

    def nothing(_: str) -> None:
        return None

    monkeypatch.setattr(searching, "find_spec", nothing)
    with pytest.raises(UsageError, match="tomlkit") as refused:
        searching.demand_libraries()
    assert (
        refused.value.remedy
        == "install the extra tuning from where you have Tercet: pip install './tercet[tuning]' beside a clone"
    )
