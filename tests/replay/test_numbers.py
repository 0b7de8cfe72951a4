"""Numbers come back from what a session has kept as they were: a whole float is not an integer."""

from __future__ import annotations

import pytest

from engine.workshop import ADA, ASK, BOB, Workshop, plan, step
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.journal.memory import MemoryJournal
from tercet.replay.recording import load
from tercet.replay.replay import replay_recording

PRICE = Evidence.model_validate(
    {"id": "kg:price:p1#snapshot_s1", "content": {"sum": 129.0}, "source": "test", "trust": "trusted"}
)


@pytest.mark.req("R271", "R252")
def test_a_whole_float_of_the_evidence_stays_a_float(workshop: Workshop) -> None:
    """A call is made with 129.0 of the evidence, by another process than the one that began; it is judged again as such."""
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    course = plan(
        step("a", "wipe.it", params={"sum": {"$evidence": f"{PRICE.id}#/sum"}}, evidence_refs=(PRICE.id,))
    )
    pack = workshop.pack(gates=(Gate(name="BOSS", roles=("boss",)),), evidence=(PRICE,))
    journal = MemoryJournal()

    async def main() -> None:
        async with workshop.runtime(pack, journal) as runtime:
            session = (await runtime.run(ASK, plan=course, actor=ADA)).session_id
            await runtime.approve(f"{session}.g1", actor=BOB)
        async with workshop.runtime(pack, journal) as runtime:
            assert (await runtime.resume(session)).status == "completed"
        recording = await load(journal, "default", session)
        assert any(b'"INTENT"' in data and b'"sum":129.0' in data for data in recording.events)
        assert replay_recording(recording).difference is None

    workshop.run(main())
