"""Slots: values as a locale writes them, and what is refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tercet.contracts.documents import KnownValue, TableColumn, find_malformed_slots
from tercet.contracts.errors import UsageError
from tercet.contracts.mode import Trust
from tercet.contracts.outputs.repair import SectionTemplate
from tercet.locales import read_text
from tercet.locales.formats import format_value
from tercet.locales.reading import render
from tercet.quality.screen import screen
from tercet.quality.verification.authored import mark_authored, section_words

from .scenarios import UNITS, known_in


def _known(value: Any, kind: str, **fields: Any) -> KnownValue:
    return KnownValue.model_validate(
        {"name": "v", "value": value, "type": kind, "pointer": "e#/v", "trust": Trust.TRUSTED, **fields}
    )


@pytest.mark.parametrize(
    ("value", "locale", "wanted"),
    [
        (_known("1234.5", "money", currency="EUR"), "de", "1.234,50\xa0€"),
        (_known("1234.5", "money", currency="EUR"), "en", "€1,234.50"),
        (_known("1234.5", "money", currency="EUR"), "fr", "1\u202f234,50\xa0€"),
        (_known("1234", "money", currency="JPY"), "en", "¥1,234"),
        (_known("2026-05-04", "date"), "de", "4. Mai 2026"),
        (_known("2026-05-04T10:00:00Z", "date"), "es", "4 de mayo de 2026"),
        (_known("14", "count", unit="day"), "de", "14 Tage"),
        (_known("1", "count", unit="day"), "ru", "1 день"),
        (_known("14", "count", unit="day"), "ja", "14 日"),
        (_known("14", "count", unit="hour"), "zh", "14小时"),
        (_known("-3", "count", unit="day"), "ar", "-3 أيام"),
        (_known("-3", "number", unit="celsius"), "en", "-3 degrees Celsius"),
        (_known("5", "count", unit="day"), "ru", "5 дней"),
        (_known("2", "count", unit="times_per_day"), "de", "2-mal täglich"),
        (_known("1", "count", unit="times_per_day"), "de", "einmal täglich"),
        (_known("0", "count", unit="times_per_day"), "fr", "0 fois par jour"),
        (_known("21", "count", unit="times_per_day"), "ru", "21 раз в день"),
        (_known("19", "percent"), "de", "19\xa0%"),
        (_known("1234.5678", "number"), "es", "1.234,5678"),
        (_known("2.5", "number", unit="metric-ton"), "ru", "2,5 тонны"),
        (_known(["a", "b\n- c", 1.5], "list"), "de", "- a\n- b - c\n- 1,5"),
    ],
)
def test_a_value_is_written_as_its_locale_writes_it(value: KnownValue, locale: str, wanted: str) -> None:
    assert format_value(value, locale, UNITS) == wanted


def test_a_table_escapes_its_cells_and_writes_them_by_their_types() -> None:
    columns = (
        TableColumn(name="what", heading="Was"),
        TableColumn(name="n", heading="Zahl", type="count"),
        TableColumn(name="price", heading="Preis", type="money"),
        TableColumn(name="on", heading="Am", type="date"),
    )
    rows = [{"what": "a|b\n| x \\", "n": 1200, "price": 2.5, "on": "2026-05-04"}, {"what": None}]
    assert format_value(_known(rows, "table", currency="EUR", columns=columns), "de", {}).splitlines() == [
        "| Was | Zahl | Preis | Am |",
        "| --- | ---: | ---: | --- |",
        "| a\\|b \\| x \\\\ | 1.200 | 2,50\xa0€ | 4. Mai 2026 |",
        "|  |  |  |  |",
    ]


@pytest.mark.parametrize(
    ("slot", "code"),
    [
        ("{{ nothing }}", "unknown_slot"),
        ("{{ v.__class__ }}", "unknown_slot"),
        ("{{ 1 + 1 }}", "unknown_slot"),
        ("{{}}", "unknown_slot"),
        ("{{ v | day }}", "slot_role_mismatch"),
        ("{{ v | USD }}", "slot_role_mismatch"),
        ("{{ none }}", "missing_value"),
        ("{{ poor }}", "missing_value"),
        ("{{ other }}", "untrusted_value"),
        ("{{ words }}", "untrusted_value"),
    ],
)
@pytest.mark.parametrize("author", ["pack", "agent"])
def test_a_slot_that_cannot_be_filled_is_left_as_it_is_and_named(slot: str, code: str, author: Any) -> None:
    known = [
        _known("5", "money", currency="EUR"),
        _known(None, "money", currency="EUR", name="none"),
        _known("5", "money", name="poor"),
        _known("5", "money", currency="EUR", name="other", trust=Trust.UNTRUSTED),
        _known("your account is closed", "text", name="words", trust=Trust.UNTRUSTED),
    ]
    read = read_text("/t", f"a {slot} b", known, "en", {}, author)
    assert [(fault.code, read.text[fault.start : fault.end]) for fault in read.faults] == [(code, slot)]
    assert read.text == f"a {slot} b"


@pytest.mark.parametrize("role", ["money", "EUR"])
def test_a_role_that_is_the_values_own_is_accepted(role: str) -> None:
    read = read_text("/t", f"{{{{ v | {role} }}}}", [_known("5", "money", currency="EUR")], "en", {}, "pack")
    assert (read.text, read.faults) == ("€5.00", ())


def test_what_a_value_holds_is_not_rendered_again() -> None:
    known = [_known("{{ w }}", "text"), _known("7", "number", name="w")]
    read = read_text("/t", "{{ v }}", known, "en", {}, "pack")
    assert (read.text, [piece.source for piece in read.pieces]) == ("{{ w }}", ["bound"])


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("Приём {{ v }}.", "Приём 8 октября 2026 г."),
        ("Приём {{ v }}. Ждём вас.", "Приём 8 октября 2026 г. Ждём вас."),
        ("Приём {{ v }}...", "Приём 8 октября 2026 г...."),
        ("Приём {{ v }}, ждём.", "Приём 8 октября 2026 г., ждём."),
    ],
)
@pytest.mark.parametrize("author", ["pack", "agent"])
def test_a_value_that_ends_in_a_stop_ends_its_sentence(template: str, wanted: str, author: Any) -> None:
    read = read_text("/t", template, [_known("2026-10-08", "date")], "ru", {}, author)
    assert read.text.replace("\u202f", " ") == wanted
    assert "".join(read.text[each.start : each.end] for each in read.pieces) == read.text


def test_a_section_of_the_author_may_end_in_a_value_that_ends_in_a_stop() -> None:
    section = SectionTemplate.model_validate({"heading": "Приём", "text": "Приём {{ v }}."})
    read = read_text("/t", section_words(section).rstrip(), [_known("2026-10-08", "date")], "ru", {}, "agent")
    assert {piece.source for piece in mark_authored(read, [section]).pieces} == {"authored", "bound"}


def test_the_words_of_an_untrusted_text_are_read_one_by_one() -> None:
    """A right value in them is right, and a wrong one is not hidden behind them."""
    total = _known("5", "money", currency="EUR", labels=("total",))
    mail = KnownValue(
        value="Total 5 EUR, now 9 EUR", type="text", pointer="mail#/text", trust=Trust.UNTRUSTED
    )
    read = read_text("/t", "Total 5 EUR, now 9 EUR", [total, mail], "en", {}, "agent")
    assert [(each.text, each.kind) for each in read.tokens] == [("5 EUR", "amount"), ("9 EUR", "amount")]


def test_pieces_say_who_wrote_what() -> None:
    known = known_in("order", "en")
    for author, source in (("pack", "authored"), ("agent", "free")):
        read = read_text("/t", "Total {{ order_total }}!", known, "en", UNITS, author)  # pyright: ignore[reportArgumentType] - a loop over both
        pieces = [(read.text[each.start : each.end], each.source, each.slot) for each in read.pieces]
        assert pieces == [("Total ", source, ""), ("€74.00", "bound", "order_total"), ("!", source, "")]


def test_words_of_the_pack_are_not_judged_and_words_of_an_agent_are() -> None:
    known = known_in("order", "en")
    text = "Call 99 people about {{ order_total }} within 5 days."
    statuses = {
        "pack": [each.status for each in screen(read_text("/t", text, known, "en", UNITS, "pack"), known)],
        "agent": [each.status for each in screen(read_text("/t", text, known, "en", UNITS, "agent"), known)],
    }
    assert statuses == {"pack": ["bound"], "agent": ["unknown", "bound", "unknown"]}


@pytest.mark.parametrize(
    "text", ["Return: 1{{ return_window }}", "Return: {{ n }}0 days", "Total {{ order_total }}5"]
)
def test_a_digit_beside_a_slot_is_not_bound(text: str) -> None:
    known = [*known_in("order", "en"), _known("14", "count", name="n")]
    verdicts = screen(read_text("/t", text, known, "en", UNITS, "agent"), known)
    assert "unknown" in [verdict.status for verdict in verdicts]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Your order is on its way, and we thank you for it.", "en"),
        ("Ihre Bestellung ist auf dem Weg zu Ihnen.", ""),
        ("Zamówienie jest w drodze, dziękujemy za zakupy w naszym sklepie.", ""),
        ("ORD-882", ""),
        ("Your order is on its way to you.\n\nIhre Bestellung ist auf dem Weg zu Ihnen und wird in den Tagen von uns geliefert.", ""),
    ],
)  # fmt: skip
def test_a_text_is_in_the_configured_language_or_in_none(text: str, language: str) -> None:
    assert read_text("/t", text, [], "en", {}, "agent").language == language


def test_a_locale_whose_words_are_not_known_is_read_in_no_language() -> None:
    assert read_text("/t", "Zamówienie {{ v }}", [_known("5", "number")], "pl", {}, "pack").language == ""


@pytest.mark.parametrize("locale", ["xx", "", "de_NOWHERE_AT_ALL"])
def test_an_unknown_locale_is_refused(locale: str) -> None:
    with pytest.raises(UsageError, match="locale"):
        read_text("/t", "", [], locale, {}, "pack")


def test_without_the_extra_the_answer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(UsageError) as caught:
        read_text("/t", "", [], "en", {}, "pack")
    assert (caught.value.code, caught.value.remedy) == (
        "extra_missing",
        "install the extra locales from where you have Tercet: pip install './tercet[locales]' beside a clone",
    )


def test_a_unit_that_is_neither_in_cldr_nor_declared_says_how_to_declare_it() -> None:
    known = [
        KnownValue(name="dose", value="2", type="count", unit="spoon", pointer="p#/dose", trust=Trust.TRUSTED)
    ]
    (fault,) = render("Take {{ dose }}.", known, "en", {}, author="pack").faults
    assert fault.code == "missing_value"
    assert "'spoon' is neither in CLDR nor declared for 'en'" in fault.message
    assert (
        '[decision.quality.units.spoon], such as en = { one = "{} spoon", other = "{} spoons" }'
        in fault.message
    )


@pytest.mark.parametrize(
    ("template", "braces"),
    [
        ("Rent {{ v", "{{ v"),
        ("Rent {{ v }, paid", "{{ v }, paid"),
        ("Rent {{ v\n}}", "{{ v"),
        ("Rent {{v}}}}.", "{{v}}}}"),
        ("Rent {{{ v }}}.", "{{{ v }}}"),
        ("Rent v }}.", "}}"),
    ],
)
def test_braces_of_a_template_that_are_no_slot_are_a_fault(template: str, braces: str) -> None:
    """A letter with braces in it is never sent; what a model writes with them is free text."""
    known = [_known("5", "money", currency="EUR")]
    read = read_text("/letter", template, known, "en", UNITS, "pack")
    assert [(each.code, read.text[each.start : each.end]) for each in read.faults][:1] == [
        ("malformed_slot", braces)
    ]
    assert find_malformed_slots(f"\n{template}")[0] == (2, braces)
    written = read_text("/letter", template, known, "en", UNITS, "agent")
    assert any(each.source == "free" for each in written.pieces)
    assert find_malformed_slots("{ {{ v }} }\n{{ v | money }} ${x} {y}") == ()
