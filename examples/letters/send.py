"""Writes a letter, lets an editor read it, and sends it to a relay on this machine. Needs aiosmtpd.

python examples/letters/send.py
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from sink import relay

from tercet import Actor, Pack, Request, Runtime

PACK = Path(__file__).resolve().parent


async def main() -> int:
    """Send one letter; exit 0 if it was taken."""
    sink, controller = relay(0)
    controller.start()
    os.environ["ALDER_FINCH_RELAY_PORT"] = str(controller.port)
    try:
        async with Runtime(Pack.load(PACK)) as runtime:
            asked = Request(intent="letters.send", input={"order_id": "ord_4471", "customer_id": "cus_17"})
            result = await runtime.run(asked, actor=Actor(id="user_desk"))
            if result.gate is not None:
                shown = result.gate.shown
                print(f"gate    {shown['tool']} to {shown['params']['to']}, {len(sink.letters)} letters sent")  # noqa: T201
                await runtime.approve(result.gate.id, actor=Actor(id="user_editor"))
                result = await runtime.resume(result.session_id)
            print(f"{result.status}: {len(sink.letters)} letter sent")  # noqa: T201 - an example shows what happens
            return 0 if result.status == "completed" and len(sink.letters) == 1 else 5
    finally:
        controller.stop()


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
