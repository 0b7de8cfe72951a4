"""The catalogue of three invented suppliers, and the order book of the workshop in one small SQLite file."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tercet import NotDone, ToolContext, tool

PRICES = {
    "Birch and Sons": {"desk": 410, "stool": 65},
    "Calder Works": {"desk": 385, "stool": 80},
    "Pinewood Trading": {"desk": 460, "stool": 59},
}
RATINGS = {"Birch and Sons": 4.6, "Calder Works": 4.2, "Pinewood Trading": 3.9}


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a supplier asks for an item."""

    supplier: str
    item: str
    price_eur: int


@dataclass(frozen=True, kw_only=True)
class Reviews:
    """What the customers of a supplier say."""

    supplier: str
    rating: float


@dataclass(frozen=True, kw_only=True)
class Best:
    """The supplier with the lowest price."""

    supplier: str
    price_eur: int


@dataclass(frozen=True, kw_only=True)
class Order:
    """An order that was placed."""

    order_id: str
    supplier: str
    item: str
    price_eur: int


@tool("catalogue.find_offer", mode="read_only", trust="trusted")
def find_offer(supplier: str, item: str) -> Offer:
    """Find out what a supplier asks for an item."""
    price = PRICES.get(supplier, {}).get(item)
    if price is None:
        raise NotDone(f"{supplier} does not sell {item}", code="not_sold", is_retriable=False)
    return Offer(supplier=supplier, item=item, price_eur=price)


@tool("catalogue.find_reviews", mode="read_only", trust="trusted")
def find_reviews(supplier: str) -> Reviews:
    """Find out how the customers of a supplier rate it."""
    if supplier not in RATINGS:
        raise NotDone(f"there are no reviews of {supplier}", code="no_reviews", is_retriable=False)
    return Reviews(supplier=supplier, rating=RATINGS[supplier])


@tool("catalogue.compare", mode="read_only", trust="trusted")
def compare(offers: list[dict[str, Any]]) -> Best:
    """Return the supplier with the lowest price; one whose lane found no price has none."""
    priced = [offer for offer in offers if "price_eur" in offer]
    if not priced:
        raise NotDone("no supplier sells it", code="not_sold", is_retriable=False)
    best = min(priced, key=lambda offer: offer["price_eur"])
    return Best(supplier=best["supplier"], price_eur=best["price_eur"])


@tool(
    "orders.cancel",
    mode="network",
    idempotent=True,
    trust="trusted",
    gates=("GATE_BUYER",),
    no_compensation="an order that was cancelled can be placed again",
)
def cancel(order_id: str) -> dict[str, str]:
    """Cancel an order."""
    with closing(_book()) as book, book:
        book.execute("UPDATE orders SET status = 'cancelled' WHERE order_id = ?", (order_id,))
    return {"order_id": order_id, "status": "cancelled"}


@tool(
    "orders.place",
    mode="network",
    idempotent=True,
    trust="trusted",
    gates=("GATE_BUYER",),
    compensate={"tool": "orders.cancel", "params": {"order_id": {"$from": "self#/order_id"}}},
)
def place(context: ToolContext, supplier: str, item: str, price_eur: int) -> Order:
    """Order an item from a supplier, once for each key."""
    order_id = f"ord_{context.idempotency_key[-8:]}"
    with closing(_book()) as book, book:
        book.execute(
            "INSERT OR IGNORE INTO orders VALUES (?, ?, ?, ?, 'placed')",
            (order_id, supplier, item, price_eur),
        )
    return Order(order_id=order_id, supplier=supplier, item=item, price_eur=price_eur)


def _book() -> sqlite3.Connection:
    path = os.environ.get("TERCET_SUPPLIERS_DB") or str(Path(__file__).with_name("suppliers.db"))
    book = sqlite3.connect(path)
    book.execute(
        "CREATE TABLE IF NOT EXISTS orders "
        "(order_id TEXT PRIMARY KEY, supplier TEXT, item TEXT, price_eur INTEGER, status TEXT)"
    )
    return book
