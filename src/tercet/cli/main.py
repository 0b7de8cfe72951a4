"""The `tercet` command: the table of its subcommands, and the reporting of their errors."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Sequence
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from tercet.cli import ExitCode


class Entry(NamedTuple):
    """Where a command is defined: its module in this package, and its function."""

    module: str
    function: str
    summary: str = ""
    """The first sentence of its help, so that the list of commands needs no import; not needed in groups."""

    def load(self) -> tuple[Any, str]:
        """Import the command; return its function and its examples."""
        module = import_module(f"tercet.cli.{self.module}")
        if not gc.isenabled():  # it was paused for the imports
            gc.freeze()
            gc.enable()
        return getattr(module, self.function), getattr(module, f"{self.function.upper()}_EXAMPLES")


class LazyCommand(TyperCommand):
    """A command that is imported when it is called: importing all of them takes longer than a small command."""

    def __init__(self, words: str, entry: Entry) -> None:
        super().__init__(name=words.rpartition(" ")[2])
        self._words = words
        self._entry = entry

    @cached_property
    def real(self) -> Any:
        """The imported command with its options."""
        from tercet.cli.server_option import add_server  # noqa: PLC0415 - imported with the command

        function, examples = self._entry.load()
        home = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
        home.command(self.name, epilog=f"Examples:\n\n\b\n{examples}")(add_server(function, self._words))
        return get_command(home)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the imported command, so that it is the one to be invoked."""
        return self.real.make_context(info_name, args, parent, **extra)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the description for the list of commands."""
        return self._entry.summary or self.real.get_short_help_str(limit)


def leave(code: int) -> NoReturn:
    """Exit, even if a tool that did not return still has a thread.

    Temporal's client has threads that are not Python's: one that wants the interpreter while it ends aborts the process.
    """
    own = threading.current_thread()
    if "temporalio" not in sys.modules and all(
        thread is own or thread.daemon for thread in threading.enumerate()
    ):
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
        self.commands = commands_of("")

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
        typed = sys.argv[1:] if args is None else list(args)
        words = expand_shortcut(typed)
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
            code = _report_error(error, words, typed)
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


def _report_error(error: Exception, words: Sequence[str], typed: Sequence[str]) -> ExitCode:
    """Print an error; its remedy names the shortcut that was typed, not the command that it stands for."""
    # Imported late, like the commands: it needs the error types of many packages.
    from tercet.cli.failure import describe_failure, report, wants_json  # noqa: PLC0415

    known = (" ".join(words[:length]) for length in (2, 1))
    command = next((each for each in known if each in COMMANDS), "")
    shortcut = typed[0] if typed[:1] != words[:1] else ""
    try:
        examples = COMMANDS[command].load()[1] if command else ""
    except ImportError:  # then this is the error to report
        examples = ""
    if shortcut:
        examples = examples.replace(f"tercet {command}", f"tercet {shortcut}")
    failure = describe_failure(error, shortcut or command, examples)
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
    "demo": Entry("demo.command", "demo", "Run the refund demo: refusal, approval, crash, one payment."),
    "plan": Entry("run.plan", "plan", "Propose a plan for a request and review it."),
    "verify": Entry("run.verify", "verify", "Review a plan: may it run, and if not, why not?"),
    "run": Entry("run.run", "run", "Run a request: plan it, review the plan, call its tools."),
    "serve": Entry("serve.serve", "serve", "Serve packs over HTTP, and run their sessions."),
    "console": Entry(
        "serve.serve", "console", "Open the console of a journal in a browser, on this machine only."
    ),
    "worker": Entry("serve.serve", "worker", "Run sessions without serving an API."),
    "cluster drain": Entry("serve.temporal", "drain"),
    "call": Entry(
        "serve.administration", "call", "Call a method of a service, and print its result as JSON."
    ),
    "api-keys create": Entry("serve.administration", "create"),
    "api-keys list": Entry("serve.administration", "list_keys"),
    "api-keys revoke": Entry("serve.administration", "revoke"),
    "notifications list": Entry("serve.administration", "list_undelivered"),
    "notifications retry": Entry("serve.administration", "retry"),
    "notifications test": Entry("serve.administration", "try_target"),
    "erase": Entry("sessions.operations", "erase", "Erase the personal values of a subject for good."),
    "report": Entry("replay.report", "report", "Write a report of a run as one HTML page."),
    "sessions list": Entry("sessions.sessions", "list_sessions"),
    "sessions show": Entry("sessions.sessions", "show"),
    "sessions watch": Entry("sessions.sessions", "watch"),
    "sessions resume": Entry("run.run", "resume"),
    "sessions pause": Entry("sessions.operations", "pause"),
    "sessions cancel": Entry("sessions.operations", "cancel"),
    "sessions extend": Entry("sessions.operations", "extend"),
    "sessions migrate": Entry("run.run", "migrate"),
    "sessions settle": Entry("sessions.operations", "settle"),
    "sessions prune": Entry("sessions.operations", "prune"),
    "sessions sweep": Entry("sessions.operations", "sweep"),
    "gates list": Entry("sessions.gates", "list_gates"),
    "gates show": Entry("sessions.gates", "show"),
    "gates approve": Entry("sessions.gates", "approve"),
    "gates deny": Entry("sessions.gates", "deny"),
    "gates modify": Entry("sessions.gates", "modify"),
    "gates withdraw": Entry("sessions.gates", "withdraw"),
    "gates settle": Entry("sessions.gates", "settle"),
    "gates decide": Entry("sessions.gates", "decide"),
    "stop tool": Entry("sessions.stops", "stop_tool"),
    "stop pack": Entry("sessions.stops", "stop_pack"),
    "stop tenant": Entry("sessions.stops", "stop_tenant"),
    "stop list": Entry("sessions.stops", "list_stops"),
    "stop lift": Entry("sessions.stops", "lift"),
    "journal check": Entry("sessions.journal", "check"),
    "journal accept": Entry("sessions.journal", "accept"),
    "replay": Entry("replay.replay", "replay", "Replay recorded runs offline, and compare every verdict."),
    "golden add": Entry("replay.golden", "add"),
    "golden check": Entry("replay.golden", "check"),
    "provenance": Entry("replay.report", "provenance", "Show where the results of a run came from."),
    "export": Entry("replay.bundles", "export", "Export a run into one file, a bundle."),
    "verify-bundle": Entry(
        "replay.bundles", "verify_file", "Check that a bundle is intact, and who signed it."
    ),
    "signing-keys new": Entry("replay.bundles", "new"),
    "signing-keys list": Entry("replay.bundles", "list_keys"),
    "signing-keys show": Entry("replay.bundles", "show"),
    "feedback add": Entry("replay.feedback", "add"),
    "feedback list": Entry("replay.feedback", "list_feedback"),
    "feedback golden": Entry("replay.feedback", "golden"),
    "tune search": Entry("replay.tune", "search"),
    "tune show": Entry("replay.tune", "show"),
    "tune accept": Entry("replay.tune", "accept"),
    "context": Entry("packs.context", "context", "Show what a run may see, what is left out, and why."),
    "evidence add": Entry("packs.evidence", "add"),
    "evidence snapshot": Entry("packs.evidence", "snapshot"),
    "evidence list": Entry("packs.evidence", "list_snapshots"),
    "evidence diff": Entry("packs.evidence", "diff"),
    "evidence show": Entry("packs.evidence", "show"),
    "evidence search": Entry("packs.evidence", "search"),
    "tools list": Entry("packs.tools", "list_tools"),
    "tools pin": Entry("packs.tools", "pin"),
    "tools diff": Entry("packs.tools", "diff"),
    "stats": Entry("sessions.journal", "stats", "Show statistics of the runs in a journal."),
    "control": Entry(
        "replay.control", "control", "Predict how the quality loop of each task class converges."
    ),
    "calibrate": Entry(
        "replay.calibrate", "calibrate", "Fit the weights of confidence to recorded outcomes."
    ),
    "check": Entry(
        "packs.authoring", "check", "Report every problem of a pack, with file, place and remedy."
    ),
    "test": Entry(
        "packs.scenarios", "run_tests", "Run the scenarios of a pack, which are in `scenarios/*.toml`."
    ),
    "init": Entry("packs.authoring", "init", "Create a small pack that works."),
    "schema": Entry(
        "packs.authoring", "schema", "Print the JSON Schema of a public type, or list the types."
    ),
}
"""Every command. A function that returns no exit code exits with 0; its examples are in `<FUNCTION>_EXAMPLES` beside it."""

GROUPS = {
    "sessions": "List, show, follow, steer and resume sessions.",
    "gates": "List, show and answer gates: approvals and decisions.",
    "journal": "Check a whole journal, or accept lost commits.",
    "evidence": "Add facts, freeze them in snapshots, search them.",
    "tools": "List the tools of a pack, and pin MCP tools.",
    "cluster": "Operate workers that Temporal schedules.",
    "api-keys": "Create, list and revoke the keys of the service.",
    "notifications": "List and retry notifications, and test targets.",
    "signing-keys": "Manage the keys that sign bundles.",
    "golden": "Keep chosen runs, and replay them after every change.",
    "feedback": "Record corrections of results, and make golden runs of them.",
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

DELETING = ("sessions prune", "erase")
"""The commands that delete something for good."""

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
    # What deletes is suggested only to a user who has typed its name, without its group.
    by_name = {name: words for name, words in by_name.items() if name == word or words not in DELETING}
    near = dict.fromkeys(by_name[each] for each in get_close_matches(word, by_name, n=3, cutoff=0.6))
    path = f"tercet {home}".strip()
    remedy = f"did you mean {', '.join(f'tercet {each}' for each in near)}?" if near else ""
    raise UsageError(
        f"unknown command '{path} {word}'",
        remedy=f"{remedy} {path} --help lists the commands".strip(),
    )


class Group(TyperGroup):
    """A group of commands, one of which may be the default."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, help=GROUPS[name], commands=commands_of(name), rich_markup_mode=None)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the name of the default command if none is given; print the help if nothing is."""
        if not args:
            _ask_for_a_command(ctx)
        usual = USUAL.get(self.name or "")
        is_named = args[0] in self.commands or args[0] == "--help"
        return super().parse_args(ctx, args if usual is None or is_named else [usual, *args])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command with this name; raise `UsageError` with the nearest names if there is none."""
        _require_known(self, args, self.name or "")
        return super().resolve_command(ctx, args)


def _ask_for_a_command(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(ExitCode.WRONG_USE)


@cache
def commands_of(group: str) -> dict[str, Any]:
    """Return the commands of a group by name; for the top level, whose name is empty, also the groups."""
    split = {words: words.rpartition(" ") for words in COMMANDS}
    commands: dict[str, Any] = {
        name: LazyCommand(words, COMMANDS[words]) for words, (home, _, name) in split.items() if home == group
    }
    return commands if group else {**commands, **{name: Group(name) for name in GROUPS}}


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
