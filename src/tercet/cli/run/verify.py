"""`tercet verify`: reviewing a plan. No tool is called."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack, read_input, read_plan, reject_template
from tercet.cli.journals import StoreUrl
from tercet.cli.options import (
    AsJson,
    Intent,
    PackFolder,
    RequestInput,
    SafetyMode,
    Server,
    SnapshotName,
    argument,
)
from tercet.cli.remote import demand_intent, open_remote, pack_name, refuse_options
from tercet.cli.run.case_view import applied_rules, rules_json, show_case, show_plain_verdict, show_warnings
from tercet.cli.run.review import Case, review_plan
from tercet.cli.screen import Screen, print_json, respond
from tercet.contracts.plan import Plan
from tercet.contracts.verdict import Verdict
from tercet.core.plans import dump_plan

VERIFY_EXAMPLES = """\
tercet verify examples/refunds examples/refunds/plans/plan_b.json
tercet verify examples/refunds examples/refunds/plans/plan_a.json  # refused: exit 3
tercet verify examples/refunds examples/refunds/plans/plan_b.json --json
tercet verify examples/refunds examples/refunds/plans/plan_b.json --input '{"order_id": "ord_882"}'  # another order: exit 3
"""


def verify(
    pack: PackFolder,
    plan: Annotated[str, argument("PLAN", "The plan's JSON file, or - for stdin.")],
    *,
    intent: Intent = None,
    input_: RequestInput = None,
    snapshot: SnapshotName = None,
    safety_mode: SafetyMode = None,
    store: StoreUrl = "",
    server: Server = "",
    as_json: AsJson = False,
) -> ExitCode:
    """Review a plan: may it run, and if not, why not?

    A template is filled from --input first. A plan that may run is shown with every approval that it waits for, or
    may wait for. A step that cannot be undone and may run before another one is denied is reported as a warning.
    With --json, `validation` lists every issue with its severity.

    Exits with 0 if the plan may run and with 3 if the critic refuses it. No tool is called.
    """
    proposed = read_plan(plan)
    if input_ is None or server:
        reject_template(proposed, plan, "plan", pack)
    if server:
        unsendable = {"--snapshot": snapshot, "--safety-mode": safety_mode, "--store": store}
        refuse_options(server, unsendable, "the service reviews it as it would run it")
        request = None
        if input_ is not None:
            request = {"intent": demand_intent(intent or proposed.intent), "input": read_input(input_)}
        return _verify_at(server, pack_name(pack), proposed, request, as_json=as_json)
    loaded = load_pack(pack)
    case = review_plan(
        loaded,
        proposed,
        intent=intent,
        request_input=None if input_ is None else read_input(input_),
        snapshot=snapshot,
        safety_mode=safety_mode,
        store=store,
    )
    if as_json:
        print_json(_review_json(case))
    else:
        screen = Screen()
        show_case(screen, case, name=plan)
        show_warnings(screen, applied_rules(case))
    return ExitCode.ACCEPTED if case.verdict.ok else ExitCode.REFUSED


def _verify_at(url: str, pack: str, plan: Plan, request: dict[str, Any] | None, *, as_json: bool) -> ExitCode:
    """Let the critic of a service review a plan, and show its verdict."""

    async def ask() -> Verdict:
        async with open_remote(url) as journal:
            sent = dump_plan(plan)
            return await journal.client.verify(sent, request=request, pack=pack)

    verdict = asyncio.run(ask())
    return respond(
        lambda: _verdict_json(verdict),
        lambda screen: show_plain_verdict(screen, verdict),
        as_json=as_json,
        code=ExitCode.ACCEPTED if verdict.ok else ExitCode.REFUSED,
    )


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "verify": verdict.published().model_dump(mode="json"),
        "verdict": verdict.model_dump(mode="json"),
    }


def _review_json(case: Case) -> dict[str, Any]:
    waits = [
        {
            "step": wait.step,
            "step_id": wait.step_id,
            "gate": wait.gate or None,
            "certain": wait.is_certain,
            "reason": wait.reason,
        }
        for wait in case.waits
    ]
    return {
        **_verdict_json(case.verdict),
        "validation": case.validation.model_dump(mode="json"),
        "report": case.report.model_dump(mode="json"),
        "warnings": rules_json(applied_rules(case))["warnings"],
        "waits": waits,
    }
