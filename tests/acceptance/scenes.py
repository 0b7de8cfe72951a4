"""What the campaigns run: the refund pack, a plan of twelve steps in parallel branches, and a run with lanes, for every
declaration.

A scene is named `pack:declaration`, `twelve:reconcile` for example. All tools of a scene recover in the way that it
names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tercet import Absent, DecisionSpec, Happened, NotDone, Pack, Plan, Request, Tool, ToolContext, tool
from tercet.contracts.plan_formats import load_plan

from . import effects, lanes, sagas
from .acting import TIMEOUT_MS, Scene, act
from .effects import Effect
from .letters import letter
from .witness import witness

REFUNDS = Path(__file__).parents[2] / "examples" / "refunds"
LARGE_PAD = 70_000


def scene(name: str) -> Scene:
    """The scene of this name."""
    pack, _, declaration = name.partition(":")
    if pack in sagas.ENDINGS:
        return sagas.saga(pack, declaration)
    if pack == "letter":
        return letter()
    if pack == "lanes":
        return lanes.lanes(declaration)
    return {"twelve": _twelve, "refunds": _refunds}[pack](declaration)


def value_of(step: str, after: list[str]) -> dict[str, str]:
    """What a step of the twelve brings: the same at every attempt, so that an operator can say it too."""
    mark = hashlib.sha256(json.dumps([step, after]).encode()).hexdigest()
    return {"mark": mark, "pad": "x" * (LARGE_PAD if step == "s09" else 4_000)}


# --- the tools ---


def _fenced(ctx: ToolContext) -> Callable[[Effect], None]:
    def do_fenced(effect: Effect) -> None:
        if not effects.do_fenced(effect, ctx.run_id):
            raise NotDone("another process has this run", code="fenced")

    return do_fenced


def _look_up(ctx: ToolContext) -> Happened | Absent:
    """What the key of a call brought, if it was a call of the twelve that happened."""
    happened = effects.has_happened(ctx.idempotency_key)
    return Happened(value_of(*_remembered(ctx))) if happened else Absent()


def _remembered(ctx: ToolContext) -> tuple[str, list[str]]:
    """The arguments of a step: a real service would have kept them beside the key."""
    after = [value_of(name, _after(name))["mark"] for name in AFTER[ctx.step_id]]
    return ctx.step_id, after


def _after(step: str) -> list[str]:
    return [value_of(name, _after(name))["mark"] for name in AFTER[step]]


async def read_step(ctx: ToolContext, step: str, after: list[str]) -> dict[str, str]:
    """Read something."""
    await act(ctx, "twelve.read_only", effects.do)
    return value_of(step, after)


async def idempotent_step(ctx: ToolContext, step: str, after: list[str]) -> dict[str, str]:
    """Do something that honours its key."""
    await act(ctx, "twelve.idempotent", effects.do_once)
    return value_of(step, after)


async def plain_step(ctx: ToolContext, step: str, after: list[str]) -> dict[str, str]:
    """Do something, once more at every call."""
    await act(ctx, "twelve.plain", effects.do)
    return value_of(step, after)


async def fenced_step(ctx: ToolContext, step: str, after: list[str]) -> dict[str, str]:
    """Do something, once more at every call, for the current owner of the run alone."""
    await act(ctx, "twelve.fenced", _fenced(ctx))
    return value_of(step, after)


def _step_tool(declaration: str) -> Tool:
    calls: dict[str, Callable[..., Any]] = {
        "read_only": read_step,
        "idempotent": idempotent_step,
        "reconcile": plain_step,
        "nothing": plain_step,
        "fenced": fenced_step,
    }
    return tool(
        "twelve.step",
        mode="read_only" if declaration == "read_only" else "local_write",
        idempotent=declaration == "idempotent",
        reconcile=_look_up if declaration == "reconcile" else None,
        no_compensation="" if declaration == "read_only" else "the campaign counts, and takes nothing back",
        timeout_ms=TIMEOUT_MS,
    )(calls[declaration])


# --- twelve steps ---

AFTER: dict[str, tuple[str, ...]] = {
    "s01": (),
    "s02": ("s01",), "s03": ("s01",), "s04": ("s01",), "s05": ("s01",),
    "s06": ("s02",), "s07": ("s03",), "s08": ("s04",), "s09": ("s05",),
    "s10": ("s06", "s07"), "s11": ("s08", "s09"),
    "s12": ("s10", "s11"),
}  # fmt: skip
"""Which steps each of the twelve waits for."""


def _twelve(declaration: str) -> Scene:
    steps = [
        {
            "id": step,
            "tool": "twelve.step",
            "params": {"step": step, "after": [{"$from": f"{name}#/mark"} for name in after]},
            "depends_on": list(after),
        }
        for step, after in AFTER.items()
    ]
    pack = Pack(
        name="twelve",
        version="1.0.0",
        tools=[_step_tool(declaration)],
        decisions=[DecisionSpec(id="twelve.steps", required_outputs=("mark",))],
    )
    plan = {"intent": "twelve.steps", "steps": steps, "outputs": {"mark": {"$from": "s12#/mark"}}}
    return Scene(pack=pack, request=Request(intent="twelve.steps"), plan=Plan.model_validate(plan))


# --- refunds ---


def _refunds(declaration: str) -> Scene:
    loaded = Pack.load(REFUNDS)
    tools = [_recovering(each, declaration) for each in loaded.tools]
    plan = json.loads((REFUNDS / "plans" / "plan_003_bound.json").read_text(encoding="utf-8"))
    return Scene(
        pack=loaded.model_copy(update={"tools": tuple(tools)}),
        request=Request(intent="support.refund", input={"order_id": "ord_881"}),
        plan=load_plan(plan),
    )


def _recovering(original: Tool, declaration: str) -> Tool:
    """A tool of the refund pack, counted, and recovering as the scene says."""
    update: dict[str, Any] = {"timeout_ms": TIMEOUT_MS}
    if original.name == "adp_payments.issue_refund":
        calls = {"idempotent": pay_once, "reconcile": pay, "nothing": pay, "fenced": pay_fenced}
        update |= {
            "call": calls[declaration],
            "idempotent": declaration == "idempotent",
            "reconcile": _find_payment if declaration == "reconcile" else None,
            "reconciles": declaration == "reconcile",
        }
    return original.model_copy(update=update)


def refund_of(payment_id: str, amount_inr: int) -> dict[str, Any]:
    """What paying brings."""
    return {
        "refund_id": "rf_campaign",
        "payment_id": payment_id,
        "refund_amount_inr": amount_inr,
        "refund_reason_class": "damaged_in_transit",
        "status": "issued",
    }


async def _pay(ctx: ToolContext, do: Callable[[Effect], None], payment_id: str, amount_inr: int) -> None:
    params = {"payment_id": payment_id, "amount_inr": amount_inr}
    await act(ctx, "refunds.pay", do, await witness().look(ctx, params))


async def pay_once(ctx: ToolContext, payment_id: str, amount_inr: int) -> dict[str, Any]:
    """Pay, once for each key."""
    await _pay(ctx, effects.do_once, payment_id, amount_inr)
    return refund_of(payment_id, amount_inr)


async def pay(ctx: ToolContext, payment_id: str, amount_inr: int) -> dict[str, Any]:
    """Pay, once more at every call."""
    await _pay(ctx, effects.do, payment_id, amount_inr)
    return refund_of(payment_id, amount_inr)


async def pay_fenced(ctx: ToolContext, payment_id: str, amount_inr: int) -> dict[str, Any]:
    """Pay, once more at every call, for the current owner of the run alone."""
    await _pay(ctx, _fenced(ctx), payment_id, amount_inr)
    return refund_of(payment_id, amount_inr)


PAID = ("pay_8861", 24_500)
"""The payment and the amount of the plan: a real service would have kept them beside the key."""


def _find_payment(ctx: ToolContext) -> dict[str, Any] | None:
    return refund_of(*PAID) if effects.has_happened(ctx.idempotency_key) else None


def truth_of(name: str, step: str) -> dict[str, Any]:
    """What an operator says that a step of a scene brought."""
    if name.partition(":")[0] in sagas.ENDINGS:
        return sagas.value_of(step)
    if name.startswith("lanes:"):
        return lanes.value_of(step)
    return refund_of(*PAID) if step in ("s1", "s2", "s3") else value_of(step, _after(step))
