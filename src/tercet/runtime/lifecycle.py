"""Opening and closing a runtime and its services."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tercet.contracts.context import RunContext
from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.request import Actor, Request
from tercet.contracts.runs.session import (
    ProgressEnvelope,
    SessionRules,
)
from tercet.core import events as e
from tercet.core.shared import SharedWork
from tercet.core.state import State
from tercet.core.transcript import moment
from tercet.engine import progress
from tercet.engine.arguments import as_actor, as_pack, demand_journal
from tercet.engine.evidence.library import NO_LIBRARY_EVIDENCE, Library, LibraryEvidence
from tercet.engine.leases import LeaseClient
from tercet.engine.models.session import NamedModels
from tercet.engine.notifications import Notifier
from tercet.engine.people import People, Roster
from tercet.engine.personal.vault import SealedLibrary, Vault
from tercet.engine.pool import DriverPool
from tercet.engine.result import RunResult
from tercet.engine.streams.nesting import Place
from tercet.engine.streams.stops import EmergencyStops
from tercet.engine.subscription import Observer, Subscription
from tercet.engine.watchdog import WATCHDOG_MS, Watchdog, WatchdogHost
from tercet.evidence.errors import StoreError
from tercet.evidence.opening import open_evidence
from tercet.evidence.store import EvidenceStore
from tercet.executor.breaker import Breakers
from tercet.executor.clock import SystemClock
from tercet.executor.gateway import Gateway
from tercet.executor.threads import ToolThreads
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal
from tercet.models.model import Model
from tercet.packs.pack import Pack
from tercet.runtime.options import RuntimeOptions, require_watchdog_period
from tercet.tools.tool import Lines

_WHILE_OPEN = frozenset(
    ("journal", "_leases", "_gateway", "_breakers", "_stops", "_pool", "_subscription", "_watchdog")
)
"""The attributes that a runtime has only while it is open."""


async def _end(task: asyncio.Future[None]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class OpenRuntime(People):
    """A pack on a journal, with the services that run its sessions."""

    def __init__(
        self,
        pack: Pack,
        journal: str | Journal = "memory:",
        *,
        tenant: str = "default",
        packs: Sequence[Pack] = (),
        evidence: str | EvidenceStore | None = None,
        critics: Sequence[Model] = (),
        repairers: Sequence[Model] = (),
        observers: Sequence[Observer] = (),
        progress: Callable[[ProgressEnvelope], None] | None = None,
        tell: Callable[[State, e.Event], None] | None = None,
        watchdog_ms: int | None = WATCHDOG_MS,
        trusts_caller: bool = False,
        options: RuntimeOptions | None = None,
    ) -> None:
        """`packs` are older versions whose sessions can be continued. `evidence` is a store, or its URL, that plans may
        search besides the pack's own evidence. `critics` and `repairers` are language models that judge and repair outputs
        instead of those that the pack names. `observers` receive the events of every run, `progress` the progress of each
        session of this process, and `tell` every event once it is durable. `watchdog_ms` is the interval at which sessions
        without a process are checked; None leaves that to other processes. If the pack lists people, anyone else holds no
        role, whatever the caller says, unless `trusts_caller` is set."""
        options = options or RuntimeOptions()
        self.pack = as_pack(pack)
        demand_journal(journal)
        self._packs = {other.hash: other for other in packs} if pack.session.resume == "pinned" else {}
        self._roster = Roster(pack.actors, trusts_caller=trusts_caller)
        self.tenant = tenant
        self._url = journal
        self._options = options
        self._clock = options.clock or SystemClock()
        self._tell = tell
        self._progress = progress
        self._evidence = evidence
        self._library: Library | None = None
        self._watchdog_ms = require_watchdog_period(watchdog_ms)
        self._shared = SharedWork()
        self._lines = Lines()
        self._tools = self._lines.bind(pack.tools)
        self._models = NamedModels(options.open_model)
        self._critics = tuple(critics)
        self._repairers = tuple(repairers)
        self._observers = tuple(observers)
        self._stack = AsyncExitStack()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called for a missing attribute: raise `UsageError` if the runtime is not open."""
            if name in _WHILE_OPEN:
                raise UsageError(
                    "this runtime is not open",
                    code="not_open",
                    remedy="open it with: async with Runtime(pack) as runtime",
                )
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self.journal = (
                await stack.enter_async_context(open_journal(self._url))
                if isinstance(self._url, str)
                else self._url
            )
            if self._evidence is not None:
                store = (
                    await stack.enter_async_context(open_evidence(self._evidence))
                    if isinstance(self._evidence, str)
                    else self._evidence
                )
                self._library = Library(store, self._options.retriever)
                if self.pack.personal.evidence:
                    vault = Vault(self.journal, self.tenant, self.pack.personal)
                    self._library = SealedLibrary(store, self._options.retriever, vault=vault)
            self._start_services(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _start_services(self, stack: AsyncExitStack) -> None:
        """Start the services that work on the journal; each is closed even if closing another one fails."""
        stack.push_async_callback(self._lines.aclose)
        self._subscribe(stack)
        stack.push_async_callback(self._models.aclose)
        self._leases = LeaseClient(
            journal=self.journal,
            tenant=self.tenant,
            clock=self._clock,
            lease_ms=self._options.lease_ms,
            signal=self._subscription.signal,
        )
        self._gateway = Gateway(self._clock, ToolThreads(self._options.heavy, self.tenant))
        self._breakers = Breakers(self.journal, self.tenant, self._options.breaker)
        self._stops = EmergencyStops(self.journal, self.tenant, self.pack.name)
        self._pool = DriverPool(
            self.journal,
            self.tenant,
            self._clock,
            self._stops,
            lease_ms=self._options.lease_ms,
            signal=self._subscription.signal,
        )
        self._watchdog = Watchdog(self._host())
        stack.push_async_callback(self._watchdog.close)
        if self._watchdog_ms is not None:
            guarding = asyncio.ensure_future(self._watchdog.watch(self._watchdog_ms))
            stack.push_async_callback(_end, guarding)
        stack.callback(self._pool.close)

    def _subscribe(self, stack: AsyncExitStack) -> None:
        """Subscribe the observers and hooks of the caller and of the packs."""
        self._subscription = subscription = Subscription(
            self.journal, self.tenant, observers=self._observers, signal=self._options.signal
        )
        stack.push_async_callback(subscription.close)
        if self._tell is not None:
            subscription.add_listener("tell_failed", self._tell)
        if self._progress is not None:
            subscription.add("progress_failed", progress.envelopes(self._progress, self._clock))
        packs = {self.pack.hash: self.pack, **self._packs}
        # In a service only operators say where notifications go.
        if not self._options.is_front and any(pack.notify for pack in packs.values()):
            notifier = Notifier(lambda pack_hash: packs[pack_hash].notify, subscription.signal)
            subscription.add_listener("notify_failed", notifier.notify)
            stack.push_async_callback(notifier.close)

    def _host(self) -> WatchdogHost:
        """Return what the watchdog needs: the rules of packs, and how to resume a session."""
        return WatchdogHost(
            leases=self._leases,
            rules=self._rules_of,
            is_driven=self._pool.__contains__,
            is_queued=self._options.is_queued,
            resume=self.carry_on,
            is_stopped=self._is_stopped,
            stop=self._pause,
            signal=self._subscription.signal,
        )

    def _rules_of(self, pack_hash: str) -> SessionRules | None:
        """Return the rules of a loaded pack by its hash."""
        found = self.pack if pack_hash == self.pack.hash else self._packs.get(pack_hash)
        return found.session if found is not None else None

    @abstractmethod
    async def carry_on(self, session_id: str) -> RunResult:
        """Resume a session that no process runs."""

    async def _is_stopped(self) -> bool:
        """Return whether an emergency stop applies to every tool of this runtime."""
        await self._stops.refresh()
        return self._stops.stopped("") is not None

    def _pause(self, session_id: str) -> None:
        """Pause a session."""
        if (driver := self._pool.get(session_id)) is not None:
            driver.control.stop()

    def stop(self) -> None:
        """Pause every session of this process, so that it can be resumed."""
        for driver in self._pool:
            driver.control.stop()

    def hand_over(self, session_id: str | None = None) -> None:
        """Release a session of this process, or every one, and leave it to the next worker."""
        for driver in self._pool:
            if session_id is None or session_id == driver.lease.stream:
                driver.control.hand_over()

    def roles(self, actor_id: str) -> tuple[str, ...] | None:
        """Return the roles that the pack's list of people gives an actor; None for one who is not listed."""
        return self._roster.roles(actor_id)

    def known(self, actor: Actor) -> Actor:
        """Return an actor with their roles by the pack's list, or with the given ones if callers are trusted."""
        return self._roster.known(as_actor(actor))

    # --- new runs ---

    def _frame(self, now: int, actor: Actor, safety_mode: ApprovalMode | None, place: Place) -> RunContext:
        """Return the context of a new run, with its share of the iterations if it is a nested run."""
        ctx = self.pack.run_context(
            run_id=f"run_{self._options.ids()}",
            trace_id=f"trace_{self._options.ids()}",
            tenant=self.tenant,
            actor=actor,
            safety_mode=safety_mode,
            started_at=moment(now),
        )
        if place.max_iterations is None:
            return ctx
        budget = ctx.run_budget.model_copy(update={"max_iterations": place.max_iterations})
        return ctx.model_copy(update={"run_budget": budget, "depth": place.depth})

    async def _library_evidence(self, request: Request, now: int) -> LibraryEvidence:
        """Return the evidence of the library that a run starts with."""
        if self._library is None:
            return NO_LIBRARY_EVIDENCE
        return await self._library.select_evidence(
            self.tenant, self.pack.decision_for(request.intent), request, now
        )

    async def _pin(self, session: str, before: str, after: str) -> None:
        """Pin a session's snapshot in the store, and unpin the previous one."""
        if self._library is None or before == after:
            return
        if after:
            await self._library.store.pin(self.tenant, after, session)
        if before:
            await self._library.store.unpin(self.tenant, before, session)

    async def _unpin(self, session: str, pinned: str) -> None:
        """Unpin a session's snapshot in the store, if it has one."""
        with suppress(StoreError):  # a pin that stays only costs disk space
            await self._pin(session, pinned, "")
