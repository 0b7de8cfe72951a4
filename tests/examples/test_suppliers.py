"""The purchasing desk: suppliers are looked up in lanes, and one order is placed behind a gate."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tercet.contracts.request import Actor, Request
from tercet.packs.checking import check_folder
from tercet.packs.pack import Pack
from tercet.runtime import Runtime

SUPPLIERS = Path(__file__).parents[2] / "examples" / "suppliers"
NAMES = ["Birch and Sons", "Calder Works", "Pinewood Trading"]


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An order book of its own for one test."""
    path = tmp_path / "suppliers.db"
    monkeypatch.setenv("TERCET_SUPPLIERS_DB", str(path))
    return path


def ask(item: str) -> Request:
    """A request for an item, to all suppliers."""
    return Request(intent="suppliers.buy", input={"item": item, "suppliers": NAMES})


def test_the_pack_has_no_problems() -> None:
    """Nothing is wrong with it, and nothing is to be said of it."""
    assert check_folder(SUPPLIERS) == ()


@pytest.mark.req("R265", "R266", "R268")
def test_three_lanes_ask_and_one_order_is_placed(orders: Path) -> None:
    """Each lane makes two of the parent's ten calls; the order is placed with the cheapest, once the buyer approves."""

    async def main() -> None:
        async with Runtime(Pack.load(SUPPLIERS), "memory:") as runtime:
            waiting = await runtime.run(ask("desk"), actor=Actor(id="agt_purchasing"))
            assert waiting.gate is not None
            assert waiting.gate.shown["params"] == {
                "item": "desk",
                "supplier": "Calder Works",
                "price_eur": 385,
            }
            rows = await runtime.sessions()
            assert sorted(row.intent for row in rows) == ["suppliers.buy", *["suppliers.research"] * 3]
            assert (await runtime.state(waiting.session_id)).used.tool_calls == 7
            await runtime.approve(waiting.gate.id, actor=Actor(id="user_buyer"))
            done = await runtime.resume(waiting.session_id)
            assert (done.status, done.outputs["supplier"]) == ("completed", "Calder Works")
            for row in rows:
                assert (await runtime.replay(row.session_id)).is_equal

    asyncio.run(main())
    with closing(sqlite3.connect(orders)) as book:
        assert book.execute("SELECT supplier, item, price_eur, status FROM orders").fetchall() == [
            ("Calder Works", "desk", 385, "placed")
        ]


def test_nothing_is_ordered_that_nobody_sells(orders: Path) -> None:
    """Every lane fails, the run fails, and there is nothing to take back."""

    async def main() -> None:
        async with Runtime(Pack.load(SUPPLIERS), "memory:") as runtime:
            result = await runtime.run(ask("lamp"), actor=Actor(id="agt_purchasing"))
            assert result.status == "failed"
            assert "no supplier sells it" in result.reason
            assert (await runtime.state(result.session_id)).undo == ()

    asyncio.run(main())
    assert not orders.exists()
