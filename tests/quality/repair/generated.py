"""Letters made from evidence, with some of four faults planted in them: what is true and what is not is known."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.repair import SectionTemplate
from tercet.contracts.shape import JsonObject

FAULTS = ("total", "claim", "key", "section")
NAMES = ("lamp", "shade", "desk", "shelf", "carpet")
TOTALS = (
    "The total is {} {}.",
    "The total of the order is {} {}.",
    "Altogether it comes to {} {}.",
    "In all, you pay {} {}.",
    "Total: {1} {0}",
)
COURTESY = (
    "Thank you for your order.",
    "You will find the details below.",
    "We hope that all is as you wish.",
    "Everything was packed with care.",
)
CLAIMS = (
    "Our warehouse won the Logistics Prize in 2024.",
    "A voucher of 25.75 EUR is enclosed.",
    "Your file number is ZX-4471.",
    "Ms. Abernathy will call you on 19 December 2031.",
    "More than 87,000 customers trust us.",
)
KEYS = ("sk_live_4f9a8b7c6d5e4f3a2b1c", "AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1B2c3D4e5F6" * 3)
RETURNS = SectionTemplate(
    heading="Returns",
    text="You may return what you do not like within {{order#/return_days}} days.",
    after="Invoice",
)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A letter, and what should become of it."""

    output: JsonObject
    evidence: Evidence
    faults: frozenset[str]
    kept: tuple[str, ...]
    """The sentences that must be there in the end."""
    gone: tuple[str, ...]
    """What must not be there in the end."""


@st.composite
def letters(draw: st.DrawFn) -> Planted:
    """A letter with a random part of the four faults."""
    order = draw(orders())
    faults = draw(st.frozensets(st.sampled_from(FAULTS)))
    right = sum(
        (Decimal(item["quantity"]) * Decimal(str(item["unit_price"])) for item in order["items"]), Decimal(0)
    )
    wrong = draw(_wrong_totals(right, order))
    said = draw(st.sampled_from(TOTALS))
    style = ",.2f" if wrong >= 1_000 else ".2f"
    true_total, false_total = (said.format(format(each, style), order["currency"]) for each in (right, wrong))
    claim, key = draw(st.sampled_from(CLAIMS)), draw(st.sampled_from(KEYS))
    first = [*draw(st.permutations([*draw(st.lists(st.sampled_from(COURTESY), unique=True)), *facts(order)]))]
    opening = [*first]
    if "claim" in faults:
        opening.insert(draw(st.integers(0, len(opening))), claim)
    last = [
        "Write to us at any time.",
        *([f"Our clerk signs in with {key} for that."] if "key" in faults else []),
    ]
    returns = f"You may return what you do not like within {order['return_days']} days."
    lines = [
        f"- {item['quantity']} of the {item['name']} at {item['unit_price']:.2f} each"
        for item in order["items"]
    ]
    parts = [
        "# Your order",
        f"Dear {order['customer']},",
        " ".join(opening),
        "## Invoice",
        "\n".join(lines),
        false_total if "total" in faults else true_total,
        *([] if "section" in faults else ["## Returns", returns]),
        "## Questions",
        " ".join(last),
    ]
    return Planted(
        output={"letter": "\n\n".join(parts) + "\n", "language": "en"},
        evidence=Evidence(
            id=f"kg:order:{order['order_id']}#snapshot_s1",
            content=order,
            trust=Trust.TRUSTED,
            source="orders",
        ),
        faults=faults,
        kept=(*first, *lines, true_total, returns, "## Returns", last[0]),
        gone=(*([false_total] if "total" in faults else []), *([claim] if "claim" in faults else []), key),
    )


def _wrong_totals(right: Decimal, order: dict[str, Any]) -> st.SearchStrategy[Decimal]:
    """Another number: any, one that is nearly right, or a price of the order that was taken for the total."""
    any_other = st.integers(1, 9_000_000).map(lambda cents: Decimal(cents) / 100)
    nearly = st.integers(-99, 99).map(lambda cents: right + Decimal(cents) / 100)
    prices = st.sampled_from([Decimal(str(item["unit_price"])) for item in order["items"]])
    return st.one_of(any_other, nearly, prices, st.just(right * 10)).filter(lambda found: 0 < found != right)


@st.composite
def orders(draw: st.DrawFn) -> dict[str, Any]:
    """An order with one to four kinds of items."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    cents = st.integers(100, 99_999)
    return {
        "order_id": f"ord_{draw(st.integers(100, 999))}",
        "customer": draw(st.sampled_from(("Ms. Okafor", "Mr. Lindqvist", "Dr. Rao"))),
        "shipped_on": f"2026-{draw(st.integers(1, 12)):02}-{draw(st.integers(1, 28)):02}",
        "city": draw(st.sampled_from(("Lagos", "Uppsala", "Pune"))),
        "currency": draw(st.sampled_from(("EUR", "USD", "INR"))),
        "return_days": draw(st.sampled_from((14, 30, 60))),
        "items": [
            {"name": name, "quantity": draw(st.integers(1, 9)), "unit_price": draw(cents) / 100}
            for name in names
        ],
    }


def facts(order: dict[str, Any]) -> list[str]:
    """What a letter may truly say about an order."""
    first = order["items"][0]
    return [
        f"Your order {order['order_id']} was shipped on {order['shipped_on']}.",
        f"It goes to {order['city']}.",
        f"The {first['name']} costs {first['unit_price']:.2f} {order['currency']}.",
    ]
