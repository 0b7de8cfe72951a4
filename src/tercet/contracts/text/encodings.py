"""Encodings in which a text may contain another: Base64, hexadecimal and percent-encoding.

Redaction knows the secrets and searches for their encodings; the critic knows only the shapes of secrets and searches
the decoded text. The separators that may occur inside an encoding are defined here for both.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

BREAK = r"(?:\\[rnt]|%0[aAdD]|\s)"
"""What may separate two characters of Base64 that is broken into lines; `\\n` is how JSON writes it."""
MAX_BREAKS = 8
SEPARATOR = r"(?:[\s:;,._%-]|\\x|0x)"
"""What may separate two hexadecimal digits."""
MAX_SEPARATORS = 4
LEAST_BYTES = 12
"""Shorter texts are skipped: no shape of a secret is shorter."""

_PRINTABLE = re.compile(rb"[\t\n\r -~]{%d,}" % LEAST_BYTES)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """A text that was decoded from another one."""

    text: str
    span: Callable[[int, int], tuple[int, int]]
    """Map the start and end of a part of it to positions in the encoded text."""
    is_run: bool = True
    """Whether all of it was encoded; otherwise only some of its characters were escaped."""


@dataclass(frozen=True, kw_only=True)
class _Encoding:
    digits: str
    between: str
    most: int
    bits: int
    """How many bits one digit encodes."""
    read: Callable[[str], bytes]

    def runs(self) -> re.Pattern[str]:
        least = -(-LEAST_BYTES * 8 // self.bits)
        return re.compile(f"{self.digits}(?:{self.between}{{0,{self.most}}}{self.digits}){{{least - 1},}}")


def _read_base64(digits: str) -> bytes:
    whole = digits[: len(digits) - (len(digits) % 4 == 1)].replace("-", "+").replace("_", "/")
    return a2b_base64(whole + "=" * (-len(whole) % 4))


def _read_hexadecimal(digits: str) -> bytes:
    return bytes.fromhex(digits[: len(digits) & ~1])


_ENCODINGS = tuple(
    (encoding, encoding.runs(), re.compile(encoding.between))
    for encoding in (
        _Encoding(digits="[A-Za-z0-9+/_-]", between=BREAK, most=MAX_BREAKS, bits=6, read=_read_base64),
        _Encoding(
            digits="[0-9A-Fa-f]", between=SEPARATOR, most=MAX_SEPARATORS, bits=4, read=_read_hexadecimal
        ),
    )
)


def decode_all(text: str) -> Iterator[Decoded]:
    """Yield every printable ASCII text that a text may contain in Base64, hexadecimal or percent-encoding, and what a
    percent-encoded text contains in the other two.
    """
    yield from _decode_runs(text)
    if (plain := decode_percent(text)) is not None:
        yield plain
        for inner in _decode_runs(plain.text):
            yield Decoded(text=inner.text, span=_inside(plain, inner))


def _inside(outer: Decoded, inner: Decoded) -> Callable[[int, int], tuple[int, int]]:
    return lambda start, end: outer.span(*inner.span(start, end))


def decode_percent(text: str) -> Decoded | None:
    """Return a text with its percent-encoded characters decoded; None if it has none."""
    starts, sources = [0], [0]
    for found in _ESCAPE.finditer(text):
        here = starts[-1] + found.start() - sources[-1]
        starts += [here, here + 1]
        sources += [found.start(), found.end()]
    if len(starts) == 1:
        return None

    def span(start: int, end: int) -> tuple[int, int]:
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
        is_escape = last % 2 == 1
        return (
            sources[first] + start - starts[first],
            sources[last] + (3 if is_escape else end - starts[last]),
        )

    return Decoded(text=_ESCAPE.sub(_unescaped, text), span=span, is_run=False)


def _unescaped(found: re.Match[str]) -> str:
    return bytes.fromhex(found[1]).decode("ascii", "replace")


def _decode_runs(text: str) -> Iterator[Decoded]:
    """Yield the texts in each run of digits, read from every digit at which its first byte may begin."""
    for encoding, runs, between in _ENCODINGS:
        for run in runs.finditer(text):
            digits, position = _read_run(run, between)
            for shift in range(4 if encoding.bits == 6 else 2):
                for text_in_run in _PRINTABLE.finditer(encoding.read(digits[shift:])):
                    span = _span(position, shift, encoding.bits, text_in_run.start())
                    yield Decoded(text=text_in_run[0].decode("ascii"), span=span)


def _read_run(run: re.Match[str], between: re.Pattern[str]) -> tuple[str, Callable[[int], int]]:
    """Return the digits of a run without what separates them, and the position of each in the text."""
    pieces: list[str] = []
    starts: list[int] = []
    sources: list[int] = []
    size, at = 0, 0
    text = run[0]
    for gap in (*between.finditer(text), None):
        end = len(text) if gap is None else gap.start()
        if end > at:
            pieces.append(text[at:end])
            starts.append(size)
            sources.append(run.start() + at)
            size += end - at
        at = len(text) if gap is None else gap.end()

    def position(digit: int) -> int:
        piece = bisect_right(starts, digit) - 1
        return sources[piece] + digit - starts[piece]

    return "".join(pieces), position


def _span(
    position: Callable[[int], int], shift: int, bits: int, offset: int
) -> Callable[[int, int], tuple[int, int]]:
    def span(start: int, end: int) -> tuple[int, int]:
        first = shift + (offset + start) * 8 // bits
        last = shift + ((offset + end) * 8 - 1) // bits
        return position(first), position(last) + 1

    return span
