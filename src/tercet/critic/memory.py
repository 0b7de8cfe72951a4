"""Episodic memory: what a run suggests remembering, and what the critic accepts at commit.

A proposal is part of a plan and reviewed with it. It has the trust of its least trusted source. Only what a completed
run learned is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tercet.contracts.runs.record import MemoryProposal
from tercet.contracts.values import pointer, references
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.references import Leaf, Reference
from tercet.contracts.verdict import CriticReport
from tercet.critic.review import Review
from tercet.critic.value_trust import ValueTrust

MAX_BYTES = 16 * 1024
"""A larger memory is a document, and should be imported into the store."""


def sources_of(value: Any) -> tuple[str, ...]:
    """Return the sources of a proposal: steps and the request by name, evidence by id, `literal` for text of the plan."""
    return tuple(dict.fromkeys(name for found in references.scan({"value": value}) for name in _names(found)))


def _names(found: references.Found) -> Iterator[str]:
    if isinstance(found, Reference):
        if found.kind == "cel":
            yield from sorted(found.names)
        else:
            yield from references.evidence_of(found)
            yield from sorted(name for name in found.names if name != references.EVIDENCE)
    elif type(found) is Leaf:
        yield "literal"


def is_trusted(review: Review, value: Any, content: Any) -> bool:
    """Return whether every source of a proposal is trusted, including its keys; `content` is its resolved value."""
    value_trust = ValueTrust(review)
    return all(
        value_trust.is_trusted(found, None, is_number=_is_number(content, found.place[1:]))
        and all(map(value_trust.is_trusted_scalar, _keys(found)))
        for found in references.scan({"value": value})
    )


def _is_number(content: Any, place: references.Place) -> bool:
    """Return whether a resolved value has a number at a place."""
    try:
        found = pointer.follow(content, pointer.join(place))
    except pointer.PointerError:
        return False
    return isinstance(found, int | float) and not isinstance(found, bool)


def _keys(found: references.Found) -> Iterator[str]:
    """Return the object keys that a plan writes around a value."""
    return (token for token in found.place[1:] if isinstance(token, str) and token != references.LITERAL)


def dropped(report: CriticReport, proposal: MemoryProposal) -> str | None:
    """Return why the critic rejects a proposal; None if it accepts it."""
    if report.status != "completed":
        return f"the run is {report.status}"
    if proposal.content in (None, "", [], {}):
        return "it is empty"
    size = len(canonical(proposal.content))
    return f"it has {size:,} bytes, more than {MAX_BYTES:,}" if size > MAX_BYTES else None
