"""Whatever is drafted, judged and answered: the loop ends, within every bound, and says why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.question import ModelFault, Question
from tercet.contracts.shape import JsonObject
from tercet.core import events as e

from .quality_desk import (
    AUTHORED,
    BAD_TONE,
    FINE_TONE,
    GOOD,
    LEAKY,
    THRESHOLDS,
    TONE,
    WRITE,
    WRONG,
    Carried,
    carry,
    desk,
    is_only_unjudged,
    model,
    of,
)
from .test_quality_replay import demand_derivable
from .test_runs import Script
from .workshop import Workshop, plan, step

TEXTS = st.sampled_from(
    [GOOD, WRONG, LEAKY, "", "cold", "Thank you. " + GOOD, "TODO", "# Heading\n\nSome text.\n", "x" * 300]
)
DRAFTS = st.fixed_dictionaries(
    {"letter": TEXTS | st.integers() | st.none()}, optional={"language": st.sampled_from(["en", "EN", 3])}
)
FAULTS = st.sampled_from(["model_unavailable", "model_quota", "model_timeout", "model_refused"]).map(
    lambda code: ModelFault("no", code=code)  # pyright: ignore[reportArgumentType]
)


def _said(score: float, quotes: list[str]) -> JsonObject:
    """What a critic says: a score, and what it quotes."""
    defects = [{"quote": quote, "problem": f"it says {quote!r}", "hint": ""} for quote in quotes]
    return {"score": score, "defects": defects}


OPINIONS = st.builds(
    _said,
    st.sampled_from([0, 0.2, 0.6, 0.75, 0.8, 1]),
    st.lists(st.sampled_from(["", "Order ord_881", "Thank you", "nowhere"]), max_size=3),
)
GARBAGE = st.text(max_size=20) | st.recursive(
    st.none() | st.booleans() | st.integers(), lambda inner: st.lists(inner, max_size=2)
).map(json.dumps)


def _replacing(text: Any) -> Any:
    """A line that puts this text in the place of whatever is asked about."""

    def answer(question: Question) -> JsonObject:
        schema = question.answer_schema or {}
        is_whole = schema["properties"]["replacement"].get("type") == "object"
        return {"replacement": {"letter": text} if is_whole else text}

    return answer


REPAIRS = TEXTS.map(_replacing) | GARBAGE | FAULTS | st.just({"replacement": 3}) | st.just({"letter": GOOD})
QUALITY: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {"task_class": st.just("letter")},
    optional={
        "rubric": st.just(TONE),
        "judge": st.sampled_from(["model", "none"]),
        "documents": st.just(AUTHORED["documents"]),
        "is_partial_useful": st.booleans(),
        "novelty": st.sampled_from([0.2, 0.9]),
        "required_sections": st.just(("Returns",)),
        "consistency": st.fixed_dictionaries(
            {"draws": st.sampled_from([3, 5]), "into": st.just("letter")},
            optional={"method": st.just("similarity")},
        ),
        "repair": st.fixed_dictionaries(
            {},
            optional={
                "max_attempts": st.integers(0, 4),
                "max_tokens": st.sampled_from([0, 3_000, 20_000]),
                "many_defects": st.sampled_from([1, 5]),
                "expert_dimensions": st.just(("tone",)),
                "theta_loop": st.sampled_from([0.0, 0.9]),
            },
        ),
    },
)
BUDGETS: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {},
    optional={
        "max_repairs": st.integers(0, 6),
        "max_iterations": st.integers(6, 30),
        "max_replans": st.integers(0, 2),
        "tokens": st.sampled_from([0, 2_000, 9_000]),
        "tool_calls": st.sampled_from([2, 9]),
        "cost_microcents": st.sampled_from([0, 50_000, 400_000]),
    },
)
CONTROL: st.SearchStrategy[JsonObject] = st.sampled_from(
    [
        {},
        {"letter": {}},
        {"letter": {"setpoint": 1.0, "epsilon": 0.01, "k_max": 9}},
        {"letter": {"setpoint": {"tone": 0.9, "safety": 1.0}, "epsilon": 0.05, "sigma": 0.2}},
        {"letter": {"c_base": 10, "beta": 2, "c_max": 15}},
    ]
)
DECISIONS: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {},
    optional={
        "thresholds": st.just(THRESHOLDS),
        "confidence": st.sampled_from(
            [{"auto_commit": 0.1, "human_review": 0.05}, {"auto_commit": 1.0, "human_review": 0.9}]
        ),
        "requires_human_approval": st.booleans(),
    },
)


def demand_bounded(done: Carried) -> None:
    """It came to its rest within every bound: of the run, of each phase, and of what is left to say."""
    budget = done.state.start.budget
    assert done.result.status in ("completed", "paused", "failed", "awaiting_gate")
    assert done.state.iterations <= budget["max_iterations"] + 1  # the way to FAIL is the one behind the last
    assert len(of(e.OutputsRepaired, done.found)) <= budget["max_repairs"]
    if done.result.status in ("paused", "awaiting_gate"):
        assert done.result.gate is not None
    if done.result.status == "failed":
        assert done.result.reason


def demand_earned(done: Carried) -> None:
    """Nothing is committed that does not hold: the last look at the outputs found no reason against it, and a person
    accepted words that nothing vouches for."""
    if done.result.status != "completed":
        return
    exit_ = of(e.RunReported, done.found)[-1].exit
    if of(e.OutputsVerified, done.found)[-1].verdict.get("unjudged"):
        assert is_only_unjudged({"exit": exit_})
        assert of(e.GateAnswered, done.found)[-1].answer == "approve"
    else:
        assert exit_["outcome"] == "COMMIT"
    assert all(each["passed"] for each in exit_["thresholds"])
    assert of(e.OutputsVerified, done.found)[-1].verdict["schema_valid"]
    assert of(e.OutputsCritiqued, done.found)[-1].rubric["passed"]
    assert "sk_live" not in json.dumps(done.state.outputs)


@pytest.mark.req("R224", "R225")
@settings(max_examples=120, deadline=None)
@given(
    drafts=st.lists(DRAFTS, min_size=1, max_size=3),
    quality=QUALITY,
    decision=DECISIONS,
    budget=BUDGETS,
    control=CONTROL,
    opinions=st.lists(OPINIONS | GARBAGE | FAULTS, max_size=8),
    repairs=st.lists(st.lists(REPAIRS, max_size=6), max_size=3),
    is_planned=st.booleans(),
)
def test_the_loop_ends_whatever_comes(
    drafts: list[JsonObject],
    quality: JsonObject,
    decision: JsonObject,
    budget: JsonObject,
    control: JsonObject,
    opinions: list[Any],
    repairs: list[list[Any]],
    is_planned: bool,
) -> None:
    """Any drafts, rules, budgets, controllers, opinions of critics and answers of repairers: it ends in COMMIT, FAIL or
    HALT within its bounds, commits nothing that does not hold, and every judgement is derived again from the record."""
    workshop = Workshop()
    pack = desk(
        workshop,
        *drafts,
        quality=quality,
        decision=decision,
        budget=budget,
        control=control,
        on_failure="keep",
    )
    plans = [plan(step(name), outputs={"letter": {"$from": f"{name}#/letter"}}) for name in ("a", "b", "c")]
    given_: dict[str, Any] = {"planner": Script(*plans)} if is_planned else {"plan": WRITE}
    done = carry(
        workshop,
        pack,
        critics=[model(*opinions, name="scripted:critic")],
        repairers=[model(*lines, name=f"scripted:{n}") for n, lines in enumerate(repairs)],
        **given_,
    )
    demand_bounded(done)
    demand_earned(done)
    for event in of(e.OutputsRepaired, done.found):
        rules = {"max_attempts": 12, "max_tokens": 20_000, **quality.get("repair", {})}
        assert event.attempts <= rules["max_attempts"]
        assert event.tokens <= rules["max_tokens"]
    demand_derivable(pack, done.found)


@pytest.mark.req("R225")
@settings(max_examples=30, deadline=None)
@given(
    scores=st.lists(st.sampled_from([0.2, 0.5, 0.7, 0.79]), min_size=30, max_size=30),
    most=st.integers(0, 10),
    iterations=st.integers(6, 40),
)
def test_a_critic_that_is_never_content_ends_it_all_the_same(
    scores: list[float], most: int, iterations: int
) -> None:
    """Each draft is another one, and none is good enough: what ends it is the bound on repairs, or on iterations."""
    workshop = Workshop()
    pack = desk(
        workshop,
        {"letter": GOOD},
        quality={"rubric": TONE},
        decision={"thresholds": THRESHOLDS},
        budget={"max_repairs": most, "max_iterations": iterations},
        on_failure="keep",
    )
    opinions = [{**BAD_TONE, "score": score} for score in scores]
    texts = [_replacing(f"{n} {chr(97 + n % 26) * 40}") for n in range(60)]
    done = carry(workshop, pack, critics=[model(*opinions)], repairers=[model(*texts)])
    demand_bounded(done)
    assert done.result.status == ("failed" if "iteration" in done.result.reason else "paused")
    assert done.state.used.repairs <= most


def test_the_same_run_without_the_loop_is_as_before() -> None:
    """A decision without rules is scored and committed: none of the loop's events is in its record."""
    workshop = Workshop()
    pack = desk(workshop, {"letter": LEAKY}, decision={"quality": None})
    done = carry(workshop, pack, critics=[model(FINE_TONE)])
    assert done.result.status == "completed"
    assert done.way == ["outputs_produced", "run_reported: accept"]
