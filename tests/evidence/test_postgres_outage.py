"""Evidence on a PostgreSQL server that restarts: what can be repeated is repeated, and the rest is a typed error."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from plugins.postgres import PostgresServer
from tercet.evidence.errors import StoreUnavailable
from tercet.evidence.opening import open_evidence


async def _restarted(server: PostgresServer, patience_s: float) -> tuple[object, object]:
    """What a read and a pin come to that begin while the server is away, and go on while it starts."""
    tenant = f"tenant-{secrets.token_hex(8)}"
    async with open_evidence(server.url, patience_s=patience_s) as store:
        await store.create(tenant, "draft", now_ms=0)
        await store.freeze(tenant, "draft", now_ms=0, name="v1")
        await asyncio.to_thread(server.stop)
        try:
            waiting = asyncio.gather(store.newest(tenant), store.pin(tenant, "v1", "ses_1"))
            if not patience_s:
                await waiting
        finally:
            await asyncio.to_thread(server.start)
        newest, _ = await waiting
        return newest, await store.pins(tenant, "v1")


async def test_reads_and_pins_survive_a_restart(postgres_server: PostgresServer) -> None:
    """They begin while nothing listens, and are done when the server is back."""
    newest, pins = await _restarted(postgres_server, 60)
    assert newest is not None
    assert pins == ("ses_1",)


async def test_a_store_that_stays_away_is_a_typed_error(postgres_server: PostgresServer) -> None:
    """When patience ends, the error says what to do."""
    with pytest.raises(StoreUnavailable) as caught:
        await _restarted(postgres_server, 0)
    assert caught.value.remedy
