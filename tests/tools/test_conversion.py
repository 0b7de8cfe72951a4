"""A function gets what its annotations ask for, made of the JSON that a plan holds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from mcp_servers.raw import context
from tercet.core.answers import Done, Ended, NotHappened
from tercet.executor.clock import SystemClock
from tercet.executor.gateway import Gateway
from tercet.tools import Tool, ToolContext, tool


class Money(BaseModel):
    """An amount."""

    amount: int
    currency: str = "INR"


@dataclass
class Basket:
    """What somebody buys."""

    owner: str
    prices: list[Money] = field(default_factory=list[Money])


class Size(TypedDict, total=False):
    """How large something is."""

    width: int


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


def even(number: int) -> int:
    """Refuse odd numbers, which no schema here tells."""
    if number % 2:
        raise ValueError("it must be even")
    return number


def call(made: Tool, **params: Any) -> Ended:
    """Call a tool as the executor does."""
    return asyncio.run(Gateway(SystemClock()).call(made, params, context(), timeout_ms=10_000))


seen: list[Any] = []


@tool("shop.sell", mode="local_write")
async def sell(
    ctx: ToolContext,
    basket: Basket,
    size: Size,
    colour: Colour,
    when: datetime,
    price: Decimal,
    how: Annotated[Literal["slow", "fast"], Field(description="how it is sent")],
    days: Annotated[int, Field(ge=1, description="how long it may take")] = 3,
    gifts: dict[str, Money] | None = None,
    note: str | None = None,
) -> Basket:
    """Sells a basket."""
    seen.append((ctx.step_id, basket, size, colour, when, price, how, days, gifts, note))
    return basket


def test_every_kind_of_type_arrives_as_what_it_is() -> None:
    """Models, dataclasses, typed dictionaries, enums, times and decimals; what is left out has its default."""
    seen.clear()
    basket = {"owner": "ada", "prices": [{"amount": 7}]}
    ended = call(
        sell,
        basket=basket,
        size={"width": 2},
        colour="blue",
        when="2026-05-09T09:30:00Z",
        price="1.10",
        how="fast",
        gifts={"bob": {"amount": 1, "currency": "EUR"}},
    )
    assert isinstance(ended, Done)
    assert ended.value == {"owner": "ada", "prices": [{"amount": 7, "currency": "INR"}]}
    expected = Basket(owner="ada", prices=[Money(amount=7)])
    moment = datetime(2026, 5, 9, 9, 30, tzinfo=UTC)
    gifts = {"bob": Money(amount=1, currency="EUR")}
    assert seen == [
        ("s", expected, {"width": 2}, Colour.BLUE, moment, Decimal("1.10"), "fast", 3, gifts, None)
    ]


def test_the_schema_tells_descriptions_choices_defaults_and_what_is_required() -> None:
    """All that a planner needs to fill the parameters stands in the schema, and the context does not."""
    told = sell.parameters["properties"]
    assert told["how"] == {"description": "how it is sent", "enum": ["slow", "fast"], "type": "string"}
    assert told["days"] == {
        "default": 3,
        "description": "how long it may take",
        "minimum": 1,
        "type": "integer",
    }
    assert told["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert sell.parameters["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert sell.parameters["required"] == ["basket", "size", "colour", "when", "price", "how"]
    assert "ctx" not in told
    assert sell.description == "Sells a basket."
    assert (sell.result or {})["required"] == ["owner"]


def test_a_value_that_cannot_be_made_is_a_call_that_did_not_happen() -> None:
    """A rule that the schema does not tell is met before the function runs; trying again would not help."""
    ran: list[int] = []

    @tool("a.b", mode="destructive")
    def half(number: Annotated[int, AfterValidator(even)]) -> int:
        """Halves a number."""
        ran.append(number)
        return number // 2

    assert isinstance(call(half, number=4), Done)
    ended = call(half, number=3)
    assert isinstance(ended, NotHappened)
    assert (ended.code, ended.is_retriable) == ("argument_invalid", False)
    assert ended.error == "number: it must be even"
    assert ran == [4]


def test_a_default_that_only_the_annotation_has_is_given() -> None:
    """The schema says that the parameter may be left out, so it may."""

    @tool("a.b", mode="read_only")
    def echo(number: Annotated[int, Field(default=3)]) -> int:
        """Says it again."""
        return number

    assert "required" not in echo.parameters
    ended = call(echo)
    assert isinstance(ended, Done)
    assert ended.value == 3


def test_a_function_of_json_types_is_called_as_it_is() -> None:
    """Nothing stands between the executor and a function that wants what JSON has."""

    def plain(
        a: str,
        b: list[dict[str, int]],
        c: Annotated[int, Field(ge=1)],
        d: Literal["x", 1],
        e: Any,
        f: float | None = None,
    ) -> None: ...

    assert tool("a.b", mode="read_only")(plain).call is plain


@pytest.mark.parametrize("is_async", [True, False])
def test_a_callable_object_gets_its_context_and_its_types(is_async: bool) -> None:
    """An object that carries its own connections is annotated on its `__call__`."""

    class Shift:
        """Says on which day something is."""

        def __call__(self, ctx: ToolContext, day: date) -> str:
            return f"{ctx.step_id} {day:%A}"

    class Later:
        """Says on which day something is, in a while."""

        async def __call__(self, ctx: ToolContext, day: date) -> str:
            return f"{ctx.step_id} {day:%A}"

    ended = call(tool("a.b", mode="read_only")(Later() if is_async else Shift()), day="2026-05-09")
    assert isinstance(ended, Done)
    assert ended.value == "s Saturday"


def test_a_plain_callable_object_gets_its_context() -> None:
    """Also where no type has to be made."""

    class Who:
        """Says for whom it is called."""

        def __call__(self, ctx: ToolContext) -> str:
            return ctx.actor

    ended = call(tool("a.b", mode="read_only")(Who()))
    assert isinstance(ended, Done)
    assert ended.value == "ada"
