"""A critic with a context of its own: every question that a judging model is asked, and what is not in it."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.outputs.rubric import CritiqueInput, CritiqueTask
from tercet.contracts.question import Question
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.quality.exit import estimate

from .quality_desk import (
    BAD_TONE,
    FACT,
    FINE_TONE,
    GOOD,
    THRESHOLDS,
    TONE,
    carry,
    desk,
    last,
    mended,
    model,
    of,
    told,
)
from .workshop import Workshop, plan, step

SECRETS = {
    "plan": "plan_of_the_generator",
    "parameter": "parameter of the planner: be generous with them",
    "note": "I think the manager would agree to this, so do not look too closely",
    "draft": "An earlier draft said that the order was never shipped at all",
}
"""What the generator thought and did on its way: each of them would be known again by its words."""
NOTED = plan(
    step("thought", None, params={"reasoning": SECRETS["note"]}),
    step("draft", params={"wish": SECRETS["parameter"]}, depends_on=("thought",)),
    outputs={"letter": {"$from": "draft#/letter"}},
).model_copy(update={"plan_id": SECRETS["plan"]})


def judged(question: Question) -> JsonObject:
    """What a judge says: nothing is settled."""
    del question
    return {"judgements": []}


def tone(*answers: JsonObject) -> Any:
    """A line of a critic who judges claims, and says these things of the tone one after the other."""
    left = list(answers)

    def answer(question: Question) -> JsonObject:
        return judged(question) if question.purpose == "judge" else left.pop(0)

    return answer


@pytest.mark.req("R179", "R180")
def test_a_critic_hears_nothing_of_how_the_outputs_came_about(workshop: Workshop, url: str) -> None:
    """Task, output, evidence and rubric: neither plan nor parameters nor notes nor drafts are in any question, before a
    repair or after it, and neither is what a repairing model was told."""
    pack = desk(
        workshop,
        {"letter": GOOD},
        quality={"rubric": TONE, "judge": "model"},
        decision={"thresholds": THRESHOLDS},
    )
    critic = model(*[tone(BAD_TONE, FINE_TONE)] * 9, name="scripted:critic")
    repairer = model(mended(f"Thank you. {GOOD}"))
    done = carry(workshop, pack, url, plan=NOTED, critics=[critic], repairers=[repairer])
    assert done.result.status == "completed"
    assert [question.purpose for question in critic.questions] == ["judge", "critique", "judge", "critique"]
    for question in critic.questions:
        words = told(question)
        assert GOOD.partition(".")[0] in words
        assert FACT.id in words
        for name, secret in SECRETS.items():
            assert secret not in words, name
        assert "reasoning" not in words
        assert "step" not in words
        assert told(repairer.questions[0]) not in words
    assert "Tell the customer about the order." in told(critic.questions[1])
    assert "Is it kind?" in told(critic.questions[1])
    asked = {event.model for event in of(e.ModelAsked, done.found) if event.purpose in ("judge", "critique")}
    assert asked == {"scripted:critic"}


@pytest.mark.req("R180")
def test_a_draft_that_was_mended_is_not_shown_to_the_critic(workshop: Workshop) -> None:
    """After a repair a tool's draft is intermediate state: the next question has what became of it, and not the draft."""
    pack = desk(
        workshop, {"letter": SECRETS["draft"]}, quality={"rubric": TONE}, decision={"thresholds": THRESHOLDS}
    )
    critic = model(BAD_TONE, FINE_TONE)
    done = carry(workshop, pack, critics=[critic], repairers=[model(mended(GOOD))])
    assert done.result.outputs == {"letter": GOOD}
    assert SECRETS["draft"] in told(critic.questions[0])
    assert SECRETS["draft"] not in told(critic.questions[1])


@pytest.mark.req("R179", "R180")
def test_there_is_no_place_for_anything_else() -> None:
    """What a critic is given are six things, and the task is six others; a run has no way to add to them."""
    assert set(CritiqueInput.model_fields) == {"task", "output", "evidence", "tokens", "missing", "rubric"}
    asked = {
        "description", "input", "untrusted_inputs", "required_outputs", "required_sections",
        "required_values",
    }  # fmt: skip
    assert set(CritiqueTask.model_fields) == asked


def test_the_critic_and_the_repairer_are_models_of_their_own(workshop: Workshop) -> None:
    """A pack may name one for each; who was asked for what stands in the journal."""
    pack = desk(workshop, {"letter": GOOD}, quality={"rubric": TONE}, decision={"thresholds": THRESHOLDS})
    critic, repairer = (
        model(BAD_TONE, FINE_TONE, name="scripted:critic"),
        model(mended(GOOD + " Thanks."), name="scripted:mender"),
    )
    done = carry(workshop, pack, critics=[critic], repairers=[repairer])
    asked = [(event.purpose, event.model) for event in of(e.ModelAsked, done.found)]
    assert asked == [
        ("critique", "scripted:critic"),
        ("repair", "scripted:mender"),
        ("critique", "scripted:critic"),
    ]
    assert last(e.OutputsRepaired, done.found).models == ("scripted:mender",)


@pytest.mark.req("R242")
@pytest.mark.parametrize("logprob", [-0.2, -2.5, None])
def test_how_sure_a_model_was_of_what_it_wrote_counts(workshop: Workshop, logprob: float | None) -> None:
    """Of the model that wrote the outputs, not of the critic; where a model does not say, the feature has no weight."""
    pack = desk(workshop, {"letter": GOOD}, quality={"rubric": TONE}, decision={"thresholds": THRESHOLDS})
    critic = model(BAD_TONE, FINE_TONE, name="scripted:critic", logprob=-9.0)
    mender = model(mended(GOOD + " Thanks."), logprob=logprob)
    done = carry(workshop, pack, critics=[critic], repairers=[mender])
    before, after = (event.confidence for event in of(e.OutputsCritiqued, done.found))
    assert "logprob" not in before["features"]
    assert after["features"].get("logprob") == logprob
    assert ("logprob" in after["missing"]) == (logprob is None)
    without = estimate({name: value for name, value in after["features"].items() if name != "logprob"}).value
    more = 0 if logprob is None else 0.5 * (logprob + 0.5)
    assert (after["value"] > without, after["value"] < without) == (more > 0, more < 0)


@pytest.mark.parametrize("answer", ["no JSON", {"score": 2, "defects": []}, {"judgements": "x"}])
def test_a_critic_that_does_not_answer_as_asked_lets_nothing_through(workshop: Workshop, answer: Any) -> None:
    """What could not be judged scores 0, is a defect, and the run goes to a person."""
    pack = desk(workshop, {"letter": GOOD}, quality={"rubric": TONE}, decision={"thresholds": THRESHOLDS})
    done = carry(workshop, pack, critics=[model(*[answer] * 9)])
    assert done.result.status == "paused"
    first = of(e.OutputsCritiqued, done.found)[0]
    assert first.diagnosis["scores"]["tone"] == 0.0
    assert "could not be judged" in first.diagnosis["defects"][0]["description"]


def test_without_a_critic_a_rubric_that_asks_one_is_not_met(workshop: Workshop) -> None:
    """Nobody to ask is no yes: the run goes to a person, who is told why."""
    pack = desk(workshop, {"letter": GOOD}, quality={"rubric": TONE}, decision={"thresholds": THRESHOLDS})
    done = carry(workshop, pack)
    assert done.result.status == "paused"
    assert "there is no model to ask" in done.result.reason


BUDGETS: dict[str, JsonObject] = {
    "tokens": {"budget": {"tokens": 900}},
    "money": {"budget": {"cost_microcents": 1_000}},
    "the role": {"limits": {"critic": {"tokens": 900}}},
}


@pytest.mark.req("R131")
@pytest.mark.parametrize("kind", BUDGETS)
def test_what_judging_costs_is_kept_back_before_it_is_asked(workshop: Workshop, kind: str) -> None:
    """A question that the run, or the role of the critic, has nothing left for is not asked; what could not be judged is
    not let through."""
    pack = desk(
        workshop,
        {"letter": GOOD},
        quality={"rubric": TONE},
        decision={"thresholds": THRESHOLDS},
        **BUDGETS[kind],
    )
    critic = model(*[FINE_TONE] * 9)
    done = carry(workshop, pack, critics=[critic])
    assert (critic.calls, done.result.status) == (0, "paused")
    assert "cannot be asked" in of(e.OutputsCritiqued, done.found)[0].faults["0"]


def test_tokens_and_money_of_the_loop_are_on_the_books(workshop: Workshop) -> None:
    """Every question reserves, every answer is booked, and what went into judging is counted apart."""
    pack = desk(workshop, {"letter": GOOD}, quality={"rubric": TONE}, decision={"thresholds": THRESHOLDS})
    done = carry(
        workshop, pack, critics=[model(BAD_TONE, FINE_TONE)], repairers=[model(mended(GOOD + " Thanks."))]
    )
    asked, answered = of(e.ModelAsked, done.found), of(e.ModelAnswered, done.found)
    assert len(asked) == len(answered) == 3
    assert all(each.tokens > 0 and each.cost > 0 for each in asked)
    used = done.state.used
    assert used.tokens == used.critic_tokens == sum(each.tokens_in + each.tokens_out for each in answered)
    assert used.cost == sum(each.cost for each in answered)
