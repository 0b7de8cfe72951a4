"""A fresh workshop, and the journals that every run must behave the same on."""

from __future__ import annotations

from pathlib import Path

import pytest

from .workshop import Workshop


@pytest.fixture
def workshop() -> Workshop:
    """A workshop of its own for each test."""
    return Workshop()


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty journal."""
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The address of an empty journal that several processes can share."""
    return f"sqlite:///{tmp_path / 'shared.db'}"
