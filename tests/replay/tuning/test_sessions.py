"""Times to live: the shortest that cuts nobody off is found, and sessions that have begun keep what they began with."""

from __future__ import annotations

from typing import Any

import pytest

from engine.workshop import ADA, BOB, Workshop, plan, step
from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.packs.tuning import Candidate
from tercet.contracts.request import Request
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording, load
from tercet.replay.tuning.evaluation import Evaluation
from tercet.replay.tuning.frozen import apply
from tercet.replay.tuning.search import search

HOUR = 3_600_000
TTL = "session ttl_ms"
WIPE = plan(step("w", "wipe.it"))


def _pack(workshop: Workshop, **session: Any) -> Pack:
    if not workshop.tools:
        workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    return workshop.pack(
        gates=(Gate(name="BOSS", roles=("boss",)),),
        session={"ttl_ms": 100 * HOUR, **session},
        tuning={
            "min_runs": 1,
            "session": [{"value": "ttl_ms", "choices": [HOUR, 3 * HOUR, 10 * HOUR, 100 * HOUR]}],
        },
    )


def _answered_after(workshop: Workshop, pack: Pack, hours: list[int]) -> list[Recording]:
    """Runs whose gate is answered so many hours later, or never."""

    async def main() -> list[Recording]:
        found: list[Recording] = []
        for number, late in enumerate(hours):
            journal = MemoryJournal()
            async with workshop.runtime(pack, journal) as runtime:
                result = await runtime.run(Request(intent="work", input={"n": number}), plan=WIPE, actor=ADA)
                await workshop.clock.sleep(late * HOUR)
                if late < 100:
                    await runtime.approve(f"{result.session_id}.g1", actor=BOB)
                await runtime.resume(result.session_id)
            found.append(await load(journal, "default", result.session_id))
        return found

    return workshop.run(main())


@pytest.mark.req("R285")
def test_the_shortest_time_that_cuts_nobody_off() -> None:
    """Sessions that nobody answers end sooner; a time that would have ended one that somebody answered is refused."""
    workshop = Workshop()
    pack = _pack(workshop)
    evaluation = Evaluation(pack, _answered_after(workshop, pack, [0, 1, 2, 200]))
    assert [each.status for each in evaluation.before] == ["completed", "completed", "completed", "expired"]
    found = search(evaluation, trials=10)
    assert found.best is not None
    assert found.best.candidate.values == {TTL: 3 * HOUR}
    assert [each.held_ms // HOUR for each in found.best.compared.after] == [0, 1, 2, 3]
    short = evaluation.evaluate(Candidate(values={TTL: HOUR}))
    assert [each.name for each in short.guardrails if not each.passed] == ["nothing_cut_off"]
    assert [each.status for each in short.compared.after] == ["completed", "expired", "expired", "expired"]


@pytest.mark.req("R285")
def test_a_session_that_has_begun_keeps_its_pins() -> None:
    """Under the tuned pack it does not go on; under the one that it began with it does, for as long as it was given."""
    workshop = Workshop()
    pack = _pack(workshop)
    tuned = apply(pack, Candidate(values={TTL: HOUR}), version="1.0.1")

    async def main() -> None:
        journal = MemoryJournal()
        async with workshop.runtime(pack, journal) as runtime:
            session = (await runtime.run(Request(intent="work"), plan=WIPE, actor=ADA)).session_id
        await workshop.clock.sleep(5 * HOUR)
        async with workshop.runtime(tuned, journal) as runtime:
            with pytest.raises(UsageError) as refused:
                await runtime.resume(session)
            assert refused.value.code == "pack_version_mismatch"
        async with workshop.runtime(pack, journal) as runtime:
            await runtime.approve(f"{session}.g1", actor=BOB)
            assert (await runtime.resume(session)).status == "completed"

    workshop.run(main())
