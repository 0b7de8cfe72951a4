"""What a member of the evidence says, in words for whoever mends what is at odds with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tercet.contracts import pointer
from tercet.contracts.evidence import Evidence, parse_ref
from tercet.contracts.quality import Support
from tercet.contracts.totals import key_words
from tercet.quality.rubric.safety import mask
from tercet.quality.verification.results import CLASSIFICATION

LONGEST = 120
_NAMES = {"task": "the request", "output": "the output itself"}


def tell(source: Support, evidence: Sequence[Evidence]) -> str:
    """What decided about a claim: `the order says '2026-11-01' (/check_in)`. What must not go out is masked.

    The value is quoted: words of the evidence are not taken for words about the defect.
    """
    fact = next((each for each in evidence if each.id == source.evidence), None)
    value = _value(fact, source.pointer) if fact else None
    shown = source.text if value is None else str(value)
    return f"{name_of(source.evidence)} says {quote(shown)} ({source.pointer or '/'})"


def quote(value: Any) -> str:
    """A value of the evidence as it is shown: masked, not too long, in quotation marks."""
    text = mask(" ".join(str(value).split()))
    return repr(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def name_of(fact: str) -> str:
    """What people call a fact: by its class, or by the step that brought it."""
    ref = parse_ref(fact)
    if ref is None:
        return "the evidence"
    if ref.classification == CLASSIFICATION:
        return f"the result of {ref.key.partition('/')[0]}"
    return _NAMES.get(ref.classification) or f"the {' '.join(key_words(ref.classification))}"


def _value(fact: Evidence, place: str) -> Any:
    """The number or short text at a place; None where it is something else, or the place is gone."""
    try:
        found = pointer.follow(fact.content, place)
    except pointer.PointerError:
        return None
    is_plain = isinstance(found, str | int | float) and not isinstance(found, bool)
    return found if is_plain and len(str(found)) <= LONGEST else None
