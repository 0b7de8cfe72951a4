"""Judging of outputs: VERIFY, CRITIQUE, and the decision whether a run may be committed.

Each is an inquiry: a generator that may ask language models and returns its event. The same state, configuration and
answers give the same event, byte for byte, so a replay derives it again without asking a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tercet.contracts.control import Escalation as Helper
from tercet.contracts.control import GainEstimate, StopReason
from tercet.contracts.documents import MissingPart, TokenVerdict
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.mode import Reversibility
from tercet.contracts.outputs.exit import ExitDecision, Features, Novelty, Weights
from tercet.contracts.outputs.quality import (
    Consensus,
    CritiqueDiagnosis,
    Defect,
    DefectSeverity,
    RubricScore,
    TestFailure,
    TestResult,
    TextJudgement,
)
from tercet.contracts.outputs.quality_rules import MEASURED_ELSEWHERE, SelfConsistency, TestCommand
from tercet.contracts.outputs.rubric import EdgeOutcome
from tercet.contracts.question import Inquiry
from tercet.contracts.runs.run import Outcome
from tercet.contracts.shape import JsonObject, as_list
from tercet.core import events as e
from tercet.core.outputs.review import OutputReview
from tercet.core.state import State
from tercet.critic.score import measure
from tercet.quality.control import steer_on
from tercet.quality.exit import DEFAULT_WEIGHTS, ExitFacts, estimate, exit_decision
from tercet.quality.rubric.adversarial import EDGE_CASES, judge_attack, judge_probes
from tercet.quality.rubric.critique import (
    Found,
    as_found,
    critique_by_model,
    find_quote,
    find_unsafe,
    weigh,
)
from tercet.quality.rubric.scorers import missing_faults, token_faults
from tercet.quality.verification.consistency import vote_by_similarity, vote_exactly
from tercet.quality.verification.judge import judge_texts, may_vouch
from tercet.quality.verification.junit import pass_rate
from tercet.quality.verification.verification import verify_output

TESTS = "tests"
"""The dimension of a defect that a test has found."""
CORRECTNESS = "correctness"
"""The dimension of refusals by the screen or a judge, if the rubric has none for them."""
COMPLETENESS = "completeness"
MOST_BROKEN = 10
"""The most defects reported for one attack; repairs of these often fix the others, which are found in the next round."""


# ---- VERIFY -------------------------------------------------------------------------------------------------------


def verify(review: OutputReview, now: int) -> Inquiry[e.OutputsVerified]:
    """Return the findings of VERIFY: schema and screen, and a model's judgement of unsupported words."""
    verdict = verify_output(
        review.spec,
        review.outputs,
        review.read,
        review.known,
        language=review.language,
        executed=review.executed,
        passed=review.passed,
        request_input=review.config.compiled.input(),
    )
    if review.rules.judge == "model" and verdict.unjudged:
        judgements = yield from judge_texts(verdict.unjudged, review.read, review.evidence)
        verdict = _with_judgements(review, verdict, judgements)
    following: Literal["critique", "repair", "exit"] = "critique"
    if not verdict.schema_valid:
        following = "repair" if review.is_open_to_repair else "exit"
    return e.OutputsVerified(at=now, verdict=_dump(verdict), next=following, consistency=_agreement(review))


def _with_judgements(
    review: OutputReview, verdict: VerificationVerdict, judgements: tuple[TextJudgement, ...]
) -> VerificationVerdict:
    """Return a verdict with the judgement of a model, which counts as support only if the model was measured and is
    good enough."""
    records = review.state.quality.drawn.get("judges", {})
    vouched = {
        each.location
        for each in judgements
        if each.says == "right" and may_vouch(each.model, records, review.rules)
    }
    left = tuple(each for each in verdict.unjudged if each.location not in vouched)
    return verdict.model_copy(update={"unjudged": left, "judgements": judgements})


def choose_sample(review: OutputReview) -> JsonObject:
    """Return the output that samples of the plan agree on; nothing if there are none, or they were compared before."""
    wanted, quality = review.rules.consistency, review.state.quality
    if wanted is None or wanted.draws or quality.drafts:
        return {}
    agreed = _agreed(wanted, review.outputs)
    return {wanted.into: agreed.output} if agreed else {}


def _agreement(review: OutputReview) -> JsonObject:
    """Return what samples agree on."""
    wanted, quality = review.rules.consistency, review.state.quality
    if wanted is None:
        return {}
    if wanted.draws:
        return quality.vote.get("consistency", {})
    agreed = _agreed(wanted, quality.drafts or review.outputs)
    return _dump(agreed) if agreed else {}


def vote_on(review: OutputReview, event: e.SamplesDrawn) -> e.SamplesDrawn:
    """Return drawn samples with the result that they agree on; nothing if there are too few of them."""
    agreed = None if event.error else vote(review.sampled, event.samples)
    return msgspec.structs.replace(
        event,
        consistency=_dump(agreed) if agreed else {},
        chosen={review.sampled.into: agreed.output} if agreed else {},
    )


def vote(wanted: SelfConsistency, samples: Sequence[Any]) -> Consensus:
    """Return what samples agree on, by the method that the decision names."""
    compare = vote_exactly if wanted.method == "exact" else vote_by_similarity
    return compare(samples, minimum=wanted.minimum)


def _agreed(wanted: SelfConsistency, outputs: JsonObject) -> Consensus | None:
    """Return what several samples agree on; nothing if they are not all there."""
    held = [outputs[name] for name in wanted.samples if name in outputs]
    samples = as_list(held[0]) if len(wanted.samples) == 1 and held else held
    if samples is None or len(samples) not in (3, 5, 7) or len(held) < len(wanted.samples):
        return None
    return vote(wanted, samples)


# ---- CRITIQUE -----------------------------------------------------------------------------------------------------


def criticise(review: OutputReview, now: int) -> Inquiry[e.OutputsCritiqued]:
    """Return the findings of CRITIQUE, the resulting confidence, and whether a repair is needed."""
    besides = _other_findings(review)
    given = review.critique_input
    diagnosis = yield from critique_by_model(given, besides=besides)
    weighed = weigh(given.rubric, diagnosis.scores)
    features = features_of(review, weighed.weighted)
    sure = estimate(features, _weights(review.state.quality.drawn))
    control = _control(review, diagnosis, weighed.weighted)
    # Another model, or more evidence, may bring what the same repair again does not.
    is_helped = control.get("helper") in _IN_REPAIR
    is_stopped = _stop_reason(control) not in (None, StopReason.REACHED) and not is_helped
    may_repair = review.is_open_to_repair and bool(diagnosis.defects) and not is_stopped
    ending = decide_exit(review, diagnosis, weighed, sure.value, can_repair=may_repair)
    return e.OutputsCritiqued(
        at=now,
        diagnosis=_dump(diagnosis),
        rubric=_dump(weighed),
        confidence={**_dump(sure), "features": features},
        exit=_dump(ending),
        next="repair" if ending.outcome == "CONTINUE_REPAIR" else "exit",
        control=control,
    )


def _other_findings(review: OutputReview) -> tuple[Found, ...]:
    """Return the findings besides the rubric's."""
    given = review.critique_input
    return (
        *_failed_tests(review),
        *_attack_findings(review),
        *_refused_by_judge(review),
        *unscored(review, given.tokens, given.missing),
        *probed(review, review.outputs),
    )


def probed(review: OutputReview, outputs: JsonObject) -> tuple[Found, ...]:
    """Return what planted texts, and secrets in samples, show in outputs."""
    asked = review.rules.critique
    found = judge_probes(asked.probes, outputs) if asked.enable_adversarial else ()
    # Samples are not held against the rubric, but they are committed with what was chosen of them.
    sampled = {name: outputs[name] for name in sorted(review.samples & outputs.keys())}
    return (*found, *find_unsafe(sampled))


def unscored(
    review: OutputReview, tokens: Sequence[TokenVerdict], missing: Sequence[MissingPart]
) -> Iterator[Found]:
    """Yield the refusals of the screen and the missing values that no dimension of the rubric counts."""
    scorers = {each.scorer for each in review.rules.rubric.dimensions}
    if "grounded" not in scorers:
        yield from (as_found(each, CORRECTNESS, each.least) for each in token_faults(tokens))
    if "complete" not in scorers:
        yield from (as_found(each, COMPLETENESS, each.least) for each in missing_faults(missing))


def _refused_by_judge(review: OutputReview) -> Iterator[Found]:
    """Yield the words that a model calls wrong, as defects."""
    for said in review.verdict.judgements if review.verdict else ():
        if said.says != "wrong":
            continue
        for place in [find_quote(review.outputs, quote) for quote in said.quotes] or [said.location]:
            defect = Defect(
                dimension=CORRECTNESS,
                severity=DefectSeverity.HIGH,
                description=f"the judge calls it wrong: {said.reason}",
                location=place or said.location,
                scope="LOCAL" if place else "SECTION",
            )
            yield Found(defect, "say what the evidence says")


def _failed_tests(review: OutputReview) -> list[Found]:
    """Return the failures of tests as defects of the tested outputs."""
    found: list[Found] = []
    for command, said in zip(review.rules.tests, review.state.quality.tests, strict=False):
        result = TestResult.model_validate(said["result"] or {"passed": 0, "failed": 0})
        why = said["error"] or ("no test ran" if _is_empty(command, result) else "")
        if why:
            defect = _defect_of(f"the tests could not be run: {why}", command.output)
            found.append(Found(defect, "make it something that the tests can run on"))
        found += [Found(_test_defect(failure, command.output), _hint(failure)) for failure in result.errors]
    return found


def _attack_findings(review: OutputReview) -> Iterator[Found]:
    """Yield the successes of attacks as defects of the attacked outputs."""
    for attack, said in zip(review.rules.attacks, review.state.quality.attacks, strict=False):
        if said["error"]:
            text = f"not all cases could be tried: {said['error']}"
            yield Found(
                _defect_of(text, attack.output, EDGE_CASES), "make it something that cases can be tried on"
            )
        outcomes = [EdgeOutcome.model_validate(each) for each in said["tried"]]
        yield from judge_attack(outcomes, place=attack.output)[:MOST_BROKEN]


def _is_empty(command: TestCommand, result: TestResult) -> bool:
    """Return whether tests that must all pass have shown nothing."""
    return command.level != "regression" and result.passed + result.failed == 0


def _test_defect(failure: TestFailure, place: str) -> Defect:
    compared = f": expected {failure.expected}, found {failure.actual}" if failure.expected else ""
    return _defect_of(f"the test {failure.name} fails{compared}", place)


def _defect_of(description: str, place: str, dimension: str = TESTS) -> Defect:
    return Defect(
        dimension=dimension,
        severity=DefectSeverity.HIGH,
        description=description,
        location=place,
        scope="SECTION",
    )


def _hint(failure: TestFailure) -> str:
    return f"make {failure.name} pass" + (f"; it failed at {failure.location}" if failure.location else "")


def features_of(review: OutputReview, critic: float) -> Features:
    """Return the features of the confidence; those that were not measured are left out."""
    quality, verdict = review.state.quality, review.verdict
    found: Features = {"critic": critic, "repairs": float(review.state.used.repairs)}
    if verdict is not None:
        found["verify"] = verdict.score
        if verdict.factual is not None:
            found["evidence"] = verdict.factual
    if quality.consistency:
        found["consistency"] = float(quality.consistency["consistency"])
    if (rate := _pass_rate(review)) is not None:
        found["tests"] = rate
    if quality.logprob is not None:
        found["logprob"] = quality.logprob
    return found


def _pass_rate(review: OutputReview) -> float | None:
    return None if review.tests is None else pass_rate(review.tests)


def _weights(drawn: Mapping[str, Any]) -> Weights:
    return Weights.model_validate(drawn["weights"]) if drawn.get("weights") else DEFAULT_WEIGHTS


# ---- the exit -----------------------------------------------------------------------------------------------------


def decide_exit(
    review: OutputReview,
    diagnosis: CritiqueDiagnosis,
    weighed: RubricScore | None,
    confidence: float | None,
    *,
    can_repair: bool,
) -> ExitDecision:
    """Return whether the outputs may be committed, with everything that it is decided by."""
    spec, quality = review.spec, review.state.quality
    is_confidence_asked = spec.confidence is not None or any(t.name == "confidence" for t in spec.thresholds)
    return exit_decision(
        ExitFacts(
            thresholds=spec.thresholds,
            measured=measured(review, diagnosis.scores),
            floors_hold=review.scored.ok,
            objections=tuple(_objections(review, diagnosis, weighed)),
            bands=spec.confidence,
            confidence=confidence if is_confidence_asked else None,
            can_repair=can_repair,
            is_partial=review.rules.is_partial_useful and bool(review.outputs),
            is_irreversible=spec.quality is not None and has_irreversible_effects(review),
            is_unjudged=spec.quality is not None
            and (review.verdict is None or bool(review.verdict.unjudged)),
            requires_approval=spec.requires_human_approval or is_change_asked_for(review.state),
            novelty=Novelty.model_validate(found) if (found := quality.drawn.get("novelty")) else None,
        )
    )


def has_irreversible_effects(review: OutputReview) -> bool:
    """Return whether the run has done something that cannot be undone, or may have."""
    done = {
        entry.call.step_id for entry in review.run.transcript if entry.result.outcome is not Outcome.NOT_DONE
    }
    calls = (
        review.run.compiled.surface.get(step.tool or "") for step in review.run.plan.steps if step.id in done
    )
    own = (step.reversibility for step in review.run.plan.steps if step.id in done)
    return Reversibility.IRREVERSIBLE in (*(tool.reversibility for tool in calls if tool), *own)


def is_change_asked_for(state: State) -> bool:
    """Return whether a person has asked for changes of this run's outputs: then they must see the outputs again before
    a commit, whatever the confidence."""
    return any(answer.answer == "modify" and not answer.step for answer in state.answers)


def measured(review: OutputReview, rubric: Mapping[str, float]) -> dict[str, float]:
    """Return every measurement that a threshold may read; safe actions and safe texts both count as safety."""
    found = {
        **measure(review.run),
        **{name: score for name, score in rubric.items() if name not in MEASURED_ELSEWHERE},
        **{str(name): each.score for name, each in review.scored.scorecard.scores.items()},
    }
    if "safety" in rubric:
        found["safety"] = min(found["safety"], rubric["safety"])
    if (rate := _pass_rate(review)) is not None:
        found["test_pass_rate"] = rate
    if review.state.quality.consistency:
        found["self_consistency"] = float(review.state.quality.consistency["consistency"])
    return found


def _objections(
    review: OutputReview, diagnosis: CritiqueDiagnosis, weighed: RubricScore | None
) -> Iterator[str]:
    """Yield what speaks against a commit, whatever thresholds the decision has."""
    if review.verdict is not None and not review.verdict.schema_valid:
        yield "the outputs break their schema"
    if weighed is not None and not weighed.passed:
        below = ", ".join(weighed.below)
        sum_up = f"it comes to {weighed.weighted}, below {weighed.threshold}"
        yield f"the rubric is not met: {f'{below} below the minimum' if below else sum_up}"
    yield from (f"{name} has a grave defect" for name in _grave_dimensions(review, diagnosis, weighed))
    yield from (found.defect.description for found in _other_findings(review))


def _grave_dimensions(
    review: OutputReview, diagnosis: CritiqueDiagnosis, weighed: RubricScore | None
) -> Iterator[str]:
    """Yield the dimensions that meet their minimum, and have a defect all the same that nothing else makes good."""
    below = weighed.below if weighed else ()
    for name in (each.name for each in review.rubric.dimensions if each.name not in below):
        if any(one.dimension == name and one.severity >= DefectSeverity.HIGH for one in diagnosis.defects):
            yield name


def final_exit(review: OutputReview) -> ExitDecision:
    """Return the exit of outputs that are not repaired any more."""
    quality = review.state.quality
    return decide_exit(
        review,
        CritiqueDiagnosis.model_validate(quality.diagnosis or {"scores": {}}),
        RubricScore.model_validate(quality.rubric) if quality.rubric else None,
        quality.confidence.get("value"),
        can_repair=False,
    )


# ---- control ------------------------------------------------------------------------------------------------------


def _control(review: OutputReview, diagnosis: CritiqueDiagnosis, weighted: float) -> JsonObject:
    """Return the command of the controller for this kind of task; nothing if there is none."""
    if review.config.control is None:
        return {}
    gain = review.state.quality.drawn.get("gain")
    spec = review.config.control
    spec = GainEstimate.model_validate(gain).applied_to(spec) if gain else spec
    return steer_on(
        spec,
        diagnosis.scores if isinstance(spec.setpoint, dict) else weighted,
        review.state.quality.control,
        can_repair=review.is_open_to_repair and bool(diagnosis.defects),
        helpers=_helpers(review),
    )


_IN_REPAIR: tuple[Helper, ...] = ("switch_model", "retrieve_evidence")


def _helpers(review: OutputReview) -> tuple[Helper, ...]:
    """Return who could help where repairing again does not; a person always can."""
    found: dict[Helper, bool] = {
        "switch_model": review.repairers > 1,
        "retrieve_evidence": bool(review.config.library_snapshot),
        "decompose": may_replan(review),
        "ask_human": True,
    }
    return tuple(name for name, is_there in found.items() if is_there)


def may_replan(review: OutputReview) -> bool:
    """Return whether a planner may be asked for another plan."""
    budget, state = review.config.ctx.run_budget, review.state
    return state.plan_origin == "planner" and state.used.replans < budget.max_replans


def _stop_reason(control: Mapping[str, Any]) -> str | None:
    """Return why the controller stops repairing; None if it does not."""
    command: Mapping[str, Any] = control.get("command", {})
    return command["reason"] if command.get("kind") == "stop" else None


def _dump(shape: Any) -> JsonObject:
    return shape.model_dump(mode="json")
