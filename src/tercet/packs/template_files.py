"""The planner templates of a pack: plans, one for each intent, in `templates/*.json`."""

from __future__ import annotations

from tercet.contracts.errors import PlanError
from tercet.contracts.plan import Plan
from tercet.contracts.plan_formats import load_plan
from tercet.packs.folder import Draft
from tercet.packs.parts import Spot

FOLDER = "templates"


def read_templates(draft: Draft) -> tuple[Plan, ...]:
    """The templates of the folder in the order of their file names."""
    found: dict[str, Plan] = {}
    for name in draft.list_files(FOLDER, ".json"):
        text = draft.read_text(name)
        if text is None:
            continue
        try:
            plan = load_plan(text)
        except PlanError as error:
            for problem in error.problems:
                draft.note(problem.code, problem.message, problem.remedy, file=name, place=problem.place)
            continue
        if plan.intent is None or plan.intent in found:
            fault = (
                "a template names the intent that it is for"
                if plan.intent is None
                else f"there is another template for {plan.intent}"
            )
            draft.note("template_intent", fault, 'give it an "intent" of its own', file=name)
            continue
        draft.spots[f"template {plan.intent}"] = Spot(name)
        found[plan.intent] = plan
    return tuple(found.values())
