"""Which untrusted data a planner had read before it proposed a plan. Steps planned after that cannot use grants.

Templates, methods and callers plan without reading data of the run. Every other planner may be a model, and is counted
as having read what it was shown: the marked parts of the request, untrusted evidence, and the results of earlier turns.
"""

from __future__ import annotations

from tercet.contracts import pointer
from tercet.contracts.behaviour import Behaviour
from tercet.contracts.entities import find_hidden
from tercet.contracts.mode import Trust
from tercet.contracts.relations import find_sentences
from tercet.contracts.tool import ALL_FIELDS, ToolSpec
from tercet.contracts.trust import input_marks, overlaps, scalars, with_dotted
from tercet.core.config import RunConfig
from tercet.core.plans import read_plan
from tercet.core.state import State, StepState


def untrusted_data_read(state: State, setting: RunConfig) -> str:
    """Return the first untrusted data that the planner had read by now, in words; empty if there was none.

    What earlier turns had read is part of the state, so only the last turn is looked at.
    """
    if not setting.ctx.goes_by(Behaviour.STRICT_CALLS):
        return ""
    return (
        state.exposure or _in_request(setting) or _in_evidence(state, setting) or _in_results(state, setting)
    )


def _in_request(setting: RunConfig) -> str:
    marks = input_marks(with_dotted(setting.spec.untrusted_inputs))
    for leaf in scalars(setting.compiled.input()) if marks else ():
        if any(overlaps(mark, leaf.place) for mark in marks):
            return f"request#{pointer.join(leaf.place)}"
    for sentence in find_sentences(setting.spec.fields, setting.compiled.input()):
        if find_hidden(sentence.text, sentence.field.pasted):
            return f"text pasted into {sentence.field.of}"
    return ""


def _in_evidence(state: State, setting: RunConfig) -> str:
    """Untrusted evidence that a planner is shown; an agent that decides step by step is shown none."""
    if state.is_stepwise:
        return ""
    entries = setting.compiled.manifests.evidence_manifest
    return next((f"evidence {entry.id}" for entry in entries if entry.trust is not Trust.TRUSTED), "")


def _in_results(state: State, setting: RunConfig) -> str:
    """Results of the last turn that are not trusted in full. A call that failed has no trusted result."""
    if not state.is_stepwise or not state.plan:
        return ""
    trusted = {each.step for each in state.learned}
    for step in read_plan(state.plan).steps:
        ran = state.steps.get(step.id)
        if step.tool is None or ran is None or not ran.attempt:
            continue
        tool = setting.surface.get(step.tool)
        if step.id not in trusted or tool is None or _has_marked_fields(tool, ran):
            return f"the result of step {step.id}"
    return ""


def _has_marked_fields(tool: ToolSpec, ran: StepState) -> bool:
    """Whether a result holds a field that its tool marks as untrusted; one that is kept aside may hold any."""
    if not tool.untrusted:
        return False
    if ran.blob or ALL_FIELDS in tool.untrusted:
        return True
    return any(overlaps(mark, leaf.place) for leaf in scalars(ran.value) for mark in tool.untrusted)
