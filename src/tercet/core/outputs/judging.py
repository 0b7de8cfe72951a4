"""The quality loop as pure code: what VERIFY, CRITIQUE and REPAIR come to, and whether a run may be committed.

Each of the three is an inquiry: it may ask language models on its way, and returns the event that it comes to. The same
state, setting and answers give the same event, byte for byte; so a replay derives it again without asking anybody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import msgspec

from tercet.contracts.behaviour import Behaviour
from tercet.contracts.control import Escalation as Helper
from tercet.contracts.control import GainEstimate, StopReason
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.exit import ExitDecision, Features, Novelty, Weights
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.quality import (
    Consensus,
    CritiqueDiagnosis,
    Defect,
    DefectSeverity,
    RepairEntry,
    RepairLog,
    RubricScore,
    TestFailure,
    TestResult,
)
from tercet.contracts.quality_rules import MEASURED_ELSEWHERE, QualityRules, SelfConsistency, TestCommand
from tercet.contracts.question import Inquiry
from tercet.contracts.repair import Escalation, LoopMemory, RepairResult, RepairRules, SuccessRates
from tercet.contracts.rubric import CritiqueInput, CritiqueTask, EdgeOutcome, Rubric
from tercet.contracts.run import Outcome, Run
from tercet.contracts.shape import JsonObject, as_list
from tercet.contracts.trust import with_dotted
from tercet.contracts.verdict import ScoreVerdict
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.outputs.grounds import grounds_of, put_in_order
from tercet.core.state import State
from tercet.critic.score import measure
from tercet.quality.control import steering
from tercet.quality.exit.confidence import DEFAULT_WEIGHTS, estimate
from tercet.quality.exit.decision import ExitFacts, exit_decision
from tercet.quality.grounding.check import EDITION
from tercet.quality.grounding.judges import MAX_READ, Judges
from tercet.quality.repair.case import RepairCase
from tercet.quality.repair.causes import Circumstances
from tercet.quality.repair.escalation import FEEDBACK, Resources
from tercet.quality.repair.materials import Materials
from tercet.quality.repair.mending import IsGone, mend, with_feedback
from tercet.quality.repair.rechecking import SCHEMA, diagnose_form, form_of, gone_by, is_form_mended
from tercet.quality.rubric.adversarial import EDGE_CASES, judge_attack, judge_probes
from tercet.quality.rubric.credentials import find_any_secrets, find_secrets
from tercet.quality.rubric.critique import Found, critique, critique_by_model, find_unsafe, weigh
from tercet.quality.verification.asking import verify_by_model
from tercet.quality.verification.consistency import vote_by_similarity, vote_exactly
from tercet.quality.verification.junit import pass_rate
from tercet.quality.verification.traces import analyse
from tercet.quality.verification.verification import verify_output

TESTS = "tests"
"""The dimension of a defect that a test has found."""
MOST_BROKEN = 10
"""Of one attack no more than this becomes defects: whoever mends the first ones mends the others, or sees them next."""


@dataclass(frozen=True, kw_only=True)
class OutputReview:
    """What is judged: the outputs of a run, what they should be, and what they can stand on."""

    state: State
    setting: RunConfig
    run: Run
    scored: ScoreVerdict
    """What the evaluators say of the run: its floors no repair can mend."""
    repairers: int = 0
    """How many language models can be asked to repair."""

    @property
    def spec(self) -> DecisionSpec:
        """The decision."""
        return self.setting.spec

    @property
    def rules(self) -> QualityRules:
        """How the outputs are judged and mended."""
        return self.setting.spec.quality or QualityRules()

    @property
    def sampled(self) -> SelfConsistency:
        """How samples are compared, in a decision that has any."""
        if self.rules.consistency is None:
            raise ValueError(f"decision {self.spec.id} compares no samples")
        return self.rules.consistency

    @property
    def outputs(self) -> JsonObject:
        """What is judged."""
        return self.state.outputs

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """What the outputs can stand on."""
        quality = self.state.quality
        facts = grounds_of(self.run, quality.drafts, quality.fetched)
        return put_in_order(facts) if self._reads_in_order else facts

    @cached_property
    def judges(self) -> Judges:
        """Those who hold outputs against the evidence, and read it once."""
        edition = EDITION if self.says_enough else 2
        is_strict = self.setting.ctx.goes_by(Behaviour.STRICT_CALLS)
        return Judges(
            most=MAX_READ if self._reads_in_order else None,
            edition=edition,
            secrets=find_any_secrets if is_strict else find_secrets,
        )

    @property
    def says_enough(self) -> bool:
        """Whether the run goes by the third edition of the rules."""
        return self.setting.ctx.goes_by(Behaviour.OUTPUTS_SAY_ENOUGH)

    @property
    def _reads_in_order(self) -> bool:
        return self.setting.ctx.goes_by(Behaviour.EVIDENCE_READ_IN_ORDER)

    @cached_property
    def tests(self) -> TestResult | None:
        """What the test commands said, together; None where there are none, or one has said nothing."""
        said = self.state.quality.tests
        if not said or any(not each["result"] for each in said):
            return None
        results = [TestResult.model_validate(each["result"]) for each in said]
        return TestResult(
            passed=sum(each.passed for each in results),
            failed=sum(each.failed for each in results),
            errors=tuple(failure for each in results for failure in each.errors),
        )

    @cached_property
    def rubric(self) -> Rubric:
        """The rubric, with no minimum below the decision's threshold of that name: what will be missed is a defect."""
        limits = {str(each.name): each.effective_minimum for each in self.spec.thresholds}
        lifted = tuple(
            each.model_copy(update={"minimum": max(each.minimum, limits.get(each.name, 0.0))})
            for each in self.rules.rubric.dimensions
        )
        return self.rules.rubric.model_copy(update={"dimensions": lifted})

    @cached_property
    def critique_input(self) -> CritiqueInput:
        """All that a critic is given: neither plan nor reasoning nor intermediate results of the run."""
        return self.input_for(self.outputs)

    @cached_property
    def samples(self) -> frozenset[str]:
        """The outputs of which one was chosen: what they say twice, or each otherwise, is no fault of that one."""
        wanted = self.rules.consistency
        if wanted is None or not self.state.quality.consistency:
            return frozenset()
        return frozenset(wanted.samples) - {wanted.into}

    @property
    def _untrusted_inputs(self) -> tuple[str, ...]:
        names = self.spec.untrusted_inputs
        return with_dotted(names) if self.setting.ctx.goes_by(Behaviour.STRICT_CALLS) else names

    def input_for(self, outputs: JsonObject) -> CritiqueInput:
        """The same for other outputs."""
        request = self.setting.compiled.request
        return CritiqueInput(
            task=CritiqueTask(
                description=self.spec.description or (request.intent if request else self.spec.id),
                input=self.setting.compiled.input(),
                untrusted_inputs=self._untrusted_inputs,
                required_outputs=tuple(
                    each for each in self.spec.required_outputs if each not in self.samples
                ),
                required_sections=self.rules.required_sections,
                required_facts=self.rules.required_facts,
                outputs_schema=self.spec.outputs_schema,
            ),
            output={name: value for name, value in outputs.items() if name not in self.samples},
            evidence=self.evidence,
            rubric=self.rubric,
        )

    @property
    def is_open_to_repair(self) -> bool:
        """Whether the run has a repair left, and somebody who may make it."""
        budget = self.setting.ctx.run_budget
        left = self.state.quality.escalation
        may_help = not left or (left["kind"] == Escalation.MODEL_UPGRADE and self.repairers > 1)
        return self.scored.ok and self.state.used.repairs < budget.max_repairs and may_help


# ---- VERIFY -------------------------------------------------------------------------------------------------------


def verify(matter: OutputReview, now: int) -> Inquiry[e.OutputsVerified]:
    """What VERIFY finds: several samples become one, and its schema, claims and facts are looked at."""
    rules = matter.rules
    consistency, chosen = _voted(matter)
    outputs = {**matter.outputs, **chosen}
    if rules.judge == "model":
        verdict = yield from verify_by_model(
            matter.spec, outputs, matter.evidence, settings=rules.verification, judge=matter.judges
        )
    else:
        verdict = verify_output(
            matter.spec, outputs, matter.evidence, settings=rules.verification, judge=matter.judges
        )
    following: Literal["critique", "repair", "exit"] = "critique"
    if not verdict.schema_valid:
        following = "repair" if matter.is_open_to_repair else "exit"
    return e.OutputsVerified(
        at=now, verdict=_dumped(verdict), next=following, consistency=consistency, chosen=chosen
    )


def _voted(matter: OutputReview) -> tuple[JsonObject, JsonObject]:
    """What samples agree on, and the outputs that become of that."""
    wanted, quality = matter.rules.consistency, matter.state.quality
    if wanted is not None and wanted.draws:
        return quality.vote.get("consistency", {}), {}
    agreed, chosen = _agreed(wanted, quality.drafts or matter.outputs)
    if quality.drafts:  # the vote was held: what it chose has been mended since
        chosen = {}
    return _dumped(agreed) if agreed else {}, chosen


def vote_on(matter: OutputReview, event: e.SamplesDrawn) -> e.SamplesDrawn:
    """Drawn samples with what they agree on; nothing where there are not enough of them."""
    agreed = None if event.error else _vote(matter.sampled, event.samples)
    return msgspec.structs.replace(
        event,
        consistency=_dumped(agreed) if agreed else {},
        chosen={matter.sampled.into: agreed.output} if agreed else {},
    )


def _vote(wanted: SelfConsistency, samples: Sequence[Any]) -> Consensus:
    vote = vote_exactly if wanted.method == "exact" else vote_by_similarity
    return vote(samples, minimum=wanted.minimum)


def _agreed(wanted: SelfConsistency | None, outputs: JsonObject) -> tuple[Consensus | None, JsonObject]:
    """What several samples agree on, and the output that it becomes; nothing where they are not all there."""
    if wanted is None:
        return None, {}
    held = [outputs[name] for name in wanted.samples if name in outputs]
    samples = as_list(held[0]) if len(wanted.samples) == 1 and held else held
    if samples is None or len(samples) not in (3, 5, 7) or len(held) < len(wanted.samples):
        return None, {}
    agreed = _vote(wanted, samples)
    return agreed, {wanted.into: agreed.output}


# ---- CRITIQUE -----------------------------------------------------------------------------------------------------


def criticise(matter: OutputReview, now: int) -> Inquiry[e.OutputsCritiqued]:
    """What CRITIQUE finds, how sure that makes, and whether there is something to mend."""
    besides = _besides(matter)
    given = matter.critique_input
    if any(dimension.scorer == "model" for dimension in given.rubric.dimensions):
        diagnosis = yield from critique_by_model(given, besides=besides, judges=matter.judges)
    else:
        diagnosis = critique(given, besides=besides, judges=matter.judges)
    weighed = weigh(given.rubric, diagnosis.scores)
    features = features_of(matter, weighed.weighted)
    sure = estimate(features, _weights(matter.state.quality.drawn))
    control = _steered(matter, diagnosis, weighed.weighted)
    # Another model, or more evidence, may bring what the same repair again does not.
    is_helped = control.get("helper") in _IN_REPAIR
    is_stopped = _stop_reason(control) not in (None, StopReason.REACHED) and not is_helped
    may_mend = matter.is_open_to_repair and bool(diagnosis.defects) and not is_stopped
    ending = decide_exit(matter, diagnosis, weighed, sure.value, can_repair=may_mend)
    return e.OutputsCritiqued(
        at=now,
        diagnosis=_dumped(diagnosis),
        rubric=_dumped(weighed),
        confidence={**_dumped(sure), "features": features},
        exit=_dumped(ending),
        next="repair" if ending.outcome == "CONTINUE_REPAIR" else "exit",
        control=control,
    )


def _besides(matter: OutputReview) -> tuple[Found, ...]:
    """What was found besides the rubric."""
    return (*_failed_tests(matter), *_broken(matter), *_probed(matter, matter.outputs))


def _probed(matter: OutputReview, outputs: JsonObject) -> tuple[Found, ...]:
    asked = matter.rules.critique
    probed = judge_probes(asked.probes, outputs) if asked.enable_adversarial else ()
    # Samples are not held against the rubric, but they are committed with what was chosen of them.
    sampled = {name: outputs[name] for name in sorted(matter.samples & outputs.keys())}
    return (*probed, *find_unsafe(sampled, matter.judges))


def _failed_tests(matter: OutputReview) -> list[Found]:
    """What tests have found, as defects of what they test."""
    found: list[Found] = []
    for command, said in zip(matter.rules.tests, matter.state.quality.tests, strict=False):
        result = TestResult.model_validate(said["result"] or {"passed": 0, "failed": 0})
        why = said["error"] or ("no test ran" if _is_empty(command, result) else "")
        if why:
            defect = _defect_of(f"the tests could not be run: {why}", command.output)
            found.append(Found(defect, "make it something that the tests can run on"))
        found += [Found(_failed(failure, command.output), _hint(failure)) for failure in result.errors]
    return found


def _broken(matter: OutputReview) -> Iterator[Found]:
    """What attacks have brought to light, as defects of what they were made on."""
    for attack, said in zip(matter.rules.attacks, matter.state.quality.attacks, strict=False):
        if said["error"]:
            text = f"not all cases could be tried: {said['error']}"
            yield Found(
                _defect_of(text, attack.output, EDGE_CASES), "make it something that cases can be tried on"
            )
        outcomes = [EdgeOutcome.model_validate(each) for each in said["tried"]]
        yield from judge_attack(outcomes, place=attack.output)[:MOST_BROKEN]


def _is_empty(command: TestCommand, result: TestResult) -> bool:
    """Whether tests that must all pass have shown nothing."""
    return command.level != "regression" and result.passed + result.failed == 0


def _failed(failure: TestFailure, place: str) -> Defect:
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


def features_of(matter: OutputReview, critic: float) -> Features:
    """What confidence is made of; what was not measured is left out."""
    quality = matter.state.quality
    verdict = VerificationVerdict.model_validate(quality.verdict) if quality.verdict else None
    found: Features = {"critic": critic, "repairs": float(matter.state.used.repairs + _taken_out(matter))}
    if verdict is not None:
        found["verify"] = verdict.score
        if verdict.factual is not None:
            found["evidence"] = verdict.factual
    if quality.consistency:
        found["consistency"] = float(quality.consistency["consistency"])
    if (rate := _pass_rate(matter)) is not None:
        found["tests"] = rate
    return found


def _taken_out(matter: OutputReview) -> int:
    """How many claims rules took out: each is a sentence that the letter may have been for, so each counts as a repair."""
    if not matter.says_enough:
        return 0
    entries = map(RepairEntry.model_validate, matter.state.quality.log)
    return sum(entry.success is not False and entry.note.startswith("remove_claim:") for entry in entries)


def _pass_rate(matter: OutputReview) -> float | None:
    return None if matter.tests is None else pass_rate(matter.tests)


def _weights(drawn: Mapping[str, Any]) -> Weights:
    return Weights.model_validate(drawn["weights"]) if drawn.get("weights") else DEFAULT_WEIGHTS


# ---- the exit -----------------------------------------------------------------------------------------------------


def decide_exit(
    matter: OutputReview,
    diagnosis: CritiqueDiagnosis,
    weighed: RubricScore | None,
    confidence: float | None,
    *,
    can_repair: bool,
) -> ExitDecision:
    """Whether the outputs may be committed, with everything that it is decided by."""
    spec, quality = matter.spec, matter.state.quality
    is_confidence_asked = spec.confidence is not None or any(t.name == "confidence" for t in spec.thresholds)
    return exit_decision(
        ExitFacts(
            thresholds=spec.thresholds,
            measured=measured(matter, diagnosis.scores),
            floors_hold=matter.scored.ok,
            objections=tuple(_objections(matter, diagnosis, weighed)),
            bands=spec.confidence,
            confidence=confidence if is_confidence_asked else None,
            can_repair=can_repair,
            is_partial=matter.rules.is_partial_useful and bool(matter.outputs),
            requires_approval=spec.requires_human_approval or is_change_asked_for(matter.state),
            novelty=Novelty.model_validate(found) if (found := quality.drawn.get("novelty")) else None,
        )
    )


def is_change_asked_for(state: State) -> bool:
    """Whether a person has asked for changes of outputs of this run: then nothing is committed that no person has seen
    since, whatever confidence says by now."""
    return any(answer.answer == "modify" and not answer.step for answer in state.answers)


def measured(matter: OutputReview, rubric: Mapping[str, float]) -> dict[str, float]:
    """Every measurement that a threshold may read; what is safe to do and what is safe to say both count as safety."""
    found = {
        **measure(matter.run),
        **{name: score for name, score in rubric.items() if name not in MEASURED_ELSEWHERE},
        **{str(name): each.score for name, each in matter.scored.scorecard.scores.items()},
    }
    if "safety" in rubric:
        found["safety"] = min(found["safety"], rubric["safety"])
    if (rate := _pass_rate(matter)) is not None:
        found["test_pass_rate"] = rate
    if matter.state.quality.consistency:
        found["self_consistency"] = float(matter.state.quality.consistency["consistency"])
    return found


def _objections(
    matter: OutputReview, diagnosis: CritiqueDiagnosis, weighed: RubricScore | None
) -> Iterator[str]:
    """What speaks against a commit, whatever thresholds the decision has."""
    if not matter.state.quality.verdict.get("schema_valid", True):
        yield "the outputs break their schema"
    if weighed is not None and not weighed.passed:
        below = ", ".join(weighed.below)
        sum_up = f"it comes to {weighed.weighted}, below {weighed.threshold}"
        yield f"the rubric is not met: {f'{below} below the minimum' if below else sum_up}"
    if matter.says_enough:
        yield from (f"{name} has a grave defect" for name in _grave(matter, diagnosis, weighed))
    yield from (found.defect.description for found in _besides(matter))


def _grave(matter: OutputReview, diagnosis: CritiqueDiagnosis, weighed: RubricScore | None) -> Iterator[str]:
    """The dimensions that meet their minimum, and have a defect all the same that nothing else makes good."""
    below = weighed.below if weighed else ()
    for name in (each.name for each in matter.rubric.dimensions if each.name not in below):
        if any(one.dimension == name and one.severity >= DefectSeverity.HIGH for one in diagnosis.defects):
            yield name


def final_exit(matter: OutputReview) -> ExitDecision:
    """The exit of outputs that are not mended any more."""
    quality = matter.state.quality
    return decide_exit(
        matter,
        CritiqueDiagnosis.model_validate(quality.diagnosis or {"scores": {}}),
        RubricScore.model_validate(quality.rubric) if quality.rubric else None,
        quality.confidence.get("value"),
        can_repair=False,
    )


# ---- control ------------------------------------------------------------------------------------------------------


def _steered(matter: OutputReview, diagnosis: CritiqueDiagnosis, weighted: float) -> JsonObject:
    """What the controller of this kind of task says to what was measured; nothing where there is none."""
    if matter.setting.control is None:
        return {}
    gain = matter.state.quality.drawn.get("gain")
    spec = matter.setting.control
    spec = GainEstimate.model_validate(gain).applied_to(spec) if gain else spec
    return steering.steer_on(
        spec,
        diagnosis.scores if isinstance(spec.setpoint, dict) else weighted,
        matter.state.quality.control,
        can_repair=matter.is_open_to_repair and bool(diagnosis.defects),
        helpers=_helpers(matter),
    )


_IN_REPAIR: tuple[Helper, ...] = ("switch_model", "retrieve_evidence")


def _helpers(matter: OutputReview) -> tuple[Helper, ...]:
    """Who could help where repairing again does not; a person always can."""
    found: dict[Helper, bool] = {
        "switch_model": matter.repairers > 1,
        "retrieve_evidence": bool(matter.setting.library_snapshot),
        "decompose": _may_replan(matter),
        "ask_human": True,
    }
    return tuple(name for name, is_there in found.items() if is_there)


def _stop_reason(control: Mapping[str, Any]) -> str | None:
    """Why the controller lets nothing more be repaired; None if it does not say so."""
    command: Mapping[str, Any] = control.get("command", {})
    return command["reason"] if command.get("kind") == "stop" else None


# ---- REPAIR -------------------------------------------------------------------------------------------------------


def repair(matter: OutputReview, models: Sequence[str], now: int) -> Inquiry[e.OutputsRepaired]:
    """What REPAIR makes of the outputs, attempt by attempt."""
    case = _case(matter)
    if matter.state.used.repairs >= matter.setting.ctx.run_budget.max_repairs:
        case = replace(case, rules=case.rules.model_copy(update={"max_attempts": 0}))
    fresh = tuple(fact for fact in matter.evidence if fact.id in matter.state.quality.fresh)
    result = yield from mend(
        case, _is_gone(matter), fetch=lambda _: fresh, vote=partial(_vote_on_answers, matter)
    )
    return _repaired(result, models, now)


def _vote_on_answers(matter: OutputReview, answers: Sequence[JsonObject | None]) -> Consensus:
    """What several answers agree on; one that cannot be used agrees with nobody who can."""
    wanted = matter.sampled
    return _vote(wanted, [None if each is None else each.get(wanted.into) for each in answers])


def wants_other_model(state: State) -> bool:
    """Whether the model that repaired before is not the one to ask again."""
    is_upgraded = state.quality.escalation.get("kind") == Escalation.MODEL_UPGRADE
    return is_upgraded or "switch_model" in state.quality.control.get("tried", ())


def _case(matter: OutputReview) -> RepairCase:
    quality, rules = matter.state.quality, matter.rules
    resources = Resources(
        has_model=matter.repairers > 0,
        has_other_model=matter.repairers - wants_other_model(matter.state) > 1,
        has_human=True,
        may_replan=_may_replan(matter),
        is_partial_useful=rules.is_partial_useful,
        can_fetch=quality.has_fetched,
    )
    return RepairCase(
        output=matter.outputs,
        diagnosis=_diagnosis(matter),
        task=matter.critique_input.task.description,
        materials=Materials(
            schema=form_of(matter.spec), evidence=_before(matter), may_begin=not matter.says_enough
        ),
        known=_circumstances(matter),
        rules=_forceful(rules.repair, quality.control),
        rates=SuccessRates.model_validate(quality.drawn.get("rates") or {}),
        resources=resources,
        memory=LoopMemory.model_validate(quality.memory or {}),
        told_later=_told_later(matter),
        draws=(rules.consistency.draws if rules.consistency else None) or 1,
        history=RepairLog(entries=tuple(_history(matter))),
    )


def _history(matter: OutputReview) -> Iterator[RepairEntry]:
    """What was tried before. What a model could not do, another one may, and so may the same one with more evidence."""
    quality = matter.state.quality
    is_afresh = wants_other_model(matter.state) or bool(quality.fresh)
    for entry in map(RepairEntry.model_validate, quality.log):
        if entry.means == "rule" or not is_afresh:
            yield entry


def _before(matter: OutputReview) -> tuple[Evidence, ...]:
    """What was known before more was looked for; the rest comes in when a repair asks for it."""
    return tuple(fact for fact in matter.evidence if fact.id not in matter.state.quality.fresh)


def _diagnosis(matter: OutputReview) -> CritiqueDiagnosis:
    """What is to be mended: a broken form by itself, else what the critic has found; and what a person has asked for."""
    quality = matter.state.quality
    form = diagnose_form(form_of(matter.spec), matter.outputs)
    found = form if form.defects else CritiqueDiagnosis.model_validate(quality.diagnosis or {"scores": {}})
    return with_feedback(found, quality.feedback) if quality.feedback else found


def _circumstances(matter: OutputReview) -> Circumstances:
    tests = matter.tests
    traces = (
        analyse(failure.stack_trace, expected=failure.expected, actual=failure.actual)
        for failure in (tests.errors if tests else ())
    )
    failed = {
        entry.call.tool
        for entry in matter.run.transcript
        if entry.result.outcome is not Outcome.DONE or entry.result.error is not None
    }
    return Circumstances(
        is_schema_valid=bool(matter.state.quality.verdict.get("schema_valid", True)),
        tests=tests,
        traces=tuple(trace for trace in traces if trace is not None),
        failed_tools=tuple(sorted(failed)),
        has_evidence=bool(matter.evidence),
    )


def _may_replan(matter: OutputReview) -> bool:
    budget, state = matter.setting.ctx.run_budget, matter.state
    return state.plan_origin == "planner" and state.used.replans < budget.max_replans


def _forceful(rules: RepairRules, control: Mapping[str, Any]) -> RepairRules:
    """The rules with the force that the controller asks for: what is too gentle is left out for models."""
    strategy = control.get("command", {}).get("strategy")
    if strategy == "SECTION_REWRITE":
        return rules.model_copy(update={"edit_up_to": DefectSeverity.NONE})
    if strategy == "FULL_REGENERATION":
        return rules.model_copy(
            update={"edit_up_to": DefectSeverity.NONE, "rewrite_up_to": DefectSeverity.NONE}
        )
    return rules


def _told_later(matter: OutputReview) -> frozenset[str]:
    """The dimensions of which only a model, a test or a person can tell whether a defect is gone."""
    asked = {each.name for each in matter.rules.rubric.dimensions if each.scorer == "model"}
    tried = {EDGE_CASES} if matter.rules.attacks else set[str]()
    return frozenset(asked | tried | {TESTS, FEEDBACK})


def _is_gone(matter: OutputReview) -> IsGone:
    """Whether a defect is gone: by the schema, or by the rubric. What only a model, a test or a person can tell counts as
    gone if its place has changed: VERIFY and CRITIQUE look at it again."""
    form = form_of(matter.spec)
    told = _told_later(matter)
    rubric = _without(matter.rubric, told)

    def diagnose(outputs: JsonObject) -> CritiqueDiagnosis:
        probed = _probed(matter, outputs)
        if rubric is None:
            return CritiqueDiagnosis(scores={}, defects=tuple(found.defect for found in probed))
        given = matter.input_for(outputs).model_copy(update={"rubric": rubric})
        return critique(given, besides=probed, judges=matter.judges)

    by_rubric = gone_by(diagnose)

    def is_gone(outputs: JsonObject, defect: Defect) -> bool:
        if defect.dimension == SCHEMA:
            return is_form_mended(form, outputs, defect)
        if defect.dimension in told:
            return outputs != matter.outputs
        return by_rubric(outputs, defect)

    return is_gone


def _without(rubric: Rubric, names: Collection[str]) -> Rubric | None:
    """A rubric without some of its dimensions, in which the others count as much beside each other as before."""
    left = [each for each in rubric.dimensions if each.name not in names]
    if len(left) in (0, len(rubric.dimensions)):
        return rubric if left else None
    total = sum(each.weight for each in left)
    weights = [each.weight / total if total else 1 / len(left) for each in left]
    return Rubric(
        dimensions=tuple(
            each.model_copy(update={"weight": weight}) for each, weight in zip(left, weights, strict=True)
        ),
        threshold=rubric.threshold,
    )


def _repaired(result: RepairResult, models: Sequence[str], now: int) -> e.OutputsRepaired:
    return e.OutputsRepaired(
        at=now,
        outputs=result.output,
        log=tuple(map(_dumped, result.log.entries)),
        outcome=result.outcome,
        escalation=_dumped(result.escalation) if result.escalation else {},
        memory=_dumped(result.memory),
        breaks=tuple(map(str, result.breaks)),
        attempts=result.attempts,
        tokens=result.tokens,
        models=tuple(models),
        consistency=_dumped(result.consensus) if result.consensus else {},
    )


def _dumped(shape: Any) -> JsonObject:
    return shape.model_dump(mode="json")
