"""The planners that a pack brings along: its templates, and the tasks and methods of its library."""

from __future__ import annotations

from typing import Literal

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import Plan
from tercet.contracts.tasks import Goal
from tercet.packs.pack import Pack
from tercet.planner.alternatives import Setback, propose
from tercet.planner.knowledge import Knowledge
from tercet.planner.partial_order import Arrangement, arrange
from tercet.planner.template import PlanningError
from tercet.runtime.setting import Setting
from tercet.runtime.templates import TemplatePlanner

PlannerName = Literal["template", "htn"]
PLANNER_NAMES: tuple[PlannerName, ...] = ("template", "htn")


class TaskPlanner:
    """Breaks the task of an intent down by the methods of the pack, and takes their alternatives after a setback."""

    name = "htn"

    def __init__(self, pack: Pack) -> None:
        self._pack = pack

    async def propose(self, setting: Setting, feedback: tuple[str, ...]) -> Plan:
        """The plan of least cost; with feedback that names no step, the one after it."""
        return self._proposed(setting, ((),) if feedback else ())

    async def replan(
        self, setting: Setting, feedback: tuple[str, ...], setbacks: tuple[Setback, ...]
    ) -> Plan:
        """The plan after all setbacks of this run: what they did not concern stays as it was."""
        try:
            return self._proposed(setting, setbacks)
        except PlanningError as error:
            reasons = "; ".join(feedback)
            raise PlanningError(
                f"after this: {reasons}; {error.message}" if reasons else error.message,
                code=error.code,
                remedy=error.remedy,
            ) from error

    def _proposed(self, setting: Setting, setbacks: tuple[Setback, ...]) -> Plan:
        return self.arranged(setting, setbacks).plan

    def arranged(self, setting: Setting, setbacks: tuple[Setback, ...] = ()) -> Arrangement:
        """The plan after these setbacks, with the orderings that the conditions of its tools ask for, and why."""
        knowledge = self._knowledge(setting.compiled.snapshot)
        depth = setting.ctx.run_budget.max_branch_depth
        case = knowledge.case(setting.compiled.input(), setting.evidence, branch_depth=depth)
        plan = propose(knowledge, _goal(knowledge, setting), case, setbacks)
        arranged = arrange(plan, setting.surface, frozenset(setting.spec.conditions))
        _demand_safe(arranged)
        return arranged

    def _knowledge(self, snapshot: str) -> Knowledge:
        """The pack's library on the evidence of a snapshot, compiled once."""
        kept = self._pack.derived
        if (Knowledge, snapshot) not in kept:
            kept[Knowledge, snapshot] = Knowledge(self._pack.library.on(snapshot))
        return kept[Knowledge, snapshot]


def _goal(knowledge: Knowledge, setting: Setting) -> Goal:
    request = setting.compiled.request
    goal = None if request is None else knowledge.library.goal_for(request.intent)
    if goal is None:
        raise PlanningError(
            "no plan was given, and the pack's methods have no goal for this intent",
            code="no_goal",
            remedy="give a plan, or add a [[goal]] with this intent to methods.toml",
        )
    return goal


def _demand_safe(arranged: Arrangement) -> None:
    """What undoes a condition that another step needs must not be able to come between."""
    if arranged.unresolved:
        step, (producer, condition, consumer) = arranged.unresolved[0]
        source = f"step {producer} brings about" if producer else "holds at the start"
        raise PlanningError(
            f"step {step} revokes {condition}, which {source} and step {consumer} needs, and no order keeps them apart",
            code="unresolved_threat",
            remedy="order them in the method, or let another step bring the condition about again",
        )


def pack_planner(pack: Pack, intent: str, name: str = "") -> TemplatePlanner | TaskPlanner:
    """The planner of this name; without one, the methods where there is a goal for the intent and no template."""
    if name and name not in PLANNER_NAMES:
        raise UsageError(
            f"there is no planner {name}",
            code="unknown_planner",
            remedy=f"choose one of {', '.join(PLANNER_NAMES)}",
        )
    has_template = any(plan.intent == intent for plan in pack.templates)
    by_methods = name == "htn" or (
        not name and not has_template and pack.library.goal_for(intent) is not None
    )
    return TaskPlanner(pack) if by_methods else TemplatePlanner(pack)
