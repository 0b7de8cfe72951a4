"""The statement that stores a batch, put together out of the parts that the batch needs.

Most batches add to few tables. A part that is left out is neither sent nor planned nor run.
"""

from __future__ import annotations

import re
from functools import cache

from tercet.journal.postgres.connection import QUERIES

_PARAMETER = re.compile(r"\$(\d+)")


@cache
def compose(parts: tuple[str, ...]) -> str:
    """One statement out of `store`, these parts and the answer, its parameters numbered through."""
    text, count = "", 0
    for name in ("store", *parts):
        text += _PARAMETER.sub(lambda match, before=count: f"${before + int(match[1])}", QUERIES[name])
        count += max(int(number) for number in _PARAMETER.findall(QUERIES[name]))
    return f"{text}\n{QUERIES['answer_ringing' if 'store_rings' in parts else 'answer']}"
