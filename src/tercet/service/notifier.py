"""The notifier: delivers the notices of a journal, each of them by one process at a time, until every target has taken it.

It asks one question: which reminders are due. The append that opens a gate sets one in its own commit, whichever process
makes it, so nothing is lost; a look that finds none reads no session. What came of each attempt is durable before the
reminder moves on, so a process that dies in between repeats an attempt, with the same id.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tercet.contracts.errors import TercetError, UsageError
from tercet.core import codec
from tercet.core import events as e
from tercet.core.resolve.sessions import find_expired
from tercet.core.state import State
from tercet.engine.leases import LeaseClient
from tercet.engine.session_reader import load_state
from tercet.engine.streams.notices import (
    Attempted,
    Dropped,
    Notice,
    Queued,
    Subject,
    load_notice,
    message_id,
    record,
    subject_of,
    warning_of,
)
from tercet.executor.clock import Clock, SystemClock
from tercet.journal.errors import JournalError, LeaseHeld, LeaseLost
from tercet.journal.protocol import Journal, Lease, Reminder
from tercet.service.targets import (
    DeliveryFailed,
    Message,
    NotificationSettings,
    load_settings,
    open_target,
    open_targets,
)
from tercet.view.notification import MOST_QUOTED, NotificationView, notification_view, sample_view

_log = logging.getLogger("tercet.service")

POLL_MS = 500
"""How often it looks for notices."""
LEASE_MS = 60_000
"""How long a process may take for one round of attempts: more than the longest timeout of a target."""
AT_ONCE = 32
"""How many notices it delivers at the same time."""


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """The delays between attempts: doubled each time up to a limit, of which a random half is left out."""

    first_ms: int = 5_000
    most_ms: int = 3_600_000

    def delay_ms(self, attempt: int, draw: float) -> int:
        """Return the delay after so many attempts; `draw` is from [0, 1)."""
        longest = min(self.most_ms, self.first_ms * 2 ** min(attempt - 1, 30))
        return max(1, int(longest * (0.5 + draw / 2)))


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How often and how long a notifier does what it does."""

    poll_ms: int = POLL_MS
    lease_ms: int = LEASE_MS
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True, kw_only=True)
class _Fact:
    """What a notice is about, as it is now."""

    state: State
    event: e.GateOpened | e.StepSkipped
    subject: Subject

    @property
    def view(self) -> NotificationView:
        return notification_view(self.state, self.event, is_warning=self.subject.is_warning)

    def is_current(self, now: int) -> bool:
        """Whether there is still something to do about it; a compensation that failed always is."""
        if not isinstance(self.event, e.GateOpened):
            return True
        is_open = self.event.gate in self.state.gates and not self.state.is_over
        return is_open and find_expired(self.state, now) is None


class Notifier:
    """Delivers notices, in one process."""

    def __init__(
        self,
        journal: Journal,
        settings: NotificationSettings,
        *,
        public_url: str = "",
        clock: Clock | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._journal = journal
        self._settings = settings
        self._public_url = public_url
        self._clock = clock or SystemClock()
        self._timing = timing or Timing()
        self._targets = open_targets(settings)
        self._leases: dict[str, LeaseClient] = {}
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._not_before: dict[tuple[str, str], int] = {}
        self._wakeup = asyncio.Event()
        self._is_stopping = False
        self.counts: Counter[str] = Counter()
        """Attempts by how they ended: delivered, retried, failed (given up); and notices that were dropped."""

    async def run(self) -> None:
        """Deliver notices until `stop`."""
        while not self._is_stopping:
            self._wakeup.clear()
            try:
                await self.look()
            except TercetError as error:
                _log.warning("looking for notifications failed: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wakeup.wait(), self._timing.poll_ms / 1000)

    async def look(self) -> None:
        """Begin to deliver the notices that are due, as many as there is room for."""
        now = self._clock.monotonic()
        self._not_before = {key: at for key, at in self._not_before.items() if at > now}
        room = AT_ONCE - len(self._running)
        if room <= 0:
            return
        limit = AT_ONCE + len(self._not_before) + len(self._running)
        for each in await self._journal.reminders(now_ms=self._clock.now(), limit=limit):
            key = (each.tenant, each.name)
            if (
                room > 0
                and not self._is_stopping
                and key not in self._running
                and key not in self._not_before
            ):
                room -= 1
                self._running[key] = asyncio.create_task(self._carry(key, each))

    async def stop(self) -> None:
        """Begin nothing more, and wait for the attempts under way."""
        self._is_stopping = True
        self._wakeup.set()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        for _, target in self._targets.values():
            await target.close()

    async def pending(self) -> int:
        """Return how many notices are due and not delivered, at most 1,000."""
        return len(await self._journal.reminders(now_ms=self._clock.now(), limit=1_000))

    async def _carry(self, key: tuple[str, str], reminder: Reminder) -> None:
        wait_ms = 0
        try:
            await self._deliver(reminder)
        except LeaseHeld as held:
            wait_ms = max(1, held.wait_ms)
        except LeaseLost:
            wait_ms = 1  # this round took too long; another process goes on
        except JournalError as error:
            _log.warning("notification %s: %s", reminder.name, error)
            wait_ms = 1_000
        except Exception as error:  # noqa: BLE001 - one notice must not end the notifier
            _log.warning("notification %s cannot be delivered here: %s", reminder.name, error, exc_info=True)
            wait_ms = 60_000
        finally:
            del self._running[key]
            if wait_ms:
                self._not_before[key] = self._clock.monotonic() + wait_ms
            else:
                self._wakeup.set()

    async def _deliver(self, reminder: Reminder) -> None:
        """Make one round of attempts for a notice, under its lease."""
        tenant, name = reminder.tenant, reminder.name
        subject = subject_of(name)
        if subject is None:
            raise UsageError(
                f"{name} is not a notification", code="unknown_reminder", remedy="upgrade Tercet"
            )
        if tenant not in self._leases:
            self._leases[tenant] = LeaseClient(
                journal=self._journal, tenant=tenant, clock=self._clock, lease_ms=self._timing.lease_ms
            )
        async with self._leases[tenant].holding(name) as lease:
            notice = await load_notice(self._journal, tenant, name)
            fact = await self._find_fact(tenant, subject)
            now = self._clock.now()
            if fact is None or not fact.is_current(now):
                await self._drop(
                    lease, notice, "it was answered or is over" if fact else "its session is gone"
                )
                return
            if not notice.position:
                await self._queue(lease, notice, fact)
            await self._send_due(lease, notice, fact)

    async def _find_fact(self, tenant: str, subject: Subject) -> _Fact | None:
        """Return what a notice is about; None if the session was forgotten."""
        stored = await self._journal.read(tenant, subject.session, after=subject.position - 1, limit=1)
        event = codec.decode(stored[0].data) if stored else None
        if not isinstance(event, e.GateOpened | e.StepSkipped):
            return None
        state = await load_state(self._journal, tenant, subject.session)
        return _Fact(state=state, event=event, subject=subject)

    async def _drop(self, lease: Lease, notice: Notice, reason: str) -> None:
        self.counts["dropped"] += 1
        await record(self._journal, lease, notice, Dropped(at=self._clock.now(), reason=reason))

    async def _queue(self, lease: Lease, notice: Notice, fact: _Fact) -> None:
        """Record which targets a notice goes to, and when its gate is to be announced again before it expires."""
        subject, now = fact.subject, self._clock.now()
        view = fact.view
        targets = tuple(
            name for name, (each, _) in self._targets.items() if each.wants(view.event, notice.tenant)
        )
        queued = Queued(at=now, event=view.event, about=view.about[:MOST_QUOTED], targets=targets)
        more: tuple[tuple[str, int | None], ...] = ()
        if isinstance(fact.event, e.GateOpened) and fact.event.expires and not subject.is_warning:
            more = ((warning_of(notice.name), self._warning_at(fact.event)),)
        await record(self._journal, lease, notice, queued, more=more)

    def _warning_at(self, opened: e.GateOpened) -> int:
        lead = min(self._settings.expires_soon_ms, (opened.expires - opened.at) // 4)
        return opened.expires - lead

    async def _send_due(self, lease: Lease, notice: Notice, fact: _Fact) -> None:
        """Try every target that is due at the same time, and record each outcome as soon as it is known."""
        now = self._clock.now()
        message = Message(id=notice.id, view=fact.view, public_url=self._public_url)
        due = [
            name
            for name, each in notice.deliveries.items()
            if each.status == "pending" and each.next_at <= now
        ]
        attempts = [asyncio.create_task(self._attempt(name, notice, message)) for name in due]
        try:
            for attempt in asyncio.as_completed(attempts):
                ended = await attempt
                await record(self._journal, lease, notice, ended)
                self.counts[
                    "delivered" if not ended.error else "failed" if ended.next_at is None else "retried"
                ] += 1
        finally:
            for attempt in attempts:
                attempt.cancel()
            await asyncio.gather(*attempts, return_exceptions=True)

    async def _attempt(self, name: str, notice: Notice, message: Message) -> Attempted:
        """Send to one target, and return how it ended."""
        number = notice.deliveries[name].attempts + 1
        if name not in self._targets:
            return Attempted(at=self._clock.now(), target=name, error=f"there is no target {name} any more")
        try:
            await self._targets[name][1].send(message, self._clock.now())
        except DeliveryFailed as failed:
            now = self._clock.now()
            is_last = failed.is_final or number >= self._settings.attempts
            delay = self._timing.backoff.delay_ms(number, random.random())  # noqa: S311 - jitter
            _log.warning("notification %s to %s: %s", notice.id, name, failed.reason)
            return Attempted(
                at=now, target=name, error=failed.reason, next_at=None if is_last else now + delay
            )
        return Attempted(at=self._clock.now(), target=name)


async def send_sample(file: Path, name: str, *, public_url: str, now: int) -> str:
    """Send a sample to a target of a file, and return why it was not taken; empty if it was."""
    settings = load_settings(file)
    if name not in settings.targets:
        raise UsageError(
            f"{file} has no target {name}",
            code="unknown_target",
            remedy=f"name one of {', '.join(settings.targets)}",
        )
    target = open_target(name, settings.targets[name], os.environ)
    message = Message(id=message_id("", f"sample {now}"), view=sample_view(now), public_url=public_url)
    try:
        await target.send(message, now)
    except DeliveryFailed as failed:
        return failed.reason
    finally:
        await target.close()
    return ""
