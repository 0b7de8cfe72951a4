"""A folder with recorded runs and the files that pages name, in which the commands of a page can be typed."""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from tercet.cli.main import app
from tercet.engine.streams.experience import Lesson, teach
from tercet.journal.opening import open_journal

REQUEST = '{"order_id": "ord_881", "window_id": "rw_881"}'
OUTCOMES = 40


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The folder, and the ids of its runs."""

    folder: Path
    completed: str
    """A refund that was approved and paid."""
    waiting: str
    """A refund that waits at its gate."""


def record_runs(folder: Path) -> Recorded:
    """Record two refunds in `tercet.db` of the working folder, what letters have taught, and the files beside them."""
    waiting = _run()
    completed = _run()
    type_command("gates", "approve", f"{completed}.g1", "--dev", "--as", "user_finance_lead")
    type_command("sessions", "resume", completed, "--pack", "examples/refunds")
    type_command("export", completed, "-o", "run.tercet", "--pack", "examples/refunds")
    draw = random.Random(7)  # noqa: S311 - a fixed sample, not a secret
    liked = [draw.random() for _ in range(OUTCOMES)]
    outcomes = [{"features": {"verify": each}, "is_correct": draw.random() < each} for each in liked]
    repairs = [
        {
            "task_class": "letter",
            "run": f"ses_{at:04}",
            "iteration": 0,
            "intensity": 0.5,
            "before": 0.4,
            "after": 0.6,
        }
        for at in range(10)
    ]
    asyncio.run(_teach([Lesson(session=f"ses_{at:04}", outcomes=(row,)) for at, row in enumerate(outcomes)]))
    files = {
        "outcomes.jsonl": "".join(f"{json.dumps(each)}\n" for each in outcomes),
        "repairs.jsonl": "".join(f"{json.dumps(each)}\n" for each in repairs),
        "handbook/refunds.md": "# Refunds\n\nThe refund limit is 50,000.\n",
        "rules.md": "# Rules\n\nA refund needs a receipt.\n",
        "orders.csv": "order_no,id,total\n7,7,12\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    type_command("evidence", "add", "rules.md", "--class", "policy")
    type_command("evidence", "snapshot", "2026-04")
    (folder / "past").mkdir()
    shutil.copy("run.tercet", "past/run.tercet")
    shutil.copy("tercet.db", "runs.db")
    Path("refunds.db").unlink()  # a page pays the same order again
    return Recorded(folder=folder, completed=completed, waiting=waiting)


def _run() -> str:
    output = type_command(
        "run", "examples/refunds", "--input", REQUEST, "--dev", "--as", "agt_support", code=4
    )
    found = re.search(r"ses_[0-9a-f]{16}", output)
    assert found
    return found[0]


def type_command(*words: str, code: int = 0) -> str:
    """Run `tercet` in this process, demand its exit code, and return what it prints."""
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, f"tercet {' '.join(words)}: exit {done.exit_code}\n{done.output}"
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done.output


async def _teach(lessons: list[Lesson]) -> None:
    async with open_journal("sqlite:///tercet.db") as journal:
        for lesson in lessons:
            await teach(journal, "default", "letter", lesson)
