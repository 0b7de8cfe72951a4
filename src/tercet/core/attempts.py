"""What was tried before a run was handed to a person, as the packet tells it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.core.state import State


def attempts(events: Iterable[e.Event]) -> Iterator[JsonObject]:
    """The story of the run before it was handed over: every plan with its verdict, every question to a model, every turn,
    and every look at the outputs."""
    for event in events:
        match event:
            case (
                e.SamplesDrawn()
                | e.TestsRun()
                | e.OutputsVerified()
                | e.OutputsAttacked()
                | e.OutputsCritiqued()
                | e.OutputsRepaired()
            ):
                yield _about_outputs(event)
            case e.PlanProposed():
                yield {"what": "plan", "at": event.at, "hash": event.hash, "plan": event.plan}
            case e.PlanReviewed():
                yield {"what": "verdict", "at": event.at, **event.verdict}
            case e.PlanningFailed():
                yield {"what": "no_plan", "at": event.at, "code": event.code, "reason": event.reason}
            case e.ModelAsked():
                yield {"what": "asked", "at": event.at, "model": event.model, "prompt": event.prompt}
            case e.ModelAnswered():
                answer = (
                    {"error": event.error, "code": event.code} if event.code else {"answer": event.answer}
                )
                yield {"what": "answered", "at": event.at, "blob": event.blob, **answer}
            case e.TurnJudged():
                said = {"action": event.action, "critic": event.critic, "reason": event.reason}
                yield {"what": "turn", "at": event.at, **said}
            case e.StepJudged(outcome="replan" | "escalate"):
                yield {"what": "step", "at": event.at, "step": event.step, "reason": event.reason}
            case _:
                pass


def _about_outputs(
    event: e.SamplesDrawn
    | e.TestsRun
    | e.OutputsVerified
    | e.OutputsAttacked
    | e.OutputsCritiqued
    | e.OutputsRepaired,
) -> JsonObject:
    match event:
        case e.SamplesDrawn():
            said = {"step": event.step, "samples": list(event.samples), "error": event.error}
            return {"what": "sampled", "at": event.at, "consistency": event.consistency, **said}
        case e.TestsRun():
            said = {"tool": event.tool, "result": event.result, "error": event.error}
            return {"what": "tested", "at": event.at, **said}
        case e.OutputsVerified():
            return {"what": "verified", "at": event.at, "next": event.next, "verdict": event.verdict}
        case e.OutputsAttacked():
            said = {"tool": event.tool, "tried": list(event.tried), "error": event.error}
            return {"what": "attacked", "at": event.at, **said}
        case e.OutputsCritiqued():
            said = {"diagnosis": event.diagnosis, "exit": event.exit}
            return {"what": "critiqued", "at": event.at, "next": event.next, **said}
        case e.OutputsRepaired():
            said = {"outcome": event.outcome, "log": list(event.log), "escalation": event.escalation}
            return {"what": "repaired", "at": event.at, **said}


def verdicts(state: State) -> Iterator[JsonObject]:
    """What the critic has said of the plan, of the steps that failed, and of the run, as far as it stands now."""
    if state.verdict:
        yield {**state.verdict, "stage": "review"}
    for name, step in state.steps.items():
        if step.status == "failed":
            yield {"stage": "step", "step_id": name, "reasons": [step.error], "code": step.code}
    if state.report:
        yield {**state.report, "stage": "run"}
