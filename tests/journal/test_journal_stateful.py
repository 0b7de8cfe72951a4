"""Every backend behaves like a few dicts and lists, whatever is asked of it and in whatever order."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tercet.contracts.values.canonical import hash_bytes
from tercet.journal.chain import verify_chain
from tercet.journal.errors import BlobMissing, JournalError
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, CheckpointKind, FirstLease, Journal, Lease, NewCheckpoint
from tercet.testing.journal_backend import session_row

T = TypeVar("T")

NAMES = st.sampled_from(["ses_1", "ses_2", "breaker:a.b"])
SHORT = st.binary(max_size=8)


@dataclass
class ModelStream:
    """A stream as a list, and its lease as three values."""

    events: list[bytes] = field(default_factory=list[bytes])
    checkpoints: dict[tuple[int, str], bytes] = field(default_factory=dict[tuple[int, str], bytes])
    owner: str | None = None
    epoch: int = 0
    until: int = 0


class Model:
    """What a journal should hold, for one tenant."""

    def __init__(self) -> None:
        self.streams: dict[str, ModelStream] = {}
        self.claims: dict[str, str] = {}
        self.blobs: dict[bytes, set[str]] = {}
        """Which streams brought which blob; none that is left means that it is gone."""
        self.rows: dict[str, tuple[str, int | None]] = {}
        self.change_count = 0

    def refusal(self, unit: Append) -> str | None:
        """The code of the error that a unit should meet."""
        stream = self.streams.get(unit.stream, ModelStream())
        if unit.epoch != (stream.epoch or None) or (stream.epoch and (unit.lease or stream.owner is None)):
            return "lease_lost"
        if unit.expected != len(stream.events):
            return "position_conflict"
        if any(self.claims.get(key, unit.stream) != unit.stream for key in unit.claims):
            return "claim_held"
        seen = dict(stream.checkpoints)
        for new in unit.checkpoints:
            if seen.setdefault((new.seq, new.kind), new.data) != new.data:
                return "checkpoint_exists"
        return None

    def append(self, unit: Append) -> None:
        """Take a unit in."""
        stream = self.streams.setdefault(unit.stream, ModelStream())
        stream.events += unit.events
        if unit.lease is not None:
            stream.owner, stream.epoch, stream.until = unit.lease.owner, 1, unit.lease.until
        stream.checkpoints.update({(new.seq, new.kind): new.data for new in unit.checkpoints})
        for blob in unit.blobs:
            self.blobs.setdefault(blob, set()).add(unit.stream)
        for key in unit.claims:
            self.claims.setdefault(key, unit.stream)
        if unit.row is not None:
            self.rows[unit.stream] = (unit.row.status, unit.row.due_at)
        self.change_count += unit.notify

    def forget(self, name: str) -> None:
        """Drop a stream and what only it had."""
        del self.streams[name]
        self.rows.pop(name, None)
        self.claims = {key: stream for key, stream in self.claims.items() if stream != name}
        for users in self.blobs.values():
            users.discard(name)


class JournalMachine(RuleBasedStateMachine):
    """Acts on a journal and on the model, and compares."""

    def __init__(self, url: str, *, durable: bool) -> None:
        super().__init__()
        self.url = url
        self.durable = durable
        self.runner = asyncio.Runner()
        self.model = Model()
        self.tenant = f"tenant-{secrets.token_hex(8)}"
        self.leases: list[Lease] = []
        self.journal = self.run(self.open())

    async def open(self) -> Journal:
        """Open the journal."""
        return await open_journal(self.url)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine on this machine's loop."""
        return self.runner.run(coroutine)

    def code(self, coroutine: Coroutine[Any, Any, Any]) -> str | None:
        """The code of the error that a call raises."""
        try:
            self.run(coroutine)
        except JournalError as error:
            return error.code
        return None

    @rule(
        stream=NAMES,
        events=st.lists(SHORT, max_size=3),
        blobs=st.lists(SHORT, max_size=2),
        claims=st.lists(st.sampled_from(["k", "l", "m", "n"]), max_size=2),
        points=st.lists(st.tuples(st.sampled_from(["point", "fold"]), st.integers(0, 3), SHORT), max_size=2),
        status=st.sampled_from([None, "in_progress", "paused", "completed"]),
        due_at=st.sampled_from([None, 10, 20]),
        notify=st.booleans(),
        slip=st.sampled_from([0, 0, 0, 0, -1, 1]),
        epoch_slip=st.sampled_from([0, 0, 0, 0, -1, 1]),
        leases=st.sampled_from([False, False, True]),
    )
    def append(
        self,
        stream: str,
        events: list[bytes],
        blobs: list[bytes],
        claims: list[str],
        points: list[tuple[CheckpointKind, int, bytes]],
        status: str | None,
        due_at: int | None,
        notify: bool,
        slip: int,
        epoch_slip: int,
        leases: bool,
    ) -> None:
        """Append a unit, mostly at the right position and with the right epoch."""
        known = self.model.streams.get(stream, ModelStream())
        expected = max(0, len(known.events) + slip)
        end = expected + len(events)
        unit = Append(
            tenant=self.tenant,
            stream=stream,
            expected=expected,
            epoch=(known.epoch + epoch_slip) or None,
            lease=FirstLease(owner="ann", until=30) if leases else None,
            events=tuple(events),
            blobs=tuple(blobs),
            claims=tuple(claims),
            checkpoints=tuple(
                NewCheckpoint(kind=kind, seq=end - back, data=data)
                for kind, back, data in points
                if end - back > 0
            ),
            row=None if status is None else session_row(self.tenant, stream, status=status, due_at=due_at),
            notify=notify,
        )
        refusal = self.model.refusal(unit)
        if refusal is not None:
            assert self.code(self.journal.append(unit)) == refusal
            return
        self.model.append(unit)
        assert self.run(self.journal.append(unit)).change_count == self.model.change_count
        if leases:
            self.leases.append(Lease(tenant=self.tenant, stream=stream, owner="ann", epoch=1, until=30))

    @rule(
        stream=NAMES,
        owner=st.sampled_from(["ann", "bob"]),
        now=st.integers(0, 40),
        ttl=st.integers(0, 20),
        grace=st.sampled_from([0, 5]),
    )
    def acquire(self, stream: str, owner: str, now: int, ttl: int, grace: int) -> None:
        """Acquire a stream, or be told that another holds it."""
        known = self.model.streams.get(stream, ModelStream())
        held = known.owner not in (None, owner) and now < known.until + grace
        call = self.journal.acquire(self.tenant, stream, owner=owner, now_ms=now, ttl_ms=ttl, grace_ms=grace)
        if held:
            assert self.code(call) == "lease_held"
            return
        lease = self.run(call)
        self.model.streams[stream] = known
        known.owner, known.epoch, known.until = owner, known.epoch + 1, now + ttl
        assert (lease.owner, lease.epoch, lease.until) == (owner, known.epoch, known.until)
        self.leases.append(lease)

    @rule(pick=st.integers(0, 50), now=st.integers(0, 40))
    def renew(self, pick: int, now: int) -> None:
        """Renew some lease that was once acquired."""
        if not self.leases:
            return
        lease = self.leases[pick % len(self.leases)]
        known = self.model.streams.get(lease.stream, ModelStream())
        current = known.epoch == lease.epoch and known.owner is not None
        code = self.code(self.journal.renew(lease, now_ms=now, ttl_ms=10))
        assert code == (None if current else "lease_lost")
        if current:
            known.until = now + 10

    @rule(pick=st.integers(0, 50))
    def release(self, pick: int) -> None:
        """Release some lease that was once acquired."""
        if not self.leases:
            return
        lease = self.leases[pick % len(self.leases)]
        known = self.model.streams.setdefault(lease.stream, ModelStream())
        self.run(self.journal.release(lease))
        if known.epoch == lease.epoch:
            known.owner = None

    @rule(pick=st.integers(0, 50))
    def forget(self, pick: int) -> None:
        """Forget a stream by some lease that was once acquired."""
        if not self.leases:
            return
        lease = self.leases[pick % len(self.leases)]
        known = self.model.streams.get(lease.stream, ModelStream())
        current = known.epoch == lease.epoch and known.owner is not None
        assert self.code(self.journal.forget(lease)) == (None if current else "lease_lost")
        if current:
            self.model.forget(lease.stream)

    @rule()
    def reopen(self) -> None:
        """Close the journal and open it again, where that keeps its content."""
        if self.durable:
            self.run(self.journal.close())
            self.journal = self.run(self.open())

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        """Everything that can be read equals the model."""
        self.run(self.compare())

    async def compare(self) -> None:
        """Read everything."""
        for name in ("ses_1", "ses_2", "breaker:a.b"):
            known = self.model.streams.get(name, ModelStream())
            lease = await self.journal.lease(self.tenant, name)
            assert (lease and (lease.owner, lease.epoch, lease.until)) == (
                known.owner and (known.owner, known.epoch, known.until)
            )
            stored = await self.journal.read(self.tenant, name)
            assert [event.data for event in stored] == known.events
            assert (await verify_chain(self.journal, self.tenant, name)).seq == len(known.events)
            points = await self.journal.checkpoints(self.tenant, name)
            assert {(each.seq, each.kind): each.data for each in points} == known.checkpoints
            newest = await self.journal.newest(self.tenant, name, "point")
            assert (newest and newest.seq) == max(
                (seq for seq, kind in known.checkpoints if kind == "point"), default=None
            )
        for key in ("k", "l", "m", "n"):
            holder = await self.journal.claim(self.tenant, key)
            assert (holder and holder.stream) == self.model.claims.get(key)
        for blob, users in self.model.blobs.items():
            assert await self.find(blob) == (blob if users else None)
        rows = await self.journal.sessions(self.tenant)
        assert {row.session_id: (row.status, row.due_at) for row in rows} == self.model.rows
        due = await self.journal.due(self.tenant, now_ms=10)
        assert [row.session_id for row in due] == sorted(
            name for name, (_, due_at) in self.model.rows.items() if due_at == 10
        )
        done = await self.journal.ended(self.tenant, before_ms=99, statuses=("completed",))
        assert {row.session_id for row in done} == {
            name for name, (status, _) in self.model.rows.items() if status == "completed"
        }
        assert await self.journal.change_count(self.tenant) == self.model.change_count

    async def find(self, blob: bytes) -> bytes | None:
        """A blob, if it is there."""
        try:
            return await self.journal.blob(self.tenant, hash_bytes(blob))
        except BlobMissing:
            return None

    def teardown(self) -> None:
        """Let go of the journal and the loop."""
        self.run(self.journal.close())
        self.runner.close()


def run_machine(url: Callable[[], str], *, durable: bool, examples: int) -> None:
    """Try the machine on a backend; a new address for every example, where the address decides what is in it."""

    # Hypothesis calls what it is given, and a factory will do, whatever its annotation says.
    factory = cast("type[JournalMachine]", lambda: JournalMachine(url(), durable=durable))
    run_state_machine_as_test(
        factory,
        settings=settings(
            max_examples=examples, stateful_step_count=25, deadline=None, derandomize=True, database=None
        ),
    )


def test_memory_behaves_like_the_model() -> None:
    """The journal in memory equals the model after every act."""
    run_machine(lambda: "memory:", durable=False, examples=60)


@pytest.mark.slow
def test_sqlite_behaves_like_the_model(tmp_path: Path) -> None:
    """The journal in a SQLite file equals the model after every act, also when it is opened again."""
    run_machine(lambda: f"sqlite:///{tempfile.mkdtemp(dir=tmp_path)}/runs.db", durable=True, examples=15)


def test_postgres_behaves_like_the_model(postgres_url: str) -> None:
    """The journal on PostgreSQL equals the model after every act, also when it is opened again."""
    run_machine(lambda: postgres_url, durable=True, examples=6)
