"""Where what a run made came from, and the whole way there: from the events alone, and the same from a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import oracle
from engine.happenings import possible, started
from engine.workshop import ADA, ASK, BOB, Workshop, events, plan, step
from tercet.contracts.errors import ReplayError
from tercet.contracts.plan import Plan
from tercet.contracts.runs.record import (
    AgentResult,
    AuditRecord,
    FailureReport,
    HaltRecord,
    PhaseCost,
    Provenance,
)
from tercet.contracts.tasks import TaskLibrary
from tercet.contracts.values.canonical import digest, hash_bytes
from tercet.core import codec
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.state import State
from tercet.engine.checks.provenance import (
    Trail,
    audit_of,
    checkpoint_chain,
    cost_by_phase,
    provenance_of,
    read_trail,
)
from tercet.engine.models.planner import ModelPlanner
from tercet.evidence.sqlite import SqliteEvidence
from tercet.evidence.store import NewDocument, NewFact
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal, Stored, StoredCheckpoint
from tercet.replay.bundle.exporting import export_run
from tercet.replay.bundle.reading import open_bundle
from tercet.testing.models import ScriptedModel

from .archive import FACT, TENANT, run_to_the_end, run_to_the_gate, shop

GUIDE = b"# Refunds\n\nA refund takes two days."


class Planner:
    """Proposes one plan."""

    name = "given"

    def __init__(self, proposed: Plan) -> None:
        self._proposed = proposed

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """The plan."""
        del config, feedback
        return self._proposed


async def library() -> SqliteEvidence:
    """A store with one chunk of a document, and a fact that is of none."""
    store = SqliteEvidence.in_memory()
    await store.create(TENANT, "draft", now_ms=1)
    chunk = NewFact(
        classification="policy", key="guide.md/0", content={"text": "A refund takes two days."},
        source="guide.md", document="guide.md", chunk=0, start=11, end=len(GUIDE),
    )  # fmt: skip
    await store.put(TENANT, "draft", [NewDocument(name="guide.md", hash=hash_bytes(GUIDE)), chunk])
    await store.freeze(TENANT, "draft", now_ms=2, name="s7")
    return store


def summed(audit: AuditRecord) -> PhaseCost:
    """What all phases took together."""
    costs = audit.cost_by_phase.values()
    names = PhaseCost.model_fields
    return PhaseCost.model_validate({name: sum(getattr(cost, name) for cost in costs) for name in names})


@pytest.mark.req("R46", "R210", "R216")
def test_evidence_is_traced_to_its_document_chunk_and_query(workshop: Workshop) -> None:
    """The id of the fact, the document with its hash, the part of it, and the words that led there."""
    workshop.tool("do.it")
    queries = ({"classification": "policy", "query": "how long does a refund take?"},)
    asking = plan(
        step("a", requires_evidence=("policy",), evidence_queries=queries), step("b", depends_on=("a",))
    )

    async def main() -> None:
        pack = workshop.pack(decision={"untrusted_evidence": ("policy",)})
        async with workshop.runtime(pack, evidence=await library()) as runtime:
            result = await runtime.run(ASK, planner=Planner(asking), actor=ADA)
            left = await runtime.artifact(result.session_id)
            assert isinstance(left, AgentResult)
            origin = left.provenance
            assert origin.evidence_refs == ("kg:policy:guide.md/0#snapshot_s7",)
            (source,) = origin.sources
            assert (source.evidence, source.document, source.chunk) == (
                origin.evidence_refs[0],
                "guide.md",
                0,
            )
            assert GUIDE[source.start : source.end] == b"A refund takes two days."
            assert source.document_hash == hash_bytes(GUIDE)
            assert source.query == "how long does a refund take?"
            assert source.content_hash == digest({"text": "A refund takes two days."})
            assert source.snapshot_hash
            assert origin.tool_invocations == tuple(workshop.keys)
            state = await runtime.state(result.session_id)
            assert (origin.task_id, origin.plan_hash) == (state.start.run, state.plan_hash)

    workshop.run(main())


@pytest.mark.req("R47", "R214", "R321")
def test_costs_are_told_by_what_they_were_for(workshop: Workshop) -> None:
    """A model's plan is planning, a call is execution; together they are all that the run has used up."""
    model = oracle.scripted(oracle.GOOD)
    pack = oracle.shop(workshop)

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(oracle.ORDER, planner=oracle.planner(model), actor=ADA)
            left = await runtime.artifact(result.session_id)
            assert isinstance(left, AgentResult)
            used = (await runtime.state(result.session_id)).used
            told = await events(runtime.journal, result.session_id)
            (answer,) = [event for event in told if isinstance(event, e.ModelAnswered)]
            costs = left.audit.cost_by_phase
            assert set(costs) == {"planning", "retrieval", "execution", "verification", "critique", "repair"}
            planning = (costs["planning"].tokens, costs["planning"].cost_microcents)
            assert planning == (answer.tokens_in + answer.tokens_out, answer.cost)
            assert costs["execution"].tool_calls == 2
            assert summed(left.audit) == PhaseCost(
                cost_microcents=used.cost,
                tokens=used.tokens,
                tool_calls=used.tool_calls,
                latency_ms=used.wall_clock,
            )
            assert left.audit.total_cost_microcents == used.cost
            assert (left.provenance.model_id, left.provenance.models) == (model.name, (model.name,))

    workshop.run(main())


def trail_of(told: Sequence[e.Event]) -> Trail:
    """The trail of a session with these events."""
    stored = tuple(Stored(seq, codec.encode(event), b"") for seq, event in enumerate(told, 1))
    return Trail(session="ses_1", stored=stored, citations={})


@pytest.mark.req("R214")
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_happens_the_phases_add_up(data: st.DataObject) -> None:
    """Over any course of events the shares are the whole."""
    told: list[e.Event] = [started()]
    trail = trail_of(told)
    for _ in range(data.draw(st.integers(0, 25))):
        at = trail.state.at + data.draw(st.integers(0, 50))
        if trail.state.is_over or not (next_ones := possible(trail.state, at)):
            break
        told = [*told, data.draw(st.sampled_from(next_ones))]
        trail = trail_of(told)
    used = trail.state.used
    costs = cost_by_phase(trail.states).values()
    assert sum(cost.cost_microcents for cost in costs) == used.cost
    assert sum(cost.tokens for cost in costs) == used.tokens
    assert sum(cost.tool_calls for cost in costs) == used.tool_calls
    assert sum(cost.latency_ms for cost in costs) == used.wall_clock


@pytest.mark.req("R215")
def test_every_checkpoint_from_the_beginning_on_comes_out_again(workshop: Workshop) -> None:
    """From k = 0 to the end each is what the events come to there, and names the one before it."""
    pack = shop(workshop)

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            session = await run_to_the_end(workshop, pack, journal)
            trail = await read_trail(journal, TENANT, session)
            chain = checkpoint_chain(trail)
            assert [link.k for link in chain] == list(range(len(chain)))
            assert (chain[0].position, chain[0].phase, chain[-1].status) == (0, "PLAN", "completed")
            assert chain[-1].position == len(trail.events)
            assert [link.previous for link in chain[1:]] == [link.hash for link in chain[:-1]]
            points = [each for each in trail.checkpoints if each.kind == "point"]
            assert [link.checkpoint for link in chain[1:]] == [each.hash for each in points]
            for number, point in enumerate(points):
                moved = StoredCheckpoint(point.seq - 1, point.kind, point.hash, point.data)
                swapped = replace(trail, checkpoints=(*points[:number], moved))
                with pytest.raises(ReplayError):
                    checkpoint_chain(swapped)
            with pytest.raises(ReplayError, match="at most"):
                checkpoint_chain(replace(trail, stored=trail.stored[:-1]))

    workshop.run(main())


@pytest.mark.req("R46", "R47", "R210", "R216")
def test_a_bundle_has_the_provenance_of_its_journal(workshop: Workshop, tmp_path: Path) -> None:
    """Content-addressed: the same run has the same hash, from the file as well; a changed field has another."""
    pack = shop(workshop)

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            session = await run_to_the_end(workshop, pack, journal)
            await export_run(journal, TENANT, session, tmp_path / "run.tercet")
            trail = await read_trail(journal, TENANT, session)
            with open_bundle(tmp_path / "run.tercet") as bundle:
                other = await read_trail(bundle.journal(), TENANT, session)
                assert audit_of(other) == audit_of(trail)
                origin = provenance_of(other)
            assert origin == provenance_of(trail)
            assert origin.hash == provenance_of(trail).hash == digest(origin)
            changed = Provenance.model_validate({**origin.model_dump(), "approver": "eve"})
            assert origin.hash != changed.hash
            assert (origin.approver, origin.approvers) == ("bob", ("bob",))
            assert [(each.evidence, each.document) for each in origin.sources] == [(FACT.id, "test")]
            assert origin.sources[0].content_hash == FACT.hash
            with pytest.raises(ValueError, match="frozen"):
                origin.approver = "eve"  # pyright: ignore[reportAttributeAccessIssue] - what is tried here

    workshop.run(main())


async def _failed(workshop: Workshop, journal: Journal) -> tuple[FailureReport, State]:
    pack = shop(workshop)
    session = await run_to_the_gate(workshop, pack, journal)
    async with workshop.runtime(pack, journal) as runtime:
        waiting = await runtime.artifact(session)
        assert isinstance(waiting, HaltRecord)
        _demand_lineage(waiting.provenance, await runtime.state(session))
        await runtime.deny(f"{session}.g1", actor=BOB)
        await runtime.resume(session)
        left = await runtime.artifact(session)
        assert isinstance(left, FailureReport)
        return left, await runtime.state(session)


def _demand_lineage(origin: Provenance | None, state: State) -> None:
    assert origin is not None
    assert (origin.task_id, origin.plan_hash) == (state.start.run, state.plan_hash)
    assert origin.evidence_refs == (FACT.id,)
    assert len(origin.tool_invocations) == 2


@pytest.mark.req("R216", "R219")
def test_what_failed_or_waits_has_its_lineage_too(workshop: Workshop) -> None:
    """A report of a failure and a point to go on from say what they stand on."""

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            left, state = await _failed(workshop, journal)
            assert left.status == "rejected"
            _demand_lineage(left.provenance, state)

    workshop.run(main())


@pytest.mark.req("R217")
def test_a_record_has_both_envelopes_of_the_critic(workshop: Workshop) -> None:
    """What verify said, with the kind and the step that it was about, and the scorecard of what was run."""
    workshop.tool("do.it")
    pack = workshop.pack()

    async def record(course: Plan) -> dict[str, Any]:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=course, actor=ADA)
            return (await runtime.record(result.session_id)).report.model_dump(mode="json")

    async def main() -> None:
        done = await record(plan(step("a")))
        assert done["verify"]["ok"]
        assert set(done["score"]["scorecard"]["scores"]) == {"policy", "utility", "latency", "safety", "cost"}
        refused = await record(plan(step("a"), step("b", "no.such")))
        assert (refused["verify"]["ok"], refused["verify"]["kind"]) == (False, "violates_decision_spec")
        assert refused["verify"]["offending_step"] == 1

    workshop.run(main())


@pytest.mark.req("R211")
def test_the_same_output_has_the_same_content_hash(workshop: Workshop) -> None:
    """Two runs that made the same are told apart by their provenance and not by their output."""
    workshop.tool("do.it")
    pack = workshop.pack()

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            left: list[AgentResult] = []
            for _ in range(2):
                result = await runtime.run(
                    ASK, plan=plan(step("a"), outputs={"x": {"$from": "a#/n"}}), actor=ADA
                )
                found = await runtime.artifact(result.session_id)
                assert isinstance(found, AgentResult)
                left.append(found)
            assert left[0].content_hash == left[1].content_hash == digest({"x": "a"})
            assert left[0].provenance.hash != left[1].provenance.hash

    workshop.run(main())


@pytest.mark.req("R212")
def test_a_commit_is_durable_has_its_event_and_is_remembered(workshop: Workshop, tmp_path: Path) -> None:
    """Another process finds the committed result, its last event and its record, and later runs the episode."""
    workshop.tool("do.it", mode="read_only")
    learning = plan(
        step("a"), memory={"habit": {"$from": "request#/order"}}, outputs={"x": {"$from": "a#/n"}}
    )
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def main() -> None:
        store = await library()
        pack = workshop.pack()
        async with (
            workshop.journal(url) as journal,
            workshop.runtime(pack, journal, evidence=store) as runtime,
        ):
            session = (await runtime.run(ASK, planner=Planner(learning), actor=ADA)).session_id
        with workshop.clock.hold():
            async with open_journal(url) as other:
                trail = await read_trail(other, TENANT, session)
                last = trail.events[-1]
                assert isinstance(last, e.SessionEnded)
                assert (last.status, last.outputs) == ("completed", {"x": "a"})
                assert hash_bytes(await other.blob(TENANT, last.kept)) == last.kept
                assert trail.checkpoints[-1].seq == len(trail.events)
        head = await store.newest(TENANT)
        assert head is not None
        (episode,) = await store.facts(TENANT, head.name, classes=["episode"])
        assert episode.evidence.content["learned"] == "o1"

    workshop.run(main())


GOAL: dict[str, Any] = {
    "tasks": [
        {"name": "work", "tool": "do.it", "args": ["n"], "params": {"n": {"$arg": "n"}}},
    ],
    "goals": [
        {
            "intent": "work",
            "task": "work",
            "args": {"n": {"$from": "request#/order"}},
            "memory": {"habit": {"$from": "work#/n"}},
        }
    ],
}


@pytest.mark.req("R212")
@pytest.mark.parametrize("by", ["template", "htn", "model"])
def test_every_planner_may_propose_what_to_remember(workshop: Workshop, by: str) -> None:
    """A template, a goal of tasks and the plan of a model each leave an episode, once their run is committed."""
    workshop.tool("do.it", mode="read_only")
    told = {"habit": {"$from": "request#/order"}}
    pack = workshop.pack(
        templates=(plan(step("a"), memory=told),) if by == "template" else (),
        library=TaskLibrary.model_validate(GOAL if by == "htn" else {}),
    )
    steps = [{"id": "a", "tool": "do.it", "params": {"n": {"$from": "request#/order"}}}]
    model = ScriptedModel("scripted:one", answers=({"steps": steps, "memory": told},))
    planner = ModelPlanner([model]) if by == "model" else None

    async def main() -> None:
        store = await library()
        async with workshop.runtime(pack, evidence=store) as runtime:
            result = await runtime.run(ASK, planner=planner, actor=ADA)
            assert result.status == "completed", result.reason
            record = await runtime.record(result.session_id)
        assert [each.classification for each in record.memory_proposals] == ["habit"]
        head = await store.newest(TENANT)
        assert head is not None
        (episode,) = await store.facts(TENANT, head.name, classes=["episode"])
        assert episode.evidence.content["learned"] == "o1"

    workshop.run(main())
