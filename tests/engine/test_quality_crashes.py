"""Runs through the loop that are cut short: by death at every append, by a stop, a pause and a cancellation in each phase."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.question import ModelFault, Question, Reply
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.runtime import Runtime
from tercet.testing.models import ScriptedModel
from tercet.tools import ToolContext

from .quality_desk import (
    BAD_TONE,
    FINE_TONE,
    GOOD,
    KEY,
    THRESHOLDS,
    TONE,
    WRITE,
    accept,
    demand_within_bounds,
    desk,
    mended,
    model,
    of,
    way,
)
from .test_quality_tests import adding, junit
from .workshop import ADA, ASK, BOB, Death, Workshop, events

KIND = f"Thank you. {GOOD}"


async def nothing(_: str) -> None:
    """A crash point at which nothing happens."""


def opinion(question: Question) -> JsonObject:
    """A critic whose answer depends on the question alone: content once somebody is thanked."""
    if question.purpose == "judge":
        return {"says": "unsure", "reason": "", "quotes": []}
    return FINE_TONE if "Thank you" in question.messages[0].text else BAD_TONE


def hand(question: Question) -> Any:
    """A repairer likewise: its first way of asking brings no answer, the next one does."""
    return mended(KIND)(question)


def judged(workshop: Workshop, *, is_gated: bool) -> Pack:
    """A pack whose outputs are tested, judged by a model, criticised by one, repaired by rule and by model, and accepted."""
    ran: list[str] = []
    workshop.tool("test.unit", adding(ran, "unit"), mode="read_only")
    return desk(
        workshop,
        {"letter": f"{GOOD} Sign in with {KEY}, where a + b is asked for."},
        quality={
            "rubric": TONE,
            "judge": "model",
            "tests": [{"tool": "test.unit", "params": {"code": "a + b"}, "output": "/letter"}],
        },
        decision={"thresholds": THRESHOLDS, "requires_human_approval": is_gated},
    )


def timeless(record: Any) -> Any:
    """A record without times and attempts: a run that died took longer, and what it was at was tried again."""
    if isinstance(record, dict):
        return {
            name: timeless(value)
            for name, value in record.items()  # pyright: ignore[reportUnknownVariableType]
            if name not in ("decided_at", "started_at", "latency_ms", "attempt")
        }
    return [timeless(each) for each in record] if isinstance(record, list) else record  # pyright: ignore[reportUnknownVariableType]


class Lives:
    """A run that may die, and its second life: what both asked of models."""

    def __init__(self, url: str, *, is_gated: bool) -> None:
        self.workshop = Workshop()
        self.pack = judged(self.workshop, is_gated=is_gated)
        self.url = url
        self.models: list[ScriptedModel] = []

    def _runtime(self, journal: Journal, crash: Any) -> Runtime:
        critic, mender = model(*[opinion] * 20, name="scripted:critic"), model(*[hand] * 20)
        self.models += [critic, mender]
        return self.workshop.runtime(self.pack, journal, critics=[critic], repairers=[mender], crash=crash)

    async def lead(self, death: Death | None) -> tuple[bool, Any, Any, list[e.Event]]:
        """Whether the first life came to its end, and how the run ended: result, record and events."""
        async with self.workshop.journal(self.url) as journal:
            async with self._runtime(journal, death or nothing) as first:
                living = self._whole(first, None)
                ended = await (living if death is None else death.of(living))
            rows = await journal.sessions("default", limit=9)
            if not rows:
                return False, None, None, []
            async with self._runtime(journal, nothing) as second:
                result = ended or await self._whole(second, rows[0].session_id)
                record = (await second.record(result.session_id)).model_dump(mode="json", exclude_none=True)
                _, found = await demand_within_bounds(journal, result.session_id)
            return ended is not None, result, record, found

    async def _whole(self, runtime: Runtime, session: str | None) -> Any:
        result = await (
            runtime.run(ASK, plan=WRITE, actor=ADA) if session is None else runtime.resume(session)
        )
        if result.gate is not None:
            await runtime.approve(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
        return result

    @property
    def asked(self) -> list[str]:
        """The hashes of all questions that reached a model."""
        return [question.hash for each in self.models for question in each.questions]


@pytest.mark.slow
@pytest.mark.req("R116")
@pytest.mark.parametrize("point", ["before_append", "after_append"])
@pytest.mark.parametrize("is_gated", [False, True])
def test_a_run_through_the_loop_survives_a_death_at_every_append(
    tmp_path: Path, point: str, is_gated: bool
) -> None:
    """It ends with the same outputs and the same record, but for its times and attempts; and no model is asked again what it answered."""
    whole = Lives(f"sqlite:///{tmp_path / 'whole.db'}", is_gated=is_gated)
    _, wanted, record, undisturbed = whole.workshop.run(whole.lead(None))
    assert (wanted.status, wanted.outputs) == ("completed", {"letter": KIND})
    deaths = 0
    for nth in range(1, 200):
        lives = Lives(f"sqlite:///{tmp_path / f'{nth}.db'}", is_gated=is_gated)
        has_lived, result, left, found = lives.workshop.run(lives.lead(Death(point, nth)))
        if result is None:
            continue
        assert (result.status, result.outputs) == (wanted.status, wanted.outputs)
        assert timeless(left) == timeless(record)
        # Between an answer and its event, and between an opened gate and its telling, is all that can be lost.
        answered = [event for event in of(e.ModelAnswered, found) if not event.code]
        assert len(answered) == len(of(e.ModelAnswered, undisturbed))
        assert len(lives.asked) - len(answered) <= 1
        assert max(Counter(lives.asked).values()) <= 2
        assert way(found) == way(undisturbed)
        if has_lived:
            break
        deaths += 1
    assert deaths >= 15


class Slow(ScriptedModel):
    """A model that answers by a rule, but once takes for ever: then somebody else has the word."""

    def __init__(self, name: str, rule: Callable[[Question], Any], stuck: str) -> None:
        super().__init__(name, answers=[rule] * 50)
        self.stuck = stuck
        self.is_reached = asyncio.Event()

    async def ask(self, question: Question) -> Reply:
        """The answer, unless this is where it is stuck."""
        if question.purpose == self.stuck and not self.is_reached.is_set():
            self.is_reached.set()
            await asyncio.Event().wait()
        return await super().ask(question)


PHASES: dict[str, str] = {"judge": "VERIFY", "critique": "CRITIQUE", "repair": "REPAIR"}
"""Where a model is asked for what."""
How = Literal["stop", "pause", "cancel"]


async def _interrupt(how: How, runtime: Runtime, session: str) -> Awaitable[Any] | None:
    match how:
        case "stop":
            runtime.stop()
            return None
        case "pause":
            return asyncio.ensure_future(runtime.pause(session, actor=BOB, note="wait"))
        case "cancel":
            return asyncio.ensure_future(runtime.cancel(session, actor=BOB, note="enough"))


@pytest.mark.parametrize("purpose", PHASES)
@pytest.mark.parametrize("how", ["stop", "pause", "cancel"])
async def test_a_run_can_be_interrupted_while_a_model_is_asked(
    workshop: Workshop, url: str, purpose: str, how: How
) -> None:
    """In each phase the call is given up, what was kept for it counts, and the run is paused where it was, or over."""
    pack = judged(workshop, is_gated=False)
    slow = [
        Slow("slow:critic", opinion, "" if purpose == "repair" else purpose),
        Slow("slow:mender", hand, purpose if purpose == "repair" else ""),
    ]

    async def main() -> None:
        reached = next(each for each in slow if each.stuck == purpose).is_reached
        async with (
            workshop.journal(url) as journal,
            workshop.runtime(pack, journal, critics=slow[:1], repairers=slow[1:]) as runtime,
        ):
            running = asyncio.ensure_future(runtime.run(ASK, plan=WRITE, actor=ADA))
            await reached.wait()
            (row,) = await journal.sessions("default", limit=9)
            said = await _interrupt(how, runtime, row.session_id)
            result = await running
            if said is not None:
                await said
            state, found = await demand_within_bounds(journal, row.session_id)
            if how == "cancel":
                assert result.status == "cancelled"
                return
            assert (result.status, state.halted_from) == ("paused", PHASES[purpose])
            lost = [event for event in of(e.ModelAnswered, found) if event.code]
            assert len(lost) == 1
            before = len([event for event in of(e.ModelAnswered, found) if not event.code])
            done = await accept(runtime, await runtime.resume(row.session_id))
            assert (done.status, done.outputs) == ("completed", {"letter": KIND})
            _, found = await demand_within_bounds(journal, row.session_id)
            answered = [event for event in of(e.ModelAnswered, found) if not event.code]
            hashes = [question.hash for each in slow for question in each.questions]
            assert len(answered) == len(hashes) == len(set(hashes))
            assert before < len(answered)

    await main()


def test_what_was_answered_after_a_fault_is_not_asked_for_again(tmp_path: Path) -> None:
    """One question found nobody, the next one was answered, then the process died: the second life asks the first one
    again, and takes the recorded answer for the second."""
    both: JsonObject = {
        "dimensions": [
            {"name": "tone", "weight": 0.5, "minimum": 0.1, "scorer": "model", "question": "Kind?"},
            {"name": "style", "weight": 0.5, "minimum": 0.1, "scorer": "model", "question": "Short?"},
        ],
        "threshold": 0.1,
    }

    def faulty(question: Question) -> Any:
        is_first = "Kind?" in question.messages[0].text
        return ModelFault("down", code="model_refused") if is_first else FINE_TONE

    async def main(workshop: Workshop, url: str, nth: int) -> bool:
        pack = desk(
            workshop,
            {"letter": GOOD},
            quality={"rubric": both},
            decision={"thresholds": THRESHOLDS},
            budget={"max_step_retries": 0, "max_repairs": 0},
        )
        death = Death("after_append", nth)
        async with workshop.journal(url) as journal:
            async with workshop.runtime(pack, journal, critics=[model(*[faulty] * 9)], crash=death) as mortal:
                ended = await death.of(mortal.run(ASK, plan=WRITE, actor=ADA))
            (row,) = await journal.sessions("default", limit=9)
            if row.status == "paused":  # it came to its rest before it died
                return True
            async with workshop.runtime(pack, journal, critics=[model(*[faulty] * 9)]) as runtime:
                result = ended or await runtime.resume(row.session_id)
                assert result.status == "paused"
            found = await events(journal, row.session_id)
            assert len([each for each in of(e.ModelAnswered, found) if not each.code]) == 1
        return ended is not None

    deaths = 0
    while not (each := Workshop()).run(main(each, f"sqlite:///{tmp_path / f'{deaths}.db'}", deaths + 1)):
        deaths += 1
    assert deaths >= 8


@pytest.mark.parametrize("how", ["stop", "pause", "cancel"])
async def test_a_run_can_be_interrupted_while_a_test_command_runs(workshop: Workshop, how: How) -> None:
    """Nobody waits for a test that takes an hour: it is given up, nothing is said of it, and it is called again later."""
    hung = asyncio.Event()
    tries: list[int] = []

    async def hang(_: Any, __: dict[str, Any]) -> Any:
        tries.append(1)
        if len(tries) == 1:
            hung.set()
            await asyncio.Event().wait()
        return {"junit": junit(passed=1)}

    workshop.tool("test.unit", hang, mode="read_only", timeout_ms=3_600_000)
    pack = desk(workshop, {"letter": GOOD}, quality={"tests": [{"tool": "test.unit", "output": "/letter"}]})

    async with workshop.runtime(pack) as runtime:
        running = asyncio.ensure_future(runtime.run(ASK, plan=WRITE, actor=ADA))
        await hung.wait()
        (row,) = await runtime.journal.sessions("default", limit=9)
        said = await _interrupt(how, runtime, row.session_id)
        result = await running
        if said is not None:
            await said
        _, found = await demand_within_bounds(runtime.journal, row.session_id)
        assert of(e.TestsRun, found) == []
        assert result.status == ("cancelled" if how == "cancel" else "paused")
        if how != "cancel":
            assert (await accept(runtime, await runtime.resume(row.session_id))).status == "completed"


def test_a_test_command_that_was_cut_off_is_called_again(tmp_path: Path) -> None:
    """It changes nothing, so a process that dies in it leaves nothing to settle."""
    workshop = Workshop()
    hung = asyncio.Event()
    tries: list[int] = []

    async def hang(_: Any, __: dict[str, Any]) -> Any:
        tries.append(1)
        if len(tries) == 1:
            hung.set()
            await asyncio.Event().wait()
        return {"junit": junit(passed=1)}

    workshop.tool("test.unit", hang, mode="read_only", timeout_ms=3_600_000)
    pack = desk(workshop, {"letter": GOOD}, quality={"tests": [{"tool": "test.unit", "output": "/letter"}]})

    async def main() -> None:
        async with workshop.journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
            async with workshop.runtime(pack, journal) as first:
                running = asyncio.ensure_future(first.run(ASK, plan=WRITE, actor=ADA))
                await hung.wait()
                running.cancel()
                await asyncio.wait([running])
            (row,) = await journal.sessions("default", limit=9)
            async with workshop.runtime(pack, journal) as second:
                result = await accept(second, await second.resume(row.session_id))
                assert (result.status, len(tries)) == ("completed", 2)
                assert len(of(e.TestsRun, await events(journal, row.session_id))) == 1

    workshop.run(main())


@pytest.mark.req("R116", "R255", "R329")
@pytest.mark.parametrize("purpose", PHASES)
def test_a_process_that_dies_while_a_model_is_asked_is_replaced(tmp_path: Path, purpose: str) -> None:
    """In each phase the next process asks what had no answer, and nothing else again; it ends as if nobody had died."""
    workshop = Workshop()
    pack = judged(workshop, is_gated=False)
    first = [
        Slow("slow:critic", opinion, "" if purpose == "repair" else purpose),
        Slow("slow:mender", hand, purpose if purpose == "repair" else ""),
    ]
    second = [Slow("slow:critic", opinion, ""), Slow("slow:mender", hand, "")]

    async def main() -> None:
        reached = next(each for each in first if each.stuck == purpose).is_reached
        async with workshop.journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
            async with workshop.runtime(pack, journal, critics=first[:1], repairers=first[1:]) as mortal:
                running = asyncio.ensure_future(mortal.run(ASK, plan=WRITE, actor=ADA))
                await reached.wait()
                running.cancel()
                await asyncio.wait([running])
            (row,) = await journal.sessions("default", limit=9)
            state, _ = await _as_left(journal, row.session_id)
            assert (state.phase, row.status) == (PHASES[purpose], "in_progress")
            async with workshop.runtime(pack, journal, critics=second[:1], repairers=second[1:]) as heir:
                done = await accept(heir, await heir.resume(row.session_id))
                assert (done.status, done.outputs) == ("completed", {"letter": KIND})
                await demand_within_bounds(journal, row.session_id)

    workshop.run(main())
    answered = [question.hash for each in first for question in each.questions]
    again = [question.hash for each in second for question in each.questions]
    assert not set(answered) & set(again)
    assert workshop.calls.count(("draft", 1)) == 1


async def _as_left(journal: Journal, session: str) -> tuple[State, list[e.Event]]:
    """A session as a dead process has left it."""
    found, state = await events(journal, session), State()
    for event in found:
        state = fold_event(state, event)
    return state, found


# --- by another version of the pack ---


def moved(workshop: Workshop, pack: Pack) -> Pack:
    """The next version of a pack: it wants a section besides, and has the words for it."""
    spec = pack.decisions[0]
    assert spec.quality is not None
    words = {"heading": "Returns", "text": "It can be returned within 30 days."}
    tone, safety = TONE["dimensions"]
    whole = {"name": "whole", "weight": 0.2, "minimum": 0.9, "scorer": "complete"}
    rules = spec.quality.model_dump(mode="json") | {
        "rubric": {"dimensions": [{**tone, "weight": 0.4}, safety, whole]},
        "required_sections": ["Returns"],
        "repair": {"sections": [words]},
    }
    decision = spec.model_dump(mode="json") | {"quality": rules}
    return workshop.pack(decision=decision, version="1.1.0", evidence=pack.evidence)


@pytest.mark.req("R253", "R264", "R326")
@pytest.mark.parametrize("has_died", [False, True], ids=["paused", "died"])
@pytest.mark.parametrize("purpose", PHASES)
def test_a_session_in_the_loop_is_moved_to_another_version_of_its_pack(
    tmp_path: Path, purpose: str, has_died: bool
) -> None:
    """Nothing goes on under other rules by itself. Moved, the plan is reviewed anew, its step is not called again, and what
    it brought is judged and mended by the rules of the new version from the beginning."""
    workshop = Workshop()
    old = judged(workshop, is_gated=False)
    new = moved(workshop, old)
    slow = [
        Slow("slow:critic", opinion, "" if purpose == "repair" else purpose),
        Slow("slow:mender", hand, purpose if purpose == "repair" else ""),
    ]

    async def main() -> None:
        reached = next(each for each in slow if each.stuck == purpose).is_reached
        async with workshop.journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
            async with workshop.runtime(old, journal, critics=slow[:1], repairers=slow[1:]) as first:
                running = asyncio.ensure_future(first.run(ASK, plan=WRITE, actor=ADA))
                await reached.wait()
                if has_died:
                    running.cancel()
                else:
                    first.stop()
                await asyncio.wait([running])
            (row,) = await journal.sessions("default", limit=9)
            left, _ = await _as_left(journal, row.session_id)
            assert PHASES[purpose] == (left.phase if has_died else left.halted_from)
            critics, menders = [model(*[opinion] * 20)], [model(*[hand] * 20)]
            async with workshop.runtime(new, journal, critics=critics, repairers=menders) as second:
                with pytest.raises(UsageError) as caught:
                    await second.resume(row.session_id)
                assert caught.value.code == "pack_version_mismatch"
                done = await accept(second, await second.migrate(row.session_id, actor=BOB))
                assert done.status == "completed", done.reason
                assert "It can be returned within 30 days." in done.outputs["letter"]
                state, found = await demand_within_bounds(journal, row.session_id)
                assert state.start.pack == "workshop@1.1.0"
                at = next(n for n, event in enumerate(found) if isinstance(event, e.SessionMigrated))
                assert way(found[at:])[:2] == ["outputs_produced", "tests_run"]
                assert len(of(e.ExperienceDrawn, found[at:])) == 1

    workshop.run(main())
    assert workshop.calls.count(("draft", 1)) == 1


CASES: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Trying(Lives):
    """A run whose letter is drawn three times and attacked with cases, some of them a model's."""

    def __init__(self, url: str) -> None:
        self.workshop = Workshop()
        self.tried: list[Any] = []
        self.url = url
        self.models = []

        async def attempt(_: ToolContext, params: dict[str, Any]) -> Any:
            self.tried.append(params["given"]["n"])
            if params["given"]["n"] == 7 and "Bye" in params["letter"]:
                raise ValueError("seven")
            return {}

        self.workshop.tool("try.it", attempt, mode="read_only", parameters=GIVEN)
        attack = {
            "tool": "try.it",
            "params": {"letter": {"$output": "/letter"}},
            "case": "given",
            "case_schema": CASES,
            "max_cases": 3,
            "imagined": 1,
            "output": "/letter",
        }
        self.pack = desk(
            self.workshop,
            {"letter": f"{GOOD} Bye."},
            quality={"attacks": [attack], "consistency": {"draws": 3, "into": "letter"}},
            decision={"thresholds": THRESHOLDS},
        )

    def _runtime(self, journal: Journal, crash: Any) -> Runtime:
        case = {"input": {"n": 7}, "expected": None, "reason": "seven"}
        critic, mender = model(*[{"cases": [case]}] * 20, name="scripted:critic"), model(*[mended(GOOD)] * 20)
        self.models += [critic, mender]
        return self.workshop.runtime(self.pack, journal, critics=[critic], repairers=[mender], crash=crash)


GIVEN: JsonObject = {
    "type": "object",
    "properties": {"letter": {"type": "string"}, "given": {"type": "object"}},
    "required": ["letter", "given"],
}


@pytest.mark.slow
@pytest.mark.req("R116")
@pytest.mark.parametrize("point", ["before_append", "after_append"])
def test_samples_and_attacks_survive_a_death_at_every_append(tmp_path: Path, point: str) -> None:
    """What was drawn or tried and not recorded is called again, and the run ends the same; no model is asked again what
    it answered."""
    whole = Trying(f"sqlite:///{tmp_path / 'whole.db'}")
    _, wanted, record, undisturbed = whole.workshop.run(whole.lead(None))
    assert (wanted.status, wanted.outputs) == ("completed", {"letter": GOOD})
    assert "samples_drawn" in way(undisturbed)
    assert len(of(e.OutputsAttacked, undisturbed)) == 2
    for nth in range(1, 200):
        lives = Trying(f"sqlite:///{tmp_path / f'{nth}.db'}")
        has_lived, result, left, found = lives.workshop.run(lives.lead(Death(point, nth)))
        if result is None:
            continue
        assert (result.status, timeless(left)) == (wanted.status, timeless(record))
        assert way(found) == way(undisturbed)
        told = [event.tried for event in of(e.OutputsAttacked, found)]
        assert told == [event.tried for event in of(e.OutputsAttacked, undisturbed)]
        assert max(Counter(lives.asked).values()) <= 2
        if has_lived:
            assert nth > 15
            return
    raise AssertionError
