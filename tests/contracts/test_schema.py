"""JSON Schema for every public type, tried on samples of every public type."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import Any, cast, get_args

import jsonschema_rs
import pytest
from pydantic import BaseModel

from tercet.contracts import buckets, context, control, decision, documents, evidence, gate, loop
from tercet.contracts import lane as lanes
from tercet.contracts import plan as plans
from tercet.contracts import request as requests
from tercet.contracts import verdict as verdicts
from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode, Reversibility, Trust
from tercet.contracts.outputs import exit as exits
from tercet.contracts.outputs import quality, repair, rubric
from tercet.contracts.packs.schema import PUBLIC_TYPES, json_schema
from tercet.contracts.policy import Policy
from tercet.contracts.problem import Problem
from tercet.contracts.runs import budget, invocation, record, run, saga
from tercet.contracts.runs import session as sessions
from tercet.contracts.runs.scorecard import Evaluation, EvaluatorName, Finding, Scorecard
from tercet.contracts.shape import TYPE_VERSION, as_list, as_object
from tercet.contracts.tasks import TaskLibrary
from tercet.contracts.tool import Limit, OncePer, ToolSpec, ToolTerms

NOW = datetime(2026, 5, 9, 9, 30, tzinfo=UTC)
MOMENT = "2026-05-09T09:30:00Z"
REF = "kg:order:o1#snapshot_k1"

UNDO = plans.Compensation(tool="x.undo", params={"id": {"$from": "self#/id"}})
PLAN = plans.Plan(
    plan_id="p",
    intent="i",
    steps=(
        plans.Step(
            id="a",
            tool="x.y",
            params={"amount": {"$from": "request#/amount"}},
            approval_mode=ApprovalMode.DESTRUCTIVE,
            gates=("G",),
            evidence_queries=(plans.EvidenceQuery(classification="order", query="q"),),
            reversibility=Reversibility.COMPENSABLE,
            compensate=UNDO,
            when="request.ok",
        ),
    ),
    outputs={"total": {"$cel": "a.n + 1"}},
    decision_checkpoints=(plans.DecisionCheckpoint(decision_id="d", after_step="a"),),
)
FACT = evidence.Evidence(id=REF, content={"n": 1}, trust=Trust.TRUSTED, expires_at=NOW)
TOOL = ToolSpec(
    name="x.y",
    mode=ApprovalMode.DESTRUCTIVE,
    compensate=UNDO,
    limits=(Limit(expression="args.n < 5"),),
    once_per=OncePer(identity=("n",), days=30),
    untrusted=("a",),
)
REQUEST = requests.Request(intent="i", input={"amount": 5})
SPEC = decision.DecisionSpec(
    id="d",
    thresholds=(decision.Threshold(name="safety", minimum=0.5),),
    confidence=decision.ConfidenceBands(),
)
COMPILED = context.CompiledContext(
    manifests=context.Manifests(
        tool_manifest=(context.ToolManifestEntry.of(TOOL),),
        evidence_manifest=(context.EvidenceManifestEntry.of(FACT),),
    ),
    request=REQUEST,
    gates=(gate.Gate(name="G", roles=("finance",)),),
    policies=(Policy(name="p", expression="true"),),
    decisions=(SPEC,),
    results=(context.KnownResult(step_id="a", tool="x.y", value=[1, None], trust=Trust.UNTRUSTED),),
    entered=(context.EnteredResult(step_id="a", by="ada", trust=Trust.UNTRUSTED),),
    changed=(context.ChangedValue(step_id="a", tool="t.x", place="/n", value=1, by="ada"),),
    approved_plan=PLAN,
    safety_mode=ApprovalMode.NETWORK,
    ledger=(context.LedgerEntry(kind="tool", name="x.y", admitted=True, reason="permitted"),),
    truncation=(
        buckets.TruncationEntry(
            bucket="tools", limit=5, needed=9, used=4, admitted=1, left_out=("x.z",), left_out_count=1
        ),
    ),
)
FRAME = context.RunContext(started_at=NOW, earlier=(context.EarlierCall(step=PLAN.steps[0], place=0),))
APPROVAL = gate.Approval(gate="G", step_id="a", approver="u", decision="approve", decided_at=NOW)
ENTRY = run.TranscriptEntry(
    call=run.ToolCall(step_id="a", tool="x.y", started_at=NOW),
    result=run.ToolResult(step_id="a", outcome=run.Outcome.DONE, value={"n": 1}),
)
REFUSAL = verdicts.Refusal(
    code=verdicts.Code.UNBOUND_ARGUMENT,
    reason="r",
    remedy="m",
    sources=(verdicts.Origin(parameter="/amount", came_from="literal", trust=Trust.UNTRUSTED),),
)
VERDICT = verdicts.Verdict(
    stage="review",
    outcome="reject",
    reasons=("r",),
    kind=verdicts.RefusalKind.LOOP_GUARD,
    refusals=(REFUSAL,),
    gates=(gate.GateDemand(step=0, step_id="a", gate="G", reason="r"),),
    effects=(
        verdicts.StepEffect(
            step_id="a", mode=ApprovalMode.LOCAL_WRITE, reversibility=Reversibility.COMPENSABLE
        ),
    ),
)
CARD = Scorecard(
    scores={
        name: Evaluation(status="warn", score=0.5, findings=(Finding(code="c", message="m"),), version="1")
        for name in get_args(EvaluatorName)
    }
)
REPORT = verdicts.CriticReport(
    trace_id="t",
    decision_key="d",
    verify=verdicts.VerifyPassed(reasons=("fine",)),
    score=verdicts.ScoreVerdict(ok=True, scorecard=CARD),
    status="completed",
    rationale="r",
    decided_at=MOMENT,
)
DEFECT = quality.Defect(dimension="coherence", severity=quality.DefectSeverity.HIGH, description="d")
LOG = quality.RepairLog(
    entries=(
        quality.RepairEntry(
            defect=DEFECT,
            strategy="MINIMAL_EDIT",
            root_cause=quality.RootCauseClass.LOGIC_ERROR,
            success=None,
        ),
    )
)
PROVENANCE = record.Provenance(task_id="t", plan_hash=PLAN.hash, repair_history=LOG, timestamp=NOW)
AUDIT = record.AuditRecord(all_tool_traces=(ENTRY,), all_repair_logs=(LOG,))

SAMPLES: list[BaseModel] = [
    invocation.Backoff(),
    sessions.LoopCheckpoint(
        checkpoint_id="sha256:0",
        loop_id="r",
        k=1,
        phase="ACT",
        plan_id="p",
        plan_state={"a": "done"},
        completed_actions=("a",),
        pending_actions=(),
        next_step=None,
        outputs_so_far={},
        used=budget.BudgetUse(),
        token_consumption=0,
        tool_transcript=(),
        evidence_refs=(),
        step_scores=(),
        timestamp=MOMENT,
    ),
    sessions.TenantSessionRules(ttl_ms=1),
    ToolTerms(compensate=UNDO, untrusted=("a",)),
    requests.InvokeRequest(request=REQUEST),
    evidence.Citation(evidence=REF, content_hash=FACT.hash, document="a.md", chunk=1, start=0, end=9),
    gate.ApprovalRequest(
        output={},
        provenance={},
        quality_scores={"a": 1.0},
        confidence=None,
        risk_assessment="low",
        recommended_action="approve",
    ),
    run.Run(
        context=FRAME,
        spec=SPEC,
        compiled=COMPILED,
        plan=PLAN,
        transcript=(ENTRY,),
        skipped=(run.SkippedStep(step_id="b", reason="not_reached"),),
        approvals=(APPROVAL,),
    ),
    verdicts.VerifyRefused(kind=verdicts.RefusalKind.LOOP_GUARD, reasons=("r",), offending_step=0),
    verdicts.VerdictEnvelope(
        run_id="r",
        plan_id="p",
        verdict="accept",
        step_scores=(verdicts.StepScore(step_id="a", scores={"policy": 1.0}),),
    ),
    verdicts.ValidationResult(
        valid=False, issues=(verdicts.ValidationIssue(severity="ERROR", code="c", message="m"),)
    ),
    record.PhaseCost(cost_microcents=3),
    record.CheckpointLink(k=0, position=0, phase="PLAN", status="in_progress", summary="sha256:0"),
    record.AgentResult(output={"n": 1}, provenance=PROVENANCE, audit=AUDIT, content_hash="sha256:0"),
    record.FailureReport(reason="r"),
    record.HaltRecord(reason="r", checkpoint="c", halted_at=NOW),
    record.DecisionRecord(
        decision_id="d",
        trace_id="t",
        plan_hash=PLAN.hash,
        approvals=(APPROVAL,),
        verdicts=(VERDICT,),
        report=REPORT,
        memory_proposals=(record.MemoryProposal(classification="order", content=None),),
        run_verdict=verdicts.VerdictEnvelope(run_id="r", plan_id="p", verdict="accept", step_scores=()),
        decisions=(record.TakenDecision(decision_id="d", after_step="a", outcome="accept", decided_at=NOW),),
        delivery=record.Delivery(outputs_digest="sha256:0", accepted_by=("u",), delivered=("s1",)),
    ),
    record.FeedbackEntry(record_hash="sha256:0", report=REPORT, author="u", correction="c", given_at=NOW),
    record.ReplayDiff(recorded=REPORT, replayed=REPORT),
    sessions.BackgroundSession(
        session_id="s",
        tenant_id="t",
        pack_pin="p@1.0.0",
        snapshot_pin="k1",
        intent="i",
        started_at=MOMENT,
        heartbeat=sessions.Heartbeat(interval_ms=1, ttl_ms=2, last_seen=MOMENT),
        status="paused",
        checkpoints=(
            sessions.SessionCheckpoint(
                checkpoint_id="c", after_step="a", critic_verdict="ok", saved_at=MOMENT
            ),
        ),
        owner_actor="u",
    ),
    sessions.ProgressEnvelope(
        session_id="s",
        progress_id="p",
        emitted_at=MOMENT,
        current_step=None,
        completed_step_count=0,
        total_step_count=1,
        budget_remaining=budget.BudgetRemaining(tokens=1, tool_calls=1, cost_cents=0.5, wall_clock_ms=1),
        awaiting_gate="G",
    ),
    record.TakenDecision(decision_id="d", after_step="s1", outcome="accept", decided_at=NOW),
    sessions.TenantSessionRules(ttl_ms=1),
    sessions.SessionRules(retention_days=90, tenants={"t": sessions.TenantSessionRules(ttl_ms=1)}),
    sessions.RoleLimit(timeout_ms=20_000),
    gate.Notify(command=("notify-send", "a gate waits")),
    gate.HandOff(
        plan={}, transcript=({},), verdicts=(), reason="r", budget_remaining={}, options=("abandon",)
    ),
    loop.VerificationVerdict(
        passed=True,
        schema_valid=True,
        score=1.0,
        schema_faults=(quality.SchemaFault(pointer="/a", keyword="type", message="m"),),
        tokens=(
            documents.TokenVerdict(
                location="/a#char=0,1",
                token=documents.TextToken(start=0, end=1, text="5", kind="number", value="5"),
                status="unknown",
            ),
        ),
        missing=(documents.MissingPart(kind="value", name="n", message="m"),),
        unjudged=(documents.UnjudgedText(location="/a", reason="free"),),
        judgements=(quality.TextJudgement(location="/a", says="unsure"),),
    ),
    documents.ReadText(
        pointer="/a",
        text="5",
        pieces=(documents.TextPiece(start=0, end=1, source="free"),),
        faults=(documents.SlotFault(start=0, end=1, code="unknown_slot", message="m"),),
    ),
    documents.DocumentValue.model_validate({"name": "n", "from": "order#/n"}),
    documents.Document(output="letter", template="{{ n }}"),
    documents.KnownValue(pointer="request#/n", columns=(documents.TableColumn(name="n"),)),
    exits.JudgeRecord(passed=2, refused=1),
    quality.Consensus(
        output=1, index=0, consistency=1.0, mean_similarity=1.0, method="exact", verdict="PASS"
    ),
    quality.RubricScore(weighted=0.5, threshold=0.8, passed=False, below=("a",)),
    rubric.CritiqueInput(task=rubric.CritiqueTask(description="d"), output={"a": 1}, evidence=(FACT,)),
    rubric.VerificationSettings(),
    rubric.CritiqueSettings(),
    rubric.EdgeOutcome(case=rubric.EdgeCase(input={"n": 0}), error="e"),
    rubric.Probe(name="p", kind="leakage", text="t", canary="C-77"),
    quality.TestResult(passed=1, failed=1, errors=(quality.TestFailure(name="t"),)),
    quality.TestReport(passed=1, failed=0, skipped=1, passed_tests=("t",)),
    quality.StackTraceAnalysis(failing_function="f", line_number=1, error_type="E"),
    quality.CritiqueDiagnosis(
        scores={"coherence": 0.5}, defects=(DEFECT,), repair_hints=(quality.RepairHint(defect=0, hint="h"),)
    ),
    repair.RepairRules(sections=(repair.SectionTemplate(heading="Returns", text="{{ days }} days"),)),
    repair.SuccessRates(
        tallies=(
            repair.RepairTally(
                means="rule", strategy="MINIMAL_EDIT", root_cause=quality.RootCauseClass.HALLUCINATION
            ),
        )
    ),
    repair.RepairResult(
        outcome="escalated",
        output={"n": 1},
        log=LOG,
        escalation=repair.EscalationVerdict(
            kind=repair.Escalation.HUMAN_REVIEW,
            reason="r",
            left=(
                repair.LeftDefect(
                    defect=DEFECT, root_cause=quality.RootCauseClass.LOGIC_ERROR, tried=1, reason="r"
                ),
            ),
        ),
        memory=repair.LoopMemory(impressions=(repair.Impression(output="sha256:0"),)),
    ),
    exits.Weights(bias=1.0, weights={"verify": 3.0}, centers={"verify": 0.7}),
    exits.Confidence(value=0.9, parts={"bias": 1.0}, missing=("tests",)),
    exits.OutcomeRow(features={"verify": 0.9}, is_correct=True),
    exits.Novelty(distance=0.2, limit=0.5, nearest="run_1"),
    exits.ExitDecision(
        outcome="COMMIT",
        reason="r",
        thresholds=(exits.ThresholdResult(name="schema", score=None, limit=1.0, passed=False),),
        triggers=(exits.HumanTrigger.NOVEL,),
    ),
    saga.RollbackResult(
        success=False,
        log=(
            saga.RollbackEntry(
                step_id="a", status=saga.RollbackStatus.COMPENSATION_FAILED, compensating=UNDO
            ),
        ),
        requires_manual_intervention=True,
    ),
    Problem(code="c", message="m"),
    buckets.ContextRules(tokens=buckets.TokenLimits(tools=100)),
    buckets.BucketUse(bucket="tools", used=4, limit=None),
    control.ControlSpec(setpoint={"correct": 0.9, "safe": 1.0}),
    control.ControlState(iteration=1, integral=0.4, last_error=0.4, cost=1.4),
    control.RepairCommand(intensity=0.4, strategy="SECTION_REWRITE", cost=1.4, error=0.4, worst="safe"),
    control.StopCommand(reason=control.StopReason.STALLED, error=0.4),
    control.ControlPrediction(
        start_error=0.4,
        kp=1.4,
        kp_bound=4.0,
        character="monotone",
        end=control.StopReason.COST,
        iterations=0,
        cost=0.0,
        errors=(0.4,),
        floor=control.NoiseFloor(mean_square=0.01, best_quality=0.9, is_above_epsilon=False),
        options=(control.CostOption(kind="relax_epsilon", epsilon=0.2, iterations=1, cost=1.0),),
    ),
    control.RepairObservation(
        task_class="letter", run="ses_1", iteration=0, intensity=0.4, before=0.5, after=0.7
    ),
    control.GainEstimate(sample=8, gain=0.5, low=0.4, high=0.6, sigma=0.02),
    TaskLibrary.model_validate(
        {
            "facts": [{"name": "load", "type": "integer", "value": {"$from": "request#/load"}}],
            "tasks": [{"name": "do"}, {"name": "act", "tool": "x.act"}],
            "methods": [{"name": "m", "task": "do", "cost": "state.load", "subtasks": [{"task": "act"}]}],
            "goals": [{"intent": "work", "task": "do"}],
        }
    ),
    lanes.Lane(name="research", intent="research", tools=("look.up",)),
    lanes.LaneFrame(name="research", tools=("look.up",)),
    lanes.LaneEnvelope(
        lane="research",
        session_id="ses_1",
        status="completed",
        verdict="accept",
        outputs={"price": 5},
        proposals=(lanes.LaneProposal(id="a", tool="buy.it", params={"n": 1}),),
        used=lanes.LaneUse(tool_calls=1),
    ),
]


def models_in(value: Any) -> Iterator[BaseModel]:
    """A contract and every contract inside of it."""
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from models_in(getattr(value, name))
    else:
        members = list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else as_list(value)
        for member in members or (as_object(value) or {}).values():
            yield from models_in(member)


BY_TYPE: dict[str, BaseModel] = {
    type(found).__name__: found for sample in SAMPLES for found in models_in(sample)
}


def test_there_is_a_sample_of_every_public_type() -> None:
    """A type that is added needs a sample here, so that its schema is tried."""
    enumerations = {
        name for name, kind in PUBLIC_TYPES.items() if isinstance(kind, type) and issubclass(kind, Enum)
    }
    assert set(BY_TYPE) | enumerations | {"VerifyVerdict"} == set(PUBLIC_TYPES)


@pytest.mark.parametrize("name", PUBLIC_TYPES)
def test_every_schema_is_a_json_schema(name: str) -> None:
    """Each schema compiles, names its type and version, and says what the type is."""
    schema = json_schema(name)
    jsonschema_rs.meta.validate(schema)
    jsonschema_rs.validator_for(schema)
    assert schema["$id"] == f"urn:tercet:schema:{name}:{TYPE_VERSION}"


@pytest.mark.parametrize("name", BY_TYPE)
def test_a_printed_contract_fits_its_schema(name: str) -> None:
    """What a type prints is what its schema describes, and loads again as the same value."""
    sample = BY_TYPE[name]
    jsonschema_rs.validator_for(json_schema(name)).validate(sample.model_dump(mode="json"))
    assert type(sample).model_validate_json(sample.model_dump_json()) == sample


@pytest.mark.parametrize(
    "name", [name for name, sample in BY_TYPE.items() if sample.model_config.get("extra") == "forbid"]
)
def test_a_schema_refuses_what_its_type_refuses(name: str) -> None:
    """An unknown field in something that a planner or a person writes breaks the schema as well."""
    document = BY_TYPE[name].model_dump(mode="json")
    assert not jsonschema_rs.validator_for(json_schema(name)).is_valid({**document, "mispelt": 1})


def test_the_schema_of_a_plan_is_fit_for_a_planner() -> None:
    """A planner is told what the fields mean, and a plan with a wrong type breaks the schema."""
    schema = json_schema("Plan")
    step = schema["$defs"]["Step"]["properties"]
    assert all("description" in step[name] for name in ("id", "kind", "tool", "params", "depends_on", "when"))
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"steps": [{"id": "a", "tool": "x.y"}]})
    steps: list[dict[str, Any]] = [{}, {"id": "a", "kind": "act"}, {"id": "a", "optional": "yes"}]
    assert not any(validator.is_valid({"steps": [step]}) for step in steps)
    assert not validator.is_valid({})


def test_an_unknown_type_is_answered_with_all_names() -> None:
    """An unknown type is answered with all known names."""
    with pytest.raises(UsageError, match="unknown public type 'Pln'") as caught:
        json_schema("Pln")
    assert caught.value.code == "unknown_type"
    assert caught.value.remedy is not None
    assert all(name in caught.value.remedy for name in PUBLIC_TYPES)
