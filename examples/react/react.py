"""A ReAct agent: it thinks, calls a tool, looks at what came of it, and thinks again.

    python examples/react/react.py                    a rehearsed model, offline and the same each time
    python examples/react/react.py --model local      the small model of the extra local-model

`ModelAgent` asks the model through the runtime. So each of its calls is recorded and paid from the budget of the run, and
one that was answered before a crash is not made again. What the model says decides nothing by itself: each call
that it wants is reviewed like any other. Fern Street Library is an invented library.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tercet import TercetError, tool
from tercet.contracts.question import Question, Reply
from tercet.critics import (
    Engine,
    EngineResult,
    MaxSteps,
    ModelAgent,
    ModelState,
    Moment,
    ReActSelfReflectionCritic,
    Stage,
    critic,
)
from tercet.models.model import Model

SHELVES = {"tides": {"title": "tides", "copies": 2, "shelf": "C4"}, "knots": {"title": "knots", "copies": 0}}


@tool("library.find", mode="read_only")
def find(title: str) -> dict[str, Any]:
    """Where a book stands, and how many copies are in. title: one word, in lower case."""
    return SHELVES[title]


@tool("library.hours", mode="read_only")
def hours(day: str) -> dict[str, Any]:
    """When the library is open on a day."""
    return {"day": day, "open": "10:00 to 18:00"}


READER = "You answer questions about a library. Look up what you are asked, then answer."


@critic(name="grounded")
def grounded(state: ModelState, decision: Any, results: Any) -> Any:  # noqa: ARG001 - a critic's signature
    """An answer names a shelf that a tool has brought."""
    if decision.mode != "final":
        return "continue"
    shelves = {result.get("shelf") for step in state.history for result in step["results"]} - {None}
    named = set(re.findall(r"\b[A-Z]\d\b", str(decision.final_answer)))
    if named - shelves or not (named or shelves):
        return "retry", "no tool has brought this", "Look it up with a tool before you answer."
    return "continue"


class Rehearsed:
    """Stands in for a model: reads the question as one would, and guesses first, as one would."""

    name = "example:rehearsed"

    def price(self, question: Question) -> int:  # noqa: ARG002 - it costs nothing
        """Nothing."""
        return 0

    async def ask(self, question: Question) -> Reply:
        """Return a guess; after a refusal, a call; and then the answer."""
        asked = "".join(message.text for message in question.messages)
        if '"shelf": "C4"' in asked:
            thought, decision = "it is found", {"final_answer": "There are two copies on shelf C4."}
        elif "Look it up" in question.system:
            call = {"tool": "library.find", "args": {"title": "tides"}}
            thought, decision = "so I look", {"actions": [call]}
        else:
            thought, decision = "surely where books are", {"final_answer": "It is on shelf A1."}
        text = json.dumps({"thought": thought, "decision": decision})
        return Reply(text=text, model=self.name, tokens_in=len(asked) // 4, tokens_out=len(text) // 4)


def open_model(name: str) -> Model:
    """A model by its name; the libraries that others need are imported only for them."""
    if name == "rehearsed":
        return Rehearsed()
    opened: Model = import_module("tercet.models.opening").open_model(name)
    return opened


def say(line: str) -> None:
    """Print progress."""
    print(line)  # noqa: T201 - an example shows what happens


def narrate(stage: Stage, moment: Moment) -> None:
    """A hook: the thoughts, the calls, and what the critics said."""
    decision, verdict = moment.decision, moment.verdict
    if stage == "decide" and decision is not None:
        calls = ", ".join(f"{action.tool} {action.args}" for action in decision.actions)
        say(f"step {moment.step}: {decision.rationale}\n        {calls or repr(decision.final_answer)}")
    if stage == "act":
        for result in moment.results:
            say(f"        → {result}")
    if stage == "critic" and verdict is not None and verdict.action != "continue":
        say(f"        {verdict.critic} says {verdict.action}: {verdict.result.reason}")


async def ask(task: str, model: Model, *, journal: str = "memory:") -> EngineResult:
    """One question to the agent, with any model."""
    engine = Engine(
        ModelAgent([find, hours], READER, answer={"type": "string", "maxLength": 200}, max_tokens=400),
        critics=[grounded, ReActSelfReflectionCritic(max_retries=2)],
        stop=[MaxSteps(8)],
        hooks=[narrate],
        models=[model],
        journal=journal,
    )
    return await engine.run(task)


def main(words: Sequence[str] | None = None) -> int:
    """Ask, and say how it ended."""
    parser = argparse.ArgumentParser(description="A ReAct agent whose every model call is recorded.")
    parser.add_argument("task", nargs="?", default="Where do I find the book about tides?")
    parser.add_argument("--model", default="rehearsed", help='"rehearsed", "local", "openai:gpt-5", …')
    parser.add_argument("--journal", default="memory:", help='for example "sqlite:///runs.db"')
    given = parser.parse_args(words)
    try:
        result = asyncio.run(ask(given.task, open_model(given.model), journal=given.journal))
    except TercetError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    say(f"answer: {result.final_answer}")
    say(f"        ended by {result.stop_reason} after {len(result.steps)} steps")
    return 0 if result.final_answer is not None else 5


if __name__ == "__main__":
    sys.exit(main())
