"""The audit log of the service, and the results of calls that carry a request key: two kinds of streams of a tenant."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.values.canonical import digest
from tercet.engine.leases import LeaseClient
from tercet.journal.database import settle
from tercet.journal.errors import LeaseLost, PositionConflict
from tercet.journal.protocol import Append, Journal
from tercet.journal.side_stream import append_next, encode_entry, read_all

AUDIT = "audit"
CALLS = "calls"
_AT_ONCE = 100
"""How many entries are written in one append."""
_AGE = "kept:"
"""What the keys begin with by which kept results are found, oldest first."""
BEGUN = "begun"
"""The outcome of a call that is under way, or whose process has died: it may have taken effect."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that changes something, with its outcome."""

    at: int
    actor: str
    auth: str
    credential: str
    method: str
    subject: str = ""
    """The session or gate that it was about, or the kind and name of what was stopped."""
    params: str = ""
    """The hash of its parameters."""
    outcome: str = "ok"
    """`ok`, the code of the refusal, or `begun`."""
    simulated_by: str = ""
    call: str = ""
    """What the two entries of one call share: it is written down before it takes effect, and once it has ended."""


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call with a request key."""

    params: str
    result: bytes
    at: int = 0
    """When it was kept; 0 for a result of an earlier version, which is kept for ever."""


_entry = msgspec.json.Decoder(AuditEntry).decode
_result = msgspec.json.Decoder(CallResult).decode


async def write_audit(journal: Journal, tenant: str, entry: AuditEntry) -> None:
    """Append an entry to the audit log of a tenant."""
    await append_next(journal, tenant, AUDIT, encode_entry(entry, tenant, AUDIT))


class AuditLog:
    """The audit log of a tenant as one process writes it: entries that come while others are written share an append."""

    def __init__(self, journal: Journal, tenant: str) -> None:
        self._journal = journal
        self._tenant = tenant
        self._end: int | None = None
        """Where the log ended when this process last wrote it."""
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, entry: AuditEntry) -> None:
        """Append an entry; return once it is durable."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((encode_entry(entry, self._tenant, AUDIT), written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        await written

    async def _write(self) -> None:
        while self._waiting:
            now, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            outcome: Exception | None = None
            try:
                await self._append(tuple(data for data, _ in now))
            except Exception as error:  # noqa: BLE001 - raised in every call whose entry it was
                outcome, self._end = error, None
            settle([written for _, written in now], [outcome] * len(now))

    async def _append(self, entries: tuple[bytes, ...]) -> None:
        while True:
            if self._end is None:
                self._end = (await self._journal.head(self._tenant, AUDIT)).seq
            unit = Append(tenant=self._tenant, stream=AUDIT, expected=self._end, events=entries)
            try:
                self._end = (await self._journal.append(unit)).seq
            except PositionConflict:
                self._end = None  # another process has written
            else:
                return


async def read_audit(
    journal: Journal, tenant: str, *, after: int = 0, limit: int = 100
) -> list[tuple[int, AuditEntry]]:
    """Return entries after a position, in order, each with its own; a call that has ended is one entry."""
    return (await read_audit_page(journal, tenant, after=after, limit=limit))[0]


async def read_audit_page(
    journal: Journal, tenant: str, *, after: int, limit: int
) -> tuple[list[tuple[int, AuditEntry]], int | None]:
    """Return entries after a position, and the position after which the next page begins; None on the last page."""
    stored = await journal.read(tenant, AUDIT, after=after, limit=2 * limit)
    entries = [(each.seq, _entry(each.data)) for each in stored]
    ended = {entry.call for _, entry in entries if entry.outcome != BEGUN}
    shown = [each for each in entries if each[1].outcome != BEGUN or each[1].call not in ended]
    if len(shown) > limit:
        return shown[:limit], shown[limit - 1][0]
    return shown, stored[-1].seq if len(stored) == 2 * limit else None


def call_stream(actor: str, method: str, key: str) -> str:
    """Return the stream that holds the result of a call with a request key."""
    return f"{CALLS}:{digest([actor, method, key])}"


def is_result(stream: str) -> bool:
    """Return whether a stream holds the result of a call."""
    return stream.startswith(f"{CALLS}:")


def age_claim(stream: str, data: bytes) -> str:
    """Return the key by which a kept result is found once it is old."""
    return _age_claim(stream, _result(data).at)


def _age_claim(stream: str, at: int) -> str:
    return f"{_AGE}{at:015d}:{stream}"


async def forget_results(leases: LeaseClient, before_ms: int) -> int:
    """Remove the results that were kept before a time, oldest first; return their number."""
    forgotten = 0
    while found := await leases.journal.claims(leases.tenant, _AGE, limit=100):
        for key, holder in found:
            if int(key.removeprefix(_AGE).partition(":")[0]) >= before_ms:
                return forgotten
            await leases.journal.forget((await leases.acquire_ended(holder.stream)).lease)
            forgotten += 1
    return forgotten


async def find_result(journal: Journal, tenant: str, stream: str, params: str) -> bytes | None:
    """Return the result of an earlier call with the same key; raises `UsageError` if its parameters differ."""
    stored = await read_all(journal, tenant, stream)
    if not stored:
        return None
    earlier = _result(stored[0].data)
    if earlier.params != params:
        raise UsageError(
            "this request_key was used for a call with other parameters",
            code="request_key_reused",
            remedy="send the same parameters, or use another key",
        )
    return earlier.result


async def keep_result(
    journal: Journal, tenant: str, stream: str, params: str, result: bytes, *, epoch: int, at: int
) -> None:
    """Store the result of a call, under the lease on its stream; the first result counts."""
    data = encode_entry(CallResult(params=params, result=result, at=at), tenant, stream)
    claims = (_age_claim(stream, at),)
    unit = Append(tenant=tenant, stream=stream, expected=0, epoch=epoch, events=(data,), claims=claims)
    # Either is raised where this process was silent for so long that another made the call.
    with suppress(LeaseLost, PositionConflict):
        await journal.append(unit)
