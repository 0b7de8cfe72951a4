"""From a run to its page: pure, and the same for the same run."""

from __future__ import annotations

from tercet.replay.report import (
    evidence,
    frame,
    happenings,
    loop,
    people,
    plans,
    quality,
    questions,
    timeline,
)
from tercet.replay.report.case import Case, unreadable
from tercet.replay.report.page import Page, Row
from tercet.replay.report.people import output_rows
from tercet.replay.report.wording import Wording
from tercet.view.words import meaning


def tell(case: Case, wording: Wording | None = None) -> Page:
    """The page of a run; raises `ReplayError` if something in it does not have the shape that it should have."""
    try:
        return _page(case, wording or Wording())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Plans, verdicts and what people were shown are recorded as JSON, and a bundle may come from anybody.
        raise unreadable(f"something in session {case.state.start.session}") from error


def _page(case: Case, say: Wording) -> Page:
    state = case.state
    where, tone, mark = frame.headline(state)
    parts, earlier = plans.plan_parts(case, say)
    facts, evidence_note = evidence.fact_cards(case, say)
    asked, exchanges_note = questions.exchanges(case, say)
    told, skipped = happenings.happenings(case, say)
    verdict, rationale = quality.run_verdict(case, say)
    return Page(
        title=say.text(state.start.request["intent"], 200),
        session=say.text(state.start.session, 80),
        standing=where,
        tone=tone,
        mark=mark,
        meaning=meaning(state),
        reason=say.text(frame.reason(state), 1_000),
        facts=frame.facts(case, say),
        figures=frame.figures(case),
        request=say.value(state.start.request.get("input", {})),
        outputs=output_rows(state.outputs, say),
        missing=tuple(
            Row(label=say.text(name, 120), text=say.text(why, 600), tone="bad")
            for name, why in state.missing.items()
        ),
        plans=parts,
        earlier=earlier,
        timeline=timeline.draw_timeline(case, say),
        happenings=told,
        skipped_happenings=skipped,
        gates=people.gate_cards(case, say),
        verdict=verdict,
        rationale=rationale,
        scores=quality.scores(case, say),
        quality=loop.loop_part(case, say),
        meters=frame.meters(case),
        evidence=facts,
        evidence_note=evidence_note,
        taken_back=quality.taken_back(case, say),
        exchanges=asked,
        exchanges_note=exchanges_note,
        hashes=frame.hashes(case, say),
    )
