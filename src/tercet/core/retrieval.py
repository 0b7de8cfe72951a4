"""The queries of a plan: which steps ask for evidence, and the plan with what was found for them; and those of a repair.

A caller's plan is never changed. A step that an earlier plan had in the same words keeps what was found for it, so that a
re-plan does not turn it into another step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tercet.contracts.behaviour import Behaviour
from tercet.contracts.evidence import Evidence, parse_ref
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.outputs.quality import CritiqueDiagnosis, Defect
from tercet.contracts.outputs.repair import LoopBreak, LoopMemory
from tercet.contracts.plan import EvidenceQuery, Plan, Step
from tercet.core.config import RunConfig
from tercet.core.dependencies import evidence_in
from tercet.core.plans import read_plan
from tercet.core.required_gates import gates_of
from tercet.core.run import Run
from tercet.core.state import State
from tercet.quality.repair.causes import TYPICAL, Circumstances, classify
from tercet.quality.repair.escalation import LADDER
from tercet.quality.repair.regions import locate, text_at


def carried_over(plan: Plan, before: dict[str, object]) -> Plan:
    """The plan with what was found earlier for the steps that ask the same in the same words."""
    if not before or not any(step.evidence_queries for step in plan.steps):
        return plan
    earlier = {step.id: step for step in read_plan(before).steps}
    steps = tuple(_carried(step, earlier.get(step.id)) for step in plan.steps)
    return plan if steps == plan.steps else plan.model_copy(update={"steps": steps})


def _carried(step: Step, earlier: Step | None) -> Step:
    if earlier is None or not step.evidence_queries:
        return step
    found = step.model_copy(update={"evidence_refs": earlier.evidence_refs})
    return found if found == earlier else step


def asking(plan: Plan, state: State) -> list[Step]:
    """The steps whose questions have not been asked: those of a planner's plan that have nothing pinned yet and have not
    run."""
    if state.plan_origin == "caller":
        return []
    return [step for step in steps_asking(plan) if state.steps[step.id].status == "pending"]


def steps_asking(plan: Plan) -> list[Step]:
    """Return the steps of a plan that declare queries and have nothing pinned."""
    return [step for step in plan.steps if step.evidence_queries and not step.evidence_refs]


MOST_READ = 500
"""How many facts of the library a plan may name that the run did not begin with."""


def unread(plan: Plan, setting: RunConfig) -> tuple[str, ...]:
    """The evidence that a plan names, that is of the library's snapshot, and that the run does not have yet."""
    if not setting.library_snapshot or not setting.ctx.goes_by(Behaviour.STRICT_CALLS):
        return ()
    read = [
        value
        for step in plan.steps
        for value in (
            step.params,
            step.compensate.params if step.compensate else {},
            {"$cel": step.when} if step.when else {},
        )
    ]
    pins = (ref for step in plan.steps for ref in step.evidence_refs)
    named = dict.fromkeys((*pins, *evidence_in([*read, plan.outputs, plan.memory])))
    known = setting.compiled.evidence
    missing = [ref for ref in named if ref not in known and _snapshot_of(ref) == setting.library_snapshot]
    return tuple(missing[:MOST_READ])


def _snapshot_of(ref: str) -> str:
    parts = parse_ref(ref)
    return parts.snapshot if parts else ""


def read_facts(data: bytes) -> tuple[Evidence, ...]:
    """The facts that were kept beside the events."""
    return tuple(Evidence.model_validate(kept["evidence"]) for kept in msgspec.json.decode(data))


def with_refs(plan: Plan, refs: dict[str, tuple[str, ...]]) -> Plan:
    """The next revision of a plan: what was found is pinned to the steps that asked, and nothing else is another."""
    steps = tuple(
        step.model_copy(update={"evidence_refs": refs[step.id]}) if refs.get(step.id) else step
        for step in plan.steps
    )
    return plan.revise(steps=steps)


def pinned_evidence(plan: Plan, config: RunConfig, facts: Sequence[Evidence]) -> dict[str, str]:
    """Every piece of evidence that the plan pins, with the hash of its content."""
    known = {entry.id: entry.hash for entry in config.compiled.evidence.values()}
    known |= {fact.id: fact.hash for fact in facts}
    return {ref: known[ref] for step in plan.steps for ref in step.evidence_refs if ref in known}


def failed_look_ups(run: Run) -> tuple[str, ...]:
    """Return the steps whose read_only calls failed for good and have brought nothing since; none that a person approves."""
    if not run.config.ctx.goes_by(Behaviour.FAILED_TOOLS_RETRIED):
        return ()
    brought = {each.step for each in run.state.quality.retried}
    failed = (name for name, step in run.state.steps.items() if step.has_failed_call and name not in brought)
    return tuple(name for name in failed if _is_free(run, name))


def _is_free(run: Run, name: str) -> bool:
    """Whether the call of a step changes nothing, and no person is asked before it."""
    call, params = run.followed.calls.get(name), run.state.steps[name].params
    if call is None or call.mode is not ApprovalMode.READ_ONLY or call.needs_person:
        return False
    return not gates_of(run.config, run.followed, name, params)


MOST_QUERIES = 8
EACH = 3
"""How many facts are taken for one defect and class."""
_LONGEST = 400


def missing_evidence(state: State, setting: RunConfig) -> tuple[EvidenceQuery, ...]:
    """What to look for before outputs are mended; nothing where nothing is missing, or nobody can be asked.

    Only classes that the plan or its decision asks for, and only of the snapshot that the run is pinned to.
    """
    classes = _classes(state, setting)
    if not setting.library_snapshot or not classes or not state.quality.diagnosis:
        return ()
    diagnosis = CritiqueDiagnosis.model_validate(state.quality.diagnosis)
    loops = LoopMemory.model_validate(state.quality.memory or {}).loops
    is_asked = state.quality.control.get("helper") == "retrieve_evidence"
    is_circling = is_asked or loops + 1 > LADDER.index(LoopBreak.FRESH_EVIDENCE)
    known = Circumstances(has_evidence=bool(setting.evidence))
    wanted = [each for each in diagnosis.defects if is_circling or _needs_evidence(each, known)]
    asked = dict.fromkeys(
        EvidenceQuery(classification=name, query=words, limit=EACH)
        for words in _words(state, wanted)
        for name in classes
    )
    return tuple(asked)[:MOST_QUERIES]


def _classes(state: State, setting: RunConfig) -> tuple[str, ...]:
    steps: list[dict[str, list[dict[str, str]]]] = state.plan.get("steps", [])
    asked = (query["classification"] for step in steps for query in step.get("evidence_queries", ()))
    return tuple(dict.fromkeys((*setting.spec.required_evidence, *asked)))


def _needs_evidence(defect: Defect, known: Circumstances) -> bool:
    cause = classify(defect, known).root_cause
    return cause in TYPICAL and TYPICAL[cause].needs_evidence


def _words(state: State, defects: Iterable[Defect]) -> Iterable[str]:
    """What each defect is about: the words at its place, else those that describe it."""
    for defect in defects:
        place = locate(state.outputs, defect.location)
        text = text_at(state.outputs, place.pointer) if place is not None and place.is_range else None
        found = text[place.start : place.end].strip() if place is not None and text is not None else ""
        yield (found or defect.description)[:_LONGEST]
