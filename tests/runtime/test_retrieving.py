"""RETRIEVE: what a plan asks of a library, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tercet.contracts.errors import GatewayError, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.plan import EvidenceQuery, Plan
from tercet.journal import events as e
from tercet.runtime.setting import Setting

from .workshop import ADA, ASK, BOB, Death, Workshop, events, plan, step

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Shelf:
    """A library of a few facts, which counts how often it is asked."""

    def __init__(self, *facts: Evidence) -> None:
        self.facts = facts
        self.asked: list[tuple[str, str, str]] = []

    async def find(self, tenant: str, snapshot: str, query: EvidenceQuery) -> Sequence[Evidence]:
        """The facts of the class."""
        self.asked.append((tenant, snapshot, query.query))
        found = [fact for fact in self.facts if fact.classification == query.classification]
        return found[: query.limit]


class Closed:
    """A library that nobody can enter."""

    async def find(self, tenant: str, snapshot: str, query: EvidenceQuery) -> Sequence[Evidence]:
        """Fails."""
        raise GatewayError("the library is closed", code="closed")


class Planner:
    """Proposes what it was given, one plan after the other."""

    name = "given"

    def __init__(self, *plans: Plan) -> None:
        self._plans = list(plans)

    async def propose(self, setting: Setting, feedback: tuple[str, ...]) -> Plan:
        """The next plan."""
        del setting, feedback
        return self._plans.pop(0)


def fact(key: str, *, ends: datetime | None = None) -> Evidence:
    """A fact about a customer."""
    return Evidence(id=f"kg:customer:{key}#snapshot_s7", content={"name": key}, expires_at=ends)


def asks(name: str, **more: Any) -> Any:
    """A step that asks for a customer."""
    queries = ({"classification": "customer", "query": "who is it?"},)
    return step(name, requires_evidence=("customer",), evidence_queries=queries, **more)


@pytest.mark.req("R78")
def test_what_is_found_is_pinned_to_the_step_that_asked_in_a_new_revision() -> None:
    """The plan that is reviewed names the evidence; the facts are kept whole, and a step that asked nothing has none."""
    workshop, shelf = Workshop(), Shelf(fact("ann"), fact("ben"))
    workshop.tool("do.it")
    proposed = plan(asks("a"), step("b"))

    async def main() -> None:
        async with workshop.runtime(workshop.pack(), library=shelf) as runtime:
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
            assert found.evidence == {"kg:customer:ann#snapshot_s7": fact("ann").hash}
            assert b'"ann"' in await runtime.journal.blob("default", found.facts)

    workshop.run(main())


def test_a_callers_plan_is_never_changed() -> None:
    """Its questions are not asked, and it is refused for the evidence that it lacks."""
    workshop, shelf = Workshop(), Shelf(fact("ann"))
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.runtime(workshop.pack(), library=shelf) as runtime:
            result = await runtime.run(ASK, plan=plan(asks("a")), actor=ADA)
            assert result.status == "failed"
            assert (shelf.asked, workshop.calls) == ([], [])

    workshop.run(main())


def test_a_step_that_a_re_plan_keeps_is_not_asked_for_again() -> None:
    """It stays the same step with the same evidence, and is not carried out twice."""
    workshop, shelf = Workshop(), Shelf(fact("ann"))
    workshop.tool("do.it")

    async def fail(*_: Any) -> Any:
        raise ValueError("no")

    workshop.tool("do.not", fail, mode="read_only")
    first = plan(asks("a"), step("b", "do.not", depends_on=("a",)))
    second = plan(asks("a"), step("c", depends_on=("a",)))

    async def main() -> None:
        pack = workshop.pack(budget={"max_step_retries": 0})
        async with workshop.runtime(pack, library=shelf) as runtime:
            result = await runtime.run(ASK, planner=Planner(first, second), actor=ADA)
            assert result.status == "completed"
            assert [name for name, _ in workshop.calls] == ["a", "b", "c"]
            assert len(shelf.asked) == 1

    workshop.run(main())


def test_a_library_that_cannot_be_reached_pauses_the_run() -> None:
    """Nothing is called; a resume with the library asks again."""
    workshop = Workshop()
    workshop.tool("do.it")
    pack, planner = workshop.pack(), Planner(plan(asks("a")))

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(pack, journal, library=Closed()) as runtime:
                result = await runtime.run(ASK, planner=planner, actor=ADA)
                assert (result.status, workshop.calls) == ("paused", [])
                assert "the library is closed" in result.reason
            async with workshop.runtime(pack, journal, library=Shelf(fact("ann"))) as runtime:
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
            death = Death("after_append", nth)
            async with workshop.runtime(pack, journal, library=Shelf(fact("ann")), crash=death) as runtime:
                await death.of(runtime.run(ASK, planner=planner, actor=ADA))
            async with workshop.runtime(pack, journal, library=Shelf(fact("ann"), fact("zoe"))) as runtime:
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
        async with workshop.runtime(workshop.pack(), library=Shelf(old)) as runtime:
            result = await runtime.run(ASK, planner=Planner(*[plan(asks("a"))] * 3), actor=ADA)
            assert result.status == "failed"
        async with workshop.runtime(workshop.pack(), library=Shelf(soon)) as runtime:
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
