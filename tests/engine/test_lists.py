"""The lists that a caller may look at: what there is, and what waits for people."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from tercet.contracts.gate import Gate
from tercet.core.state import State
from tercet.engine.lists import ListedSession
from tercet.engine.rows import details_of, row_of, rows_of_earlier_versions

from .test_gates import gate_of
from .workshop import ADA, ASK, BOB, Workshop, plan, step

TWO = Gate(name="BOSS", roles=("boss",), quorum=2, ttl_ms=60_000)


async def test_a_gate_that_waits_is_listed_with_what_it_asks(workshop: Workshop) -> None:
    """Whoever looks sees the call, whom it waits for, since when and until when; once it is closed it is gone."""
    workshop.tool("wipe.it", mode="destructive", authority=(), gates=("BOSS",), no_compensation="gone")
    wipe = plan(step("w", "wipe.it", params={"n": 1}))

    async with workshop.runtime(workshop.pack(gates=(TWO,))) as runtime:
        assert await runtime.gates() == []
        result = await runtime.run(ASK, plan=wipe, actor=ADA)
        second = await runtime.run(ASK, plan=wipe, actor=ADA)
        await runtime.approve(gate_of(result), actor=BOB)
        listed = {gate.id: gate for gate in await runtime.gates()}
        assert set(listed) == {gate_of(result), gate_of(second)}
        gate = listed[gate_of(result)]
        assert (gate.session_id, gate.kind, gate.owner) == (result.session_id, "approval", "ada")
        assert gate.asks == "may this call be made?"
        assert "approve" in gate.answers
        assert (gate.tool, gate.step, gate.params) == ("wipe.it", "w", {"n": 1})
        assert (gate.names, gate.roles, gate.quorum) == (("BOSS",), ("boss",), 2)
        assert gate.approved_by == ("bob",)
        assert gate.expires_at is not None
        assert (gate.expires_at - gate.opened_at).total_seconds() == 60
        assert [each.id for each in await runtime.gates(limit=1)] in ([key] for key in listed)
        for each in listed:
            await runtime.deny(each, actor=ADA)
        assert await runtime.gates() == []


async def test_a_session_is_listed_in_plain_values(workshop: Workshop) -> None:
    """Times are times, and why a session waits is text: nothing that only the journal can read."""
    workshop.tool("wipe.it", mode="destructive", authority=(), gates=("BOSS",), no_compensation="gone")

    async with workshop.runtime(workshop.pack(gates=(TWO,))) as runtime:
        began = datetime.fromtimestamp(workshop.clock.now() / 1000, UTC)
        result = await runtime.run(ASK, plan=plan(step("w", "wipe.it")), actor=ADA)
        [row] = await runtime.sessions(status="awaiting_gate")
        assert (row.session_id, row.gates) == (result.session_id, (gate_of(result),))
        assert (row.started_at, row.updated_at.tzinfo) == (began, UTC)
        assert (row.intent, row.owner, row.next_step) == ("work", "ada", "w")
        await runtime.deny(gate_of(result), actor=ADA, note="no")
        [row] = await runtime.sessions()
        assert (row.ending, row.reason, row.gates) == ("rejected", "ada denied w: no", ())


@pytest.mark.parametrize("escalation", [None, "the budget is used up"])
def test_an_escalated_session_is_known_by_a_field_and_not_by_its_reason(escalation: str | None) -> None:
    """A person may pause a run with the words that an escalation records; rows of earlier versions have only the words."""
    start = msgspec.structs.replace(State().start, request={"intent": "work"}, actor={"id": "ada"})
    reason = f"escalated: {escalation or 'the oven is hot'}"
    row = row_of(State(start=start, status="paused", reason=reason, escalation=escalation))
    assert ListedSession.of(row).is_escalated is (escalation is not None)
    before, _ = rows_of_earlier_versions(row)
    assert details_of(before).escalated is None
    assert ListedSession.of(before).is_escalated
