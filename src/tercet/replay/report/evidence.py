"""The facts that a run stands on, with their sources."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.contracts.mode import Trust
from tercet.journal import events as e
from tercet.replay.report.case import Case, Found
from tercet.replay.report.chapters import chapters
from tercet.replay.report.page import Chip, FactCard, Row
from tercet.replay.report.wording import Wording
from tercet.replay.report.words import count
from tercet.runtime.plans import read_plan

MOST = 100


def fact_cards(case: Case, wording: Wording) -> tuple[tuple[FactCard, ...], str]:
    """The facts that plans pinned, and in words how many more there were."""
    known = {found.evidence.id: found for found in case.facts}
    pinned = _pinned(case)
    hashes = dict(_hashes(case))
    cards = [
        _card(ref, steps, hashes.get(ref, ""), known.get(ref), wording)
        for ref, steps in list(pinned.items())[:MOST]
    ]
    return tuple(cards), _note(len(known), len(pinned))


def _note(known: int, pinned: int) -> str:
    cut = f"The first {MOST} of {count(pinned, 'pinned fact')} are shown. " if pinned > MOST else ""
    return (
        f"{cut}The run could see {count(known, 'fact')}; its plans pinned {pinned:,}."
        if known or pinned
        else ""
    )


def _pinned(case: Case) -> dict[str, list[str]]:
    """Every piece of evidence that a plan names, with the steps that do."""
    found: dict[str, list[str]] = {}
    for chapter in chapters(case.events):
        for step in read_plan(dict(chapter.plan)).steps:
            for ref in step.evidence_refs:
                steps = found.setdefault(ref, [])
                if step.id not in steps:
                    steps.append(step.id)
    return found


def _hashes(case: Case) -> Iterator[tuple[str, str]]:
    for event in case.events:
        if isinstance(event, e.EvidenceRetrieved):
            yield from event.evidence.items()


def _card(ref: str, steps: list[str], hashed: str, found: Found | None, wording: Wording) -> FactCard:
    fact = found.evidence if found is not None else None
    return FactCard(
        id=wording.text(ref, 300),
        classification=wording.text(fact.classification if fact else "", 120),
        source=wording.text((fact.source if fact else "") or "no source is named", 300),
        trust=_trust(fact.trust if fact else None),
        rows=tuple(_rows(steps, hashed, found, wording)),
        content=wording.value(fact.content) if fact else "",
    )


def _trust(trust: Trust | None) -> Chip:
    if trust is None:
        return Chip(text="not known to the run", tone="bad")
    is_trusted = trust is Trust.TRUSTED
    return Chip(
        text="trusted" if is_trusted else "other people's words", tone="good" if is_trusted else "wait"
    )


def _rows(steps: list[str], hashed: str, found: Found | None, wording: Wording) -> Iterator[Row]:
    yield Row(label="pinned by", text=wording.text(", ".join(steps)))
    if hashed:
        yield Row(label="content", text=wording.text(hashed, 100), is_code=True)
    if found is None:
        return
    if found.evidence.expires_at:
        yield Row(label="expires", text=f"{found.evidence.expires_at:%Y-%m-%d %H:%M:%S} UTC")
    if (citation := found.citation) is not None:
        if citation.document:
            chunk = "" if citation.chunk is None else f", part {citation.chunk}"
            yield Row(label="document", text=wording.text(f"{citation.document}{chunk}"))
        if citation.query:
            yield Row(label="asked for", text=wording.text(citation.query, 600))
