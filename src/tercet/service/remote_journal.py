"""The journal behind a service, which can only be read: the same readers show a session from here or from there."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Self, TypeVar

import msgspec

from tercet.contracts.request import Actor
from tercet.contracts.values.canonical import hash_bytes
from tercet.journal.chain import START
from tercet.journal.errors import BlobMissing
from tercet.journal.protocol import (
    CheckpointKind,
    ClaimHolder,
    Lease,
    Position,
    SessionFilter,
    SessionRow,
    Stored,
    StoredCheckpoint,
)
from tercet.journal.read_only import ReadOnlyJournal
from tercet.service.client import AsyncClient, RemoteError
from tercet.service.journal_reads import MOST, OpenGates

T = TypeVar("T")


class RemoteJournal(ReadOnlyJournal):
    """The sessions of the tenant that a credential belongs to. What changes them is a call of a method.

    Readers check chains and hashes as with every journal, so a service cannot show a session that was tampered with on
    the way. Claims are those that show similar calls.
    """

    read_only = "the journal of a service cannot be written from here"
    read_only_remedy = "do it on the machine that has the journal, with --journal"

    def __init__(self, client: AsyncClient, tenant: str, actor: Actor) -> None:
        self.client = client
        self.tenant = tenant
        self.actor = actor
        """Who the credential speaks for."""

    @classmethod
    async def open(cls, client: AsyncClient) -> Self:
        """Ask the service who calls; raises `RemoteError` for a credential that does not count."""
        caller = await client.call("getCaller")
        return cls(client, str(caller["tenant"]), Actor.model_validate(caller["actor"]))

    async def _ask(self, what: str, shape: type[T], name: str = "", **params: Any) -> T | None:
        """Return what the service has; None for a stream that is not of a session."""
        result = await self.client.call("readJournal", {"what": what, "name": name, **params})
        try:
            return None if result["found"] is None else msgspec.convert(result["found"], shape)
        except (KeyError, msgspec.ValidationError) as error:
            raise RemoteError(
                f"the service answered in a shape that this version does not know: {error}",
                code="answer_unreadable",
                remedy="use the same version of Tercet on both sides",
            ) from error

    async def read(self, tenant: str, stream: str, *, after: int = 0, limit: int = 1000) -> list[Stored]:
        """Return at most `limit` events behind position `after`."""
        found: list[Stored] = []
        while tenant == self.tenant and len(found) < limit:
            wanted = min(MOST, limit - len(found))
            page = await self._ask("events", list[Stored], stream, after=after, limit=wanted) or []
            found += page
            if len(page) < wanted:
                break
            after = page[-1].seq
        return found

    async def head(self, tenant: str, stream: str) -> Position:
        """Return where a stream ends."""
        del tenant
        return await self._ask("end", Position, stream) or START

    async def newest(self, tenant: str, stream: str, kind: CheckpointKind) -> StoredCheckpoint | None:
        """Return the checkpoint of this kind with the highest position."""
        del tenant
        return _checked(await self._ask("newest", StoredCheckpoint, stream, kind=kind))

    async def checkpoints(
        self, tenant: str, stream: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredCheckpoint]:
        """Return the checkpoints behind position `after`, in order."""
        del tenant
        wanted = max(0, min(limit, MOST))
        page = await self._ask("checkpoints", list[StoredCheckpoint], stream, after=after, limit=wanted)
        return [found for each in page or () if (found := _checked(each)) is not None]

    async def blob(self, tenant: str, digest: str) -> bytes:
        """Return the bytes with this digest, checked against it."""
        try:
            data = await self._ask("blob", bytes, digest)
        except RemoteError as error:
            if error.code == BlobMissing.default_code:
                raise BlobMissing(tenant=tenant, digest=digest) from error
            raise
        if data is None or hash_bytes(data) != digest:
            raise BlobMissing(tenant=tenant, digest=digest)
        return data

    async def blob_digests(
        self, tenant: str, stream: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        """Return the digests of the blobs that a stream brought, in order."""
        del tenant
        return await self._ask("blobs", list[str], stream, behind=after, limit=min(limit, MOST)) or []

    async def claims(self, tenant: str, prefix: str, *, limit: int = 100) -> list[tuple[str, ClaimHolder]]:
        """Return the claims that show similar calls."""
        del tenant
        pairs = list[tuple[str, ClaimHolder]]
        return await self._ask("similar", pairs, prefix, limit=min(limit, MOST)) or []

    async def lease(self, tenant: str, stream: str) -> Lease | None:
        """Return the lease on a session."""
        del tenant
        return await self._ask("lease", Lease, stream)

    async def session(self, tenant: str, session_id: str) -> SessionRow | None:
        """Return the row of one session."""
        del tenant
        return await self._ask("row", SessionRow, session_id)

    async def sessions(
        self,
        tenant: str,
        *,
        status: str | None = None,
        limit: int = 50,
        before: str | None = None,
        skip: int = 0,
        where: SessionFilter | None = None,
    ) -> list[SessionRow]:
        """Return rows by start, newest first."""
        del tenant
        asked = msgspec.to_builtins(where or SessionFilter(status=status))
        wanted = max(0, min(limit, MOST))
        return (
            await self._ask("rows", list[SessionRow], behind=before or "", after=skip, limit=wanted, **asked)
            or []
        )

    async def waiting(
        self, tenant: str, *, after: tuple[int, str] | None = None, limit: int = 100
    ) -> list[SessionRow]:
        """Return rows with an open gate, those that have waited longest first."""
        del tenant
        since, behind = after or (0, "")
        wanted = max(0, min(limit, MOST))
        return await self._ask("waiting", list[SessionRow], after=since, behind=behind, limit=wanted) or []

    async def session_ids(self, tenant: str, prefix: str, *, limit: int = 100) -> list[str]:
        """Return the ids of sessions that begin with a prefix, in order."""
        del tenant
        return await self._ask("ids", list[str], prefix, limit=min(limit, MOST)) or []

    async def open_gates(self, limit: int) -> OpenGates:
        """Return the open gates, in one call."""
        return await self._ask("gates", OpenGates, limit=min(limit, MOST)) or OpenGates(gates=())

    async def close(self) -> None:
        """Close the connections."""
        with suppress(RuntimeError):  # an event loop that has ended already
            await self.client.aclose()


def _checked(found: StoredCheckpoint | None) -> StoredCheckpoint | None:
    """Return a checkpoint; raises `RemoteError` if its bytes are not those that were hashed."""
    if found is not None and hash_bytes(found.data) != found.hash:
        raise RemoteError(
            f"the {found.kind} checkpoint {found.seq} that the service sent does not have its hash",
            code="answer_unreadable",
            remedy="check the journal of the service: tercet journal check",
        )
    return found
