"""The runtimes of a service: one for each tenant and pack, opened when it is first needed, all on one journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TypeVar, get_args

from tercet.contracts.errors import UsageError
from tercet.contracts.runs.session import SessionStatus
from tercet.contracts.values.plain import storable
from tercet.core.messages import session_of
from tercet.core.state import TERMINAL
from tercet.engine.watchdog import WATCHDOG_MS
from tercet.evidence.store import EvidenceStore
from tercet.executor.clock import Clock, SystemClock
from tercet.executor.threads import HeavyWork, ToolThreads
from tercet.journal.protocol import Journal, SessionRow
from tercet.packs import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.runtime.live import Keep
from tercet.service.errors import ServiceError, not_found

_T = TypeVar("_T")
MOST_COUNTED = 1_000
_UNFINISHED = tuple(status for status in get_args(SessionStatus) if status not in TERMINAL)


def pack_name(ref: str) -> str:
    """Return the name of a pack without its version."""
    return ref.partition("@")[0]


class Hub:
    """The packs that are served, and the runtimes that run them."""

    def __init__(
        self,
        packs: Sequence[Pack],
        journal: Journal,
        *,
        folders: dict[str, str] | None = None,
        evidence: EvidenceStore | None = None,
        options: RuntimeOptions | None = None,
        watchdog_ms: int | None = WATCHDOG_MS,
    ) -> None:
        self.journal = journal
        self.heavy = HeavyWork()
        """Limits the work in threads of all tenants together."""
        self.options = replace(options or RuntimeOptions(), is_front=True, heavy=self.heavy)
        self.clock: Clock = self.options.clock or SystemClock()
        self.packs: dict[str, tuple[Pack, ...]] = {}
        """By name, the version that new runs use first."""
        for pack in packs:
            self.packs[pack.name] = (pack, *self.packs.get(pack.name, ()))
        self.folders = folders or {}
        self.is_queued: Callable[[SessionRow], bool] = lambda _: False
        self.keep: Keep = lambda _: False
        self._evidence = evidence
        self._threads = ToolThreads()
        self._watchdog_ms = watchdog_ms
        self._runtimes: dict[tuple[str, str], Runtime] = {}
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()

    def __iter__(self) -> Iterator[Runtime]:
        return iter(tuple(self._runtimes.values()))

    def pack(self, name: str | None) -> Pack:
        """Return a pack that is served, by its name; None means the only one."""
        if name is None and len(self.packs) == 1:
            return next(iter(self.packs.values()))[0]
        versions = self.packs.get(name or "")
        if versions is None:
            raise ServiceError(
                f"this service has no pack {name!r}" if name else "several packs are served here",
                code="unknown_pack",
                remedy=f"name one of {', '.join(self.packs)}",
                status=404,
            )
        return versions[0]

    def serves(self, row: SessionRow) -> bool:
        """Whether the pack that a session is pinned to is served here."""
        return self.serves_version(row.pack, row.pack_hash)

    def serves_version(self, ref: str, pack_hash: str) -> bool:
        """Whether a version of a pack is served here."""
        return any(pack.hash == pack_hash for pack in self.packs.get(pack_name(ref), ()))

    async def list_unserved(self) -> list[SessionRow]:
        """Return unfinished sessions of the packs here whose version is not served, of the tenants that are known.

        Of each status and tenant the newest MOST_COUNTED sessions are looked at.
        """
        found: list[SessionRow] = []
        for tenant in sorted({runtime.tenant for runtime in self}):
            for status in _UNFINISHED:
                rows = await self.journal.sessions(tenant, status=status, limit=MOST_COUNTED)
                found += [row for row in rows if pack_name(row.pack) in self.packs and not self.serves(row)]
        return found

    async def runtime(self, tenant: str, name: str | None = None) -> Runtime:
        """Return the runtime of a tenant and a pack; None means the only pack."""
        pack = self.pack(name)
        async with self._lock:
            found = self._runtimes.get((tenant, pack.name))
            if found is None:
                newest, *older = self.packs[pack.name]
                opened = Runtime(
                    newest,
                    self.journal,
                    tenant=tenant,
                    packs=older,
                    evidence=self._evidence,
                    watchdog_ms=self._watchdog_ms,
                    options=replace(self.options, is_queued=self.is_queued, keep=self.keep),
                )
                found = await self._stack.enter_async_context(opened)
                self._runtimes[tenant, pack.name] = found
            return found

    async def find_row(self, tenant: str, session: str) -> SessionRow:
        """Return the row of a session; raises `ServiceError` if this tenant does not have it."""
        name = storable(session)
        is_name = 0 < len(name.encode()) <= 512 and "\0" not in name
        row = await self.journal.session(tenant, name) if is_name else None
        if row is None:
            raise not_found("session", session)
        return row

    async def of_session(self, tenant: str, session: str) -> Runtime:
        """Return the runtime that a session belongs to; raises `ServiceError` if this tenant does not have it."""
        row = await self.find_row(tenant, session)
        return await self.runtime(tenant, pack_name(row.pack))

    async def of_gate(self, tenant: str, gate: str) -> Runtime:
        """Return the runtime of the session that a gate belongs to."""
        try:
            return await self.of_session(tenant, session_of(gate))
        except (UsageError, ServiceError) as error:
            if error.code in ("not_found", "unknown_gate"):
                raise not_found("gate", gate) from None
            raise

    async def work(self, tenant: str, function: Callable[[], _T]) -> _T:
        """Return the result of work for a tenant that would block the event loop."""
        return await self.heavy.run(self._threads, tenant, function)

    async def close(self) -> None:
        """Close every runtime."""
        await self._stack.aclose()
