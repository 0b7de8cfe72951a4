"""The planner that asks language models: a generator of questions, which the runtime asks, records, retries and budgets.

Its prompts follow from the state of the run alone: first the whole task; after a refusal or a failed step only the part
that has to be replanned, with the typed reasons, the finished steps and their results. So a process that takes over asks
the same questions, and a recorded answer is not requested again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tercet.contracts.context import KnownResult
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan
from tercet.contracts.question import Inquiry
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.core.config import RunConfig
from tercet.core.fold.base import MODIFIED
from tercet.core.plans import read_plan
from tercet.core.resolve.planning import NO_STEPS_LEFT, NO_TOOLS
from tercet.core.state import State
from tercet.critic.checks.flow import trusted_results
from tercet.models.model import Model
from tercet.planner.answer import find_kept, find_kept_outputs, read_answer
from tercet.planner.prompt import write_question
from tercet.planner.sentences import Assignment, Complaint
from tercet.planner.sources import PlanningError

REPEATED = "plan_repeated"

MAX_STEPS = 12
"""How many steps a model may write at a time."""
_NUMBERED = re.compile(r"s([0-9]{1,6})")
_ASKED = ("replan", "modify")
"""The answers with which a person asks for a change in a note."""


class ModelPlanner:
    """Asks the first of its models for a plan, and the next one if that does not answer."""

    def __init__(
        self,
        models: Sequence[Model],
        *,
        name: str = "model",
        max_tokens: int = 2_048,
        max_prompt_tokens: int = 16_000,
        max_steps: int = MAX_STEPS,
        temperature: float = 0.0,
        seed: int | None = 1,
    ) -> None:
        self.name = name
        self.models = tuple(models)
        self._max_tokens = max_tokens
        self._max_prompt_tokens = max_prompt_tokens
        self._max_steps = max_steps
        self._temperature = temperature
        self._seed = seed

    def inquire(self, config: RunConfig, state: State) -> Inquiry[Plan]:
        """Ask one question, and return the plan in its answer."""
        assignment = assign(config, state, self._max_steps)
        reply = yield write_question(
            assignment,
            max_tokens=self._max_tokens,
            max_prompt_tokens=self._max_prompt_tokens,
            temperature=self._temperature,
            seed=None if self._seed is None else self._seed + state.used.replans,
        )
        plan = read_answer(reply, assignment)
        if plan.hash in state.refused:
            raise PlanningError(
                "this plan was refused or given up before", code=REPEATED, remedy="propose another plan"
            )
        return plan


def assign(config: RunConfig, state: State, max_steps: int = MAX_STEPS) -> Assignment:
    """Return the planning task for a model; raises `PlanningError` if no tools or steps are left."""
    tools = config.compiled.offered
    before = read_plan(state.plan) if state.plan else None
    ended = [name for name, step in state.steps.items() if step.status in ("done", "skipped")]
    blamed = _blamed_steps(state)
    kept = () if before is None else find_kept(before, ended, blamed)
    left = min(max_steps, config.ctx.run_budget.max_steps - len(kept))
    _demand_means(tools, left)
    done = tuple(name for name in kept if state.steps[name].status == "done")
    return Assignment(
        compiled=config.compiled,
        spec=config.spec,
        tools=tools,
        max_steps=left,
        first=_next_number(state) if kept else 1,
        attempt=state.used.replans + 1,
        before=before,
        kept=kept,
        done=done,
        results=() if before is None else tuple(_results(config, state, before, done)),
        outputs_kept=_kept_outputs(state, before, kept) if blamed else (),
        complaints=tuple(_complaints(state)),
        wish=_requested_change(state),
    )


def _demand_means(tools: dict[str, ToolSpec], steps_left: int) -> None:
    if not tools:
        raise PlanningError(
            "this run has no tools to plan with",
            code=NO_TOOLS,
            remedy="let the decision use some, or raise the safety mode",
        )
    if steps_left < 1:
        raise PlanningError(
            "what stays of the plan has as many steps as a run may have",
            code=NO_STEPS_LEFT,
            remedy="raise budget.max_steps in the pack, or split the task",
        )


def _refusals(state: State) -> list[JsonObject]:
    """Return every finding of the review that refused the plan; empty if it passed."""
    verdict = state.verdict
    if verdict.get("outcome", "ok") == "ok":
        return []
    found = [as_object(refusal) or {} for refusal in as_list(verdict.get("refusals")) or ()]
    return found or [{**verdict, "reason": "; ".join(map(str, verdict.get("reasons", ())))}]


def _failed_steps(state: State) -> list[str]:
    return [name for name, step in state.steps.items() if step.status == "failed"]


def _blamed_steps(state: State) -> frozenset[str]:
    """Return the steps that caused the plan to be abandoned; empty if the cause was the whole plan."""
    refusals = _refusals(state)
    if not refusals:
        last = state.setbacks[-1] if state.setbacks else ()
        return frozenset((*_failed_steps(state), *last))
    named = frozenset(str(each["step_id"]) for each in refusals if each.get("step_id"))
    is_of_steps = all(each.get("step_id") or _is_of_outputs(each) for each in refusals)
    return named if is_of_steps else frozenset()


def _is_of_outputs(refusal: JsonObject) -> bool:
    return str(refusal.get("place", "")).startswith("/outputs")


def _kept_outputs(state: State, before: Plan | None, kept: tuple[str, ...]) -> tuple[str, ...]:
    if before is None or any(map(_is_of_outputs, _refusals(state))):
        return ()
    return find_kept_outputs(before, kept)


def _next_number(state: State) -> int:
    """Return a number greater than those of all earlier steps of this run."""
    names = (*state.steps, *state.done)
    return 1 + max((int(found[1]) for name in names if (found := _NUMBERED.fullmatch(name))), default=0)


def _results(config: RunConfig, state: State, before: Plan, done: tuple[str, ...]) -> Iterator[KnownResult]:
    """Yield the results of finished steps with their trust; large results are not shown."""
    trusted = trusted_results(config.review(before)) if done else ()
    for step in before.steps:
        found = state.steps[step.id]
        if step.id in done and step.tool is not None and not found.blob:
            trust = Trust.TRUSTED if step.id in trusted else Trust.UNTRUSTED
            yield KnownResult(step_id=step.id, tool=step.tool, value=found.value, trust=trust)


def _complaints(state: State) -> Iterator[Complaint]:
    """Yield why the previous plan was abandoned, and the faults of the answers since."""
    refusals, failed = _refusals(state), _failed_steps(state)
    for refusal in refusals:
        yield Complaint(
            code=str(refusal.get("code") or refusal.get("kind") or "refused"),
            reason=str(refusal.get("reason", "")),
            place=str(refusal.get("place", "")),
            remedy=str(refusal.get("remedy", "")),
        )
    for name in failed:
        yield _failure(state, name)
    told = [
        *(str(refusal.get("reason")) for refusal in refusals),
        *(state.steps[name].error for name in failed),
    ]
    for reason in state.feedback:
        # The reason of a step's verdict already includes its error.
        if not any(text and text in reason for text in told) and reason != _requested_change(state):
            yield Complaint(code="given_up", reason=reason)


def _failure(state: State, name: str) -> Complaint:
    step = state.steps[name]
    has_happened = step.outcome == "done"
    return Complaint(
        code=step.code or "step_failed",
        reason=step.error,
        place=f"step {name}",
        remedy="its call did happen: do not repeat it"
        if has_happened
        else "reach the same end in another way",
    )


def _requested_change(state: State) -> str:
    """Return the note of the person who sent the plan back; empty if something else happened since."""
    last = state.answers[-1] if state.answers else None
    if last is None or last.answer not in _ASKED or not last.note:
        return ""
    is_sent_back = any(state.steps[name].code == MODIFIED for name in _failed_steps(state))
    return last.note if is_sent_back or last.note in state.feedback else ""
