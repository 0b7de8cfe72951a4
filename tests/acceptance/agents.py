"""A clerk that decides step by step, in a process that dies where it is told to.

It looks an order up, writes a letter, drafts an answer that its critic sends back once, and answers. What it decides,
it asks a model; the model counts its calls in the world outside, as the letters do.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tercet import Absent, Happened, TercetError, ToolContext, tool
from tercet.contracts.question import Message, Question, Reply
from tercet.critics import CriticResult, Engine, critic
from tercet.testing.crash_points import plant

from .acting import TIMEOUT_MS, act, crash_plan
from .effects import Effect, do, has_happened
from .worker import Say

LETTER = "desk.letter"
MODEL = "test:oracle"


@tool("desk.look", mode="read_only", timeout_ms=TIMEOUT_MS)
async def look(ctx: ToolContext, order: str) -> dict[str, Any]:
    """Look an order up."""
    await act(ctx, "desk.look", do)
    return {"order": order, "total": 5}


def _find(ctx: ToolContext) -> Happened | Absent:
    return Happened({"sent": True}) if has_happened(ctx.idempotency_key) else Absent()


@tool(LETTER, mode="local_write", reconcile=_find, timeout_ms=TIMEOUT_MS)
async def letter(ctx: ToolContext, text: str) -> dict[str, Any]:
    """Send a letter, once."""
    await act(ctx, LETTER, do)
    return {"sent": True}


@dataclass
class State:
    """What the clerk knows."""

    task: Any
    notes: list[Any] = field(default_factory=list[Any])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    tone: str = "plain"


class Oracle:
    """A model that knows what comes next, and counts how often it is asked."""

    name = MODEL

    def price(self, question: Question) -> int:
        """Nothing."""
        return 0

    async def ask(self, question: Question) -> Reply:
        """What to do, by how much was done, and in which tone."""
        do(Effect(question.hash, "", MODEL, os.getpid()))
        notes, tone = json.loads(question.messages[0].text)
        said: dict[str, Any] = {"final_answer": f"{tone}: {len(notes)} notes"}
        if not notes:
            said = {"tool": "desk.look", "args": {"order": "o1"}}
        elif len(notes) == 1:
            said = {"tool": LETTER, "args": {"text": "dear customer"}}
        return Reply(text=json.dumps(said), model=self.name, tokens_in=1, tokens_out=1)


class Clerk:
    """Asks the oracle what to do."""

    tools = (look, letter)
    system_prompt = "Decide."

    def init_state(self, task: Any) -> State:
        """A fresh state."""
        return State(task)

    def decide(self, state: State) -> Generator[Question, Reply, Any]:
        """One question, one decision."""
        reply = yield Question(
            system=self.system_prompt, messages=(Message(text=json.dumps([state.notes, state.tone])),)
        )
        return json.loads(reply.text)

    def reduce(self, state: State, decision: Any, results: Any) -> None:
        """Note what came of it."""
        state.notes.append(results)


@critic(name="tone")
def tone(state: Any, decision: Any, results: Any) -> Any:
    """Send the first answer back."""
    if decision.mode == "final" and not state.metadata.get("warned"):
        state.metadata["warned"] = True
        return CriticResult("retry", "too plain", instruction_patch="Be kind.", state_patch={"tone": "kind"})
    return "continue"


async def _work(journal: str, lease_ms: int, say: Say) -> dict[str, Any]:
    engine = Engine(
        Clerk(), [tone], journal=journal, models=[Oracle()], lease_ms=lease_ms, crash=crash_plan()
    )
    async with engine.runtime() as runtime:
        found = await runtime.sessions()
    say("ready")
    result = await (engine.resume(found[0].session_id) if found else engine.run("o1"))
    return {
        "answer": result.final_answer,
        "stop": str(result.stop_reason),
        "actions": [step.action for step in result.steps],
        "metadata": result.state.metadata,
    }


def main(words: Sequence[str], say: Say) -> None:
    """Work on a journal with a lease of so many milliseconds."""
    journal, lease_ms = words
    plant(crash_plan())
    try:
        ended = asyncio.run(_work(journal, int(lease_ms), say))
    except TercetError as error:
        ended = {"error": error.code, "reason": str(error)}
    say(json.dumps(ended))
