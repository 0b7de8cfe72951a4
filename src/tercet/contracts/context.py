"""The frame of a run, and the compiled context that the planner sees and the critic judges by."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from tercet.contracts.buckets import TruncationEntry
from tercet.contracts.decision import DecisionSpec, RiskTier
from tercet.contracts.evidence import Evidence, meets
from tercet.contracts.gate import Gate
from tercet.contracts.lane import Lane, LaneFrame
from tercet.contracts.mode import MODE_RANK, ApprovalMode, Trust
from tercet.contracts.plan import Plan, Step
from tercet.contracts.policy import Policy
from tercet.contracts.request import Actor, Request, anonymous
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.contracts.runs.budget import BudgetUse, RunBudget
from tercet.contracts.shape import Authored
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.canonical import canonical_dump, hash_bytes
from tercet.contracts.values.plain import PlainValue
from tercet.contracts.values.references import Leaf, Place
from tercet.contracts.values.trust import Scalar, is_marked, scalar, scalars

Check = Literal["preconditions", "compensation", "latency", "concurrency", "checkpoints", "duplicates"]
"""The checks that a risk tier may omit. All others always run."""

ALL_CHECKS: tuple[Check, ...] = (
    "preconditions",
    "compensation",
    "latency",
    "concurrency",
    "checkpoints",
    "duplicates",
)

USUAL_TIERS: dict[RiskTier, tuple[Check, ...]] = {
    RiskTier.LOW: ("checkpoints", "duplicates"),
    RiskTier.MEDIUM: ("preconditions", "compensation", "checkpoints", "duplicates"),
    RiskTier.HIGH: ALL_CHECKS,
    RiskTier.CRITICAL: ALL_CHECKS,
}


class EarlierCall(Authored):
    """A call from an earlier plan or turn of the run that is not a step of the current plan."""

    step: Step
    """The step of the earlier plan, with the parameters of the actual call."""
    place: int | None = None
    """Its position among the completed steps of the run; None if its result was unusable or its outcome is unknown."""


class RunContext(Authored):
    """The frame of one run: its actor, its limits and its budget."""

    trace_id: str = "trace_local"
    run_id: str = "run_local"
    tenant: str = "default"
    actor: Actor = Field(default_factory=anonymous)
    safety_mode: ApprovalMode = ApprovalMode.LOCAL_WRITE
    run_budget: RunBudget = Field(default_factory=RunBudget)
    used: BudgetUse = Field(default_factory=BudgetUse)
    earlier: tuple[EarlierCall, ...] = ()
    """Calls that the run made, or may have made, under earlier plans: in order of completion, unknown outcomes last."""
    started_at: AwareDatetime | None = None
    """Set by the caller; evidence that expired before this time is not admitted."""
    depth: int = 0
    """How many runs this one is inside of."""
    lane: LaneFrame | None = None
    """That it is a lane: then it carries out nothing but reads, and proposes the rest to its parent."""
    plan_origin: Literal["planner", "caller"] = "planner"
    """A caller's own plan is never re-planned."""
    answers_feedback: bool = False
    """Whether the planner uses the reasons of a refusal, as language models do."""
    behaviour: tuple[int, ...] = CURRENT
    """The numbers of the rule changes that it follows: see `contracts/runs/behaviour.py`."""

    def goes_by(self, rule: Behaviour) -> bool:
        """Return whether the run follows a rule change."""
        return rule in self.behaviour

    @property
    def replans_left(self) -> int:
        """How many re-plans are left."""
        return max(0, self.run_budget.max_replans - self.used.replans)


class ToolManifestEntry(Authored):
    """A tool on the surface. Without a declaration, the cautious defaults of `ToolSpec` apply."""

    adapter_id: str
    capability_id: str
    approval_mode: ApprovalMode
    declaration: ToolSpec | None = None

    @classmethod
    def of(cls, spec: ToolSpec) -> Self:
        """Return the entry of a declared tool."""
        return cls(
            adapter_id=spec.adapter_id,
            capability_id=spec.capability_id,
            approval_mode=spec.mode,
            declaration=spec,
        )

    @cached_property
    def spec(self) -> ToolSpec:
        """The declaration, never weaker than the entry's mode."""
        name = f"{self.adapter_id}.{self.capability_id}"
        if self.declaration is None:
            return ToolSpec(name=name, mode=self.approval_mode)
        return self.declaration

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        spec = self.declaration
        if spec is not None and (spec.name, spec.mode) != (
            f"{self.adapter_id}.{self.capability_id}",
            self.approval_mode,
        ):
            raise ValueError(
                f"the entry {self.adapter_id}.{self.capability_id} and its declaration {spec.name} differ"
            )
        return self


class EvidenceManifestEntry(Authored):
    """Evidence that a plan may pin."""

    id: str
    classification: str
    content: PlainValue = None
    trust: Trust = Trust.UNTRUSTED
    hash: str = ""
    source: str = ""
    is_shown: bool = True
    """Whether the planner sees it; a plan may pin it either way."""

    @cached_property
    def places(self) -> dict[Scalar, list[Place]]:
        """The places of each scalar in its content."""
        found: dict[Scalar, list[Place]] = {}
        for leaf in scalars(self.content):
            found.setdefault(scalar(leaf.value), []).append(leaf.place)
        return found

    @classmethod
    def of(cls, evidence: Evidence) -> Self:
        """Return the entry of a piece of evidence."""
        return cls(
            id=evidence.id,
            classification=evidence.classification,
            content=evidence.content,
            trust=evidence.trust,
            hash=evidence.hash,
            source=evidence.source,
        )


class Manifests(Authored):
    """The tools and the evidence of one run."""

    tool_manifest: tuple[ToolManifestEntry, ...] = ()
    evidence_manifest: tuple[EvidenceManifestEntry, ...] = ()


class KnownResult(Authored):
    """A result from an earlier revision of this run."""

    step_id: str
    tool: str
    value: PlainValue
    trust: Trust


class EnteredResult(Authored):
    """A result that a person entered when settling a call of unknown outcome."""

    step_id: str
    by: str
    trust: Trust
    """Trusted, like the tool's own result, only if the person holds a role that the pack names for it and
    does not own the run."""


class ChangedValue(Authored):
    """A value that an approver set in a call of the plan, replacing what the planner or the caller wrote."""

    step_id: str
    tool: str
    place: str
    """A JSON Pointer into the parameters of the call."""
    value: PlainValue
    by: str
    gates: tuple[str, ...] = ()
    """The gates at which it was set: the changed call waits there again, in addition to its other gates."""


LedgerKind = Literal["decision", "policy", "gate", "tool", "evidence"]


class LedgerEntry(Authored):
    """Why an item was or was not admitted into the context."""

    kind: LedgerKind
    name: str
    admitted: bool
    reason: str


_REQUEST = "request"
_BESIDE = {"ledger", "safety_mode"}
"""Excluded from the hash: the ledger is prose, and better wording changes nothing; the mode belongs to the
run and is recorded there."""


class CompiledContext(Authored):
    """Everything that planner and critic may know, compiled once and recorded."""

    manifests: Manifests = Field(default_factory=Manifests)
    request: Request | None = None
    gates: tuple[Gate, ...] = ()
    policies: tuple[Policy, ...] = ()
    decisions: tuple[DecisionSpec, ...] = ()
    """The catalogue in which decision checkpoints are looked up."""
    lanes: tuple[Lane, ...] = ()
    """The lanes of this run; each is on the surface as `lane.<name>`."""
    risk_tiers: dict[RiskTier, tuple[Check, ...]] = Field(default=USUAL_TIERS)
    results: tuple[KnownResult, ...] = ()
    entered: tuple[EnteredResult, ...] = ()
    """Results of the plan's steps that people entered."""
    changed: tuple[ChangedValue, ...] = ()
    """Values in the plan's calls that approvers have set."""
    approved_plan: Plan | None = None
    """The previously approved plan, whose values a revision may keep."""
    pack: str = ""
    pack_hash: str = ""
    snapshot: str = ""
    safety_mode: ApprovalMode | None = None
    """The highest mode that the run may use; None if it was not set."""
    ledger: tuple[LedgerEntry, ...] = ()
    truncation: tuple[TruncationEntry, ...] = ()
    """What was omitted because of the pack's token limits."""
    left_out: dict[str, int] = {}
    """How many facts of each class the evidence store holds beyond those of the manifest, as far as they were counted."""

    @cached_property
    def surface(self) -> dict[str, ToolSpec]:
        """The tools of this run by name."""
        return {entry.spec.name: entry.spec for entry in self.manifests.tool_manifest}

    @cached_property
    def attesting(self) -> dict[str, list[ToolSpec]]:
        """The tools of this run by the classes of evidence that their results may represent."""
        found: dict[str, list[ToolSpec]] = {}
        for tool in self.surface.values():
            for classification in dict.fromkeys(tool.attests):
                found.setdefault(classification, []).append(tool)
        return found

    @cached_property
    def offered(self) -> dict[str, ToolSpec]:
        """The tools that the planner may use, by name: those of the surface within the safety mode."""
        if self.safety_mode is None:
            return self.surface
        ceiling = MODE_RANK[self.safety_mode]
        return {name: tool for name, tool in self.surface.items() if MODE_RANK[tool.mode] <= ceiling}

    @cached_property
    def evidence(self) -> dict[str, EvidenceManifestEntry]:
        """The evidence of this run by id."""
        return {entry.id: entry for entry in self.manifests.evidence_manifest}

    def count_unseen(self, requirement: str) -> int:
        """Return how many facts that meet a requirement the planner did not see."""
        hidden = (
            not entry.is_shown and meets(requirement, entry.classification)
            for entry in self.manifests.evidence_manifest
        )
        return sum(hidden) + sum(n for name, n in self.left_out.items() if meets(requirement, name))

    @cached_property
    def trusted_scalars(self) -> frozenset[Scalar]:
        """The values that literals were compared with before `STRICT_CALLS`: all trusted values, and all of the
        approved plan.
        """
        approved = self.approved_plan.steps if self.approved_plan else ()
        facts = (entry for entry in self.manifests.evidence_manifest if entry.trust is Trust.TRUSTED)
        leaves = [
            *(leaf for step in approved for leaf in scalars(step.params)),
            *(leaf for fact in facts for leaf in scalars(fact.content)),
            *(leaf for result in self.results for leaf in self.trusted_leaves(result, in_lists=False)),
        ]
        return frozenset(scalar(leaf.value) for leaf in leaves)

    def trusted_leaves(self, result: KnownResult, *, in_lists: bool = True) -> list[Leaf]:
        """Return the trusted scalars of a known result: none, or all outside the fields that its tool marks as
        untrusted; `in_lists` is that of `is_marked`.
        """
        if result.trust is not Trust.TRUSTED:
            return []
        tool = self.surface.get(result.tool)
        marks = () if tool is None else tool.untrusted
        return [leaf for leaf in scalars(result.value) if not is_marked(marks, leaf.place, in_lists=in_lists)]

    @cached_property
    def entered_by_step(self) -> dict[str, EnteredResult]:
        """The results that people entered, by step."""
        return {result.step_id: result for result in self.entered}

    def changed_at(self, step_id: str, tool: str) -> tuple[ChangedValue, ...]:
        """Return the values that approvers have set in the call of a step."""
        return tuple(each for each in self.changed if (each.step_id, each.tool) == (step_id, tool))

    @cached_property
    def gates_by_name(self) -> dict[str, Gate]:
        """The gates of this run by name."""
        return {gate.name: gate for gate in self.gates}

    @cached_property
    def hash(self) -> str:
        """The hash of everything in the context that planner and critic use."""
        before, after = self._around_the_request
        asked = self.request
        request = {} if asked is None else {_REQUEST: asked.model_dump(mode="json", exclude_defaults=True)}
        # Canonical JSON sorts members by name, so the document can be assembled from its parts.
        parts = (before, canonical_dump(request)[1:-1], after)
        return hash_bytes(b"{" + b",".join(part for part in parts if part) + b"}")

    @cached_property
    def _around_the_request(self) -> tuple[bytes, bytes]:
        """The members before and after the request, as canonical JSON: they are the same in many runs of a pack."""
        fields = self.model_dump(mode="json", exclude_defaults=True, exclude={_REQUEST, *_BESIDE})
        before = {name: value for name, value in fields.items() if name < _REQUEST}
        after = {name: value for name, value in fields.items() if name > _REQUEST}
        return canonical_dump(before)[1:-1], canonical_dump(after)[1:-1]

    def answering(self, request: Request) -> Self:
        """Return this context for another request. Values that do not depend on the request are computed here, once for
        all copies.
        """
        _ = self.surface, self.offered, self.evidence, self.gates_by_name, self._around_the_request
        _ = self.attesting, self.entered_by_step
        copied = super(Authored, self).model_copy(update={_REQUEST: request})
        vars(copied).pop("hash", None)  # the only cached value that depends on the request
        return copied

    def checks(self, tier: RiskTier) -> frozenset[Check]:
        """Return the optional checks of a risk tier; a tier that the table does not name gets all of them."""
        return frozenset(self.risk_tiers.get(tier, ALL_CHECKS))

    def input(self) -> dict[str, Any]:
        """The request's input; empty without a request."""
        return self.request.input if self.request else {}
