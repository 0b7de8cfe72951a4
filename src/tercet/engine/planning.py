"""Planners, which propose the next plan of a run, and agents that decide step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from tercet.contracts.errors import UsageError
from tercet.contracts.loop import Phase
from tercet.contracts.plan import Plan
from tercet.contracts.question import ModelFault
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.session import PLANNER_TIMEOUT_MS, RoleLimit, RoleName
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.core.answers import NotPlanned, Now, Planned, Reflected
from tercet.core.config import ExecutionPlan, RunConfig
from tercet.core.plans import dump_plan
from tercet.core.run import Run
from tercet.core.state import State
from tercet.core.turns import Reflection, Sofar, Turn, last_turn, turns_of
from tercet.critic.pluggable.result import StepOutcome, step_outcome
from tercet.engine.control import ActiveSession, Interrupted, unless_interrupted
from tercet.engine.models.planners import TaskPlanner, TemplatePlanner
from tercet.engine.models.session import Inquirer, ModelSession
from tercet.journal.errors import JournalError
from tercet.models.model import Model
from tercet.planner.sources import PlanningError

PLANNER_MISSING = "planner_missing"
"""The code of a run whose planner is not available in this process."""
_TIMED_OUT = "planner_timeout"
_ResultT = TypeVar("_ResultT")


class Planner(Protocol):
    """Proposes plans without side effects. May raise `PlanningError` if it has none to propose."""

    name: str

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """Return a plan for the request, given why the earlier ones were refused."""
        ...


@runtime_checkable
class Replanner(Protocol):
    """A planner that is given the steps at which earlier plans failed, one entry for each plan of this run."""

    async def replan(
        self, config: RunConfig, feedback: tuple[str, ...], setbacks: tuple[tuple[str, ...], ...]
    ) -> Plan:
        """Return another plan that keeps the steps which the setbacks do not concern."""
        ...


@runtime_checkable
class Stepper(Protocol):
    """An agent that decides one turn at a time, in the place of a planner.

    Each plan that it proposes is one turn, requested with `propose` like any planner's, or with `inquire` if it asks
    language models.
    """

    name: str

    @property
    def decision(self) -> JsonObject:
        """The last decision, in its recorded form."""
        ...

    async def begin(self, config: RunConfig, turns: Sequence[Turn]) -> None:
        """Load the turns so far (none for a new run). Called once in each process, before any other method."""
        ...

    async def reflect(self, turn: Turn, sofar: Sofar) -> Reflection:
        """Process the results of a turn, have critics judge it, and return how the run continues."""
        ...


class RecalledStepper(Stepper, Protocol):
    """An agent whose recorded turns are judged again. Its critics must be pure, and it makes no decisions."""

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """Always raises `PlanningError`."""
        ...


AnyPlanner: TypeAlias = Planner | Inquirer
"""A planner that answers directly, or by asking language models."""


async def ask_planner(planner: Planner, run_config: RunConfig, state: State) -> Plan:
    """Return the next plan of a planner that asks no model; raises `PlanningError`."""
    if state.setbacks and isinstance(planner, Replanner):
        return await planner.replan(run_config, state.feedback, state.setbacks)
    return await planner.propose(run_config, state.feedback)


def answer_plan(planner: AnyPlanner, plan: Plan, run: Run, at: int) -> Planned:
    """Return a planner's plan as the answer to `Propose`."""
    return Planned(
        at=at,
        plan=dump_plan(plan),
        origin="planner",
        planner=planner.name or type(planner).__name__,
        decision=planner.decision if isinstance(planner, Stepper) else {},
        by_pack=is_of_pack(planner, run.state),
    )


def answer_failure(planner: AnyPlanner | None, error: Exception, run: Run, at: int) -> NotPlanned:
    """Return why a planner has no plan as the answer to `Propose`."""
    if isinstance(error, PlanningError | ModelFault):
        reason, code = str(error), error.code
    else:
        reason, code = f"the planner raised {type(error).__name__}: {error}", "planner_raised"
    is_derivable = isinstance(error, PlanningError) and code != _TIMED_OUT
    return NotPlanned(
        at=at, reason=reason, code=code, by_pack=is_derivable and is_of_pack(planner, run.state)
    )


def is_of_pack(planner: AnyPlanner | None, state: State) -> bool:
    """Return whether the plans come from the pack's templates or methods, so that the pack alone can reproduce them."""
    # Exactly these: a subclass, or a planner with the same name, may propose anything.
    is_pure = type(planner) in (TemplatePlanner, TaskPlanner)
    return is_pure and getattr(planner, "pack_hash", "") == state.start.pack_hash


@dataclass
class Planning:
    """The planner of one session, or the plan that its caller supplied."""

    planner: AnyPlanner | None
    plan: Plan | None
    limit_for: Callable[[RoleName], RoleLimit]
    has_begun: bool = False
    """Whether an agent has loaded the turns of its run in this process."""

    # `isinstance` with a protocol is slow, and a caller's plan comes without a planner.

    @property
    def is_fallible(self) -> bool:
        """Whether a failed attempt may succeed when retried, as with models and agents."""
        return self.planner is not None and isinstance(self.planner, Inquirer | Stepper)

    @property
    def is_stepwise(self) -> bool:
        """Whether an agent decides one turn at a time."""
        return self.planner is not None and isinstance(self.planner, Stepper)

    def known_plan(self, state: State, at: int) -> Planned | Now | None:
        """Return the answer to `Propose` if no planner has to be asked; None otherwise."""
        if state.change is not None:
            return Now(at=at)
        if self.plan is not None:
            return Planned(at=at, plan=dump_plan(self.plan), origin="caller")
        return Now(at=at) if self.planner is None else None

    async def propose(
        self, session: ActiveSession, at: int, open_models: Callable[[Sequence[Model]], ModelSession]
    ) -> Planned:
        """Ask the planner for the next plan; raises its errors, and `Interrupted`."""
        planner, run = self.planner, session.run
        if planner is None:
            raise UsageError(f"session {run.state.start.session} has no planner", code=PLANNER_MISSING)
        if isinstance(planner, Inquirer):
            plan = await open_models(planner.models).conduct(planner.inquire(run.config, run.state))
        else:
            plan = await self._in_time(planner, session)
        return answer_plan(planner, plan, run, at)

    async def _in_time(self, planner: Planner, session: ActiveSession) -> Plan:
        run, limit = session.run, self.limit_for("planner").timeout_ms or PLANNER_TIMEOUT_MS
        try:
            async with asyncio.timeout(limit / 1000):
                return await unless_interrupted(session.control, ask_planner(planner, run.config, run.state))
        except TimeoutError as error:
            raise PlanningError(
                f"the planner {planner.name} took longer than {limit:,} ms",
                code=_TIMED_OUT,
                remedy="raise limits.planner.timeout_ms in the pack, or take another planner",
            ) from error

    # --- agents ---

    async def begin(self, run: Run, events: Sequence[e.Event]) -> None:
        """Let the agent load the turns of its run, once in this process."""
        if isinstance(self.planner, Stepper) and not self.has_begun:
            self.has_begun = True
            await self.planner.begin(run.config, turns_of(events, run.blobs))

    async def reflect(
        self, run: Run, events: Sequence[e.Event], at: int, session: ActiveSession | None = None
    ) -> Reflected:
        """Ask the agent and its critics about the turn that has ended. Raises `UsageError` if the agent is missing, and
        `Interrupted`. Without a session there is no interruption and no time limit."""
        state = run.state
        if not isinstance(self.planner, Stepper):
            raise UsageError(
                f"session {state.start.session} was started with {state.start.planner}, which is not available here",
                code=PLANNER_MISSING,
                remedy="resume it with the Engine of that agent",
            )
        is_strict = run.config.ctx.goes_by(Behaviour.STRICT_CALLS)
        turn = last_turn(events, run.blobs, state.turns + 1, is_strict=is_strict)
        sofar = Sofar(
            steps=turn.number,
            elapsed_ms=state.used.wall_clock,
            tokens=state.used.tokens,
            on_retry=_on_retry(state, run.config, run.followed),
            can_complete=state.phase is Phase.ACT and run.config.ctx.goes_by(Behaviour.LONGER_RUNS),
        )
        reflecting = self.planner.reflect(turn, sofar)
        try:
            said = await (reflecting if session is None else self._reflect_in_time(session, reflecting))
        except (Interrupted, JournalError):
            raise
        except Exception as error:  # noqa: BLE001 - user code; a person decides about its failure
            said = _failed_reflection(f"the agent raised {type(error).__name__}: {error}")
        return Reflected(at=at, reflection=said)

    async def _reflect_in_time(self, session: ActiveSession, reflecting: Awaitable[Reflection]) -> Reflection:
        limit = self.limit_for("critic").timeout_ms
        timeout = asyncio.timeout(None if limit is None else limit / 1000)
        try:
            async with timeout:
                return await unless_interrupted(session.control, reflecting)
        except TimeoutError:
            if not timeout.expired():
                raise
            return _failed_reflection(f"the agent and its critics took longer than {limit:,} ms")


def _failed_reflection(reason: str) -> Reflection:
    return Reflection(action="escalate", reason=reason, stop="agent_raised")


def _on_retry(state: State, run_config: RunConfig, plan: ExecutionPlan) -> StepOutcome:
    """Return the outcome for a critic's `retry`: `replan` if an effect has happened, `escalate` if no retry is left."""
    budget = run_config.ctx.run_budget
    happened = [name for name, step in state.steps.items() if step.key and step.key in state.keys]
    has_effects = any(name in plan.calls and not plan.calls[name].leaves_nothing for name in happened)
    wanted = step_outcome("retry", pure=not has_effects, attempt="done" if has_effects else "not_done")
    if wanted == "retry":
        return "retry" if state.used.retries < budget.max_retries else "escalate"
    return "replan" if state.used.replans < budget.max_replans else "escalate"
