"""More facts of a class than a context holds: the related ones are there, the others are counted and can be pinned."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.request import Request
from tercet.core import events as e
from tercet.engine.evidence.library import MOST_COUNTED, MOST_FACTS, Library
from tercet.engine.sessions import decode_evidence
from tercet.evidence.store import EvidenceStore, NewFact

from .oracle import planner, scripted, told
from .test_retrieving import Planner, add, shelved
from .workshop import ADA, Workshop, events, plan, step

OURS = {"evidence": "customer", "field": "name", "equals": "request.who"}
"""The customer is the one that the request is about."""
MANY = MOST_FACTS + 1


def customer(number: int, trust: Trust = Trust.TRUSTED) -> NewFact:
    """A customer with a number, and a name that ends with it."""
    content = {"name": f"client {number:05}"}
    return NewFact(classification="customer", key=f"c{number:05}", content=content, trust=trust)


def ref(number: int) -> str:
    """The id of a customer."""
    return f"kg:customer:c{number:05}#snapshot_s7"


def asking(number: int) -> Request:
    """A request about a customer."""
    return Request(intent="work", input={"who": f"client {number:05}"})


def office(workshop: Workshop, **decision: Any) -> Any:
    """A pack whose decision requires a customer."""
    workshop.tool("do.it", mode="read_only")
    return workshop.pack(decision={"required_evidence": ["customer"], **decision})


async def select_evidence(store: EvidenceStore, pack: Any, request: Request) -> Any:
    """What a run begins with."""
    return await Library(store).select_evidence("default", pack.decisions[0], request, 1)


@pytest.mark.parametrize("count", [MOST_FACTS, MANY, MOST_COUNTED + 300])
def test_a_run_begins_with_the_facts_of_its_request(workshop: Workshop, count: int) -> None:
    """Also where there are more than fit, and where its own fact comes last of all; the others are counted."""
    pack = office(workshop, bind=[OURS])

    async def main() -> None:
        store = await shelved(*map(customer, range(count)))
        library_evidence = await select_evidence(store, pack, asking(count - 1))
        assert len(library_evidence.facts) == MOST_FACTS
        assert ref(count - 1) in {fact.id for fact in library_evidence.facts}
        counted = min(count, MOST_COUNTED + 1)
        assert library_evidence.left_out == ({"customer": counted - MOST_FACTS} if count > MOST_FACTS else {})

    workshop.run(main())


def test_without_a_relation_trusted_facts_come_first(workshop: Workshop) -> None:
    """Then by id; nothing is left out silently."""
    pack = office(workshop)

    async def main() -> None:
        first = customer(0, Trust.UNTRUSTED)
        store = await shelved(first, *(customer(number) for number in range(1, MANY)))
        library_evidence = await select_evidence(store, pack, asking(0))
        assert [fact.id for fact in library_evidence.facts] == [ref(number) for number in range(1, MANY)]
        assert library_evidence.left_out == {"customer": 1}

    workshop.run(main())


@pytest.mark.parametrize("origin", ["planner", "caller"])
def test_a_plan_may_pin_a_fact_that_was_left_out(workshop: Workshop, origin: str) -> None:
    """It is read from the pinned snapshot before review, kept with the session, and read again after a restart."""
    pack = office(workshop)
    pinned = plan(step("a", requires_evidence=("customer",), evidence_refs=(ref(MANY - 1),)))

    async def main() -> None:
        store = await shelved(*map(customer, range(MANY)))
        async with workshop.runtime(pack, evidence=store) as runtime:
            given: dict[str, Any] = {"plan": pinned} if origin == "caller" else {"planner": Planner(pinned)}
            result = await runtime.run(asking(0), actor=ADA, **given)
            assert result.status == "completed", result.reason
            found = await events(runtime.journal, result.session_id)
            (retrieved,) = (event for event in found if isinstance(event, e.EvidenceRetrieved))
            assert list(retrieved.evidence) == [ref(MANY - 1)]
            assert not retrieved.plan  # it names its evidence itself, so the plan stays as it is
            kept = await runtime.journal.blob("default", retrieved.facts)
            assert ref(MANY - 1) in kept.decode()

    workshop.run(main())


def test_a_fact_that_expired_or_is_of_another_snapshot_is_not_read(workshop: Workshop) -> None:
    """Only what the session is pinned to counts."""
    pack = office(workshop)

    async def main() -> None:
        store = await shelved(*map(customer, range(3)), name="s6")
        await add(store, customer(9), name="s7")
        wrong = (ref(0).replace("s7", "s6"), ref(7))
        for each in wrong:
            async with workshop.runtime(pack, evidence=store) as runtime:
                pinned = plan(step("a", requires_evidence=("customer",), evidence_refs=(each,)))
                result = await runtime.run(asking(0), actor=ADA, plan=pinned)
                assert result.verdict is not None
                assert result.verdict.code == "evidence_unresolved"

    workshop.run(main())


def test_a_refusal_says_how_many_facts_were_left_out(workshop: Workshop) -> None:
    """The remedy names the number, and the session keeps it: replay comes to the same words."""
    pack = office(workshop)

    async def main() -> None:
        store = await shelved(*map(customer, range(MANY)))
        async with workshop.runtime(pack, evidence=store) as runtime:
            result = await runtime.run(asking(0), actor=ADA, plan=plan(step("a")))
            assert result.verdict is not None
            assert result.verdict.code == "evidence_not_pinned"
            assert "1 fact of class customer was left out of the context" in result.verdict.remedy
            state = await runtime.state(result.session_id)
            assert state.start.left_out == {"customer": 1}
            blob = await runtime.journal.blob("default", state.start.evidence)
            assert len(decode_evidence(blob, is_from_library=True)) == MOST_FACTS

    workshop.run(main())


def test_a_prompt_holds_only_related_records(workshop: Workshop) -> None:
    """Facts of other customers are not shown, neither in the text nor in the schema; other classes are."""
    workshop.tool("do.it", mode="read_only")
    facts = [
        Evidence(id=f"kg:{name}#snapshot_s", content={"name": who}, trust=Trust.TRUSTED)
        for name, who in (("customer:ann", "ann"), ("customer:ben", "ben"), ("rule:one", "zoe"))
    ]
    pack = workshop.pack(decision={"bind": [OURS]}, evidence=facts)
    model = scripted({"steps": [{"tool": "do.it", "params": {}}]})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            await runtime.run(Request(intent="work", input={"who": "ann"}), planner=planner(model), actor=ADA)

    workshop.run(main())
    shown = f"{told(model.questions[0])}{model.questions[0].answer_schema}"
    assert "kg:customer:ann" in shown
    assert "kg:rule:one" in shown
    assert "ben" not in shown
