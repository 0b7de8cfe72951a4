"""How much a review costs, as ratios: against parsing the same plan, against a longer plan, and at import.

Candidates alternate inside each round of one run, so that a noisy machine is noisy for all of them. Every plan that is
verified was parsed afresh and is verified once; the compiled context is shared, as it is within a run. In *different*, each
plan has its own ids and literals, and its own request. Process CPU time is measured rather than wall time: other processes
disturb it far less.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
from typing import Any

import orjson

from tercet.contracts.context import (
    CompiledContext,
    EvidenceManifestEntry,
    Manifests,
    RunContext,
    ToolManifestEntry,
)
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate, Policy
from tercet.contracts.mode import ApprovalMode, Reversibility, Trust
from tercet.contracts.plan import Compensation
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.request import Request
from tercet.contracts.runs.budget import RunBudget
from tercet.contracts.tool import Limit, ToolSpec
from tercet.critic.verify import verify

from .measurement import Target, cpu_seconds, show_targets

ROUNDS = 15
REVIEWS = 200
"""How many short plans are parsed and verified in a round."""
SHORT, LONG = 12, 1_000

LIMITS = {
    "verify 12 / parse 12": (2.0, 1.5),
    "verify 12 / parse 12, different": (2.0, 1.5),
    "verify 1000 / verify 12": (120.0, None),
    "import tercet / import pydantic": (3.0, None),
}
"""For each ratio, the most it may be, and where there is one, what we aim at."""

UNWANTED = (
    "openai",
    "anthropic",
    "pydantic_ai",
    "httpx",
    "requests",
    "fastapi",
    "uvicorn",
    "aiohttp",
    "sqlite3",
    "asyncpg",
    "sqlalchemy",
    "mcp",
    "temporalio",
)


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT, WHOLE = {"type": "string"}, {"type": "integer", "minimum": 0}
WINDOW = "kg:refund_window:rw_1#snapshot_s1"

LOOKUP = ToolSpec(
    name="orders.lookup",
    mode=ApprovalMode.READ_ONLY,
    parameters=_object(order_id=TEXT),
    result=_object(order_id=TEXT, total=WHOLE, note=TEXT),
    untrusted=("note",),
    establishes=("order_known",),
    estimated_ms=20,
)
RESERVE = ToolSpec(
    name="stock.reserve",
    mode=ApprovalMode.LOCAL_WRITE,
    reversibility=Reversibility.REVERSIBLE,
    parameters=_object(order_id=TEXT, slot=TEXT, amount=WHOLE),
    result=_object(reservation=TEXT),
    authority=("order_id", "amount"),
    identity=("order_id", "slot"),
    compensate=Compensation(tool="stock.release", params={"reservation": {"$from": "self#/reservation"}}),
    preconditions=("order_known",),
    limits=(Limit(expression="args.slot != ''"),),
    estimated_ms=30,
)
RELEASE = ToolSpec(
    name="stock.release",
    mode=ApprovalMode.LOCAL_WRITE,
    parameters=_object(reservation=TEXT),
    no_compensation="releasing twice is harmless",
)
REFUND = ToolSpec(
    name="payments.refund",
    mode=ApprovalMode.DESTRUCTIVE,
    reversibility=Reversibility.COMPENSABLE,
    parameters=_object(payment_id=TEXT, amount=WHOLE),
    result=_object(refund_id=TEXT, amount=WHOLE),
    gates=("GATE_FINANCE",),
    authority=("payment_id", "amount"),
    no_compensation="a refund is reclaimed by hand",
    requires_evidence=("refund_window_evidence",),
    limits=(Limit(expression="args.amount > 0 && args.amount <= 100000"),),
    estimated_ms=200,
)

POLICIES = (
    Policy(name="gated", expression="plan.steps.all(s, s.mode != 'destructive' || size(s.gates) > 0)"),
    Policy(name="one refund", expression="plan.steps.filter(s, s.tool == 'payments.refund').size() <= 1"),
    Policy(name="nothing delegated", expression="step.mode != 'delegated'", scope="step"),
    Policy(name="grounded", expression="step.mode != 'destructive' || size(step.evidence) > 0", scope="step"),
    Policy(name="has outputs", expression="size(plan.outputs) > 0 && context.safety_mode != 'delegated'"),
)

CONTEXT = RunContext(
    safety_mode=ApprovalMode.DESTRUCTIVE,
    run_budget=RunBudget(
        max_steps=LONG,
        bucket_tokens=10**6,
        tokens=10**6,
        tool_calls=2 * LONG,  # a step that can be compensated reserves the call that does it
        cost_microcents=10**9,
        wall_clock_ms=10**7,
        max_parallel=LONG,
    ),
)
SPEC = DecisionSpec(
    id="support.refund",
    required_outputs=("amount", "reference"),
    required_evidence=("refund_window_evidence",),
    conditions=("open_case",),
)
EVIDENCE = Evidence(
    id=WINDOW,
    trust=Trust.TRUSTED,
    content={"payment_id": "pay_1", "refundable": 500, "orders": [f"ord_{number}" for number in range(50)]},
)
COMPILED = CompiledContext(
    manifests=Manifests(
        tool_manifest=tuple(ToolManifestEntry.of(tool) for tool in (LOOKUP, RESERVE, RELEASE, REFUND)),
        evidence_manifest=(EvidenceManifestEntry.of(EVIDENCE),),
    ),
    request=Request(intent="support.refund", input={"order_id": "ord_1"}),
    gates=(Gate(name="GATE_FINANCE", roles=("finance_lead",)),),
    policies=POLICIES,
    decisions=(SPEC,),
)


def document(size: int, variant: int = 0) -> bytes:
    """A plan of look-ups, reservations by reference, and one gated refund at the end; another one for each variant."""
    name = f"s{variant}_" if variant else "s"
    steps: list[dict[str, Any]] = []
    for number in range(size - 1):
        if number % 2 == 0:
            steps.append(
                {
                    "id": f"{name}{number}",
                    "tool": "orders.lookup",
                    "params": {"order_id": f"ord_{(number + variant) % 50}"},
                    "evidence_refs": [WINDOW],
                    "estimated_tokens": 40,
                }
            )
        else:
            before = f"{name}{number - 1}"
            params = {
                "order_id": {"$from": f"{before}#/order_id"},
                "slot": f"slot_{variant}_{number}",
                "amount": {"$from": f"{before}#/total"},
            }
            steps.append(
                {
                    "id": f"{name}{number}",
                    "tool": "stock.reserve",
                    "params": params,
                    "depends_on": [before],
                    "approval_mode": "local_write",
                    "estimated_tokens": 60,
                }
            )
    last = {
        "id": f"{name}{size - 1}",
        "tool": "payments.refund",
        "params": {"payment_id": {"$evidence": f"{WINDOW}#/payment_id"}, "amount": 500},
        "depends_on": [f"{name}{size - 2}"],
        "approval_mode": "destructive",
        "requires": ["GATE_FINANCE"],
        "requires_evidence": ["refund_window_evidence"],
        "evidence_refs": [WINDOW],
    }
    outputs = {
        "amount": {"$from": f"{last['id']}#/amount"},
        "reference": {"$from": f"{last['id']}#/refund_id"},
    }
    checkpoints = [{"decision_id": "support.refund", "after_step": last["id"]}]
    return orjson.dumps(
        {
            "plan_id": f"plan_bench_{variant}",
            "intent": "support.refund",
            "steps": [*steps, last],
            "outputs": outputs,
            "decision_checkpoints": checkpoints,
        }
    )


def context(variant: int) -> CompiledContext:
    """The same context for another request."""
    return COMPILED.answering(Request(intent="support.refund", input={"order_id": f"ord_{variant % 50}"}))


def _review(plan: Any, compiled: CompiledContext = COMPILED) -> None:
    verdict = verify(CONTEXT, compiled, SPEC, plan)
    assert verdict.ok, verdict.reasons


def reviews(rounds: int, count: int) -> dict[str, list[float]]:
    """The ratios of parsing and verifying, one of each for every round."""
    short, long = document(SHORT), document(LONG)
    different = [document(SHORT, variant) for variant in range(1, count + 1)]
    ratios: dict[str, list[float]] = {
        "verify 12 / parse 12": [],
        "verify 12 / parse 12, different": [],
        "verify 1000 / verify 12": [],
    }
    _review(load_plan(short))
    _review(load_plan(long))
    gc.disable()
    try:
        for _ in range(rounds):
            plans, long_plans = [load_plan(short) for _ in range(count)], [load_plan(long) for _ in range(3)]
            parsing = cpu_seconds(lambda: [load_plan(short) for _ in range(count)]) / count
            brief = cpu_seconds(lambda plans=plans: [_review(plan) for plan in plans]) / count
            others = [(load_plan(text), context(number)) for number, text in enumerate(different, 1)]
            parsing_others = cpu_seconds(lambda: [load_plan(text) for text in different]) / count
            reviewing = cpu_seconds(lambda others=others: [_review(*other) for other in others]) / count
            lengthy = cpu_seconds(lambda plans=long_plans: [_review(plan) for plan in plans]) / 3
            ratios["verify 12 / parse 12"].append(brief / parsing)
            ratios["verify 12 / parse 12, different"].append(reviewing / parsing_others)
            ratios["verify 1000 / verify 12"].append(lengthy / brief)
            gc.collect()
    finally:
        gc.enable()
    return ratios


def imports(ours: str, theirs: str, rounds: int) -> list[float]:
    """The ratios of two import statements in fresh processes, start-up of the interpreter excluded."""
    program = "import time; t = time.process_time(); {0}; print(time.process_time() - t)"
    ratios: list[float] = []
    for _ in range(rounds):
        spent, compared = (float(_python(program.format(statement))) for statement in (ours, theirs))
        ratios.append(spent / compared)
    return ratios


def _python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def run(*, is_smoke: bool = False) -> list[str]:
    """Print one table; return the ratios that are over their limit at the median, and unwanted imports."""
    rounds = 1 if is_smoke else ROUNDS
    measured = {
        **reviews(rounds, 5 if is_smoke else REVIEWS),
        "import tercet / import pydantic": imports("import tercet", "import pydantic", rounds),
        # Both packages import their names when they are first asked for: this is what asking costs.
        "verify, Pack / BaseModel": imports(
            "from tercet import verify, Pack", "from pydantic import BaseModel", rounds
        ),
    }
    print(f"{'ratio':34}{'min':>8}{'median':>8}{'max':>8}{'aim':>7}")
    for name, ratios in measured.items():
        _, aim = LIMITS.get(name, (None, None))
        median = statistics.median(ratios)
        print(f"{name:34}{min(ratios):8.2f}{median:8.2f}{max(ratios):8.2f}{aim or '':>7}")
    missed = show_targets(
        Target(name=name, found=statistics.median(measured[name]), most=limit)
        for name, (limit, _) in LIMITS.items()
    )
    pulled = _python(f"import sys, tercet; print(*[m for m in {UNWANTED!r} if m in sys.modules])").split()
    print(f"model, web or database libraries imported: {', '.join(pulled) or 'none'}")
    return missed + [f"import tercet also imports {name}" for name in pulled]
