"""The workshop of the engine's tests, and the journals that every run must behave the same on."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.conftest import file, url, workshop

__all__ = ["file", "url", "workshop"]


@pytest.fixture(params=["sqlite", "postgresql"])
def journal_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A journal on each of the two durable backends."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    return request.getfixturevalue("postgres_url")
