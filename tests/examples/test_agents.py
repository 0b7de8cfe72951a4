"""The agents of the examples: what their pages show is what they say, and another model changes no rule."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tercet.contracts.question import ModelFault, Question, Reply
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.critics import StopReason
from tercet.engine.session_reader import load_history
from tercet.journal.opening import open_journal

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
BLOCK = re.compile(r"```console\n\$ python (?P<words>[^\n]+)\n(?P<output>.*?)```", re.DOTALL)
SHOWN = [
    (page, match["words"], match["output"])
    for page in (EXAMPLES / "agent" / "README.md", EXAMPLES / "react" / "README.md", EXAMPLES / "README.md")
    for match in BLOCK.finditer(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(
    ("page", "words", "output"), SHOWN, ids=[f"{p.parent.name}-{w}" for p, w, _ in SHOWN]
)
def test_an_agent_says_what_its_page_shows(page: Path, words: str, output: str) -> None:
    """The command ends well, and prints what stands below it, where anything does."""
    done = subprocess.run(
        [sys.executable, *shlex.split(words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert output in ("", done.stdout), page


def test_both_agents_are_on_the_page_of_the_examples() -> None:
    """Each has its command in the list of all examples."""
    shown = {words for page, words, _ in SHOWN if page.parent == EXAMPLES}
    assert {"examples/agent/support.py", "examples/react/react.py"} <= shown


def load(path: Path) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Model:
    """A model that always answers the same."""

    name = "test:stubborn"

    def __init__(self, answer: str | ModelFault) -> None:
        self.answer = answer

    def price(self, question: Question) -> int:
        """Nothing."""
        return 0

    async def ask(self, question: Question) -> Reply:
        """The answer, or the fault."""
        if isinstance(self.answer, ModelFault):
            raise self.answer
        return Reply(text=self.answer, model=self.name)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("It is on shelf A1, I think.", "escalated"),
        ('{"thought": "hm"', "escalated"),
        ('{"thought": "", "final_answer": "A1"}', "max_steps"),
        ('{"thought": "", "tool": "library.burn", "args": {}}', "critic_stop"),
        ('{"thought": "", "tool": "library.find", "args": {"title": "fire"}}', "critic_stop"),
        (ModelFault("down"), "paused"),
    ],
)
def test_whatever_a_model_says_no_rejected_answer_comes_out(answer: str | ModelFault, reason: str) -> None:
    """Prose, half JSON, guesses, tools that are not there, silence: there is no answer, and a reason why."""
    react: Any = load(EXAMPLES / "react" / "react.py")
    result = asyncio.run(react.ask("Where are the tides?", Model(answer)))
    assert (result.final_answer, result.stop_reason) == (None, reason)


def test_a_model_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name is wrong use, with what to do about it."""
    react: Any = load(EXAMPLES / "react" / "react.py")
    assert react.main(["--model", "nonsense"]) == 2
    assert "nonsense" in capsys.readouterr().err


def test_a_real_model_decides_and_every_call_is_reviewed(tmp_path: Path) -> None:
    """Whatever the small model says: no call without a passed review, every question booked, a typed end, and an answer
    only if the critics let it through; folding the journal again gives the same."""
    react: Any = load(EXAMPLES / "react" / "react.py")
    journal = f"sqlite:///{tmp_path}/react.db"
    model = react.open_model("local")

    async def ask() -> tuple[Any, tuple[e.Event, ...]]:
        try:
            result = await react.ask("Where do I find the book about tides?", model, journal=journal)
        finally:
            await model.aclose()
        async with open_journal(journal) as opened:
            return result, (await load_history(opened, "default", result.session_id)).events

    result, events = asyncio.run(ask())
    state, passed = State(), set[str]()
    for event in events:
        state = fold_event(state, event)
        if isinstance(event, e.PlanReviewed) and event.verdict["outcome"] == "ok":
            passed.add(event.hash)
        assert not isinstance(event, e.Intent) or state.plan_hash in passed
    answered = [event for event in events if isinstance(event, e.ModelAnswered)]
    assert 1 <= len(answered) == len([event for event in events if isinstance(event, e.ModelAsked)])
    assert state.used.model_tokens == sum(event.tokens_in + event.tokens_out for event in answered)
    assert (state.asking, state.used.reserved_tokens) == (None, 0)
    assert result.stop_reason in StopReason
    judged = [event for event in events if isinstance(event, e.TurnJudged)]
    assert (result.final_answer is not None) == any(turn.action == "final" for turn in judged)
