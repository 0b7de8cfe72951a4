"""Checks that the records of a bundle fit together, which hashes alone do not show.

The kinds stand in their order, the events of each stream are numbered without a gap and come to the chain that the
manifest names, and nothing stands there twice. It remembers a few values of the record before, and no more.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from tercet.journal.chain import ZERO
from tercet.replay.bundle.layout import ORDER, Header
from tercet.replay.bundle.manifest import MAX_BYTES, Manifest, decode_manifest

_EVENTS = ORDER.index("event")


class Consistency:
    """Follows the records of a bundle one by one."""

    def __init__(self) -> None:
        self.manifest: Manifest | None = None
        self._kind = -1
        self._place: tuple[Any, ...] = ()
        self._stream = 0
        """The index of the manifest's stream that is being read."""
        self._seq = 0
        self._chain = ZERO
        self._packs = 0
        """How many packs have been read."""
        self._hasher, self._is_hashing = sha256(), False

    def begin(self, header: Header) -> str:
        """Return what is wrong with a record at its position; empty if nothing is. Its payload comes next."""
        rank = ORDER.index(header.kind)
        if (self._kind < 0) != (header.kind == "manifest") or rank < self._kind:
            return f"no {header.kind} stands here"
        if rank != self._kind:
            self._kind, self._place = rank, ()
        if rank > _EVENTS and (wrong := self._finish_streams()):
            return wrong
        if header.kind == "manifest" and header.size > MAX_BYTES:
            return "the manifest is too long"
        if header.kind == "event":
            return self._begin_event(header)
        place = self._place_of(header)
        if self._place and place <= self._place:
            return "it does not stand in order"
        self._place = place
        return self._belongs(header)

    def update(self, data: bytes) -> None:
        """A part of the payload."""
        if self._is_hashing:
            self._hasher.update(data)

    def finish(self, header: Header, payload: bytes) -> str:
        """Return what is wrong with a record given its payload; only that of a manifest is passed."""
        if header.kind == "manifest":
            self.manifest = decode_manifest(payload)
            return _fault(self.manifest)
        if self._is_hashing:
            self._chain, self._is_hashing = self._hasher.digest(), False
        return ""

    def _begin_event(self, header: Header) -> str:
        streams = self.manifest.streams if self.manifest else ()
        while self._stream < len(streams) and self._seq == streams[self._stream].events:
            if wrong := self._next_stream():
                return wrong
        if self._stream == len(streams):
            return "the manifest names no more events"
        wanted = (streams[self._stream].name, self._seq + 1)
        if (header.stream, header.seq) != wanted:
            return f"event {wanted[1]} of {wanted[0]} should stand here"
        self._seq += 1
        self._hasher, self._is_hashing = sha256(self._chain), True
        return ""

    def _next_stream(self) -> str:
        """Close a stream: its events must come to the chain that the manifest names."""
        entry = self.manifest.streams[self._stream] if self.manifest else None
        if entry is None or entry.events != self._seq or entry.chain != self._chain.hex():
            name = entry.name if entry else "a stream"
            return f"the events of {name} are not those that the manifest names"
        self._stream, self._seq, self._chain = self._stream + 1, 0, ZERO
        return ""

    def _finish_streams(self) -> str:
        while self.manifest is not None and self._stream < len(self.manifest.streams):
            if wrong := self._next_stream():
                return wrong
        return ""

    def _belongs(self, header: Header) -> str:
        manifest = self.manifest
        if manifest is None:
            return ""
        packs = {entry.hash.removeprefix("sha256:") for entry in manifest.packs if entry.included}
        self._packs += header.kind == "pack"
        if header.kind in ("file", "end") and self._packs < len(packs):
            return "a pack is missing that the manifest names as included"
        if header.kind == "checkpoint" and all(header.stream != entry.name for entry in manifest.streams):
            return f"the bundle is of {manifest.session}"
        if header.kind == "pack" and header.sha256 not in packs:
            return "the run was not pinned to this pack"
        if header.kind == "file" and header.pack not in packs:
            return "it is of a pack that the run was not pinned to"
        return ""

    def _place_of(self, header: Header) -> tuple[Any, ...]:
        """By what the records of a kind are ordered."""
        if header.kind != "checkpoint" or self.manifest is None:
            return _place(header)
        names = [entry.name for entry in self.manifest.streams]
        stream = names.index(header.stream) if header.stream in names else len(names)
        return (stream, *_place(header))


def _fault(manifest: Manifest | None) -> str:
    if manifest is None:
        return "it is not a manifest that this version reads"
    names = [entry.name for entry in manifest.streams]
    is_sound = names[:1] == [manifest.session] and len(set(names)) == len(names) and bool(manifest.packs)
    return "" if is_sound else "it names no session, or no pack, or a stream twice"


def _place(header: Header) -> tuple[Any, ...]:
    """By what the records of a kind are ordered."""
    match header.kind:
        case "checkpoint":
            return (header.seq, header.checkpoint)
        case "file":
            return (header.pack, header.path)
        case _:
            return (header.sha256,)
