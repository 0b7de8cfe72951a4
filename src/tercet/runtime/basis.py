"""What a call depends on besides what its step writes down: evidence that must be valid when it is made, and results.

Values behind notes count as if the call read them itself, since a note only passes on what the plan writes there. A literal
in an authority parameter is trusted because a trusted source holds it: where only evidence does, the call depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tercet.contracts import pointer, references
from tercet.contracts.effective import unaliased
from tercet.contracts.plan import Compensation, Step
from tercet.contracts.references import Found, Leaf, Read, Reference
from tercet.contracts.tool import ToolSpec
from tercet.contracts.trust import overlaps, scalar
from tercet.critic.review import Review
from tercet.critic.worth import Worth
from tercet.runtime.plans import read_plan
from tercet.runtime.setting import Setting
from tercet.runtime.state import UNDO, State

MAX_SOURCES = 8
"""How many pieces of evidence are counted as sources of one literal: those that are valid for longest."""


class Basis(NamedTuple):
    """The evidence and the results that a call depends on."""

    sources: tuple[tuple[str, ...], ...] = ()
    """Groups of evidence: of each group, one piece has to be valid."""
    results: tuple[str, ...] = ()
    """The steps whose results it reads."""

    @property
    def evidence(self) -> tuple[str, ...]:
        """The ids of all this evidence."""
        return tuple(dict.fromkeys(ref for group in self.sources for ref in group))


def basis_of(state: State, setting: Setting, step: Step, compensation: Compensation | None = None) -> Basis:
    """Return what a step depends on: what it lists, and what its parameters, its condition and its compensation read,
    also in expressions and through notes, and the evidence that makes its authority literals trusted."""
    if step.id.startswith(UNDO):  # its values were bound when the step that it compensates was dispatched
        return Basis(sources=_single(step.evidence_refs))
    search = _Search(state)
    search.add_step(step, setting.surface.get(step.tool or ""))
    if compensation is not None:
        is_proposed = step.compensate is not None
        tool = setting.surface.get(compensation.tool) if is_proposed else None
        search.add_params(compensation.params, tool)
    search.follow_notes()
    groups = (*_single(search.evidence), *_sources_of_literals(state, setting, search.literals))
    return Basis(sources=tuple(dict.fromkeys(groups)), results=tuple(search.results))


def evidence_in(value: Any) -> tuple[str, ...]:
    """Return the evidence that a JSON value refers to, also in expressions."""
    scanned = references.scan(value)
    return tuple(ref for item in scanned if type(item) is Reference for ref in references.evidence_of(item))


class _Search:
    """Collects what a step reads, directly and behind notes."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._own: Sequence[Found] = ()
        self._reads: dict[tuple[Read, bool], None] = {}
        self._awaited: dict[str, None] = {}
        self.evidence: dict[str, None] = {}
        self.results: dict[str, None] = {}
        self.literals: list[Any] = []

    def add_step(self, step: Step, tool: ToolSpec | None) -> None:
        """Add what a step lists, what its condition and its parameters read, and the steps that it waits for."""
        self.evidence.update(dict.fromkeys(step.evidence_refs))
        self._awaited.update(dict.fromkeys(step.depends_on))
        self._add_condition(step)
        self._own = self.add_params(step.params, tool)

    def add_params(self, params: dict[str, Any], tool: ToolSpec | None) -> Sequence[Found]:
        """Add what the parameters of a call read, and return them scanned, by their own names; `tool` says which of them
        are authority, None that none are."""
        scanned = references.scan(params if tool is None else unaliased(params, tool.aliases)[0])
        for item in scanned:
            is_authority = tool is not None and (
                tool.has_authority_everywhere or item.place[0] in tool.authority_parameters
            )
            self._add(item, is_authority=is_authority)
            if tool is not None and is_authority:
                keys = (key for key in item.place if isinstance(key, str))
                self.literals += [key for key in keys if key not in tool.known_keys]
        return scanned

    def follow_notes(self) -> None:
        """Add what the notes hold that were read, at the places that were read, and why these notes were written."""
        if not self._reads and not self._awaited:
            return
        notes = {step.id: step for step in read_plan(self._state.plan).steps if step.kind == "note"}
        done: set[tuple[Read, bool] | str] = set()
        while waiting := [each for each in (*self._reads, *self._awaited) if each not in done]:
            for each in waiting:
                done.add(each)
                if isinstance(each, str):
                    self._add_reason(notes.get(each))
                    continue
                read, is_authority = each
                note = notes.get(read.name)
                self._add_reason(note)
                written = self._own if read.name == references.PARAMS else note.found if note else ()
                for item in written:
                    if overlaps(pointer.join(read.place), item.place):
                        self._add(item, is_authority=is_authority)

    def _add_reason(self, note: Step | None) -> None:
        """Add what decides whether a note is written."""
        if note is not None:
            self.evidence.update(dict.fromkeys(note.evidence_refs))
            self._awaited.update(dict.fromkeys(note.depends_on))
            self._add_condition(note)

    def _add_condition(self, step: Step) -> None:
        if step.when is not None:
            self._add(references.parse("cel", step.when), is_authority=False)

    def _add(self, item: Found, *, is_authority: bool) -> None:
        if type(item) is Leaf and is_authority:
            self.literals.append(item.value)
        if type(item) is not Reference:
            return
        # An expression that reads evidence whose id cannot be determined is refused at review.
        self.evidence.update(dict.fromkeys(references.evidence_of(item)))
        self.results.update({name: None for name in item.names if name not in references.RESERVED_IDS})
        self._reads.update(dict.fromkeys((read, is_authority) for read in references.reads_of(item)))
        if is_authority:
            self.literals += references.constants_of(item)


def _single(refs: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    return tuple((ref,) for ref in dict.fromkeys(refs))


def _sources_of_literals(
    state: State, setting: Setting, literals: Sequence[Any]
) -> Iterator[tuple[str, ...]]:
    """The trusted evidence that holds each literal, for those that neither the request nor an earlier result holds."""
    compiled = setting.compiled
    held = {
        key: refs
        for value in literals
        if not isinstance(value, dict | list)
        and (refs := compiled.evidence_by_scalar.get(key := scalar(value)))
    }
    if not held:
        return
    worth = Worth(Review(setting.ctx, compiled, setting.spec, read_plan(state.plan)))
    for key, refs in held.items():
        trusted = [ref for ref in refs if worth.is_trusted_evidence(ref)]
        if trusted and key not in worth.trusted_input and key not in compiled.result_scalars:
            lasting = sorted(trusted, key=lambda ref: -setting.expiry.get(ref, _NEVER))
            yield tuple(lasting[:MAX_SOURCES])


_NEVER = 2**63
