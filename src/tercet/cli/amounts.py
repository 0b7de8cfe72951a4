"""How much more a run may use, in the words that people type: `tokens=100`."""

from __future__ import annotations

from collections.abc import Sequence

from tercet.contracts.errors import UsageError
from tercet.core.budget import EXTENSIBLE
from tercet.core.messages import demand_extension


def read_amounts(words: Sequence[str]) -> dict[str, int]:
    """The amounts by name; raises `UsageError` for what is none, also if it is not above zero."""
    amounts: dict[str, int] = {}
    for word in words:
        name, equals, number = word.partition("=")
        name = name.replace("-", "_")
        if not equals or not number.isascii() or not number.removeprefix("-").isdecimal() or len(number) > 18:
            raise UsageError(
                f"{word!r} is no extension of a budget",
                code="wrong_extension",
                remedy=f"write NAME=N, where NAME is one of {', '.join(EXTENSIBLE)}",
            )
        amounts[name] = amounts.get(name, 0) + int(number)
    return demand_extension(amounts)
