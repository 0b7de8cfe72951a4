"""The gates that a resolved call needs: exactly those that the critic checks when it scores the run.

A gate is required by the tool, the step, the decision, a policy, or a value without a trusted source. Conditions and
policies that the review could not evaluate are evaluated here, with the resolved parameters.
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
    config: RunConfig,
    execution_plan: ExecutionPlan,
    name: str,
    params: dict[str, Any],
    progress: Progress = NO_PROGRESS,
) -> tuple[str, ...]:
    """Return the names of the gates that a step needs with these parameters (cached for the given progress)."""
    if not config.compiled.gates:
        return ()
    known = execution_plan.demanded.get(name)
    if known is None or known[0] != (params, progress):
        gates = _demanded(config, execution_plan, name, params, progress)
        known = execution_plan.demanded[name] = ((params, progress), gates)
    tool = execution_plan.calls[name].tool.name if name in execution_plan.calls else ""
    held = (gate for each in config.compiled.changed_at(name, tool) for gate in each.gates)
    # A call that an approver changed waits at the same gates, even if its new values alone would not need them.
    return tuple(
        dict.fromkeys((*known[1], *(gate for gate in held if gate in config.compiled.gates_by_name)))
    )


def compensation_gates(
    config: RunConfig, execution_plan: ExecutionPlan, plan: Plan, name: str, undo: Undo
) -> tuple[str, ...]:
    """Return the names of the gates that a proposed compensation waits for; `plan` holds it as a step of this name."""
    if not config.compiled.gates:
        return ()
    called = resolved_review(
        config.ctx, config.compiled, config.spec, plan, name, undo.params, planned=execution_plan.plan
    )
    exhaust(policies_hold(called))
    demand_gates(called)
    demanded = (demand.gate for demand in called.demands if demand.step_id == name)
    return tuple(dict.fromkeys((*demanded, *(undo.bound.gates if undo.bound is not None else ()))))


def _demanded(
    config: RunConfig, execution_plan: ExecutionPlan, name: str, params: dict[str, Any], progress: Progress
) -> tuple[str, ...]:
    planned = config.review(execution_plan.plan)
    called = resolved_review(
        config.ctx, config.compiled, config.spec, execution_plan.plan, name, params, progress
    )
    exhaust(authority_is_bound(planned))
    exhaust(policies_hold(called))
    demand_gates(called)
    demands = (*planned.demands, *called.demands)
    return tuple(dict.fromkeys(demand.gate for demand in demands if demand.step_id == name))
