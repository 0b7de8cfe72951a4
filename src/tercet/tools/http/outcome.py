"""What a status says about whether the call happened.

| answer | outcome |
|---|---|
| 2xx | done |
| 307, 308 | not done: the service asks for the same request elsewhere, and has not worked on it |
| 400, 401, 402, 403, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 424, 426, 428, 431, 451 | not done, and trying again would not help |
| 425, 429 | not done, and to be tried again, not before `Retry-After` |
| every other one, such as 303, 408, 500, 502, 503 or 504 | unknown |

*Not done* speaks of one attempt. Where an earlier attempt at the same action may have happened, that stays open: a 404
for a second DELETE, or a 409 because the first POST was heard after all, does not say that nothing happened.
408 and 503 are sent by proxies too, which do not know what the service behind them did.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

Outcome = Literal["done", "not_done", "unknown"]

AGAIN = frozenset({425, 429})
REFUSED = frozenset(
    {307, 308, *range(400, 408), *range(409, 418), 421, 422, 423, 424, 426, 428, 431, 451} - {407}
)
MAX_WAIT_MS = 600_000
"""A service that asks for more patience is asked again after this."""


def outcome_of(status: int, *, not_done: frozenset[int], unknown: frozenset[int]) -> Outcome:
    """What an answer with this status means; a pack may say otherwise of some."""
    if status in unknown:
        return "unknown"
    if status in not_done:
        return "not_done"
    if 200 <= status < 300:
        return "done"
    return "not_done" if status in AGAIN or status in REFUSED else "unknown"


def read_retry_after(text: str, now: datetime) -> int:
    """`Retry-After` in milliseconds, from seconds or a date; 0 where it says nothing that can be used."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1_000, MAX_WAIT_MS)
    try:
        then = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0, min(int((then - now).total_seconds() * 1_000), MAX_WAIT_MS))
