"""Tokens of personal values: a session opens only its own, however another one was put together or handed in."""

from __future__ import annotations

from typing import Any

import pytest

from tercet import Actor, DecisionSpec, Gate, Pack, Runtime, tool
from tercet.contracts.decision import RiskTier
from tercet.contracts.errors import NotSent, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.personal import PersonalMarks
from tercet.engine.personal.vault import Vault
from tercet.engine.streams.stops import EmergencyStops
from tercet.journal.memory import MemoryJournal
from tercet.replay.run_data import read_run

OTHER = "victor@planted.example"
MINE = "mallory@planted.example"
APPROVER = Actor(id="ann", roles=("lead",))
MARKS = {
    "subject": "customer_id",
    "request": ["email"],
    "tools": {"crm.look": {"params": ["email"]}, "post.send": {"params": ["text"]}},
    "evidence": {"customer": {"fields": ["street"], "subject": "customer_id"}},
}
FACT = Evidence(
    id="kg:customer:cus_9#snapshot_1",
    content={"customer_id": "cus_9", "street": "Plantedstraat 12"},
    source="test",
)


def _pack(seen: list[Any]) -> Pack:
    @tool("crm.look", mode="read_only")
    def look(email: str) -> dict[str, int]:
        seen.append(email)
        return {"ok": 1}

    @tool("post.send", mode="network", gates=["G"], authority=[], no_compensation="a letter")
    def send(text: str) -> dict[str, int]:
        seen.append(text)
        return {"ok": 1}

    return Pack(
        name="letters",
        version="1.0.0",
        safety_mode=ApprovalMode.NETWORK,
        tools=[look, send],
        gates=[Gate(name="G", roles=("lead",))],
        decisions=[DecisionSpec(id="d", risk_tier=RiskTier.LOW)],
        evidence=[FACT],
        personal=PersonalMarks.model_validate(MARKS),
    )


def _request(subject: str, email: str) -> dict[str, Any]:
    return {"intent": "d", "input": {"customer_id": subject, "email": email}}


async def _token(runtime: Runtime, subject: str, email: str) -> str:
    """Return the token of a value, as the owner of another session gets it."""
    note = {"id": "n", "kind": "note", "params": {"x": {"$from": "request#/email"}}}
    plan = {"steps": [note], "outputs": {"e": {"$from": "n#/x"}}}
    found = await runtime.run(_request(subject, email), plan=plan, actor=Actor(id="vic"))
    return str(found.outputs["e"])


@pytest.mark.parametrize("spelling", ["n.a + n.b", "{n.a + n.b: 1}", "(n.a + n.b) + ''"])
async def test_a_token_put_together_by_a_plan_opens_nothing(spelling: str) -> None:
    """Neither a tool nor an output gets the value of another subject whose token a plan joins."""
    seen: list[Any] = []
    async with Runtime(_pack(seen), "memory:") as runtime:
        token = await _token(runtime, "cus_9", OTHER)
        half = len(token) // 2
        halves = {"id": "n", "kind": "note", "params": {"a": token[:half], "b": token[half:]}}
        joined = {"$cel": spelling}
        look = {"id": "l", "tool": "crm.look", "params": {"email": joined}}
        for steps, outputs in (([halves, look], {}), ([halves], {"o": joined})):
            plan = {"steps": steps, "outputs": outputs}
            result = await runtime.run(_request("cus_66", MINE), plan=plan, actor=Actor(id="mal"))
            assert OTHER not in str(await runtime.reveal(result.outputs, result.session_id))
        assert seen == []


def _echo() -> Pack:
    """A pack without marks, which repeats what it is given."""

    @tool("echo.say", mode="read_only")
    def say(text: str) -> dict[str, str]:
        return {"said": text}

    return Pack(name="echo", version="1.0.0", tools=[say], decisions=[DecisionSpec(id="d")])


async def test_a_run_without_marks_shows_no_value_of_another_subject() -> None:
    """The token that a caller hands in is a text of theirs like any other, and stays one in what is shown."""
    journal = MemoryJournal()
    async with Runtime(_pack([]), journal) as runtime:
        token = await _token(runtime, "cus_9", OTHER)
        own = (await runtime.sessions())[0].session_id
        assert await runtime.reveal(token, own) == OTHER
    say = {"id": "s", "tool": "echo.say", "params": {"text": f"<{token}>"}}
    plan = {"steps": [say], "outputs": {"o": {"$from": "s#/said"}}}
    async with Runtime(_echo(), journal) as runtime:
        result = await runtime.run({"intent": "d", "input": {"t": token}}, plan=plan)
        assert result.outputs == {"o": f"<{token}>"}
        assert await runtime.reveal(result.outputs, result.session_id) == result.outputs
        assert await runtime.reveal(token, "ses_unknown") == token
        shown = await read_run(journal, "default", result.session_id)
    assert OTHER not in str(shown)
    assert token in str(shown)


async def test_values_of_the_session_may_be_put_into_texts() -> None:
    """A text that is computed around a whole token of the session is as good as the token."""
    seen: list[Any] = []
    async with Runtime(_pack(seen), "memory:") as runtime:
        look = {"id": "l", "tool": "crm.look", "params": {"email": {"$cel": "'<' + request.email + '>'"}}}
        result = await runtime.run(_request("cus_66", MINE), plan={"steps": [look]})
        look = {"id": "l", "tool": "crm.look", "params": {"email": {"$cel": f"'<{MINE}>' + '!'"}}}
        again = await runtime.run(_request("cus_66", MINE), plan={"steps": [look]})
    assert (result.status, again.status) == ("completed", "completed")
    assert seen == [f"<{MINE}>", f"<{MINE}>!"]


async def test_evidence_of_another_subject_is_opened() -> None:
    """What a session was given as evidence is its own, whoever's it is."""
    seen: list[Any] = []
    async with Runtime(_pack(seen), "memory:") as runtime:
        street = {"$evidence": f"{FACT.id}#/street"}
        look = {"id": "l", "tool": "crm.look", "params": {"email": street}, "evidence_refs": [FACT.id]}
        plan = {"steps": [look], "outputs": {"o": street}}
        result = await runtime.run(_request("cus_66", MINE), plan=plan)
        assert (result.status, seen) == ("completed", ["Plantedstraat 12"]), result.reason
        assert await runtime.reveal(result.outputs, result.session_id) == {"o": "Plantedstraat 12"}


async def test_an_approver_cannot_hand_in_a_token_of_another_subject() -> None:
    """A change, and a note, with a token that is not of the session is refused; one of the session itself is not."""
    seen: list[Any] = []
    async with Runtime(_pack(seen), "memory:", trusts_caller=True) as runtime:
        token = await _token(runtime, "cus_9", OTHER)
        send = {"id": "s", "tool": "post.send", "params": {"text": {"$from": "request#/email"}}}
        waiting = await runtime.run(_request("cus_66", MINE), plan={"steps": [send]}, actor=Actor(id="mal"))
        assert waiting.gate is not None
        for note, change in (("x", token), (f"see {token}", "hello"), ("x", f"{token}!")):
            with pytest.raises(UsageError) as refused:
                await runtime.modify(waiting.gate.id, actor=APPROVER, note=note, changes={"text": change})
            assert refused.value.code == "personal_token"
        own = f"Dear {waiting.gate.shown['params']['text']}"
        await runtime.modify(waiting.gate.id, actor=APPROVER, note="x", changes={"text": own})
        again = await runtime.resume(waiting.session_id)
        assert again.gate is not None
        await runtime.approve(again.gate.id, actor=Actor(id="bob", roles=("lead",)))
        await runtime.resume(again.session_id)
    assert seen == [f"Dear {MINE}"]


async def test_a_call_with_a_token_of_another_subject_is_not_made() -> None:
    """The guard of a call opens tokens of its own session only, whoever wrote the plan."""
    async with Runtime(_pack([]), "memory:") as runtime:
        token = await _token(runtime, "cus_9", OTHER)
        mine = await runtime.run(_request("cus_66", MINE), plan={"steps": []}, actor=Actor(id="mal"))
        start = (await runtime.state(mine.session_id)).start
        guard = Vault(runtime.journal, "default", runtime.pack.personal).guard(start, "crm.look")
        with pytest.raises(NotSent) as refused:
            await guard.open({"email": token})
        assert refused.value.code == "personal_token"


async def test_the_note_of_a_stop_is_sealed_and_erased() -> None:
    """It is shown to everyone who sees the stop or a session that it paused, until any subject of the tenant is erased."""
    journal, olga = MemoryJournal(), Actor(id="olga")
    async with Runtime(_pack([]), journal) as runtime:
        early = await runtime.halt("tool", "post.send", actor=olga, note="no one's name")
        assert early.note == "no one's name"
        await _token(runtime, "cus_9", OTHER)
        await runtime.halt("tenant", "default", actor=olga, note=f"{OTHER} complains")
        look = {"id": "l", "tool": "crm.look", "params": {"email": {"$from": "request#/email"}}}
        stopped = await runtime.run(_request("cus_66", MINE), plan={"steps": [look]})
        assert stopped.status == "paused"
        assert OTHER not in stopped.reason
        assert (await runtime.reveal(stopped.reason, stopped.session_id)).endswith(f"{OTHER} complains")
        board = EmergencyStops(journal, "default", pack="")
        await board.refresh()
        assert {stop.note for stop in await board.shown()} == {"no one's name", f"{OTHER} complains"}
        assert not any(OTHER in stop.note for stop in board.active())
        await runtime.erase_subject("cus_9", actor=olga)
        assert {stop.note for stop in await board.shown()} == {"no one's name", "erased"}
        await runtime.lift("tenant", "default", actor=olga, note="again")
        await board.refresh()
        assert [stop.note for stop in await board.shown()] == ["no one's name"]
