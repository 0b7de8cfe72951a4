"""The gates that a resolved call waits for: exactly those that the critic looks for when it scores the run.

A gate is demanded by the tool, the step, the decision, a policy, or a value without a trusted source. Conditions and
policies that review had to leave open are decided here, on what the call will really run with.
"""

from __future__ import annotations

from typing import Any

from tercet.contracts.plan import Plan
from tercet.core.config import ExecutionPlan, RunConfig
from tercet.core.events import Undo
from tercet.critic.checks.flow import authority_is_bound
from tercet.critic.checks.gates import demand_gates
from tercet.critic.checks.rules import policies_hold
from tercet.critic.dispatch import NO_PROGRESS, Progress, resolved_review
from tercet.critic.review import exhaust


def gates_of(
    setting: RunConfig,
    course: ExecutionPlan,
    name: str,
    params: dict[str, Any],
    progress: Progress = NO_PROGRESS,
) -> tuple[str, ...]:
    """The names of the gates that a step waits for with these parameters, worked out once for what is known by then."""
    if not setting.compiled.gates:
        return ()
    known = course.demanded.get(name)
    if known is None or known[0] != (params, progress):
        gates = _demanded(setting, course, name, params, progress)
        known = course.demanded[name] = ((params, progress), gates)
    tool = course.calls[name].tool.name if name in course.calls else ""
    held = (gate for each in setting.compiled.changed_at(name, tool) for gate in each.gates)
    # A call that an approver changed waits where it was changed, even if its new values would not be asked about.
    return tuple(
        dict.fromkeys((*known[1], *(gate for gate in held if gate in setting.compiled.gates_by_name)))
    )


def compensation_gates(
    setting: RunConfig, course: ExecutionPlan, plan: Plan, name: str, undo: Undo
) -> tuple[str, ...]:
    """Return the names of the gates that a proposed compensation waits for; `plan` holds it as a step of this name."""
    if not setting.compiled.gates:
        return ()
    called = resolved_review(
        setting.ctx, setting.compiled, setting.spec, plan, name, undo.params, planned=course.plan
    )
    exhaust(policies_hold(called))
    demand_gates(called)
    demanded = (demand.gate for demand in called.demands if demand.step_id == name)
    return tuple(dict.fromkeys((*demanded, *(undo.bound.gates if undo.bound is not None else ()))))


def _demanded(
    setting: RunConfig, course: ExecutionPlan, name: str, params: dict[str, Any], progress: Progress
) -> tuple[str, ...]:
    planned = setting.review(course.plan)
    called = resolved_review(setting.ctx, setting.compiled, setting.spec, course.plan, name, params, progress)
    exhaust(authority_is_bound(planned))
    exhaust(policies_hold(called))
    demand_gates(called)
    demands = (*planned.demands, *called.demands)
    return tuple(dict.fromkeys(demand.gate for demand in demands if demand.step_id == name))
