"""A run with everything in it: a read, a call that fails before it works, and one that waits for a person."""

from __future__ import annotations

from typing import Any

from engine.workshop import Workshop, plan, step
from tercet.contracts.errors import NotDone
from tercet.contracts.plan import Plan
from tercet.packs.pack import Pack
from tercet.tools import ToolContext

GATE = {"name": "GATE_BOSS", "roles": ["boss"]}
PLAN: Plan = plan(
    step("look", "shop.look"),
    step("knead", "shop.knead", depends_on=["look"]),
    step("pay", "shop.pay", depends_on=["knead"], params={"to": "acct_secret_41", "cents": 9_900}),
)


def pack_of(workshop: Workshop, *, fails: int = 1, **header: Any) -> Pack:
    """The pack of such a run; `shop.knead` does not work so often before it does."""

    async def knead(context: ToolContext, params: dict[str, Any]) -> Any:
        if context.attempt <= fails:
            raise NotDone("the oven of acct_secret_41 is cold", code="cold")
        return params

    workshop.tool("shop.look", mode="read_only", cost_microcents=7)
    workshop.tool("shop.knead", knead, idempotent=True, no_compensation="eat it", cost_microcents=5)
    workshop.tool(
        "shop.pay",
        mode="destructive",
        gates=["GATE_BOSS"],
        authority=(),
        no_compensation="by hand",
        cost_microcents=11,
    )
    return workshop.pack(gates=(GATE,), **header)
