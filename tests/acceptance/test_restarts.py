"""A sample of the campaign's server restarts: real workers, a real server that is away for a second."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from acceptance.restarts import MODES, Outages, at_points, wrongs_of
from plugins.postgres import PostgresServer, StopMode


@pytest.mark.parametrize("mode", MODES)
def test_a_restart_loses_nothing_and_repeats_nothing(
    postgres_server: PostgresServer, tmp_path: Path, mode: StopMode
) -> None:
    """Workers meet a server that is gone around their appends and their calls, and come to the end that the journal holds."""

    async def run() -> list[str]:
        outages = Outages(postgres_server, modes=(mode,))
        points = ("before_append", "inside_commit", "after_append", "after_effect")
        lived = await at_points(outages, tmp_path, "twelve:nothing", points, 1)
        return wrongs_of(lived, {})

    assert asyncio.run(run()) == []
