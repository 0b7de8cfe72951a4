"""The journal in memory: the rules of the durable ones, without storage.

It is meant for tests and experiments, and is the simplest description of what a journal does. Nothing here awaits, so
every append is atomic.
"""

from __future__ import annotations

from bisect import bisect_right

from tercet.contracts.values.canonical import hash_bytes
from tercet.journal import stream as rules
from tercet.journal.errors import BlobMissing, CheckpointExists, ClaimHeld, JournalClosed
from tercet.journal.protocol import (
    Append,
    CheckpointKind,
    ClaimHolder,
    Lease,
    Position,
    Reminder,
    SessionFilter,
    SessionRow,
    StatusCount,
    Stored,
    StoredCheckpoint,
)
from tercet.journal.stream import (
    NEW,
    Forget,
    LeaseAct,
    LeaseActs,
    StreamState,
    check_held,
    check_names,
    check_unit,
    unknown_session,
)


class _Stream:
    """Everything that one stream holds."""

    def __init__(self) -> None:
        self.state: StreamState = NEW
        self.events: list[Stored] = []
        self.checkpoints: dict[tuple[int, str], StoredCheckpoint] = {}


class MemoryJournal(LeaseActs):
    """A journal that lives as long as its process; `Journal` says what each method promises."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._blobs: dict[tuple[str, str], bytes] = {}
        self._uses: dict[tuple[str, str], set[str]] = {}
        self._change_counts: dict[str, int] = {}
        self._claims: dict[tuple[str, str], ClaimHolder] = {}
        self._rows: dict[tuple[str, str], SessionRow] = {}
        self._reminders: dict[tuple[str, str], int] = {}
        self._closed = False

    async def append(self, unit: Append) -> Position:
        self._check(unit.tenant)
        check_unit(unit)
        stream = self._streams.get((unit.tenant, unit.stream)) or _Stream()
        after, links = rules.extend(stream.state, unit)
        for key in unit.claims:
            holder = self._claims.get((unit.tenant, key))
            if holder is not None and holder.stream != unit.stream:
                raise ClaimHeld(key=key, holder=holder.stream)
        checkpoints = _added_checkpoints(stream, unit)
        # From here on nothing can fail.
        self._streams[unit.tenant, unit.stream] = stream
        numbered = enumerate(zip(unit.events, links, strict=True), start=stream.state.seq + 1)
        stream.events += [Stored(seq, data, chain) for seq, (data, chain) in numbered]
        stream.checkpoints.update(checkpoints)
        stream.state = after
        for data in unit.blobs:
            digest = hash_bytes(data)
            self._blobs[unit.tenant, digest] = data
            self._uses.setdefault((unit.tenant, digest), set()).add(unit.stream)
        for key in unit.claims:
            self._claims.setdefault((unit.tenant, key), ClaimHolder(unit.stream, after.seq))
        if unit.row is not None:
            self._rows[unit.tenant, unit.row.session_id] = unit.row
        for name, due_at in unit.reminders:
            self._reminders.pop((unit.tenant, name), None)
            if due_at is not None:
                self._reminders[unit.tenant, name] = due_at
        change_count = self._change_counts.get(unit.tenant, 0) + unit.notify
        if unit.notify:
            self._change_counts[unit.tenant] = change_count
        return Position(after.seq, after.chain, change_count)

    async def change_count(self, tenant: str) -> int:
        self._check(tenant)
        return self._change_counts.get(tenant, 0)

    async def read(self, tenant: str, stream: str, *, after: int = 0, limit: int = 1000) -> list[Stored]:
        self._check(tenant, stream)
        events = self._stream(tenant, stream).events
        start = max(after, 0)
        return events[start : start + max(limit, 0)]

    async def head(self, tenant: str, stream: str) -> Position:
        self._check(tenant, stream)
        return self._stream(tenant, stream).state.position()

    async def newest(self, tenant: str, stream: str, kind: CheckpointKind) -> StoredCheckpoint | None:
        self._check(tenant, stream)
        found = [each for each in self._stream(tenant, stream).checkpoints.values() if each.kind == kind]
        return max(found, key=lambda each: each.seq, default=None)

    async def checkpoints(
        self, tenant: str, stream: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredCheckpoint]:
        self._check(tenant, stream)
        found = [
            each for (seq, _), each in sorted(self._stream(tenant, stream).checkpoints.items()) if seq > after
        ]
        if limit <= 0 or not found:
            return []
        last = found[min(limit, len(found)) - 1].seq
        return found[: bisect_right(found, last, key=lambda each: each.seq)]

    async def blob(self, tenant: str, digest: str) -> bytes:
        self._check(tenant)
        try:
            return self._blobs[tenant, digest]
        except KeyError:
            raise BlobMissing(tenant=tenant, digest=digest) from None

    async def blob_digests(
        self, tenant: str, stream: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        self._check(tenant, stream)
        mine = [
            digest for (owner, digest), users in self._uses.items() if owner == tenant and stream in users
        ]
        return [digest for digest in sorted(mine) if digest > after][: max(limit, 0)]

    async def claim(self, tenant: str, key: str) -> ClaimHolder | None:
        self._check(tenant, key)
        return self._claims.get((tenant, key))

    async def claims(self, tenant: str, prefix: str, *, limit: int = 100) -> list[tuple[str, ClaimHolder]]:
        self._check(tenant, prefix)
        found = sorted(key for owner, key in self._claims if owner == tenant and key.startswith(prefix))
        return [(key, self._claims[tenant, key]) for key in found[: max(limit, 0)]]

    async def lease(self, tenant: str, stream: str) -> Lease | None:
        self._check(tenant, stream)
        state = self._stream(tenant, stream).state
        if state.owner is None:
            return None
        return Lease(tenant=tenant, stream=stream, owner=state.owner, epoch=state.epoch, until=state.until)

    async def forget(self, lease: Lease) -> None:
        self._check(lease.tenant, lease.stream)
        tenant, stream = key = (lease.tenant, lease.stream)
        check_held(self._stream(*key).state, Forget(lease=lease))
        del self._streams[key]
        self._rows.pop(key, None)
        self._claims = {
            claim: holder for claim, holder in self._claims.items() if (claim[0], holder.stream) != key
        }
        for (owner, digest), users in list(self._uses.items()):
            if owner == tenant and users == {stream}:
                del self._uses[owner, digest], self._blobs[owner, digest]
            elif owner == tenant:
                users.discard(stream)

    async def session(self, tenant: str, session_id: str) -> SessionRow | None:
        self._check(tenant, session_id)
        return self._rows.get((tenant, session_id))

    async def sessions(
        self,
        tenant: str,
        *,
        status: str | None = None,
        limit: int = 50,
        before: str | None = None,
        skip: int = 0,
        where: SessionFilter | None = None,
    ) -> list[SessionRow]:
        rows = self._rows_of(tenant)
        rows.sort(key=lambda row: (row.started_at, row.session_id), reverse=True)
        if before is not None:
            last = self._rows.get((tenant, before))
            if last is None:
                raise unknown_session(tenant, before)
            rows = [row for row in rows if (row.started_at, row.session_id) < (last.started_at, before)]
        wanted = where or SessionFilter(status=status)
        return [row for row in rows if wanted.admits(row)][skip : skip + max(limit, 0)]

    async def session_ids(self, tenant: str, prefix: str, *, limit: int = 100) -> list[str]:
        self._check(tenant, prefix)
        found = (name for owner, name in self._rows if owner == tenant and name.startswith(prefix))
        return sorted(found)[: max(limit, 0)]

    async def due(self, tenant: str, *, now_ms: int, limit: int = 100) -> list[SessionRow]:
        found = [
            (row.due_at, row.session_id, row)
            for row in self._rows_of(tenant)
            if row.due_at is not None and row.due_at <= now_ms
        ]
        return [row for *_, row in sorted(found, key=lambda each: each[:2])][: max(limit, 0)]

    async def waiting(
        self, tenant: str, *, after: tuple[int, str] | None = None, limit: int = 100
    ) -> list[SessionRow]:
        places = [
            (row.waits_since, row.session_id)
            for row in self._rows_of(tenant)
            if row.waits_since is not None and (after is None or (row.waits_since, row.session_id) > after)
        ]
        return [self._rows[tenant, session] for _, session in sorted(places)[: max(limit, 0)]]

    async def resumable(
        self, *, now_ms: int, limit: int = 100, after: SessionRow | None = None
    ) -> list[SessionRow]:
        self._check()
        found = [
            row
            for key, row in self._rows.items()
            if (row.status == "in_progress" or (row.due_at is not None and row.due_at <= now_ms))
            and ((state := self._stream(*key).state).owner is None or state.until <= now_ms)
            and (after is None or _by_change(row) > _by_change(after))
        ]
        found.sort(key=_by_change)
        by_tenant: dict[str, list[SessionRow]] = {}
        for row in found:
            by_tenant.setdefault(row.tenant, []).append(row)
        wanted = {id(row) for rows in by_tenant.values() for row in rows[: max(limit, 0)]}
        return [row for row in found if id(row) in wanted]

    async def unfinished(
        self, pack: str, *, pack_hash: str = "", statuses: tuple[str, ...], limit: int = 20
    ) -> list[StatusCount]:
        self._check(*statuses)
        by_status: dict[str, list[SessionRow]] = {}
        for row in sorted(self._rows.values(), key=lambda row: (row.started_at, row.tenant, row.session_id)):
            if row.pack == pack and row.pack_hash.startswith(pack_hash) and row.status in statuses:
                by_status.setdefault(row.status, []).append(row)
        return [
            StatusCount(status=status, total=len(rows), oldest=tuple(rows[: max(limit, 0)]))
            for status, rows in sorted(by_status.items())
        ]

    async def reminders(self, *, now_ms: int, tenant: str | None = None, limit: int = 100) -> list[Reminder]:
        self._check(*(() if tenant is None else (tenant,)))
        found = [
            Reminder(owner, name, due_at)
            for (owner, name), due_at in self._reminders.items()
            if due_at <= now_ms and tenant in (None, owner)
        ]
        return sorted(found, key=lambda each: (each.due_at, each.tenant, each.name))[: max(limit, 0)]

    async def ended(
        self, tenant: str, *, before_ms: int, statuses: tuple[str, ...], limit: int = 100
    ) -> list[SessionRow]:
        rows = [row for row in self._rows_of(tenant) if row.status in statuses and row.updated_at < before_ms]
        return sorted(rows, key=lambda row: (row.updated_at, row.session_id))[: max(limit, 0)]

    async def close(self) -> None:
        self._closed = True

    def _check(self, *names: str) -> None:
        if self._closed:
            raise JournalClosed
        check_names(*names)

    def _rows_of(self, tenant: str) -> list[SessionRow]:
        self._check(tenant)
        return [row for (owner, _), row in self._rows.items() if owner == tenant]

    def _stream(self, tenant: str, stream: str) -> _Stream:
        return self._streams.get((tenant, stream)) or _Stream()

    async def _act(self, act: LeaseAct) -> Lease:
        self._check(act.tenant)
        stream = self._stream(act.tenant, act.stream)
        after, lease = rules.lease(stream.state, act)
        if after is not stream.state:
            stream.state = after
            self._streams[act.tenant, act.stream] = stream
        return lease


def _by_change(row: SessionRow) -> tuple[int, str, str]:
    return row.updated_at, row.tenant, row.session_id


def _added_checkpoints(stream: _Stream, unit: Append) -> dict[tuple[int, str], StoredCheckpoint]:
    """Return the checkpoints of a unit by their place; one that stands already may come again, but not changed."""
    added: dict[tuple[int, str], StoredCheckpoint] = {}
    for new in unit.checkpoints:
        place = (new.seq, new.kind)
        present = added.get(place) or stream.checkpoints.get(place)
        if present is not None and present.data != new.data:
            raise CheckpointExists(stream=unit.stream, kind=new.kind, seq=new.seq)
        added[place] = StoredCheckpoint(new.seq, new.kind, hash_bytes(new.data), new.data)
    return added
