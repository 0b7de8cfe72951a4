"""The refund desk of the tests of the console."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database of the refund desk of its own."""
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(tmp_path / "refunds.db"))
    return tmp_path
