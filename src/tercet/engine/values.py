"""Results as bytes, and large ones as blobs beside the events."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from tercet.contracts.canonical import hash_bytes
from tercet.contracts.plain import is_small
from tercet.executor.threads import ToolThreads

LARGE = 64 * 1024
"""A value of more bytes is stored as a blob, and the event carries its digest."""

_encode = msgspec.json.Encoder().encode


async def encode_value(value: Any, threads: ToolThreads) -> tuple[bytes, str]:
    """Return a value as bytes, and their digest if they are stored as a blob."""
    return encode_json(value) if is_small(value) else await threads.work(partial(encode_json, value))


def encode_json(value: Any) -> tuple[bytes, str]:
    """Return a value as bytes, and their digest if they are too many for an event."""
    data = _encode(value)
    return data, hash_bytes(data) if len(data) > LARGE else ""
