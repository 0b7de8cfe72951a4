"""What the tools of all scenes have in common: how they act, where they die, and how they recover.

With `TERCET_HANG=step` the first attempt at a step has its effect and then outlives its time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, TypeAlias, TypeVar, get_args

from tercet import Pack, Plan, Request, ToolContext
from tercet.testing.crash_points import CrashPlan

from .effects import Effect
from .witness import NOT_NEEDED

TIMEOUT_MS = 700
HANG = "TERCET_HANG"

Declaration: TypeAlias = Literal["read_only", "idempotent", "reconcile", "nothing", "fenced"]
DECLARATIONS: tuple[Declaration, ...] = get_args(Declaration)[:4]
"""The four ways to recover. `fenced` declares nothing, and checks the fencing token: for the tests with zombies."""


IN_A_LANE = "lane."
"""How the intents of lanes begin."""


class Row(Protocol):
    """A session in a list."""

    @property
    def intent(self) -> str:
        """What it was asked."""
        ...


R = TypeVar("R", bound=Row)


def run_of(rows: Sequence[R]) -> R | None:
    """The session of a trial among those of its tenant, which may be its lanes; None before it has begun."""
    runs = [row for row in rows if not row.intent.startswith(IN_A_LANE)]
    assert len(runs) <= 1
    return runs[0] if runs else None


@cache
def crash_plan() -> CrashPlan:
    """The plan of this process: the runtime and the tools pass the same points."""
    return CrashPlan.read()


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A pack, what is asked of it, and the plan that answers."""

    pack: Pack
    request: Request
    plan: Plan


async def act(ctx: ToolContext, name: str, do: Callable[[Effect], None], warrant: str = NOT_NEEDED) -> None:
    """Let an effect happen, dying before it, after it, or not at all."""
    effect = Effect(
        ctx.idempotency_key, ctx.step_id, name, os.getpid(), ctx.attempt, ctx.fencing_token, warrant
    )
    crash_plan()("before_effect")
    do(effect)
    crash_plan()("after_effect")
    if os.environ.get(HANG) == ctx.step_id and ctx.attempt == 1:
        await asyncio.sleep(TIMEOUT_MS * 3 / 1000)
