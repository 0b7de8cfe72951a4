"""Runtimes that cannot be opened whole, or cannot be closed in peace, leave nothing open."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tercet.engine.subscription import Subscription
from tercet.evidence.errors import StoreError
from tercet.journal.errors import JournalClosed
from tercet.runtime import Runtime

from .workshop import Workshop


def test_a_runtime_that_does_not_open_leaves_no_journal_open(workshop: Workshop, tmp_path: Path) -> None:
    """Where the evidence cannot be opened, the journal that was opened before it is closed again."""
    before = set(threading.enumerate())

    async def main() -> None:
        missing = f"sqlite:///{tmp_path / 'nowhere' / 'e.db'}"
        runtime = Runtime(workshop.pack(), f"sqlite:///{tmp_path / 'runs.db'}", evidence=missing)
        with pytest.raises(StoreError):
            await runtime.__aenter__()
        with pytest.raises(JournalClosed):
            await runtime.sessions()

    asyncio.run(main())
    assert set(threading.enumerate()) <= before


def test_what_fails_to_close_keeps_nothing_else_open(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while one part is closed is told, after the journal has been closed all the same."""

    async def broken(_: Subscription) -> None:
        raise OSError("it does not close")

    monkeypatch.setattr(Subscription, "close", broken)

    async def main() -> None:
        runtime = Runtime(workshop.pack(), f"sqlite:///{tmp_path / 'runs.db'}")
        async with runtime:
            assert await runtime.sessions() == []
            with pytest.raises(OSError, match="does not close"):
                await runtime.__aexit__(None, None, None)
            with pytest.raises(JournalClosed):
                await runtime.sessions()

    asyncio.run(main())
