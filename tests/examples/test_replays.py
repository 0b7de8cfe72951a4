"""Every folder of the examples, also one that is new: its command is run, and every run of it is judged again."""

from __future__ import annotations

import asyncio
import re
import runpy
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pytest
from typer.testing import CliRunner

from tercet.cli.main import app
from tercet.runtime import Runtime

from .conftest import journals_in, look_back, look_back_at

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FOLDERS = sorted({path.relative_to(EXAMPLES).parts[0] for path in EXAMPLES.glob("*/*") if path.is_file()})
COMMAND = re.compile(
    r"^\$ (?P<words>(?:tercet|python) .*?examples/(?P<folder>\w+)\b.*?)(?:  # (?P<remark>.+))?$", re.MULTILINE
)
SHOWN = list(COMMAND.finditer((EXAMPLES / "README.md").read_text(encoding="utf-8")))
COMMANDS = {match["folder"]: shlex.split(match["words"]) for match in SHOWN}
ASKING = {match["folder"] for match in SHOWN if match["remark"] == "as the model answers"}
"""Those whose command asks a real model, which takes its time: their own tests ask it, and are replayed like all here."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each runtime had in its journal when it was closed: each was judged again, also where the journal is
    gone with its process."""
    found: list[int] = []
    close = Runtime.__aexit__

    async def look_and_close(
        self: Runtime,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            found.append(await look_back(self.journal))
        finally:
            await close(self, kind, error, trace)

    monkeypatch.setattr(Runtime, "__aexit__", look_and_close)
    return found


def carry_out(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command of the page in this process."""
    kind, *rest = words
    if kind == "tercet":
        CliRunner().invoke(app, rest)
        return
    monkeypatch.setattr(sys, "argv", rest)
    monkeypatch.syspath_prepend(str((ROOT / rest[0]).parent))  # pyright: ignore[reportUnknownMemberType]
    with suppress(SystemExit):
        runpy.run_path(str(ROOT / rest[0]), run_name="__main__")


def test_every_folder_has_a_command_to_replay() -> None:
    """An example that is new is on the page, with a command, or this fails; one that asks a model has tests of its own."""
    assert set(COMMANDS) == set(FOLDERS)
    assert all((Path(__file__).parent / f"test_{name}.py").is_file() for name in ASKING)


@pytest.mark.req("R272", "R275")
@pytest.mark.parametrize("folder", [name for name in FOLDERS if name not in ASKING])
def test_every_run_of_an_example_comes_out_the_same(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    """The command that the page of examples shows for a folder leaves a run, and replay finds no difference in it."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TERCET_JOURNAL", f"sqlite:///{tmp_path}/tercet.db")
    monkeypatch.setenv(f"TERCET_{folder.upper()}_DB", str(tmp_path / "shop.db"))
    carry_out(COMMANDS[folder], monkeypatch)
    kept = sum(asyncio.run(look_back_at(file)) for file in journals_in(tmp_path))
    assert kept + sum(seen) > 0, f"nothing was recorded by {' '.join(COMMANDS[folder])}"
