"""Another pack's rubric, thresholds and questions: what-if finds the runs whose outputs they would judge otherwise."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from engine.quality_desk import GOOD, THRESHOLDS, TONE, desk, model, run_accepted
from engine.workshop import Workshop
from tercet.contracts.shape import JsonObject
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording, load
from tercet.replay.what_if import Rejudged, what_if

TONES: JsonObject = {"score": 0.85, "defects": []}


def rubric(threshold: float = 0.8, **changes: Any) -> JsonObject:
    """The rubric with another threshold, or another dimension for the tone."""
    found: JsonObject = {**deepcopy(TONE), "threshold": threshold}
    found["dimensions"][0].update(changes)
    return found


def letters(rules: JsonObject, **header: Any) -> Pack:
    """A pack that judges letters by a rubric."""
    decision = {"thresholds": header.pop("thresholds", THRESHOLDS)}
    return desk(Workshop(), {"letter": GOOD}, quality={"rubric": rules}, decision=decision, **header)


def written(workshop: Workshop) -> Recording:
    """A letter that a model found kind enough."""
    pack = desk(workshop, {"letter": GOOD}, quality={"rubric": rubric()}, decision={"thresholds": THRESHOLDS})
    journal = MemoryJournal()

    async def main() -> Recording:
        critics = [model(*[TONES] * 9, name="scripted:critic")]
        async with workshop.runtime(pack, journal, critics=critics) as runtime:
            result = await run_accepted(runtime)
            assert result.status == "completed"
        return await load(journal, "default", result.session_id)

    return workshop.run(main())


def only(run: Recording, pack: Pack) -> Rejudged:
    """What becomes of one run under a pack."""
    [found] = what_if([run], pack, workers=1).runs
    return found


def test_another_version_and_a_lower_threshold_change_nothing(workshop: Workshop) -> None:
    """The same answers are enough for rules that ask for no more."""
    run = written(workshop)
    for other in (letters(rubric(), version="2.0.0"), letters(rubric(0.5))):
        found = only(run, other)
        assert (found.outcome, found.change, found.error) == ("unchanged", None, None)


@pytest.mark.req("R276")
def test_a_raised_threshold_touches_the_run(workshop: Workshop) -> None:
    """A letter that was good enough would be mended: the change is where it was judged, with the reason."""
    change = only(written(workshop), letters(rubric(0.95))).change
    assert change is not None
    assert (change.event, change.old.verdict, change.new.verdict) == ("outputs_critiqued", "exit", "repair")
    assert "the rubric is not met" in change.new.reasons[0]


@pytest.mark.req("R276")
def test_a_question_that_nobody_has_answered_is_no_unchanged_verdict(workshop: Workshop) -> None:
    """What a model would say to another question is not known, and that is told; it is told the minimum as well."""
    run = written(workshop)
    for other in (rubric(question="Is it short?"), rubric(minimum=0.9)):
        change = only(run, letters(other)).change
        assert change is not None
        assert (change.event, change.new.verdict) == ("outputs_critiqued", "unknown")


@pytest.mark.req("R276")
def test_a_pack_that_looks_at_no_outputs_is_a_change(workshop: Workshop) -> None:
    """Outputs that were looked at would go out unseen."""
    run = written(workshop)
    bare = Workshop()
    bare.tool("do.it", mode="read_only")
    change = only(run, bare.pack()).change
    assert change is not None
    assert (change.event, change.new.verdict) == ("outputs_verified", "wait")
