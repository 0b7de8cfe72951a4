"""A pack whose tool waits until the test lets it go on, for pages that change while a run advances."""

from __future__ import annotations

import asyncio
from typing import Any

from tercet.contracts.decision import DecisionSpec
from tercet.packs.pack import Pack
from tercet.tools import Tool, ToolContext


class HeldShop:
    """A pack with one tool; each of its calls waits for `let_go`, and returns the texts that a test gives it."""

    def __init__(self, says: str = "done", version: str = "1.0.0", **pack: Any) -> None:
        self.says = says
        self._may_go = asyncio.Semaphore(0)
        tool = Tool.model_validate({"name": "shop.work", "mode": "local_write", "call": self._work})
        spec = DecisionSpec.model_validate({"id": "work", "risk_tier": "low", "repeatable": ["shop.work"]})
        self.pack = Pack.model_validate(
            {
                "name": "shop",
                "version": version,
                "tools": (tool,),
                "decisions": (spec,),
                "budget": {"tool_calls": 10},
                **pack,
            }
        )

    async def _work(self, context: ToolContext, **_: Any) -> dict[str, str]:
        await self._may_go.acquire()
        return {"step": context.step_id, "said": self.says, "password": "hunter2-hunter2"}

    def let_go(self, calls: int = 1) -> None:
        """Let so many calls end."""
        for _ in range(calls):
            self._may_go.release()


def chain(*names: str, intent: str = "work") -> dict[str, Any]:
    """Return the parameters of a run whose steps follow one another."""
    steps = [
        {
            "id": name,
            "tool": "shop.work",
            "params": {"n": number},
            "depends_on": [names[number - 1]] if number else [],
        }
        for number, name in enumerate(names)
    ]
    return {"request": {"intent": intent}, "plan": {"steps": steps}, "mode": "stream"}
