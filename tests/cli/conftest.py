"""The command line in this process, and packs to point it at."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tercet.cli.main import app
from tercet.cli.sessions import people

from .harness import PLANS, REFUNDS, Answer, Tercet
from .office import Office
from .runs import Kitchen
from .studio import Studio


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


@pytest.fixture
def kitchen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kitchen:
    """A working folder of its own, in which runs leave their journal and their effects."""
    folder = tmp_path / "kitchen"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    monkeypatch.delenv("TERCET_ACTORS", raising=False)
    monkeypatch.setenv("POST_LOG", str(folder / "post.log"))
    monkeypatch.setenv("BAKERY_DB", str(folder / "bakery.db"))
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(folder / "refunds.db"))
    monkeypatch.setattr(people, "login_name", lambda: "agt_support")
    return Kitchen(folder)


@pytest.fixture
def office(tercet: Tercet, kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch) -> Office:
    """A post office at which anybody may sit down."""
    return Office(tercet, kitchen, monkeypatch)


@pytest.fixture
def studio(tercet: Tercet, kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch) -> Studio:
    """A shop that writes letters, and a journal of its own in the folder of the kitchen."""
    del kitchen
    return Studio(tercet, monkeypatch)
