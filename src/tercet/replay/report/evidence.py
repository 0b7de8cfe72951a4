"""The facts that a run stands on, with their sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tercet.contracts.mode import Trust
from tercet.core import events as e
from tercet.core.plans import read_plan
from tercet.replay.report.case import Case, Found
from tercet.replay.report.page import Chip, FactCard, Row
from tercet.replay.report.plans import chapters
from tercet.replay.report.turns import asked_for
from tercet.replay.report.wording import Wording, count

MOST = 100


def fact_cards(case: Case, wording: Wording) -> tuple[tuple[FactCard, ...], str]:
    """The facts that plans pinned or repairs looked up, and in words how many more there were."""
    known = {found.evidence.id: found for found in case.facts}
    pinned, fetched = _pinned(case), _fetched(case, wording)
    hashes = dict(_hashes(case))
    refs = list(pinned | fetched)
    cards = [
        _card(ref, [*_uses(pinned.get(ref, ()), fetched.get(ref, ()))], hashes.get(ref, ""), known.get(ref), wording)
        for ref in refs[:MOST]
    ]  # fmt: skip
    return tuple(cards), _note(len(known), len(pinned), len(fetched), len(refs))


def _note(known: int, pinned: int, fetched: int, shown: int) -> str:
    if not (known or shown):
        return ""
    cut = f"The first {MOST} of {count(shown, 'fact')} are shown. " if shown > MOST else ""
    found = (
        f" {count(fetched, 'fact')} more {'was' if fetched == 1 else 'were'} looked up for repairs."
        if fetched
        else ""
    )
    return f"{cut}The run could see {count(known, 'fact')}; its plans pinned {pinned:,}.{found}"


def _uses(steps: Iterable[str], queries: Iterable[str]) -> Iterator[Row]:
    """What a fact was there for: the steps that pinned it, and the questions that a repair found it by."""
    if pinning := ", ".join(steps):
        yield Row(label="pinned by", text=pinning)
    for query in queries:
        yield Row(label="looked up", text="for a repair", note=query)


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


def _fetched(case: Case, wording: Wording) -> dict[str, list[str]]:
    """Every fact that was looked up for a repair, with what was asked."""
    found: dict[str, list[str]] = {}
    for event in case.events:
        if isinstance(event, e.EvidenceFetched):
            asked = [asked_for(query, wording) for query in event.queries[:20]]
            for ref in event.refs:
                found.setdefault(ref, []).append("; ".join(asked))
    return found


def _hashes(case: Case) -> Iterator[tuple[str, str]]:
    for event in case.events:
        if isinstance(event, e.EvidenceRetrieved):
            yield from event.evidence.items()


def _card(ref: str, uses: list[Row], hashed: str, found: Found | None, wording: Wording) -> FactCard:
    fact = found.evidence if found is not None else None
    return FactCard(
        id=wording.text(ref, 300),
        classification=wording.text(fact.classification if fact else "", 120),
        source=wording.text((fact.source if fact else "") or "no source is named", 300),
        trust=_trust(fact.trust if fact else None),
        rows=tuple(_rows(uses, hashed, found, wording)),
        content=wording.value(fact.content) if fact else "",
    )


def _trust(trust: Trust | None) -> Chip:
    if trust is None:
        return Chip(text="not known to the run", tone="bad")
    is_trusted = trust is Trust.TRUSTED
    return Chip(
        text="trusted" if is_trusted else "other people's words", tone="good" if is_trusted else "wait"
    )


def _rows(uses: list[Row], hashed: str, found: Found | None, wording: Wording) -> Iterator[Row]:
    is_asked = found is not None and found.citation is not None and bool(found.citation.query)
    for use in uses:  # what a fact was found by stands with it, where that is known
        note = "" if is_asked else wording.text(use.note, 600)
        yield Row(label=use.label, text=wording.text(use.text), note=note)
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
