"""Every store behaves like a few dicts, whatever is asked of it and in whatever order."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tercet.contracts.errors import UsageError
from tercet.contracts.text.words import terms_of
from tercet.contracts.values.canonical import digest, hash_bytes
from tercet.evidence.opening import open_evidence
from tercet.evidence.rows import indexed
from tercet.evidence.store import Change, EvidenceStore, NewDocument, NewFact, Removal

T = TypeVar("T")
Facts = dict[tuple[str, str], tuple[Any, str]]
"""What the facts say, and which document each is of."""

CLASSES = st.sampled_from(["order", "policy"])
KEYS = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.lists(st.sampled_from(["red", "blue", "apples", "plum", "the"]), min_size=1, max_size=4).map(
    " ".join
)
DRAFTS = st.sampled_from(["d1", "d2"])
EXAMPLES = 90
DOCUMENTS = st.sampled_from(["x.md", "y.md"])


class Model:
    """What a store should hold, for one tenant."""

    def __init__(self) -> None:
        self.drafts: dict[str, list[Change]] = {}
        self.frozen: dict[str, Facts] = {}
        self.pins: dict[str, set[str]] = {}

    def newest(self) -> Facts:
        """The facts that the next snapshot begins with."""
        return dict(list(self.frozen.values())[-1]) if self.frozen else {}

    def freeze(self, draft: str, name: str) -> None:
        """Apply the changes of a draft to the newest snapshot."""
        facts, changed = self.newest(), Facts()
        before = dict(facts)
        removed: set[tuple[str, str]] = set()
        for change in self.drafts.pop(draft):
            match change:
                case NewDocument():
                    removed |= {each for each, (_, document) in before.items() if document == change.name}
                    changed = {each: told for each, told in changed.items() if told[1] != change.name}
                case NewFact():
                    changed[change.classification, change.key] = (change.content, change.document)
                    removed.discard((change.classification, change.key))
                case Removal():
                    changed.pop((change.classification, change.key), None)
                    removed.add((change.classification, change.key))
        kept = {each: told for each, told in facts.items() if each not in removed}
        self.frozen[name] = {**kept, **changed}


class EvidenceMachine(RuleBasedStateMachine):
    """Acts on a store and on the model, and compares."""

    def __init__(self, url: str, *, durable: bool) -> None:
        super().__init__()
        self.url = url
        self.durable = durable
        self.runner = asyncio.Runner()
        self.model = Model()
        self.count = 0
        self.tenant = f"tenant-{secrets.token_hex(8)}"
        self.store = self.run(self.open())
        self.answers: dict[tuple[str, str], Any] = {}
        """What searches found: it must stay so."""

    async def open(self) -> EvidenceStore:
        """Open the store."""
        return await open_evidence(self.url)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine on this machine's loop."""
        return self.runner.run(coroutine)

    def code(self, coroutine: Coroutine[Any, Any, Any]) -> str | None:
        """The code of the error that a call raises."""
        try:
            self.run(coroutine)
        except UsageError as error:
            return error.code
        return None

    @rule(draft=DRAFTS)
    def create(self, draft: str) -> None:
        """Begin a draft, unless it is there."""
        expected = "snapshot_exists" if draft in self.model.drafts else None
        assert self.code(self.store.create(self.tenant, draft, now_ms=1)) == expected
        self.model.drafts.setdefault(draft, [])

    def put(self, draft: str, changes: list[Change]) -> None:
        """Put changes into a draft, if there is one."""
        if draft not in self.model.drafts:
            assert self.code(self.store.put(self.tenant, draft, changes)) == "snapshot_unknown"
            return
        self.run(self.store.put(self.tenant, draft, changes))
        self.model.drafts[draft] += changes

    @rule(draft=DRAFTS, facts=st.lists(st.tuples(CLASSES, KEYS, TEXTS), min_size=1, max_size=4))
    def add(self, draft: str, facts: list[tuple[str, str, str]]) -> None:
        """Add facts."""
        self.put(draft, [NewFact(classification=c, key=key, content=text) for c, key, text in facts])

    @rule(draft=DRAFTS, classification=CLASSES, key=KEYS)
    def remove(self, draft: str, classification: str, key: str) -> None:
        """Remove a fact."""
        self.put(draft, [Removal(classification=classification, key=key)])

    @rule(draft=DRAFTS, name=DOCUMENTS, texts=st.lists(TEXTS, max_size=3))
    def add_document(self, draft: str, name: str, texts: list[str]) -> None:
        """Add a document with its chunks."""
        changes: list[Change] = [NewDocument(name=name, hash=hash_bytes(" ".join(texts).encode()))]
        changes += [
            NewFact(
                classification="policy", key=f"{name}/{number}", content=text, document=name, chunk=number
            )
            for number, text in enumerate(texts)
        ]
        self.put(draft, changes)

    @rule(draft=DRAFTS)
    def discard(self, draft: str) -> None:
        """Drop a draft."""
        expected = None if draft in self.model.drafts else "snapshot_unknown"
        assert self.code(self.store.discard(self.tenant, draft)) == expected
        self.model.drafts.pop(draft, None)

    @rule(draft=DRAFTS)
    def freeze(self, draft: str) -> None:
        """Freeze a draft under a new name."""
        name = f"s{self.count}"
        call = self.store.freeze(self.tenant, draft, now_ms=2, name=name)
        if draft not in self.model.drafts:
            assert self.code(call) == "snapshot_unknown"
            return
        head = self.run(call)
        self.count += 1
        self.model.freeze(draft, name)
        self.model.pins[name] = set()
        assert head.facts == len(self.model.frozen[name])

    def some(self, pick: int) -> str | None:
        """One of the frozen snapshots."""
        names = list(self.model.frozen)
        return names[pick % len(names)] if names else None

    @rule(pick=st.integers(0, 50), session=st.sampled_from(["ses_1", "ses_2"]), is_on=st.booleans())
    def pin(self, pick: int, session: str, is_on: bool) -> None:
        """Pin a snapshot, or give a pin up."""
        if (name := self.some(pick)) is None:
            return
        if is_on:
            self.run(self.store.pin(self.tenant, name, session))
            self.model.pins[name].add(session)
        else:
            self.run(self.store.unpin(self.tenant, name, session))
            self.model.pins[name].discard(session)
        assert self.run(self.store.pins(self.tenant, name)) == tuple(sorted(self.model.pins[name]))

    @rule(pick=st.integers(0, 50))
    def forget(self, pick: int) -> None:
        """Forget a snapshot that is not the newest and that nobody pins."""
        if (name := self.some(pick)) is None:
            return
        is_kept = bool(self.model.pins[name]) or name == list(self.model.frozen)[-1]
        code = self.code(self.store.forget(self.tenant, name))
        assert code == ("snapshot_pinned" if is_kept else None)
        if not is_kept:
            del self.model.frozen[name], self.model.pins[name]
            self.answers = {place: found for place, found in self.answers.items() if place[0] != name}

    @rule(pick=st.integers(0, 50), query=TEXTS)
    def search(self, pick: int, query: str) -> None:
        """A search finds the facts that share a word, and finds the same whenever it is asked."""
        if (name := self.some(pick)) is None:
            return
        hits = self.run(self.store.search(self.tenant, name, query, limit=100))
        terms = set(terms_of(query))
        expected = {
            f"kg:{c}:{key}#snapshot_{name}"
            for (c, key), (content, _) in self.model.frozen[name].items()
            if terms & set(indexed(content))
        }
        assert {hit.fact.evidence.id for hit in hits} == expected
        order = [(-hit.score, hit.fact.evidence.id) for hit in hits]
        assert order == sorted(order)
        assert self.answers.setdefault((name, query), hits) == hits

    @rule(one=st.integers(0, 50), other=st.integers(0, 50))
    def diff(self, one: int, other: int) -> None:
        """A diff names the facts that say something else, and no others that say the same in the same document."""
        before, after = self.some(one), self.some(other)
        if before is None or after is None:
            return
        old, new = self.model.frozen[before], self.model.frozen[after]
        found = {
            (each.classification, each.key): each
            for each in self.run(self.store.diff(self.tenant, before, after))
        }
        for name in old.keys() | new.keys():
            hashes = tuple(digest(side[name][0]) if name in side else None for side in (old, new))
            if hashes[0] != hashes[1]:
                assert (found[name].before, found[name].after) == hashes
        for name, each in found.items():
            assert name in old or name in new
            assert each.kind == ("added" if name not in old else "removed" if name not in new else "changed")

    @rule()
    def reopen(self) -> None:
        """Close the store and open it again."""
        if self.durable:
            self.run(self.store.close())
            self.store = self.run(self.open())

    @invariant()
    def snapshots_hold_what_they_should(self) -> None:
        """All snapshots and drafts are there, with the facts of the model."""
        heads = self.run(self.store.heads(self.tenant))
        assert [head.name for head in heads] == [*sorted(self.model.drafts), *reversed(self.model.frozen)]
        for name, facts in self.model.frozen.items():
            told = self.run(self.store.facts(self.tenant, name))
            expected = [(f"kg:{c}:{key}#snapshot_{name}", facts[c, key][0]) for c, key in sorted(facts)]
            assert [(each.evidence.id, each.evidence.content) for each in told] == expected

    def teardown(self) -> None:
        """Close everything."""
        self.run(self.store.close())
        self.runner.close()


def check(make: Callable[[], EvidenceMachine], examples: int) -> None:
    """Run the machine."""
    factory = cast("type[RuleBasedStateMachine]", make)  # anything that makes a machine will do
    # Closing a store joins its threads, which takes a while on a busy machine.
    slow = [HealthCheck.too_slow]
    run_state_machine_as_test(
        factory, settings=settings(max_examples=examples, stateful_step_count=30, suppress_health_check=slow)
    )


def test_memory_behaves_like_dicts() -> None:
    """The store in memory does what the model does."""
    check(lambda: EvidenceMachine("memory:", durable=False), EXAMPLES)


@pytest.mark.slow
def test_sqlite_behaves_like_dicts() -> None:
    """The store in a SQLite file does what the model does."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'evidence.db'}"
        check(lambda: EvidenceMachine(url, durable=True), EXAMPLES // 3)


def test_postgres_behaves_like_dicts(postgres_url: str) -> None:
    """The store on a PostgreSQL server does what the model does."""
    check(lambda: EvidenceMachine(postgres_url, durable=True), EXAMPLES // 5)
