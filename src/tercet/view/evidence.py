"""The evidence of a run with its provenance, and its questions to language models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tercet.contracts.shape import as_list, as_object
from tercet.core import events as e
from tercet.core.plans import read_plan
from tercet.view.events import RunData, StoredFact, answered_text, attempt_text
from tercet.view.plan import plan_periods
from tercet.view.text import cents, count, join_parts
from tercet.view.vocabulary import TRUST, Tone


@dataclass(frozen=True, kw_only=True)
class FactView:
    """A fact that plans pinned or repairs looked up, and where it came from."""

    id: str
    classification: str
    source: str
    trust: str
    tone: Tone
    pinned_by: tuple[str, ...]
    """The steps that are based on it."""
    queries: tuple[Any, ...]
    """The queries of repairs that found it."""
    hash: str
    expires_at: int
    document: str
    query: str
    """The query that first found it."""
    content: Any
    is_known: bool
    """Whether the run has stored it."""


@dataclass(frozen=True, kw_only=True)
class EvidenceView:
    """The evidence of a run."""

    facts: tuple[FactView, ...]
    known: int
    """The number of facts that the run could see."""
    pinned: int
    fetched: int

    @property
    def note(self) -> str:
        """The number of facts, as a sentence; empty if there are none."""
        if not (self.known or self.facts):
            return ""
        were = "was" if self.fetched == 1 else "were"
        fetched = f" {count(self.fetched, 'fact')} more {were} looked up for repairs." if self.fetched else ""
        return f"The run could see {count(self.known, 'fact')}; its plans pinned {self.pinned:,}.{fetched}"


def evidence_view(run: RunData) -> EvidenceView:
    """Return the facts that plans pinned or repairs looked up."""
    pinned, fetched, hashes = _pinned(run), dict[str, list[Any]](), dict[str, str]()
    for event in run.events:
        if isinstance(event, e.EvidenceRetrieved):
            hashes |= event.evidence
        elif isinstance(event, e.EvidenceFetched):
            for ref in event.refs:
                fetched.setdefault(ref, []).extend(event.queries)
    stored = {each.evidence.id: each for each in run.facts}
    facts = tuple(
        _fact(
            stored.get(ref), ref, tuple(pinned.get(ref, ())), tuple(fetched.get(ref, ())), hashes.get(ref, "")
        )
        for ref in {**pinned, **fetched}
    )
    return EvidenceView(facts=facts, known=len(run.facts), pinned=len(pinned), fetched=len(fetched))


def _pinned(run: RunData) -> dict[str, dict[str, None]]:
    """Return every fact that a plan names, with the steps that do."""
    found: dict[str, dict[str, None]] = {}
    for period in plan_periods(run.events):
        for step in read_plan(dict(period.plan)).steps:
            for ref in step.evidence_refs:
                found.setdefault(ref, {})[step.id] = None
    return found


def _fact(
    stored: StoredFact | None, ref: str, steps: tuple[str, ...], queries: tuple[Any, ...], hashed: str
) -> FactView:
    fact, citation = (stored.evidence, stored.citation) if stored else (None, None)
    trust, tone = TRUST[fact.trust if fact else None]
    part = f", part {citation.chunk}" if citation and citation.chunk is not None else ""
    return FactView(
        id=ref,
        classification=fact.classification if fact else "",
        source=(fact.source if fact else "") or "no source is named",
        trust=trust,
        tone=tone,
        pinned_by=steps,
        queries=queries,
        hash=hashed,
        expires_at=int(fact.expires_at.timestamp() * 1000) if fact and fact.expires_at else 0,
        document=f"{citation.document}{part}" if citation and citation.document else "",
        query=(citation.query or "") if citation else "",
        content=fact.content if fact else None,
        is_known=fact is not None,
    )


# --- questions to models ---


@dataclass(frozen=True, kw_only=True)
class ExchangeView:
    """A question to a language model, and its answer."""

    title: str
    tone: Tone
    outcome: str
    system: str
    messages: tuple[tuple[str, str], ...]
    """The roles and texts of the question."""
    answer: Any


def exchange_views(run: RunData) -> tuple[ExchangeView, ...]:
    """Return every question with its answer, in order."""
    answers = {event.call: event for event in run.events if isinstance(event, e.ModelAnswered)}
    asked = [event for event in run.events if isinstance(event, e.ModelAsked)]
    return tuple(_exchange(each, answers.get(each.call), run.texts) for each in asked)


def _exchange(
    asked: e.ModelAsked, answered: e.ModelAnswered | None, texts: Mapping[str, Any]
) -> ExchangeView:
    question = as_object(texts.get(asked.prompt)) or {}
    messages = [as_object(message) or {} for message in as_list(question.get("messages")) or ()]
    shown = [(str(each.get("role", "user")), str(each.get("text", ""))) for each in messages]
    outcome, tone = _outcome(answered)
    return ExchangeView(
        title=f"{asked.call}. {asked.model} is asked for a {asked.purpose}{attempt_text(asked.attempt)}",
        tone=tone,
        outcome=outcome,
        system=str(question.get("system") or ""),
        messages=tuple(shown) if question else (("question", f"no longer stored: {asked.prompt}"),),
        answer=_answer(answered, texts),
    )


def _outcome(answered: e.ModelAnswered | None) -> tuple[str, Tone]:
    if answered is None:
        return "no answer is recorded", "wait"
    if answered.code:
        return f"no answer, {answered.code}: {answered.error}", "bad"
    cost = cents(answered.cost) if answered.cost else ""
    cut = "the answer was cut off, it became too long" if answered.cut else ""
    return join_parts((answered_text(answered), cost, cut)), "good"


def _answer(answered: e.ModelAnswered | None, texts: Mapping[str, Any]) -> Any:
    if answered is None or answered.code:
        return ""
    if not answered.blob:
        return answered.answer
    return texts.get(answered.blob, f"no longer stored: {answered.blob}")
