"""The sources of a step's values, as policies read them: `step.sources.amount` has `source`, `trust` and `kind`.

At dispatch, references are already replaced by values. The sources are those of the plan as proposed, so that a value
does not become a literal by being resolved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Literal, TypeAlias, get_args

from tercet.contracts.mode import Trust
from tercet.contracts.policy import Policy
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import references
from tercet.contracts.values.kinds import parameter_kind
from tercet.contracts.values.references import Found, Leaf, Read
from tercet.critic.review import Review
from tercet.critic.sources import APPROVED
from tercet.critic.value_trust import ValueTrust

SourceName: TypeAlias = Literal[
    "request", "evidence", "result", "approved", "sentence", "computed", "literal"
]
StepSources: TypeAlias = dict[str, dict[str, str]]
"""By parameter: its `source`, `trust` and `kind`."""

SOURCES = "sources"
"""The name of the field in policies."""


def read_sources(policies: Iterable[Policy]) -> bool:
    """Return whether a policy reads the sources of values; otherwise they are not computed.

    A rule that spells the field differently finds it missing, and fails.
    """
    return any(SOURCES in policy.expression for policy in policies)


class Provenance:
    """The sources of the steps of one plan under review."""

    def __init__(self, review: Review) -> None:
        self._given = review

    @cached_property
    def _planned(self) -> ValueTrust:
        """The plan as proposed."""
        given = self._given
        if given.planned is given.plan:
            return ValueTrust(given)
        return ValueTrust(Review(given.ctx, given.compiled, given.spec, given.planned))

    @cached_property
    def _resolved(self) -> ValueTrust:
        """The plan under review, which may have compensations as additional steps."""
        return self._planned if self._given.planned is self._given.plan else ValueTrust(self._given)

    def of_step(self, step_id: str) -> StepSources:
        """Return the sources of the parameters of a call; a note has none."""
        value_trust = self._planned if step_id in self._planned.review.position else self._resolved
        review = value_trust.review
        call = review.call_at.get(review.position[step_id])
        if call is None:
            return {}
        host = review.hosts.get(call.position)
        own = review.call_at.get(review.position[host]) if host in review.position else None
        by_name: dict[str, list[Found]] = {}
        for found in review.found[call.position]:
            by_name.setdefault(str(found.place[0]), []).append(found)
        return {name: self._describe(value_trust, call, found, own) for name, found in by_name.items()}

    def _describe(
        self, value_trust: ValueTrust, call: EffectiveStep, parts: list[Found], own: EffectiveStep | None
    ) -> dict[str, str]:
        tool, at = call.tool, call.position
        untrusted = (part for part in parts if not value_trust.is_trusted_argument(tool, part, at, own))
        decisive = next(untrusted, None)
        place = (parts[0].place[0],)
        return {
            "source": self._source(value_trust, tool, decisive or parts[0], at, own),
            "trust": str(Trust.TRUSTED if decisive is None else Trust.UNTRUSTED),
            "kind": parameter_kind(tool, place, reads_widths=value_trust.review.reads_widths).name,
        }

    def _source(
        self, value_trust: ValueTrust, tool: ToolSpec, found: Found, at: int, own: EffectiveStep | None
    ) -> SourceName:
        if isinstance(found, references.Reference) and found.kind == "cel":
            return "computed"
        named = dict.fromkeys(self._names(value_trust, tool, found, at, own))
        return next(iter(named)) if len(named) == 1 else "computed" if named else "literal"

    def _names(
        self, value_trust: ValueTrust, tool: ToolSpec, found: Found, at: int, own: EffectiveStep | None
    ) -> Iterator[SourceName]:
        """Yield the source of each literal and read in a value."""
        for index, source in value_trust.value_sources(found, at):
            if isinstance(source, Leaf):
                yield _literal_source(value_trust, tool, source, index)
            elif source.name == references.PARAMS and own is not None and source.place:
                given = self.of_step(own.step.id).get(str(source.place[0]))
                yield _NAMES.get(given["source"], "computed") if given else "computed"
            else:
                yield _read_source(value_trust, source)


_NAMES: dict[str, SourceName] = {name: name for name in get_args(SourceName)}


def _literal_source(value_trust: ValueTrust, tool: ToolSpec, literal: Leaf, at: int) -> SourceName:
    """Return the source of a literal; `literal` if there is none."""
    holder = (
        value_trust.bind(literal.value, at, tool, literal.place).holder if value_trust.is_strict else None
    )
    if holder is None:
        return "literal"
    if holder.record == references.REQUEST:
        return "sentence" if value_trust.sources.is_sentence(holder.place) else "request"
    if holder.record == APPROVED:
        return "approved"
    return "evidence" if holder.record in value_trust.review.compiled.evidence else "result"


def _read_source(value_trust: ValueTrust, read: Read) -> SourceName:
    if read.name == references.REQUEST:
        return (
            "sentence" if value_trust.is_strict and value_trust.sources.is_sentence(read.place) else "request"
        )
    return "evidence" if read.name == references.EVIDENCE else "result"
