"""The tokens that a session has recorded, and which of them are its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import orjson

from tercet.contracts.personal import TOKEN, PersonalMarks
from tercet.contracts.shape import as_object
from tercet.core import events as e
from tercet.core.state import State
from tercet.journal.errors import BlobMissing
from tercet.journal.protocol import Journal

_EVIDENCE_EVENTS = (
    b'"session_started"',
    b'"session_migrated"',
    b'"evidence_retrieved"',
    b'"evidence_fetched"',
)


class Known:
    """The tokens in the events and blobs of a session, up to a position."""

    def __init__(self) -> None:
        self.tokens: dict[str, None] = {}
        self._position = 0
        self._blobs: set[str] = set()
        self._facts: dict[str, None] = {}
        self.from_evidence: set[str] = set()
        """Those in the evidence that the session was given."""

    def own(self, start: e.SessionStarted) -> tuple[str, ...]:
        """Return the tokens of the session's own subject, and those in the evidence that it was given."""
        return tuple(token for token in self.tokens if self.is_own(start, token))

    def is_own(self, start: e.SessionStarted, token: str) -> bool:
        """Return whether the session may open a token; one of another subject only came with evidence."""
        found = TOKEN.fullmatch(token)
        is_subject = found is not None and bool(start.personal) and found.group(1) == start.personal
        return is_subject or token in self.from_evidence

    async def refresh(self, journal: Journal, tenant: str, session: str) -> None:
        """Read the events recorded since the last time."""
        while events := await journal.read(tenant, session, after=self._position):
            self._add(each.data for each in events)
            for each in events:
                self._facts |= dict.fromkeys(_facts_of(each.data))
            self._position = events[-1].seq
        after = ""
        while digests := await journal.blob_digests(tenant, session, after=after):
            new = [digest for digest in digests if digest not in self._blobs]
            self._add([await journal.blob(tenant, digest) for digest in new])
            self._blobs.update(new)
            after = digests[-1]
        for digest in self._facts:
            self.from_evidence.update(_tokens_in(await journal.blob(tenant, digest)))
        self._facts.clear()

    def _add(self, stored: Iterable[bytes]) -> None:
        for data in stored:
            self.tokens |= dict.fromkeys(_tokens_in(data))


class _Pinned(msgspec.Struct, frozen=True):
    """The digests of the facts in an event that gives a session evidence."""

    evidence: Any = ""
    facts: Any = ""


def _facts_of(event: bytes) -> Iterator[str]:
    if any(tag in event for tag in _EVIDENCE_EVENTS):
        pinned = msgspec.json.decode(event[event.index(b"{") :], type=_Pinned)
        yield from (each for each in (pinned.evidence, pinned.facts) if isinstance(each, str) and each)


def _tokens_in(stored: bytes) -> Iterator[str]:
    if b"[personal:" in stored:
        yield from (found.group() for found in TOKEN.finditer(stored.decode("latin-1")))


async def read_marks(journal: Journal, tenant: str, state: State) -> PersonalMarks:
    """Return the marks of the pack that a session is pinned to."""
    try:
        declared = as_object(orjson.loads(await journal.blob(tenant, state.start.pack_hash))) or {}
    except BlobMissing:
        return PersonalMarks()
    return PersonalMarks.model_validate(declared.get("personal") or {})
