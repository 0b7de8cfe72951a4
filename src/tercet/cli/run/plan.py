"""`tercet plan`: propose a plan for a request and review it. Nothing is called."""

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
    """Propose a plan for a request and review it. There is no session, and nothing is run.

    A language model is asked once: what that took is shown, and a plan that the critic refuses is not planned again, as
    it would be in a run. Evidence that the plan asks for is searched as in a run; look-ups by a tool are not made, and are
    listed as deferred.

    The steps are shown in an order in which they could run, each with what it waits for and how long it may wait itself;
    a mark shows the critical path, which is the least time that the plan takes. Below stand the number of orders in
    which the steps could run one by one, which step brings about what another one presupposes, and the verdict. Then
    follow the rules of the pack: which steps each gate, policy, limit, requirement of evidence and relation applied to,
    and why the others did not apply. A step that cannot be undone and may run before another one is denied is marked
    with a warning.

    With --json the plan is printed in its published shape under `plan`: saved to a file, `tercet run --plan` takes it.

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
