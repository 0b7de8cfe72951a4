"""One Temporal server for the tests of the cluster."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from plugins.temporal import TemporalServer, running_temporal


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Generator[TemporalServer]:
    """A Temporal server of this process, with its data in a file."""
    with running_temporal(tmp_path_factory.mktemp("temporal")) as server:
        yield server
