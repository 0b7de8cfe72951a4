"""Decision checkpoints at run time: a decision is taken after its step, recorded, and holds back what follows."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.plan import Plan
from tercet.core import events as e
from tercet.core.transcript import moment
from tercet.packs.pack import Pack

from .test_drift import FACT, fact
from .test_limits import taking
from .test_runs import Script
from .workshop import ADA, ASK, Workshop, events, names, plan, step

CHECKPOINT = ({"decision_id": "limits.check", "after_step": "b"},)


def decided(*more: Any, **first: Any) -> Plan:
    """A plan that looks a limit up, takes a decision by it, and acts."""
    return plan(
        step("a", evidence_refs=(FACT,), **first),
        step("b", "look.at", depends_on=("a",)),
        step("c", depends_on=("b",)),
        *more,
        decision_checkpoints=CHECKPOINT,
    )


def packed(workshop: Workshop, *, lives_ms: int | None = None, **header: Any) -> Pack:
    """A pack with a second decision, which requires a rule; looking takes a second."""
    workshop.tool("do.it")
    workshop.tool("look.at", taking(1_000), mode="read_only")
    made = workshop.pack(evidence=(fact(workshop, lives_ms=lives_ms),), **header)
    second = DecisionSpec(id="limits.check", required_evidence=("rule_evidence",))
    return made.model_copy(update={"decisions": (*made.decisions, second)})


@pytest.mark.req("R13")
def test_a_decision_is_taken_after_its_step(workshop: Workshop, url: str) -> None:
    """The journal, the record and the report name it with the evidence that it rests on, before the next step begins."""
    pack = packed(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=decided(), actor=ADA)
            assert result.status == "completed"
            found = await events(journal, result.session_id)
            [taken] = [event for event in found if isinstance(event, e.DecisionTaken)]
            assert (taken.decision, taken.step, taken.outcome) == ("limits.check", "b", "accept")
            assert taken.evidence == (FACT,)
            at = names(found).index("decision_taken")
            assert [isinstance(each, e.Complete) and each.step for each in found[at - 1 : at]] == ["b"]
            assert [each.step for each in found[at:] if isinstance(each, e.Intent)] == ["c"]
            decisions = (await runtime.record(result.session_id)).decisions
            assert decisions is not None
            [decision] = decisions
            assert (decision.decision_id, decision.after_step) == ("limits.check", "b")
            assert (decision.outcome, decision.evidence_refs) == ("accept", (FACT,))
            assert decision.decided_at == moment(taken.at)

    workshop.run(main())


@pytest.mark.req("R13")
@pytest.mark.parametrize("by", ["caller", "planner"])
def test_a_decision_whose_evidence_has_expired_holds_the_plan_back(workshop: Workshop, by: str) -> None:
    """Evidence that expires while the step runs is missing at the checkpoint: a planner is asked again, or a person."""
    pack = packed(workshop, lives_ms=500)
    again = plan(step("d"))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            planner = Script(decided(), again)
            result = await runtime.run(
                ASK, plan=decided() if by == "caller" else None, planner=None if by == "caller" else planner, actor=ADA
            )  # fmt: skip
            found = await events(runtime.journal, result.session_id)
            [taken] = [event for event in found if isinstance(event, e.DecisionTaken)]
            assert taken.reason == "evidence is missing or has expired: rule_evidence"
            assert taken.outcome == ("escalate" if by == "caller" else "replan")
            assert result.status == ("paused" if by == "caller" else "completed")
            judged = [event for event in found if isinstance(event, e.StepJudged) and event.step == "b"]
            assert [event.outcome for event in judged] == [taken.outcome]
            assert "decision limits.check cannot be taken after step b" in judged[0].reason

    workshop.run(main())
    assert ("c", 1) not in workshop.calls
    assert (("d", 1) in workshop.calls) is (by == "planner")


@pytest.mark.req("R13")
def test_evidence_of_a_step_that_was_left_out_does_not_count(workshop: Workshop) -> None:
    """What a skipped step pinned was not looked at, so the decision lacks it."""
    pack = packed(workshop)
    skipped = decided(when="1 > 2")

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=skipped, actor=ADA)
            assert result.status == "paused"

    workshop.run(main())
    assert workshop.calls == [("b", 1)]
