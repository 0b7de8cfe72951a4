"""Recorded runs under another pack: exactly those that it touches are found, each at its first changed verdict."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from engine.workshop import ADA, ASK, BOB, Workshop, plan, step
from tercet.contracts.gate import Gate, Policy
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording, load
from tercet.replay.what_if import Rejudged, WhatIfReport, what_if

from .office import LOOSE, TIGHT, record, refunds


@pytest.mark.req("R275", "R276")
def test_a_thousand_runs_under_one_tightened_policy(workshop: Workshop) -> None:
    """On all cores, exactly the runs whose sum the tightened policy forbids change, and at their review."""
    drawn = random.Random(7)  # noqa: S311 - the same runs every time
    sums = [drawn.randint(1, 200) for _ in range(1_000)]
    runs = record(workshop, refunds(workshop, LOOSE), sums)
    seen: list[int] = []
    report = what_if(runs, refunds(workshop, TIGHT, version="1.1.0"), workers=2, progress=seen.append)
    touched = {run.session for run, sum_ in zip(runs, sums, strict=True) if sum_ > 100}
    changed = {each.session_id: each for each in report.runs if each.outcome == "changed"}
    assert set(changed) == touched
    assert (report.changed, report.unchanged, report.unreadable) == (len(touched), 1_000 - len(touched), 0)
    assert [each.session_id for each in report.runs] == [run.session for run in runs]
    assert seen[-1] == 1_000
    for each in changed.values():
        assert each.change is not None
        assert (each.change.event, each.change.old.verdict, each.change.new.verdict) == (
            "plan_reviewed",
            "ok",
            "reject",
        )
        assert each.change.new.details["code"] == "policy_invariant"
        assert "small_refunds" in each.change.new.reasons[0]
        assert (each.old_status, each.new_status) == ("completed", "failed")


def gated(workshop: Workshop, **header: Any) -> Pack:
    """A pack whose one tool waits for the boss."""
    if not workshop.tools:
        workshop.tool(
            "pay.back", mode="network", gates=("BOSS",), authority=(), no_compensation="paid is paid"
        )
    gates = header.pop("gates", (Gate(name="BOSS", roles=("boss",)),))
    return workshop.pack(gates=gates, **header)


def approved(workshop: Workshop, pack: Pack) -> Recording:
    """A run that waited at its gate, was approved and ended well."""

    async def main() -> Recording:
        journal = MemoryJournal()
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("pay", "pay.back")), actor=ADA)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            assert result.status == "completed"
            return await load(journal, "default", result.session_id)

    return workshop.run(main())


def only(report: WhatIfReport) -> Rejudged:
    """The one run that was judged."""
    [run] = report.runs
    return run


def test_what_nobody_is_asked_about_changes_nothing(workshop: Workshop) -> None:
    """Under a pack with another description and version the approvals of a run count as they did."""
    run = approved(workshop, gated(workshop))
    found = only(what_if([run], gated(workshop, version="2.0.0", description="other words")))
    assert (found.outcome, found.change) == ("unchanged", None)
    assert found.old_scores == found.new_scores != {}
    assert found.verdicts == 4  # review, gate, step, run


@pytest.mark.req("R276")
def test_a_gate_that_asks_for_more_people_is_a_changed_verdict(workshop: Workshop) -> None:
    """The run would still wait where one approval was enough: the change is at the gate, with who is asked now."""
    run = approved(workshop, gated(workshop))
    two = gated(workshop, gates=(Gate(name="BOSS", roles=("boss",), quorum=2),))
    found = only(what_if([run], two))
    assert found.change is not None
    assert (found.change.event, found.change.step) == ("gate_opened", "pay")
    assert found.change.old.details == {"needs": {"BOSS": [["boss"], 1]}}
    assert found.change.new.details == {"needs": {"BOSS": [["boss"], 2]}}
    assert (found.old_status, found.new_status) == ("completed", "awaiting_gate")


def test_a_policy_that_demands_a_gate_touches_what_it_names(workshop: Workshop) -> None:
    """A run that nobody was asked about would wait; one below the limit would not."""
    pack = refunds(workshop, LOOSE)
    runs = record(workshop, pack, [5, 500])
    asks = Policy(
        name="large", scope="step", effect="gate", gate="BOSS", expression="int(step.params.sum) <= 100"
    )
    other = workshop.pack(policies=(LOOSE, asks), gates=(Gate(name="BOSS", roles=("boss",)),))
    small, large = what_if(runs, other).runs
    assert small.outcome == "unchanged"
    assert large.change is not None
    assert (large.change.event, large.change.old.verdict, large.change.new.verdict) == (
        "plan_reviewed", "ok", "ok",
    )  # fmt: skip
    assert large.change.new.details["gates"] == [["pay", "BOSS"]]


def test_a_decision_that_needs_nobody_lets_a_run_through(workshop: Workshop) -> None:
    """A run that was handed to a person would be accepted by a decision that a person need not accept."""
    pack = refunds(workshop, LOOSE)
    strict = workshop.pack(policies=(LOOSE,), decision={"requires_human_approval": True})
    [run] = record(workshop, strict, [5])
    found = only(what_if([run], pack))
    assert found.change is not None
    assert (found.change.event, found.change.old.verdict, found.change.new.verdict) == (
        "run_reported", "ask", "accept",
    )  # fmt: skip
    assert (found.old_status, found.new_status) == ("awaiting_gate", "completed")


def test_a_pack_that_does_not_know_the_request_refuses_it(workshop: Workshop) -> None:
    """An intent that the other pack has no decision for is a changed verdict, and no traceback."""
    [run] = record(workshop, refunds(workshop, LOOSE), [5])
    found = only(what_if([run], workshop.pack(decision={"id": "other"})))
    assert found.change is not None
    assert (found.change.event, found.change.new.details) == ("session_started", {"code": "unknown_intent"})


def test_a_smaller_budget_of_the_pack_counts(workshop: Workshop) -> None:
    """What the pack gave a run, the other pack gives: a plan that is too long now is refused."""
    [run] = record(workshop, refunds(workshop, LOOSE), [5])
    found = only(what_if([run], refunds(workshop, LOOSE, budget={"max_steps": 0})))
    assert found.change is not None
    assert found.change.new.details["kind"] == "loop_guard"


def test_a_run_that_cannot_be_read_is_counted_as_such(workshop: Workshop) -> None:
    """It does not keep the others from being judged, and the report is not unchanged."""
    pack = refunds(workshop, LOOSE)
    good, bad = record(workshop, pack, [5, 6])
    report = what_if([good, msgspec.structs.replace(bad, events=(b"1nonsense",))], pack)
    assert (report.unchanged, report.unreadable, report.is_unchanged) == (1, 1, False)
    assert report.runs[1].error is not None
