"""Values and texts in human languages: formatting, slots, and the values that a text states.

Only this package imports Babel, which comes with the extra `tercet[locales]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tercet.contracts.documents import KnownValue, ReadText
from tercet.contracts.errors import extra_missing

if TYPE_CHECKING:
    from tercet.locales.reading import Author
    from tercet.locales.vocabulary import Units


def demand_locales() -> None:
    """Raise `UsageError` where the library that knows languages is not installed."""
    try:
        import babel  # noqa: F401, PLC0415  # pyright: ignore[reportUnusedImport] - an optional dependency
    except ModuleNotFoundError as error:
        raise extra_missing("a pack with values or documents", "babel", "locales") from error


def read_text(
    pointer: str, text: str, known: Sequence[KnownValue], locale: str, units: Units, author: Author
) -> ReadText:
    """Fill the slots of one text of the outputs, and find what in it can be looked up."""
    demand_locales()
    from tercet.locales import reading  # noqa: PLC0415 - an optional dependency

    return reading.read_text(pointer, text, known, locale, units, author)


def decimal_mark(locale: str) -> str:
    """Return the sign before the decimals of a number."""
    demand_locales()
    from tercet.locales.vocabulary import vocabulary  # noqa: PLC0415 - an optional dependency

    return vocabulary(locale, {}, (), ()).decimal
