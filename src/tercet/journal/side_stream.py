"""Reading a stream whole, its chain and its end checked; and appending to one that several writers share."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tercet.journal.chain import START, follow
from tercet.journal.errors import JournalCorrupt, PositionConflict
from tercet.journal.protocol import Append, Journal, Position, Stored

_PAGE = 1000
_OWNER = b'{"of":'


class _Owned(msgspec.Struct):
    of: tuple[str, str]


_decode_owner = msgspec.json.Decoder(_Owned).decode


def name_owner(data: bytes, tenant: str, stream: str) -> bytes:
    """Return a JSON object with the tenant and the stream that it is written to as its first field, `of`."""
    owner = msgspec.json.encode((tenant, stream))
    return _OWNER + owner + (b"}" if data == b"{}" else b"," + data[1:])


def encode_entry(entry: msgspec.Struct, tenant: str, stream: str) -> bytes:
    """Return an entry of a stream as it is stored: its JSON, with the tenant and the stream that it is written to."""
    return name_owner(msgspec.json.encode(entry), tenant, stream)


def demand_owner(tenant: str, stream: str, stored: Iterable[Stored]) -> None:
    """Raise `JournalCorrupt` for an event that names another stream. Earlier versions wrote events that name none."""
    for each in stored:
        if not each.data.startswith(_OWNER):
            continue
        try:
            owner = _decode_owner(each.data).of
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise JournalCorrupt(
                f"event {each.seq} of stream {stream}", f"it does not name its stream: {error}"
            ) from error
        if owner != (tenant, stream):
            raise JournalCorrupt(
                f"event {each.seq} of stream {stream} of tenant {tenant}",
                f"it was written to stream {owner[1]} of tenant {owner[0]}",
            )


async def read_all(journal: Journal, tenant: str, stream: str, *, after: int = 0) -> list[Stored]:
    """Return every event of a stream after a position, checked against the chain and the stream's recorded end.

    Raises `JournalCorrupt` that names the first event which was changed, removed or inserted, or which was written to
    another stream. A stream that is removed meanwhile has no events. What lies at or before `after` is taken as it is stored.
    """
    end = await journal.head(tenant, stream)
    start = await _position_at(journal, tenant, stream, after)
    found: list[Stored] = []
    position = start
    while page := await journal.read(tenant, stream, after=position.seq, limit=_PAGE):
        position = follow(position, page, stream=stream)
        demand_owner(tenant, stream, page)
        found += page
        if len(page) < _PAGE:
            break
    if position != end:
        last = await journal.head(tenant, stream)
        if last.seq < end.seq:  # removed while it was read
            return []
        _check_end([start, *(Position(each.seq, each.chain) for each in found)], end, last, stream)
    return found


async def _position_at(journal: Journal, tenant: str, stream: str, seq: int) -> Position:
    """Return the position of an event with its link, from which the following events are checked."""
    if not seq:
        return START
    stored = await journal.read(tenant, stream, after=seq - 1, limit=1)
    if not stored or stored[0].seq != seq:
        raise JournalCorrupt(f"event {seq} of stream {stream}", "it is missing, and was read before")
    return Position(seq, stored[0].chain)


def _check_end(read: list[Position], end: Position, last: Position, stream: str) -> None:
    """Raise `JournalCorrupt` for a stream that does not reach the end recorded before it was read, or that is longer than
    the end recorded now."""
    reached = read[-1].seq
    if reached < end.seq:
        raise JournalCorrupt(
            f"event {reached + 1} of stream {stream}", f"it is missing; the stream ends at {end.seq}"
        )
    if reached > last.seq:
        raise JournalCorrupt(
            f"event {last.seq + 1} of stream {stream}", f"it was inserted; the stream ends at {last.seq}"
        )
    if all(position.chain != end.chain for position in read if position.seq == end.seq):
        raise JournalCorrupt(
            f"the end of stream {stream}", f"event {end.seq} does not carry the recorded last link"
        )


async def append_at(
    journal: Journal, tenant: str, stream: str, end: int, data: bytes, *, notify: bool = False
) -> Position | None:
    """Append an entry where a stream was found to end; return None if another writer was quicker."""
    try:
        return await journal.append(
            Append(tenant=tenant, stream=stream, expected=end, events=(data,), notify=notify)
        )
    except PositionConflict:
        return None


async def append_next(
    journal: Journal, tenant: str, stream: str, data: bytes, *, notify: bool = False
) -> Position:
    """Append an entry at the end of a stream, and again at the new end while another writer is quicker."""
    while True:
        end = (await journal.head(tenant, stream)).seq
        if (position := await append_at(journal, tenant, stream, end, data, notify=notify)) is not None:
            return position
