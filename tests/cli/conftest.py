"""The command line in this process, and packs to point it at."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tercet.cli.main import app

from .harness import PLANS, REFUNDS, Answer, Tercet


@pytest.fixture
def tercet(monkeypatch: pytest.MonkeyPatch) -> Tercet:
    """Runs a command; `stdin` is what it is given to read."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words: str | Path, stdin: str | bytes = b"") -> Answer:
        result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        assert "Traceback" not in result.output
        return Answer(code=result.exit_code, out=result.stdout, err=result.stderr)

    return call


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A copy of the refund pack that a test may break."""
    return shutil.copytree(
        REFUNDS, tmp_path / "refunds", ignore=shutil.ignore_patterns("__pycache__", "*.db")
    )


@pytest.fixture
def plan_b() -> dict[str, Any]:
    """The plan that passes, to be changed by a test."""
    return json.loads((PLANS / "plan_b.json").read_bytes())
