"""Runs that do not succeed, and whose effects are taken back.

A book is reserved, which nobody has to approve; its buyer is charged, which somebody approves; and then it is not
shipped, for one of three reasons:

    denied      the approver says no; the pack says that effects are taken back
    expired     nobody answers in time; the pack says so too
    abandoned   it is approved and cannot be done, twice; a person gives the run up, and is asked whether to take its
                effects back

The charge and its way back recover in the way that the scene names, and so does the way back of the reservation. In a
scene that is named `broken` the way back of the charge happens and brings nonsense, so that it counts as failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tercet import (
    Absent,
    DecisionSpec,
    Gate,
    Happened,
    NotDone,
    Pack,
    Plan,
    Request,
    RunBudget,
    Tool,
    ToolContext,
)
from tercet.contracts.mode import ApprovalMode

from . import effects
from .acting import TIMEOUT_MS, Scene, act, crash_plan
from .effects import Effect
from .witness import NOT_NEEDED, witness

ENDINGS = {"denied": "rejected", "expired": "expired", "abandoned": "failed"}
"""How the session of each scene ends."""
ON_FAILURE = {"denied": "compensate", "expired": "compensate", "abandoned": "ask"}
GATE_TTL_MS = 400
"""How long the last gate waits, where nobody answers it."""
UNDONE = ("~s1", "~s2")
"""The steps that take others back."""


def value_of(step: str) -> dict[str, Any]:
    """What a step brings: the same at every attempt, so that an operator can say it too."""
    return {"receipt": f"receipt of {step}"}


def saga(ending: str, declaration: str) -> Scene:
    """The scene that ends so, with tools that recover so."""
    pack = Pack.model_validate(
        {
            "name": "saga",
            "version": "1.0.0",
            "safety_mode": "destructive",
            "on_failure": ON_FAILURE[ending],
            "budget": RunBudget(max_step_retries=1),
            "tools": tuple(_tools(ending, declaration)),
            "gates": (
                Gate(name="GATE_MONEY", roles=("finance_lead",)),
                Gate(
                    name="GATE_SHIPPING",
                    roles=("finance_lead",),
                    ttl_ms=GATE_TTL_MS if ending == "expired" else 86_400_000,
                ),
            ),
            "decisions": (DecisionSpec(id="book.sell"),),
        }
    )
    item = {"item": {"$from": "request#/item"}}
    steps = [
        {"id": "s1", "tool": "book.reserve", "params": item},
        {"id": "s2", "tool": "book.charge", "params": item, "depends_on": ["s1"], "gates": ["GATE_MONEY"]},
        {
            "id": "s3",
            "tool": "book.ship",
            "params": item,
            "depends_on": ["s2"],
            "gates": ["GATE_SHIPPING"],
        },
    ]
    return Scene(
        pack=pack,
        request=Request(intent="book.sell", input={"item": "book_1"}),
        plan=Plan.model_validate({"intent": "book.sell", "steps": steps}),
    )


def _tools(ending: str, declaration: str) -> list[Tool]:
    back: dict[str, Any] = {"mode": "local_write", "no_compensation": "it takes something back itself"}
    if declaration == "read_only":
        back = {"mode": "read_only"}
    is_broken = declaration == "broken"
    if is_broken:
        declaration = "idempotent"
    forth = "idempotent" if declaration == "read_only" else declaration
    nonsense: dict[str, Any] = {"result": {"type": "object", "required": ["nonsense"]}} if is_broken else {}
    return [
        _tool("book.reserve", "idempotent", compensate=_way_back("book.release"), mode="local_write"),
        _tool(
            "book.charge",
            forth,
            compensate=_way_back("book.repay"),
            reversibility="compensable",
            mode="destructive",
            gates=("GATE_MONEY",),
        ),
        _tool(
            "book.ship",
            "idempotent",
            is_failing=ending == "abandoned",
            no_compensation="it never happens",
            mode="destructive",
            gates=("GATE_SHIPPING",),
        ),
        _tool("book.release", declaration, **back),
        _tool("book.repay", declaration, **back, **nonsense),
    ]


def _way_back(name: str) -> dict[str, Any]:
    return {
        "tool": name,
        "params": {"item": {"$from": "params#/item"}, "receipt": {"$from": "self#/receipt"}},
    }


def _tool(name: str, declaration: str, *, mode: str, is_failing: bool = False, **declared: Any) -> Tool:
    """A tool that acts, and recovers as it declares."""
    do = effects.do_once if declaration == "idempotent" else effects.do
    fields = {
        "name": name,
        "call": _failing if is_failing else _acting(name, do, is_free=name == "book.reserve"),
        "mode": ApprovalMode(mode),
        "parameters": {"type": "object"},
        "idempotent": declaration == "idempotent",
        "reconcile": _look_up if declaration == "reconcile" else None,
        "reconciles": declaration == "reconcile",
        "timeout_ms": TIMEOUT_MS,
    }
    return Tool.model_validate({**fields, **declared})


def _acting(name: str, do: Callable[[Effect], None], *, is_free: bool) -> Callable[..., Any]:
    async def call(ctx: ToolContext, **params: Any) -> dict[str, Any]:
        warrant = NOT_NEEDED if is_free else await witness().look(ctx, params)
        await act(ctx, name, do, warrant)
        return value_of(ctx.step_id)

    return call


async def _failing(ctx: ToolContext, **params: Any) -> None:
    crash_plan()("before_effect")
    raise NotDone(f"{ctx.step_id} cannot ship {params['item']}: it is sold out")


def _look_up(ctx: ToolContext) -> Happened | Absent:
    return Happened(value_of(ctx.step_id)) if effects.has_happened(ctx.idempotency_key) else Absent()
