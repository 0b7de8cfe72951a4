"""`tercet plan`: proposing a plan for a request and reviewing it. No tool is called."""

from __future__ import annotations

from typing import Annotated

import typer

from tercet.cli import ExitCode
from tercet.cli.evidence.stores import StoreUrl
from tercet.cli.inputs import load_pack, read_input
from tercet.cli.options import AsJson, Intent, PackFolder, RequestInput, SafetyMode, SnapshotName, flag
from tercet.cli.run.case_view import applied_rules, rules_json, show_rules, show_warnings
from tercet.cli.run.plan_view import dot, show_proposal
from tercet.cli.run.proposal import propose
from tercet.cli.run.run import Models, Planner
from tercet.cli.screen import Screen, print_json
from tercet.contracts.errors import UsageError

EXAMPLES = """\
tercet plan examples/runbook --intent ops.recover --input '{"service": "cart"}'
tercet plan examples/refunds --input '{"order_id": "ord_881", "window_id": "rw_881"}' --planner template
tercet plan examples/runbook --input '{"service": "cart"}' --json | jq .plan > plan.json
tercet plan examples/runbook --input '{"service": "cart"}' --dot | dot -Tsvg > plan.svg
"""


def plan(
    pack: PackFolder,
    *,
    intent: Intent = None,
    input_: RequestInput = None,
    planner: Planner = None,
    model: Models = None,
    snapshot: SnapshotName = None,
    safety_mode: SafetyMode = None,
    as_dot: Annotated[
        bool, flag("Print the plan as a graph in the DOT language, and nothing else.", "--dot")
    ] = False,
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> ExitCode:
    """Propose a plan for a request and review it. No session is started, and no tool is called.

    A language model is asked once, and its cost is shown; unlike in a run, it is not asked again if the critic refuses
    its plan. Evidence that the plan asks for is searched as in a run; look-ups by a tool are listed as deferred.

    The steps are listed in an order in which they could run, with their dependencies and their slack; the critical path
    is marked. Below are the number of possible orders, the preconditions that steps meet for each other, and the
    verdict. Then come the rules of the pack: the steps that each gate, policy, limit, evidence requirement and relation
    applied to, or why it did not apply. A step that cannot be undone and may run before another one is denied is
    reported as a warning.

    With --json the plan is printed in its published shape under `plan`; `tercet run --plan` accepts it from a file.

    Exits with 0 if the plan may run, with 3 if the critic refuses it, with 2 if there is no plan, and with 5 if no model
    answers.
    """
    if as_json and as_dot:
        raise UsageError("--json and --dot exclude each other", code="usage", remedy="leave one of them out")
    found = propose(
        load_pack(pack),
        intent=intent,
        request_input=read_input(input_),
        snapshot=snapshot,
        safety_mode=safety_mode,
        planner=planner or "",
        models=tuple(model or ()),
        store=store,
    )
    if as_json:
        print_json({**found.as_json(), **rules_json(applied_rules(found.case))})
    elif as_dot:
        typer.echo(dot(found))
    else:
        screen, report = Screen(), applied_rules(found.case)
        show_proposal(screen, found)
        show_warnings(screen, report)
        show_rules(screen, report)
    return ExitCode.ACCEPTED if found.case.verdict.ok else ExitCode.REFUSED
