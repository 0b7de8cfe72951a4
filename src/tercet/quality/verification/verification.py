"""Verification of outputs, in three levels: schema, meaning, facts.

A broken schema ends it: the composite score is 0, and the faults go to REPAIR as they are. Otherwise each claim is held
against the evidence (V_sem: what is not contradicted) and against its authoritative part (V_fact: what is borne out).
An output that claims nothing says nothing wrong: both are 1. Whether it says enough is for the rubric.
"""

from __future__ import annotations

from collections.abc import Sequence

from tercet.contracts import pointer
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.mode import Trust
from tercet.contracts.quality import Claim, ClaimVerdict, Entailment, Judgement, SchemaFault
from tercet.contracts.rubric import VerificationSettings
from tercet.contracts.shape import JsonObject
from tercet.policy import schemas
from tercet.quality.grounding.check import GroundingCheck
from tercet.quality.rubric.safety import mask
from tercet.quality.verification.choices import is_listed
from tercet.quality.verification.claims import extract
from tercet.quality.verification.entailment import MakesJudge

MAX_FAULTS = 100


def verify_output(
    spec: DecisionSpec,
    outputs: JsonObject,
    evidence: Sequence[Evidence],
    *,
    settings: VerificationSettings | None = None,
    judge: MakesJudge = GroundingCheck,
) -> VerificationVerdict:
    """What the three levels say about outputs."""
    settings = settings or VerificationSettings()
    faults = find_schema_faults(spec, outputs)
    if faults:
        return refuse(faults, settings)
    claims = extract(outputs)
    trusted = authoritative(evidence)
    whole = judge(evidence)
    sure = whole if len(trusted) == len(evidence) else judge(trusted)
    verdicts = tuple(
        _decide(claim, said, said if sure is whole else sure.judge(claim.text))
        for claim in claims
        for said in (whole.judge(claim.text),)
    )
    return conclude(verdicts, settings, judge=whole.name, schema=spec.outputs_schema)


def find_schema_faults(spec: DecisionSpec, outputs: JsonObject) -> tuple[SchemaFault, ...]:
    """Every way in which outputs break the contract of their decision."""
    found = [
        SchemaFault(
            pointer=pointer.join((name,)), keyword="required", message=f"{name!r} is a required output"
        )
        for name in spec.required_outputs
        if name not in outputs
    ]
    if spec.outputs_text:
        found += [
            SchemaFault(pointer=pointer.join(fault.place), keyword=fault.keyword, message=fault.message)
            for fault in schemas.faults(spec.outputs_text, outputs)
        ]
    return tuple(found[:MAX_FAULTS])


def authoritative(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The evidence that may decide what is true: that which is trusted."""
    return tuple(fact for fact in evidence if fact.trust is Trust.TRUSTED)


def refuse(faults: tuple[SchemaFault, ...], settings: VerificationSettings) -> VerificationVerdict:
    """The verdict on outputs that break their schema."""
    return VerificationVerdict(
        passed=False,
        schema_valid=False,
        score=0.0,
        failures=tuple(f"{fault.pointer or '/'}: {fault.message}" for fault in faults),
        threshold=settings.threshold,
        schema_faults=faults,
    )


def conclude(
    verdicts: tuple[ClaimVerdict, ...],
    settings: VerificationSettings,
    *,
    judge: str,
    schema: JsonObject | None = None,
) -> VerificationVerdict:
    """The verdict that follows from those on the claims; no source is asked for a choice that the schema lists."""
    semantic = _share(sum(verdict.label is not Entailment.CONTRADICT for verdict in verdicts), len(verdicts))
    stated = [verdict for verdict in verdicts if not _is_idle(verdict, schema)]
    factual = _share(sum(verdict.is_supported for verdict in stated), len(stated))
    score = round(settings.semantic_weight * semantic + settings.factual_weight * factual, 6)
    return VerificationVerdict(
        passed=score >= settings.threshold,
        schema_valid=True,
        semantic=semantic,
        factual=factual,
        score=score,
        failures=tuple(
            f"{verdict.claim.location}: {mask(verdict.reason)}"
            for verdict in verdicts
            if verdict.label is Entailment.CONTRADICT
        ),
        threshold=settings.threshold,
        claims=verdicts,
        judge=judge,
    )


def _is_idle(verdict: ClaimVerdict, schema: JsonObject | None) -> bool:
    return verdict.label is Entailment.NEUTRAL and is_listed(verdict.claim, schema)


def _share(count: int, of: int) -> float:
    return round(count / of, 6) if of else 1.0


def _decide(claim: Claim, said: Judgement, sure: Judgement) -> ClaimVerdict:
    return ClaimVerdict(
        claim=claim,
        label=said.label,
        reason=said.reason,
        support=said.support,
        missing=said.missing,
        is_supported=sure.label is Entailment.ENTAIL,
    )
