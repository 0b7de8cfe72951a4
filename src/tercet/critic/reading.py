"""A plan read over a compiled context, independent of the actor and the budget.

Values are in one of three states at review. *Written*: a literal. *Known*: a reference to evidence or to the request,
whose value is already frozen. *Open*: a reference to the result of a step, known only at dispatch. Rules that read an
open value are deferred to dispatch, where they are checked on the resolved call.

The review of a plan and the score of its run may share one reading.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tercet.contracts.context import CompiledContext
from tercet.contracts.mode import Reversibility
from tercet.contracts.plan import Compensation, Plan, Step
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.steps.effective import EffectiveStep, Inherited
from tercet.contracts.values import pointer, references
from tercet.contracts.values.references import Found, Place, Reference, Selection
from tercet.policy.call_params import ruled_params
from tercet.policy.resolution import ItemBudget, ResolutionError, select
from tercet.policy.schemas import Fault

_PURE = Reversibility.PURE


class Known(NamedTuple):
    """The value of a reference that is known at review, or why it cannot be resolved."""

    value: Any = None
    fault: str | None = None


class Reading:
    """A plan, read once over the context that completes its steps."""

    def __init__(self, compiled: CompiledContext, plan: Plan) -> None:
        self.compiled = compiled
        self.plan = plan
        self._surface = compiled.surface
        self._inherited: dict[str, Inherited] = {}
        self.calls: list[EffectiveStep] = []
        """The effective steps that call a tool on the surface."""
        self.call_at: dict[int, EffectiveStep] = {}
        """The same by position."""
        self.position: dict[str, int] = {}
        self.found: list[list[Found]] = []
        """The references and literals in the parameters of each step, by declared names."""
        self.pinned: list[tuple[str, ...]] = []
        """The evidence that each step pins: listed, or read by reference."""
        self.conditions: dict[int, Reference] = {}
        """The condition of each step that has one."""
        self.open_places: dict[int, list[Place]] = {}
        """For each call that has any, the places of its open values."""
        self.resolvable: set[int] = set()
        """The calls with a known reference or a `$literal` wrapper."""
        self.planned_tokens = self.tokens = self.duration_ms = self.cost_microcents = 0
        """The token estimates of the steps alone, and of the steps and their tools."""
        self.compensations: list[Compensation] = []
        """The calls that could compensate a step of the plan, each reserved with its step."""
        for position, step in enumerate(plan.steps):
            self._read_step(position, step)
        self.open_parameters = {
            position: frozenset([str(place[0]) for place in places])
            for position, places in self.open_places.items()
        }
        """For each call that has any, the parameters with an open value."""
        self.faults: dict[int, list[Fault]] = {}
        """The schema violations of each call's arguments, once they have been computed."""
        self._arguments: dict[int, dict[str, Any]] = {}
        self._ruled: dict[int, dict[str, Any]] = {}
        self._selections: dict[tuple[Selection, tuple[type, ...]], Known] = {}
        self._items = ItemBudget()

    def _read_step(self, position: int, step: Step) -> None:
        said = vars(step)  # reading a field of a contract by its name takes several times as long
        found, tokens, duration_ms = step.found, said["estimated_tokens"], said["estimated_ms"]
        self.planned_tokens += tokens
        if (inherited := self._inherit(said["tool"] or "")) is not None:
            call = inherited.effective(position, step, said)
            if call.params is not said["params"]:
                found = references.scan(call.params)
            self.calls.append(call)
            self.call_at[position] = call
            if inherited.tokens > tokens:
                tokens = inherited.tokens
            if duration_ms is None:
                duration_ms = inherited.duration_ms
            self.cost_microcents += inherited.cost_microcents
            if call.compensate is not None and call.reversibility is not _PURE:
                self.compensations.append(call.compensate)
        self.tokens += tokens
        self.duration_ms += duration_ms or 0
        self.position[said["id"]] = position
        self.found.append(found)
        # Nothing is open or known in a plain step.
        is_plain = found is said.get("found") and said.get("is_written_out", False)
        self.pinned.append(said["evidence_refs"] if is_plain else self._read_values(position, step, found))
        if said["when"] is not None:
            condition = references.parse("cel", said["when"], ("when",))
            if isinstance(condition, Reference):
                self.conditions[position] = condition

    def _inherit(self, tool: str) -> Inherited | None:
        """Return what a step inherits from a tool of the surface; None if the tool is not on it."""
        found = self._inherited.get(tool)
        if found is None and tool in self._surface:
            found = self._inherited[tool] = Inherited(self._surface[tool])
        return found

    def _read_values(self, position: int, step: Step, found: list[Found]) -> tuple[str, ...]:
        """Record which values of a call are open and which are known; return the evidence that the step pins."""
        places: list[Place] = []
        is_known = is_pinning = False
        for each in found:
            if type(each) is not Reference:
                is_known |= references.LITERAL in each.place
            elif is_open(each):
                places.append(each.place)
                is_pinning |= each.kind == "select"
            else:
                is_known = is_pinning = True
        if places and position in self.call_at:
            self.open_places[position] = places
        if is_known:
            self.resolvable.add(position)
        # A parameter that is set twice, by name and by alias, is not scanned.
        return pinned(step) if is_pinning or found is not step.found else step.evidence_refs

    def is_of(self, compiled: CompiledContext, plan: Plan) -> bool:
        """Return whether this is a reading of exactly this context and plan, by identity."""
        return self.compiled is compiled and self.plan is plan

    def known(self, reference: Reference) -> Known | None:
        """Return the value of a reference if it is known at review; None if it is open."""
        if reference.kind == "evidence":
            entry = self.compiled.evidence.get(reference.target)
            if entry is None:
                return Known(fault=f"evidence {reference.target} is not in the snapshot")
            return _follow(entry.content, reference.pointer, reference.target)
        if reference.target == references.REQUEST:
            return _follow(self.compiled.input(), reference.pointer, "the request")
        if reference.selection is not None and not is_open(reference):
            return self._selected(reference.selection)
        return None

    def _selected(self, selection: Selection) -> Known:
        """Return the selected item of a known list; cached, since a list may be long."""
        values: list[object] = [each.value for each in selection.where]
        key = selection, tuple(map(type, values))  # 1 equals True in Python
        found = self._selections.get(key)
        if found is None:
            try:
                found = Known(select(selection, self._demand_known, self._items))
            except ResolutionError as error:
                found = Known(fault=error.message)
            self._selections[key] = found
        return found

    def _demand_known(self, reference: Reference) -> Any:
        known = self.known(reference)
        if known is None or known.fault:
            raise ResolutionError(known.fault if known and known.fault else f"{reference.text} is not known")
        return known.value

    def arguments(self, call: EffectiveStep) -> dict[str, Any]:
        """Return the parameters of a call with every known reference resolved; open ones are unchanged."""
        if call.position not in self.resolvable:
            return call.params
        found = self._arguments.get(call.position)
        if found is None:
            found = {name: self.resolved(value) for name, value in call.params.items()}
            self._arguments[call.position] = found
        return found

    def ruled_arguments(self, call: EffectiveStep) -> dict[str, Any]:
        """Return the same with the defaults that the tool's schema declares, as rules read them."""
        if not call.tool.may_have_defaults:
            return self.arguments(call)
        found = self._ruled.get(call.position)
        if found is None:
            found = self._ruled[call.position] = ruled_params(call.tool, self.arguments(call))
        return found

    def resolved(self, value: Any) -> Any:
        """Return a value with every known reference resolved and `$literal` unwrapped; open references are unchanged."""
        members = as_object(value)
        if members is not None:
            reference = references.as_reference(members)
            if reference is not None:
                known = None if is_open(reference) else self.known(reference)
                return value if known is None or known.fault else known.value
            if references.LITERAL in members:
                return members[references.LITERAL]
            return {key: self.resolved(member) for key, member in members.items()}
        items = as_list(value)
        return value if items is None else [self.resolved(item) for item in items]


def is_open(reference: Reference) -> bool:
    """Return whether the value of a reference is known only at dispatch."""
    kind = reference.kind
    if kind == "from":
        return reference.target != references.REQUEST
    if reference.selection is not None:
        return any(map(is_open, reference.selection.references))
    return kind == "cel"


def pinned(step: Step) -> tuple[str, ...]:
    """Return the evidence that a step pins: listed, or read by reference."""
    read = [
        ref
        for f in step.found
        if type(f) is Reference and (f.kind == "evidence" or f.kind == "select")
        for ref in references.evidence_of(f)
    ]
    return (*step.evidence_refs, *read) if read else step.evidence_refs


def with_params(step: Step, params: JsonObject) -> Step:
    """Return a step with its actual parameters; what it pinned stays pinned."""
    return step.resolved_to(params, pinned(step))


def _follow(value: Any, where: str, name: str) -> Known:
    try:
        return Known(pointer.follow(value, where))
    except pointer.PointerError:
        return Known(fault=f"{name} has nothing at {where}")
