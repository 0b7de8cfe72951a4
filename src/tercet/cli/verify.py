"""`tercet verify`: the critic alone. It says what would be refused, and runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tercet.cli.documents import read_input, read_plan
from tercet.cli.exit_code import ExitCode
from tercet.cli.options import AsJson, PackFolder
from tercet.cli.review import Review, review
from tercet.cli.screen import Screen, print_json
from tercet.cli.verdict import show_review
from tercet.contracts.mode import ApprovalMode
from tercet.packs import Pack

EXAMPLES = """\
tercet verify examples/refunds examples/refunds/plans/plan_b.json
tercet verify examples/refunds examples/refunds/plans/plan_a.json  # refused: exit 3
tercet verify examples/refunds examples/refunds/plans/plan_b.json --safety-mode local_write --json  # exit 3
"""


def verify(
    pack: PackFolder,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The plan's JSON file, or - for stdin.")],
    *,
    intent: Annotated[
        str | None, typer.Option(metavar="INTENT", help="What is asked for: by default the plan's intent, else the pack's only decision.")
    ] = None,
    input_: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="The request's input: a JSON object, or @ and the name of a file.")
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(metavar="SNAPSHOT", help="The evidence to judge by: by default the pack's newest snapshot.")
    ] = None,
    safety_mode: Annotated[
        ApprovalMode | None, typer.Option(help="How far the run may go: by default what the pack says, else local_write.")
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Review a plan before anything happens: may it run, and if not, why not?

    Exits with 0 if the plan may run and with 3 if the critic refuses it. Nothing is run.
    """
    reviewed = review(
        Pack.load(pack),
        read_plan(plan),
        intent=intent,
        request_input=read_input(input_),
        snapshot=snapshot,
        safety_mode=safety_mode,
    )
    if as_json:
        print_json(_as_json(reviewed))
    else:
        show_review(Screen(), reviewed, source=plan)
    return ExitCode.ACCEPTED if reviewed.verdict.ok else ExitCode.REFUSED
