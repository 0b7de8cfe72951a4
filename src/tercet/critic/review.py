"""One plan under review: the plan, the rules that apply, and what the checks demand on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

from tercet.contracts.context import Check, CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import EPISODE, meets, parse_ref
from tercet.contracts.gate import GateDemand
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan, compensated_step
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.steps import graph
from tercet.contracts.text.words import terms_of, words_of
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.references import Place
from tercet.contracts.values.trust import input_marks, is_marked, scalars, with_dotted
from tercet.contracts.verdict import Code, Origin, Refusal
from tercet.critic.reading import Reading
from tercet.critic.relations import Relations

_EDGE = re.compile(r"(?:(?<![^\W\d_])|(?![^\W\d_]))(?:(?<!\d)|(?!\d))")
"""A position at the boundary of a run of letters or digits."""


def evidence_picked_by_input(
    compiled: CompiledContext, plan: Plan, marks: Sequence[str], *, in_lists: bool
) -> frozenset[str]:
    """Return the ids of the evidence that marked fields of the request have chosen.

    A fact may be true and still be the wrong one: a template that pins `kg:window:${input.window}#…` lets the author of
    that field pick the fact. A plan from a template lists the ids that were built from such fields. Other plans do not
    show how an id was built, so the id itself is inspected: it was chosen by untrusted input if its variable part
    contains an untrusted field of the request and no trusted source names it. The same applies to facts that were found
    by searching for a word that only an untrusted field has.
    """
    if not marks:
        return frozenset(plan.untrusted_refs)
    leaves = scalars(compiled.input()) if compiled.evidence else []
    marked = {leaf.place for leaf in leaves if is_marked(marks, leaf.place, in_lists=in_lists)}
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
    """Return scalars as they would appear in an id; an empty one chooses nothing."""
    return {text for value in values if value is not None and (text := str(value))}


def _key(ref: str) -> str:
    parts = parse_ref(ref)
    return ref if parts is None else parts.key


def _holds_any(ref: str, texts: set[str]) -> bool:
    """Return whether an evidence id is one of these texts, or its variable part contains one."""
    return ref in texts or not texts.isdisjoint(_segments(_key(ref)))


def _is_named(ref: str, trusted: set[str], untrusted: set[str]) -> bool:
    """Return whether trusted sources name an id, or everything that untrusted input has put into it."""
    return ref in trusted or _key(ref) in trusted or not _holds_any(ref, untrusted - trusted)


def _segments(text: str) -> Iterator[str]:
    """Return every part of a text that begins and ends at a boundary of a run of letters or digits."""
    edges = [match.start() for match in _EDGE.finditer(text)]
    for position, start in enumerate(edges):
        for end in edges[position + 1 :]:
            yield text[start:end]


def _found_by_searching(plan: Plan, untrusted: set[str], trusted: set[str]) -> Iterator[str]:
    """Return the evidence pinned to steps that search for a word which an untrusted field has, and no trusted one.

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


Refusals = Iterator[Refusal]
MAX_REASON = 500


class Review:
    """One plan under review."""

    def __init__(
        self,
        ctx: RunContext,
        compiled: CompiledContext,
        spec: DecisionSpec,
        plan: Plan,
        reading: Reading | None = None,
        *,
        due: int | None = None,
        left_out: frozenset[int] = frozenset(),
        late: frozenset[str] = frozenset(),
        uncertain: frozenset[int] = frozenset(),
        planned: Plan | None = None,
    ) -> None:
        """`reading` is an earlier reading; it is used if it is of this context and this plan.

        `due` is the position of the step that is being dispatched, if any; `left_out` are steps that will not run;
        `late` are policies over the plan that could only be decided after some reads; `uncertain` are steps that may
        not run; `planned` is the plan as proposed, if the one under review has resolved values.
        """
        self.ctx = ctx
        self.is_strict = ctx.goes_by(Behaviour.STRICT_CALLS)
        self.is_plain = ctx.goes_by(Behaviour.PLAIN_REFUSALS)
        self.names_causes = ctx.goes_by(Behaviour.CAUSES_NAMED)
        self.reads_widths = not ctx.goes_by(Behaviour.WIDTHS_ARE_NO_KINDS)
        self.marks_reach_lists = ctx.goes_by(Behaviour.WIDTHS_ARE_NO_KINDS)
        self.compiled = compiled
        self.spec = spec
        self.plan = plan
        self.planned = plan if planned is None else planned
        self.due = due
        self.left_out = left_out
        self.late = late
        self.uncertain = uncertain
        self.demands: list[GateDemand] = []
        """Approvals that the plan needs."""
        self.deferred: list[str] = []
        """Rules that are decided at dispatch."""
        self.undecided: list[str] = []
        """The names of the policies over the plan that cannot be decided yet."""
        self._trusted: dict[tuple[str, int | None], bool] = {}
        """Cached: whether a piece of evidence is trusted; at which step makes a difference only to relations."""
        if reading is None or not reading.is_of(compiled, plan):
            reading = Reading(compiled, plan)
        self.reading = reading
        self.calls = reading.calls
        self.call_at = reading.call_at
        self.position = reading.position
        self.found = reading.found
        self.pinned = reading.pinned
        self.conditions = reading.conditions
        self.open_parameters = reading.open_parameters
        self.known = reading.known
        self.arguments = reading.arguments
        self.fills_defaults = ctx.goes_by(Behaviour.RULES_SEE_DEFAULTS)
        self.ruled_arguments = reading.ruled_arguments if self.fills_defaults else reading.arguments
        self.resolved = reading.resolved

    @property
    def graph(self) -> graph.Graph:
        """The dependency graph of the plan."""
        return self.plan.graph

    @property
    def checks(self) -> frozenset[Check]:
        """The optional checks of the decision's risk tier."""
        return self.compiled.checks(self.spec.risk_tier)

    @cached_property
    def hosts(self) -> dict[int, str]:
        """For each step that represents a compensation, the id of the step that it compensates."""
        return {
            position: host.partition("#")[0]  # a step that ran twice has a numbered id
            for step_id, position in self.position.items()
            if (host := compensated_step(step_id))
        }

    @cached_property
    def input_marks(self) -> tuple[str, ...]:
        """The untrusted parts of the request, as JSON Pointers."""
        names = self.spec.untrusted_inputs
        return input_marks(with_dotted(names) if self.is_strict else names)

    def is_marked_input(self, place: Place) -> bool:
        """Return whether a part of the request may contain untrusted text."""
        return is_marked(self.input_marks, place, in_lists=self.marks_reach_lists)

    @cached_property
    def picked_evidence(self) -> frozenset[str]:
        """The evidence that untrusted input has chosen."""
        if not self.is_strict:
            return frozenset()
        return evidence_picked_by_input(
            self.compiled, self.plan, self.input_marks, in_lists=self.marks_reach_lists
        )

    @cached_property
    def relations(self) -> Relations:
        """The relations of evidence, calls and results to the request."""
        # Not the bound method: a review that refers to itself lives until the garbage collector finds it.
        is_marked_input = partial(is_marked, self.input_marks, in_lists=self.marks_reach_lists)
        return Relations(self.compiled, self.spec, self.pinned, is_marked_input)

    def is_trusted_evidence(self, ref: str, index: int | None = None) -> bool:
        """Return whether a piece of evidence is in the snapshot and trusted, was not chosen by untrusted input, and
        relates to the request where the step at `index` pins it; without a step, where any step pins it.
        """
        key = ref, index if self.spec.bind else None
        if (known := self._trusted.get(key)) is None:
            known = self._trusted[key] = self._is_trusted_evidence(ref, index)
        return known

    def _is_trusted_evidence(self, ref: str, index: int | None) -> bool:
        entry = self.compiled.evidence.get(ref)
        if entry is None or entry.trust is not Trust.TRUSTED or ref in self.picked_evidence:
            return False
        if not self.is_strict:
            return True
        # Remembered facts have lost the kinds of their values and their relation to the original request.
        if entry.classification == EPISODE and not self.relations.of_evidence(EPISODE):
            return False
        return self.relations.unmet_by_evidence(ref, index) is None

    def why_unrelated(self, ref: str, index: int | None) -> str | None:
        """Return a description of why a piece of evidence does not relate to the request; None if it does."""
        if not self.is_strict:
            return None
        return self.relations.explain_evidence(ref, index)

    def satisfies(
        self, requirement: str, ref: str, decision: DecisionSpec | None = None, *, index: int | None = None
    ) -> bool:
        """Return whether a piece of evidence satisfies a requirement: its class matches, it is trusted, and it relates
        to the request.

        A decision may accept untrusted evidence of a class; the default is the decision under review.
        """
        entry = self.compiled.evidence.get(ref)
        if entry is None or not meets(requirement, entry.classification):
            return False
        if not self.is_strict or self.is_trusted_evidence(ref, index):
            return True
        if self.relations.unmet_by_evidence(ref, index) is not None:
            return False
        return any(meets(each, entry.classification) for each in (decision or self.spec).untrusted_evidence)

    @cached_property
    def frame(self) -> dict[str, Any]:
        """The values that every rule may read about the run."""
        return {
            "request": self.compiled.input(),
            "context.tenant": self.ctx.tenant,
            "context.actor": self.ctx.actor.id,
            "context.roles": list(self.ctx.actor.roles),
            "context.safety_mode": str(self.ctx.safety_mode),
            "decision.id": self.spec.id,
            "decision.risk_tier": str(self.spec.risk_tier),
        }

    def label(self, position: int | None) -> str:
        """Return the name of a step, a proposed compensation, or (without a position) the plan in a refusal."""
        if position is None:
            return "plan with its compensations" if self.hosts else "plan"
        if position not in self.hosts:
            return f"step {position}"
        host = self.hosts[position]
        return f"the compensation of step {self.position.get(host, host)}"

    def parameters_of(self, tool: ToolSpec) -> str:
        """Return the parameters of a tool, for a remedy."""
        by_name = self.ctx.goes_by(Behaviour.PARAMETERS_BY_NAME)
        names = sorted(tool.parameter_names) if by_name else tool.parameter_names
        return ", ".join(names) or "no named parameters"

    def refuse(
        self,
        code: Code,
        reason: str,
        remedy: str,
        *,
        step: int | None = None,
        place: str = "",
        sources: tuple[Origin, ...] = (),
    ) -> Refusal:
        """Return a refusal, at a step if one is responsible."""
        where = "" if step is None else f"/steps/{step}"
        return Refusal(
            code=code,
            reason=_line(reason),
            remedy=remedy,
            step=step,
            step_id=None if step is None else self.plan.steps[step].id,
            place=f"{where}{place}",
            sources=sources,
        )


def _line(text: str) -> str:
    """Return a reason as one line of limited length, whatever a plan's expressions and names contain."""
    line = text if text.isprintable() else " ".join(text.split())
    return line if len(line) <= MAX_REASON else f"{line[: MAX_REASON - 1]}…"


def exhaust(refusals: Refusals) -> None:
    """Run a check for the gates that it demands, and ignore its refusals."""
    for _ in refusals:
        pass
