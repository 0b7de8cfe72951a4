"""The progress of a plan's steps, and what it means for the next calls."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cached_property
from typing import Any

from tercet.contracts.context import RunContext
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Step
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.steps.conditions import conditions_after, needs_of
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.values import references
from tercet.core.dependencies import Results
from tercet.core.run import Run
from tercet.core.state import StepState
from tercet.critic.checks.rules import find_undecided
from tercet.critic.dispatch import NO_PROGRESS, Progress, resolved_review
from tercet.critic.order import find_uncertain
from tercet.critic.review import Review
from tercet.policy.resolution import ResolutionError, evaluate, resolve


class StepProgress:
    """The steps of a run in execution."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state = run.state
        self.config = run.config
        self.plan = run.followed
        self._is_strict = self.config.is_strict
        self._progress: Progress | None = None

    @property
    def results(self) -> Results:
        """The results of earlier steps."""
        return Results(self.state, self.config.compiled.input(), self.run.blobs)

    def called_with(self, said: dict[str, Any]) -> dict[str, Any]:
        """Return the resolved parameters of a call; empty if they cannot be resolved any more."""
        try:
            return resolve(said, self.results, self.config.evidence)
        except ResolutionError:
            return {}

    def _resolve_params(self, call: EffectiveStep) -> dict[str, Any]:
        """Return the parameters of a call with their references resolved: those of the plan where it has written them
        out.

        Raises `ResolutionError`.
        """
        if call.step.is_written_out:
            return call.params
        return resolve(call.params, self.results, self.config.evidence, is_bounded=self._is_strict)

    # --- what other steps mean for a call ---

    @property
    def progress(self) -> Progress:
        """The current progress of the plan's steps; nothing if no policy reads more than one step."""
        if not self.config.judges_other_steps:
            return NO_PROGRESS
        if self._progress is None:
            self._progress = self._find_progress()
        return self._progress

    def _find_progress(self) -> Progress:
        params: dict[str, dict[str, Any]] = {}
        for name, call in self.plan.calls.items():
            step = self.state.steps[name]
            if call.step.is_written_out:
                continue  # what it runs with is in the plan
            if step.may_have_happened:
                params[name] = step.params
            else:
                with suppress(ResolutionError):
                    params[name] = resolve(call.params, self.results, self.config.evidence)
        planned = [(step, self.state.steps[step.id]) for step in self.plan.plan.steps]
        left_out = {step.id for step, at in planned if at.status == "skipped" and not at.may_have_happened}
        completed = frozenset(step.id for step, at in planned if _has_completed(at))
        chosen: set[str] = set()
        for step, at in planned:
            if step.id in completed or step.id in left_out:
                continue
            is_chosen = True if at.attempt else self._evaluate_early(step)
            if is_chosen is not None:
                (chosen if is_chosen else left_out).add(step.id)
        uncertain = find_uncertain(
            self.plan.plan,
            self.config.surface,
            completed=completed,
            chosen=frozenset(chosen),
            left_out=frozenset(left_out),
            may_not_deliver=self.config.ctx.goes_by(Behaviour.OUTPUTS_VOUCHED_FOR),
        )
        return Progress(params=params, left_out=frozenset(left_out), uncertain=uncertain)

    def _evaluate_early(self, step: Step) -> bool | None:
        """Return whether a step's `when` holds or it has none; None if it fails, or refers to a step that has not ended."""
        if step.when is None:
            return True
        before = (self.state.steps[name] for name in references.names(step.when) if name in self.state.steps)
        if any(at.status not in ("done", "skipped") for at in before):
            return None
        try:
            value = evaluate(step.when, self.results, self.config.evidence, is_bounded=self._is_strict)
            return is_true(value, self.config.ctx)
        except ResolutionError:
            return None

    def _is_rechecked(self, step: StepState, call: EffectiveStep, params: dict[str, Any]) -> bool:
        """Return whether the review of a call left something undecided, or decided it over other steps."""
        if not self._is_strict:
            return step.attempt == 0 and params != call.params
        if step.is_unsettled:  # it may have happened already, as it was decided then
            return False
        is_other = params is not call.params and params != call.params
        if is_other or self.state.verdict.get("deferred") or self.config.spec.bind:
            return True
        progress = self.progress
        return bool(progress.left_out or progress.uncertain)

    def _is_learning(self, name: str) -> bool:
        """Return whether another step that is in progress, or may begin now, can still bring values, or decide whether
        it runs."""
        others = [(other, self.state.steps[other]) for other in self.state.frontier if other != name]
        open_ones = [(other, step) for other, step in others if not step.gate]
        return any(
            step.status in ("in_flight", "unknown") or (step.status == "pending" and self._only_reads(other))
            for other, step in open_ones
        ) or any(other in self.progress.uncertain and self._is_permitted(other) for other, _ in open_ones)

    def _is_permitted(self, name: str) -> bool:
        """Return whether the policies over the plan can be decided for a call: then it waits for no other step itself."""
        call = self.plan.calls.get(name)
        if call is None:
            return True
        try:
            params = self._resolve_params(call)
        except ResolutionError:
            return True  # it ends at once
        return not find_undecided(self._called_review(name, params))

    def _called_review(self, name: str, params: dict[str, Any]) -> Review:
        """Return the review of the plan with the parameters that are known by now."""
        config, plan = self.config, self.plan.plan
        return resolved_review(config.ctx, config.compiled, config.spec, plan, name, params, self.progress)

    def _only_reads(self, name: str) -> bool:
        call = self.plan.calls.get(name)
        return call is None or call.mode is ApprovalMode.READ_ONLY

    # --- conditions ---

    def _unmet_precondition(self, name: str, step: StepState) -> str | None:
        """Return a condition that a step needs and that does not hold now; None if all of them do."""
        needs = self._needs(name)
        if not needs or not self.config.checks_conditions or step.is_unsettled:
            return None
        return next((each for each in needs if each not in self._held_conditions), None)

    def _needs(self, name: str) -> tuple[str, ...]:
        """Return the conditions that a step needs."""
        call = self.plan.calls.get(name)
        return needs_of(self.plan.steps[name], None if call is None else call.tool)

    @cached_property
    def _held_conditions(self) -> frozenset[str]:
        """The conditions that hold after everything that the run has done, or may have done."""
        places = {name: place for place, name in enumerate(self.state.done)}
        surface, calls = self.config.surface, self.plan.calls
        made = [(each.place, surface.get(each.step.tool or "")) for each in self.config.ctx.earlier]
        made += [
            (places.get(name) if step.status == "done" else None, calls[name].tool)
            for name, step in self.state.steps.items()
            if step.may_have_happened and name in calls
        ]
        ordered = sorted(made, key=lambda each: (each[0] is None, each[0] or 0))
        return conditions_after(
            self.config.spec.conditions, ((tool, place is not None) for place, tool in ordered)
        )


def _has_completed(step: StepState) -> bool:
    """Return whether a step has ended and its call took effect, or it called nothing."""
    return step.status == "done" or (step.status in ("failed", "skipped") and step.may_have_happened)


def is_true(value: Any, ctx: RunContext) -> bool:
    """Return the value of a condition; raise `ResolutionError` if it is not a boolean."""
    if not isinstance(value, bool):
        shown = json.dumps(value, default=str) if ctx.goes_by(Behaviour.PLAIN_REFUSALS) else repr(value)
        raise ResolutionError(f"the condition yields {shown}, not a boolean")
    return value
