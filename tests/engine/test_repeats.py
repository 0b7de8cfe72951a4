"""Calls that the runs of a tenant may make once in a period."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from tercet.contracts.errors import NotDone
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.tool import OncePer, ToolSpec
from tercet.core import events as e
from tercet.engine.checks.journal import check_journal
from tercet.engine.streams import recent_calls
from tercet.engine.streams.recent_calls import Claim
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import append_next
from tercet.packs.pack import Pack
from tercet.policy.call_params import canonical_params
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext
from tercet.tools.tool import Absent, Happened

from .workshop import ADA, ASK, BOB, Death, Workshop, echo, events, plan, step

DAY_MS = 24 * 60 * 60 * 1000
BOSS = Gate(name="BOSS", roles=("boss",))
REFUND = {
    "type": "object",
    "properties": {
        "payment": {"type": "string"},
        "cents": {"type": "integer"},
        "memo": {"type": "string", "default": ""},
    },
    "required": ["payment", "cents"],
}
ONCE: dict[str, Any] = {"identity": ["payment", "cents"], "days": 30}


def pay(name: str = "r", /, cents: int = 100, **params: Any) -> Plan:
    """A plan that refunds one payment."""
    return plan(step(name, "pay.back", params={"payment": "pay_1", "cents": cents, **params}))


def refunds(workshop: Workshop, behave: Any = echo, *, once: dict[str, Any] = ONCE, **declared: Any) -> Pack:
    """A pack whose refunds may be made once."""
    workshop.tools.clear()
    given: dict[str, Any] = {"parameters": REFUND, "no_compensation": "final", "once_per": once, **declared}
    workshop.tool("pay.back", behave, **given)
    return workshop.pack(gates=(BOSS,), on_failure="keep")


async def refusal(runtime: Runtime, result: RunResult) -> e.StepRefused:
    """The only refusal of a run."""
    found = await events(runtime.journal, result.session_id)
    [refused] = [each for each in found if isinstance(each, e.StepRefused)]
    return refused


async def test_the_same_call_in_another_run_is_refused_and_names_the_first(
    workshop: Workshop, url: str
) -> None:
    """A memo does not make it another payment; another amount does."""
    pack = refunds(workshop)

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        first = await runtime.run(ASK, plan=pay(), actor=ADA)
        assert first.status == "completed"
        second = await runtime.run(ASK, plan=pay("again", memo="really"), actor=ADA)
        refused = await refusal(runtime, second)
        assert refused.code == "repeated_call"
        assert f"session {first.session_id} called it" in refused.reason
        assert "payment and cents" in refused.reason
        assert (await runtime.run(ASK, plan=pay(cents=101), actor=ADA)).status == "completed"
    assert workshop.calls == [("r", 1), ("r", 1)]


async def test_another_tenant_may_make_the_same_call(workshop: Workshop) -> None:
    """Tenants know nothing of each other's calls."""
    pack, journal = refunds(workshop), MemoryJournal()

    async with (
        workshop.runtime(pack, journal, tenant="one") as one,
        workshop.runtime(pack, journal, tenant="two") as two,
    ):
        assert (await one.run(ASK, plan=pay(), actor=ADA)).status == "completed"
        assert (await two.run(ASK, plan=pay(), actor=ADA)).status == "completed"


async def test_the_same_call_is_allowed_again_after_the_period(workshop: Workshop) -> None:
    """The last day still counts."""
    pack, journal = refunds(workshop), MemoryJournal()

    async with workshop.runtime(pack, journal) as runtime:
        await runtime.run(ASK, plan=pay(), actor=ADA)
        await workshop.clock.sleep(29 * DAY_MS)
        assert (await runtime.run(ASK, plan=pay(), actor=ADA)).status != "completed"
        await workshop.clock.sleep(2 * DAY_MS)
        assert (await runtime.run(ASK, plan=pay(), actor=ADA)).status == "completed"


async def test_a_narrower_identity_counts_within_a_run_as_well(workshop: Workshop) -> None:
    """Two amounts of one payment are two actions of the run, and one call of the period."""
    pack = refunds(workshop, once={"identity": ["payment"], "days": 1}, identity=("payment", "cents"))
    both = plan(
        step("a", "pay.back", params={"payment": "pay_1", "cents": 1}),
        step("b", "pay.back", params={"payment": "pay_1", "cents": 2}, depends_on=("a",)),
    )

    async with workshop.runtime(pack, MemoryJournal()) as runtime:
        refused = await refusal(runtime, await runtime.run(ASK, plan=both, actor=ADA))
        assert (refused.step, refused.code) == ("b", "repeated_call")
    assert workshop.calls == [("a", 1)]


# --- at the same moment ---


@pytest.mark.parametrize("rounds", range(3))
async def test_of_two_processes_at_the_same_moment_one_pays(
    workshop: Workshop, file: str, rounds: int
) -> None:
    """Each has a journal of its own on the same file."""

    async def slowly(_: ToolContext, params: dict[str, Any]) -> Any:
        await workshop.clock.sleep(1_000)
        return params

    pack = refunds(workshop, slowly)

    async with workshop.processes(pack, file, 2) as runtimes:
        runs = (runtime.run(ASK, plan=pay(), actor=ADA) for runtime in (*runtimes, *runtimes[:rounds]))
        results = await asyncio.gather(*runs)
        assert [result.status for result in results].count("completed") == 1
    assert workshop.calls == [("r", 1)]


async def test_a_call_of_an_earlier_rule_counts(workshop: Workshop) -> None:
    """Times compare in UTC since rule 22: what a run claimed before that has another name."""
    at = {"properties": {"at": {"type": "string", "format": "time"}}}
    pack = refunds(workshop, once={"identity": ["at"], "days": 30}, parameters=at)

    def book(text: str) -> Plan:
        return plan(step("r", "pay.back", params={"at": text}))

    def earlier(tool: ToolSpec, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        return canonical_params(tool, params, reads_all=False)

    async with workshop.runtime(pack, MemoryJournal()) as runtime:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recent_calls, "canonical_params", earlier)
            assert (await runtime.run(ASK, plan=book("12:00:00+02:00"), actor=ADA)).status == "completed"
        for text, status in (
            ("12:00:00+02:00", "paused"),
            ("10:00:00Z", "completed"),
            ("13:00:00+03:00", "paused"),
        ):
            assert (await runtime.run(ASK, plan=book(text), actor=ADA)).status == status


class Meeting:
    """A journal in which two sessions have read the claims before either of them claims."""

    def __init__(self, inner: Journal) -> None:
        self._inner = inner
        self._both = asyncio.Barrier(2)
        self._waiting = 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, unit: Any) -> Any:
        """The same, once two have come here with a claim."""
        if unit.stream.startswith("once:") and self._waiting:
            self._waiting -= 1
            await self._both.wait()
        return await self._inner.append(unit)


async def test_two_sessions_that_have_both_seen_no_claim_do_not_both_pay(workshop: Workshop) -> None:
    """The second claim is refused by its position, and then sees the first."""
    pack = refunds(workshop)

    journal: Any = Meeting(MemoryJournal())
    async with workshop.runtime(pack, journal) as runtime:
        runs = [runtime.run(ASK, plan=pay(), actor=ADA) for _ in range(2)]
        results = sorted(await asyncio.gather(*runs), key=lambda result: result.status)
        assert [result.status for result in results].count("completed") == 1
        [loser] = [result for result in results if result.status != "completed"]
        checks = [
            each
            for each in await events(runtime.journal, loser.session_id)
            if isinstance(each, e.RepeatsChecked)
        ]
        assert [len(check.found) for check in checks] == [0, 1]
    assert workshop.calls == [("r", 1)]


async def test_a_retry_does_not_pay_once_another_run_has_paid(workshop: Workshop) -> None:
    """A call that certainly did not happen lets another run through; the first must then not try again."""
    pack = refunds(workshop, None)
    tries: list[str] = []

    async def fails_first(context: ToolContext, params: dict[str, Any]) -> Any:
        tries.append(context.session_id)
        if len(tries) == 1:
            raise NotDone("busy", code="busy", retry_after_ms=60_000)
        return params

    pack = refunds(workshop, fails_first)

    async with workshop.runtime(pack, MemoryJournal()) as runtime:
        slow = asyncio.ensure_future(runtime.run(ASK, plan=pay(), actor=ADA))
        await workshop.clock.sleep(1_000)
        assert len(tries) == 1
        assert (await runtime.run(ASK, plan=pay(), actor=ADA)).status == "completed"
        refused = await refusal(runtime, await slow)
        assert refused.code == "repeated_call"
    assert len(tries) == 2


async def test_a_late_claim_of_a_process_that_lost_its_lease_hides_no_newer_one(workshop: Workshop) -> None:
    """A session is about to try again; that an older claim of its was followed by a call that failed frees nothing."""

    async def busy(_: ToolContext, __: dict[str, Any]) -> Any:
        raise NotDone("busy", code="busy", retry_after_ms=60_000)

    pack, journal = refunds(workshop, busy), MemoryJournal()

    async with workshop.runtime(pack, journal) as runtime:
        first = asyncio.ensure_future(runtime.run(ASK, plan=pay(), actor=ADA))
        await workshop.clock.sleep(1_000)
        [stream] = [name for _, name in journal._streams if name.startswith("once:")]  # pyright: ignore[reportPrivateUsage]
        [stored] = await journal.read("default", stream)
        claim = msgspec.json.decode(stored.data, type=Claim)
        for position in (1_000, 1):
            late = msgspec.json.encode(msgspec.structs.replace(claim, position=position))
            await append_next(journal, "default", stream, late)
        refused = await refusal(runtime, await runtime.run(ASK, plan=pay(), actor=ADA))
        assert refused.code == "repeated_call"
        first.cancel()
    assert workshop.calls == [("r", 1)]


# --- what counts ---


async def test_a_call_that_did_not_happen_does_not_count(workshop: Workshop) -> None:
    """Neither does one whose session ended before it began."""

    async def broken(_: ToolContext, __: dict[str, Any]) -> Any:
        raise NotDone("closed", code="closed", is_retriable=False)

    journal = MemoryJournal()

    async with workshop.runtime(refunds(workshop, broken), journal) as runtime:
        assert (await runtime.run(ASK, plan=pay(), actor=ADA)).status != "completed"
    async with workshop.runtime(refunds(workshop), journal) as runtime:
        assert (await runtime.run(ASK, plan=pay(), actor=ADA)).status == "completed"


async def test_a_call_of_unknown_outcome_counts_until_it_is_settled(workshop: Workshop) -> None:
    """Once a look-up says that it did not happen and the run has ended, another may be made."""

    async def lost(_: ToolContext, __: dict[str, Any]) -> Any:
        raise ConnectionError("lost")

    pack = refunds(workshop, lost)

    async with workshop.runtime(pack, MemoryJournal()) as runtime:
        first = await runtime.run(ASK, plan=pay(), actor=ADA)
        assert first.gate is not None
        second = await runtime.run(ASK, plan=pay(), actor=ADA)
        assert "outcome unknown" in (await refusal(runtime, second)).reason
        await runtime.cancel(first.session_id, actor=ADA)
        await runtime.settle(first.gate.id, happened=False, actor=BOB)
        await runtime.resume(first.session_id)
        third = await runtime.run(ASK, plan=pay(), actor=ADA)
        assert third.gate is not None
        assert third.gate.kind == "reconcile"
    assert len(workshop.calls) == 2


async def test_a_compensated_call_does_not_count(workshop: Workshop) -> None:
    """A run that failed and took its payment back leaves the payment free."""
    pack = _compensating(workshop)
    failing = plan(*pay().steps, step("w", "wipe.it", depends_on=("r",)))

    async with workshop.runtime(pack, MemoryJournal()) as runtime:
        first = await runtime.run(ASK, plan=failing, actor=ADA)
        assert first.gate is not None
        assert (await runtime.run(ASK, plan=pay(), actor=ADA)).status != "completed"
        await runtime.deny(first.gate.id, actor=BOB)
        assert (await runtime.resume(first.session_id)).status == "rejected"
        assert (await runtime.run(ASK, plan=pay(), actor=ADA)).status == "completed"
    assert [name for name, _ in workshop.calls] == ["r", "~r", "r"]


def _compensating(workshop: Workshop, **take_back: Any) -> Pack:
    """A pack whose refunds are taken back where a run fails."""
    undo = {"tool": "take.back", "params": {"payment": {"$from": "self#/payment"}}}
    workshop.tool("pay.back", parameters=REFUND, compensate=undo, once_per=ONCE)
    workshop.tool("take.back", idempotent=True, no_compensation="final", **take_back)
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    return workshop.pack(gates=(BOSS,), on_failure="compensate")


async def test_a_compensation_is_not_made_twice_either(workshop: Workshop) -> None:
    """It is left to an operator, who sees why."""
    once = {"identity": ["payment"], "days": 1, "then": "ask"}
    pack = _compensating(workshop, once_per=once)
    taken = plan(step("t", "take.back", params={"payment": "pay_1"}))
    failing = plan(*pay().steps, step("w", "wipe.it", depends_on=("r",)))

    async with workshop.runtime(pack, MemoryJournal()) as runtime:
        assert (await runtime.run(ASK, plan=taken, actor=ADA)).status == "completed"
        first = await runtime.run(ASK, plan=failing, actor=ADA)
        assert first.gate is not None
        await runtime.deny(first.gate.id, actor=BOB)
        await runtime.resume(first.session_id)
        refused = await refusal(runtime, first)
        assert (refused.step, refused.code) == ("~r", "repeated_call")


async def test_a_removed_session_counts_for_the_rest_of_the_period(workshop: Workshop) -> None:
    """What it did cannot be read any more, so it may have paid."""
    pack = refunds(workshop)

    async with workshop.runtime(pack, MemoryJournal()) as runtime:
        first = await runtime.run(ASK, plan=pay(), actor=ADA)
        await workshop.clock.sleep(120_000)
        lease = await runtime.journal.acquire(
            runtime.tenant, first.session_id, owner="sweeper", now_ms=workshop.clock.now(), ttl_ms=1_000
        )
        await runtime.journal.forget(lease)
        refused = await refusal(runtime, await runtime.run(ASK, plan=pay(), actor=ADA))
        assert first.session_id in refused.reason


# --- crashes ---


@pytest.mark.parametrize("point", ["before_append", "after_append"])
@pytest.mark.parametrize("nth", range(1, 8))
async def test_a_session_that_dies_anywhere_pays_once_and_is_not_blocked_by_itself(
    workshop: Workshop, point: str, nth: int
) -> None:
    """Also between its claim and its INTENT: the claim is the session's own."""

    async def look_up(context: ToolContext, **params: Any) -> Happened | Absent:
        return Happened(params) if workshop.calls else Absent()

    pack, journal = refunds(workshop, reconcile=look_up), MemoryJournal()

    death = Death(point, nth)
    async with workshop.runtime(pack, journal, crash=death) as mortal:
        await death.of(mortal.run(ASK, plan=pay(), actor=ADA))
    await workshop.clock.sleep(120_000)
    async with workshop.runtime(pack, journal) as runtime:
        rows = await runtime.sessions()
        for row in rows:
            if row.status not in ("completed", "failed"):
                assert (await runtime.resume(row.session_id)).status == "completed"
        again = await runtime.run(ASK, plan=pay(), actor=ADA)
        assert (again.status == "completed") == (not rows)
    assert len(workshop.calls) == 1


async def test_a_claim_without_a_call_counts_until_its_session_is_over(workshop: Workshop) -> None:
    """The session may still make the call; once it is cancelled, it cannot."""
    pack, journal = refunds(workshop), MemoryJournal()

    async def claimed() -> bool:
        return bool([name for _, name in journal._streams if name.startswith("once:")])  # pyright: ignore[reportPrivateUsage]

    for nth in range(1, 9):  # the append of the INTENT is the one after the claim
        death = Death("before_append", nth)
        async with workshop.runtime(pack, journal, crash=death) as mortal:
            await death.of(mortal.run(ASK, plan=pay(), actor=ADA))
        if await claimed():
            break
    await workshop.clock.sleep(120_000)
    async with workshop.runtime(pack, journal) as runtime:
        refused = await refusal(runtime, await runtime.run(ASK, plan=pay(), actor=ADA))
        assert refused.code == "repeated_call"
        for row in await runtime.sessions():
            if row.status == "in_progress":
                await runtime.cancel(row.session_id, actor=ADA)
                await runtime.resume(row.session_id)
        assert (await runtime.run(ASK, plan=pay(), actor=ADA)).status == "completed"
    assert workshop.calls == [("r", 1)]


# --- asking ---


ASKING: dict[str, Any] = {**ONCE, "then": "ask"}


@pytest.mark.parametrize("gates", [(), ("BOSS",)], ids=["no gate", "own gate"])
async def test_a_repetition_is_asked_about_once_with_the_first_session_named(
    workshop: Workshop, gates: tuple[str, ...], url: str
) -> None:
    """A tool without gates needs no approval for the first call; the second waits, and is made when it is approved."""
    pack = refunds(workshop, once=ASKING, gates=gates)

    async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
        first = await runtime.run(ASK, plan=pay(), actor=ADA)
        if gates:
            assert first.gate is not None
            assert "repeats" not in first.gate.shown
            await runtime.approve(first.gate.id, actor=BOB)
            first = await runtime.resume(first.session_id)
        assert first.status == "completed"
        second = await runtime.run(ASK, plan=pay(), actor=ADA)
        assert second.gate is not None
        assert (second.gate.kind, second.gate.names) == ("approval", gates)
        [repeat] = second.gate.shown["repeats"]
        assert (repeat["session"], repeat["step"]) == (first.session_id, "r")
        await runtime.approve(second.gate.id, actor=BOB)
        assert (await runtime.resume(second.session_id)).status == "completed"
    assert workshop.calls == [("r", 1), ("r", 1)]


async def test_a_repetition_can_be_asked_about_at_a_gate_of_its_own(workshop: Workshop) -> None:
    """The first call does not wait for that gate."""
    pack = refunds(workshop, once={**ASKING, "gate": "BOSS"})

    async with workshop.runtime(pack, MemoryJournal()) as runtime:
        assert (await runtime.run(ASK, plan=pay(), actor=ADA)).status == "completed"
        second = await runtime.run(ASK, plan=pay(), actor=ADA)
        assert second.gate is not None
        assert second.gate.names == ("BOSS",)


async def test_no_policy_grants_a_repetition(workshop: Workshop) -> None:
    """A person is asked about it, also where the first call needed nobody."""
    refunds(workshop, once=ASKING, mode="network", authority=())
    cheap = Policy(name="cheap", effect="grant", scope="step", expression="step.params.cents < 1000")
    pack = workshop.pack(policies=(cheap,), on_failure="keep")

    async with workshop.runtime(pack, MemoryJournal()) as runtime:
        assert (await runtime.run(ASK, plan=pay(), actor=ADA)).status == "completed"
        assert (await runtime.run(ASK, plan=pay(), actor=ADA)).gate is not None


async def test_an_approval_does_not_cover_a_repetition_that_nobody_saw(workshop: Workshop) -> None:
    """Two runs wait at the same gate; when one has paid, the approval of the other is asked for again."""
    pack = refunds(workshop, once=ASKING, gates=("BOSS",))

    async with workshop.runtime(pack, MemoryJournal()) as runtime:
        waiting = [await runtime.run(ASK, plan=pay(), actor=ADA) for _ in range(2)]
        for each in waiting:
            assert each.gate is not None
            await runtime.approve(each.gate.id, actor=BOB)
        first = await runtime.resume(waiting[0].session_id)
        assert first.status == "completed"
        second = await runtime.resume(waiting[1].session_id)
        assert second.gate is not None
        assert second.gate.shown["repeats"][0]["session"] == first.session_id
        assert "changed" in second.gate.shown
        await runtime.approve(second.gate.id, actor=BOB)
        assert (await runtime.resume(second.session_id)).status == "completed"


# --- declarations ---


@pytest.mark.parametrize(
    "declared", [{"days": 0}, {}, {"days": 1, "gate": "BOSS"}, {"days": 1, "then": "warn"}], ids=str
)
def test_a_wrong_declaration_is_refused(declared: dict[str, Any]) -> None:
    """A period is needed, and a gate is only asked where repetitions are asked about."""
    with pytest.raises(ValidationError):
        OncePer.model_validate(declared)


async def test_the_claims_are_part_of_a_checked_journal(workshop: Workshop, file: str) -> None:
    """`tercet journal check` knows their streams."""
    pack = refunds(workshop)

    async with workshop.journal(file) as journal:
        async with workshop.runtime(pack, journal) as runtime:
            await runtime.run(ASK, plan=pay(), actor=ADA)
        checked: Any = journal
        report = await check_journal(checked, None, progress=lambda _: None)
        assert report.problems == []


async def test_a_compensation_that_the_plan_proposes_does_not_allow_the_call_again(
    workshop: Workshop,
) -> None:
    """A plan may propose one that undoes nothing; only what the tool declares makes a call void."""
    workshop.tools.clear()
    workshop.tool("pay.back", parameters=REFUND, no_compensation="final", once_per=ONCE)
    workshop.tool("note.it", idempotent=True, no_compensation="final", authority=())
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    pack = workshop.pack(gates=(BOSS,), on_failure="compensate")
    paid = {"payment": "pay_1", "cents": 100}
    back: dict[str, Any] = {"tool": "note.it", "params": {}}

    async with workshop.runtime(pack, MemoryJournal()) as runtime:
        first = plan(
            step("r", "pay.back", params=paid, compensate=back), step("w", "wipe.it", depends_on=("r",))
        )
        result = await runtime.run(ASK, plan=first, actor=ADA)
        assert result.gate is not None
        await runtime.deny(result.gate.id, actor=BOB)
        await runtime.resume(result.session_id)
        again = await runtime.run(ASK, plan=pay("again"), actor=ADA)
        assert (await refusal(runtime, again)).code == "repeated_call"
    assert [name for name, _ in workshop.calls] == ["r", "~r"]
