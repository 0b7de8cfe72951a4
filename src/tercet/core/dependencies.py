"""Results that references can point at, and the evidence and results that a call depends on.

Values read through notes count as if the call read them itself, since a note only passes values on. Evidence that
supports a literal is pinned by the step that contains it, so the step lists it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tercet.contracts.context import EnteredResult
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Compensation, Plan, Step
from tercet.contracts.steps.effective import unaliased
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer, references
from tercet.contracts.values.references import Found, Read, Reference
from tercet.contracts.values.trust import overlaps
from tercet.core.config import RunConfig
from tercet.core.plans import read_plan
from tercet.core.state import State
from tercet.critic.checks.compensation import CompensatingStep
from tercet.critic.reading import pinned


def entered_results(state: State) -> tuple[EnteredResult, ...]:
    """Return the results that people entered, in the critic's form."""
    return tuple(
        EnteredResult(step_id=step, by=each.by, trust=Trust.TRUSTED if each.is_trusted else Trust.UNTRUSTED)
        for step, each in state.entered.items()
    )


class Results(Mapping[str, Any]):
    """A view of a run's results by step, without copying them."""

    def __init__(self, state: State, request: Mapping[str, Any], blobs: Mapping[str, Any]) -> None:
        self._state = state
        self._request = request
        self._blobs = blobs

    def __getitem__(self, name: str) -> Any:
        if name == references.REQUEST:
            return self._request
        if self._is_outputs(name):
            return self._state.outputs
        step = self._state.steps[name]
        if step.status != "done":
            raise KeyError(name)
        return self._blobs[step.blob] if step.blob else step.value

    def __contains__(self, name: object) -> bool:
        if name == references.REQUEST or self._is_outputs(name):
            return True
        step = self._state.steps.get(name) if isinstance(name, str) else None
        return step is not None and step.status == "done"

    def _is_outputs(self, name: object) -> bool:
        """Return whether a name refers to the accepted outputs of the run."""
        is_meant = name == references.OUTPUTS and name not in self._state.steps
        return is_meant and self._state.accepted is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._state.done)

    def __len__(self) -> int:
        return len(self._state.done)


class Basis(NamedTuple):
    """The evidence and the results that a call depends on."""

    evidence: tuple[str, ...] = ()
    """The ids of the evidence: all of it has to be valid."""
    results: tuple[str, ...] = ()
    """The steps whose results it reads."""


def basis_of(state: State, config: RunConfig, step: Step, compensation: Compensation | None = None) -> Basis:
    """Return everything that a step depends on: its listed evidence, and the reads of its parameters, its condition
    and its compensation, also in expressions and through notes."""
    if isinstance(step, CompensatingStep):  # its values were bound when its host was dispatched
        return Basis(evidence=step.evidence_refs)
    search = _Search(state)
    search.add_step(step, config.surface.get(step.tool or ""))
    if compensation is not None:
        search.add_params(compensation.params, None)
    search.follow_notes()
    return Basis(evidence=tuple(search.evidence), results=tuple(search.results))


def evidence_in(value: Any) -> tuple[str, ...]:
    """Return the evidence that a JSON value refers to, also in expressions."""
    scanned = references.scan(value)
    return tuple(ref for item in scanned if type(item) is Reference for ref in references.evidence_of(item))


class _Search:
    """Collects the reads of a step, directly and behind notes."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._own: Sequence[Found] = ()
        self._reads: dict[Read, None] = {}
        self._awaited: dict[str, None] = {}
        self.evidence: dict[str, None] = {}
        self.results: dict[str, None] = {}

    def add_step(self, step: Step, tool: ToolSpec | None) -> None:
        """Add the listed evidence of a step, the reads of its condition and its parameters, and the steps that it
        waits for."""
        self.evidence.update(dict.fromkeys(step.evidence_refs))
        self._awaited.update(dict.fromkeys(step.depends_on))
        self._add_condition(step)
        self._own = self.add_params(step.params, tool)

    def add_params(self, params: dict[str, Any], tool: ToolSpec | None) -> Sequence[Found]:
        """Add the reads of a call's parameters, and return the parameters scanned, by the tool's own names for them."""
        scanned = references.scan(params if tool is None else unaliased(params, tool.aliases)[0])
        for item in scanned:
            self._add(item)
        return scanned

    def follow_notes(self) -> None:
        """Add the references of the read parts of notes, and the conditions of these notes."""
        if not self._reads and not self._awaited:
            return
        plan = read_plan(self._state.plan)
        notes = {step.id: step for step in plan.steps if step.kind == "note"}
        done: set[Read | str] = set()
        while waiting := [each for each in (*self._reads, *self._awaited) if each not in done]:
            for each in waiting:
                done.add(each)
                if isinstance(each, str):
                    self._add_reason(notes.get(each))
                    continue
                if each.name == references.OUTPUTS and each.name not in self._state.steps:
                    self._add_outputs(plan, each)
                    continue
                note = notes.get(each.name)
                self._add_reason(note)
                written = self._own if each.name == references.PARAMS else note.found if note else ()
                for item in written:
                    if overlaps(pointer.join(each.place), item.place):
                        self._add(item)

    def _add_outputs(self, plan: Plan, read: Read) -> None:
        """Add the sources of an output, and the evidence that its repairs have fetched. An output that the plan does
        not bind, such as a rendered document, may depend on all evidence that the plan pins."""
        self.evidence.update(dict.fromkeys(self._state.quality.fetched))
        if not read.place or read.place[0] not in plan.outputs:
            self.evidence.update(dict.fromkeys(ref for step in plan.steps for ref in pinned(step)))
        for item in plan.found_outputs:
            if overlaps(pointer.join(read.place), item.place):
                self._add(item)

    def _add_reason(self, note: Step | None) -> None:
        """Add the dependencies of a note's condition."""
        if note is not None:
            self.evidence.update(dict.fromkeys(note.evidence_refs))
            self._awaited.update(dict.fromkeys(note.depends_on))
            self._add_condition(note)

    def _add_condition(self, step: Step) -> None:
        if step.when is not None:
            self._add(references.parse("cel", step.when))

    def _add(self, item: Found) -> None:
        if type(item) is not Reference:
            return
        # An expression that reads evidence whose id cannot be determined is refused at review.
        self.evidence.update(dict.fromkeys(references.evidence_of(item)))
        self.results.update({name: None for name in item.names if name not in references.RESERVED_IDS})
        self._reads.update(dict.fromkeys(references.reads_of(item)))
