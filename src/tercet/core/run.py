"""A run as the interpreter sees it: its state, and the configuration and plan that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from tercet.contracts.context import KnownResult
from tercet.contracts.errors import InternalError
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.runs.run import Run as Transcript
from tercet.contracts.runs.session import RoleLimit, RoleName
from tercet.contracts.shape import JsonObject
from tercet.contracts.tool import ToolSpec
from tercet.contracts.verdict import CriticReport, Verdict
from tercet.core import events as e
from tercet.core.config import ExecutionPlan, RunConfig
from tercet.core.dependencies import entered_results
from tercet.core.fold.apply import fold_event
from tercet.core.plans import read_plan
from tercet.core.shared import Reviewed, SharedWork
from tercet.core.state import Learned, State, StepState

OF_EVERY_STEP = frozenset({e.Intent, e.Complete, e.StepJudged})
"""Events that happen for every step, and change nothing that the plan or the configuration is made from."""


class Scored(NamedTuple):
    """A score with its inputs; the record uses it again if nothing has happened since."""

    position: int
    transcript: Transcript
    verdict: Verdict
    report: CriticReport
    recorded: JsonObject
    """The recorded form of the report; if the state holds a different one, the state counts."""


class WaitingCalls:
    """Steps that wait only for a free slot. They are not checked again until there is one; otherwise a plan of many
    parallel steps would check all of them after every event."""

    def __init__(self) -> None:
        self.steps: dict[str, StepState] = {}
        """The state in which each was found."""
        self._names: dict[str, str] = {}
        """The step of each idempotency key; empty for a key that several steps share, which are always checked."""
        self._basis: tuple[object, object] = (None, None)

    def keep_for(self, config: RunConfig, plan: ExecutionPlan) -> None:
        """Clear the steps if they were found under another configuration or plan."""
        if self._basis[0] is not config or self._basis[1] is not plan:
            self._basis = (config, plan)
            self.steps.clear()
            self._names.clear()

    def add(self, name: str, step: StepState, key: str) -> None:
        """Remember a step that waits for a slot."""
        other = self._names.setdefault(key, name)
        if other == name:
            self.steps[name] = step
        else:
            self.steps.pop(other, None)
            self._names[key] = ""


class Run:
    """The state of a run, the configuration it is judged and executed under, its plan and its large values.

    Live runs and replays use the same class; only the sources of `blobs` and `facts` differ.
    """

    def __init__(
        self,
        config: RunConfig,
        state: State,
        *,
        tools: Mapping[str, ToolSpec],
        limit_for: Callable[[RoleName], RoleLimit],
        blobs: Mapping[str, Any],
        facts: Mapping[str, tuple[Evidence, ...]],
        shared: SharedWork | None = None,
    ) -> None:
        self.state = state
        self.tools = tools
        """The tools of the pack by name; any of them may compensate a step."""
        self.limit_for = limit_for
        self.blobs = blobs
        """Large results by their digest."""
        self.scored: Scored | None = None
        """The last score, kept for the record."""
        self.record = b""
        """The decision record as canonical JSON, once the run has ended here."""
        self.reviewed: Reviewed | None = None
        """The last review, kept for the score of its plan."""
        self.shared = SharedWork() if shared is None else shared
        self.waiting: WaitingCalls | None = None
        """The calls that wait for a slot, if a driver runs the session."""
        self._facts = facts
        """The evidence that plans have found, by its digest."""
        self._base = config

    def fold(self, event: e.Event) -> State:
        """Apply an event; raises `IllegalEvent` and changes nothing if it is not allowed."""
        before = self.state
        state = self.state = fold_event(before, event)
        if type(event) in OF_EVERY_STEP:
            return state
        # Configuration and plan follow from parts of the state, each of which is another object once it has changed.
        if state.plan is not before.plan or state.undo is not before.undo:
            self._forget("plan", "followed")
        if (
            state.extended is not before.extended
            or state.learned is not before.learned
            or state.facts is not before.facts
            or state.entered is not before.entered
            or state.changed is not before.changed
            or state.earlier is not before.earlier
        ):
            self._forget("config")
        return state

    def _forget(self, *names: str) -> None:
        for name in names:
            vars(self).pop(name, None)

    @cached_property
    def config(self) -> RunConfig:
        """The configuration, with the evidence and results added since the start of the run."""
        state, config = self.state, self._base
        if state.facts:
            config = config.with_facts([fact for digest in state.facts for fact in self._facts[digest]])
        if state.learned:
            config = config.knowing(tuple(map(self._known_result, state.learned)))
        if state.entered:
            config = config.with_entered(entered_results(state))
        if state.changed:
            config = config.with_changed(state.changed)
        if state.earlier:
            config = config.after(state.earlier)
        return config.extended(state.extended) if state.extended else config

    def _known_result(self, learned: Learned) -> KnownResult:
        value = self.blobs[learned.blob] if learned.blob else learned.value
        return KnownResult(step_id=learned.step, tool=learned.tool, value=value, trust=Trust.TRUSTED)

    @cached_property
    def plan(self) -> ExecutionPlan | None:
        """The current plan, indexed for execution; None if there is none."""
        state = self.state
        if not state.plan:
            return None
        plan = self.shared.execution_plan(read_plan(state.plan), self.config.surface, self.tools)
        return plan.with_undo(state.undo, self.tools) if state.undo else plan

    @cached_property
    def followed(self) -> ExecutionPlan:
        """The current plan, which must exist."""
        if (plan := self.plan) is None:
            raise InternalError("there is no plan")
        return plan
