"""What tools reach outside of the process: a line for each runtime, closed with it, and looked at before anything runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tercet.contracts.errors import NotDone, NotSent
from tercet.runtime import Runtime, RuntimeOptions
from tercet.tools import Tool, ToolContext
from tercet.tools.tool import Line

from .workshop import ASK, Workshop, plan, step


@dataclass
class Booth:
    """A telephone booth: something outside that keeps a list of what happens on each of its lines."""

    heard: list[str] = field(default_factory=list[str])
    changes: tuple[str, ...] = ()
    lines: int = 0

    def open(self) -> Line:
        self.lines += 1
        return BoothLine(self, self.lines)


@dataclass
class BoothLine:
    booth: Booth
    number: int

    def call_of(self, tool: Tool) -> Callable[..., Any]:
        async def call(ctx: ToolContext, **params: Any) -> Any:
            self.booth.heard.append(f"{self.number} {tool.name} {ctx.step_id}")
            return params

        return call

    async def find_changes(self) -> tuple[str, ...]:
        self.booth.heard.append(f"{self.number} looked")
        return self.booth.changes

    async def aclose(self) -> None:
        self.booth.heard.append(f"{self.number} closed")


async def unbound(**_: Any) -> Any:
    """What a tool that reaches outside does without a runtime."""
    raise NotDone("there is no line")


PLAN = plan(step("a", "booth.ring"), step("b", "shop.echo", depends_on=["a"]))


def _furnish(shop: Workshop, booth: Booth) -> None:
    shop.tool("shop.echo")
    for name in ("booth.ring", "booth.listen"):
        declared = {"name": name, "mode": "local_write", "call": unbound, "outside": booth}
        shop.tools.append(Tool.model_validate(declared | {"no_compensation": "a call was made"}))


def test_each_runtime_has_one_line_of_its_own_and_closes_it(workshop: Workshop) -> None:
    """Two tools of one thing outside share a line, two runtimes do not, and each closes its own at its end."""
    booth = Booth()
    _furnish(workshop, booth)
    pack = workshop.pack()

    async def main(number: int) -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=PLAN)
        assert result.status == "completed"
        assert booth.heard == [f"{number} looked", f"{number} booth.ring a", f"{number} closed"]
        booth.heard.clear()

    workshop.run(main(1))
    workshop.run(main(2))


async def test_a_change_outside_refuses_the_plan_before_anything_is_called(workshop: Workshop) -> None:
    """A plan is refused whole, also its steps that stay inside, if what it reaches is not what was accepted."""
    booth = Booth(changes=("the booth was painted: red → blue",))
    _furnish(workshop, booth)

    async with workshop.runtime(workshop.pack()) as runtime:
        result = await runtime.run(ASK, plan=PLAN)
    assert result.status == "failed"
    assert result.verdict["code"] == "tool_definition_changed"
    assert result.verdict["reasons"] == ["the booth was painted: red → blue"]
    assert workshop.calls == []
    assert booth.heard == ["1 looked", "1 closed"]


async def test_a_rehearsal_and_a_plan_that_stays_inside_do_not_look_outside(workshop: Workshop) -> None:
    """Only a plan that is to be carried out and reaches outside is worth opening a line for."""
    booth = Booth()
    _furnish(workshop, booth)

    async with workshop.runtime(workshop.pack()) as runtime:
        await runtime.run(ASK, plan=PLAN, shadow=True)
        await runtime.run(ASK, plan=plan(step("b", "shop.echo")))
    assert booth.heard == ["1 closed"]


@pytest.mark.parametrize("is_plain", [True, False])
def test_whoever_listens_to_signals_hears_how_far_a_call_is(workshop: Workshop, is_plain: bool) -> None:
    """From the loop and from the thread of a plain function; where nobody listens, it is told to nobody."""
    heard: list[dict[str, Any]] = []

    def signal(name: str, told: dict[str, Any]) -> None:
        if name == "tool_progress":
            heard.append(told)

    def plain(ctx: ToolContext, n: str) -> str:
        ctx.progress(1, 2, "half")
        return n

    async def later(ctx: ToolContext, n: str) -> str:
        return plain(ctx, n)

    declared = {"name": "do.it", "mode": "read_only", "call": plain if is_plain else later}
    workshop.tools.append(Tool.model_validate(declared))

    async def main(**more: Any) -> None:
        async with Runtime(workshop.pack(), options=RuntimeOptions(**more)) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")))
        assert result.status == "completed"

    asyncio.run(main())
    assert heard == []
    asyncio.run(main(signal=signal))
    [told] = heard
    assert (told["action"], told["done"], told["total"], told["message"]) == ("a", 1, 2, "half")


@pytest.mark.parametrize(("error", "status"), [(NotSent, "awaiting_gate"), (NotDone, "paused")])
async def test_a_call_that_was_not_sent_says_nothing_of_the_one_before(
    workshop: Workshop, error: type[NotDone], status: str
) -> None:
    """After a call of unknown outcome, `NotDone` settles that nothing happened, and `NotSent` leaves it to a person."""

    async def lose(ctx: ToolContext, _: dict[str, Any]) -> Any:
        if ctx.attempt == 1:
            raise ConnectionError("the line broke")
        raise error("nobody there", is_retriable=False)

    workshop.tool("do.it", lose, idempotent=True)

    async with workshop.runtime(workshop.pack()) as runtime:
        result = await runtime.run(ASK, plan=plan(step("a")))
        assert result.status == status
        assert result.gate is not None
        assert result.gate.kind == ("reconcile" if error is NotSent else "escalation")


async def test_a_tool_may_say_that_trying_again_is_useless(workshop: Workshop) -> None:
    """`NotDone` that is not retriable is called once, whatever the retry budget."""

    async def refuse(_: ToolContext, __: dict[str, Any]) -> Any:
        raise NotDone("the office is closed for good", is_retriable=False)

    workshop.tool("do.it", refuse)

    async with workshop.runtime(workshop.pack()) as runtime:
        await runtime.run(ASK, plan=plan(step("a")))
    assert workshop.calls == [("a", 1)]
