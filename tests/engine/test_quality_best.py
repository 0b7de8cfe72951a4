"""The best judged outputs are kept: what a repair has made worse is not what a person is handed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.question import Question
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.record import FailureReport
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.core.approval import diagnosis_of
from tercet.core.outputs.rounds import told_round
from tercet.packs.pack import Pack
from tercet.tools import ToolContext

from .quality_desk import (
    BAD_TONE,
    FINE_TONE,
    GOOD,
    LEAKY,
    THRESHOLDS,
    TONE,
    WRITE,
    Carried,
    carry,
    demand_within_bounds,
    desk,
    last,
    mended,
    model,
    of,
    told,
)
from .test_quality_tests import CODE, JUDGED_BY_TESTS, PLAN
from .workshop import ADA, ASK, BOB, Death, Workshop, events

ALL = 4


async def count_tests(_: ToolContext, params: dict[str, Any]) -> Any:
    """A test command: of four tests as many pass as the code says that it does."""
    good = int(params["code"][0])
    cases = [
        f'<testcase classname="shop" name="test_{n}">{"" if n < good else "<failure/>"}</testcase>'
        for n in range(ALL)
    ]
    return {"junit": f"<testsuite>{''.join(cases)}</testsuite>"}


def coded(workshop: Workshop, draft: str, **header: Any) -> Pack:
    """A pack whose output is code of which so many tests pass."""
    workshop.tool("test.unit", count_tests, mode="read_only")
    decision: JsonObject = {
        "outputs_schema": CODE,
        "required_outputs": ("code",),
        "thresholds": ({"name": "test_pass_rate"},),
        **header.pop("decision", {}),
    }
    quality: JsonObject = {
        **JUDGED_BY_TESTS,
        "tests": [{"tool": "test.unit", "params": {"code": {"$output": "/code"}}, "vouches": True}],
    }
    return desk(workshop, {"code": draft}, quality=quality, decision=decision, **header)


def code(text: str) -> Any:
    """A line of a model that writes this code, whatever part it is asked for."""

    def answer(question: Question) -> JsonObject:
        schema = question.answer_schema or {}
        kind = schema["properties"]["replacement"].get("type")
        return {"replacement": {"code": text} if kind == "object" else text}

    return answer


def mend(workshop: Workshop, *course: str, url: str = "memory:", **header: Any) -> Carried:
    """A run whose draft is the first of these, and whose repairs are the others; then no repair is left."""
    draft, *repairs = course
    budget = {"max_repairs": len(repairs), **header.pop("budget", {})}
    pack = coded(workshop, draft, budget=budget, **header)
    return carry(workshop, pack, url, plan=PLAN, repairers=[model(*map(code, repairs))])


@pytest.mark.req("R246")
@pytest.mark.parametrize(
    ("course", "number", "kept"),
    [
        (("2 draft", "1 worse"), 0, "2 draft"),
        (("1 draft", "3 better", "2 worse", "0 worst"), 1, "3 better"),
        (("1 draft", "2 better", "2 as good", "0 worst"), 2, "2 as good"),
    ],
)
def test_a_person_is_handed_the_best_outputs(
    workshop: Workshop, url: str, course: tuple[str, ...], number: int, kept: str
) -> None:
    """Neither the draft nor the last, but what was judged best, and of equally good ones the later; the event says which
    round that is, and all that is shown belongs to it."""
    done = mend(workshop, *course, url=url)
    most = len(course) - 1
    reported = last(e.RunReported, done.found)
    assert (done.result.status, done.result.outputs) == ("paused", {"code": kept})
    assert (reported.restored["round"], reported.restored["of"]) == (number, most)
    assert done.state.quality.restored == {"round": number, "of": most}
    rate = int(kept[0]) / ALL
    assert f"test_pass_rate is {rate}, below 1.0" in done.result.reason
    assert told_round(done.state.quality.restored) in done.result.reason
    (measured,) = [each for each in reported.exit["thresholds"] if each["name"] == "test_pass_rate"]
    assert measured["score"] == rate
    wrong = {f"shop.test_{n}" for n in range(int(kept[0]), ALL)}
    left = diagnosis_of(done.state)
    assert len(left) == len(wrong)
    assert all(any(f"the test {name} fails" in each for each in left) for name in wrong)
    found = done.state.quality.diagnosis["defects"]
    assert {each["description"] for each in found} == {f"the test {name} fails" for name in wrong}


@pytest.mark.parametrize("course", [("1 draft", "3 better"), ("2 draft", "2 other"), ("1 draft",)])
def test_the_last_outputs_are_kept_where_none_are_better(workshop: Workshop, course: tuple[str, ...]) -> None:
    """What became better, or stayed as good, is handed over as it is; and so is what was never repaired."""
    done = mend(workshop, *course)
    assert (done.result.status, done.result.outputs) == ("paused", {"code": course[-1]})
    assert (last(e.RunReported, done.found).restored, done.state.quality.restored) == ({}, {})


def test_what_is_committed_is_the_last(workshop: Workshop) -> None:
    """A worse round on the way changes nothing: all tests pass in the end, and that is committed."""
    done = mend(workshop, "2 draft", "0 worse", "4 good")
    assert (done.result.status, done.result.outputs) == ("completed", {"code": "4 good"})
    assert last(e.RunReported, done.found).restored == {}


def test_a_repair_goes_on_from_the_last_outputs(workshop: Workshop) -> None:
    """Asked about the same outputs a model would say the same again: so it is asked about what it has written."""
    pack = coded(workshop, "2 draft", budget={"max_repairs": 2})
    mender = model(code("1 worse"), code("0 worst"))
    done = carry(workshop, pack, plan=PLAN, repairers=[mender])
    assert done.result.outputs == {"code": "2 draft"}
    first, second = map(told, mender.questions)
    shown = re.compile(r"(?:part to be replaced|whole document): <data-\w+> (.*?) </data-")
    assert "2 draft" in shown.findall(first)[0]
    assert "1 worse" in shown.findall(second)[0]


@pytest.mark.req("R143", "R206")
def test_what_is_accepted_in_part_is_the_best_and_the_record_says_which(workshop: Workshop, url: str) -> None:
    """A person takes what they were shown; another process commits exactly that, and tells after which repair it was."""
    pack = coded(workshop, "2 draft", budget={"max_repairs": 2})

    async def main() -> None:
        async with workshop.journal(url) as journal:
            menders = [model(code("3 better"), code("0 worst"))]
            async with workshop.runtime(pack, journal, repairers=menders) as runtime:
                result = await runtime.run(ASK, plan=PLAN, actor=ADA)
                assert result.gate is not None
                assert "after repair 1 of 2" in result.gate.shown["reason"]
            async with workshop.runtime(pack, journal) as other:
                await other.decide(result.gate.id, "accept_partial", actor=BOB, note="good enough")
                done = await other.resume(result.session_id)
                assert (done.status, done.outputs) == ("completed", {"code": "3 better"})
                record = await other.record(result.session_id)
                assert record.report.status == "partial"
                assert "good enough; these are the outputs after repair 1 of 2" in record.report.rationale
                ended = last(e.SessionEnded, await events(journal, result.session_id))
                assert ended.outputs == {"code": "3 better"}

    workshop.run(main())


def test_outputs_that_are_judged_afresh_are_the_best(workshop: Workshop) -> None:
    """Whoever resumes a run that was handed over has its best outputs judged again, and mended from there on."""
    pack = coded(workshop, "3 draft", budget={"max_repairs": 1})

    async def main() -> None:
        async with workshop.runtime(pack, repairers=[model(code("1 worse"))]) as runtime:
            result = await runtime.run(ASK, plan=PLAN, actor=ADA)
            again = await runtime.resume(result.session_id)
            assert (again.status, again.outputs) == ("paused", {"code": "3 draft"})
            state, found = await demand_within_bounds(runtime.journal, result.session_id)
            assert [event.result["passed"] for event in of(e.TestsRun, found)] == [3, 1, 3]
            assert (last(e.RunReported, found).restored, state.quality.restored) == ({}, {})

    workshop.run(main())


@pytest.mark.req("R145")
def test_what_a_person_sent_back_is_not_handed_to_them_again(workshop: Workshop) -> None:
    """It passed every test and was not wanted: what came of the change is handed over, although more tests fail now."""
    pack = coded(workshop, "4 draft", decision={"requires_human_approval": True}, budget={"max_repairs": 2})

    async def main() -> None:
        menders = [model(code("2 changed"), code("1 worse"))]
        async with workshop.runtime(pack, repairers=menders) as runtime:
            result = await runtime.run(ASK, plan=PLAN, actor=ADA)
            assert result.gate is not None
            assert result.gate.kind == "output"
            await runtime.modify(result.gate.id, actor=BOB, note="another way, please")
            done = await runtime.resume(result.session_id)
            assert (done.status, done.outputs) == ("paused", {"code": "2 changed"})
            found = await events(runtime.journal, result.session_id)
            assert last(e.RunReported, found).restored["round"] == 1

    workshop.run(main())


def test_a_run_that_is_worn_out_leaves_its_best_outputs(workshop: Workshop) -> None:
    """It has gone through as many phases as it may in the middle of the loop: what is left is the best that was judged."""
    pack = coded(workshop, "3 draft", budget={"max_repairs": 9, "max_iterations": 10}, on_failure="keep")

    async def main() -> None:
        menders = [model(*[code("1 worse")] * 9)]
        async with workshop.runtime(pack, repairers=menders) as runtime:
            result = await runtime.run(ASK, plan=PLAN, actor=ADA)
            assert (result.status, result.outputs) == ("failed", {"code": "3 draft"})
            found = await events(runtime.journal, result.session_id)
            assert last(e.GivenUp, found).restored["round"] == 0
            report = await runtime.artifact(result.session_id)
            assert isinstance(report, FailureReport)
            assert report.partial_output == {"code": "3 draft"}

    workshop.run(main())


@pytest.mark.req("R271", "R273")
def test_a_session_of_before_hands_over_its_last_outputs(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that does not go by the rule hands over what it would have handed over then, and replays so."""
    framed = Pack.run_context
    older = tuple(set(Behaviour) - {Behaviour.BEST_HANDED_OVER})

    def old_frame(self: Pack, **given: Any) -> Any:
        return framed(self, **given).model_copy(update={"behaviour": older})

    monkeypatch.setattr(Pack, "run_context", old_frame)
    done = mend(workshop, "3 draft", "1 worse")
    assert (done.result.status, done.result.outputs) == ("paused", {"code": "1 worse"})
    assert last(e.RunReported, done.found).restored == {}
    assert done.state.quality.best is None


def test_an_unsafe_letter_is_not_the_best(workshop: Workshop) -> None:
    """A repair that leaves a key in the text is worse than a curt one, whatever else it has made better."""
    pack = desk(
        workshop,
        {"letter": GOOD},
        quality={"rubric": TONE},
        decision={"thresholds": THRESHOLDS},
        budget={"max_repairs": 1},
    )
    critic = model(BAD_TONE, FINE_TONE)
    done = carry(workshop, pack, plan=WRITE, critics=[critic], repairers=[model(mended(LEAKY))])
    assert (done.result.status, done.result.outputs) == ("paused", {"letter": GOOD})
    assert last(e.RunReported, done.found).restored["round"] == 0


@pytest.mark.slow
@pytest.mark.req("R116")
@pytest.mark.parametrize("point", ["before_append", "after_append"])
def test_the_best_is_not_forgotten_when_a_process_dies(tmp_path: Path, point: str) -> None:
    """Wherever a process dies, the next one hands over the same outputs, of the same round."""

    def write(question: Question) -> JsonObject:
        return code("0 worst" if "3 better" in told(question) else "3 better")(question)

    async def live(workshop: Workshop, url: str, nth: int) -> bool:
        pack = coded(workshop, "2 draft", budget={"max_repairs": 2})
        death = Death(point, nth)
        async with workshop.journal(url) as journal:
            async with workshop.runtime(
                pack, journal, repairers=[model(*[write] * 4)], crash=death
            ) as mortal:
                ended = await death.of(mortal.run(ASK, plan=PLAN, actor=ADA))
            rows = await journal.sessions("default", limit=9)
            if not rows:  # it died before anything was durable
                return False
            session = rows[0].session_id
            async with workshop.runtime(pack, journal, repairers=[model(*[write] * 4)]) as heir:
                if rows[0].status == "in_progress":  # else it was handed over before it died
                    await heir.resume(session)
                state, _ = await demand_within_bounds(journal, session)
                assert (state.status, state.outputs) == ("paused", {"code": "3 better"})
                assert state.quality.restored == {"round": 1, "of": 2}
        return ended is not None

    deaths = 0
    while not (each := Workshop()).run(live(each, f"sqlite:///{tmp_path / f'{deaths}.db'}", deaths + 1)):
        deaths += 1
    assert deaths >= 8
