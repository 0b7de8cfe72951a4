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

from tercet.cli import check, init, schema, verify
from tercet.cli.exit_code import ExitCode
from tercet.cli.failure import report, understand, wants_json


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
    epilog="Exit codes: 0 accepted, 2 wrong use, 3 refused by the critic.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


COMMANDS: dict[str, tuple[Callable[..., ExitCode], str]] = {
    "verify": (verify.verify, verify.EXAMPLES),
    "check": (check.check, check.EXAMPLES),
    "init": (init.init, init.EXAMPLES),
    "schema": (schema.schema, schema.EXAMPLES),
}
"""Every command with the examples in its help."""

for _name, (_command, _examples) in COMMANDS.items():
    app.command(_name, epilog=f"Examples:\n\n\b\n{_examples}")(_command)


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
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(ExitCode.WRONG_USE)


def run() -> NoReturn:
    """The entry point of the console script."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # a shell can start a process without them: >&-
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - open until the process ends
    app()
    sys.exit(ExitCode.BROKEN)
