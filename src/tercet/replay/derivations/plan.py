"""Plans: what a pack proposes by itself is derived, what anybody else does is a fact; the critic's word is derived always."""

from __future__ import annotations

import msgspec

from tercet.contracts.verdict import Code
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.exposure import untrusted_data_read
from tercet.core.plans import read_plan
from tercet.engine.evidence.retrieval import asking, pinned, read_facts, unread, with_refs
from tercet.engine.models.planners import TaskPlanner, pack_planner
from tercet.engine.models.templates import TemplatePlanner
from tercet.engine.work import Work, ask_planner
from tercet.planner.template import PlanningError
from tercet.replay.derivations.derived import Derived
from tercet.replay.driving import drive
from tercet.replay.scene import ReplayState

SAID = "what a planner, or a caller, proposed"
NO_PLAN = "why a planner had no plan"


def plan_proposed(scene: ReplayState, event: e.PlanProposed) -> Derived | None:
    """A template, or the methods of the pack, propose the same again; anybody else's words are a fact, their hash is not."""
    if scene.due(c.Propose, at=event.at) is None:
        return None
    if scene.state.change is not None:
        change = scene.state.change
        return Derived(event=scene.work.changed(scene.state, change, scene.setting, event.at))
    if event.by_pack:
        return _planned_again(scene, event)
    read = untrusted_data_read(scene.state, scene.setting) if event.planner else ""
    again = msgspec.structs.replace(event, hash=read_plan(event.plan).hash, exposure=read)
    return Derived(event=again, fact=SAID)


def planning_failed(scene: ReplayState, event: e.PlanningFailed) -> Derived | None:
    """A template, or the methods of the pack, have none again; why anybody else has none is a fact."""
    if event.by_pack and scene.due(c.Propose, at=event.at) is not None:
        return _planned_again(scene, event)
    return planning_failed_as_told(scene, event)


def planning_failed_as_told(scene: ReplayState, event: e.PlanningFailed) -> Derived | None:
    """What follows from there being no plan, whyever there is none."""
    if scene.due(c.Propose, at=event.at) is None:
        return None
    error = PlanningError(event.reason, code=event.code)
    failed = scene.work.failed(scene.state, scene.setting, error, event.at)
    return Derived(event=msgspec.structs.replace(event, outcome=failed.outcome), fact=NO_PLAN)


def _planned_again(scene: ReplayState, event: e.PlanProposed | e.PlanningFailed) -> Derived:
    """What the pack's own planner comes to: pure functions of the pack, the request and the evidence."""
    name = event.planner if isinstance(event, e.PlanProposed) else str(scene.state.start.planner)
    if name not in _PURE:
        return Derived(event=msgspec.structs.replace(event, by_pack=False))
    planner = pack_planner(scene.pack, "", name)
    work = Work(planner, None, limit_for=scene.work.limit_for)
    try:
        plan = drive(ask_planner(planner, scene.setting, scene.state))
    except PlanningError as error:
        return Derived(event=work.failed(scene.state, scene.setting, error, event.at))
    return Derived(event=work.planned(plan, scene.state, scene.setting, event.at))


_PURE = (TemplatePlanner.name, TaskPlanner.name)


def decomposed(scene: ReplayState, event: e.Decomposed) -> Derived | None:
    """How many steps there are."""
    if scene.due(c.Decompose, at=event.at) is None:
        return None
    return Derived(event=e.Decomposed(at=event.at, steps=len(scene.state.steps)))


def evidence_retrieved(scene: ReplayState, event: e.EvidenceRetrieved) -> Derived | None:
    """What was found for which step is a fact, and lies beside the events; the revision of the plan follows from it."""
    if scene.due(c.Retrieve, at=event.at) is None:
        return None
    plan, setting = read_plan(scene.state.plan), scene.setting
    asked = asking(plan, scene.state)
    facts = read_facts(scene.recording.blobs[event.facts]) if event.facts else ()
    if not asked:
        named = unread(plan, setting)
        read = [fact for fact in facts if fact.id in named]
        return Derived(event=pinned(plan, setting, event.at, read, event.facts if read else ""))
    setting = setting.with_facts(facts)
    refs = {step.id: step.evidence_refs for step in read_plan(event.plan).steps}
    revised = with_refs(plan, {step.id: refs.get(step.id, ()) for step in asked})
    again = msgspec.structs.replace(
        event,
        evidence=pinned(revised, setting, event.at).evidence,
        plan=revised.model_dump(mode="json", exclude_defaults=True),
        hash=revised.hash,
    )
    return Derived(event=again)


CHANGED = "what its tools reach outside had changed"


def plan_reviewed(scene: ReplayState, event: e.PlanReviewed) -> Derived | None:
    """The review; that a tool's definition had changed outside is the one thing that no plan tells."""
    if scene.due(c.Review, at=event.at) is None:
        return None
    is_outside = event.verdict.get("code") == Code.TOOL_DEFINITION_CHANGED
    changes = tuple(event.verdict.get("reasons", ())) if is_outside else ()
    reviewed = scene.work.review(scene.state, scene.plan, scene.setting, event.at, changes)
    return Derived(event=reviewed, fact=CHANGED if is_outside else "")


def outputs_produced(scene: ReplayState, event: e.OutputsProduced) -> Derived | None:
    """The outputs of a plan whose steps have all ended."""
    if scene.due(c.Finish, at=event.at) is None:
        return None
    return Derived(event=scene.work.finish(scene.state, scene.setting, scene.course, scene.blobs, event.at))
