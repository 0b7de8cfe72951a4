"""Runs that reports are made of, and pages filled by hand."""

from __future__ import annotations

import dataclasses
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from runtime.workshop import ADA, ASK, BOB, Death, Workshop, plan, step
from tercet.contracts.errors import NotDone
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.replay.report import Case, read_case
from tercet.tools import ToolContext

LINES = {"path": "M0 0 L9 9", "head": "0,0 9,0 9,9"}
"""What is made of numbers alone, and never of words."""
FACT = "kg:order:o1#snapshot_s1"


def nothing(_: str) -> None:
    """A crash point at which nothing happens."""


def eventful(workshop: Workshop, secret: str = "") -> Case:
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

    async def main() -> Case:
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
                return await read_case(journal, "default", ended.session_id)

    return workshop.run(main())


# --- pages by hand ---


def filled(kind: type[Any], text: str, copies: int = 2) -> Any:
    """An instance of a dataclass in which every text is this one; lists have so many entries, numbers are small."""
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(**{name: LINES.get(name) or _value(hints[name], text, copies) for name in names})


def _value(hint: Any, text: str, copies: int) -> Any:
    origin = get_origin(hint)
    if origin is Literal:
        return get_args(hint)[0]
    if origin is tuple:
        return tuple(_value(get_args(hint)[0], text, copies) for _ in range(copies))
    if origin in (Union, UnionType):
        return _value(next(each for each in get_args(hint) if each is not NoneType), text, copies)
    if dataclasses.is_dataclass(hint):
        return filled(hint, text, copies)  # pyright: ignore[reportArgumentType] - it is a class
    return {str: text, int: 1, float: 40.0, bool: True}[hint]
