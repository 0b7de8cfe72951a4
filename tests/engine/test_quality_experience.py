"""What runs of one kind teach each other: of whom a run learns, of whom not, and where it is written what it went by."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tercet.contracts.request import Actor, Request
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.engine.streams import experience
from tercet.engine.streams.experience import Lesson
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import read_all
from tercet.runtime import Runtime

from .quality_desk import (
    BAD_TONE,
    FINE_TONE,
    GOOD,
    LEAKY,
    THRESHOLDS,
    TONE,
    WRITE,
    accept,
    desk,
    last,
    mended,
    model,
    run_accepted,
)
from .workshop import ADA, ASK, BOB, Death, Workshop, events


async def drawn(runtime: Runtime, session: str) -> e.ExperienceDrawn:
    """What a run went by."""
    return last(e.ExperienceDrawn, await events(runtime.journal, session))


async def lessons(journal: Journal, task_class: str = "letter", tenant: str = "default") -> list[Lesson]:
    """Everything that was taught."""
    stored = await read_all(journal, tenant, experience.stream_of(task_class))
    return [msgspec.json.decode(each.data, type=Lesson) for each in stored]


def tallies(event: e.ExperienceDrawn) -> list[tuple[str, int, int]]:
    """How often each class of defects was tried and resolved."""
    return [(each["root_cause"], each["tried"], each["resolved"]) for each in event.rates["tallies"]]


async def test_how_often_repairs_helped_is_learned_run_by_run(workshop: Workshop, url: str) -> None:
    """The first run goes by nothing, the second by what the first one did, and each says so in an event of its own."""
    pack = desk(workshop, {"letter": LEAKY})

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        seen = [tallies(await drawn(runtime, (await run_accepted(runtime)).session_id)) for _ in range(3)]
        assert seen == [[], [("SAFETY_VIOLATION", 1, 1)], [("SAFETY_VIOLATION", 2, 2)]]


async def test_other_kinds_of_tasks_teach_nothing(workshop: Workshop) -> None:
    """A decision with another task class, in the same journal, begins anew."""
    letters = desk(workshop, {"letter": LEAKY})
    others = letters.model_copy(
        update={
            "decisions": tuple(
                each.model_copy(
                    update={
                        "quality": each.quality and each.quality.model_copy(update={"task_class": "memo"})
                    }
                )
                for each in letters.decisions
            )
        }
    )

    async with workshop.journal("memory:") as journal:
        async with workshop.runtime(letters, journal) as runtime:
            await run_accepted(runtime)
        async with workshop.runtime(others, journal) as runtime:
            result = await run_accepted(runtime)
            learned = await drawn(runtime, result.session_id)
            assert (learned.task_class, tallies(learned)) == ("memo", [])
        assert len(await lessons(journal)) == len(await lessons(journal, "memo")) == 1


async def test_other_tenants_teach_nothing(workshop: Workshop) -> None:
    """What one tenant's runs have taught, another's never hear of."""
    pack = desk(workshop, {"letter": LEAKY})

    async with workshop.journal("memory:") as journal:
        async with workshop.runtime(pack, journal, tenant="one") as runtime:
            await run_accepted(runtime)
        async with workshop.runtime(pack, journal, tenant="two") as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=Actor(id="zoe"))
            found = await events(journal, result.session_id, "two")
            assert tallies(last(e.ExperienceDrawn, found)) == []
        assert len(await lessons(journal, tenant="one")) == 1


@pytest.mark.req("R143")
async def test_a_run_like_none_before_it_is_novel_and_the_next_like_it_is_not(workshop: Workshop) -> None:
    """Novelty is measured against the runs of the same kind; the distance and the nearest one stand in the event."""
    pack = desk(workshop, {"letter": GOOD}, quality={"novelty": 0.5})

    async with workshop.runtime(pack) as runtime:
        first = await run_accepted(runtime)
        assert first.status == "awaiting_gate"
        assert (await drawn(runtime, first.session_id)).novelty["nearest"] is None
        assert first.gate is not None
        await runtime.approve(first.gate.id, actor=BOB)
        await runtime.resume(first.session_id)
        second = await run_accepted(runtime)
        known = (await drawn(runtime, second.session_id)).novelty
        assert (second.status, known["nearest"], known["distance"]) == (
            "completed",
            first.session_id,
            0.0,
        )
        other = Request(intent="work", input={"weather": True, "town": "x", "people": [1], "mood": {}})
        third = await runtime.run(other, plan=WRITE, actor=ADA)
        far = (await drawn(runtime, third.session_id)).novelty
        assert far["nearest"] in (first.session_id, second.session_id)
        assert (third.status == "awaiting_gate") == (far["distance"] > far["limit"])
        assert 0 < far["distance"] < 1


async def test_what_people_took_and_did_not_is_kept_for_calibration(workshop: Workshop) -> None:
    """A yes, and a no, at an output gate, each with the features that were measured."""
    pack = desk(workshop, {"letter": GOOD}, decision={"requires_human_approval": True}, on_failure="keep")

    async with workshop.runtime(pack) as runtime:
        for says in (runtime.approve, runtime.deny):
            result = await run_accepted(runtime)
            assert result.gate is not None
            await says(result.gate.id, actor=BOB)
            await runtime.resume(result.session_id)
        known = await experience.recall(runtime.journal, "default", "letter")
        assert [row.is_correct for row in known.outcomes] == [True, False]
        assert all(row.features["critic"] > 0.8 for row in known.outcomes)


async def test_the_gain_of_repairs_is_learned_from_steered_ones(workshop: Workshop) -> None:
    """After enough repairs that a controller steered, the next run goes by their gain, and says so."""
    pack = desk(
        workshop,
        {"letter": "cold"},
        quality={"rubric": TONE},
        decision={"thresholds": THRESHOLDS},
        control={"letter": {"setpoint": 1.0, "epsilon": 0.05, "k_max": 6}},
    )

    seen: list[JsonObject] = []
    async with workshop.journal("memory:") as journal:
        for n in range(10):
            better = {"score": 0.7 + n / 100, "defects": BAD_TONE["defects"]}
            critic = model(BAD_TONE, better, *[FINE_TONE] * 3)
            mender = model(mended("warm"), mended("warmer"), mended("hot"))
            async with workshop.runtime(pack, journal, critics=[critic], repairers=[mender]) as runtime:
                result = await run_accepted(runtime)
                assert result.status == "completed", result.reason
                seen.append((await drawn(runtime, result.session_id)).gain)
    assert (seen[0], seen[1]) == ({}, {})
    assert seen[-1]["gain"] > 0
    assert seen[-1]["sample"] >= 8


@pytest.mark.slow
def test_a_lesson_that_is_written_twice_counts_once(tmp_path: Path) -> None:
    """A process that dies anywhere, also between the lesson and the end of its run, teaches the next run one thing."""
    written: list[int] = []

    async def main(workshop: Workshop, url: str, nth: int) -> bool:
        pack = desk(workshop, {"letter": LEAKY})
        async with workshop.journal(url) as journal:
            death = Death("before_append", nth)
            async with workshop.runtime(pack, journal, crash=death) as mortal:
                ended = await death.of(run_accepted(mortal))
            rows = await journal.sessions("default", limit=10)
            if not rows:
                return False
            async with workshop.runtime(pack, journal) as runtime:
                result = ended or await accept(runtime, await runtime.resume(rows[0].session_id))
                assert result.status == "completed"
                taught = await lessons(journal)
                written.append(len(taught))
                assert {each.session for each in taught} == {result.session_id}
                known = await experience.recall(journal, "default", "letter")
                assert [(each.tried, each.resolved) for each in known.rates.tallies] == [(1, 1)]
                again = await run_accepted(runtime)
                assert tallies(await drawn(runtime, again.session_id)) == [("SAFETY_VIOLATION", 1, 1)]
        return ended is not None

    for nth in range(1, 100):
        workshop = Workshop()
        if workshop.run(main(workshop, f"sqlite:///{tmp_path / f'{nth}.db'}", nth)):
            break
    assert set(written) == {1, 2}  # at least one of them died behind its lesson


def test_the_same_lesson_twice_is_one() -> None:
    """Whoever writes what a session taught once more changes nothing; the last word of it counts."""
    log: tuple[JsonObject, ...] = (
        {
            "defect": {"dimension": "safety", "severity": 4, "description": "x"},
            "strategy": "MINIMAL_EDIT",
            "root_cause": "SAFETY_VIOLATION",
            "success": True,
            "means": "rule",
        },
    )
    one = Lesson(session="ses_1", log=log)
    known = experience.Experience([one, one, Lesson(session="ses_2", log=log)])
    assert [(each.tried, each.resolved) for each in known.rates.tallies] == [(2, 2)]
