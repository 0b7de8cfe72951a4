"""Recorded runs that views are built from, and views filled by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from engine.quality_desk import LEAKY, WRITE, desk
from engine.workshop import ADA, ASK, BOB, Death, Workshop, plan, step
from tercet import Actor, Request, Runtime
from tercet.contracts.errors import NotDone
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.engine.result import RunResult
from tercet.packs import Pack
from tercet.replay.run_data import read_run
from tercet.tools import ToolContext
from tercet.view.events import EventLine, RunData
from tercet.view.vocabulary import Status

LETTERS = Path(__file__).parents[2] / "examples" / "letters"
CLERK, EDITOR = Actor(id="user_desk"), Actor(id="user_editor")
FACT = "kg:order:o1#snapshot_s1"


def nothing(_: str) -> None:
    """A crash point at which nothing happens."""


def eventful(workshop: Workshop, secret: str = "") -> RunData:
    """A run with everything: a retry, a gate that somebody approves, a process that dies in a call, and evidence."""

    async def behave(context: ToolContext, params: dict[str, Any]) -> Any:
        if context.step_id == "look" and context.attempt == 1:
            raise NotDone("the shop is closed")
        return {"n": params.get("n"), "note": f"<b>paid</b> {secret}"}

    workshop.tool("shop.look", behave, mode="read_only")
    workshop.tool("shop.pay", behave, mode="destructive", idempotent=True, gates=["BOSS"], authority=["n"], no_compensation="it is gone")  # fmt: skip
    pack = workshop.pack(
        gates=(Gate(name="BOSS", roles=("boss",)),),
        evidence=(Evidence.model_validate({"id": FACT, "content": {"n": "pay"}, "trust": "trusted", "source": "the order book"}),),
    )  # fmt: skip
    steps = plan(
        step("look", "shop.look"),
        step("pay", "shop.pay", depends_on=("look",), evidence_refs=(FACT,)),
        outputs={"paid": {"$from": "pay#/n"}},
    )

    async def main() -> RunData:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(pack, journal) as runtime:
                result = await runtime.run(ASK, plan=steps, actor=ADA)
                assert result.gate is not None, result
                await runtime.approve(result.gate.id, actor=BOB, note="go on")
            killed = Death("after_answer")
            async with workshop.runtime(pack, journal, crash=killed) as runtime:
                assert await killed.of(runtime.resume(result.session_id)) is None
            async with workshop.runtime(pack, journal, crash=nothing) as runtime:
                ended = await runtime.resume(result.session_id)
                assert ended.status == "completed", ended
                return await read_run(journal, "default", ended.session_id)

    return workshop.run(main())


Answer = Callable[[Runtime, RunResult], Awaitable[RunResult]]


def letter(*faults: str, intent: str = "letters.write", answer: Answer | None = None) -> RunData:
    """A letter of the example with these slips, and what an editor says to it."""

    async def main() -> RunData:
        async with Runtime(Pack.load(LETTERS), watchdog_ms=None) as runtime:
            given = Request(intent=intent, input={"order_id": "ord_4471", "faults": list(faults)})
            result = await runtime.run(given, actor=CLERK)
            if answer is not None:
                result = await answer(runtime, result)
            return await read_run(runtime.journal, "default", result.session_id)

    return asyncio.run(main())


async def sign_with_a_change(runtime: Runtime, result: RunResult) -> RunResult:
    """The editor wants another section, and accepts the letter with it."""
    for answer, note in ((runtime.modify, "add the section Warranty"), (runtime.approve, "Good.")):
        assert result.gate is not None, result
        await answer(result.gate.id, actor=EDITOR, note=note)
        result = await runtime.resume(result.session_id)
    return result


def judged(workshop: Workshop, words: str, **quality: Any) -> RunData:
    """A run whose output has a key in it, and these words, and is repaired by rule as far as that goes."""
    pack = desk(workshop, {"letter": f"{LEAKY} {words}"}, quality=quality)

    async def main() -> RunData:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            return await read_run(runtime.journal, "default", result.session_id)

    return workshop.run(main())


# --- views filled by hand ---


def filled(kind: type[Any], text: str, copies: int = 2) -> Any:
    """Return an instance of a view in which every text is this one; lists have so many entries, numbers are small."""
    hints = get_type_hints(kind)
    return kind(**{field.name: _value(hints[field.name], text, copies) for field in fields(kind)})


def _value(hint: Any, text: str, copies: int) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {text: [text]}
    if origin is Literal:
        return arguments[0]
    if origin is tuple and arguments[-1] is ...:
        return tuple(_value(arguments[0], text, copies) for _ in range(copies))
    if origin is tuple:
        return tuple(_value(each, text, copies) for each in arguments)
    if origin in (Union, UnionType):
        return _value(next(each for each in arguments if each is not NoneType), text, copies)
    if origin in (dict, Mapping):
        return {text: _value(arguments[1], text, copies)}
    if hint in (Status, EventLine):
        return Status(text, "bad", text) if hint is Status else EventLine(text, "bad", text, text)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    if isinstance(hint, type) and is_dataclass(hint):
        return filled(hint, text, copies)
    return {str: text, int: 1, float: 0.4, bool: True}[hint]
