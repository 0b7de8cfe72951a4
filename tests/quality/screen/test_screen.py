"""The screen: which value a repair may put in, what is missing, and texts that mean to break it."""

from __future__ import annotations

import pytest

from tercet.contracts.documents import KnownValue
from tercet.contracts.mode import Trust
from tercet.locales import read_text
from tercet.locales.scan import MAX_TOKENS
from tercet.quality.missing import missing_parts
from tercet.quality.screen import screen

from .scenarios import UNITS, known_in, screened


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("The total is 75 EUR.", ["order_total"]),
        ("The total is 10 EUR.", ["order_total"]),
        ("The total is 74 EUR.", [""]),
        ("The total is 75 EUR, the discount 11 EUR.", ["", ""]),
        ("We sent 75 EUR.", [""]),
        ("The total is 75 EUR or 76 EUR.", ["", ""]),
        ("The total of 74 EUR is 75 EUR.", ["", ""]),
        ("It was delivered on 5 May 2026.", ["delivered_on"]),
        ("The total is 75 EUR. The discount is 11 EUR.", ["order_total", "discount"]),
        ("| | Amount |\n|---|---|\n| Total | 75 EUR |", ["order_total"]),
        ("Dear Ms Smith,", ["customer"]),
        ("The total of the order is 75 EUR.", ["order_total"]),
        ("Total ....... 75 EUR\nDiscount ....... 11 EUR", ["order_total", "discount"]),
        ("Total . . . . 75 EUR\nDiscount .....", ["order_total"]),
        ("Your discount of 11 EUR is on its way.", ["discount"]),
        ("The discount is, for the whole year, 11 EUR.", [""]),
        ("The discount was 11 EUR.", [""]),
        ("Your old discount is 11 EUR.", [""]),
        ("Half the discount is 5 EUR.", ["", ""]),
        ("The discount is 11 EUR for friends.", [""]),
        ("The discount includes 11 EUR for friends.", [""]),
        ("Please pay the postage of 75 EUR with the total.", [""]),
        ("You lose 11 EUR of your discount.", [""]),
        ("It was not delivered on 5 May 2026.", [""]),
        ("The discount of your neighbours is 11 EUR.", [""]),
        (f"The {'total ' * 20}less the discount is 75 EUR.", [""]),
    ],
)
def test_a_repair_may_use_the_only_value_that_a_sentence_names(text: str, slots: list[str]) -> None:
    assert [verdict.slot for verdict in screened(text, "en")] == slots


@pytest.mark.parametrize(
    "text",
    ["Total ....... 74 EUR\nDiscount ....... 10 EUR", "Total …… 74 EUR\nDiscount …… 10 EUR"],
)
def test_dots_lead_from_a_name_to_its_own_value(text: str) -> None:
    assert [verdict.status for verdict in screened(text, "en")] == ["found", "found"]


def test_a_verdict_says_where_the_token_is_and_where_its_value_was_found() -> None:
    (verdict,) = screened("The total is 10 EUR.", "en")
    assert verdict.location == "/letter#char=13,19"
    assert verdict.sources == ("kg:order:ord_882#snapshot_1#/discount",)


SECTIONS = "## Items\n\nLinen shade\n\n## Payment\n\n## Contact\n\nWrite to us."


def _missing(text: str, values: list[str], sections: list[str] | None = None) -> list[tuple[str, str]]:
    known = known_in("order", "en")
    read = read_text("/t", text, known, "en", UNITS, "agent")
    return [(part.kind, part.name) for part in missing_parts(read, known, values, sections or [])]


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("The total is {{ order_total }}.", "order_total", []),
        ("The total is 74 EUR.", "order_total", []),
        ("The total is 75 EUR.", "order_total", ["value"]),
        ("We sent 74 EUR.", "order_total", ["value"]),
        ("", "order_total", ["value"]),
        ("{{ items }}", "items", []),
        ("- Linen shade\n- Oak base 300", "items", []),
        ("- Linen shade", "items", ["rows"]),
        ("None.", "items", ["value"]),
        ("Hello", "unheard_of", ["value"]),
    ],
)
def test_a_required_value_has_to_be_stated(text: str, value: str, wanted: list[str]) -> None:
    assert [kind for kind, _ in _missing(text, [value])] == wanted


def test_a_required_section_has_to_be_there_and_to_say_something() -> None:
    found = _missing(SECTIONS, [], ["items", "Payment", "Contact", "Returns"])
    assert found == [("empty_section", "Payment"), ("section", "Returns")]


def test_equal_rows_are_all_found_in_a_long_table() -> None:
    known: list[KnownValue] = []
    for at in range(400):
        row = f"e#/rows/{at}"
        known += [
            KnownValue(value=f"Part {at}x", labels=("part",), pointer=f"{row}/part", trust=Trust.TRUSTED),
            KnownValue(value="1", type="number", labels=("pieces",), pointer=f"{row}/n", trust=Trust.TRUSTED),
        ]
    lines = "\n".join(f"| Part {at}x | 1 |" for at in range(400))
    read = read_text("/t", f"| Part | Pieces |\n|---|---|\n{lines}", known, "en", {}, "agent")
    assert {verdict.status for verdict in screen(read, known)} == {"found"}


SAME = [
    KnownValue(
        value="1",
        type="money",
        currency="EUR",
        labels=("total",),
        pointer=f"e#/i/{at}/n",
        trust=Trust.TRUSTED,
    )
    for at in range(500)
]
NUMBERED = [
    KnownValue(value=str(at), type="number", labels=(f"item {at}",), pointer=f"e#/n{at}", trust=Trust.TRUSTED)
    for at in range(500)
]
NAMED = [
    KnownValue(value=f"Ann{at} Rao", type="name", labels=("dear",), pointer=f"e#/p{at}", trust=Trust.TRUSTED)
    for at in range(500)
]


@pytest.mark.parametrize(
    "piece",
    ["1 ", "1", "1.1,", "a1", "+1 (1", "a@", "a.", "-", "| 1 ", "(", "{{", "{{ a }}", "\n", "Dear Ab ", "May 1 to ",
     "total 1 EUR ", "item 1 ", "Dear Rao Ann1 ", "one two hundred ", "\u200b", "'1", "DE12 AAAA ", "www.a.", "0 ", "€", "1-"],
)  # fmt: skip
@pytest.mark.parametrize("known", [SAME, NUMBERED, NAMED], ids=["same", "numbered", "named"])
def test_hostile_texts_are_read_to_their_end_or_refused(piece: str, known: list[KnownValue]) -> None:
    text = (piece * 5_000)[:5_000]
    read = read_text("/t", text, known, "en", {}, "agent")
    verdicts = screen(read, known)
    assert len(verdicts) == len(read.tokens) <= MAX_TOKENS + 1
    if any(char.isdigit() for char in piece):
        assert "found" not in {verdict.status for verdict in verdicts[MAX_TOKENS:]}
        assert verdicts


def test_what_was_not_read_is_a_token_that_nothing_equals() -> None:
    text = "total 1 EUR. " * (MAX_TOKENS + 5)
    verdicts = screen(read_text("/t", text, SAME[:1], "en", {}, "agent"), SAME[:1])
    assert {verdict.status for verdict in verdicts[:-1]} == {"found"}
    assert (verdicts[-1].status, verdicts[-1].token.end) == ("unknown", len(text))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("## Returns\n\nYou can choose:\n\n- by post\n- in person", []),
        ("## Returns\n\n### How\n\nSend it back.\n\n## Bye", []),
        ("## Returns\n\n**Please note:**\nSend it back.", []),
        ("Returns\n=======\n\nSend it back.", []),
        ("Returns\n---\n\nSend it back.\n\nBye\n---", []),
        ("## 3. Returns\n\nSend it back.", []),
        ("1. Returns\n\nSend it back.\n\n2. Bye\n\nThanks.", []),
        ("<h2 class='x'>Returns</h2>\n\nSend it back.", []),
        ("RETURNS\n\nSend it back.", []),
        ("**Returns**\n\n1. by post\n2. in person", []),
        ("## Returns\n\n### How\n\n## Bye\n\nThanks.", ["empty_section"]),
        ("Returns\n===\n\nBye\n===\n\nThanks.", ["empty_section"]),
        ("1. Returns\n\n2. Bye\n\nThanks.", ["empty_section"]),
        ("RETURNS\n\nBYE\n\nThanks.", ["empty_section"]),
        ("## Returns\n\nYou can choose:\n\n## Bye", ["empty_section"]),
        ("### Returns\n\n## Bye\n\nThanks.", ["empty_section"]),
        ("## Returns and refunds\n\nSend it back.", ["section"]),
        ("Returns are free.", ["section"]),
    ],
)
def test_a_section_ends_at_a_heading_of_its_own_level(text: str, kinds: list[str]) -> None:
    """However headings are written; what is below a smaller one belongs to it."""
    read = read_text("/letter", text, (), "en", {}, "agent")
    assert [each.kind for each in missing_parts(read, (), (), ("Returns",))] == kinds


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("There are four chairs, an oak table and two lamps.", []),
        ("There are four chairs and two lamps.", ["rows"]),
        ("There are chairmen, oaks and tables.", ["value"]),
    ],
)
def test_a_row_is_there_with_any_ending_of_its_name(text: str, kinds: list[str]) -> None:
    rows = [{"item": "Chair"}, {"item": "Oak table"}, {"item": "Lamp"}]
    known = [KnownValue(name="things", value=rows, type="table", pointer="e#/things", trust=Trust.TRUSTED)]
    read = read_text("/letter", text, known, "en", {}, "agent")
    assert [each.kind for each in missing_parts(read, known, ("things",), ())] == kinds
