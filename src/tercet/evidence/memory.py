"""The store in memory: the same rules as the durable ones, and gone with the process.

For tests, for trying things out, and as the plainest statement of what a store does. Nothing here awaits, so every call
is atomic by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import orjson

from tercet.contracts.evidence import parse_ref
from tercet.contracts.search_words import terms_of
from tercet.evidence import ranking
from tercet.evidence.errors import (
    FactUnknown,
    SnapshotExists,
    SnapshotFrozen,
    SnapshotOpen,
    SnapshotPinned,
    SnapshotUnknown,
    StoreClosed,
)
from tercet.evidence.ranking import Match, indexed
from tercet.evidence.rows import (
    OPEN,
    START,
    Census,
    Chain,
    Row,
    check_name,
    check_names,
    differences,
    fact_of,
    named,
    prepare,
)
from tercet.evidence.store import (
    Added,
    Change,
    Difference,
    Fact,
    Hit,
    NewDocument,
    Progress,
    SnapshotHead,
    silent,
)

Name = tuple[str, str]


@dataclass
class _Version:
    """A fact and the numbers of the snapshots that it stands in: from one up to another."""

    row: Row
    since: int
    until: int
    length: int

    def stands_in(self, number: int) -> bool:
        return self.since <= number < self.until


@dataclass
class _Snapshot:
    """A snapshot, or a draft with its changes."""

    name: str
    created_at: int
    changes: dict[Name, Row] = field(default_factory=dict[Name, Row])
    documents: dict[str, NewDocument] = field(default_factory=dict[str, NewDocument])
    number: int | None = None
    frozen_at: int | None = None
    hash: bytes = START
    totals: bytes = b""
    pins: set[str] = field(default_factory=set[str])

    def head(self) -> SnapshotHead:
        is_draft = self.number is None
        return SnapshotHead(
            name=self.name,
            number=self.number,
            created_at=self.created_at,
            frozen_at=self.frozen_at,
            hash="" if is_draft else named(self.hash),
            facts=len(self.changes) if is_draft else Census(self.totals).of(None).facts,
            pins=len(self.pins),
        )


class _Tenant:
    """Everything of one tenant."""

    def __init__(self) -> None:
        self.snapshots: dict[str, _Snapshot] = {}
        self.versions: list[_Version | None] = []
        self.by_name: dict[Name, list[int]] = {}
        self.words: dict[str, dict[int, int]] = {}

    def frozen(self) -> list[_Snapshot]:
        """The snapshots in their order."""
        found = [each for each in self.snapshots.values() if each.number is not None]
        return sorted(found, key=lambda each: each.number or 0)

    def at(self, name: Name, number: int) -> _Version | None:
        """The version of a fact that stands in a snapshot."""
        found = (self.versions[each] for each in reversed(self.by_name.get(name, ())))
        return next((each for each in found if each is not None and each.stands_in(number)), None)


class MemoryEvidence:
    """A store that lives as long as its process."""

    def __init__(self) -> None:
        self._tenants: dict[str, _Tenant] = {}
        self._closed = False

    async def create(self, tenant: str, draft: str, *, now_ms: int) -> SnapshotHead:
        """Begin a draft."""
        home = self._home(tenant)
        check_name(draft)
        if draft in home.snapshots:
            raise SnapshotExists(draft)
        home.snapshots[draft] = made = _Snapshot(draft, now_ms)
        return made.head()

    async def put(
        self, tenant: str, draft: str, changes: Iterable[Change], *, progress: Progress = silent
    ) -> Added:
        """Add changes to a draft, all or none."""
        target = self._draft(tenant, draft)
        added, documents = dict[Name, Row](), dict[str, NewDocument]()
        count = Counter[str]()
        for done, each in enumerate(prepare(changes), start=1):
            if isinstance(each, NewDocument):
                documents[each.name] = each
                count["documents"] += 1
                for name in [name for name, row in added.items() if row.document == each.name]:
                    del added[name]
            else:
                added[each.classification, each.key] = each
                count["removals" if each.content is None else "facts"] += 1
            progress(done)
        # From here on nothing can fail.
        kept = {name: row for name, row in target.changes.items() if row.document not in documents}
        target.changes = kept | added
        target.documents |= documents
        return Added(count["facts"], count["documents"], count["removals"])

    async def freeze(
        self, tenant: str, draft: str, *, now_ms: int, name: str | None = None, progress: Progress = silent
    ) -> SnapshotHead:
        """Make a snapshot of a draft."""
        home, target = self._home(tenant), self._draft(tenant, draft)
        final = draft if name is None else name
        check_name(final)
        if final != draft and final in home.snapshots:
            raise SnapshotExists(final)
        line = home.frozen()
        before = line[-1] if line else _Snapshot("", 0, number=0)
        number = (before.number or 0) + 1
        chain, census = Chain(before.hash), Census(before.totals)
        changes = sorted(self._effective(home, target).items())
        for done, (key, row) in enumerate(changes, start=1):
            chain.add(row)
            _replace(home, census, key, row, number)
            progress(done)
        del home.snapshots[draft]
        target.name, target.number, target.frozen_at = final, number, now_ms
        target.hash, target.totals = chain.digest(), census.encode()
        target.changes, target.documents = {}, {}
        home.snapshots[final] = target
        return target.head()

    def _effective(self, home: _Tenant, target: _Snapshot) -> dict[Name, Row]:
        """The changes that change something, and the removal of what replaced documents had before."""
        changes = dict(target.changes)
        standing = {
            (each.row.classification, each.row.key): each.row
            for each in home.versions
            if each is not None and each.until == OPEN
        }
        for key, row in standing.items():
            if row.document in target.documents and key not in changes:
                changes[key] = Row(*key, None)
        return {
            key: row
            for key, row in changes.items()
            if (row.content is not None or key in standing)
            and not (key in standing and row.says_the_same_as(standing[key]))
        }

    async def discard(self, tenant: str, draft: str) -> None:
        """Drop a draft."""
        self._draft(tenant, draft)
        del self._home(tenant).snapshots[draft]

    async def head(self, tenant: str, name: str) -> SnapshotHead:
        """One snapshot or draft."""
        return self._snapshot(tenant, name).head()

    async def newest(self, tenant: str) -> SnapshotHead | None:
        """The frozen snapshot with the highest number."""
        line = self._home(tenant).frozen()
        return line[-1].head() if line else None

    async def heads(self, tenant: str, *, limit: int = 100) -> list[SnapshotHead]:
        """Drafts by name, then snapshots, newest first."""
        home = self._home(tenant)
        drafts = sorted(
            (each for each in home.snapshots.values() if each.number is None), key=lambda s: s.name
        )
        return [each.head() for each in (*drafts, *reversed(home.frozen()))][: max(limit, 0)]

    async def diff(self, tenant: str, before: str, after: str) -> list[Difference]:
        """In which facts two snapshots differ."""
        home = self._home(tenant)
        first, last = self._frozen(tenant, before), self._frozen(tenant, after)
        rows: list[tuple[str, str, bool, bytes]] = []
        for name in sorted(home.by_name):
            old, new = home.at(name, first.number or 0), home.at(name, last.number or 0)
            if old is not new:
                rows += [(*name, each is old, each.row.hash) for each in (old, new) if each is not None]
        return differences(rows, is_backwards=False)

    async def fact(self, tenant: str, ref: str) -> Fact:
        """A fact by its id."""
        parts = parse_ref(ref)
        if parts is None:
            raise FactUnknown(ref)
        snapshot = self._frozen(tenant, parts.snapshot)
        found = self._home(tenant).at((parts.classification, parts.key), snapshot.number or 0)
        if found is None:
            raise FactUnknown(ref)
        return fact_of(found.row, snapshot.name, snapshot.hash)

    async def facts(
        self,
        tenant: str,
        snapshot: str,
        *,
        classes: Sequence[str] | None = None,
        after: tuple[str, str] = ("", ""),
        limit: int = 1000,
    ) -> list[Fact]:
        """Facts behind a class and key, in the order of class and key."""
        home, chosen = self._home(tenant), self._frozen(tenant, snapshot)
        names = sorted(
            name for name in home.by_name if name > after and (classes is None or name[0] in classes)
        )
        found = (home.at(name, chosen.number or 0) for name in names)
        standing = [each for each in found if each is not None]
        return [fact_of(each.row, chosen.name, chosen.hash) for each in standing[: max(limit, 0)]]

    async def search(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str] | None = None, limit: int = 10
    ) -> list[Hit]:
        """The facts that share words with a query, best first."""
        home, chosen = self._home(tenant), self._frozen(tenant, snapshot)
        matches = [
            [
                Match(number, count, version.length)
                for number, count in home.words.get(word, {}).items()
                if (version := home.versions[number]) is not None
                and version.stands_in(chosen.number or 0)
                and (classes is None or version.row.classification in classes)
            ]
            for word in terms_of(query)
        ]
        scores = ranking.score(matches, Census(chosen.totals).of(classes))
        rows = {each: version.row for each in ranking.best(scores, limit) if (version := home.versions[each])}
        ordered = sorted(rows, key=lambda each: (-scores[each], rows[each][:2]))[: max(limit, 0)]
        return [Hit(fact_of(rows[each], chosen.name, chosen.hash, query), scores[each]) for each in ordered]

    async def pin(self, tenant: str, snapshot: str, session: str) -> None:
        """Keep a snapshot as long as a session needs it."""
        check_names(session)
        self._frozen(tenant, snapshot).pins.add(session)

    async def unpin(self, tenant: str, snapshot: str, session: str) -> None:
        """Give a pin up."""
        check_names(snapshot, session)
        if (found := self._home(tenant).snapshots.get(snapshot)) is not None:
            found.pins.discard(session)

    async def pins(self, tenant: str, snapshot: str) -> tuple[str, ...]:
        """Who pins a snapshot."""
        return tuple(sorted(self._frozen(tenant, snapshot).pins))

    async def forget(self, tenant: str, snapshot: str) -> None:
        """Remove a frozen snapshot, and the facts that stand in no other."""
        home, gone = self._home(tenant), self._frozen(tenant, snapshot)
        if gone.pins or gone is home.frozen()[-1]:
            raise SnapshotPinned(snapshot, tuple(sorted(gone.pins)) or ("whoever comes next",))
        del home.snapshots[snapshot]
        numbers = [each.number or 0 for each in home.frozen()]
        for index, version in enumerate(home.versions):
            if version is not None and not any(version.stands_in(number) for number in numbers):
                home.versions[index] = None
                home.by_name[version.row.classification, version.row.key].remove(index)
                for found in home.words.values():
                    found.pop(index, None)
        home.by_name = {name: found for name, found in home.by_name.items() if found}

    async def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    def _home(self, tenant: str) -> _Tenant:
        if self._closed:
            raise StoreClosed
        check_names(tenant)
        return self._tenants.setdefault(tenant, _Tenant())

    def _snapshot(self, tenant: str, name: str) -> _Snapshot:
        home = self._home(tenant)
        check_name(name)
        if name not in home.snapshots:
            raise SnapshotUnknown(name)
        return home.snapshots[name]

    def _draft(self, tenant: str, name: str) -> _Snapshot:
        found = self._snapshot(tenant, name)
        if found.number is not None:
            raise SnapshotFrozen(name)
        return found

    def _frozen(self, tenant: str, name: str) -> _Snapshot:
        found = self._snapshot(tenant, name)
        if found.number is None:
            raise SnapshotOpen(name)
        return found


def _replace(home: _Tenant, census: Census, name: Name, row: Row, number: int) -> None:
    """Let a fact end, and another take its place."""
    if (old := home.at(name, OPEN - 1)) is not None:
        old.until = number
        census.add(name[0], -1, -old.length)
    if row.content is None:
        return
    words = indexed(orjson.loads(row.content))
    index = len(home.versions)
    home.versions.append(_Version(row, number, OPEN, len(words)))
    home.by_name.setdefault(name, []).append(index)
    for word, count in Counter(words).items():
        home.words.setdefault(word, {})[index] = count
    census.add(name[0], 1, len(words))
