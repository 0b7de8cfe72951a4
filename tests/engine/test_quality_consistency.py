"""Self-consistency in a run: several samples become one output, and too little agreement is told."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.plan import Plan
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.packs.pack import Pack

from .quality_desk import GOOD, THRESHOLDS, Carried, carry, desk, of
from .workshop import Workshop, plan, step

ONLY_COMPLETE: JsonObject = {
    "rubric": {"dimensions": [{"name": "completeness", "weight": 1.0, "minimum": 0.5, "scorer": "complete"}]}
}
OTHER = "No order of that name was ever shipped to anybody."


def voting(
    workshop: Workshop, samples: list[Any], *, is_list: bool = False, consistency: JsonObject | None = None
) -> tuple[Pack, Plan]:
    """A pack and a plan that make these samples of a letter, as outputs of their own or as one list."""
    names = ["samples"] if is_list else [f"s{n}" for n in range(len(samples))]
    draft: JsonObject = {"samples": samples} if is_list else dict(zip(names, samples, strict=True))
    vote = {"samples": names, "into": "letter", **(consistency or {})}
    pack = desk(
        workshop,
        draft,
        quality={**ONLY_COMPLETE, "consistency": vote},
        decision={
            "thresholds": (*THRESHOLDS, {"name": "self_consistency"}),
            "outputs_schema": None,
            "required_outputs": tuple(names),
        },
    )
    return pack, plan(step("draft"), outputs={name: {"$from": f"draft#/{name}"} for name in names})


def sampled(workshop: Workshop, samples: list[Any], **how: Any) -> Carried:
    """A run that made these samples."""
    pack, written = voting(workshop, samples, **how)
    return carry(workshop, pack, plan=written)


@pytest.mark.req("R171", "R173")
@pytest.mark.parametrize("count", [3, 5, 7])
@pytest.mark.parametrize("is_list", [True, False])
def test_the_sample_that_most_agree_on_becomes_the_output(
    workshop: Workshop, count: int, is_list: bool
) -> None:
    """All but one are equal: that one is taken, with the share of those that agree; the way leads to critique."""
    done = sampled(workshop, [OTHER, *[GOOD] * (count - 1)], is_list=is_list)
    first = of(e.OutputsVerified, done.found)[0]
    agreed = first.consistency
    assert (agreed["output"], agreed["method"]) == (GOOD, "exact")
    assert agreed["consistency"] == round((count - 1) / count, 6)
    assert of(e.OutputsRead, done.found)[0].outputs == {"letter": GOOD}
    assert first.next == "critique"
    assert done.state.outputs["letter"] == GOOD
    is_enough = (count - 1) / count >= 0.7
    assert agreed["verdict"] == ("PASS" if is_enough else "LOW_CONFIDENCE")
    assert done.result.status == ("completed" if is_enough else "paused")


@pytest.mark.req("R172")
def test_by_similarity_the_sample_most_like_the_others_is_taken(workshop: Workshop) -> None:
    """No two are equal, and still one stands for them: the one that is nearest to all."""
    near = [GOOD, GOOD + " Thank you.", GOOD + " Thank you for it.", GOOD + " Thanks."]
    done = sampled(workshop, [OTHER, *near], consistency={"method": "similarity"})
    agreed = of(e.OutputsVerified, done.found)[0].consistency
    assert agreed["method"] == "similarity"
    assert agreed["output"] in near
    assert agreed["output"] == done.state.outputs["letter"]
    assert 0 < agreed["mean_similarity"] <= agreed["consistency"] < 1


@pytest.mark.req("R173")
def test_too_little_agreement_is_low_confidence_and_goes_to_critique(workshop: Workshop) -> None:
    """It is recorded, criticised like anything else, counts in the confidence, and is not committed."""
    done = sampled(workshop, [GOOD, OTHER, "Something else altogether was said."])
    verified, critiqued = of(e.OutputsVerified, done.found)[0], of(e.OutputsCritiqued, done.found)[0]
    assert verified.consistency["verdict"] == "LOW_CONFIDENCE"
    assert critiqued.confidence["features"]["consistency"] == verified.consistency["consistency"]
    assert done.result.status == "paused"
    assert "self_consistency is" in done.result.reason


@pytest.mark.req("R173")
@pytest.mark.parametrize("count", [1, 2, 4, 6, 8])
def test_another_number_of_samples_is_no_vote(workshop: Workshop, count: int) -> None:
    """A list with a wrong number of samples decides nothing: the output is not there, and nothing is committed."""
    done = sampled(workshop, [GOOD] * count, is_list=True)
    assert of(e.OutputsVerified, done.found)[0].consistency == {}
    assert "letter" not in done.state.outputs
    assert done.result.status == "paused"
    assert "self_consistency was not measured" in done.result.reason
    if count > 1:
        with pytest.raises(ValueError, match="three, five or seven"):
            sampled(workshop, [GOOD] * count)


def test_what_the_vote_makes_is_required_like_any_output(workshop: Workshop) -> None:
    """A decision may require the output that the vote makes: it is there when the schema is looked at."""
    pack = desk(
        workshop,
        {"samples": [GOOD, GOOD, GOOD]},
        quality={**ONLY_COMPLETE, "consistency": {"samples": ["samples"], "into": "letter"}},
        decision={"thresholds": THRESHOLDS, "outputs_schema": None},
    )
    written = plan(
        step("draft"), outputs={"samples": {"$from": "draft#/samples"}}, declared_outputs=("letter",)
    )
    done = carry(workshop, pack, plan=written)
    assert (done.result.status, done.result.outputs["letter"]) == ("completed", GOOD)
    assert done.state.missing == {}
