"""A week of runs of three example packs, for pictures and for checks of every page: refunds, letters and purchases."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from console.desk import ConsoleDesk
from service.desk import REFUNDS
from tercet.executor.clock import SystemClock
from tercet.packs.pack import Pack

DAY_MS = 86_400_000
PACKS = tuple(Pack.load(REFUNDS.parent / name) for name in ("refunds", "letters", "suppliers"))
SUPPLIERS = ["Birch and Sons", "Calder Works", "Pinewood Trading"]
OPERATOR = ("read", "run", "answer", "operate")


class MovableClock(SystemClock):
    """The time of the machine, moved by as much as a test says."""

    shift_ms = 0

    def now(self) -> int:
        """Return the wall time."""
        return super().now() + self.shift_ms


@dataclass(frozen=True, kw_only=True)
class ExampleRuns:
    """The sessions and gates that pages are made of."""

    refund_gate: str
    """Waits for a finance lead; the same payment was made three minutes ago."""
    large_gate: str
    """Waits for two people."""
    paid: str
    denied: str
    refused: str
    purchase: str
    """Waits for a buyer, after three lanes."""
    letter: str
    """Its text was repaired."""


async def start(desk: ConsoleDesk, intent: str, plan: str = "", **given: Any) -> tuple[str, list[str]]:
    """Start a run, and return its session and the gates that it waits at."""
    more = {"plan": json.loads((REFUNDS / "plans" / f"{plan}.json").read_bytes())} if plan else {}
    key = await desk.key("agt_support")
    pack = "refunds" if intent == "support.refund" else intent.partition(".")[0]
    found = await desk.rpc(key, "invokeAgent", request={"intent": intent, "input": given}, pack=pack, **more)
    assert "session" in found, found
    return found["session"]["session_id"], found["gates"]


async def answer(
    desk: ConsoleDesk, session: str, gate: str, method: str = "approveGate", note: str = ""
) -> None:
    """Let the finance lead answer a gate, and wait for the end of the run."""
    key = await desk.key("user_finance_lead", roles=("finance_lead",))
    await desk.rpc(key, method, gate_id=gate, note=note)
    await desk.until(key, session)


async def fill_desk(desk: ConsoleDesk, clock: MovableClock, days: int = 6) -> ExampleRuns:
    """Run what a small shop runs in a week, and leave some of it waiting."""
    refund = {"order_id": "ord_881", "window_id": "rw_881"}
    denied = refused = letter = ""
    for day in range(-days, 1):
        clock.shift_ms = day * DAY_MS - 3 * 3_600_000
        refused, _ = await start(
            desk, "support.refund", "plan_hijacked" if day % 2 else "plan_a", order_id="ord_881"
        )
        for _ in range(1 + day % 3):
            denied, gates = await start(desk, "support.refund", **refund)
            await answer(desk, denied, gates[0], "denyGate", "The carrier pays for this one.")
            await start(desk, "letters.confirm", order_id="ord_4471")
    letter, _ = await start(
        desk, "letters.write", order_id="ord_4471", faults=["total", "claim", "key", "section"]
    )
    clock.shift_ms = -55 * 60_000
    paid, gates = await start(desk, "support.refund", **refund)
    clock.shift_ms = -40 * 60_000
    _, large = await start(desk, "support.refund", order_id="ord_882", window_id="rw_882")
    clock.shift_ms = -25 * 60_000
    purchase, _ = await start(desk, "suppliers.buy", item="desk", suppliers=SUPPLIERS)
    clock.shift_ms = -12 * 60_000
    _, waiting = await start(desk, "support.refund", **refund)
    clock.shift_ms = -3 * 60_000
    await answer(desk, paid, gates[0], note="Photo of the cracked base seen.")
    clock.shift_ms = 0
    return ExampleRuns(
        refund_gate=waiting[0], large_gate=large[0], paid=paid, denied=denied, refused=refused,
        purchase=purchase, letter=letter,
    )  # fmt: skip
