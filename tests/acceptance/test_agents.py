"""A step-by-step agent whose process is killed: another one takes up where it stood."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tercet.testing.crash_points import VARIABLE as CRASH

from .agents import LETTER, MODEL, main
from .effects import VARIABLE as EFFECTS
from .effects import create, read
from .nursery import Worker

LEASE_MS = 400


async def live(tmp_path: Path, crash: str = "") -> tuple[int, dict[str, Any]]:
    """One life of the clerk: how it ended, and what it said."""
    words = (f"sqlite:///{tmp_path / 'runs.db'}", str(LEASE_MS))
    environment = {EFFECTS: str(tmp_path / "world.db"), CRASH: crash}
    return await Worker(words, environment, main).ended()


@pytest.mark.parametrize(
    "crash",
    [
        "after_append:1",
        "after_append:4",
        "before_append:7",
        "inside_commit:9",
        "after_append:12",
        "before_append:15",
        "after_effect:1",
        "before_effect:2",
        "after_effect:2",
        "after_answer:2",
    ],
)
def test_a_killed_agent_is_taken_up_where_it_stood(tmp_path: Path, crash: str) -> None:
    """Whenever it dies, the letter is sent once, no recorded answer of the model is asked for again, and the critic's
    patch and count are as if nothing had happened."""
    create(tmp_path / "world.db")
    code, told = asyncio.run(live(tmp_path, crash))
    assert (code, told) == (-9, {})
    code, told = asyncio.run(live(tmp_path))
    assert told == {
        "answer": "kind: 2 notes",
        "stop": "final",
        "actions": ["continue", "continue", "retry", "final"],
        "metadata": {"warned": True},
    }
    happened = Counter(effect.tool for effect in read(tmp_path / "world.db"))
    assert happened[LETTER] == 1
    assert happened[MODEL] in (4, 5)  # at most the one that was not recorded is asked again
    assert happened["desk.look"] in (1, 2)
