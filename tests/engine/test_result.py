"""The result of a run: typed, the same from memory and from the journal, and decoded only when it is read."""

from __future__ import annotations

from typing import Any

from tercet.contracts.gate import Gate, HandOff
from tercet.contracts.runs.record import DecisionRecord
from tercet.contracts.verdict import CriticReport, Verdict
from tercet.engine.lists import PendingGate
from tercet.engine.result import RunResult

from .test_escalation import BROKEN, broken
from .workshop import ADA, ASK, BOB, Workshop, plan, step

WORK = plan(step("a"), step("b", depends_on=("a",)), outputs={"x": {"$from": "b#/n"}})
DECODED = {"verdict", "report", "record", "gate", "escalation"}


def test_the_record_of_a_result_is_the_one_in_the_journal(workshop: Workshop, url: str) -> None:
    """Whether this process ended the run or another one did, `record` is the stored record, under its digest."""
    workshop.tool("do.it")

    async def main() -> None:
        pack = workshop.pack()
        async with workshop.journal(url) as journal:
            async with workshop.runtime(pack, journal) as runtime:
                ended = await runtime.run(ASK, plan=WORK, actor=ADA)
                stored = await runtime.record(ended.session_id)
            async with workshop.runtime(pack, journal) as other:
                again = await other.resume(ended.session_id)
        assert isinstance(stored, DecisionRecord)
        assert ended.record == again.record == stored
        assert ended.record_digest == again.record_digest == stored.hash
        assert isinstance(ended.report, CriticReport)
        assert isinstance(ended.verdict, Verdict)
        assert (ended.report, ended.verdict) == (stored.report, stored.verdicts[0])
        assert again == ended

    workshop.run(main())


def test_what_a_waiting_or_escalated_run_gives_is_typed(workshop: Workshop) -> None:
    """A waiting run has a gate and no record yet; an escalated one also has what the person is given."""
    workshop.tool("wipe.it", mode="destructive", authority=(), gates=("BOSS",), no_compensation="gone")
    pack = broken(workshop, gates=(Gate(name="BOSS", roles=("boss",)),))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            waiting = await runtime.run(ASK, plan=plan(step("w", "wipe.it", params={"n": 1})), actor=ADA)
            assert isinstance(waiting.gate, PendingGate)
            assert waiting.gate in await runtime.gates()
            assert waiting.gate.shown["params"] == waiting.gate.params == {"n": 1}
            assert (waiting.record, waiting.record_digest, waiting.report) == (None, "", None)
            assert waiting.escalation is None
            escalated = await runtime.run(ASK, plan=BROKEN, actor=ADA)
            assert isinstance(escalated.escalation, HandOff)
            assert escalated.gate is not None
            assert escalated.escalation.options == escalated.gate.answers
            await runtime.approve(waiting.gate.id, actor=BOB)
            assert (await runtime.resume(waiting.session_id)).gate is None

    workshop.run(main())


def test_a_result_is_decoded_when_it_is_read(workshop: Workshop) -> None:
    """A run that nobody looks into pays for no decoding, and what was read once is not decoded again."""
    workshop.tool("do.it")

    async def main() -> RunResult:
        async with workshop.runtime(workshop.pack()) as runtime:
            return await runtime.run(ASK, plan=WORK, actor=ADA)

    result = workshop.run(main())
    assert DECODED.isdisjoint(vars(result))
    read: dict[str, Any] = {name: getattr(result, name) for name in DECODED}
    assert {name: vars(result)[name] for name in DECODED} == read
    assert result.record is read["record"]


def test_a_reader_cannot_change_what_later_runs_are_given(workshop: Workshop) -> None:
    """Runs of the same plan share one review; what a reader does to a record stays in that record."""
    workshop.tool("do.it")
    workshop.tool("undo.it")
    undone = plan(step("a", compensate={"tool": "undo.it", "params": {"n": 1}}))

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            first = await runtime.run(ASK, plan=undone, actor=ADA)
            assert first.record is not None
            way_back = first.record.verdicts[0].effects[0].compensate
            assert way_back is not None
            way_back.params["n"] = 2
            second = await runtime.run(ASK, plan=undone, actor=ADA)
            assert second.record is not None
            assert second.record.verdicts[0].effects[0].compensate == undone.steps[0].compensate

    workshop.run(main())
