"""What people type and read in small: durations, amounts, money, samples."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.cli.inputs import read_amounts, read_duration
from tercet.contracts.errors import UsageError
from tercet.view.terminal.text import ahead, readable, sample
from tercet.view.text import amount_text


@pytest.mark.parametrize(
    ("text", "ms"),
    [("90d", 7_776_000_000), ("12h", 43_200_000), ("1h30m", 5_400_000), ("45s", 45_000), ("500ms", 500)],
)
def test_durations_are_read(text: str, ms: int) -> None:
    """A number with a unit, or several of them."""
    assert read_duration(text) == ms


@pytest.mark.parametrize("text", ["", "90", "-1d", "0s", "1.5h", "d", "1d 2x", "٣d", "1y"])
def test_what_is_no_duration_is_wrong_use(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(UsageError) as caught:
        read_duration(text)
    assert caught.value.code == "duration_invalid"


def test_amounts_are_added_up() -> None:
    """A name may be written with a dash, and given twice."""
    assert read_amounts(["tool-calls=2", "tool_calls=3", "tokens=1"]) == {"tool_calls": 5, "tokens": 1}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("amount_inr", 24500, "INR 24,500"),
        ("price_eur_cents", 1_250, "EUR 12.50"),
        ("fee_cents", 5, "0.05"),
        ("cost_microcents", 250_000_000, "2.50"),
        ("total_usd", 12.5, "USD 12.5"),
        ("population", 1_000_000, "1,000,000"),
        ("count", 7, ""),
        ("paid_usd", True, ""),
        ("paid_usd", "9", ""),
        ("refund_try", 9, "TRY 9"),
    ],
)
def test_money_is_readable(name: str, value: Any, text: str) -> None:
    """The currency is in the name, cents become units, and long numbers are grouped."""
    assert readable(name, value) == text


@pytest.mark.parametrize(
    ("dimension", "amount", "text"),
    [
        ("tool_calls", 1, "1 tool call"),
        ("tokens", 2_000, "2,000 tokens"),
        ("cost_microcents", 2_500_000, "2.50 cents"),
        ("wall_clock_ms", 1_500, "1.5 s"),
    ],
)
def test_budgets_are_readable(dimension: str, amount: int, text: str) -> None:
    """Each dimension in its own unit."""
    assert amount_text(dimension, amount) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(40_000, "in 40 s"), (200_000, "in 3 min"), (86_399_000, "in 24 h"), (864_000_000, "in 10 days")],
)
def test_what_is_ahead_is_told_roundly(ms: int, text: str) -> None:
    """A day less a second is a day to people."""
    assert ahead(ms) == text


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "…"),
        ({"type": "string", "minLength": 3}, "………"),
        ({"enum": ["a", "b"]}, "a"),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": ["null", "string"]}, None),
        ({"type": "array", "items": {"type": "string"}}, []),
        (
            {
                "type": "object",
                "required": ["id", "kind"],
                "properties": {
                    "id": {"$ref": "#/$defs/id"},
                    "kind": {"const": "x"},
                    "more": {"type": "string"},
                },
                "$defs": {"id": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
            },
            {"id": "…", "kind": "x"},
        ),
        ({"type": "string", "pattern": "^rf_[0-9]+$"}, None),
    ],
)
def test_a_sample_fits_its_schema(schema: dict[str, Any], value: Any) -> None:
    """Where no sample fits, none is made up."""
    assert sample(schema) == value
