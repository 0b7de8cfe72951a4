"""Recorded runs under another pack: exactly those that it touches are found, each at its first changed verdict."""

from __future__ import annotations

import random

import pytest

from runtime.workshop import Workshop
from tercet.replay.what_if import what_if

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
