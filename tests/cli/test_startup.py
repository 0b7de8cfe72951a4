"""Commands import what they need: a small one does not wait for the modules of the others."""

from __future__ import annotations

import gc
import inspect
import json
import subprocess
import sys

import pytest

from tercet import __main__
from tercet.cli.main import COMMANDS

from .harness import PLANS, REFUNDS

HEAVY = {
    "pydantic_ai",
    "opentelemetry",
    "jinja2",
    "hypothesis",
    "cryptography",
    "asyncpg",
}
SCRIPT = """
import json, sys
from tercet.cli.main import app
try:
    app(sys.argv[1:])
except SystemExit as ended:
    assert not ended.code, ended.code
sys.stderr.write(json.dumps(sorted(sys.modules)))
"""


def imported_by(*words: object) -> set[str]:
    """The modules that a process has imported when a command is done."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, words)], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr))


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_a_word_about_the_command_line_imports_no_other_room(word: str) -> None:
    """Neither contracts nor Pydantic nor the screen are needed to print a version or a list."""
    modules = imported_by(word)
    rooms = {".".join(name.split(".")[:2]) for name in modules if name.startswith("tercet.")}
    assert rooms == {"tercet.cli"}
    assert not modules & {*HEAVY, "pydantic", "rich", "asyncio"}


@pytest.mark.parametrize(
    "words",
    [("check", REFUNDS), ("verify", REFUNDS, PLANS / "plan_b.json"), ("schema", "Plan")],
    ids=lambda words: words[0],
)
def test_a_light_command_imports_nothing_heavy(words: tuple[object, ...]) -> None:
    """Models, telemetry, tuning, reports and other commands stay on the disk."""
    modules = imported_by(*words)
    assert not {name.partition(".")[0] for name in modules} & HEAVY
    assert not modules & {
        "tercet.cli.run.run",
        "tercet.cli.sessions.sessions",
        "tercet.cli.replay.tune",
        "tercet.cli.sessions.journal",
    }


def test_what_is_checked_does_not_need_what_runs() -> None:
    """`tercet check` imports neither the runtime nor the journal."""
    rooms = {".".join(name.split(".")[:2]) for name in imported_by("check", REFUNDS)}
    assert not rooms & {
        "tercet.engine",
        "tercet.journal",
        "tercet.executor",
        "tercet.replay",
        "tercet.observe",
    }


@pytest.mark.parametrize("name", [name for name in COMMANDS if " " not in name])
def test_the_line_of_a_command_is_its_first_sentence(name: str) -> None:
    """What the list of commands says is what the help of the command begins with."""
    function, _ = COMMANDS[name].load()
    help_text = " ".join((inspect.getdoc(function) or "").split())
    assert COMMANDS[name].summary
    assert help_text.startswith(COMMANDS[name].summary)


def test_no_garbage_is_looked_for_until_a_command_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector is paused at the start, and works again once the command is there."""
    seen: list[bool] = []
    monkeypatch.setattr("tercet.cli.main.run", lambda: seen.append(gc.isenabled()))
    monkeypatch.setattr(gc, "freeze", lambda: seen.append(gc.isenabled()))
    try:
        __main__.run()
        COMMANDS["schema"].load()
        seen.append(gc.isenabled())
    finally:
        gc.enable()
    assert seen == [False, False, True]
