"""Results as bytes: large ones are stored as blobs, of which a session keeps those in memory that it still refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import msgspec

from tercet.contracts.evidence import Evidence
from tercet.contracts.values.canonical import hash_bytes
from tercet.contracts.values.plain import is_small
from tercet.core import events as e
from tercet.core.answers import CallEnded, Done
from tercet.core.retrieval import read_facts
from tercet.core.state import State
from tercet.executor.threads import ToolThreads
from tercet.journal.protocol import Journal

LARGE = 64 * 1024
"""A value of more bytes is stored as a blob, and the event carries its digest."""

_T = TypeVar("_T")
_encode = msgspec.json.Encoder().encode


def encode_json(value: Any) -> tuple[bytes, str]:
    """Return a value as bytes, and their digest if they are too large for an event."""
    data = _encode(value)
    return data, hash_bytes(data) if len(data) > LARGE else ""


HEAVY = 512 * 1024
"""Work on more bytes than this is done in a thread, so that it does not block the event loop."""


class LargeValues:
    """The large values and the facts of one session, by their digests."""

    def __init__(self, journal: Journal, tenant: str, threads: ToolThreads) -> None:
        self.blobs: dict[str, Any] = {}
        self.facts: dict[str, tuple[Evidence, ...]] = {}
        self.bytes = 0
        """How many bytes of values this process has read or written."""
        self.is_heavy = False
        """Whether work on all of them would block the event loop, so that it is done in a thread."""
        self._journal = journal
        self._tenant = tenant
        self._threads = threads

    async def encode(self, value: Any) -> tuple[bytes, str]:
        """Return a value as bytes, and their digest if they are stored as a blob; large values are encoded in a thread."""
        return encode_json(value) if is_small(value) else await self.work(partial(encode_json, value))

    async def work(self, function: Callable[[], _T]) -> _T:
        """Return the result of work on large values, which is done in a thread."""
        return await self._threads.work(function)

    async def read(self, digest: str) -> bytes:
        """Return the bytes of a stored blob."""
        return await self._journal.blob(self._tenant, digest)

    async def load(self, digests: Iterable[str]) -> None:
        """Load the values that are not in memory yet."""
        for digest in {*digests} - {"", *self.blobs}:
            data = await self.read(digest)
            self._count(data)
            work = partial(msgspec.json.decode, data)
            self.blobs[digest] = await self.work(work) if self.is_heavy else work()

    def _count(self, data: bytes) -> None:
        self.bytes += len(data)
        self.is_heavy = self.bytes > HEAVY

    async def load_for(self, state: State) -> None:
        """Load the values that later steps refer to, and the evidence that plans have found."""
        steps = [state.steps[name] for name in state.needed if name in state.steps]
        learned = (result.blob for result in state.learned)
        await self.load((*(step.blob for step in steps), *state.named_in.values(), *learned))
        for digest in state.facts:
            self.facts[digest] = read_facts(await self.read(digest))

    def learn(self, digest: str, facts: tuple[Evidence, ...]) -> None:
        """Keep evidence that the next event refers to."""
        self.facts[digest] = facts

    def keep(self, state: State, events: Iterable[e.Event], answer: CallEnded) -> None:
        """Keep a large result that was just recorded if later steps or the outputs refer to it."""
        self._count(answer.data)
        for event in events:
            if isinstance(event, e.Complete) and (event.carries or event.step in state.needed):
                self.blobs[answer.blob] = answer.ended.value if isinstance(answer.ended, Done) else None
