"""`tercet run`: a request, from its plan to its record. Every step of the way is in the journal."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from tercet.cli.amounts import read_duration
from tercet.cli.carrying import carry
from tercet.cli.documents import demand_filled, load_pack, read_input, read_plan
from tercet.cli.exit_code import ExitCode
from tercet.cli.journals import DEFAULT, JournalUrl
from tercet.cli.options import (
    AsJson,
    Intent,
    PackFolder,
    RequestInput,
    SafetyMode,
    SnapshotName,
    flag,
    option,
)
from tercet.cli.people import ActAs, Dev, acting_as, demand_local
from tercet.cli.stores import StoreUrl
from tercet.cli.telemetry import SampleRate, TelemetryWords, settings_of
from tercet.contracts.request import Request
from tercet.contracts.runs.trace_context import read_traceparent
from tercet.engine.models.planners import PlannerName
from tercet.observe.settings import DEFAULT_RATE

EXAMPLES = """\
tercet run examples/refunds --intent support.refund --input '{"order_id": "ord_881", "window_id": "rw_881"}'  # waits at a gate: exit 4
tercet run examples/refunds --plan examples/refunds/plans/plan_a.json  # refused: exit 3
tercet run examples/refunds --plan examples/refunds/plans/plan_b.json --input '{"order_id": "ord_881"}' --shadow
tercet run examples/refunds --input '{"order_id": "ord_881", "window_id": "rw_881"}' --dev --as agt_support  # one person tries all of it: exit 4
"""

Planner: TypeAlias = Annotated[
    PlannerName | None,
    option(
        "PLANNER",
        "Who plans, one of template, htn, model and local: by default the pack's template for the intent, else its methods, else its models.",
    ),
]
Models: TypeAlias = Annotated[
    list[str] | None,
    option(
        "MODEL",
        "The language model that plans, such as openai:gpt-5 or local; given again, the one that is asked when the first does not answer. By default the pack's.",
    ),
]


def run(
    pack: PackFolder,
    *,
    intent: Intent = None,
    input_: RequestInput = None,
    plan: Annotated[
        str | None,
        option(
            "PLAN", "A plan's JSON file, or - for stdin: by default the one that the pack's planner proposes."
        ),
    ] = None,
    planner: Planner = None,
    model: Models = None,
    snapshot: SnapshotName = None,
    safety_mode: SafetyMode = None,
    shadow: Annotated[
        bool, flag("Only rehearse: the plan is reviewed and recorded, and nothing is called.", "--shadow")
    ] = False,
    request_key: Annotated[
        str | None,
        option(
            "KEY",
            "Idempotency key of this request, for each actor and pack: sent again with the same key, the request continues the session that it started; another request with the same key is refused.",
        ),
    ] = None,
    ttl: Annotated[
        str | None,
        option(
            "DURATION",
            "How long the session may live, waiting included, such as 90d, 12h or 30m: by default as long as the pack says.",
        ),
    ] = None,
    traceparent: Annotated[
        str,
        option(
            "HEADER",
            "The traceparent of whoever asks, in the form of W3C: the run becomes part of that trace.",
            show_default=False,
        ),
    ] = "",
    telemetry: TelemetryWords = None,
    sample: SampleRate = DEFAULT_RATE,
    store: StoreUrl = "",
    as_: ActAs = "",
    dev: Dev = False,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Carry a request out, from its plan to a judged result. The critic reviews the plan before its tools are called,
    and what came of them after.

    Every step is in the journal before and after it happens, so a run that stops, for whatever reason, is resumed where
    it was with `tercet sessions resume`. A call that needs an approval opens a gate; the run then ends with exit 4,
    waiting, until somebody answers with `tercet gates`. Ctrl-C and SIGTERM pause the run; a second one ends the process
    at once.

    Exits with 0 if the run completed, 3 if the critic refused its plan, 4 if it waits at a gate or was paused, and 5 if
    it failed, was escalated, rejected, cancelled or expired, or if the journal could not go on.
    """
    demand_local(journal, is_dev=dev)
    observed = settings_of(telemetry, sample)
    caller = str(read_traceparent(traceparent)) if traceparent else ""
    ttl_ms = None if ttl is None else read_duration(ttl)
    loaded = load_pack(pack)
    given = None if plan is None else read_plan(plan)
    if plan is not None and given is not None:
        demand_filled(given, plan, "run")
    asked = intent or (given.intent if given else None)
    spec = loaded.decision_for(asked)
    actor = acting_as(loaded, as_, is_dev=dev)
    request = Request(
        intent=asked or (*spec.intents, spec.id)[0], input=read_input(input_), request_key=request_key
    )
    has_template = any(each.intent == request.intent for each in loaded.templates)
    is_filled = given is None and has_template and not model and planner in (None, "template")
    return carry(
        loaded,
        pack,
        journal,
        lambda runtime: runtime.run(
            request,
            plan=given,
            planner=planner,
            models=tuple(model or ()),
            safety_mode=safety_mode,
            snapshot=snapshot,
            actor=actor,
            ttl_ms=ttl_ms,
            shadow=shadow,
            traceparent=caller,
            dev=dev,
            folder=str(pack),
        ),
        store=store,
        telemetry=observed,
        as_json=as_json,
        is_new=True,
        evidence=[fact.id for fact in loaded.evidence] if is_filled else (),
    )
