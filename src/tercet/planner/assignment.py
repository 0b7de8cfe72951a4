"""The task of a planning model: a whole plan, or the part of a plan that has to be planned again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tercet.contracts.context import CompiledContext, EvidenceManifestEntry, KnownResult
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan
from tercet.contracts.related import select_related
from tercet.contracts.shape import as_object
from tercet.contracts.tool import ALL_FIELDS, ToolSpec
from tercet.contracts.values.references import Place
from tercet.contracts.values.trust import input_marks, overlaps, with_dotted


@dataclass(frozen=True, kw_only=True)
class Complaint:
    """One typed reason why the previous plan was abandoned. `reason` may quote untrusted text; the rest is ours."""

    code: str
    reason: str
    place: str = ""
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Everything that a prompt and the schema of its answer are made of."""

    compiled: CompiledContext
    spec: DecisionSpec
    tools: Mapping[str, ToolSpec]
    """The available tools, by name."""
    max_steps: int
    """How many steps the answer may have."""
    first: int = 1
    """The number of the first step to write: steps are called s1, s2 and so on."""
    attempt: int = 1
    """The number of this attempt."""
    before: Plan | None = None
    """The plan that was abandoned."""
    kept: tuple[str, ...] = ()
    """The steps of it that are kept unchanged."""
    done: tuple[str, ...] = ()
    """The kept steps that have completed."""
    results: tuple[KnownResult, ...] = ()
    """The results of completed steps, except those too large to show."""
    outputs_kept: tuple[str, ...] = ()
    """The outputs of it that are kept."""
    complaints: tuple[Complaint, ...] = ()
    wish: str = ""
    """What a person who decides about this run asks for."""

    @property
    def is_partial(self) -> bool:
        """Whether steps are kept, so that only the rest is asked for."""
        return bool(self.kept)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The ids of the steps to write."""
        return tuple(f"s{number}" for number in range(self.first, self.first + self.max_steps))

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that are asked for."""
        schema = as_object(self.spec.outputs_schema) or {}
        wanted = self.spec.required_outputs or tuple(map(str, schema.get("required", ())))
        rendered = self.spec.rendered_outputs
        return tuple(name for name in wanted if name not in self.outputs_kept and name not in rendered)

    @cached_property
    def evidence(self) -> tuple[EvidenceManifestEntry, ...]:
        """The facts that the model sees: those that fit, and that satisfy the relations of the decision."""
        shown = [entry for entry in self.compiled.manifests.evidence_manifest if entry.is_shown]
        return select_related(shown, self.spec.bind, self.compiled.input(), self.spec.untrusted_inputs)

    @cached_property
    def _untrusted_inputs(self) -> tuple[str, ...]:
        return input_marks(with_dotted(self.spec.untrusted_inputs))

    def is_trusted_input(self, place: Place) -> bool:
        """Return whether a part of the request contains no untrusted text."""
        return not any(overlaps(mark, place) for mark in self._untrusted_inputs)

    def is_trusted_field(self, tool: ToolSpec, place: Place) -> bool:
        """Return whether a part of a tool's result contains no untrusted text, provided that its inputs do not either."""
        is_marked = any(mark == ALL_FIELDS or overlaps(mark, place) for mark in tool.untrusted)
        return tool.result_trust is Trust.TRUSTED and not is_marked
