"""The option `--server` of every command: which commands can use a service, and why the others cannot."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from tercet.cli.options import option
from tercet.contracts.errors import UsageError

VARIABLE = "TERCET_SERVER"
HELP = f"Use the sessions of a service instead of a journal: its URL, by default {VARIABLE}. The API key is in TERCET_API_KEY."
REMOTE = (
    "run",
    *(f"sessions {name}" for name in ("list", "show", "watch", "resume", "pause", "cancel", "extend")),
    *("sessions migrate", "sessions settle"),
    *(
        f"gates {name}"
        for name in ("list", "show", "approve", "deny", "modify", "withdraw", "settle", "decide")
    ),
    *(f"stop {name}" for name in ("tool", "pack", "tenant", "list", "lift")),
    *("replay", "provenance", "export", "report"),
)
"""The commands that take `--server URL` instead of `--journal URL`; `verify` and `call` have the option themselves."""
OF_THIS_MACHINE = ("serve", "worker", "cluster", "api-keys", "notifications", "journal", "demo")
"""Commands of the machine that has the journal, for which TERCET_SERVER means nothing."""
_WHOLE = "it reads every run of the journal"
LOCAL = {
    "serve": "it is one",
    "worker": "it works on the journal itself",
    "cluster": "it operates the workers of the journal",
    "api-keys": "who may write to the journal makes its keys",
    "notifications": "who operates the journal sends its notifications again",
    "journal": "it checks the journal itself",
    "erase": "a service erases by a call: tercet call eraseSubject",
    "sessions prune": "it deletes from the journal itself",
    "sessions sweep": "a service does this by itself",
    "plan": "a service plans only what it runs",
    "feedback": "a service takes no corrections",
    "golden": "it keeps runs in a folder; export them first",
    "stats": _WHOLE,
    "control": _WHOLE,
    "calibrate": _WHOLE,
    "tune": _WHOLE,
    "context": "it compiles the context with the pack of this machine",
}
"""Why a command, or a group of them, cannot use a service."""


def is_service(url: str) -> bool:
    """Return whether a URL names a service, and not a journal."""
    return url.startswith(("http://", "https://"))


def choose_server(ctx: typer.Context, value: str | None) -> None:
    """Note the service that `--server` names; raises `UsageError` if `--journal` is given too."""
    if value and not is_service(value):
        raise UsageError(
            f"'{value}' is not the address of a service",
            remedy="write --server http://127.0.0.1:8700, or name a journal with --journal",
        )
    ctx.meta[VARIABLE] = value
    _demand_one(ctx)


def choose_journal(ctx: typer.Context, value: str) -> str:
    """Return the address of the service, if one is named, else of the journal; a given `--journal` goes before TERCET_SERVER."""
    if is_service(value):
        raise UsageError(f"{value} is not a journal", remedy=f"name a service with --server {value}")
    _demand_one(ctx)
    return value if is_given(ctx, "journal") else ctx.meta.get(VARIABLE) or value


def _demand_one(ctx: typer.Context) -> None:
    if is_given(ctx, "journal") and is_given(ctx, "server"):
        raise UsageError(
            "--journal and --server exclude each other",
            remedy="--server names a service, which has its own journal",
        )


def is_given(ctx: typer.Context, name: str) -> bool:
    """Return whether an option is on the command line, and not only in the environment."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def add_server(command: Callable[..., Any], words: str) -> Callable[..., Any]:
    """Return a command with the option `--server`: it uses a service instead of a journal, or says why it cannot."""
    signature = inspect.signature(command, eval_str=True)
    if "server" in signature.parameters:
        return command
    parameters = dict(signature.parameters)
    server = inspect.Parameter(
        "server", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(words, parameters)
    )
    # Before --journal, whose value it replaces.
    names = list(parameters)
    place = names.index("journal") if "journal" in names else len(names)
    ordered = [*list(parameters.values())[:place], server, *list(parameters.values())[place:]]

    @wraps(command)
    def run(**given: Any) -> Any:
        del given["server"]
        return command(**given)

    vars(run)["__signature__"] = inspect.Signature(ordered)
    run.__annotations__ = {each.name: each.annotation for each in ordered}
    return run


def _option(words: str, parameters: dict[str, Any]) -> Any:
    shared: dict[str, Any] = {"is_eager": True, "show_default": False, "show_envvar": False}
    if words in REMOTE:
        chosen = option("URL", HELP, "--server", envvar=VARIABLE, callback=choose_server, **shared)
        return Annotated[str | None, chosen]

    def refuse(ctx: typer.Context, value: str | None) -> None:
        if value and (is_given(ctx, "server") or not is_given(ctx, "journal")):
            raise UsageError(
                f"tercet {words} cannot use a service: {_reason(words)}",
                code="not_remote",
                remedy=_remedy(value, is_given=is_given(ctx, "server")),
            )

    # A command that uses a journal would otherwise read or change another one than was meant.
    has_journal = "journal" in parameters and words.partition(" ")[0] not in OF_THIS_MACHINE
    variable = VARIABLE if has_journal else None
    refused = option("URL", HELP, "--server", envvar=variable, callback=refuse, hidden=True, **shared)
    return Annotated[str | None, refused]


def _reason(words: str) -> str:
    return LOCAL.get(words) or LOCAL.get(words.partition(" ")[0]) or "it works with files of this machine"


def _remedy(url: str, *, is_given: bool) -> str:
    if is_given:
        return "leave --server out, and run it on the machine that has the journal"
    return f"name a journal with --journal, or unset {VARIABLE}, which is {url}"
