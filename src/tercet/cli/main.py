"""The `tercet` command: the table of its subcommands, and the reporting of their errors."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from tercet.cli import ExitCode


class Entry(NamedTuple):
    """Where a command is defined: its module in this package, its function and its examples."""

    module: str
    function: str
    examples: str
    summary: str = ""
    """The first sentence of its help, so that the list of commands needs no import; not needed in groups."""

    def load(self) -> tuple[Any, str]:
        """Import the command; return its function and its examples."""
        module = import_module(f"tercet.cli.{self.module}")
        return getattr(module, self.function), getattr(module, self.examples)


class LazyCommand(TyperCommand):
    """A command that is imported when it is called: importing all of them takes longer than a small command."""

    def __init__(self, words: str, entry: Entry) -> None:
        super().__init__(name=words.rpartition(" ")[2])
        self._entry = entry

    @cached_property
    def real(self) -> Any:
        """The imported command with its options."""
        function, examples = self._entry.load()
        home = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
        home.command(self.name, epilog=f"Examples:\n\n\b\n{examples}")(function)
        return get_command(home)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the imported command, so that it is the one to be invoked."""
        return self.real.make_context(info_name, args, parent, **extra)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the description for the list of commands."""
        return self._entry.summary or self.real.get_short_help_str(limit)


def leave(code: int) -> NoReturn:
    """Exit, even if a tool that did not return still has a thread."""
    own = threading.current_thread()
    if all(thread is own or thread.daemon for thread in threading.enumerate()):
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code)


class Commands(TyperGroup):
    """The top level of `tercet`, which reports the errors of all commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = {**_commands_of(""), **self.commands}

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - the parser's own signature
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002 - the parser's own signature
        **extra: Any,
    ) -> Any:
        """Run a command and exit with its code."""
        words = expand_shortcut(sys.argv[1:] if args is None else list(args))
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
        except Exception as error:  # noqa: BLE001 - the last place that can turn it into a message
            code = _report_error(error, words)
        if standalone_mode:
            sys.exit(int(code or 0))
        return code

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command with this name; raise `UsageError` with the nearest names if there is none."""
        _require_known(self, args, "")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Print the list of commands, then the shortcuts."""
        super().format_commands(ctx, formatter)
        with formatter.section("Shortcuts"):
            formatter.write_dl([(name, f"tercet {' '.join(words)}") for name, words in SHORTCUTS.items()])


def _report_error(error: Exception, words: Sequence[str]) -> ExitCode:
    # Imported late, like the commands: it needs the error types of many packages.
    from tercet.cli.failure import describe_failure, report, wants_json  # noqa: PLC0415

    failure = describe_failure(error)
    report(failure, as_json=wants_json(words))
    return failure.exit_code


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


COMMANDS: dict[str, Entry] = {
    "demo": Entry(
        "demo.command", "demo", "EXAMPLES", "Run the refund demo: refusal, approval, crash, one payment."
    ),
    "plan": Entry("run.plan", "plan", "EXAMPLES", "Propose a plan for a request and review it."),
    "verify": Entry("run.verify", "verify", "EXAMPLES", "Review a plan: may it run, and if not, why not?"),
    "run": Entry(
        "run.run", "run", "RUN_EXAMPLES", "Run a request: plan it, review the plan, call its tools."
    ),
    "serve": Entry(
        "serve.serve", "serve", "SERVE_EXAMPLES", "Serve packs over HTTP, and run their sessions."
    ),
    "worker": Entry("serve.serve", "worker", "WORKER_EXAMPLES", "Run sessions without serving an API."),
    "call": Entry(
        "serve.call", "call", "EXAMPLES", "Call a method of a service, and print its result as JSON."
    ),
    "api-keys create": Entry("serve.api_keys", "create", "CREATE_EXAMPLES"),
    "api-keys list": Entry("serve.api_keys", "list_keys", "LIST_EXAMPLES"),
    "api-keys revoke": Entry("serve.api_keys", "revoke", "REVOKE_EXAMPLES"),
    "report": Entry("replay.report", "report", "EXAMPLES", "Write a report of a run as one HTML page."),
    "sessions list": Entry("sessions.sessions", "list_sessions", "LIST_EXAMPLES"),
    "sessions show": Entry("sessions.sessions", "show", "SHOW_EXAMPLES"),
    "sessions watch": Entry("sessions.sessions", "watch", "WATCH_EXAMPLES"),
    "sessions resume": Entry("run.run", "resume", "RESUME_EXAMPLES"),
    "sessions pause": Entry("sessions.operations", "pause", "PAUSE_EXAMPLES"),
    "sessions cancel": Entry("sessions.operations", "cancel", "CANCEL_EXAMPLES"),
    "sessions extend": Entry("sessions.operations", "extend", "EXTEND_EXAMPLES"),
    "sessions migrate": Entry("run.run", "migrate", "MIGRATE_EXAMPLES"),
    "sessions settle": Entry("sessions.operations", "settle", "SETTLE_EXAMPLES"),
    "sessions prune": Entry("sessions.operations", "prune", "PRUNE_EXAMPLES"),
    "sessions sweep": Entry("sessions.operations", "sweep", "SWEEP_EXAMPLES"),
    "gates list": Entry("sessions.gates", "list_gates", "LIST_EXAMPLES"),
    "gates show": Entry("sessions.gates", "show", "SHOW_EXAMPLES"),
    "gates approve": Entry("sessions.approvals", "approve", "APPROVE_EXAMPLES"),
    "gates deny": Entry("sessions.approvals", "deny", "DENY_EXAMPLES"),
    "gates modify": Entry("sessions.approvals", "modify", "MODIFY_EXAMPLES"),
    "gates withdraw": Entry("sessions.approvals", "withdraw", "WITHDRAW_EXAMPLES"),
    "gates settle": Entry("sessions.approvals", "settle", "SETTLE_EXAMPLES"),
    "gates decide": Entry("sessions.approvals", "decide", "DECIDE_EXAMPLES"),
    "stop tool": Entry("sessions.stops", "stop_tool", "TOOL_EXAMPLES"),
    "stop pack": Entry("sessions.stops", "stop_pack", "PACK_EXAMPLES"),
    "stop tenant": Entry("sessions.stops", "stop_tenant", "TENANT_EXAMPLES"),
    "stop list": Entry("sessions.stops", "list_stops", "LIST_EXAMPLES"),
    "stop lift": Entry("sessions.stops", "lift", "LIFT_EXAMPLES"),
    "journal check": Entry("journal.check", "check", "CHECK_EXAMPLES"),
    "journal accept": Entry("journal.check", "accept", "ACCEPT_EXAMPLES"),
    "replay": Entry(
        "replay.replay", "replay", "EXAMPLES", "Replay recorded runs offline, and compare every verdict."
    ),
    "golden add": Entry("replay.golden", "add", "ADD_EXAMPLES"),
    "golden check": Entry("replay.golden", "check", "CHECK_EXAMPLES"),
    "provenance": Entry(
        "replay.provenance", "provenance", "EXAMPLES", "Show where the results of a run came from."
    ),
    "export": Entry("replay.bundles", "export", "EXPORT_EXAMPLES", "Export a run into one file, a bundle."),
    "verify-bundle": Entry(
        "replay.bundles",
        "verify_file",
        "VERIFY_EXAMPLES",
        "Check that a bundle is intact, and who signed it.",
    ),
    "signing-keys new": Entry("replay.bundles", "new", "NEW_EXAMPLES"),
    "signing-keys list": Entry("replay.bundles", "list_keys", "LIST_EXAMPLES"),
    "signing-keys show": Entry("replay.bundles", "show", "SHOW_EXAMPLES"),
    "feedback add": Entry("replay.feedback", "add", "ADD_EXAMPLES"),
    "feedback list": Entry("replay.feedback", "list_feedback", "LIST_EXAMPLES"),
    "feedback insights": Entry("replay.feedback", "insights", "INSIGHTS_EXAMPLES"),
    "feedback golden": Entry("replay.feedback", "golden", "GOLDEN_EXAMPLES"),
    "tune search": Entry("replay.tune", "search", "SEARCH_EXAMPLES"),
    "tune show": Entry("replay.tune", "show", "SHOW_EXAMPLES"),
    "tune accept": Entry("replay.tune", "accept", "ACCEPT_EXAMPLES"),
    "context": Entry(
        "packs.context", "context", "EXAMPLES", "Show what a run may see, what is left out, and why."
    ),
    "evidence add": Entry("evidence.evidence", "add", "ADD_EXAMPLES"),
    "evidence snapshot": Entry("evidence.evidence", "snapshot", "SNAPSHOT_EXAMPLES"),
    "evidence list": Entry("evidence.search", "list_snapshots", "LIST_EXAMPLES"),
    "evidence diff": Entry("evidence.search", "diff", "DIFF_EXAMPLES"),
    "evidence show": Entry("evidence.search", "show", "SHOW_EXAMPLES"),
    "evidence search": Entry("evidence.search", "search", "SEARCH_EXAMPLES"),
    "tools list": Entry("packs.tools", "list_tools", "LIST_EXAMPLES"),
    "tools pin": Entry("packs.tools", "pin", "PIN_EXAMPLES"),
    "tools diff": Entry("packs.tools", "diff", "DIFF_EXAMPLES"),
    "stats": Entry("journal.stats", "stats", "EXAMPLES", "Show statistics of the runs in a journal."),
    "control": Entry(
        "quality.control", "control", "EXAMPLES", "Predict how the quality loop of each task class converges."
    ),
    "calibrate": Entry(
        "quality.calibrate", "calibrate", "EXAMPLES", "Fit the weights of confidence to recorded outcomes."
    ),
    "check": Entry(
        "packs.authoring",
        "check",
        "CHECK_EXAMPLES",
        "Report every problem of a pack, with file, place and remedy.",
    ),
    "init": Entry("packs.authoring", "init", "INIT_EXAMPLES", "Create a small pack that works."),
    "schema": Entry(
        "packs.authoring",
        "schema",
        "SCHEMA_EXAMPLES",
        "Print the JSON Schema of a public type, or list the types.",
    ),
}
"""Every command. A function that returns no exit code exits with 0."""

GROUPS = {
    "sessions": "List, show, follow, steer and resume sessions.",
    "gates": "List, show and answer gates: approvals and decisions.",
    "journal": "Check a whole journal, or accept lost commits.",
    "evidence": "Add facts, freeze them in snapshots, search them.",
    "tools": "List the tools of a pack, and pin MCP tools.",
    "api-keys": "Create, list and revoke the keys of the service.",
    "signing-keys": "Manage the keys that sign bundles.",
    "golden": "Keep chosen runs, and replay them after every change.",
    "feedback": "Record corrections of results, and group them.",
    "tune": "Search better values for a pack: tercet tune PACK. The pack says what may be tuned, and a person accepts it.",
    "stop": "Stop tools, packs or everything at once, and lift stops.",
}


USUAL = {"tune": "search"}
"""The default command of a group: `tercet tune PACK` is `tercet tune search PACK`."""


SHORTCUTS: dict[str, tuple[str, ...]] = {
    "list": ("sessions", "list"),
    "status": ("sessions", "list"),
    "show": ("sessions", "show"),
    "logs": ("sessions", "watch", "--no-follow"),
    "resume": ("sessions", "resume"),
    "cancel": ("sessions", "cancel"),
    "approve": ("gates", "approve"),
    "deny": ("gates", "deny"),
}
"""Short names of commands. `status` with an id is `show`."""

SYNONYMS = {
    "start": "run",
    "execute": "run",
    "ls": "sessions list",
    "ps": "sessions list",
    "log": "sessions watch",
    "tail": "sessions watch",
    "describe": "sessions show",
    "kill": "sessions cancel",
    "abort": "sessions cancel",
    "reject": "gates deny",
    "validate": "verify",
    "lint": "check",
    "new": "init",
    "create": "init",
}
"""Names that other tools use, and the commands that are suggested for them."""


def expand_shortcut(words: list[str]) -> list[str]:
    """Return a command line with its shortcut replaced by the command."""
    if not words or words[0] not in SHORTCUTS:
        return words
    has_id = any(not word.startswith("-") for word in words[1:2])
    name = "show" if words[0] == "status" and has_id else words[0]
    return [*SHORTCUTS[name], *words[1:]]


def _require_known(group: Any, args: list[str], home: str) -> None:
    """Raise `UsageError` for a command that does not exist, with the nearest that do."""
    if not args or args[0] in group.commands or args[0].startswith("-"):
        return
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    from tercet.contracts.errors import UsageError  # noqa: PLC0415 - only for a mistake

    word = args[0]
    own = [words for words in COMMANDS if words.startswith(home)]
    by_name = {words.rpartition(" ")[2]: words for words in (*COMMANDS, *own)} | SYNONYMS
    by_name |= {} if home else {name: name for name in (*GROUPS, *SHORTCUTS)}
    near = dict.fromkeys(by_name[each] for each in get_close_matches(word, by_name, n=3, cutoff=0.6))
    path = f"tercet {home}".strip()
    remedy = f"did you mean {', '.join(f'tercet {each}' for each in near)}?" if near else ""
    raise UsageError(
        f"unknown command '{path} {word}'",
        code="usage",
        remedy=f"{remedy} {path} --help lists the commands".strip(),
    )


class Group(TyperGroup):
    """A group of commands, one of which may be the default."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _commands_of(self.name or "")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the name of the default command if none is given."""
        usual = USUAL.get(self.name or "")
        is_named = not args or args[0] in self.commands or args[0] == "--help"
        return super().parse_args(ctx, args if usual is None or is_named else [usual, *args])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command with this name; raise `UsageError` with the nearest names if there is none."""
        _require_known(self, args, self.name or "")
        return super().resolve_command(ctx, args)


def _ask_for_a_command(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(ExitCode.WRONG_USE)


def _commands_of(group: str) -> dict[str, Any]:
    """Return the commands of a group by name; for an empty group, those outside of groups."""
    split = {words: words.rpartition(" ") for words in COMMANDS}
    return {
        name: LazyCommand(words, COMMANDS[words]) for words, (home, _, name) in split.items() if home == group
    }


def _register_groups() -> None:
    for name, text in GROUPS.items():
        group = typer.Typer(cls=Group, help=text, rich_markup_mode=None, add_completion=False)
        group.callback(invoke_without_command=True, help=text)(_ask_for_a_command)
        app.add_typer(group, name=name)


_register_groups()


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
