"""Plans that a pack proposes by itself, and what is kept for a model, follow again; what others propose is a fact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import pytest

from engine.oracle import GOOD, ORDER, planner, scripted, shop
from engine.quality_desk import BAD_TONE, FINE_TONE, TONE, WRITE, desk, mended, model
from engine.quality_desk import GOOD as LETTER
from engine.test_runs import Script
from engine.test_task_planner import recovery
from engine.workshop import ADA, ASK, Workshop, plan, step
from tercet.core import codec
from tercet.core import events as e
from tercet.engine.models.planners import TemplatePlanner
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording, load
from tercet.replay.replay import replay_recording
from tercet.view.run import Difference, ReplayReport

_E = TypeVar("_E", bound=e.Event)

COURSE: dict[str, Any] = {
    "plan_id": "p",
    "intent": "work",
    "steps": [{"id": "a", "tool": "do.it", "params": {"order": "${input.order}", "n": "${input.count}"}}],
}
NOBODY: dict[str, Any] = {**COURSE, "steps": [{"id": "a", "tool": "no.such", "params": {}}]}


def recorded(
    workshop: Workshop, pack: Pack, *, runtime: dict[str, Any] | None = None, **how: Any
) -> Recording:
    """One run under a pack, as it was recorded."""

    async def main() -> Recording:
        journal = MemoryJournal()
        async with workshop.runtime(pack, journal, **(runtime or {})) as running:
            result = await running.run(how.pop("request", ASK), actor=ADA, **how)
            return await load(journal, "default", result.session_id)

    return workshop.run(main())


def from_template(workshop: Workshop, template: dict[str, Any] = COURSE, **how: Any) -> Recording:
    """A run of the pack's own plan."""
    workshop.tool("do.it")
    return recorded(workshop, workshop.pack(templates=[template]), **how)


def counts(report: ReplayReport) -> tuple[dict[str, int], dict[str, int]]:
    """How many events of each type were derived again, and how many taken as facts."""
    assert report.difference is None
    rederived, facts = (
        {each.event: each.count for each in found} for found in (report.rederived, report.facts)
    )
    return rederived, facts


def changed(recording: Recording, kind: type[_E], change: Callable[[_E], _E]) -> Difference | None:
    """What replay says if the first event of a type is changed."""
    events = list(recording.events)
    for index, data in enumerate(events):
        event = codec.decode(data)
        if isinstance(event, kind):
            events[index] = codec.encode(change(event))
            return replay_recording(msgspec.structs.replace(recording, events=tuple(events))).difference
    raise AssertionError("there is no such event")


@pytest.mark.req("R272", "R273")
def test_a_template_proposes_the_same_again(workshop: Workshop) -> None:
    """Its plan is derived from the pack and the request, and is no fact any more."""
    rederived, facts = counts(replay_recording(from_template(workshop)))
    assert rederived["plan_proposed"] == 1
    assert "plan_proposed" not in facts


@pytest.mark.req("R272", "R276")
def test_a_plan_that_the_template_does_not_make_is_named(workshop: Workshop) -> None:
    """A parameter that somebody changed afterwards is found at the plan itself, and not where it leads."""
    recording = from_template(workshop)

    def other_order(event: e.PlanProposed) -> e.PlanProposed:
        steps = [{**event.plan["steps"][0], "params": {"order": "o2", "n": 2}}]
        return msgspec.structs.replace(event, plan={**event.plan, "steps": steps})

    found = changed(recording, e.PlanProposed, other_order)
    assert found is not None
    assert (found.event, found.field) == ("plan_proposed", "plan.steps.0.params.order")
    assert (found.recorded, found.expected) == ("o2", "o1")


@pytest.mark.req("R272", "R276")
def test_a_template_has_no_other_plan_again(workshop: Workshop) -> None:
    """That it knows no other plan after a refusal, and the words for that, follow too."""
    recording = from_template(workshop, NOBODY)
    rederived, facts = counts(replay_recording(recording))
    assert rederived["planning_failed"] == rederived["plan_proposed"] == 1
    assert not {"planning_failed", "plan_proposed"} & set(facts)
    found = changed(
        recording, e.PlanningFailed, lambda event: msgspec.structs.replace(event, reason="it was late")
    )
    assert found is not None
    assert (found.event, found.field, found.recorded) == ("planning_failed", "reason", "it was late")
    assert "the template knows no other plan" in str(found.expected)


@pytest.mark.req("R272", "R276")
def test_methods_take_the_same_ways_again(workshop: Workshop) -> None:
    """Each of three plans follows from the methods, the evidence and the setbacks before it."""
    recording = recorded(workshop, recovery(workshop, ("one", "two")))
    rederived, _ = counts(replay_recording(recording))
    assert rederived["plan_proposed"] == 3
    found = changed(
        recording,
        e.PlanProposed,
        lambda event: msgspec.structs.replace(event, plan={**event.plan, "steps": event.plan["steps"][:1]}),
    )
    assert found is not None
    assert (found.event, found.field) == ("plan_proposed", "plan.steps")


class Templates(Script):
    """A planner of somebody's own that has the name of the pack's."""

    name = "template"


class Careful(TemplatePlanner):
    """The pack's planner, with a change of somebody's own."""


def test_whoever_only_has_the_name_of_the_packs_planner_is_taken_at_their_word(workshop: Workshop) -> None:
    """Neither a planner with the same name, nor a subclass, nor the planner of another pack says what this pack plans."""
    workshop.tool("do.it")
    own, other = workshop.pack(templates=[COURSE]), workshop.pack(templates=[COURSE], version="2.0.0")
    for strange in (Templates(plan(step("z"))), Careful(own), TemplatePlanner(other)):
        rederived, facts = counts(replay_recording(recorded(workshop, own, planner=strange)))
        assert (facts["plan_proposed"], "plan_proposed" in rederived) == (1, False)


def test_a_planner_cannot_be_called_the_packs_afterwards(workshop: Workshop) -> None:
    """A plan of another planner that is marked as the pack's is a difference."""
    workshop.tool("do.it")
    recording = recorded(workshop, workshop.pack(), planner=Script(plan(step("a"))))
    found = changed(recording, e.PlanProposed, lambda event: msgspec.structs.replace(event, by_pack=True))
    assert found is not None
    assert (found.event, found.field) == ("plan_proposed", "by_pack")


@pytest.mark.req("R271")
def test_a_journal_from_before_is_taken_at_its_word(workshop: Workshop) -> None:
    """Events that do not tell who planned are facts, as they were when they were written."""
    recording = from_template(workshop)
    events = [codec.decode(data) for data in recording.events]
    older = [
        msgspec.structs.replace(each, by_pack=False) if isinstance(each, e.PlanProposed) else each
        for each in events
    ]
    old = msgspec.structs.replace(recording, events=tuple(map(codec.encode, older)))
    _, facts = counts(replay_recording(old))
    assert facts["plan_proposed"] == 1


# --- what is kept for a model ---


def planned_by_a_model(workshop: Workshop) -> Recording:
    """A run whose plan a model wrote."""
    return recorded(workshop, shop(workshop), request=ORDER, planner=planner(scripted(GOOD)))


def judged_by_a_model(workshop: Workshop) -> Recording:
    """A letter whose tone a model judges, and another one mends."""
    pack = desk(workshop, {"letter": LETTER}, quality={"rubric": TONE, "judge": "model"})
    critic = model({"judgements": []}, BAD_TONE, {"judgements": []}, FINE_TONE, name="scripted:critic")
    hand = model(mended(f"Thank you. {LETTER}"), name="scripted:hand")
    return recorded(workshop, pack, runtime={"critics": [critic], "repairers": [hand]}, plan=WRITE)


@pytest.mark.req("R274", "R276")
@pytest.mark.parametrize("asked", [planned_by_a_model, judged_by_a_model])
@pytest.mark.parametrize("field", ["tokens", "deadline", "call", "purpose"])
def test_what_was_kept_for_a_question_follows_from_it(
    workshop: Workshop, asked: Callable[[Workshop], Recording], field: str
) -> None:
    """Tokens, purpose, number and deadline of every question are derived; which model, and its price, are facts."""
    recording = asked(workshop)
    _, facts = counts(replay_recording(recording))
    assert facts["model_asked"] == facts["model_answered"] > 0

    def other(event: e.ModelAsked) -> e.ModelAsked:
        value = getattr(event, field)
        return msgspec.structs.replace(event, **{field: f"{value}x" if isinstance(value, str) else value + 1})

    found = changed(recording, e.ModelAsked, other)
    assert found is not None
    assert (found.event, found.field) == ("model_asked", field)


@pytest.mark.req("R276")
def test_a_question_that_the_budget_had_nothing_left_for_was_not_due(workshop: Workshop) -> None:
    """A price beyond the budget cannot have been kept: no call starts whose reservation exceeds what is left."""
    pack = shop(workshop, budget={"cost_microcents": 10**12})
    recording = recorded(workshop, pack, request=ORDER, planner=planner(scripted(GOOD)))
    found = changed(recording, e.ModelAsked, lambda event: msgspec.structs.replace(event, cost=10**12 + 1))
    assert found is not None
    assert (found.event, found.field) == ("model_asked", "type")


def test_a_question_that_is_not_kept_any_more_is_taken_at_its_word(workshop: Workshop) -> None:
    """Without the question its tokens are a fact; the deadline still follows from the pack."""
    recording = planned_by_a_model(workshop)
    prompts = {each.prompt for each in map(codec.decode, recording.events) if isinstance(each, e.ModelAsked)}
    bare = {digest: data for digest, data in recording.blobs.items() if digest not in prompts}
    forgetful = msgspec.structs.replace(recording, blobs=bare)
    assert len(bare) < len(recording.blobs)
    assert replay_recording(forgetful).is_equal
    found = changed(forgetful, e.ModelAsked, lambda event: msgspec.structs.replace(event, deadline=1))
    assert found is not None
    assert found.field == "deadline"
