"""Other people's words in the prompt of a repair: data between two marks that they cannot contain.

What is to be mended was written by a model, evidence by others, and a defect may quote both. The mark is made out of all
the data of one prompt, so the same prompt has the same mark, and nobody who writes such words can know it beforehand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple, TypeAlias

_MARK_LENGTH = 8


class Data(NamedTuple):
    """A piece of a prompt that is no instruction, whatever it says."""

    text: str


Piece: TypeAlias = str | Data
"""A piece of a prompt: our own words, or data."""


def show(value: Any, longest: int) -> Data:
    """A value as JSON on one line; what is longer is cut, and says so."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True, default=str)
    cut = len(text) - longest
    return Data(text if cut <= 0 else f"{text[:longest]} … ({cut} more characters)")


def fence(pieces: Sequence[Piece]) -> tuple[str, str]:
    """The text of a prompt with its data between marks, and the mark."""
    data = [piece.text for piece in pieces if isinstance(piece, Data)]
    mark = _mark(data)
    told = (
        f"<data-{mark}> {piece.text} </data-{mark}>" if isinstance(piece, Data) else piece for piece in pieces
    )
    return "".join(told), mark


def _mark(data: Sequence[str]) -> str:
    seed = "\0".join(data).encode(errors="surrogatepass")
    for number in count():
        mark = sha256(b"%d:%b" % (number, seed)).hexdigest()[:_MARK_LENGTH]
        if not any(mark in text.casefold() for text in data):
            return mark
    raise AssertionError  # count does not end
