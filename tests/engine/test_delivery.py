"""Steps that take accepted outputs: they begin when that very text was accepted, and never before, twice or otherwise."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tercet.contracts.errors import NotDone, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.contracts.values.canonical import digest
from tercet.core import events as e
from tercet.packs.pack import Pack
from tercet.replay.replay import replay
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext

from .quality_desk import AUTHORED, KEY, LEAKY, LETTER, THRESHOLDS, desk
from .test_runs import Script
from .test_sagas import refusing
from .workshop import ADA, ASK, BOB, CLEO, Death, Workshop, events, names, plan, step

EDITOR = Gate(name="EDITOR", roles=("boss",))
SENDER = Gate(name="SENDER", roles=("boss",))
TEXT = {"$from": "outputs#/letter"}
DRAFT = step("draft", "write.it", params={"text": "Dear Ravi"})
SEND = step("send", "send.it", params={"to": {"$from": "request#/order"}, "body": TEXT})
ALSO = step("also", "write.it", params={"text": "PS"})
OUTPUTS = {"letter": {"$from": "draft#/text"}}


class PostOffice:
    """A pack that writes a letter and sends it; `sent` is what went out, by key."""

    def __init__(self, workshop: Workshop, *, send: Any = None, **declared: Any) -> None:
        self.workshop = workshop
        self.sent: list[tuple[str, dict[str, Any]]] = []

        async def deliver(context: ToolContext, params: dict[str, Any]) -> Any:
            if send is not None:
                await send(context, params)
            if context.idempotency_key not in [key for key, _ in self.sent]:
                self.sent.append((context.idempotency_key, params))
            return {"receipt": "r1"}

        fields: dict[str, Any] = {
            "mode": "network",
            "gates": ("SENDER",),
            "authority": ("to",),
            "idempotent": True,
            "no_compensation": "sent is sent",
        }
        workshop.tool("write.it", mode="read_only", endorses=True)
        workshop.tool("send.it", deliver, **{**fields, **declared})

    def pack(self, *, asks: bool = False, **header: Any) -> Pack:
        """The pack; `asks` for people who accept the outputs."""
        decision = {
            "required_outputs": ("letter",),
            "requires_human_approval": asks,
            "output_gate": "EDITOR" if asks else None,
        }
        fields: dict[str, Any] = {"gates": (EDITOR, SENDER), "decision": decision, "on_failure": "keep"}
        return self.workshop.pack(**{**fields, **header})

    @property
    def texts(self) -> list[str]:
        """What was sent."""
        return [params["body"] for _, params in self.sent]


def letter(*more: Any, **fields: Any) -> Plan:
    """A plan that sends what it has written."""
    return plan(DRAFT, SEND, *more, **{"outputs": OUTPUTS, **fields})


async def settle(runtime: Runtime, result: RunResult) -> RunResult:
    """Approve whatever is asked, until nothing is."""
    while result.gate is not None:
        await runtime.approve(result.gate.id, actor=BOB)
        result = await runtime.resume(result.session_id)
    return result


@pytest.mark.parametrize("asks", [False, True])
def test_a_letter_is_sent_once_it_is_accepted(workshop: Workshop, url: str, *, asks: bool) -> None:
    """The gate of the sending shows the accepted text and who accepted it, and opens after the acceptance."""
    office = PostOffice(workshop)

    async def main() -> None:
        async with (
            workshop.journal(url) as journal,
            workshop.runtime(office.pack(asks=asks), journal) as runtime,
        ):
            result = await runtime.run(ASK, plan=letter(), actor=ADA)
            assert result.gate is not None
            if asks:
                assert result.gate.kind == "output"
                assert "outputs_accepted" not in names(await events(journal, result.session_id))
                await runtime.approve(result.gate.id, actor=BOB)
                result = await runtime.resume(result.session_id)
            assert result.gate is not None
            assert (result.gate.kind, result.gate.step, office.sent) == ("approval", "send", [])
            assert result.gate.shown["params"] == {"to": "o1", "body": "Dear Ravi"}
            judged = result.gate.shown["judgement"]
            assert (judged["accepted_by"], judged["status"]) == (["bob"] if asks else [], "completed")
            await runtime.approve(result.gate.id, actor=CLEO)
            result = await runtime.resume(result.session_id)
            assert (result.status, office.texts) == ("completed", ["Dear Ravi"])
            assert result.outputs == {"letter": "Dear Ravi"}
            record = await runtime.record(result.session_id)
            assert record["delivery"] == {
                "outputs_digest": digest({"letter": "Dear Ravi"}),
                "accepted_by": ["bob"] if asks else [],
                "delivered": ["send"],
                "undelivered": [],
            }
            assert [entry["call"]["step_id"] for entry in record["transcript"]] == ["draft", "send"]
            assert record["report"]["status"] == "completed"
            found = await events(journal, result.session_id)
            told = [
                name
                for name in names(found)
                if name in ("outputs_produced", "run_reported", "outputs_accepted")
            ]
            assert told == ["outputs_produced", "run_reported", "outputs_accepted", "run_reported"]
            assert (await replay(journal, result.session_id)).difference is None

    workshop.run(main())


def test_outputs_that_are_denied_are_not_sent(workshop: Workshop, url: str) -> None:
    """No call is made, and no gate for one is opened."""
    office = PostOffice(workshop)

    async def main() -> None:
        async with (
            workshop.journal(url) as journal,
            workshop.runtime(office.pack(asks=True), journal) as runtime,
        ):
            result = await runtime.run(ASK, plan=letter(), actor=ADA)
            assert result.gate is not None
            await runtime.deny(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            assert (result.status, office.sent) == ("rejected", [])
            found = await events(journal, result.session_id)
            assert "outputs_accepted" not in names(found)
            assert [event.step for event in found if isinstance(event, e.GateOpened)] == [""]
            assert "delivery" not in await runtime.record(result.session_id)

    workshop.run(main())


def test_a_sending_that_is_denied_ends_the_run(workshop: Workshop, url: str) -> None:
    """What was accepted is not sent against the word of the approver of the call."""
    office = PostOffice(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(office.pack(), journal) as runtime:
            result = await runtime.run(ASK, plan=letter(), actor=ADA)
            assert result.gate is not None
            await runtime.deny(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            assert (result.status, office.sent) == ("rejected", [])
            record = await runtime.record(result.session_id)
            assert (record["delivery"]["delivered"], record["delivery"]["undelivered"]) == ([], ["send"])

    workshop.run(main())


def test_outputs_that_break_their_schema_are_not_sent(workshop: Workshop) -> None:
    """And if a person accepts them as partial, they are still sent to nobody."""
    office = PostOffice(workshop)
    decision = {
        "required_outputs": ("letter",),
        "outputs_schema": {"properties": {"letter": {"maxLength": 3}}},
    }

    async def main() -> None:
        async with workshop.runtime(office.pack(decision=decision)) as runtime:
            result = await runtime.run(ASK, plan=letter(), actor=ADA)
            assert result.gate is not None
            assert result.gate.kind == "escalation"
            await runtime.decide(result.gate.id, "accept_partial", actor=BOB)
            result = await runtime.resume(result.session_id)
            assert (result.status, office.sent) == ("completed", [])
            assert "delivery" not in await runtime.record(result.session_id)

    workshop.run(main())


def test_a_rehearsal_sends_nothing(workshop: Workshop) -> None:
    office = PostOffice(workshop)

    async def main() -> None:
        async with workshop.runtime(office.pack()) as runtime:
            result = await runtime.run(ASK, plan=letter(), actor=ADA, shadow=True)
            assert (result.status, office.sent) == ("completed", [])

    workshop.run(main())


def test_steps_behind_a_delivery_come_after_it(workshop: Workshop) -> None:
    """They take part in the order; a condition may read an output, and an expression may compute with one."""
    office = PostOffice(workshop)
    workshop.tool("file.it", no_compensation="filed")
    after = step("file", "file.it", params={"receipt": {"$from": "send#/receipt"}})
    copy = step(
        "copy", "file.it", params={"text": {"$cel": "outputs.letter + '!'"}}, when="outputs.letter != ''"
    )
    never = step("never", "file.it", params={"n": 1}, when="outputs.letter == ''")

    async def main() -> None:
        async with workshop.runtime(office.pack()) as runtime:
            result = await settle(runtime, await runtime.run(ASK, plan=letter(after, copy, never), actor=ADA))
            assert result.status == "completed"
            record = await runtime.record(result.session_id)
            called = {entry["call"]["step_id"]: entry["call"]["params"] for entry in record["transcript"]}
            assert called["file"] == {"receipt": "r1"}
            assert called["copy"] == {"text": "Dear Ravi!"}
            assert "never" not in called
            assert workshop.calls[0] == ("draft", 1)

    workshop.run(main())


def test_a_failed_delivery_is_escalated_and_tried_again(workshop: Workshop) -> None:
    """No other plan is made for accepted outputs; whoever resumes tries the same call again, with the same text."""
    fails = [True]

    async def down(_: ToolContext, params: dict[str, Any]) -> None:
        if fails:
            fails.pop()
            raise NotDone("no connection", is_retriable=False)

    office = PostOffice(workshop, send=down)

    async def main() -> None:
        async with workshop.runtime(office.pack()) as runtime:
            result = await settle_calls(runtime, await runtime.run(ASK, plan=letter(), actor=ADA))
            assert result.gate is not None
            assert (result.gate.kind, result.gate.shown["options"]) == (
                "escalation",
                ["extend", "accept_partial", "abandon"],
            )
            result = await runtime.resume(result.session_id)
            result = await settle(runtime, result)
            assert (result.status, office.texts) == ("completed", ["Dear Ravi"])

    workshop.run(main())


async def settle_calls(runtime: Runtime, result: RunResult) -> RunResult:
    """Approve calls and outputs, until something else is asked."""
    while result.gate is not None and result.gate.kind in ("approval", "output"):
        await runtime.approve(result.gate.id, actor=BOB)
        result = await runtime.resume(result.session_id)
    return result


def test_no_planner_is_asked_again_once_outputs_are_accepted(workshop: Workshop) -> None:
    """Neither the critic nor a person has another plan made: it could bring another text, or send this one twice."""
    office = PostOffice(workshop, send=refusing())
    planner = Script(letter(), letter(ALSO))

    async def main() -> None:
        async with workshop.runtime(office.pack()) as runtime:
            result = await settle_calls(runtime, await runtime.run(ASK, planner=planner, actor=ADA))
            assert result.gate is not None
            assert (result.gate.kind, "replan" in result.gate.shown["options"]) == ("escalation", False)
            with pytest.raises(UsageError) as refused:
                await runtime.decide(result.gate.id, "replan", actor=BOB)
            assert refused.value.code == "outputs_accepted"
            assert (await runtime.state(result.session_id)).revision == 1

    workshop.run(main())


def test_a_delivery_that_failed_can_be_accepted_as_partial(workshop: Workshop) -> None:
    """The record says that it was not delivered."""
    office = PostOffice(workshop, send=refusing())

    async def main() -> None:
        async with workshop.runtime(office.pack()) as runtime:
            result = await settle_calls(runtime, await runtime.run(ASK, plan=letter(), actor=ADA))
            assert result.gate is not None
            await runtime.decide(result.gate.id, "accept_partial", actor=BOB)
            result = await runtime.resume(result.session_id)
            record = await runtime.record(result.session_id)
            assert (result.status, record["report"]["status"]) == ("completed", "partial")
            assert record["delivery"]["undelivered"] == ["send"]

    workshop.run(main())


def test_an_approver_cannot_replace_the_accepted_text(workshop: Workshop) -> None:
    """Other values of the call can be set; the outputs are not judged again for that."""
    office = PostOffice(workshop, parameters={"properties": {"to": {}, "body": {}}})

    async def main() -> None:
        async with workshop.runtime(office.pack(asks=True)) as runtime:
            result = await runtime.run(ASK, plan=letter(), actor=ADA)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            gate = result.gate
            assert gate is not None
            with pytest.raises(UsageError) as refused:
                await runtime.modify(gate.id, actor=BOB, note="nicer", changes={"body": "Dearest"})
            assert refused.value.code == "not_settable"
            with pytest.raises(UsageError) as refused:
                await runtime.modify(gate.id, actor=BOB, note="nicer")
            assert refused.value.code == "outputs_accepted"
            await runtime.modify(gate.id, actor=BOB, note="to the other one", changes={"to": "o2"})
            result = await runtime.resume(result.session_id)
            assert result.gate is not None
            assert result.gate.shown["params"] == {"to": "o2", "body": "Dear Ravi"}
            await runtime.approve(result.gate.id, actor=CLEO)
            result = await runtime.resume(result.session_id)
            assert (result.status, office.sent[0][1]) == ("completed", {"to": "o2", "body": "Dear Ravi"})
            found = names(await events(runtime.journal, result.session_id))
            assert (found.count("outputs_accepted"), found.count("outputs_produced")) == (1, 1)

    workshop.run(main())


def test_an_acceptance_that_lapsed_is_asked_for_again(workshop: Workshop) -> None:
    """Whoever lost the role between the acceptance and the delivery has not accepted it."""
    office = PostOffice(workshop)

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(office.pack(asks=True, actors=(BOB, CLEO)), journal) as runtime:
                result = await runtime.run(ASK, plan=letter(), actor=ADA)
                assert result.gate is not None
                await runtime.approve(result.gate.id, actor=BOB)
            async with workshop.runtime(office.pack(asks=True, actors=(CLEO,)), journal) as later:
                again = await later.resume(result.session_id)
                assert again.gate is not None
                assert (again.gate.kind, office.sent) == ("output", [])
                found = names(await events(journal, result.session_id))
                assert ("acceptance_lapsed" in found, "outputs_accepted" in found) == (True, False)
                for _ in range(2):
                    assert again.gate is not None
                    await later.approve(again.gate.id, actor=CLEO)
                    again = await later.resume(result.session_id)
                assert (again.status, office.texts) == ("completed", ["Dear Ravi"])

    workshop.run(main())


def test_what_is_sent_is_what_the_quality_loop_made_of_the_draft(workshop: Workshop) -> None:
    """A repair took a key out; the draft itself is not sent."""
    office = PostOffice(workshop)
    made = desk(
        workshop,
        {"letter": LEAKY},
        gates=(EDITOR, SENDER),
        decision={"thresholds": THRESHOLDS},
    )
    course = plan(step("draft"), SEND, outputs={"letter": {"$from": "draft#/letter"}})

    async def main() -> None:
        async with workshop.runtime(made) as runtime:
            result = await settle(runtime, await runtime.run(ASK, plan=course, actor=ADA))
            assert (result.status, office.texts) == ("completed", [result.outputs["letter"]])
            assert KEY not in office.texts[0]
            found = await events(runtime.journal, result.session_id)
            [accepted] = [event for event in found if isinstance(event, e.OutputsAccepted)]
            assert accepted.digest == digest(result.outputs)

    workshop.run(main())


def test_a_letter_that_the_pack_renders_is_sent_as_it_was_rendered(workshop: Workshop) -> None:
    """The plan does not bind it; all evidence that the plan pins counts for its delivery."""
    office = PostOffice(workshop)
    made = desk(workshop, {}, quality=AUTHORED, gates=(EDITOR, SENDER))
    read = step("read", None, params={"order": "ord_881"}, evidence_refs=("kg:order:881#snapshot_s1",))

    async def main() -> None:
        async with workshop.runtime(made) as runtime:
            result = await runtime.run(ASK, plan=plan(read, SEND), actor=ADA)
            assert result.gate is not None
            assert [each["id"] for each in result.gate.shown["evidence"]] == ["kg:order:881#snapshot_s1"]
            result = await settle(runtime, result)
            assert (result.status, office.texts) == ("completed", [LETTER])

    workshop.run(main())


def test_evidence_behind_an_output_counts_for_its_delivery(workshop: Workshop) -> None:
    """The gate shows it, and once it has expired the call is not made."""
    office = PostOffice(workshop)
    fact = Evidence.model_validate(
        {
            "id": "kg:order:o1#snapshot_may",
            "content": {"text": "Dear Ravi"},
            "trust": "trusted",
            "expires_at": datetime.fromtimestamp((workshop.clock.now() + 60_000) / 1000, UTC),
        }
    )
    course = plan(DRAFT, SEND, outputs={"letter": {"$evidence": "kg:order:o1#snapshot_may#/text"}})

    async def main() -> None:
        async with workshop.runtime(office.pack(evidence=(fact,))) as runtime:
            result = await runtime.run(ASK, plan=course, actor=ADA)
            assert result.gate is not None
            assert [each["id"] for each in result.gate.shown["evidence"]] == [fact.id]
            await runtime.approve(result.gate.id, actor=BOB)
            workshop.clock.advance(120_000)
            result = await runtime.resume(result.session_id)
            assert result.gate is not None
            assert (result.gate.kind, office.sent) == ("escalation", [])

    workshop.run(main())


def test_a_session_that_delivers_stays_with_its_pack(workshop: Workshop) -> None:
    """Its outputs were judged by the rules of that pack; one that has not got so far may move, and is judged anew."""
    office = PostOffice(workshop)

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(office.pack(asks=True), journal) as runtime:
                result = await runtime.run(ASK, plan=letter(), actor=ADA)
            async with workshop.runtime(office.pack(asks=True, version="1.1.0"), journal) as later:
                result = await later.migrate(result.session_id, actor=BOB)
                assert result.gate is not None
                await later.approve(result.gate.id, actor=BOB)
                result = await later.resume(result.session_id)
                assert result.gate is not None
                assert result.gate.step == "send"
            async with workshop.runtime(office.pack(asks=True, version="1.2.0"), journal) as last:
                with pytest.raises(UsageError) as refused:
                    await last.migrate(result.session_id, actor=BOB)
                assert refused.value.code == "outputs_accepted"

    workshop.run(main())


def test_an_acceptance_is_settled_once_its_delivery_has_begun(workshop: Workshop) -> None:
    """What was sent cannot be asked about again, whoever has lost a role since."""
    office = PostOffice(workshop)

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(office.pack(asks=True, actors=(BOB, CLEO)), journal) as runtime:
                result = await runtime.run(ASK, plan=letter(), actor=ADA)
                assert result.gate is not None
                await runtime.approve(result.gate.id, actor=BOB)
                result = await runtime.resume(result.session_id)
                assert result.gate is not None
                assert result.gate.step == "send"
            async with workshop.runtime(office.pack(asks=True, actors=(CLEO,)), journal) as later:
                await later.approve(result.gate.id, actor=CLEO)
                result = await later.resume(result.session_id)
                assert (result.status, office.texts) == ("completed", ["Dear Ravi"])
                assert "acceptance_lapsed" not in names(await events(journal, result.session_id))

    workshop.run(main())


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("point", ["before_append", "after_append", "before_call", "after_answer"])
@pytest.mark.parametrize("nth", range(1, 12))
def test_a_crash_neither_judges_nor_sends_again(
    workshop: Workshop, file: str, point: str, nth: int, *, asks: bool
) -> None:
    """Whatever has become durable is not done again: one acceptance, one letter, one record."""
    office = PostOffice(workshop)
    pack = office.pack(asks=asks)

    async def live(runtime: Runtime) -> None:
        await settle(runtime, await runtime.run(ASK, plan=letter(), actor=ADA))

    async def main() -> None:
        async with workshop.journal(file) as journal:
            death = Death(point, nth)
            doomed = workshop.runtime(pack, journal, crash=death)
            await doomed.__aenter__()
            await death.of(live(doomed))
            async with workshop.runtime(pack, journal) as runtime:
                rows = await runtime.sessions()
                if not rows:
                    return
                session = rows[0].session_id
                workshop.clock.advance(60_000)
                result = await settle(runtime, await runtime.resume(session))
                assert (result.status, office.texts) == ("completed", ["Dear Ravi"])
                found = names(await events(journal, session))
                assert (found.count("outputs_accepted"), found.count("run_reported")) == (1, 2)
                assert (await replay(journal, session)).difference is None

    workshop.run(main())
