"""Which evidence untrusted input has chosen.

A fact may be true and still be the wrong one: a template that pins `kg:window:${input.window}#…` lets the author of that
field pick the fact. A plan of a template lists the ids that were put together from such fields. Other plans do not show
how an id was built, so the id itself is inspected: it was chosen by untrusted input if its variable part contains an
untrusted field of the request and no trusted source names it. The same goes for facts that were found by searching for a
word that only an untrusted field has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tercet.contracts.context import CompiledContext
from tercet.contracts.evidence import parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan
from tercet.contracts.search_words import terms_of, words_of
from tercet.contracts.trust import overlaps, scalars

_EDGE = re.compile(r"(?:(?<![^\W\d_])|(?![^\W\d_]))(?:(?<!\d)|(?!\d))")
"""A position that is not in the middle of a run of letters or of a run of digits."""


def evidence_picked_by_input(compiled: CompiledContext, plan: Plan, marks: Sequence[str]) -> frozenset[str]:
    """Return the ids of the evidence that marked fields of the request have chosen."""
    if not marks:
        return frozenset(plan.untrusted_refs)
    leaves = scalars(compiled.input()) if compiled.evidence else []
    marked = {leaf.place for leaf in leaves if any(overlaps(mark, leaf.place) for mark in marks)}
    trusted = _texts(leaf.value for leaf in leaves if leaf.place not in marked)
    untrusted = _texts(leaf.value for leaf in leaves if leaf.place in marked) - trusted
    picked = frozenset(plan.untrusted_refs)
    if not untrusted:
        return picked
    intent = compiled.request.intent if compiled.request else ""
    picked |= frozenset(_found_by_searching(plan, untrusted, {*trusted, intent}))
    suspected = {ref for ref in compiled.evidence if _holds_any(ref, untrusted)}
    if not suspected:
        return picked
    trusted |= _texts(
        leaf.value
        for entry in compiled.manifests.evidence_manifest
        if entry.trust is Trust.TRUSTED and entry.id not in suspected and entry.id not in picked
        for leaf in scalars(entry.content)
    )
    return picked | {ref for ref in suspected if not _is_named(ref, trusted, untrusted)}


def _texts(values: Iterable[Any]) -> set[str]:
    """Scalars as they would be written into an id; an empty one chooses nothing."""
    return {text for value in values if value is not None and (text := str(value))}


def _key(ref: str) -> str:
    parts = parse_ref(ref)
    return ref if parts is None else parts.key


def _holds_any(ref: str, texts: set[str]) -> bool:
    """Whether an evidence id is one of these texts, or its variable part holds one."""
    return ref in texts or not texts.isdisjoint(_segments(_key(ref)))


def _is_named(ref: str, trusted: set[str], untrusted: set[str]) -> bool:
    """Whether trusted sources name an id, or all that untrusted input has put into it."""
    return ref in trusted or _key(ref) in trusted or not _holds_any(ref, untrusted - trusted)


def _segments(text: str) -> Iterator[str]:
    """Every part of a text that neither begins nor ends in the middle of a run of letters or of digits."""
    edges = [match.start() for match in _EDGE.finditer(text)]
    for position, start in enumerate(edges):
        for end in edges[position + 1 :]:
            yield text[start:end]


def _found_by_searching(plan: Plan, untrusted: set[str], trusted: set[str]) -> Iterator[str]:
    """The evidence pinned to steps that search for a word which an untrusted field has, and no trusted one.

    Words of the class do not count: facts of another class are not found.
    """
    suspected = _words(untrusted) - _words(trusted)
    for step in plan.steps:
        if any(
            query.tool is None and suspected & {*terms_of(query.query)} - _words({query.classification})
            for query in step.evidence_queries
        ):
            yield from step.evidence_refs


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in words_of(text)}
