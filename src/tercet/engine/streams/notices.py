"""Notices: the facts of runs that people have to hear of, and what became of delivering them.

The append that records such a fact sets a reminder with the name of its notice, in the same commit. The process that
delivers it holds the lease on the stream of that name, and keeps there which targets it goes to and how each attempt ended.
The stream holds no text of the notification: that is made from the session's events each time it is sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias, assert_never

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import compensated_step
from tercet.contracts.values.plain import storable
from tercet.core import events as e
from tercet.core.state import State
from tercet.engine.leases import LeaseClient
from tercet.journal.protocol import Append, Journal, Lease, Reminder, Stored
from tercet.journal.side_stream import encode_entry, read_all

KIND = "notify"
_WARNING = "expires"
NEVER = 2**53
"""When the reminder of a notice is due that only an operator sends again."""
_PAGE = 1_000

DeliveryStatus: TypeAlias = Literal["pending", "delivered", "failed", "dropped"]


NOTABLE = frozenset({e.GateOpened, e.StepSkipped})
"""The types of events that `is_notable` may hold for."""


def is_notable(event: e.Event, state: State) -> bool:
    """Return whether people have to hear of an event: a gate that opened, or a compensation that failed.

    The gates of a lane are answered at the run that started it, where they open as well.
    """
    match event:
        case e.GateOpened():
            return not state.start.lane
        case e.StepSkipped():
            return bool(compensated_step(event.step))
        case _:
            return False


def notice_of(session: str, position: int) -> str:
    """Return the name of the notice about the event at a position of a session."""
    return f"{KIND}:{session}#{position}"


def warning_of(notice: str) -> str:
    """Return the name of the notice that a gate expires soon, by that of its opening."""
    return f"{notice}#{_WARNING}"


class Subject(msgspec.Struct, frozen=True):
    """The event that a notice is about."""

    session: str
    position: int
    is_warning: bool = False


def subject_of(notice: str) -> Subject | None:
    """Return the subject of a notice; None if it is not the name of a notice."""
    kind, _, rest = notice.partition(":")
    session, _, place = rest.partition("#")
    position, _, warning = place.partition("#")
    if kind != KIND or not session or not position.isdecimal() or warning not in ("", _WARNING):
        return None
    return Subject(session, int(position), bool(warning))


def message_id(tenant: str, notice: str) -> str:
    """Return the id of a notification, the same at every attempt and for every target."""
    return f"msg_{hashlib.sha256(msgspec.json.encode((tenant, notice))).hexdigest()[:32]}"


# --- events ---


class Queued(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="queued"):
    """The targets that a notification goes to."""

    at: int
    event: str
    """The reported event, such as `gate.opened`."""
    about: str
    """The gate, or the step whose compensation failed."""
    targets: tuple[str, ...]


class Attempted(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="attempted"
):
    """An attempt to deliver to one target."""

    at: int
    target: str
    error: str = ""
    """Why it failed, in words of our own; empty if it was delivered."""
    next_at: int | None = None
    """When it is tried again; None if it was delivered, or is not tried again."""


class Dropped(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="dropped"):
    """The undelivered notifications of a notice are not to be delivered any more."""

    at: int
    reason: str


class Resent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="resent"):
    """An operator asked for another round of attempts at the targets that were not reached."""

    at: int
    by: str


NoticeEvent: TypeAlias = Queued | Attempted | Dropped | Resent
_decoder: msgspec.json.Decoder[NoticeEvent] = msgspec.json.Decoder(NoticeEvent)


class Delivery(msgspec.Struct, kw_only=True):
    """The state of one notification at one target."""

    target: str
    status: DeliveryStatus = "pending"
    attempts: int = 0
    """Since it was queued or sent again."""
    error: str = ""
    next_at: int = 0
    at: int = 0
    """When the status was reached."""


class Notice(msgspec.Struct, kw_only=True):
    """A notification with its state at each target."""

    tenant: str
    name: str
    due_at: int | None = None
    event: str = ""
    about: str = ""
    queued_at: int = 0
    deliveries: dict[str, Delivery] = {}
    position: int = 0
    """Where its stream ends."""

    @property
    def id(self) -> str:
        """The id that receivers see."""
        return message_id(self.tenant, self.name)

    @property
    def wakes_at(self) -> int | None:
        """The time of the next attempt; None if no delivery is left."""
        pending = [each.next_at for each in self.deliveries.values() if each.status == "pending"]
        has_failed = any(each.status == "failed" for each in self.deliveries.values())
        return min(pending, default=NEVER if has_failed else None)

    def apply(self, event: NoticeEvent) -> None:
        """Take an event of its stream into account."""
        self.position += 1
        match event:
            case Queued():
                self.event, self.about, self.queued_at = event.event, event.about, event.at
                self.deliveries = {
                    name: Delivery(target=name, next_at=event.at, at=event.at) for name in event.targets
                }
            case Attempted():
                found = self.deliveries[event.target]
                found.attempts += 1
                found.at, found.error, found.next_at = event.at, event.error, event.next_at or 0
                if not event.error:
                    found.status = "delivered"
                elif event.next_at is None:
                    found.status = "failed"
            case Dropped():
                for each in self.deliveries.values():
                    if each.status in ("pending", "failed"):
                        each.status, each.error, each.at = "dropped", event.reason, event.at
            case Resent():
                for each in self.deliveries.values():
                    if each.status in ("failed", "dropped"):
                        each.status, each.attempts, each.next_at, each.at = "pending", 0, event.at, event.at
            case _:
                assert_never(event)


def fold_notice(tenant: str, name: str, stored: Sequence[Stored]) -> Notice:
    """Return a notice from the events of its stream."""
    notice = Notice(tenant=tenant, name=name)
    for each in stored:
        notice.apply(_decoder.decode(each.data))
    return notice


async def load_notice(journal: Journal, tenant: str, name: str) -> Notice:
    """Return a recorded notice; one that no process has looked at yet has no targets."""
    return fold_notice(tenant, name, await read_all(journal, tenant, name))


async def record(
    journal: Journal,
    lease: Lease,
    notice: Notice,
    *events: NoticeEvent,
    more: tuple[tuple[str, int | None], ...] = (),
) -> None:
    """Append events to a notice, and set its reminder to when it has to be looked at next."""
    expected = notice.position
    for event in events:
        notice.apply(event)
    data = tuple(encode_entry(each, notice.tenant, notice.name) for each in events)
    await journal.append(
        Append(
            tenant=notice.tenant,
            stream=notice.name,
            expected=expected,
            epoch=lease.epoch,
            events=data,
            reminders=((notice.name, notice.wakes_at), *more),
        )
    )


async def forget_notice(leases: LeaseClient, notice: str) -> None:
    """Remove a notice and the warning that belongs to it, with their reminders."""
    for name in (notice, warning_of(notice)):
        lease = (await leases.acquire_ended(name)).lease
        end = (await leases.journal.head(leases.tenant, name)).seq
        unit = Append(
            tenant=leases.tenant, stream=name, expected=end, epoch=lease.epoch, reminders=((name, None),)
        )
        await leases.journal.append(unit)
        await leases.journal.forget(lease)


# --- for operators ---


async def list_notices(journal: Journal, tenant: str) -> list[Notice]:
    """Return the notices of a tenant that are not settled: to be sent, sent again later, or given up."""
    limit = _PAGE
    while len(found := await journal.reminders(now_ms=NEVER, tenant=tenant, limit=limit)) == limit:
        limit *= 2
    return [await _listed(journal, each) for each in found if subject_of(each.name) is not None]


async def _listed(journal: Journal, reminder: Reminder) -> Notice:
    notice = await load_notice(journal, reminder.tenant, reminder.name)
    notice.due_at = reminder.due_at
    return notice


async def resend(leases: LeaseClient, wanted: str, *, by: str) -> Notice:
    """Have a notice delivered again to the targets that it did not reach; raises `UsageError` if there is none.

    Raises `LeaseHeld` while a process is sending it.
    """
    for found in await list_notices(leases.journal, leases.tenant):
        if found.id != wanted:
            continue
        async with leases.holding(found.name) as lease:
            notice = await load_notice(leases.journal, leases.tenant, found.name)
            if notice.position:
                event = Resent(at=leases.clock.now(), by=storable(by))
                await record(leases.journal, lease, notice, event)
            return notice
    raise UsageError(
        f"there is no undelivered notification {wanted}",
        code="unknown_notification",
        remedy="tercet notifications list names those that were not delivered",
    )
