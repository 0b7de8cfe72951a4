"""The command line: its commands, and the one place where a failure becomes a message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from tercet.cli import (
    answers,
    bundles,
    calibrate,
    carrying,
    check,
    context,
    control,
    evidence,
    evidence_view,
    feedback,
    gates,
    golden,
    init,
    orders,
    plan,
    provenance,
    replay,
    schema,
    sessions,
    signing_keys,
    stats,
    stops,
    tools,
    tune,
    verify,
)
from tercet.cli import report as reporting
from tercet.cli import run as running
from tercet.cli.demo import command as demo
from tercet.cli.exit_code import ExitCode
from tercet.cli.failure import report, understand, wants_json
from tercet.cli.foreground import leave


class Commands(TyperGroup):
    """The commands of `tercet`. Whatever a command raises ends here."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - the parser's own signature
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002 - the parser's own signature
        **extra: Any,
    ) -> Any:
        """Runs a command and exits with its code."""
        words = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(
                words,
                prog_name=prog_name or "tercet",
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except (KeyboardInterrupt, typer.Abort):
            code = ExitCode.INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the last one who can turn it into a message
            failure = understand(error)
            report(failure, as_json=wants_json(words))
            code = failure.exit_code
        if standalone_mode:
            sys.exit(int(code or 0))
        return code


# Plain help: what it prints is what docs/cli.md shows, on any terminal.
app = typer.Typer(
    name="tercet",
    cls=Commands,
    help="Tercet: an agent runtime that can say no.",
    epilog="Exit codes: 0 accepted, 2 wrong use, 3 refused by the critic, 4 waiting or paused, 5 failed, escalated, rejected, expired or cancelled.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


COMMANDS: dict[str, tuple[Callable[..., ExitCode], str]] = {
    "demo": (demo.demo, demo.EXAMPLES),
    "plan": (plan.plan, plan.EXAMPLES),
    "verify": (verify.verify, verify.EXAMPLES),
    "run": (running.run, running.EXAMPLES),
    "report": (reporting.report, reporting.EXAMPLES),
    "sessions list": (sessions.list_sessions, sessions.LIST_EXAMPLES),
    "sessions show": (sessions.show, sessions.SHOW_EXAMPLES),
    "sessions watch": (sessions.watch, sessions.WATCH_EXAMPLES),
    "sessions resume": (carrying.resume, carrying.RESUME_EXAMPLES),
    "sessions pause": (orders.pause, orders.PAUSE_EXAMPLES),
    "sessions cancel": (orders.cancel, orders.CANCEL_EXAMPLES),
    "sessions extend": (orders.extend, orders.EXTEND_EXAMPLES),
    "sessions migrate": (carrying.migrate, carrying.MIGRATE_EXAMPLES),
    "sessions settle": (orders.settle, orders.SETTLE_EXAMPLES),
    "sessions prune": (orders.prune, orders.PRUNE_EXAMPLES),
    "sessions sweep": (orders.sweep, orders.SWEEP_EXAMPLES),
    "gates list": (gates.list_gates, gates.LIST_EXAMPLES),
    "gates show": (gates.show, gates.SHOW_EXAMPLES),
    "gates approve": (answers.approve, answers.APPROVE_EXAMPLES),
    "gates deny": (answers.deny, answers.DENY_EXAMPLES),
    "gates modify": (answers.modify, answers.MODIFY_EXAMPLES),
    "gates withdraw": (answers.withdraw, answers.WITHDRAW_EXAMPLES),
    "gates settle": (answers.settle, answers.SETTLE_EXAMPLES),
    "gates decide": (answers.decide, answers.DECIDE_EXAMPLES),
    "stop tool": (stops.stop_tool, stops.TOOL_EXAMPLES),
    "stop pack": (stops.stop_pack, stops.PACK_EXAMPLES),
    "stop tenant": (stops.stop_tenant, stops.TENANT_EXAMPLES),
    "stop list": (stops.list_stops, stops.LIST_EXAMPLES),
    "stop lift": (stops.lift, stops.LIFT_EXAMPLES),
    "replay": (replay.replay, replay.EXAMPLES),
    "golden add": (golden.add, golden.ADD_EXAMPLES),
    "golden check": (golden.check, golden.CHECK_EXAMPLES),
    "provenance": (provenance.provenance, provenance.EXAMPLES),
    "export": (bundles.export, bundles.EXPORT_EXAMPLES),
    "verify-bundle": (bundles.verify_file, bundles.VERIFY_EXAMPLES),
    "signing-keys new": (signing_keys.new, signing_keys.NEW_EXAMPLES),
    "signing-keys list": (signing_keys.list_keys, signing_keys.LIST_EXAMPLES),
    "signing-keys show": (signing_keys.show, signing_keys.SHOW_EXAMPLES),
    "feedback add": (feedback.add, feedback.ADD_EXAMPLES),
    "feedback list": (feedback.list_feedback, feedback.LIST_EXAMPLES),
    "feedback insights": (feedback.insights, feedback.INSIGHTS_EXAMPLES),
    "feedback golden": (feedback.golden, feedback.GOLDEN_EXAMPLES),
    "tune search": (tune.search, tune.SEARCH_EXAMPLES),
    "tune show": (tune.show, tune.SHOW_EXAMPLES),
    "tune accept": (tune.accept, tune.ACCEPT_EXAMPLES),
    "context": (context.context, context.EXAMPLES),
    "evidence add": (evidence.add, evidence.ADD_EXAMPLES),
    "evidence snapshot": (evidence.snapshot, evidence.SNAPSHOT_EXAMPLES),
    "evidence list": (evidence_view.list_snapshots, evidence_view.LIST_EXAMPLES),
    "evidence diff": (evidence_view.diff, evidence_view.DIFF_EXAMPLES),
    "evidence show": (evidence_view.show, evidence_view.SHOW_EXAMPLES),
    "evidence search": (evidence_view.search, evidence_view.SEARCH_EXAMPLES),
    "tools list": (tools.list_tools, tools.LIST_EXAMPLES),
    "tools pin": (tools.pin, tools.PIN_EXAMPLES),
    "tools diff": (tools.diff, tools.DIFF_EXAMPLES),
    "stats": (stats.stats, stats.EXAMPLES),
    "control": (control.control, control.EXAMPLES),
    "calibrate": (calibrate.calibrate, calibrate.EXAMPLES),
    "check": (check.check, check.EXAMPLES),
    "init": (init.init, init.EXAMPLES),
    "schema": (schema.schema, schema.EXAMPLES),
}
"""Every command with the examples in its help."""

GROUPS = {
    "sessions": "Look at runs, follow them, steer them, and go on with them.",
    "gates": "Look at the questions that runs wait with, and answer them.",
    "evidence": "Bring facts in, freeze them in snapshots, look at them.",
    "tools": "The tools of a pack, and which MCP tools are pinned.",
    "signing-keys": "The keys that bundles are signed with.",
    "golden": "Keep chosen runs, and judge them again after every change.",
    "feedback": "Say what is wrong with results, and see what it comes to.",
    "tune": "Look for better values in a pack: tercet tune PACK. What may be tuned the pack says, and a person applies it.",
    "stop": "Emergency stops: what is stopped is called no more.",
}


USUAL = {"tune": "search"}
"""The command of a group that is meant where none is named: `tercet tune PACK` is `tercet tune search PACK`."""


class Group(TyperGroup):
    """A group of commands, of which one may go without its name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in the name that was left out."""
        usual = USUAL.get(self.name or "")
        is_named = not args or args[0] in self.commands or args[0] == "--help"
        return super().parse_args(ctx, args if usual is None or is_named else [usual, *args])


def _ask_for_a_command(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(ExitCode.WRONG_USE)


def _group(name: str, text: str) -> typer.Typer:
    group = typer.Typer(cls=Group, help=text, rich_markup_mode=None, add_completion=False)
    group.callback(invoke_without_command=True, help=text)(_ask_for_a_command)
    app.add_typer(group, name=name)
    return group


def _register() -> None:
    groups: dict[str, typer.Typer] = {}
    for words, (command, examples) in COMMANDS.items():
        group, _, name = words.rpartition(" ")
        if group and group not in groups:
            groups[group] = _group(group, GROUPS[group])
        home = groups[group] if group else app
        home.command(name, epilog=f"Examples:\n\n\b\n{examples}")(command)


_register()


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the signature of an option's callback
    if wanted:
        typer.echo(f"tercet {version('tercet')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    ctx: typer.Context,
    *,
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Tercet: an agent runtime that can say no."""
    del show_version
    _ask_for_a_command(ctx)


def run() -> NoReturn:
    """The entry point of the console script."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # a shell can start a process without them: >&-
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - open until the process ends
    try:
        app()
    except SystemExit as ended:
        leave(ended.code if isinstance(ended.code, int) else ExitCode.BROKEN)
    leave(ExitCode.BROKEN)
