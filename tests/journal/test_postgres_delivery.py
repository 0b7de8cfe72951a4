"""What the PostgreSQL journal answers when its connection fails, at every operation: acknowledged is stored exactly once,
refused is not stored, and only what was sent without an answer is called unknown."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace

from journal.faulty_connections import Fault, FaultyDriver, Kind
from tercet.contracts.errors import InternalError, TercetError
from tercet.journal.chain import verify_chain
from tercet.journal.errors import AppendUnknown, JournalUnavailable
from tercet.journal.opening import open_journal
from tercet.journal.postgres.delivery import Delivery, Sent, State
from tercet.journal.protocol import Append, FirstLease, Journal, Lease, NewCheckpoint, Position


@pytest.fixture
def tenant() -> str:
    """A tenant of the test's own."""
    return f"tenant-{secrets.token_hex(8)}"


async def test_an_append_is_not_acknowledged_for_what_the_batch_before_it_stored(
    postgres_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is gone, and so is the server for a moment: the next append is stored, or is not acknowledged."""
    faulty = FaultyDriver()
    faulty.install(monkeypatch)

    async with open_journal(postgres_url, patience_s=0) as journal:
        events = [b"first", b"second", b"third"]
        for seq, event in enumerate(events[:2]):
            await journal.append(Append(tenant=tenant, stream="ses_1", expected=seq, events=(event,)))
        faulty.cut()
        faulty.refusals = 1
        last = Append(tenant=tenant, stream="ses_1", expected=2, events=(events[2],))
        answer = await answer_of(journal.append(last))
        stored = [event.data for event in await journal.read(tenant, "ses_1")]
        assert stored == events[: 3 if isinstance(answer, Position) else 2]


async def answer_of(call: Awaitable[Any]) -> Any:
    """What a call returns, or the typed error that it raises."""
    try:
        return await call
    except TercetError as error:
        return error


# --- every operation fails once ---


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An append that a client sent, and what it was answered."""

    unit: Append
    answer: Any


@dataclass
class Client:
    """Sends units and lease acts, whatever it is answered, and keeps the answers."""

    journal: Journal
    tenant: str
    asked: list[Asked] = field(default_factory=list[Asked])
    leases: dict[str, Lease] = field(default_factory=dict[str, Lease])
    wrongs: list[str] = field(default_factory=list[str])
    _number: int = 0

    async def append(self, stream: str, *, follow: int = 0, claims: tuple[str, ...] = ()) -> None:
        """Append one unit of two events, and as many behind it in the same batch."""
        end = (await self.journal.head(self.tenant, stream)).seq
        units = [self._unit(stream, end + 2 * place, claims) for place in range(follow + 1)]
        answers = await asyncio.gather(*(answer_of(self.journal.append(unit)) for unit in units))
        self.asked += [Asked(unit=unit, answer=answer) for unit, answer in zip(units, answers, strict=True)]

    async def begin(self, stream: str, owner: str) -> None:
        """Append the first unit of a stream together with its first lease."""
        lease = Lease(tenant=self.tenant, stream=stream, owner=owner, epoch=1, until=10)
        unit = replace(self._unit(stream, 0, ()), lease=FirstLease(owner=owner, until=10))
        answer = await answer_of(self.journal.append(unit))
        self.asked.append(Asked(unit=unit, answer=answer))
        found = await self.journal.lease(self.tenant, stream)
        if isinstance(answer, Position):
            self._demand(found == lease, f"the lease {lease} was acknowledged, and {found} is stored")
            self.leases[stream] = lease
        elif not isinstance(answer, AppendUnknown):
            self._demand(found is None, f"{answer!r}, and the lease is held")

    async def append_nothing(self, stream: str) -> None:
        """Append a unit that has a claim and no event."""
        end = (await self.journal.head(self.tenant, stream)).seq
        self._number += 1
        claims = (f"nothing {self._number}",)
        unit = Append(
            tenant=self.tenant, stream=stream, expected=end, epoch=self._epoch(stream), claims=claims
        )
        self.asked.append(Asked(unit=unit, answer=await answer_of(self.journal.append(unit))))

    def _unit(self, stream: str, expected: int, claims: tuple[str, ...]) -> Append:
        self._number += 1
        events = (f"{self._number} a".encode(), f"{self._number} b".encode())
        return Append(
            tenant=self.tenant,
            stream=stream,
            expected=expected,
            epoch=self._epoch(stream),
            events=events,
            checkpoints=(NewCheckpoint(kind="point", seq=expected + 2, data=events[0]),),
            claims=claims or (f"claim {self._number}",),
        )

    def _epoch(self, stream: str) -> int | None:
        return self.leases[stream].epoch if stream in self.leases else None

    async def acquire(self, stream: str, owner: str) -> None:
        """Acquire a lease, and again while it is not known whether it was granted."""
        is_unknown = False
        for _ in range(3):
            answer = await answer_of(
                self.journal.acquire(self.tenant, stream, owner=owner, now_ms=0, ttl_ms=10)
            )
            found = await self.journal.lease(self.tenant, stream)
            if isinstance(answer, Lease):
                self._demand(found == answer, f"the lease {answer} was acknowledged, and {found} is stored")
                self.leases[stream] = answer
                return
            is_mine = found is not None and found.owner == owner
            is_unknown = is_unknown or isinstance(answer, AppendUnknown)
            self._demand(is_unknown or not is_mine, f"{answer!r}, and the lease is held")

    async def renew(self, stream: str) -> None:
        """Renew the lease on a stream."""
        if stream not in self.leases:
            return
        answer = await answer_of(self.journal.renew(self.leases[stream], now_ms=5, ttl_ms=10))
        found = await self.journal.lease(self.tenant, stream)
        if isinstance(answer, Lease):
            self._demand(found == answer, f"the lease {answer} was acknowledged, and {found} is stored")
        elif not isinstance(answer, AppendUnknown):
            self._demand(found == self.leases[stream], f"{answer!r}, and the lease is {found}")

    async def release(self, stream: str) -> None:
        """Give up the lease on a stream."""
        if stream in self.leases and await answer_of(self.journal.release(self.leases[stream])) is None:
            self._demand(await self.journal.lease(self.tenant, stream) is None, "a released lease is held")

    async def forget(self, stream: str) -> None:
        """Remove a stream, if the client has its lease."""
        if stream not in self.leases or self.leases[stream].owner != "bob":
            return
        answer = await answer_of(self.journal.forget(self.leases[stream]))
        is_gone = await self.journal.lease(self.tenant, stream) is None
        self._demand(is_gone or answer is not None, "a forgotten stream is there")
        self._demand(not is_gone or answer is None or isinstance(answer, AppendUnknown), f"{answer!r}: gone")
        if is_gone or isinstance(answer, AppendUnknown):  # then it may go later
            self.asked = [each for each in self.asked if each.unit.stream != stream]

    def _demand(self, holds: bool, why: str) -> None:
        if not holds:
            self.wrongs.append(why)

    async def check(self) -> list[str]:
        """What the journal holds that does not fit the answers."""
        streams = {asked.unit.stream for asked in self.asked}
        stored = {stream: await self.journal.read(self.tenant, stream) for stream in streams}
        for asked in self.asked:
            unit, answer = asked.unit, asked.answer
            places = [event.seq for event in stored[unit.stream] if event.data in unit.events]
            holders = [await self.journal.claim(self.tenant, key) for key in unit.claims]
            whole = list(range(unit.expected + 1, unit.expected + len(unit.events) + 1))
            is_claimed = all(holder is not None and holder.stream == unit.stream for holder in holders)
            is_stored = places == whole and is_claimed
            is_absent = not places and not (unit.claims != ("taken",) and any(holders))
            name = f"{unit.stream} {unit.events or unit.claims}: {answer!r}"
            match answer:
                case Position():
                    self._demand(is_stored, f"{name} was acknowledged, and is not stored once")
                    self._demand(answer.seq == unit.expected + len(unit.events), f"{name} is elsewhere")
                case AppendUnknown():
                    self._demand(is_stored or is_absent, f"{name} is stored in part")
                case _:
                    self._demand(is_absent, f"{name} was refused, and is stored")
        for stream in streams:
            await verify_chain(self.journal, self.tenant, stream)
        return self.wrongs


Scene: TypeAlias = Callable[[Client], AsyncGenerator[None]]
"""What a client does. It yields once: what comes before is done over a connection that works."""


async def lease_first(client: Client) -> AsyncGenerator[None]:
    """Streams that are leased for the first time, by an act of its own and with an append, beside one without a lease."""
    yield
    await asyncio.gather(client.begin("ses_1", "ann"), client.acquire("ses_2", "ann"), client.append("inbox"))
    await asyncio.gather(client.append("ses_1"), client.begin("ses_3", "ann"))
    await client.append("ses_3")


async def append_together(client: Client) -> AsyncGenerator[None]:
    """Units of several streams, and two of one stream, in one batch."""
    await client.acquire("ses_1", "ann")
    await asyncio.gather(client.append("ses_1"), client.append("inbox"))
    yield
    await asyncio.gather(client.append("ses_1", follow=1), client.append("inbox"))
    await client.append("ses_1")


async def append_without_events(client: Client) -> AsyncGenerator[None]:
    """A unit that has a claim and no event, beside one that has events."""
    await client.acquire("ses_2", "ann")
    await client.append("ses_2")
    yield
    await asyncio.gather(client.append_nothing("ses_2"), client.append("inbox"))
    await client.append("ses_2")


async def renew(client: Client) -> AsyncGenerator[None]:
    """A lease that is renewed while its stream grows."""
    await client.acquire("ses_1", "ann")
    yield
    await asyncio.gather(client.renew("ses_1"), client.append("ses_1"))
    await client.append("ses_1")


async def claim_what_is_taken(client: Client) -> AsyncGenerator[None]:
    """A unit that is refused since another stream has its key, in one batch with a unit that is not."""
    await asyncio.gather(client.acquire("ses_1", "ann"), client.acquire("ses_2", "ann"))
    await client.append("ses_1", claims=("taken",))
    yield
    await asyncio.gather(client.append("ses_2", claims=("taken",)), client.append("ses_1"))
    await client.append("ses_2")


async def forget(client: Client) -> AsyncGenerator[None]:
    """A stream that changes hands and is removed."""
    await client.acquire("ses_2", "ann")
    await client.append("ses_2")
    yield
    await client.release("ses_2")
    await client.acquire("ses_2", "bob")
    await client.forget("ses_2")


SCENES = (lease_first, append_together, append_without_events, renew, claim_what_is_taken, forget)


@dataclass
class Trials:
    """Clients that work one after the other on one journal whose connections fail."""

    journal: Journal
    faulty: FaultyDriver

    async def run(self, scene: Scene, *faults: Fault) -> list[str]:
        """Let a client play a scene while operations fail, counted from the scene's yield; what it found wrong."""
        client = Client(self.journal, f"tenant-{secrets.token_hex(8)}")
        await client.append("first")  # so that there is a connection
        async for _ in scene(client):
            self.faulty.operations.clear()
            self.faulty.faults = faults
        self.faulty.refusals, self.faulty.faults = 0, ()
        await self.faulty.finish()
        return await client.check()

    async def count(self, scene: Scene) -> int:
        """How many operations a scene takes where none fails."""
        assert await self.run(scene) == []
        return len(self.faulty.operations)


@asynccontextmanager
async def trials(url: str, *, patience_s: float) -> AsyncGenerator[Trials]:
    """A journal whose writing connections can be made to fail."""
    faulty = FaultyDriver()
    with pytest.MonkeyPatch.context() as patch:
        faulty.install(patch)
        async with open_journal(url, patience_s=patience_s) as journal:
            yield Trials(journal, faulty)


KINDS: tuple[Kind, ...] = ("not sent", "answer lost", "carried out late")


BACK_AT_ONCE, BACK_TOO_LATE, GONE = (0, 20), (1, 0), (-1, 0)
"""How many attempts to connect are refused afterwards, -1 for all, and how many seconds they are tried for."""


@pytest.mark.parametrize(
    ("kind", "refusals", "patience_s"),
    [*((kind, *away) for kind in KINDS for away in (BACK_AT_ONCE, BACK_TOO_LATE)), ("answer lost", *GONE)],
)
async def test_every_operation_may_fail_once(
    postgres_url: str, kind: Kind, refusals: int, patience_s: float
) -> None:
    """Wherever the connection is lost, whatever was acknowledged is stored once, and what was refused is not stored."""

    async with trials(postgres_url, patience_s=patience_s) as tried:
        for scene in SCENES:
            for at in range(await tried.count(scene)):
                wrongs = await tried.run(scene, Fault(at, kind, refusals))
                assert wrongs == [], (scene.__name__, tried.faulty.operations[: at + 1])


@pytest.mark.parametrize("scene", SCENES)
async def test_operations_may_fail_again_while_the_first_failure_is_handled(
    postgres_url: str, scene: Scene
) -> None:
    """A second loss on the careful path, at each of its statements, changes nothing of what is promised."""

    async with trials(postgres_url, patience_s=20) as tried:
        for at, later in product(range(await tried.count(scene)), range(1, 9)):
            faults = (Fault(at, "answer lost"), Fault(at + later, KINDS[(at + later) % len(KINDS)]))
            assert await tried.run(scene, *faults) == [], tried.faulty.operations[: at + later + 1]


async def test_a_unit_that_a_panicking_server_has_stored_is_acknowledged_once(
    postgres_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error with which the server gives up says nothing about the commit: the unit is looked up."""
    faulty = FaultyDriver()
    faulty.install(monkeypatch)

    async with open_journal(postgres_url, patience_s=20) as journal:
        await journal.append(Append(tenant=tenant, stream="ses_1", expected=0, events=(b"first",)))
        faulty.faults = [Fault(len(faulty.operations), "panic")]
        last = Append(tenant=tenant, stream="ses_1", expected=1, events=(b"second",))
        assert (await journal.append(last)).seq == 2
        stored = [event.data for event in await journal.read(tenant, "ses_1")]
        assert stored == [b"first", b"second"]


async def test_a_first_lease_whose_answer_is_lost_is_found_and_acknowledged(
    postgres_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit that began the stream is looked up under the epoch that it began."""
    faulty = FaultyDriver()
    faulty.install(monkeypatch)

    async with open_journal(postgres_url, patience_s=20) as journal:
        lease = FirstLease(owner="ann", until=10)
        unit = Append(tenant=tenant, stream="ses_1", expected=0, lease=lease, events=(b"first",))
        await journal.append(replace(unit, stream="ses_0"))  # so that there is a connection
        faulty.faults = [Fault(len(faulty.operations), "answer lost")]
        assert (await journal.append(unit)).seq == 1
        assert [event.data for event in await journal.read(tenant, "ses_1")] == [b"first"]


# --- what cannot be told apart is unknown ---


async def test_a_lost_answer_is_unknown_once_another_owner_has_the_stream(
    postgres_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream holds the bytes of the unit, and a later owner might have written them: that is not acknowledged."""
    faulty = FaultyDriver()
    faulty.install(monkeypatch)

    async with open_journal(postgres_url) as other, open_journal(postgres_url, patience_s=20) as journal:
        old = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=10)
        unit = Append(tenant=tenant, stream="ses_1", expected=0, epoch=old.epoch, events=(b"same",))
        faulty.before_reconnecting = partial(_take_over, other, unit)
        faulty.faults = [Fault(len(faulty.operations), "not sent")]
        assert isinstance(await answer_of(journal.append(unit)), AppendUnknown)
        assert [event.data for event in await journal.read(tenant, "ses_1")] == [b"same"]


async def _take_over(journal: Journal, unit: Append) -> None:
    """Take a stream over, and write the same bytes to it."""
    lease = await journal.acquire(unit.tenant, unit.stream, owner="bob", now_ms=20, ttl_ms=10)
    await journal.append(replace(unit, epoch=lease.epoch))


async def test_a_unit_without_events_is_unknown_if_its_repetition_is_refused(
    postgres_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim was stored, its answer lost, and somebody else appended: a conflict would say that nothing was written."""
    faulty = FaultyDriver()
    faulty.install(monkeypatch)

    async with open_journal(postgres_url) as other, open_journal(postgres_url, patience_s=20) as journal:
        await journal.append(Append(tenant=tenant, stream="inbox", expected=0, events=(b"first",)))
        unit = Append(tenant=tenant, stream="inbox", expected=1, claims=("key",))
        after = Append(tenant=tenant, stream="inbox", expected=1, events=(b"second",))
        faulty.before_reconnecting = partial(other.append, after)
        faulty.faults = [Fault(len(faulty.operations), "answer lost")]
        assert isinstance(await answer_of(journal.append(unit)), AppendUnknown)
        assert await journal.claim(tenant, "key") is not None


async def test_a_forgotten_stream_is_not_confused_with_a_new_one_of_its_name(
    postgres_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream was removed, its answer lost, and its name given to another stream: that one stays."""
    faulty = FaultyDriver()
    faulty.install(monkeypatch)

    async with open_journal(postgres_url) as other, open_journal(postgres_url, patience_s=20) as journal:
        lease = await journal.acquire(tenant, "ses_1", owner="ann", now_ms=0, ttl_ms=10)
        again = partial(other.acquire, tenant, "ses_1", owner="bob", now_ms=20, ttl_ms=10)
        faulty.before_reconnecting = again
        first = len(faulty.operations)
        faulty.faults = [Fault(first + COMMIT_OF_A_REMOVAL, "answer lost")]
        assert await answer_of(journal.forget(lease)) is None
        assert faulty.operations[first + COMMIT_OF_A_REMOVAL] == "commit"
        found = await journal.lease(tenant, "ses_1")
        assert found is not None
        assert (found.owner, found.epoch) == ("bob", lease.epoch)


COMMIT_OF_A_REMOVAL = 6
"""BEGIN, the tenant's lock, the stream's row, and three statements come before it."""


# --- the state machine ---

UNIT = Append(tenant="acme", stream="ses_1", expected=0, events=(b"event",))
STORED = Position(1, b"chain")
AWAY = JournalUnavailable("here", "it is away")


def delivery(*steps: Callable[[Delivery], None]) -> Delivery:
    """A delivery after these steps."""
    made = Delivery(UNIT)
    for step in steps:
        step(made)
    return made


def send(made: Delivery) -> None:
    """Send it."""
    made.send(Sent(1, STORED))


def confirm(made: Delivery) -> None:
    """Hear that it is stored."""
    made.confirm(STORED)


def give_up(made: Delivery) -> None:
    """Try nothing more."""
    made.give_up(AWAY, "here")


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ((), State.NOT_SENT),
        ((send,), State.IN_DOUBT),
        ((send, Delivery.reject), State.NOT_SENT),
        ((send, send, Delivery.reject), State.IN_DOUBT),
        ((send, confirm), State.STORED),
        ((give_up,), State.REFUSED),
        ((send, Delivery.reject, give_up), State.REFUSED),
        ((send, give_up), State.UNKNOWN),
        ((send, send, Delivery.reject, give_up), State.UNKNOWN),
    ],
)
def test_doubt_comes_from_a_send_without_an_answer(
    steps: tuple[Callable[[Delivery], None], ...], state: State
) -> None:
    """An act is in doubt as long as one of its own sends is unanswered, and unknown if it stays so."""
    made = delivery(*steps)
    assert made.state is state
    assert isinstance(made.outcome, AppendUnknown) == (state is State.UNKNOWN)


@pytest.mark.parametrize("step", [confirm, Delivery.reject])
def test_what_was_not_sent_cannot_be_answered(step: Callable[[Delivery], None]) -> None:
    """There is no acknowledgement without a send."""
    with pytest.raises(InternalError):
        delivery(step)


@pytest.mark.parametrize("step", [send, confirm, Delivery.reject, give_up])
@pytest.mark.parametrize("end", [(send, confirm), (give_up,), (send, give_up)])
def test_an_outcome_is_final(
    end: tuple[Callable[[Delivery], None], ...], step: Callable[[Delivery], None]
) -> None:
    """Once a caller can have heard it, nothing changes it."""
    with pytest.raises(InternalError):
        delivery(*end, step)
