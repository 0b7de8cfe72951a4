"""A workshop to make runs in, and a browser to look at their reports with."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser

from engine.workshop import Workshop

from .browser import launched


@pytest.fixture
def workshop() -> Workshop:
    """A workshop of its own for each test."""
    return Workshop()


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """Chromium, started once for a file of tests."""
    with launched() as found:
        yield found
