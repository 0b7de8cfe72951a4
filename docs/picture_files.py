"""Makes the files of screenshots smaller: 256 colours, no filters, packed as tightly as possible."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

COLOURS = 256


def shrink(png: bytes) -> bytes:
    """Return a screenshot, an RGB file with 8 bits a colour, with its 256 most frequent colours."""
    chunks = list(_chunks(png))
    width, height, depth, kind = struct.unpack(">IIBB", chunks[0][1][:10])
    if (depth, kind) != (8, 2):
        raise ValueError("only RGB files with 8 bits a colour can be shrunk")
    packed = b"".join(body for name, body in chunks if name == b"IDAT")
    rows = [
        [line[place : place + 3] for place in range(0, len(line), 3)]
        for line in _lines(zlib.decompress(packed), 3 * width)
    ]
    counts = Counter(colour for row in rows for colour in row)
    palette = [colour for colour, _ in counts.most_common(COLOURS)]
    nearest = {colour: _nearest(colour, palette) for colour in counts}
    pixels = b"".join(b"\0" + bytes(nearest[colour] for colour in row) for row in rows)
    return png[:8] + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            (b"PLTE", b"".join(palette)),
            (b"IDAT", zlib.compress(pixels, 9)),
            (b"IEND", b""),
        )
    )


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 8
    while place < len(png):
        (size,) = struct.unpack_from(">I", png, place)
        yield png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        place += size + 12


def _lines(raw: bytes, size: int) -> Iterator[bytes]:
    """Yield the rows of pixels without their filters."""
    above = bytearray(size)
    for place in range(0, len(raw), size + 1):
        line = bytearray(raw[place + 1 : place + 1 + size])
        for at in range(size):
            left, corner = (line[at - 3], above[at - 3]) if at >= 3 else (0, 0)
            match raw[place]:
                case 0:
                    break
                case 1:
                    line[at] = (line[at] + left) & 255
                case 2:
                    line[at] = (line[at] + above[at]) & 255
                case 3:
                    line[at] = (line[at] + (left + above[at]) // 2) & 255
                case _:
                    guess = left + above[at] - corner
                    line[at] = (
                        line[at] + min(left, above[at], corner, key=lambda value: abs(guess - value))
                    ) & 255
        yield bytes(line)
        above = line


def _nearest(colour: bytes, palette: list[bytes]) -> int:
    return min(
        range(len(palette)),
        key=lambda place: sum((a - b) ** 2 for a, b in zip(colour, palette[place], strict=True)),
    )
