"""The journal of a service: reads sessions of the caller's tenant as they are stored, and nothing else."""

from __future__ import annotations

from typing import Any, cast

import httpx2
import msgspec
import pytest

from service.desk import HOST, REFUND, Desk, open_desk
from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.values.canonical import hash_bytes
from tercet.core.messages import inbox_of
from tercet.engine.session_reader import load_history, load_state
from tercet.engine.streams import audit
from tercet.engine.streams.credentials import STREAM
from tercet.journal.errors import BlobMissing, JournalCorrupt
from tercet.journal.protocol import Append, Journal, Stored
from tercet.service.client import AsyncClient
from tercet.service.remote_journal import RemoteJournal

pytestmark = pytest.mark.usefixtures("shop")


async def remote_of(desk: Desk, key: str) -> RemoteJournal:
    """The journal as a caller with a key reads it."""
    transport = httpx2.ASGITransport(app=cast("Any", desk.running.app))
    return await RemoteJournal.open(AsyncClient(HOST, key, transport=transport))


async def test_a_session_is_read_as_it_is_stored() -> None:
    """State, events, checkpoints, rows, blobs and leases are those of the journal; nothing can be written."""
    async with open_desk() as desk:
        key = await desk.key("agt_support")
        session = (await desk.rpc(key, "invokeAgent", request=REFUND))["session"]["session_id"]
        own, remote = desk.journal, await remote_of(desk, key)
        assert isinstance(remote, Journal)
        assert (remote.tenant, remote.actor.id) == ("default", "agt_support")
        there = await load_history(remote, "default", session, has_checkpoints=True)
        assert there == await load_history(own, "default", session, has_checkpoints=True)
        assert await load_state(remote, "default", session) == await load_state(own, "default", session)
        assert await remote.session("default", session) == await own.session("default", session)
        assert await remote.sessions("default", limit=5) == await own.sessions("default", limit=5)
        assert await remote.session_ids("default", "ses_") == [session]
        assert await remote.lease("default", session) == await own.lease("default", session)
        digests = await own.blob_digests("default", session)
        assert await remote.blob_digests("default", session) == digests
        for digest in digests:
            assert await remote.blob("default", digest) == await own.blob("default", digest)
        assert await remote.read("default", session, after=2, limit=3) == await own.read(
            "default", session, after=2, limit=3
        )
        with pytest.raises(BlobMissing):
            await remote.blob("default", hash_bytes(b"unknown"))
        with pytest.raises(UsageError, match="cannot be written"):
            await cast("Any", remote).append(Append(tenant="default", stream=session, expected=0))
        await remote.close()


async def test_only_sessions_of_the_callers_tenant_are_read() -> None:
    """Keys, the audit log, kept results, stops and sessions of others are as if they did not exist."""
    async with open_desk() as desk:
        key, other = await desk.key("agt_support"), await desk.key("ann", tenant="acme")
        found = await desk.rpc(key, "invokeAgent", request=REFUND)
        session = found["session"]["session_id"]
        await desk.rpc(key, "cancelSession", session_id=session, request_key="k")
        kept = audit.call_stream("agt_support", "cancelSession", "k")
        assert await desk.journal.read("default", kept)
        for stream in (
            audit.AUDIT,
            kept,
            STREAM,
            "stops",
            f"calls:{session}",
            f"audit:{session}",
            "a\0b",
            "",
        ):
            for what in ("events", "end", "checkpoints", "newest", "blobs", "lease"):
                assert await desk.rpc(key, "readJournal", what=what, name=stream) == {"found": None}, stream
        for what in ("events", "end", "lease", "row"):
            assert await desk.rpc(other, "readJournal", what=what, name=session) == {"found": None}
        assert await desk.rpc(other, "readJournal", what="rows") == {"found": []}
        (digest, *_) = await desk.journal.blob_digests("default", session)
        assert (await desk.rpc(other, "readJournal", what="blob", name=digest))["code"] == "blob_missing"
        assert (await desk.rpc(key, "readJournal", what="similar", name="request_of:")) == {"found": []}
        assert (await desk.rpc(key, "readJournal", what="events", name=inbox_of(session)))["found"]
        writer = await desk.key("bob", scopes=("answer",))
        assert (await desk.rpc(writer, "readJournal", what="rows"))["code"] == "scope_missing"
        assert (await desk.rpc(key, "readJournal", what="keys"))["code"] == "invalid_params"


async def test_what_was_changed_on_the_way_is_not_shown() -> None:
    """The reader checks the chain of events and the hashes of checkpoints itself."""

    class Forged(RemoteJournal):
        async def read(self, tenant: str, stream: str, *, after: int = 0, limit: int = 1000) -> list[Stored]:
            found = await super().read(tenant, stream, after=after, limit=limit)
            return [msgspec.structs.replace(each, data=each.data.replace(b"ord_881", b"ord_882")) for each in found]  # fmt: skip

    async with open_desk() as desk:
        key = await desk.key("agt_support")
        session = (await desk.rpc(key, "invokeAgent", request=REFUND))["session"]["session_id"]
        remote = await remote_of(desk, key)
        with pytest.raises(JournalCorrupt):
            await load_state(Forged(remote.client, remote.tenant, remote.actor), "default", session)
        await remote.close()


async def test_a_credential_that_does_not_count_opens_nothing() -> None:
    """The first call is refused, with the code of the service."""
    async with open_desk() as desk:
        with pytest.raises(TercetError) as refused:
            await remote_of(desk, "tck_0_0")
        assert refused.value.code == "unauthenticated"
