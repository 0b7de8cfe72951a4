"""The grounding check, piece by piece: what it finds in a text, what it names as its reason, what it never does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.quality import Entailment, Judgement
from tercet.quality.grounding.check import GroundingCheck
from tercet.quality.grounding.dates import find_dates, find_times
from tercet.quality.grounding.names import find_identifiers, find_names
from tercet.quality.grounding.quantities import find_quantities, parse_figure
from tercet.quality.grounding.statements import read, sentences, state

RECORD = {
    "order_id": "ord_881",
    "ordered_on": "2026-05-01",
    "delivered_on": "2026-05-05",
    "buyer": "Anna Holm",
    "seller": "Bob Reiss",
    "lines": [{"item": "lamp", "quantity": 2}, {"item": "bulb", "quantity": 6}],
    "paid": True,
    "refunded": False,
}


def judge(claim: str, *contents: Any) -> Judgement:
    """What the check says about a claim, by evidence of these contents."""
    facts = [
        Evidence(id=f"kg:order:{number}#snapshot_s", content=content, trust=Trust.TRUSTED)
        for number, content in enumerate(contents)
    ]
    return GroundingCheck(facts).judge(claim)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1204331", 1204331), ("1,204,331", 1204331), ("1.299,00", 1299), ("1,299.00", 1299), ("1'200", 1200), ("0.45", 0.45),
     ("12,5", 12.5), ("1 204 331", 1204331)],
)  # fmt: skip
def test_figures_with_separators(text: str, value: float) -> None:
    """Thousands and decimals are told apart by what follows them."""
    assert parse_figure(text) == value


@pytest.mark.parametrize(
    ("text", "value", "measure"),
    [("2.5 kg", 2500, "mass"), ("120 cm", 1.2, "length"), ("two weeks", 1_209_600, "time"), ("€49.90", 49.9, "EUR"),
     ("CHF 1'200", 1200, "CHF"), ("$1.2 billion", 1.2e9, "USD"), ("12 percent", 0.12, "share"), ("a third of", 1 / 3, "share"),
     ("20 of the 40", 0.5, "share"), ("-12.40 USD", -12.4, "USD"), ("twenty-one", 21, ""), ("99 cents", 0.99, "cents")],
)  # fmt: skip
def test_quantities(text: str, value: float, measure: str) -> None:
    """A number is read with its unit, currency, scale, sign and words."""
    found = [quantity for quantity in find_quantities(text) if quantity.measure == measure]
    assert [round(quantity.value, 9) for quantity in found[:1]] == [round(value, 9)]


@pytest.mark.parametrize(
    ("text", "date"),
    [("2026-05-09", (2026, 5, 9)), ("9 May 2026", (2026, 5, 9)), ("May 9th, 2026", (2026, 5, 9)), ("31.12.2027", (2027, 12, 31)),
     ("April 2021", (2021, 4, None)), ("30 June", (None, 6, 30))],
)  # fmt: skip
def test_dates(text: str, date: tuple[int | None, ...]) -> None:
    """A date is read as far as it is given."""
    assert [(found.year, found.month, found.day) for found in find_dates(text)] == [date]


def test_times_of_day() -> None:
    """Twelve and twenty-four hours are one clock."""
    assert [time.minutes for time in find_times("from 9 am to 8:30 pm, or 14:05")] == [540, 1230, 845]


def test_identifiers_and_names() -> None:
    """What is equal to the letter or another thing is found as such; titles belong to no name."""
    text = "Order ord_881 (RF-2026-0042) of Dr. Priya Natarajan, help@example.org, v2.4.0, 10.0.4.17"
    assert [found.key for found in find_identifiers(text)] == [
        "ord_881", "rf-2026-0042", "help@example.org", "v2.4.0", "10.0.4.17",
    ]  # fmt: skip
    assert ("priya", "natarajan") in [name.words for name in find_names(text)]


@pytest.mark.parametrize(
    ("claim", "label", "place"),
    [
        ("The order was delivered on 5 May 2026.", "ENTAIL", "/delivered_on"),
        ("The order was delivered on 1 May 2026.", "CONTRADICT", "/delivered_on"),
        ("The seller is Bob Reiss.", "ENTAIL", "/seller"),
        ("The buyer is Bob Reiss.", "CONTRADICT", "/buyer"),
        ("The order ord_881 was refunded.", "CONTRADICT", "/refunded"),
        ("The order was paid.", "ENTAIL", "/paid"),
        ("There are 6 lamps on the order.", "CONTRADICT", "/lines/0/quantity"),
        ("The order was wrapped in paper.", "NEUTRAL", None),
    ],
)
def test_what_decided_is_named(claim: str, label: str, place: str | None) -> None:
    """A judgement says which member of which fact it rests on; no value stands in for that of another member."""
    said = judge(claim, RECORD)
    assert said.label == label
    assert [support.pointer for support in said.support[:1]] == ([place] if place else [])
    assert all(support.evidence == "kg:order:0#snapshot_s" for support in said.support)
    assert said.reason


def test_what_is_nowhere_in_the_evidence_is_named() -> None:
    """A neutral claim says which of its numbers, dates, names and identifiers have no source."""
    said = judge("As a thank-you Ms. Okafor sends a voucher of EUR 25 with the code GIFT-77.", RECORD)
    assert said.label is Entailment.NEUTRAL
    assert set(said.missing) == {"EUR 25", "Okafor", "GIFT-77"}
    assert not judge("The order was wrapped in paper.", RECORD).missing


@pytest.mark.parametrize(
    ("claim", "evidence", "label"),
    [
        ("About 1.2 million volumes are held.", "1,204,331 volumes are held.", "ENTAIL"),
        ("1.2 million volumes are held.", "1,204,331 volumes are held.", "ENTAIL"),
        ("1.3 million volumes are held.", "1,204,331 volumes are held.", "CONTRADICT"),
        ("1,200,000 volumes are held.", "1,204,331 volumes are held.", "CONTRADICT"),
        ("About 1,250,000 volumes are held.", "1,204,331 volumes are held.", "ENTAIL"),
        ("About 1,300,000 volumes are held.", "1,204,331 volumes are held.", "CONTRADICT"),
    ],
)
def test_rounding(claim: str, evidence: str, label: str) -> None:
    """A number may be rounded to the places that it shows, or be off by a twentieth where it says `about`."""
    assert judge(claim, evidence).label == label


@pytest.mark.parametrize(
    ("claim", "label"),
    [
        ("Orders above 500 EUR need the approval of a manager.", "ENTAIL"),
        ("Orders above 300 EUR need the approval of a manager.", "NEUTRAL"),
        ("Orders of 620 EUR need the approval of a manager.", "NEUTRAL"),
        ("Orders of 400 EUR need the approval of a manager.", "CONTRADICT"),
    ],
)
def test_a_bound_settles_what_lies_outside_of_it(claim: str, label: str) -> None:
    """What a bound allows is left open, since the check does not apply rules; what it excludes is contradicted."""
    assert judge(claim, "Orders above 500 EUR need the approval of a manager.").label == label


def test_another_record_may_be_meant() -> None:
    """A claim that does not say which record it is about is not contradicted by one as long as another one fits."""
    orders = [{"items": [{"item": "lamp", "quantity": number}]} for number in (1, 4)]
    assert judge("It contained 4 lamps.", *orders).label is not Entailment.CONTRADICT
    assert judge("It contained 7 lamps.", *orders).label is Entailment.CONTRADICT
    bulbs = {"items": [{"item": "bulb", "quantity": 2}]}
    assert judge("It contained 4 lamps and 2 bulbs.", *orders, bulbs).label is Entailment.NEUTRAL


def test_a_sentence_ends_where_it_ends() -> None:
    """Titles, initials and decimals end no sentence; lines do."""
    text = "Dr. Rao paid 3.5 EUR. J. Smith did not!\nNext line"
    assert [text[start:end] for start, end in sentences(text)] == [
        "Dr. Rao paid 3.5 EUR.", "J. Smith did not!", "Next line",
    ]  # fmt: skip


def test_tables_are_read_by_row() -> None:
    """A row of a table is an object: its cells belong together, and to no other row."""
    for table in ("| sku | stock |\n|---|---|\n| S-1 | 4 |\n| S-2 | 9 |", "sku,stock\nS-1,4\nS-2,9"):
        assert judge("The stock of S-1 is 4.", table).label is Entailment.ENTAIL
        assert judge("The stock of S-1 is 9.", table).label is Entailment.CONTRADICT


INVOICE = {
    "currency": "EUR",
    "lines": [
        {"item": "lamp", "price": 40, "quantity": 2},
        {"item": "shade", "price": 3, "quantity": 6},
    ],
    "paid": 50,
    "weight_kg": 7,
}
UNNAMED = {"item": "lamp", "price": 40, "quantity": 2}
SALE = {"price": 200, "deposit": 140, "currency": "EUR"}
ACCOUNT = {
    "total": 200,
    "currency": "EUR",
    "discount_percent": 10,
    "tests": 60,
    "passed": 45,
}


@pytest.mark.parametrize(
    ("claim", "content", "label", "reason"),
    [
        ("The total is 98 EUR.", INVOICE, "ENTAIL", "computed from /lines"),
        ("The total is 99 EUR.", INVOICE, "CONTRADICT", "'99 EUR' is a wrong total"),
        ("The total is 40 EUR.", INVOICE, "CONTRADICT", "'40 EUR' is a wrong total"),
        ("Altogether it comes to 99 EUR.", INVOICE, "CONTRADICT", "'99 EUR' is a wrong total"),
        ("The total is about 100 EUR.", INVOICE, "ENTAIL", "computed from /lines"),
        ("The lamps come to 80 EUR.", INVOICE, "ENTAIL", "computed from /lines/0"),
        (
            "The two lamps cost 80 EUR.",
            INVOICE,
            "ENTAIL",
            "computed from /lines/0/quantity and /lines/0/price",
        ),
        ("The two lamps cost 80 EUR.", UNNAMED, "ENTAIL", "computed from /quantity and /price"),
        (
            "The two lamps cost 82 EUR.",
            UNNAMED,
            "CONTRADICT",
            "the evidence has something else than '82 EUR'",
        ),
        ("The lamp costs 80 EUR.", INVOICE, "CONTRADICT", "the evidence has something else than '80 EUR'"),
        ("The invoice has 2 lines.", {"invoice": INVOICE}, "ENTAIL", "computed from /invoice/lines"),
        ("The shipping total is 5 EUR.", INVOICE, "NEUTRAL", "'5 EUR' is nowhere in the evidence"),
        ("The total is 98 USD.", INVOICE, "CONTRADICT", "'98 USD' is a wrong total"),
        (
            "Less the deposit, 60 EUR of the price remain.",
            SALE,
            "ENTAIL",
            "computed from /price and /deposit",
        ),
        ("The price is 60 EUR.", SALE, "CONTRADICT", "the evidence has something else than '60 EUR'"),
        ("The discount is 20 EUR.", ACCOUNT, "ENTAIL", "computed from /discount_percent and /total"),
        ("75 % of the tests passed.", ACCOUNT, "ENTAIL", "computed from /passed and /tests"),
        ("80 % of the tests passed.", ACCOUNT, "NEUTRAL", "'80 %' is nowhere in the evidence"),
        ("You saved 20 EUR.", ACCOUNT, "NEUTRAL", "'20 EUR' is nowhere in the evidence"),
        ("The total is 74.00 EUR.", {"total": 74}, "ENTAIL", "it is borne out"),
        ("The total is 75.00 EUR.", {"total": 74}, "CONTRADICT", "'75.00 EUR' is a wrong total"),
    ],
)
def test_what_follows_by_adding_up(claim: str, content: Any, label: str, reason: str) -> None:
    """Totals, lines, differences and shares are borne out by what they are computed from; a wrong total is contradicted."""
    said = judge(claim, content)
    assert (said.label.value, said.reason) == (label, reason)


def test_a_total_that_is_not_the_only_one_contradicts_nothing_by_itself() -> None:
    """Of two orders, either may be meant, unless the claim names one."""
    orders = [
        {"order": "A-1", "items": [{"amount": 5}]},
        {"order": "B-2", "items": [{"amount": 7}]},
    ]
    assert judge("The total is 7 EUR.", orders).label is Entailment.ENTAIL
    wrong = judge("The total of order A-1 is 7 EUR.", orders)
    assert (wrong.label, wrong.support[0].pointer) == (Entailment.CONTRADICT, "/0/items")


def test_the_currency_of_a_record_holds_for_all_that_is_in_it() -> None:
    """A sum in a member of an object is one in the currency that the object names."""
    assert judge("The lamp has a price of 40 EUR.", INVOICE).label is Entailment.ENTAIL
    assert judge("The lamp has a price of 40 USD.", INVOICE).label is not Entailment.ENTAIL


def test_a_count_is_one_of_what_stands_beside_it() -> None:
    """How many customers there are is not told by how many lamps one of them bought."""
    record = {"customer": "Anna Holm", "items": [{"name": "lamp", "quantity": 1}]}
    assert judge("More than 87,000 customers trust us.", record).label is Entailment.NEUTRAL
    assert judge("The order has 3 lamps.", {"item": "lamp", "quantity": 2}).label is Entailment.CONTRADICT


PIECES = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "not ",
            "never ",
            "5 ",
            "-3.5 kg ",
            "€1,2 ",
            "Anna ",
            "2026-02-31 ",
            "31/12/2026 ",
            "the ",
            "no ",
            "12:61 ",
            "% ",
            "ord_1 ",
        ]
    ),
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(-1e6, 1e6) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(TEXTS, VALUES)
def test_it_never_raises_and_always_says_the_same(claim: str, content: Any) -> None:
    """Any text and any evidence get an answer, the same one each time, that can be recorded."""
    said = judge(claim, content)
    read.cache_clear()
    assert judge(claim, content).model_dump_json() == said.model_dump_json()
    assert not said.support or said.label is not Entailment.NEUTRAL


@given(TEXTS)
@settings(max_examples=50)
def test_evidence_is_cut_into_statements_of_its_own_words(text: str) -> None:
    """Every statement that is cut out of a text is no longer than the text."""
    assert all(len(statement.reading.text) <= len(text) + 40 for statement in state({"a": text}, 0))


@pytest.mark.parametrize(
    "piece", ["a-", "1,", "a.b@", "A ", "no ", "9", "(1 ", "\n", " \n", "the ", "1 000 ", "from to 1 "]
)
def test_long_texts_are_read_up_to_a_bound(piece: str) -> None:
    """A text that was made to be slow is cut before it can be: what lies behind the bound changes nothing."""
    long = piece * 60_000
    assert judge(long, long[:4_000]).label in Entailment
    assert judge(f"{long} and the order was delivered.", RECORD) == judge(long, RECORD)
