"""The planner of packs that bring their own plans."""

from __future__ import annotations

from tercet.contracts.behaviour import Behaviour
from tercet.contracts.plan import Plan
from tercet.contracts.request import Request
from tercet.core.config import RunConfig
from tercet.core.messages import TEMPLATE
from tercet.packs.pack import Pack
from tercet.planner.template import PlanningError, fill


class TemplatePlanner:
    """Proposes the pack's own plan for an intent."""

    name = TEMPLATE

    def __init__(self, pack: Pack) -> None:
        self.pack_hash = pack.hash
        self._templates = {plan.intent: plan for plan in pack.templates}

    async def propose(self, setting: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """The template of the request's intent; it cannot learn, so a refused one is not proposed again."""
        request = setting.compiled.request
        template = self._templates.get(request.intent) if request else None
        if request is None or template is None:
            raise PlanningError(
                "no plan was given, and the pack has no template for this intent",
                remedy="add one with this intent to the pack's templates folder, or run a plan of your own: tercet run PACK --plan FILE",
            )
        if feedback:
            raise PlanningError(
                f"{'; '.join(feedback)}; the template knows no other plan",
                remedy="run a plan of your own: tercet run PACK --plan FILE",
            )
        return fill_template(template, request, setting)


def fill_template(template: Plan, request: Request, setting: RunConfig) -> Plan:
    """Return the plan that a template comes to for a request under the decision of this run."""
    if not setting.ctx.goes_by(Behaviour.STRICT_CALLS):
        return fill(template, request, setting.compiled.snapshot)
    return fill(
        template,
        request,
        setting.compiled.snapshot,
        setting.spec.untrusted_inputs,
        store=setting.library_snapshot,
        known=setting.compiled.evidence,
    )
