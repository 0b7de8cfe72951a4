"""A fresh workshop for each test."""

from __future__ import annotations

import pytest

from engine.workshop import Workshop


@pytest.fixture
def workshop() -> Workshop:
    """A workshop of its own for each test."""
    return Workshop()
