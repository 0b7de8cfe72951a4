"""One Temporal server for the tests of the cluster, and what happens to their sessions."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from acceptance import effects
from cluster.orders import HOLD
from plugins.temporal import TemporalServer, running_temporal


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Generator[TemporalServer]:
    """A Temporal server of this process, with its data in a file."""
    with running_temporal(tmp_path_factory.mktemp("temporal")) as server:
        yield server


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database for what happens."""
    monkeypatch.setenv(effects.VARIABLE, str(tmp_path / "effects.db"))
    monkeypatch.setenv(HOLD, str(tmp_path))
    effects.create(tmp_path / "effects.db")
    return tmp_path
