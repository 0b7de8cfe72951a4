"""The worker: carries on the sessions that no process has, a bounded number at once, each tenant in its turn.

It looks for them with one query over sessions in progress or due whose lease was released or has ended. That finds sessions
that were started or resumed over the network, answered by a person, released by a worker that stopped, those of a process
that died, and those that expired while they waited. A run that this process has started needs no look: it stays in memory
with its lease until its turn comes, and any worker may have it once that takes longer than a moment. How long a dead process may have been silent before its session counts as lost is the watchdog's rule: such a
session is left to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from contextlib import suppress
from typing import Protocol

from tercet.contracts.errors import TercetError
from tercet.engine.leases import LeaseClient
from tercet.engine.rows import row_of
from tercet.engine.streams.audit import forget_results
from tercet.engine.watchdog import is_lost
from tercet.journal.errors import JournalError, LeaseHeld
from tercet.journal.protocol import SessionRow
from tercet.runtime import Runtime
from tercet.runtime.live import LiveRun
from tercet.service.hub import Hub, pack_name

_log = logging.getLogger("tercet.service")

AT_ONCE = 16
"""How many sessions one worker carries at the same time."""
POLL_MS = 250
"""How often it looks for sessions that other processes have started, answered or left."""
STOP_S = 10
"""How long sessions under way have to come to rest once the worker stops."""
PRUNE_S = 24 * 3_600
"""How often sessions are deleted that their packs keep no longer."""
RESULTS_MS = 30 * 24 * 3_600_000
"""How long the result of a call with a request key is kept."""
KEPT_MS = 1_000
"""How long a run that was started here waits in memory for its turn; afterwards any worker may carry it on."""
_KEPT_PER_PLACE = 6
"""How many such runs there may be for each place."""
_SHARE = 4
"""One of so many places is kept from a tenant that has all the others, so that its long runs do not keep others waiting."""
_PAGE = 2 * AT_ONCE
_MOST_QUEUED = 1_000
"""How many sessions of one tenant wait in memory, so that a tenant that floods does not fill it: the others are found in the
journal once these have had their turn."""
_RETRY_MS = 1_000
_MOST_BLOCKED = 10_000
_FIRST_POLL_S, _MOST_POLL_S = 0.005, 0.05


class Carrier(Protocol):
    """What makes sessions go on: the worker of this process, or wake-ups for workers elsewhere."""

    carried: int
    """How many times a session was carried on, or woken."""

    @property
    def running(self) -> int:
        """How many sessions are being carried on by this process."""
        ...

    @property
    def waiting(self) -> int:
        """How many sessions wait for their turn in this process."""
        ...

    def enqueue(self, row: SessionRow) -> None:
        """See to it that a session goes on. Nothing is lost where that fails: the session is found in the journal."""
        ...

    def notice(self, row: SessionRow) -> None:
        """Take note of a session that was changed here and has come to rest: it may belong to other workers now."""
        ...

    def is_carrying(self, row: SessionRow) -> bool:
        """Whether a session is being carried on by this process, or is about to be."""
        ...

    def live(self, tenant: str, session: str) -> LiveRun | None:
        """Return the run of a session that this process has started and still has in memory."""
        ...

    async def rest(self, tenant: str, session: str) -> None:
        """Wait until this process does not carry a session on; return at once if another process might."""
        ...


async def wait_for_rest(
    carrier: Carrier, runtime: Runtime, session: str, *, wait_ms: int, closing: asyncio.Event
) -> None:
    """Wait until a session is at rest, but no longer than `wait_ms`, and not after the service begins to stop."""
    resting = asyncio.ensure_future(_rest(carrier, runtime, session))
    stopping = asyncio.ensure_future(closing.wait())
    try:
        await asyncio.wait((resting, stopping), timeout=wait_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
        if resting.done():
            resting.result()
    finally:
        resting.cancel()
        stopping.cancel()


async def _rest(carrier: Carrier, runtime: Runtime, session: str) -> None:
    """Wait until a session is over, waits for a person or is paused."""
    pause = _FIRST_POLL_S
    live = carrier.live(runtime.tenant, session)
    while True:
        await carrier.rest(runtime.tenant, session)
        if live is not None and live.running.done() and live.is_current:
            return
        row = await runtime.journal.session(runtime.tenant, session)
        if row is None or (row.status != "in_progress" and not carrier.is_carrying(row)):
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MOST_POLL_S)


class Worker:
    """Carries sessions on, in one process."""

    def __init__(self, hub: Hub, *, at_once: int = AT_ONCE, poll_ms: int = POLL_MS) -> None:
        self._hub = hub
        self._at_once = at_once
        self._poll_ms = poll_ms
        self._queues: OrderedDict[str, deque[SessionRow | LiveRun]] = OrderedDict()
        self._queued: set[tuple[str, str]] = set()
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._live: dict[tuple[str, str], LiveRun] = {}
        """The runs that were started here, those that wait and those under way."""
        self._kept: OrderedDict[tuple[str, str], int] = OrderedDict()
        """Those that wait, oldest first, with the time since when they do."""
        self._not_before: dict[tuple[str, str], int] = {}
        """When to look again for a session whose lease is held, on the monotonic clock."""
        self._asked: dict[tuple[str, str], SessionRow] = {}
        """Sessions that were enqueued while they were carried on: they are looked at again afterwards."""
        self._blocked: OrderedDict[tuple[str, str], int] = OrderedDict()
        """Sessions that cannot go on here as they are, by when their rows were last changed."""
        self._waiters: dict[tuple[str, str], asyncio.Event] = {}
        """What is set once a session has come to rest, for those that wait for it."""
        self._wakeup = asyncio.Event()
        self._has_left_some = False
        """Whether the last look may have found less than there is."""
        self._is_stopping = False
        self._pruning: asyncio.Task[None] | None = None
        self.carried = 0
        """How many times a session was carried on."""
        hub.is_queued, hub.keep = self.is_queued, self.keep

    @property
    def running(self) -> int:
        """How many sessions are being carried on now."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many sessions are known to wait for their turn."""
        return len(self._queued)

    def is_queued(self, row: SessionRow) -> bool:
        """Whether this worker will carry a session on: the watchdog leaves it alone meanwhile."""
        is_ready = row.status == "in_progress" or (row.due_at or 0) <= self._hub.clock.now()
        is_blocked = self.has_blocked(row.tenant, row.session_id)
        return is_ready and self._hub.serves(row) and not is_blocked and not self._is_stopping

    def has_blocked(self, tenant: str, session: str) -> bool:
        """Whether a session cannot go on here as it is."""
        return (tenant, session) in self._blocked

    def is_carrying(self, row: SessionRow) -> bool:
        """Whether a session is carried on by this worker now, or will be."""
        key = (row.tenant, row.session_id)
        return key in self._running or key in self._queued

    def live(self, tenant: str, session: str) -> LiveRun | None:
        """Return the run of a session that was started here and is still in memory."""
        return self._live.get((tenant, session))

    def keep(self, run: LiveRun) -> bool:
        """Keep a run that was started here until its turn comes; return False if there are too many, or too many of its
        tenant."""
        tenant, _ = run.key
        most = _KEPT_PER_PLACE * self._at_once
        of_tenant = sum(owner == tenant for owner, _ in self._live)
        if self._is_stopping or len(self._live) >= most or of_tenant >= most - most // _SHARE:
            return False
        self._live[run.key] = run
        self._kept[run.key] = self._hub.clock.monotonic()
        run.running.add_done_callback(lambda _: self._let_go(run))
        self._put(run.key, run)
        return True

    async def rest(self, tenant: str, session: str) -> None:
        """Wait until this worker does not carry a session on."""
        key = (tenant, session)
        while (key in self._running or key in self._queued) and not self._is_stopping:
            await self._waiters.setdefault(key, asyncio.Event()).wait()

    async def run(self) -> None:
        """Carry sessions on until `stop`."""
        loop = asyncio.get_running_loop()
        next_look = next_prune = loop.time()
        while not self._is_stopping:
            self._wakeup.clear()
            if loop.time() >= next_prune and (self._pruning is None or self._pruning.done()):
                self._pruning = asyncio.create_task(self.prune())
                next_prune = loop.time() + PRUNE_S
            if loop.time() >= next_look or (self._has_left_some and not self._queued):
                try:
                    await self._look()
                except TercetError as error:
                    _log.warning("looking for sessions failed: %s", error)
                next_look = loop.time() + self._poll_ms / 1000
            self._begin()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_look):
                    await self._wakeup.wait()

    async def stop(self) -> None:
        """Begin nothing more, let the sessions under way come to rest, and leave them to the next worker: after STOP_S seconds
        as if this process had died."""
        deadline = asyncio.get_running_loop().time() + STOP_S
        self._is_stopping = True
        self._wakeup.set()
        for waiter in self._waiters.values():
            waiter.set()
        if self._pruning is not None:
            self._pruning.cancel()  # what is left of a session is deleted the next time
            await asyncio.wait((self._pruning,))
        while working := [*self._running.values(), *(run.running for run in self._live.values())]:
            for runtime in self._hub:
                runtime.hand_over()
            if asyncio.get_running_loop().time() > deadline:
                for task in working:
                    task.cancel()
            await asyncio.wait(working, timeout=0.1)

    async def prune(self) -> None:
        """Delete the sessions of every tenant served here that ended longer ago than their pack keeps the tenant's, and old
        results of calls."""
        clock, journal = self._hub.clock, self._hub.journal
        for runtime in self._hub:
            leases = LeaseClient(journal=journal, tenant=runtime.tenant, clock=clock)
            try:
                await runtime.prune()
                await forget_results(leases, clock.now() - RESULTS_MS)
            except TercetError as error:
                _log.warning("deleting what is old of tenant %s failed: %s", runtime.tenant, error)

    async def _look(self) -> None:
        """Queue the sessions that no process has."""
        clock = self._hub.clock
        # One at each look: to resume a run costs much more than to keep it, and where many wait, all of them wait long.
        oldest, since = next(iter(self._kept.items()), (None, 0))
        if oldest is not None and clock.monotonic() - since >= KEPT_MS:
            self._live[oldest].hand_over()
        self._not_before = {key: at for key, at in self._not_before.items() if at > clock.monotonic()}
        limit = _PAGE
        while True:
            rows = await self._hub.journal.resumable(now_ms=clock.now(), limit=limit)
            for row in rows:
                if (row.tenant, row.session_id) not in self._not_before:
                    self._queue(row)
            # Sessions that cannot go on here must not hide others of their tenant.
            counts = Counter(row.tenant for row in rows)
            full = {tenant for tenant, count in counts.items() if count >= limit}
            self._has_left_some = bool(full)
            if not full - {row.tenant for row in rows if self.is_carrying(row)} or limit >= _MOST_BLOCKED:
                return
            limit *= 2

    def enqueue(self, row: SessionRow) -> None:
        """Carry a session on when its turn comes, also one that was to be tried again later."""
        key = (row.tenant, row.session_id)
        self._not_before.pop(key, None)
        if key in self._running:
            self._asked[key] = row
        self._queue(row)

    def notice(self, row: SessionRow) -> None:
        """Do nothing: what comes to rest is found in the journal once it is due."""

    def _queue(self, row: SessionRow) -> None:
        """Carry a session on when its turn comes, unless that is known to be of no use."""
        key = (row.tenant, row.session_id)
        if key in self._queued or key in self._running:
            return
        if len(self._queues.get(row.tenant, ())) >= _MOST_QUEUED:
            self._has_left_some = True
        elif self._hub.serves(row) and self._blocked.get(key) != row.updated_at:
            self._put(key, row)

    def _put(self, key: tuple[str, str], item: SessionRow | LiveRun) -> None:
        self._queued.add(key)
        self._queues.setdefault(key[0], deque()).append(item)
        self._wakeup.set()

    def _let_go(self, run: LiveRun) -> None:
        """Forget a run that has ended here. One that was left before its turn keeps its place in the queue."""
        del self._live[run.key]
        if self._kept.pop(run.key, None) is None:
            return
        tenant, session = run.key
        queue = self._queues[tenant]
        place = queue.index(run)
        if run.state.status == "in_progress":
            queue[place] = row_of(run.state)
        else:
            del queue[place]
            if not queue:
                del self._queues[tenant]
            self._queued.discard(run.key)
            self._wake(run.key)
        if not run.running.cancelled() and (error := run.running.exception()) is not None:
            _log.warning("session %s: %s", session, error)

    def _wake(self, key: tuple[str, str]) -> None:
        """Wake those that wait until a session is not carried on."""
        if (waiter := self._waiters.pop(key, None)) is not None:
            waiter.set()

    def _begin(self) -> None:
        """Begin as many sessions as there is room for, one of each tenant in turn, none of which gets every place."""
        most = self._at_once - self._at_once // _SHARE
        held = Counter(tenant for tenant, _ in self._running)
        while len(self._running) < self._at_once and not self._is_stopping:
            tenant = next((each for each in self._queues if held[each] < most), None)
            if tenant is None:
                return
            queue = self._queues.pop(tenant)
            item = queue.popleft()
            if queue:
                self._queues[tenant] = queue
            held[tenant] += 1
            key = item.key if isinstance(item, LiveRun) else (tenant, item.session_id)
            self._queued.discard(key)
            self._kept.pop(key, None)
            self._running[key] = asyncio.create_task(self._carry(key, item))

    async def _carry(self, key: tuple[str, str], item: SessionRow | LiveRun) -> None:
        row = item if isinstance(item, SessionRow) else row_of(item.state)
        try:
            if isinstance(item, LiveRun):
                item.proceed()
                await item.running
                self.carried += 1
                return
            runtime = await self._hub.runtime(row.tenant, pack_name(row.pack))
            if await self._is_for_us(runtime, row):
                self._not_before.pop(key, None)
                await runtime.carry_on(row.session_id)
                self.carried += 1
        except LeaseHeld as held:
            # Not for the whole lease: a call that touches a session holds it for a moment only.
            wait_ms = min(max(1, held.wait_ms), self._poll_ms)
            self._not_before[key] = self._hub.clock.monotonic() + wait_ms
        except JournalError as error:
            _log.warning("session %s: %s", row.session_id, error)
            self._not_before[key] = self._hub.clock.monotonic() + _RETRY_MS
        except Exception as error:  # noqa: BLE001 - what happens to one session must not end the worker
            self._block(key, row, error)
        finally:
            del self._running[key]
            if (asked := self._asked.pop(key, None)) is not None:
                self._queue(asked)
            self._wake(key)
            self._wakeup.set()

    async def _is_for_us(self, runtime: Runtime, row: SessionRow) -> bool:
        """Whether a worker goes on with a session: not with a lane, nor with one that counts as lost or waits for a person."""
        state = await runtime.refresh(row.session_id)
        lease = await runtime.journal.lease(row.tenant, row.session_id)
        is_lost_here = (
            lease is not None
            and runtime.pack.session.on_heartbeat_loss == "pause"
            and is_lost(state, lease, self._hub.clock.now())
        )
        is_waiting = state.status != "in_progress" and not (state.ending and not state.gates)
        is_left_out = bool(state.start.lane) or is_lost_here or is_waiting
        if is_left_out:
            self._block((row.tenant, row.session_id), row, None)
        return not is_left_out and not state.is_over

    def _block(self, key: tuple[str, str], row: SessionRow, error: Exception | None) -> None:
        """Leave a session alone until it has changed."""
        if error is not None:
            is_ours = not isinstance(error, TercetError)
            _log.warning("session %s cannot go on here: %s", row.session_id, error, exc_info=is_ours)
        self._blocked[key] = row.updated_at
        if len(self._blocked) > _MOST_BLOCKED:
            self._blocked.popitem(last=False)
