"""The work that every candidate of the benchmark does: runs of no-op steps, each of them a durable local write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from tercet import DecisionSpec, Pack, Plan, Request, RunBudget, Tool

STEPS = 12
INTENT = "bench.write"
TOOL = "bench.write"

Run: TypeAlias = Callable[[], Awaitable[None]]
"""Makes one run and returns when it is over and durable."""
Facts: TypeAlias = dict[str, Any]
"""What was read back from a store: its settings, and how many rows its tables have."""

effects: int = 0
"""How often a step's function was called in this process; every candidate counts here."""


def touch() -> None:
    """The whole effect of a step."""
    global effects  # noqa: PLW0603 - the one count that all candidates share
    effects += 1


def pack_of(*, steps: int = STEPS, result: Any = None) -> Pack:
    """A pack with one idempotent local write, which answers `result`, and a budget of so many steps."""

    async def write(n: int) -> Any:
        del n
        touch()
        return result

    return Pack(
        name="bench",
        version="1.0.0",
        budget=RunBudget(max_steps=steps),
        tools=[
            Tool(
                name=TOOL,
                call=write,
                parameters={
                    "type": "object",
                    "properties": {"n": {"type": "integer"}},
                    "required": ["n"],
                    "additionalProperties": False,
                },
                mode="local_write",  # pyright: ignore[reportArgumentType] - parsed as every border parses it
                idempotent=True,
                no_compensation="a counter in memory: nothing is left to take back",
            )
        ],
        decisions=[DecisionSpec(id=INTENT)],
    )


def plan_of(steps: int = STEPS, *, first: int = 0, is_parallel: bool = False) -> Plan:
    """So many writes one after the other or all at once, each with an identity of its own, counted from `first`."""
    return Plan.model_validate(
        {
            "intent": INTENT,
            "steps": [
                {
                    "id": f"s{n}",
                    "tool": TOOL,
                    "params": {"n": first + n},
                    "depends_on": [f"s{n - 1}"] if n and not is_parallel else [],
                }
                for n in range(steps)
            ],
        }
    )


def request(number: int | None = None) -> Request:
    """What a caller asks for; with a number, another input than with any other."""
    return Request(intent=INTENT, input={} if number is None else {"order": f"order {number}"})
