"""The writer at the correspondence desk of Alder & Finch, an invented lamp shop.

No model is asked: a plain function stands for a careless writer. It knows the order well, and makes the slips that the
request tells it to make, so that everybody can see what becomes of each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

from pydantic import BaseModel

from tercet import tool

KEY = "sk_live_" + "0nly4sh0w1nvented99"
"""A key as they look; it opens nothing."""


class Fault(StrEnum):
    """A slip of the writer."""

    TOTAL = "total"
    """The total is not that of the items."""
    CLAIM = "claim"
    """Something nice is said that is nowhere in the evidence: no rule knows how to repair that."""
    KEY = "key"
    """A key is given away."""
    SECTION = "section"
    """Nothing is said about returns."""
    LANGUAGE = "language"
    """The language has another name than was asked for."""
    DATE = "date"
    """The day of delivery is another one than the order book has."""


class Item(BaseModel):
    """A line of an order."""

    name: str
    quantity: int
    unit_price: float


class Order(BaseModel):
    """An order, as the order book has it."""

    order_id: str
    customer: str
    currency: str
    items: list[Item]
    shipped_on: date
    delivered_on: date


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A letter before anybody has read it."""

    letter: str
    language: str


@tool("letters.draft", mode="read_only", untrusted=["/letter"], estimated_ms=5)
def draft(order: Order, return_days: int, faults: list[Fault]) -> Draft:
    """Write a letter about an order, with the slips that are named."""
    sections = [
        f"# Your order {order.order_id}",
        f"Dear {order.customer},",
        _story(order, faults),
        f"## Invoice\n\n{_items(order)}",
        _total(order, faults),
    ]
    if Fault.SECTION not in faults:
        sections.append(f"## Returns\n\nYou may return what you do not like within {return_days} days.")
    sections.append(f"## Questions\n\n{_questions(faults)}")
    language = "EN" if Fault.LANGUAGE in faults else "en"
    return Draft(letter="\n\n".join(sections) + "\n", language=language)


def _story(order: Order, faults: list[Fault]) -> str:
    delivered = order.delivered_on
    if Fault.DATE in faults:
        delivered += timedelta(days=1)
    sentences = [
        f"your order was shipped on {_day(order.shipped_on)}. It was delivered on {_day(delivered)}."
    ]
    if Fault.CLAIM in faults:
        sentences.append("Our lamps won the Aurora Design Award in 2025.")
    return " ".join([*sentences, "You will find the invoice below."])


def _items(order: Order) -> str:
    return "\n".join(
        f"- {item.name}, {item.quantity} at {item.unit_price:.2f} {order.currency}: "
        f"{item.quantity * item.unit_price:.2f} {order.currency}"
        for item in order.items
    )


def _total(order: Order, faults: list[Fault]) -> str:
    total = sum(item.quantity * item.unit_price for item in order.items)
    said = total + 1_000 if Fault.TOTAL in faults else total
    return f"The total is {said:,.2f} {order.currency}."


def _questions(faults: list[Fault]) -> str:
    sentences = ["Write to us at any time."]
    if Fault.KEY in faults:
        sentences.append(f"Our agents look your order up with {KEY}.")
    return " ".join(sentences)


def _day(day: date) -> str:
    return f"{day.day} {day:%B %Y}"
