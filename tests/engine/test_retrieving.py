"""RETRIEVE: what a plan asks of a library, and what becomes of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.errors import GatewayError, UsageError
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan
from tercet.contracts.values.canonical import digest
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.evidence.retrieval import Named, WordRetriever
from tercet.evidence.sqlite import SqliteEvidence
from tercet.evidence.store import EvidenceStore, NewFact

from .workshop import ADA, ASK, BOB, Death, Workshop, events, plan, step

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Counting(WordRetriever):
    """Finds by words, and counts how often it is asked."""

    def __init__(self, store: EvidenceStore) -> None:
        super().__init__(store)
        self.asked: list[str] = []

    async def find(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str], limit: int
    ) -> Sequence[Named]:
        """What the store finds."""
        self.asked.append(query)
        return await super().find(tenant, snapshot, query, classes=classes, limit=limit)


class Closed:
    """A retriever that nobody can reach."""

    async def find(
        self, tenant: str, snapshot: str, query: str, *, classes: Sequence[str], limit: int
    ) -> Sequence[Named]:
        """Fails."""
        raise GatewayError("the library is closed", code="closed")


async def shelved(*facts: NewFact, name: str = "s7") -> SqliteEvidence:
    """A store with these facts in one snapshot."""
    store = SqliteEvidence.in_memory()
    await add(store, *facts, name=name)
    return store


async def add(store: EvidenceStore, *facts: NewFact, name: str) -> None:
    """Another snapshot."""
    await store.create("default", "draft", now_ms=1)
    await store.put("default", "draft", facts)
    await store.freeze("default", "draft", now_ms=2, name=name)


class Planner:
    """Proposes what it was given, one plan after the other."""

    name = "given"

    def __init__(self, *plans: Plan) -> None:
        self._plans = list(plans)

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """The next plan."""
        del config, feedback
        return self._plans.pop(0)


def fact(key: str, *, ends: datetime | None = None, classification: str = "customer") -> NewFact:
    """A fact about a customer."""
    return NewFact(
        classification=classification,
        key=key,
        content={"name": key, "note": "who"},
        trust=Trust.TRUSTED,
        expires_at=ends,
    )


def asks(name: str, **more: Any) -> Any:
    """A step that asks for a customer."""
    queries = ({"classification": "customer", "query": "who is it?"},)
    return step(name, requires_evidence=("customer",), evidence_queries=queries, **more)


@pytest.mark.req("R78")
def test_what_is_found_is_pinned_to_the_step_that_asked_in_a_new_revision() -> None:
    """The plan that is reviewed names the evidence; the facts are kept whole, and a step that asked nothing has none."""
    workshop = Workshop()
    workshop.tool("do.it")
    proposed = plan(asks("a"), step("b"))

    async def main() -> None:
        store = await shelved(fact("ann"), fact("ben"))
        async with workshop.runtime(workshop.pack(), evidence=store) as runtime:
            result = await runtime.run(ASK, planner=Planner(proposed), actor=ADA)
            assert result.status == "completed"
            state = await runtime.state(result.session_id)
            first, second = state.plan["steps"]
            assert first["evidence_refs"] == ["kg:customer:ann#snapshot_s7"]
            assert "evidence_refs" not in second
            assert (state.plan["revision"], state.plan["parent"]) == (2, proposed.hash)
            [found] = [
                x
                for x in await events(runtime.journal, result.session_id)
                if isinstance(x, e.EvidenceRetrieved)
            ]
            assert found.evidence == {"kg:customer:ann#snapshot_s7": digest(fact("ann").content)}
            assert b'"ann"' in await runtime.journal.blob("default", found.facts)

    workshop.run(main())


def test_a_callers_plan_is_never_changed() -> None:
    """Its questions are not asked, and it is refused for the evidence that it lacks."""
    workshop = Workshop()
    workshop.tool("do.it")

    async def main() -> None:
        store = await shelved(fact("ann"))
        counting = Counting(store)
        async with workshop.runtime(workshop.pack(), evidence=store, retriever=counting) as runtime:
            result = await runtime.run(ASK, plan=plan(asks("a")), actor=ADA)
            assert result.status == "failed"
            assert (counting.asked, workshop.calls) == ([], [])

    workshop.run(main())


def test_a_step_that_a_re_plan_keeps_is_not_asked_for_again() -> None:
    """It stays the same step with the same evidence, and is not carried out twice."""
    workshop = Workshop()
    workshop.tool("do.it")

    async def fail(*_: Any) -> Any:
        raise ValueError("no")

    workshop.tool("do.not", fail, mode="read_only")
    first = plan(asks("a"), step("b", "do.not", depends_on=("a",)))
    second = plan(asks("a"), step("c", depends_on=("a",)))

    async def main() -> None:
        pack = workshop.pack(budget={"max_step_retries": 0})
        store = await shelved(fact("ann"))
        counting = Counting(store)
        async with workshop.runtime(pack, evidence=store, retriever=counting) as runtime:
            result = await runtime.run(ASK, planner=Planner(first, second), actor=ADA)
            assert result.status == "completed"
            assert [name for name, _ in workshop.calls] == ["a", "b", "c"]
            assert len(counting.asked) == 1

    workshop.run(main())


def test_a_library_that_cannot_be_reached_pauses_the_run() -> None:
    """Nothing is called; a resume with the library asks again."""
    workshop = Workshop()
    workshop.tool("do.it")
    pack, planner = workshop.pack(), Planner(plan(asks("a")))

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            store = await shelved(fact("ann"))
            async with workshop.runtime(pack, journal, evidence=store, retriever=Closed()) as runtime:
                result = await runtime.run(ASK, planner=planner, actor=ADA)
                assert (result.status, workshop.calls) == ("paused", [])
                assert "the library is closed" in result.reason
            async with workshop.runtime(pack, journal, evidence=store) as runtime:
                assert (await runtime.resume(result.session_id, planner=planner)).status == "completed"

    workshop.run(main())


@pytest.mark.parametrize("nth", range(1, 6))
def test_another_process_goes_on_with_what_was_found(nth: int) -> None:
    """After a crash the facts come from the journal, byte for byte, even if the library says something else by then."""
    workshop = Workshop()
    workshop.tool("do.it", mode="read_only")
    pack, planner = workshop.pack(), Planner(*(plan(asks("a")) for _ in range(2)))

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            store = await shelved(fact("ann"))
            death = Death("after_append", nth)
            async with workshop.runtime(pack, journal, evidence=store, crash=death) as runtime:
                await death.of(runtime.run(ASK, planner=planner, actor=ADA))
            await add(store, fact("ann"), fact("aaron"), name="s8")
            async with workshop.runtime(pack, journal, evidence=store) as runtime:
                for row in await runtime.sessions():
                    result = await runtime.resume(row.session_id, planner=planner)
                    assert result.status == "completed"
                    state = await runtime.state(row.session_id)
                    assert state.plan["steps"][0]["evidence_refs"] == ["kg:customer:ann#snapshot_s7"]

    workshop.run(main())


def test_stale_evidence_closes_no_gate() -> None:
    """What has expired is not found; and what expires while a gate waits can no longer be approved."""
    workshop = Workshop()
    start = datetime.fromtimestamp(workshop.clock.now() / 1000, UTC)
    old, soon = fact("ann", ends=start - timedelta(seconds=1)), fact("ben", ends=start + timedelta(hours=1))
    workshop.tool("do.it", mode="network", reversibility="reversible")

    async def main() -> None:
        async with workshop.runtime(workshop.pack(), evidence=await shelved(old)) as runtime:
            result = await runtime.run(ASK, planner=Planner(*[plan(asks("a"))] * 3), actor=ADA)
            assert result.status == "failed"
        async with workshop.runtime(workshop.pack(), evidence=await shelved(soon)) as runtime:
            result = await runtime.run(
                ASK, planner=Planner(plan(asks("a", params={"order": "o1"}))), actor=ADA
            )
            assert result.status == "awaiting_gate"
            assert result.gate is not None
            await workshop.clock.sleep(3_600_000)
            with pytest.raises(UsageError) as caught:
                await runtime.approve(result.gate.id, actor=BOB)
            assert caught.value.code == "evidence_expired"
            denied = await runtime.deny(result.gate.id, actor=BOB)
            assert denied.status in ("rejected", "awaiting_gate")
        assert workshop.calls == []

    workshop.run(main())


def test_a_session_sees_nothing_that_changed_after_it_began() -> None:
    """While it waits at a gate the store gets another snapshot; the session stays at its own, pinned until it is over."""
    workshop = Workshop()
    workshop.tool("do.it", mode="network", reversibility="reversible")
    pack = workshop.pack(decision={"required_evidence": ("customer",)})
    asking = asks("a", params={"order": "o1"})

    async def main() -> None:
        store = await shelved(fact("ann"))
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(pack, journal, evidence=store) as runtime:
                planner = Planner(plan(asking))
                result = await runtime.run(ASK, planner=planner, actor=ADA)
                assert result.gate is not None
                assert await store.pins("default", "s7") == (result.session_id,)
            before = (await runtime.state(result.session_id)).start.evidence
            for number in range(20):
                await add(
                    store, fact("ann", classification="customer"), fact(f"new{number}"), name=f"t{number}"
                )
            async with workshop.runtime(pack, journal, evidence=store) as runtime:
                await runtime.approve(result.gate.id, actor=BOB)
                result = await runtime.resume(result.session_id, planner=planner)
                assert result.status == "completed"
                state = await runtime.state(result.session_id)
                assert (state.start.library, state.start.evidence) == ("s7", before)
            assert await store.pins("default", "s7") == ()

    workshop.run(main())


@pytest.mark.parametrize("resume", ["same", "pinned"])
def test_a_library_whose_snapshot_is_named_like_the_packs_is_kept_apart(resume: str) -> None:
    """A session that began with facts of both goes on with exactly these."""
    workshop = Workshop()
    workshop.tool("do.it", mode="network", reversibility="reversible")
    own = {"id": "kg:policy:own#snapshot_s7", "classification": "policy", "content": {"days": 30}}
    pack = workshop.pack(
        decision={"required_evidence": ("customer",)}, evidence=(own,), session={"resume": resume}
    )

    async def main() -> None:
        store = await shelved(fact("ann"))
        async with workshop.journal("memory:") as journal:
            planner = Planner(plan(asks("a", params={"order": "o1"})))
            async with workshop.runtime(pack, journal, evidence=store) as runtime:
                result = await runtime.run(ASK, planner=planner, actor=ADA)
                assert result.gate is not None
                await runtime.approve(result.gate.id, actor=BOB)
            async with workshop.runtime(pack, journal, evidence=store) as runtime:
                result = await runtime.resume(result.session_id, planner=planner)
                assert result.status == "completed"

    workshop.run(main())


@pytest.mark.req("R78")
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_session_asks_no_other_store_than_the_one_it_is_pinned_to(is_gone: bool) -> None:
    """One in which a snapshot of the same name says something else, and none at all, bring it to a halt, not to its end."""
    workshop = Workshop()
    workshop.tool("do.it")

    async def main() -> None:
        first, other = await shelved(fact("ann")), await shelved(fact("eve"))
        pack, proposed = workshop.pack(), plan(asks("a"))
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(pack, journal, evidence=first, retriever=Closed()) as runtime:
                result = await runtime.run(ASK, planner=Planner(proposed), actor=ADA)
                assert result.status == "paused"
            async with workshop.runtime(pack, journal, evidence=None if is_gone else other) as runtime:
                result = await runtime.resume(result.session_id, planner=Planner(proposed))
                assert (result.status, workshop.calls) == ("paused", [])
                assert "evidence cannot be looked up" in (result.reason or "")
            async with workshop.runtime(pack, journal, evidence=first) as runtime:
                result = await runtime.resume(result.session_id, planner=Planner(proposed))
                assert result.status == "completed"
                [first_step] = (await runtime.state(result.session_id)).plan["steps"]
                assert first_step["evidence_refs"] == ["kg:customer:ann#snapshot_s7"]

    workshop.run(main())


def test_a_store_that_is_locked_at_the_end_does_not_hide_how_a_run_ended(tmp_path: Path) -> None:
    """A long import holds the file while a run gives its pin up: the run is completed all the same."""
    workshop = Workshop()
    importer = sqlite3.connect(tmp_path / "evidence.db", isolation_level=None)

    async def lock(*_: Any) -> Any:
        importer.execute("BEGIN IMMEDIATE")
        return {}

    workshop.tool("do.it", lock)

    async def main() -> str:
        store = await SqliteEvidence.open(tmp_path / "evidence.db", patience_s=0.01)
        await add(store, fact("ann"), name="s7")
        async with workshop.runtime(workshop.pack(), evidence=store) as runtime:
            result = await runtime.run(ASK, planner=Planner(plan(step("a"))), actor=ADA)
        await store.close()
        return result.status

    try:
        assert workshop.run(main()) == "completed"
    finally:
        importer.close()


@pytest.mark.req("R218")
def test_what_a_run_learned_is_evidence_for_later_ones() -> None:
    """It has the trust of its lowest source, what is empty is dropped, and the record lists the rest."""
    workshop = Workshop()
    workshop.tool("do.it", mode="read_only")
    workshop.tool("read.mail", mode="read_only", untrusted=("/text",))
    learning = plan(
        step("a"),
        step("m", "read.mail", params={"text": "hello"}),
        memory={"habit": {"$from": "request#/order"}, "gossip": {"$from": "m#/text"}, "nothing": ""},
    )

    async def main() -> None:
        store = await shelved(fact("ann"))
        async with workshop.runtime(workshop.pack(), evidence=store) as runtime:
            result = await runtime.run(ASK, planner=Planner(learning), actor=ADA)
            assert result.status == "completed"
            record = await runtime.record(result.session_id)
            assert [each.classification for each in record.memory_proposals] == ["habit", "gossip"]
            head = await store.newest("default")
            assert head is not None
            found = await store.facts("default", head.name, classes=["episode"])
            told = {each.evidence.content["learned"]: each.evidence.trust.value for each in found}
            assert told == {"o1": "trusted", "hello": "untrusted"}

    workshop.run(main())


@pytest.mark.parametrize(
    "memory",
    [
        {"acct_666": {"$from": "request#/order"}},
        {"habit": {"$from": "acct_666#/order"}},
        {"habit": {"acct_666": {"$from": "request#/order"}}},
    ],
    ids=["class", "source", "key"],
)
def test_words_of_a_plan_are_not_trusted_because_they_were_remembered(memory: dict[str, Any]) -> None:
    """Neither the class of a memory, nor the step that it comes from, nor a key in it can name an account later on."""
    workshop = Workshop()
    workshop.tool("do.it", mode="read_only")
    workshop.tool("bank.pay", mode="network", authority=("to",), reversibility="reversible")
    learning = plan(step("acct_666", params={"order": {"$from": "request#/order"}}), memory=memory)
    queries = ({"classification": "episode", "query": "o1"},)
    asking = step("a", evidence_queries=queries)
    paying = plan(asking, step("b", "bank.pay", params={"to": "acct_666"}))

    async def main() -> None:
        store = await shelved(fact("ann"))
        pack = workshop.pack(budget={"max_replans": 0})
        async with workshop.runtime(pack, evidence=store) as runtime:
            assert (await runtime.run(ASK, planner=Planner(learning), actor=ADA)).status == "completed"
            result = await runtime.run(ASK, planner=Planner(paying), actor=ADA)
            state = await runtime.state(result.session_id)
            assert state.plan["steps"][0]["evidence_refs"]
            assert (result.status, state.verdict["code"]) == ("failed", "unbound_argument")
            head = await store.newest("default")
            assert head is not None
            [found] = await store.facts("default", head.name, classes=["episode"])
            is_trusted = found.evidence.trust.value == "trusted"
            assert not (is_trusted and "acct_666" in json.dumps(found.evidence.content))

    workshop.run(main())


@pytest.mark.req("R218")
def test_a_run_that_fails_teaches_nothing() -> None:
    """What it would have remembered is in no snapshot."""
    workshop = Workshop()

    async def fail(*_: Any) -> Any:
        raise ValueError("no")

    workshop.tool("do.it", fail, mode="read_only")
    learning = plan(step("a"), memory={"habit": {"$from": "request#/order"}})

    async def main() -> None:
        store = await shelved(fact("ann"))
        async with workshop.runtime(workshop.pack(budget={"max_replans": 0}), evidence=store) as runtime:
            result = await runtime.run(ASK, planner=Planner(learning), actor=ADA)
            assert result.status == "paused"
            head = await store.newest("default")
            assert head is not None
            assert head.name == "s7"

    workshop.run(main())


@pytest.mark.parametrize("nth", range(1, 7))
def test_a_crash_does_not_teach_twice(nth: int) -> None:
    """Whenever the process dies, another one finishes the run, and it is remembered once."""
    workshop = Workshop()
    workshop.tool("do.it", mode="read_only")
    learning = plan(step("a"), memory={"habit": {"$from": "request#/order"}})

    async def main() -> None:
        store = await shelved(fact("ann"))
        planner = Planner(*[learning] * 3)
        async with workshop.journal("memory:") as journal:
            death = Death("before_append", nth)
            async with workshop.runtime(workshop.pack(), journal, evidence=store, crash=death) as first:
                await death.of(first.run(ASK, planner=planner, actor=ADA))
            async with workshop.runtime(workshop.pack(), journal, evidence=store) as runtime:
                rows = await runtime.sessions()
                for row in rows:
                    assert (await runtime.resume(row.session_id, planner=planner)).status == "completed"
                head = await store.newest("default")
                assert head is not None
                assert len(await store.facts("default", head.name, classes=["episode"])) == len(rows)

    workshop.run(main())


def looks_up(name: str, tool: str, params: dict[str, Any]) -> Any:
    """A step that wants a tool to be asked."""
    queries = ({"classification": "order", "tool": tool, "params": params},)
    return step(name, requires_evidence=("order",), evidence_queries=queries)


@pytest.mark.req("R78")
def test_a_read_only_tool_can_be_asked_for_evidence() -> None:
    """What it says is pinned to the step that asked, with the tool as its source, and counts as a call."""
    workshop = Workshop()
    workshop.tool("do.it")
    workshop.tool("shop.order", attests=("order",), mode="read_only")
    asking = looks_up("a", "shop.order", {"order": {"$from": "request#/order"}})

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, planner=Planner(plan(asking)), actor=ADA)
            assert result.status == "completed"
            state = await runtime.state(result.session_id)
            [ref] = state.plan["steps"][0]["evidence_refs"]
            assert ref.startswith("kg:order:")
            [kept] = json.loads(await runtime.journal.blob("default", state.facts[0]))
            assert (kept["evidence"]["content"], kept["evidence"]["trust"]) == ({"order": "o1"}, "trusted")
            assert state.used.tool_calls == 2

    workshop.run(main())


@pytest.mark.parametrize("tool", ["do.it", "shop.unknown", "shop.secret", "misc.weather"])
def test_nothing_else_is_asked_before_the_review(tool: str) -> None:
    """A tool that may change something, is not there, is not for this run or attests something else is not called, and the plan is refused."""
    workshop = Workshop()
    workshop.tool("do.it")
    workshop.tool("shop.secret", attests=("order",), mode="read_only", roles=("boss",))
    workshop.tool("misc.weather", attests=("weather",), mode="read_only")

    async def main() -> None:
        async with workshop.runtime(workshop.pack(budget={"max_replans": 0})) as runtime:
            result = await runtime.run(ASK, planner=Planner(plan(looks_up("a", tool, {}))), actor=ADA)
            assert (result.status, workshop.calls) == ("failed", [])

    workshop.run(main())
