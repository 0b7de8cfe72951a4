"""What tools brought back, as evidence: an output may stand on it like on any other fact.

A result is worth what it was worth in the run: an untrusted one bears a claim out, and makes it no fact. Fields that the
tool marks as other people's words are a fact of their own, which is untrusted.

The text of an output was brought back by some tool too, and nothing supports itself. So a text that is the output's is
left out, and an untrusted result that has one is left out whole: it is the draft, and so are the numbers beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.runs.run import Outcome, TranscriptEntry
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tool import ALL_FIELDS, ToolSpec
from tercet.contracts.values.references import Place
from tercet.contracts.values.trust import is_marked
from tercet.quality.verification.places import is_text, leaves

CLASSIFICATION = "result"
_UNFIT = re.compile(r"[#\s]+")


class StepResult(NamedTuple):
    """What a step brought back, and what it is worth."""

    step_id: str
    tool: str
    value: Any
    trust: Trust = Trust.UNTRUSTED
    untrusted: tuple[str, ...] = ()
    """Pointers to the fields that carry other people's words, `*` for any item."""


class _Texts:
    """The texts of an output. Most results of tools are distinguished from them by their words, without a search."""

    def __init__(self, texts: Collection[str]) -> None:
        self._texts = texts
        self._words = {word for text in texts for word in text.split()}
        self._pairs = {pair for text in texts for pair in pairwise(text.split())}

    def have(self, value: Any) -> bool:
        """Return whether a text is one of the output's, or a part of one, or has one in it."""
        if not is_text(value):
            return False
        may_be_part = self._have_words(value.split()[1:-1])  # the first and the last may be parts of words
        return any((may_be_part and value in text) or text in value for text in self._texts)

    def _have_words(self, words: list[str]) -> bool:
        return self._words.issuperset(words) and self._pairs.issuperset(pairwise(words))


def evidence_of(results: Iterable[StepResult], drafts: JsonObject | None = None) -> tuple[Evidence, ...]:
    """Results as evidence, `kg:result:STEP#snapshot_run` each; `drafts` are the outputs as the tools left them."""
    texts = {leaf.value for leaf in leaves(drafts or {}) if is_text(leaf.value)}
    own = _Texts(texts)
    return tuple(fact for result in results for fact in _facts(result, own))


def results_of(
    transcript: Iterable[TranscriptEntry], tools: Mapping[str, ToolSpec], trusted: Collection[str]
) -> tuple[StepResult, ...]:
    """Return the results of a transcript that were brought back; `trusted` are the steps whose results are.

    `tercet.critic.flow.trusted_results` says which are. A tool that no one knows any more is not trusted.
    """
    done = [entry for entry in transcript if entry.result.outcome is Outcome.DONE and not entry.result.error]
    return tuple(
        result_of(entry.call.step_id, entry.call.tool, entry.result.value, tools, trusted) for entry in done
    )


def result_of(
    step: str, tool: str, value: Any, tools: Mapping[str, ToolSpec], trusted: Collection[str]
) -> StepResult:
    """A result with what it is worth."""
    spec = tools.get(tool)
    return StepResult(
        step_id=step,
        tool=tool,
        value=value,
        trust=Trust.TRUSTED if spec and step in trusted else Trust.UNTRUSTED,
        untrusted=spec.untrusted if spec else (),
    )


def result_refs(step: str) -> tuple[str, str]:
    """The ids of the facts that a result may become: what is the tool's own, and what it marks as other people's words."""
    key = _UNFIT.sub("_", step) or "step"
    return f"kg:{CLASSIFICATION}:{key}#snapshot_run", f"kg:{CLASSIFICATION}:{key}/untrusted#snapshot_run"


def _facts(result: StepResult, texts: _Texts) -> Iterator[Evidence]:
    found = list(leaves(result.value))
    is_draft = any(texts.have(leaf.value) for leaf in found)
    is_trusted = result.trust is Trust.TRUSTED and ALL_FIELDS not in result.untrusted
    if is_draft and not is_trusted:
        return
    own = _keep(result.value, lambda _, value: not texts.have(value))
    if not is_trusted:
        yield from _fact(result, own, Trust.UNTRUSTED)
        return
    yield from _fact(result, _keep(own, lambda place, _: not _is_marked(result, place)), Trust.TRUSTED)
    others = _keep(own, lambda place, _: _is_marked(result, place))
    yield from _fact(result, others, Trust.UNTRUSTED, is_marked=True)


def _fact(result: StepResult, content: Any, trust: Trust, *, is_marked: bool = False) -> Iterator[Evidence]:
    if content in (None, "", [], {}):
        return
    ref = result_refs(result.step_id)[is_marked]
    yield Evidence(id=ref, content=content, trust=trust, source=result.tool)


def _is_marked(result: StepResult, place: Place) -> bool:
    return is_marked(result.untrusted, place)


def _keep(value: Any, is_kept: Callable[[Place, Any], bool], place: Place = ()) -> Any:
    """Return a value with some of its scalars; items of lists stay where they are, so that pointers lead to the same."""
    if (members := as_object(value)) is not None:
        kept = {key: _keep(member, is_kept, (*place, key)) for key, member in members.items()}
        return {key: member for key, member in kept.items() if member is not None}
    if (items := as_list(value)) is not None:
        found = [_keep(item, is_kept, (*place, index)) for index, item in enumerate(items)]
        return found if any(item is not None for item in found) else None
    return value if is_kept(place, value) else None
