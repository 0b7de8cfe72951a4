"""Folds of the quality loop: outputs are judged and repaired before they are committed.

Each function folds the event of its name.

VERIFY ──outputs_verified: critique──▶ CRITIQUE, repair (a broken schema) ──▶ REPAIR, exit ──▶ VERIFY, to be scored
CRITIQUE ──outputs_attacked──▶ CRITIQUE
CRITIQUE ──outputs_critiqued: repair──▶ REPAIR, exit ──▶ VERIFY, to be scored
REPAIR ──outputs_repaired──▶ VERIFY, from the beginning
COMMIT ──outputs_accepted──▶ ACT, where steps take the outputs
"""

from __future__ import annotations

from typing import Any

import msgspec

from tercet.contracts.loop import Phase
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.values import pointer
from tercet.contracts.values.canonical import digest
from tercet.core import events as e
from tercet.core.budget import add
from tercet.core.fold.base import changed, copy_fields, demand, step_of
from tercet.core.outputs.rounds import remembered, round_of
from tercet.core.plans import read_plan
from tercet.core.state import Acceptance, Quality, State
from tercet.quality.verification.results import result_refs

P = Phase
_NEXT: dict[str, Phase] = {"critique": P.CRITIQUE, "repair": P.REPAIR, "exit": P.VERIFY}


def with_quality(state: State, **changes: Any) -> Quality:
    """Return the judgements of the outputs with some of them changed."""
    return msgspec.structs.replace(state.quality, **changes)


def afresh(quality: Quality) -> Quality:
    """Return the same for new outputs: earlier judgements do not count for them, but attempts and costs do."""
    return msgspec.structs.replace(
        quality,
        stage="",
        read=None,
        rendered={},
        tests=(),
        attacks=(),
        verdict={},
        consistency={},
        diagnosis={},
        rubric={},
        confidence={},
        exit={},
        escalation={},
        best=None,
        before=None,
        restored={},
        lapsed="",
    )


def awaits_delivery(state: State) -> bool:
    """Return whether a run whose outputs the critic or a person has accepted has steps that take them and have not begun. What is
    accepted as partial is not delivered, and a rehearsal delivers nothing."""
    is_accepted = state.phase is P.COMMIT and not state.partial and not state.start.shadow
    is_open = is_accepted and state.accepted is None and bool(state.plan)
    return is_open and bool(read_plan(state.plan).graph.takers)


def outputs_accepted(state: State, event: e.OutputsAccepted) -> State:
    """Acceptance is the last thing that steps wait for which take an output."""
    demand(state, event, is_met=awaits_delivery(state), why="no step waits for that")
    demand(state, event, is_met=event.digest == digest(state.outputs), why="it is about other outputs")
    plan = read_plan(state.plan)
    steps = dict(state.steps)
    for name in (plan.steps[index].id for index in plan.graph.takers):
        steps[name] = msgspec.structs.replace(steps[name], unmet=steps[name].unmet - 1)
    ready = tuple(name for name, step in steps.items() if step.status == "pending" and not step.unmet)
    return changed(state, phase=P.ACT, accepted=copy_fields(Acceptance, event), steps=steps, frontier=ready)


def experience_drawn(state: State, event: e.ExperienceDrawn) -> State:
    demand(state, event, is_met=not state.quality.drawn, why="it was drawn before")
    names = ["task_class", "rates", "gain", "weights", "novelty"]
    names += [name for name in ("judges", "tests") if getattr(event, name)]
    drawn = {name: getattr(event, name) for name in names}
    return changed(state, quality=with_quality(state, drawn=drawn))


def samples_drawn(state: State, event: e.SamplesDrawn) -> State:
    demand(state, event, is_met=not state.quality.vote, why="they were drawn before")
    demand(state, event, is_met=not state.quality.tests, why="the outputs were tested before")
    outputs = {**state.outputs, **event.chosen}
    # The step's own result cannot support the sample that replaces it.
    drafts = state.quality.drafts or ({} if outputs == state.outputs else state.outputs)
    vote = {"consistency": event.consistency, "error": event.error}
    return changed(
        state,
        outputs=outputs,
        quality=with_quality(state, vote=vote, drafts=drafts),
        used=add(state.used, tool_calls=event.calls, cost=event.cost),
    )


def outputs_read(state: State, event: e.OutputsRead) -> State:
    demand(state, event, is_met=state.quality.read is None, why="they were read before")
    outputs = {**state.outputs, **event.outputs}
    # A rendered text cannot support itself, and neither can its source.
    drafts = state.quality.drafts or ({} if outputs == state.outputs else state.outputs)
    authored = {
        pointer.parts(text["pointer"])[0]: text["text"]
        for text in event.texts
        if all(piece["source"] != "free" for piece in text.get("pieces", ()))
    }
    return changed(
        state,
        outputs=outputs,
        missing={name: why for name, why in state.missing.items() if name not in outputs},
        quality=with_quality(state, read=event.texts, rendered=authored, drafts=drafts, before=None),
    )


def tests_run(state: State, event: e.TestsRun) -> State:
    ran = state.quality.tests
    demand(state, event, is_met=event.number == len(ran), why=f"test command {len(ran)} is due")
    said = {"tool": event.tool, "result": event.result, "error": event.error}
    before = state.quality.passed_tests
    if names := event.result.get("passed_tests"):
        number = str(event.number)
        before = {**before, number: tuple(dict.fromkeys((*before.get(number, ()), *names)))}
    return changed(
        state,
        quality=with_quality(state, tests=(*ran, said), passed_tests=before),
        used=add(state.used, tool_calls=event.calls, cost=event.cost),
    )


def outputs_verified(state: State, event: e.OutputsVerified) -> State:
    demand(state, event, is_met=state.asking is None, why="a model is being asked")
    demand(state, event, is_met=not state.quality.stage, why="they were verified before")
    outputs = {**state.outputs, **event.chosen}
    return changed(
        state,
        phase=_NEXT[event.next],
        outputs=outputs,
        missing={name: why for name, why in state.missing.items() if name not in outputs},
        replies=(),
        quality=with_quality(
            state,
            verdict=event.verdict,
            consistency=event.consistency,
            stage="judged" if event.next == "exit" else "",
        ),
    )


def outputs_attacked(state: State, event: e.OutputsAttacked) -> State:
    made = state.quality.attacks
    demand(state, event, is_met=state.asking is None, why="a model is being asked")
    demand(state, event, is_met=event.number == len(made), why=f"attack {len(made)} is due")
    said = {"tool": event.tool, "tried": event.tried, "error": event.error}
    return changed(
        state,
        replies=(),
        quality=with_quality(state, attacks=(*made, said)),
        used=add(state.used, tool_calls=event.calls, cost=event.cost),
    )


def outputs_critiqued(state: State, event: e.OutputsCritiqued) -> State:
    demand(state, event, is_met=state.asking is None, why="a model is being asked")
    measured = event.control.get("quality")
    return changed(
        state,
        phase=_NEXT[event.next],
        replies=(),
        quality=with_quality(
            state,
            diagnosis=event.diagnosis,
            rubric=event.rubric,
            confidence=event.confidence,
            exit=event.exit,
            control=event.control,
            course=state.quality.course if measured is None else (*state.quality.course, measured),
            stage="judged" if event.next == "exit" else "",
        ),
    )


def evidence_fetched(state: State, event: e.EvidenceFetched) -> State:
    demand(state, event, is_met=not state.quality.has_fetched, why="it was looked for before")
    for each in event.results:
        has_failed = step_of(state, each.step, event).has_failed_call
        demand(state, event, is_met=has_failed, why=f"no call of step {each.step} has failed")
    fetched = tuple(dict.fromkeys((*state.quality.fetched, *event.refs)))
    brought = tuple(each for each in event.results if not each.error)
    is_close = Behaviour.OUTPUTS_READ_CLOSELY in state.start.behaviour
    again = tuple(each.step for each in event.results if each.error and is_close)
    refs = (ref for each in brought for ref in result_refs(each.step))
    return changed(
        state,
        facts=(*state.facts, event.facts) if event.facts else state.facts,
        quality=with_quality(
            state,
            has_fetched=True,
            fresh=(*event.refs, *refs),
            fetched=fetched,
            retried=(*state.quality.retried, *brought),
            called_again=(*state.quality.called_again, *again),
        ),
        used=add(state.used, tool_calls=event.calls, cost=event.cost),
    )


def _logprob(state: State, event: e.OutputsRepaired) -> float | None:
    """Return the mean log-probability of what models wrote in this repair; where none wrote anything, the one before it."""
    by_models = [entry for entry in event.log if entry.get("means", "model") == "model"]
    if all(entry.get("success") is False for entry in by_models):
        return state.quality.logprob
    said = [(reply.logprob, max(reply.tokens_out, 1)) for reply in state.replies if reply.logprob is not None]
    tokens = sum(count for _, count in said)
    return round(sum(value * count for value, count in said) / tokens, 6) if said else None


def outputs_repaired(state: State, event: e.OutputsRepaired) -> State:
    demand(state, event, is_met=state.asking is None, why="a model is being asked")
    quality = msgspec.structs.replace(
        afresh(state.quality),
        log=(*state.quality.log, *event.log),
        memory=event.memory,
        escalation=event.escalation,
        drafts=state.quality.drafts or state.outputs,
        vote={"consistency": event.consistency, "error": ""} if event.consistency else state.quality.vote,
        feedback="",
        has_fetched=False,
        fresh=(),
        best=remembered(state),
        before=round_of(state),
        rendered=state.quality.rendered,
        logprob=_logprob(state, event),
    )
    return changed(
        state,
        phase=P.VERIFY,
        outputs=event.outputs,
        missing={name: why for name, why in state.missing.items() if name not in event.outputs},
        replies=(),
        quality=quality,
        used=add(state.used, repairs=1),
    )
