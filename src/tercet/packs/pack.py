"""A pack: a versioned unit of configuration, loaded from a folder or built in Python."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, AwareDatetime, Field, SkipValidation, model_validator

from tercet.contracts.context import RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import PackError, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.lane import Lane
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.packs.tuning import TuningRules
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.problem import Problem
from tercet.contracts.request import Actor, Request
from tercet.contracts.shape import Authored, JsonObject
from tercet.contracts.tasks import TaskLibrary
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.canonical import canonical, hash_bytes
from tercet.contracts.verdict import ValidationResult, Verdict
from tercet.packs.checks.effects import PERSONAL_CHECKS
from tercet.packs.checks.expressions import LOADING_CHECKS
from tercet.packs.checks.gates import os_users_are_distinct
from tercet.packs.checks.limits import controls_are_stable
from tercet.packs.checks.methods import METHOD_CHECKS
from tercet.packs.loading import read_folder
from tercet.packs.parts import Header, Parts, Spot, lane_specs
from tercet.packs.people import actor_for
from tercet.tools.code import name_code
from tercet.tools.tool import Tool

_T = TypeVar("_T")
_IdentifiedT = TypeVar("_IdentifiedT", Actor, Evidence)
Listed = Annotated[Sequence[_T], AfterValidator(tuple)]
"""Accepts a list or a tuple, stored as a tuple."""

_FORMAT = 1
"""The version of the hashed content; changing it changes the hash of every pack."""


class Pack(Header):
    """Tools, decisions, gates, policies, actors and evidence under one name and version.

    Two packs are equal if they have the same declarations and the same evidence.
    """

    tools: Listed[Tool] = ()
    decisions: Listed[DecisionSpec] = ()
    gates: Listed[Gate] = ()
    policies: Listed[Policy] = ()
    lanes: Listed[Lane] = ()
    """Runs of its own that a step may start."""
    actors: Listed[Actor] = ()
    evidence: Listed[Evidence] = ()
    templates: Listed[Plan] = ()
    """The plans that the template planner proposes, one for each intent."""
    library: TaskLibrary = TaskLibrary()
    """The tasks and methods of the task planner."""
    tuning: TuningRules = Field(default_factory=TuningRules, repr=False)
    """What may be tuned, within which bounds. It affects no run, so it is not part of the hash."""
    snapshot_times: Mapping[str, AwareDatetime] = Field(default={}, repr=False)
    """The time of each snapshot; one without a time counts as oldest."""
    code: Mapping[str, str] = Field(default={}, repr=False)
    """The hash of each file that the tools came from; empty for a pack built in Python."""
    spots: Annotated[Mapping[str, Spot], SkipValidation] = Field(default={}, repr=False)
    """The file and line of each declaration."""
    folder: str = Field(default="", repr=False)
    """The folder that it was loaded from, for messages; empty for a pack built in Python."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the pack in a folder; raise `PackError` with every problem if it does not load.

        Expressions and schemas are compiled here too. `check` also finds what makes a pack useless or unsafe, such as a
        gate that no actor can approve.
        """
        loaded = read_folder(path)
        problems = [
            *(problem for problem in loaded.problems if problem.severity == "error"),
            *(found for check in LOADING_CHECKS for found in check(loaded.parts)),
        ]
        if problems:
            raise PackError(problems)
        given: dict[str, Any] = {name: getattr(loaded.parts, name) for name in _SHARED}
        given |= {name: getattr(loaded.pack_file, name) for name in Header.model_fields}
        given["tools"] = loaded.tools
        return cls(
            **given, snapshot_times=loaded.snapshot_times, code=loaded.code, folder=str(os.fspath(path))
        )

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        problems = [*_duplicates(self), *_method_problems(self), *controls_are_stable(self.parts)]
        if self.personal.has_marks:
            problems += [found for check in PERSONAL_CHECKS for found in check(self.parts)]
        if problems:
            raise PackError(problems)
        return self

    @cached_property
    def hash(self) -> str:
        """The hash of the declarations and the code of the tools."""
        return hash_bytes(self.content)

    @cached_property
    def content(self) -> bytes:
        """The hashed content as canonical JSON: every session stores it, so that a replay knows its rules.

        Evidence is pinned separately, by the snapshot. People are not included: roles are looked up when needed.
        """
        return canonical(self.declarations)

    @property
    def declarations(self) -> JsonObject:
        """The hashed content as one JSON object."""
        return {
            "format": _FORMAT,
            **self.model_dump(mode="json", include=set(Header.model_fields), exclude_defaults=True),
            "tools": [_dump(tool) for tool in sorted(self.tools, key=lambda tool: tool.name)],
            "decisions": [_dump(spec) for spec in sorted(self.decisions, key=lambda spec: spec.id)],
            "gates": [_dump(gate) for gate in sorted(self.gates, key=lambda gate: gate.name)],
            # Policies are evaluated in file order, so their order is part of the hash.
            "policies": [_dump(policy) for policy in self.policies],
            **({"lanes": [_dump(lane) for lane in sorted(self.lanes, key=_name)]} if self.lanes else {}),
            **({"templates": [_dump(plan) for plan in self.templates]} if self.templates else {}),
            **({"library": _dump(self.library)} if self.library.goals else {}),
            "code": dict(self.code),
            "calls": {
                tool.name: name_code(tool.call, tool.reconcile, tool.definition) for tool in self.tools
            },
        }

    @cached_property
    def parts(self) -> Parts:
        """The declarations as the checks see them."""
        return Parts(**{name: getattr(self, name) for name in _SHARED})

    def decision_for(self, intent: str | None) -> DecisionSpec:
        """Return the decision for an intent, by its id or one of its intents; without an intent, the only decision."""
        if intent is None:
            found = list(self.decisions)
        else:
            found = [spec for spec in self.decisions if intent == spec.id or intent in spec.intents]
        if len(found) == 1:
            return found[0]
        known = [name for spec in self.decisions for name in (spec.intents or (spec.id,))]
        asked = "a request without an intent" if intent is None else f"the intent {intent!r}"
        raise UsageError(
            f"{len(found) or 'none'} of the decisions of {self.ref} could answer {asked}",
            code="ambiguous_intent" if found else "unknown_intent",
            remedy=f"choose one of {', '.join(known)}" if known else "add a decision to the pack",
        )

    def actor_for(self, os_user: str) -> Actor:
        """Return the actor of an operating system user: mapped, of the same name, or one without roles."""
        return actor_for(self.actors, os_user)

    @cached_property
    def derived(self) -> dict[Any, Any]:
        """Values derived from this pack, cached as long as the pack lives."""
        return {}

    @cached_property
    def lane_tools(self) -> tuple[ToolSpec, ...]:
        """Each lane as the tool that a step calls."""
        return lane_specs(self.parts)

    @cached_property
    def snapshots(self) -> tuple[str, ...]:
        """The snapshots of this pack's evidence, oldest first."""
        times = self.snapshot_times
        names = {*times, *(evidence.snapshot for evidence in self.evidence)}
        return tuple(sorted(names, key=lambda name: (times.get(name, _LONG_AGO), name)))

    @property
    def newest_snapshot(self) -> str | None:
        """The default snapshot of a run; None if the pack has no evidence."""
        return self.snapshots[-1] if self.snapshots else None

    def evidence_in(self, snapshot: str) -> tuple[Evidence, ...]:
        """Return the evidence of a snapshot, ordered by id."""
        if snapshot not in self.snapshots:
            raise UsageError(
                f"{self.ref} has no snapshot {snapshot!r}",
                code="unknown_snapshot",
                remedy=f"choose one of {', '.join(self.snapshots)}"
                if self.snapshots
                else "the pack has no evidence: leave the snapshot out, or add evidence files to the pack",
            )
        return tuple(_by_id([fact for fact in self.evidence if fact.snapshot == snapshot]))

    def run_context(
        self,
        *,
        run_id: str = "run_local",
        trace_id: str = "trace_local",
        tenant: str = "default",
        actor: Actor | None = None,
        safety_mode: ApprovalMode | None = None,
        started_at: datetime | None = None,
        plan_origin: Literal["planner", "caller"] = "planner",
    ) -> RunContext:
        """Return the frame of a run of this pack: the tenant's budget, and the pack's safety mode unless another is given."""
        return RunContext(
            run_id=run_id,
            trace_id=trace_id,
            tenant=tenant,
            actor=actor or Actor(id="anonymous"),
            safety_mode=safety_mode or self.safety_mode,
            run_budget=self.session.budget_for(tenant, self.budget),
            started_at=started_at,
            plan_origin=plan_origin,
        )

    def verify(
        self,
        plan: Plan | Mapping[str, Any],
        *,
        request: Request | Mapping[str, Any] | None = None,
        context: RunContext | None = None,
    ) -> Verdict:
        """Return the critic's verdict on a plan, the one that a run of it would get. Nothing is run.

        Plan and request may be dicts of their fields; a template is filled from the request first. Without a request,
        relations to it are not checked. `context` names the actor and the safety mode, if they are not the pack's own.
        """
        # A review needs the engine, which is built on packs; `layers` in pyproject.toml lists this import.
        from tercet.engine import arguments, preview  # noqa: PLC0415

        asked = None if request is None else arguments.as_request(request)
        return preview.verify_plan(self, arguments.as_plan(plan), asked, context)

    def validate(  # pyright: ignore[reportIncompatibleMethodOverride] - Pydantic's own is deprecated
        self,
        plan: Plan | Mapping[str, Any],
        *,
        request: Request | Mapping[str, Any] | None = None,
        context: RunContext | None = None,
    ) -> ValidationResult:
        """Return the feasibility of a plan as issues, each with its severity and remedy; takes what `verify` takes."""
        from tercet.engine import arguments, preview  # noqa: PLC0415 - as in `verify`

        asked = None if request is None else arguments.as_request(request)
        return preview.validate_plan(self, arguments.as_plan(plan), asked, context)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pack):
            return NotImplemented
        return (
            self.hash == other.hash
            and _by_id(self.evidence) == _by_id(other.evidence)
            and _by_id(self.actors) == _by_id(other.actors)
        )

    def __hash__(self) -> int:
        return hash(self.hash)


_SHARED = tuple(each.name for each in fields(Parts) if each.name in Pack.model_fields)
"""The fields that `Pack` and `Parts` share."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def _name(lane: Lane) -> str:
    return lane.name


def _by_id(things: Sequence[_IdentifiedT]) -> list[_IdentifiedT]:
    return sorted(things, key=lambda thing: thing.id)


def _dump(declaration: Authored) -> dict[str, Any]:
    return declaration.model_dump(mode="json", exclude_defaults=True)


def _method_problems(pack: Pack) -> Iterator[Problem]:
    """Return the problems that make the method library unusable."""
    if pack.library != TaskLibrary():
        for check in METHOD_CHECKS:
            yield from check(pack.parts)


def _duplicates(pack: Pack) -> Iterator[Problem]:
    names = {
        "tool": [tool.name for tool in pack.tools],
        "decision": [spec.id for spec in pack.decisions],
        "gate": [gate.name for gate in pack.gates],
        "policy": [policy.name for policy in pack.policies],
        "lane": [lane.name for lane in pack.lanes],
        "actor": [actor.id for actor in pack.actors],
        "evidence": [fact.id for fact in pack.evidence],
        "fact": [fact.name for fact in pack.library.facts],
        "task": [task.name for task in pack.library.tasks],
        "method": [method.name for method in pack.library.methods],
        "goal": [goal.intent for goal in pack.library.goals],
    }
    for kind, given in names.items():
        for name, count in Counter(given).items():
            if count > 1:
                yield Problem(
                    code="duplicate_name",
                    place=f"{kind} {name}",
                    message=f"there are {count} of this name",
                    remedy="rename one of them, or remove it",
                )
    yield from os_users_are_distinct(pack.parts)
