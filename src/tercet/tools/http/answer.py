"""Reads an answer: within a limit, decoded here, and as strict JSON.

The outcome of a call by its status:

| answer | outcome |
|---|---|
| 2xx | done |
| 307, 308 | not done: the service asks for the same request elsewhere, and has not processed it |
| 400, 401, 402, 403, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 424, 426, 428, 431, 451 | not done, and trying again would not help |
| 425, 429 | not done, and to be retried, not before `Retry-After` |
| every other one, such as 303, 408, 500, 502, 503 or 504 | unknown |

*Not done* is about one attempt. If an earlier attempt at the same action may have happened, the outcome stays unknown: a 404
for a second DELETE, or a 409 because the first POST was received after all, does not mean that nothing happened.
408 and 503 are sent by proxies too, which do not know what the service behind them did.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, Protocol

from tercet.contracts.errors import TercetError, Unusable
from tercet.contracts.values.plain import not_plain
from tercet.tools.strict_json import read_strictly

_GZIP = 16 + zlib.MAX_WBITS


class Broken(TercetError):  # noqa: N818 - named after what happened
    """The answer was not received completely."""

    default_code = "answer_cut_off"


class _Incoming(Protocol):
    """The parts of an HTTP answer that are read here."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def aiter_raw(self) -> AsyncIterator[bytes]: ...


async def read_body(answer: _Incoming, limit: int) -> bytes:
    """Return the decoded body; raise `Unusable` if it is larger than the limit or in an unknown encoding.

    The limit applies to the bytes received and to the decompressed bytes, whatever Content-Length said.
    """
    length = answer.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > limit:
        raise _too_large(limit)
    decoder = _decoder(answer.headers.get("content-encoding", ""), limit)
    body, received = bytearray(), 0
    async for part in answer.aiter_raw():
        received += len(part)
        body += decoder.decode(part)
        if max(received, len(body)) > limit:
            raise _too_large(limit)
    decoder.close()
    return bytes(body)


async def read_beginning(answer: _Incoming, limit: int) -> bytes:
    """Return the beginning of a body that is only shown to people; empty if it cannot be read."""
    body = bytearray()
    if answer.headers.get("content-encoding", "identity").strip().lower() == "identity":
        async for part in answer.aiter_raw():
            body += part[: limit - len(body)]
            if len(body) >= limit:
                break
    return bytes(body)


def read_value(body: bytes, media_type: str) -> Any:
    """Return the value of a body: JSON, or text if the service says so; raise `Unusable`."""
    kind = media_type.partition(";")[0].strip().lower()
    if not body:
        return None
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unusable(f"byte {error.start} is not UTF-8", "answer_not_text") from None
    if kind.startswith("text/") and kind != "text/json":
        return text
    return read_json(text)


def read_json(text: str) -> Any:
    """Return strictly parsed JSON without numbers that other readers would round; raise `Unusable`."""
    fault = ""
    try:
        value = read_strictly(text)
    except ValueError as error:
        value, fault = None, str(error)
    fault = fault or not_plain(value) or ""
    if fault:
        raise _unusable(f"the answer is not usable JSON: {fault}", "answer_not_json")
    return value


def _too_large(limit: int) -> Unusable:
    return _unusable(f"the answer has more than {limit:,} bytes", "answer_too_large")


def _unusable(message: str, code: str) -> Unusable:
    return Unusable(message, code=code)


class _Plain:
    def decode(self, part: bytes) -> bytes:
        return part

    def close(self) -> None: ...


class _Unpacked:
    """Decompresses gzip and deflate, and stops one byte after the limit: a small answer may decompress to a very large
    one.
    """

    def __init__(self, window: int, limit: int) -> None:
        self._window = window
        self._unpacking = zlib.decompressobj(window)
        self._left = limit + 1

    def decode(self, part: bytes) -> bytes:
        found = bytearray()
        while part and self._left > 0:
            if self._unpacking.eof:  # gzip may hold several members, one after the other
                self._unpacking = zlib.decompressobj(self._window)
            try:
                found += self._unpacking.decompress(part, self._left - len(found))
            except zlib.error as error:
                raise Broken(f"the answer cannot be decompressed: {error}") from None
            if len(found) >= self._left:
                break
            part = self._unpacking.unconsumed_tail or self._unpacking.unused_data
        self._left -= len(found)
        return bytes(found)

    def close(self) -> None:
        if not self._unpacking.eof and self._left > 0:
            raise Broken("the compressed answer is incomplete")


def _decoder(encoding: str, limit: int) -> _Plain | _Unpacked:
    match encoding.strip().lower():
        case "" | "identity":
            return _Plain()
        case "gzip" | "x-gzip":
            return _Unpacked(_GZIP, limit)
        case "deflate":
            return _Unpacked(zlib.MAX_WBITS, limit)
        case other:
            raise _unusable(f"the answer is encoded as {other[:40]!r}", "answer_encoded")


Outcome = Literal["done", "not_done", "unknown"]

AGAIN = frozenset({425, 429})
REFUSED = frozenset(
    {307, 308, *range(400, 408), *range(409, 418), 421, 422, 423, 424, 426, 428, 431, 451} - {407}
)
MAX_WAIT_MS = 600_000
"""The longest delay that a service can ask for."""


def outcome_of(status: int, *, not_done: frozenset[int], unknown: frozenset[int]) -> Outcome:
    """Return the outcome for this status; a pack may declare others."""
    if status in unknown:
        return "unknown"
    if status in not_done:
        return "not_done"
    if 200 <= status < 300:
        return "done"
    return "not_done" if status in AGAIN or status in REFUSED else "unknown"


def read_retry_after(text: str, now: datetime) -> int:
    """Return `Retry-After` in milliseconds, from seconds or a date; 0 if it is missing or invalid."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1_000, MAX_WAIT_MS)
    try:
        then = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0, min(int((then - now).total_seconds() * 1_000), MAX_WAIT_MS))
