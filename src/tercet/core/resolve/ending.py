"""Events at the end of a run: outputs, score, record, and proposed memories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

from tercet.contracts.outputs.exit import ExitDecision
from tercet.contracts.outputs.repair import Escalation
from tercet.contracts.personal import find_tokens
from tercet.contracts.plan import Plan
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.record import MemoryProposal
from tercet.contracts.runs.run import Run as Transcript
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.canonical import digest, hash_bytes
from tercet.contracts.verdict import CriticReport, RefusalKind, RunOutcome, Verdict
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core import transcript
from tercet.core.answers import History, Made, Now, Observed, Ready, made
from tercet.core.approval import diagnosis_of
from tercet.core.config import RunConfig
from tercet.core.dependencies import Results
from tercet.core.fold.gate import acceptances
from tercet.core.outputs.judging import final_exit
from tercet.core.outputs.review import OutputReview
from tercet.core.outputs.rounds import better_round, restored, told_round
from tercet.core.resolve.calls import replan_or_escalate
from tercet.core.run import Run, Scored
from tercet.core.state import State
from tercet.core.transcript import holds_run_verdict, split_record
from tercet.critic.consolidate import consolidate, record_fields
from tercet.critic.judge import judge
from tercet.critic.memory import dropped, is_trusted, sources_of
from tercet.critic.score import measure, print_envelope, score
from tercet.policy.resolution import MAX_COMPUTED_BYTES, ResolutionError, Resolver, resolve
from tercet.policy.resolution import measure as measure_bytes


def finish(run: Run, command: c.Finish, answer: Now) -> Made:
    """Return the outputs of a plan whose steps have all ended."""
    del command
    state, config, plan = run.state, run.config, run.followed.plan
    results = Results(state, config.compiled.input(), run.blobs)
    outputs: dict[str, Any] = {}
    missing: dict[str, str] = {}
    is_strict = config.ctx.goes_by(Behaviour.STRICT_CALLS)
    resolver = Resolver(results, config.evidence, is_bounded=is_strict)
    for name, value in plan.outputs.items():
        try:
            outputs[name] = resolver.resolve(value)
        except ResolutionError as error:
            missing[name] = error.message
        else:
            if state.start.personal and _has_foreign(outputs[name], state.start.personal, config):
                del outputs[name]
                missing[name] = "it holds the token of a personal value that is not of this session"
    for name in plan.declared_outputs:
        if name in outputs:
            continue
        if name in state.named:
            outputs[name] = state.named[name]
        elif name in state.named_in:
            outputs[name] = run.blobs[state.named_in[name]][name]
        else:
            missing[name] = "no result carried it"
    memory = tuple(_proposed_memories(config, plan, results))
    return made(e.OutputsProduced(at=answer.at, outputs=outputs, missing=missing, memory=memory))


def _has_foreign(value: Any, key: str, config: RunConfig) -> bool:
    """Return whether a value holds a token that is neither of the session's own subject nor in its evidence."""
    others = {token for token in find_tokens(value) if not token.startswith(f"[personal:{key}:")}
    return bool(others) and not others.issubset(find_tokens(config.evidence))


def score_run(run: Run, command: c.Score, answer: History) -> Made:
    """Return the critic's scorecard, report and verdict on the whole run."""
    del command
    config = run.config
    better = better_round(run.state, config)
    state = restored(run.state, better)
    recorded = transcript.run_of(config, run.followed, state, answer.events, run.blobs)
    reviewed = _review_verdict(run)
    scored = score(recorded, reading=run.reviewed.reading if run.reviewed is not None else None)
    report = consolidate(
        trace_id=state.start.trace,
        decision_key=config.spec.id,
        verify=reviewed,
        score=scored,
        decided_at=transcript.timestamp(answer.at),
    )
    ctx = config.frame_with(plan_origin=state.plan_origin, used=recorded.used)
    is_judged = config.spec.quality is not None
    spec = config.spec.model_copy(update={"thresholds": ()}) if is_judged else config.spec
    verdict = judge(ctx, spec, report, measure(recorded))
    outcome, reasons, ending = verdict.outcome, verdict.reasons, None
    if state.accepted is not None:  # the outputs are judged already, and no other plan delivers them
        outcome = "accept" if verdict.ok else "escalate"
    elif verdict.ok and (is_judged or spec.requires_human_approval):
        review = OutputReview(state=state, config=config, run=recorded, scored=scored)
        ending = ExitDecision.model_validate(answer.exit) if answer.exit else final_exit(review)
        outcome, reasons = _follow_exit(state, config, ending)
    if better:
        reasons = (*reasons[:1], told_round(better), *reasons[1:])
    if outcome in ("escalate", "replan", "fail") and verdict.ok:
        report = report.model_copy(update={"status": "refused_by_critic", "rationale": reasons[0]})
    dumped = report.model_dump(mode="json")
    run.scored = Scored(state.position, recorded, reviewed, report, dumped)
    published = "escalate" if outcome in ("ask", "fail") else outcome
    return made(
        e.RunReported(
            at=answer.at,
            report=dumped,
            outcome=outcome,
            reasons=reasons,
            envelope=print_envelope(recorded, scored, cast("RunOutcome", published), state.trips),
            exit=ending.model_dump(mode="json") if ending else {},
            restored=better,
        )
    )


def _follow_exit(state: State, config: RunConfig, ending: ExitDecision) -> tuple[str, tuple[str, ...]]:
    """Return the consequence of an exit with its reasons: commit, ask a person, re-plan, escalate, or fail."""
    reasons = (ending.reason, *diagnosis_of(state))
    match ending.outcome:
        case "COMMIT":
            return "accept", reasons
        case "FAIL":
            return "fail", reasons
        case _ if ending.needs_approval:
            return "ask", reasons
        case _:
            quality = state.quality
            is_too_much = (
                quality.escalation.get("kind") == Escalation.TASK_REDECOMPOSE
                or quality.control.get("helper") == "decompose"
            )
            return (replan_or_escalate(state, config) if is_too_much else "escalate"), reasons


def stop(run: Run, command: c.StopExhausted, answer: Now) -> Made:
    """Return the end of a run that has used up its phases, with the best of its outputs."""
    return made(
        e.GivenUp(
            at=answer.at,
            reason=command.reason,
            iterations=run.state.iterations,
            restored=better_round(run.state, run.config),
        )
    )


def accept_outputs(run: Run, command: c.AcceptOutputs, answer: Ready) -> Made:
    """Return the acceptance of the outputs for delivery; or its lapse, if the acceptance by people no longer counts."""
    del command
    state = run.state
    if answer.role_lost:
        return made(_lapse(state, answer.at, answer.role_lost))
    by = tuple(dict.fromkeys(given.actor for given in acceptances(state)))
    return made(e.OutputsAccepted(at=answer.at, digest=digest(state.outputs), by=by))


def _lapse(state: State, at: int, reason: str) -> e.AcceptanceLapsed:
    return e.AcceptanceLapsed(at=at, gate=acceptances(state)[-1].gate, reason=reason)


def end(run: Run, command: c.End, answer: History) -> Made:
    """Return the end of a session with the hash of its record; or, if the acceptance of its outputs no longer counts, that."""
    state, config = run.state, run.config
    if answer.role_lost:
        return made(_lapse(state, answer.at, answer.role_lost))
    plan = run.followed.plan if run.plan is not None else Plan(steps=())
    verdict, report = _last_verdict(run, answer.at)
    if state.partial and (report.status != "completed" or state.accepted is not None):
        report = report.model_copy(update={"status": "partial", "rationale": state.reason})
    fields = record_fields(
        config.ctx,
        config.compiled,
        config.spec,
        plan,
        report,
        (verdict,) if verdict else (),
        _whole_transcript(run, answer.events) if run.plan is not None else None,
    )
    if (scored := _last_score(run)) is not None and report is scored.report:
        fields["report"] = scored.recorded
    if holds_run_verdict(state):
        fields["run_verdict"] = state.envelope
    if accepted := tuple(proposal for proposal, _ in _accepted_memories(state, report)):
        fields["memory_proposals"] = accepted
    if (delivery := transcript.delivery_of(plan, state)) is not None:
        fields["delivery"] = delivery
    has_decisions = bool(plan.decision_checkpoints) or state.revision > 1
    if has_decisions and (decisions := transcript.decisions_of(answer.events)):
        fields["decisions"] = decisions
    run.record, kept = split_record(fields)
    ended = e.SessionEnded(
        at=answer.at,
        status=command.status,
        reason=state.reason or report.rationale,
        record=hash_bytes(run.record),
        kept=hash_bytes(kept),
        outputs=state.outputs,
    )
    return made(ended, blobs=(kept,))


def accepted_memories(state: State) -> list[tuple[MemoryProposal, bool]]:
    """Return the memories of a run that is being committed; a result accepted as partial has none."""
    if not state.report or state.partial:
        return []
    return list(_accepted_memories(state, CriticReport.model_validate(state.report)))


def _last_verdict(run: Run, at: int) -> tuple[Verdict | None, CriticReport]:
    """Return the verdict and the report that the record is made from."""
    state, scored = run.state, _last_score(run)
    if scored is not None and state.report is scored.recorded:
        return scored.verdict, scored.report
    verdict = _review_verdict(run) if state.verdict else None
    if state.report:
        return verdict, CriticReport.model_validate(state.report)
    refused = verdict or Verdict(
        stage="review",
        outcome="reject",
        kind=RefusalKind.VIOLATES_DECISION_SPEC,
        reasons=(state.reason or "there was no plan",),
    )
    report = consolidate(
        trace_id=state.start.trace,
        decision_key=run.config.spec.id,
        verify=refused,
        decided_at=transcript.timestamp(at),
    )
    return verdict, report


def _review_verdict(run: Run) -> Verdict:
    """Return the critic's verdict on the plan, in its recorded form if the state holds it."""
    recorded, reviewed = run.state.verdict, run.reviewed
    if reviewed is not None and reviewed.recorded is recorded:
        return reviewed.verdict
    return Verdict.model_validate(recorded)


def _last_score(run: Run) -> Scored | None:
    """Return the score of a run to which nothing has happened since."""
    scored = run.scored
    return scored if scored is not None and scored.position == run.state.position - 1 else None


def _whole_transcript(run: Run, events: Sequence[e.Event]) -> Transcript:
    """Return the whole transcript of the run, with large values by their digest: a record must not depend on which of
    them a process has loaded. The scored one is used again if only the score came after it."""
    scored = _last_score(run)
    if scored is not None and run.state.revision == 1 and not run.blobs:
        return scored.transcript
    return transcript.run_of(run.config, run.followed, run.state, events, {}, is_whole=True)


def _proposed_memories(config: RunConfig, plan: Plan, results: Results) -> Iterator[JsonObject]:
    """Yield the memories that a plan suggests, with their actual values and sources; those without a value are left
    out."""
    if not plan.memory:
        return
    is_strict = config.ctx.goes_by(Behaviour.STRICT_CALLS)
    review = config.review(plan)
    for name, value in plan.memory.items():
        with suppress(ResolutionError):
            content = resolve(value, results, config.evidence)
            if is_strict and measure_bytes(content, MAX_COMPUTED_BYTES) > MAX_COMPUTED_BYTES:
                continue
            yield {
                "class": name,
                "content": content,
                "sources": sources_of(value),
                "trusted": is_trusted(review, value, content),
            }


def _accepted_memories(state: State, report: CriticReport) -> Iterator[tuple[MemoryProposal, bool]]:
    """Yield the memories that the critic permits, each with whether all of its sources are trusted."""
    for said in state.memory:
        proposal = MemoryProposal(
            classification=said["class"], content=said["content"], sources=tuple(said["sources"])
        )
        if dropped(report, proposal) is None:
            yield proposal, said["trusted"]


def record_quality(run: Run, command: c.Command, answer: Observed) -> Made:
    """Record a step of the quality loop, which was judged in `core.outputs` from the answers of models and tools."""
    del run, command
    return made(answer.event, blobs=answer.blobs)
