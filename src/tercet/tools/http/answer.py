"""What is read of an answer: never more than the limit, decoded by us, and JSON that means one thing only."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from tercet.contracts.errors import TercetError, Unusable
from tercet.contracts.plain import not_plain
from tercet.tools.strict_json import read_strictly

_GZIP = 16 + zlib.MAX_WBITS


class Broken(TercetError):  # noqa: N818 - what happened is named
    """The answer did not come through whole."""

    default_code = "answer_cut_off"


class _Incoming(Protocol):
    """The parts of an HTTP answer that are read here."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def aiter_raw(self) -> AsyncIterator[bytes]: ...


async def read_body(answer: _Incoming, limit: int) -> bytes:
    """The body, decoded; raises `Unusable` where it is larger than the limit or in an unknown encoding.

    The limit holds for what came over the wire and for what it unpacks to, whatever the length said.
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
    """The beginning of a body that only a person will look at; empty where it cannot be read."""
    body = bytearray()
    if answer.headers.get("content-encoding", "identity").strip().lower() == "identity":
        async for part in answer.aiter_raw():
            body += part[: limit - len(body)]
            if len(body) >= limit:
                break
    return bytes(body)


def read_value(body: bytes, media_type: str) -> Any:
    """The value of a body: JSON, or a text where the service says that it is one; raises `Unusable`."""
    kind = media_type.partition(";")[0].strip().lower()
    if not body:
        return None
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unusable(f"byte {error.start} is no UTF-8", "answer_not_text") from None
    if kind.startswith("text/") and kind != "text/json":
        return text
    return read_json(text)


def read_json(text: str) -> Any:
    """JSON in which no number is one that others would round, read strictly; raises `Unusable`."""
    fault = ""
    try:
        value = read_strictly(text)
    except ValueError as error:
        value, fault = None, str(error)
    fault = fault or not_plain(value) or ""
    if fault:
        raise _unusable(f"the answer is no JSON that can be used: {fault}", "answer_not_json")
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
    """Unpacks gzip and deflate, and stops one byte behind the limit: a small answer may unpack to a very large one."""

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
                raise Broken(f"the answer cannot be unpacked: {error}") from None
            if len(found) >= self._left:
                break
            part = self._unpacking.unconsumed_tail or self._unpacking.unused_data
        self._left -= len(found)
        return bytes(found)

    def close(self) -> None:
        if not self._unpacking.eof and self._left > 0:
            raise Broken("the answer ends in the middle of what it packs")


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
