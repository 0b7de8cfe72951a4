"""The plan that a planner proposes: typed steps, and where its outputs come from.

One superset model serves both plan formats. A step that omits mode, gates, reversibility or compensation inherits them
from its tool; the critic judges the effective step (`tercet.contracts.steps.effective`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from tercet.contracts.errors import PlanError
from tercet.contracts.mode import ApprovalMode, Reversibility
from tercet.contracts.problem import Problem
from tercet.contracts.shape import Authored, Json, JsonObject
from tercet.contracts.steps import graph
from tercet.contracts.values import pointer, references
from tercet.contracts.values.canonical import canonical_dump, hash_bytes
from tercet.contracts.values.plain import not_json, scan_scalars
from tercet.contracts.values.references import OUTPUTS, Found, Place, Reference

StepKind = Literal["tool", "note", "lane"]
MAX_STEPS = 10_000
"""A plan with more steps does not parse; the run's budget is far lower."""

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,63}")
_TOOL = re.compile(r"[A-Za-z0-9_\-]+\.[A-Za-z0-9_.\-/]+")

# With a length limit Pydantic reads the string and finds unpaired surrogates; without one it does not.
Ids = Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=MAX_STEPS)]
Texts = Annotated[tuple[Annotated[str, Field(max_length=1_000)], ...], Field(max_length=1_000)]


class Compensation(Authored):
    """The call that undoes an effect: `self` refers to the step's result, `params` to its parameters."""

    tool: str = Field(max_length=200)
    params: JsonObject = {}


class EvidenceQuery(Authored):
    """A query with which RETRIEVE may pin evidence for a step: search words, or a read_only tool."""

    classification: str = Field(max_length=200)
    query: str = Field(default="", max_length=4_000)
    limit: int = Field(default=1, ge=1, le=100, strict=True)
    tool: str | None = Field(
        default=None, max_length=200, description="A read_only tool whose result is the evidence."
    )
    params: JsonObject = Field(
        default={}, description="Its parameters: values, or references to the request and to evidence."
    )

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        if bool(self.query) == (self.tool is not None):
            raise ValueError("a question has either words to search for, or a tool to look it up")
        if self.params and self.tool is None:
            raise ValueError("only the look-up by a tool has parameters")
        return self

    def __hash__(self) -> int:
        return hash((self.classification, self.query, self.limit, self.tool))


class DecisionCheckpoint(Authored):
    """A point after a step at which a decision of the catalogue is made."""

    decision_id: str = Field(max_length=200)
    after_step: str = Field(max_length=64)


class Step(Authored):
    """One proposed action."""

    id: str = Field(description="A name that is unique in the plan, such as s1.")
    kind: StepKind = Field(
        default="tool", description="tool calls a tool; note calls nothing and yields its params."
    )
    tool: str | None = Field(default=None, description="adapter.capability, out of the tools on the surface.")
    params: JsonObject = Field(default={}, description="The call's parameters: values or references.")
    depends_on: Ids = Field(default=(), description="Steps that must complete first; references add theirs.")
    approval_mode: ApprovalMode | None = Field(default=None, description="At least the tool's own mode.")
    gates: Texts | None = Field(default=None, description="Human approvals that this step waits for.")
    requires_evidence: Texts = Field(default=(), description="Evidence classes that must be pinned.")
    evidence_refs: Texts = Field(default=(), description="Pinned evidence ids.")
    evidence_queries: Annotated[tuple[EvidenceQuery, ...], Field(max_length=100)] = ()
    estimated_tokens: int = Field(default=0, ge=0, le=10**12, strict=True)
    estimated_ms: int | None = Field(default=None, ge=0, le=10**12, strict=True)
    priority: int = Field(default=0, ge=-(10**6), le=10**6, strict=True)
    preconditions: Texts = Field(default=(), description="Conditions that must hold before this step.")
    reversibility: Reversibility | None = None
    compensate: Compensation | None = None
    when: str | None = Field(
        default=None, max_length=2_000, description="A CEL condition; false skips the step."
    )
    optional: bool = Field(default=False, strict=True)

    @field_validator("id")
    @classmethod
    def _id_is_a_name(cls, value: str) -> str:
        if not _ID.fullmatch(value):
            raise ValueError("use up to 64 letters, digits, '_', '-' or '.', for example s1")
        if value in references.RESERVED_IDS:
            raise ValueError(f"{value!r} has a meaning of its own in references; choose another id")
        return value

    @model_validator(mode="after")
    def _tool_fits_kind(self) -> Self:
        fields = vars(self)  # reading a field of a contract by its name takes several times as long
        fault = tool_fault(fields["kind"], fields["tool"])
        if fault is not None:
            raise ValueError(fault)
        return self

    @cached_property
    def found(self) -> list[references.Found]:
        """The references and literals in the parameters, scanned once."""
        return _scan(self.params)

    @cached_property
    def is_written_out(self) -> bool:
        """Whether all parameters are literals, so that there is nothing to resolve."""
        for found in self.found:
            if type(found) is not references.Leaf or references.LITERAL in found.place:
                return False
        return True

    def resolved_to(self, params: JsonObject, refs: tuple[str, ...]) -> Self:
        """Return this step with these parameters as literals, and with this evidence pinned."""
        literals = {name: {references.LITERAL: value} for name, value in params.items()}
        # Not validated again: a step may pin more, by listing and by reference, than a plan may list.
        changed = super(Authored, self).model_copy(update={"params": literals, "evidence_refs": refs})
        for derived in ("found", "is_written_out"):
            vars(changed).pop(derived, None)
        return changed

    def waiting_for(self, ids: tuple[str, ...]) -> Self:
        """Return this step with these steps in `depends_on`."""
        return super(Authored, self).model_copy(update={"depends_on": ids})

    @property
    def hash(self) -> str:
        """The hash of this step, independent of its plan."""
        return hash_bytes(canonical_dump(self.model_dump(mode="json", exclude_defaults=True)))


COMPENSATES = "~"
"""The prefix of a compensating step's id; the id of the compensated step follows."""


def compensated_step(step_id: str) -> str:
    """Return the id of the step that a compensating step compensates; empty for any other step."""
    return step_id.removeprefix(COMPENSATES) if step_id.startswith(COMPENSATES) else ""


def _names_in(found: Iterable[references.Found]) -> frozenset[str]:
    """Return the names that references refer to."""
    return frozenset(name for item in found if isinstance(item, references.Reference) for name in item.names)


class Plan(Authored):
    """A proposed list of steps, the outputs it declares, and the decisions it makes on the way."""

    IDENTITY: ClassVar[frozenset[str]] = frozenset({"plan_id", "revision", "parent"})

    plan_id: str = Field(default="", max_length=200)
    revision: int = Field(default=1, ge=1, le=10**9, strict=True)
    parent: str | None = Field(
        default=None, max_length=200, description="The hash of the plan that this one revises."
    )
    intent: str | None = Field(default=None, max_length=200)
    steps: tuple[Step, ...] = Field(max_length=MAX_STEPS)
    outputs: dict[str, Json] = Field(
        default={}, description="Declared outputs: a literal or a reference each."
    )
    declared_outputs: Texts = Field(
        default=(),
        description="Outputs by name only, each taken from the last completed result that carries it.",
    )
    memory: Annotated[dict[str, Json], Field(max_length=20)] = Field(
        default={},
        description="What the run suggests remembering, by class: a literal or a reference each.",
    )
    decision_checkpoints: Annotated[tuple[DecisionCheckpoint, ...], Field(max_length=1_000)] = ()
    untrusted_refs: Texts = Field(
        default=(),
        description="Evidence ids that a template made of untrusted fields of the request: they are not trusted.",
    )

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        known: list[dict[str, Any]] = [vars(step) for step in self.steps]
        problems = duplicate_ids([step["id"] for step in known])
        for index, step in enumerate(known):
            problems += _step_problems(index, step)
        if self.outputs:
            problems += named_problems(self.outputs, ("outputs",), self.found_outputs)
        if self.memory:
            problems += named_problems(self.memory, ("memory",))
        if problems:
            raise PlanError(problems)
        return self

    @property
    def output_names(self) -> tuple[str, ...]:
        """Every output that this plan declares, bound or by name only."""
        return tuple(dict.fromkeys((*self.outputs, *self.declared_outputs)))

    @cached_property
    def found_outputs(self) -> list[references.Found]:
        """The references and literals in the outputs, scanned once."""
        return references.scan(self.outputs)

    @cached_property
    def graph(self) -> graph.Graph:
        """The dependency graph, computed once."""
        return graph.build(self)

    @cached_property
    def referenced(self) -> frozenset[str]:
        """The steps whose results a parameter, a condition, an output or a memory refers to."""
        found = [item for step in self.steps for item in step.found]
        found += self.found_outputs + references.scan(self.memory)
        conditions = (references.names(step.when) for step in self.steps if step.when is not None)
        return _names_in(found).union(*conditions)

    @cached_property
    def referenced_by_compensations(self) -> frozenset[str]:
        """The steps whose results a compensation refers to."""
        scanned = (references.scan(step.compensate.params) for step in self.steps if step.compensate)
        return _names_in(item for found in scanned for item in found)

    @cached_property
    def hash(self) -> str:
        """The hash of everything but the id, the revision number and the parent."""
        return self.hash_dumped(self.model_dump(mode="json", exclude_defaults=True))

    @classmethod
    def hash_dumped(cls, fields: JsonObject) -> str:
        """Return the hash of a plan that was dumped as JSON without defaults."""
        return hash_bytes(canonical_dump({name: fields[name] for name in fields if name not in cls.IDENTITY}))

    def revise(self, **changes: Any) -> Plan:
        """Return the next revision of this plan, with its parent's hash."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return Plan.model_validate({**fields, "revision": self.revision + 1, "parent": self.hash, **changes})


@lru_cache(maxsize=1_024)  # the steps of all plans call the same few tools
def tool_fault(kind: StepKind, tool: str | None) -> str | None:
    """Return why a step of this kind cannot have this tool, or None if it can."""
    if kind == "lane":
        is_named = tool is None or (tool.startswith("lane.") and _TOOL.fullmatch(tool) is not None)
        return (
            None if is_named else "a step of kind lane calls no tool but its lane: name that as lane.<name>"
        )
    if kind != "tool":
        return (
            None
            if tool is None
            else f"a step of kind {kind} calls no tool; drop the tool or make it kind tool"
        )
    if tool is None:
        return "a step of kind tool names its tool as adapter.capability"
    return None if _TOOL.fullmatch(tool) else f"write the tool as adapter.capability, not {tool[:80]!r}"


def duplicate_ids(ids: list[str]) -> list[Problem]:
    """Return a problem for each id that an earlier step already has."""
    if len(set(ids)) == len(ids):
        return []
    seen: dict[str, int] = {}
    found: list[Problem] = []
    for index, step_id in enumerate(ids):
        if step_id in seen:
            found.append(
                Problem(
                    code="duplicate_id",
                    place=f"/steps/{index}/id",
                    message=f"step {index} has the id {step_id!r} of step {seen[step_id]}",
                    remedy="give each step an id of its own",
                )
            )
        seen.setdefault(step_id, index)
    return found


def named_problems(
    members: dict[str, Any], place: references.Place, scanned: list[references.Found] | None = None
) -> list[Problem]:
    """Return the problems of parameters or outputs, which are named: a single reference in place of all of them is one."""
    for name in members:
        if name[:1] == "$":
            return [_malformed(place, f"{name!r} is no name; each value is given under one", _NAMED)]
    return faulty(references.scan(members) if scanned is None else scanned, place)


def malformed(value: Any, place: references.Place) -> list[Problem]:
    """Return a problem for each broken reference in a value, and for each scalar that is not JSON."""
    return faulty(references.scan(value), place)


def faulty(scanned: list[references.Found], place: references.Place) -> list[Problem]:
    """Return the same problems for a value that has been scanned already."""
    problems: list[Problem] = []
    for found in scanned:
        if type(found) is references.Leaf:
            if fault := not_json(found.value):
                problems.append(_malformed((*place, *found.place), fault, _JSON_VALUES))
        elif type(found) is references.Malformed:
            remedy = _REFERENCE_FORMS if found.is_reference else _JSON_VALUES
            problems.append(_malformed((*place, *found.place), found.message, remedy))
        elif type(found) is references.Reference and found.selection is not None:
            faults = filter(None, map(not_json, references.constants_of(found)))
            problems += [_malformed((*place, *found.place), fault, _JSON_VALUES) for fault in faults]
    return problems


def _malformed(place: references.Place, message: str, remedy: str) -> Problem:
    return Problem(code="malformed_value", place=pointer.join(place), message=message, remedy=remedy)


_JSON_VALUES = "use strings, finite numbers, booleans, null, and lists and objects of them"
_NAMED = 'write {"<name>": {"$from": "s1#/field"}}, one reference for each name'
_REFERENCE_FORMS = (
    'write {"$from": "s1#/field"}, {"$evidence": "<ref>#/field"}, {"$cel": "s1.a + s2.b"} '
    'or {"$select": {"from": "s1#/rows", "order": "first"}}'
)


def _scan(params: JsonObject) -> list[references.Found]:
    found = scan_scalars(params)
    return references.scan(params) if found is None else found


def _step_problems(index: int, known: dict[str, Any]) -> list[Problem]:
    """Return the problems of a step, given by its fields, and keep what was found in its parameters."""
    params, compensate = known["params"], known["compensate"]
    if compensate is None and (found := scan_scalars(params)) is not None:
        # As the cached properties would, without their lock: these are read for every step.
        known["found"], known["is_written_out"] = found, True
        return []
    if "found" not in known:
        known["found"] = references.scan(params)
    problems = named_problems(params, ("steps", index, "params"), known["found"])
    if compensate is not None:
        problems += named_problems(compensate.params, ("steps", index, "compensate", "params"))
    return problems


# --- delivery ---
# References to the outputs of the run, and outputs that come too late for it. Outputs are judged when every step has ended
# that takes none of them, so nothing that they are made of may wait for a step that does.


class UnknownOutput(NamedTuple):
    """A reference to an output that a run does not have."""

    step: int
    place: Place
    """Where it stands in the step."""
    name: str
    """Empty where the reference names no output."""


class LateOutput(NamedTuple):
    """An output, or something to remember, that comes from a step which runs after outputs are accepted."""

    place: Place
    """Where it stands in the plan."""
    step: str
    """Empty where it comes from the outputs themselves."""


def find_unknown_outputs(plan: Plan, required: Collection[str]) -> Iterator[UnknownOutput]:
    """Yield the references to outputs that neither the plan declares nor its decision requires or renders."""
    known = {*plan.output_names, *required}
    for index in sorted(plan.graph.delivery):
        for place, item in _held(plan.steps[index]):
            for read in references.reads_of(item):
                name = str(read.place[0]) if read.place else ""
                if read.name == OUTPUTS and name not in known:
                    yield UnknownOutput(index, place, name)


def _held(step: Step) -> Iterator[tuple[Place, Reference]]:
    """The references of a step, with their places in it."""
    parts: list[tuple[Place, list[Found]]] = [(("params",), step.found)]
    if step.when is not None:
        parts.append((("when",), [references.parse("cel", step.when)]))
    if step.compensate is not None:
        parts.append((("compensate", "params"), references.scan(step.compensate.params)))
    for place, found in parts:
        yield from (((*place, *item.place), item) for item in found if type(item) is Reference)


def find_late_outputs(plan: Plan) -> Iterator[LateOutput]:
    """Yield the outputs, and what is to be remembered, that wait for outputs to be accepted."""
    late = {plan.steps[index].id for index in plan.graph.delivery}
    for field, values in (("outputs", plan.outputs), ("memory", plan.memory)):
        for item in references.scan(values):
            if type(item) is not Reference:
                continue
            source = next((name for name in item.names if name in late), None)
            if source is not None or OUTPUTS in item.names:
                yield LateOutput((field, *item.place), source or "")
