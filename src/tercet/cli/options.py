"""The arguments and options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args, get_type_hints

import typer

from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.runs.session import SessionStatus


def option(metavar: str, text: str, *names: str, **given: Any) -> Any:
    """Return an option that takes a value; without names it is called like its parameter."""
    return typer.Option(*names, metavar=metavar, help=text, **given)


def flag(text: str, *names: str, **given: Any) -> Any:
    """Return an option that takes no value."""
    return typer.Option(*names, help=text, **given)


def argument(metavar: str, text: str, **given: Any) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=text, **given)


PackFolder: TypeAlias = Annotated[Path, argument("PACK", "The pack's folder, which contains pack.toml.")]
AsJson: TypeAlias = Annotated[
    bool, flag("Print one JSON object on stdout, and nothing else. Errors too.", "--json")
]
Server: TypeAlias = Annotated[
    str,
    option(
        "URL",
        "Let a service review it: its URL, by default TERCET_SERVER. The API key is in TERCET_API_KEY.",
        "--server",
        envvar="TERCET_SERVER",
        show_default=False,
        show_envvar=False,
    ),
]
Force: TypeAlias = Annotated[bool, flag("Overwrite a file that Tercet did not make.", "--force")]
Note: TypeAlias = Annotated[
    str, option("TEXT", "The reason, which is recorded.", "--note", "--reason", show_default=False)
]
Intent: TypeAlias = Annotated[
    str | None,
    option(
        "INTENT",
        "The intent of the request: by default that of the given plan, else the pack's only decision.",
    ),
]
RequestInput: TypeAlias = Annotated[
    str | None,
    option("JSON", "The request's input: a JSON object, or @FILE.", "--input"),
]
SnapshotName: TypeAlias = Annotated[
    str | None,
    option("SNAPSHOT", "The evidence snapshot to use: by default the pack's newest."),
]
Workers: TypeAlias = Annotated[
    int | None, option("N", "The number of processes; by default one for each core.", min=1)
]
GoldenFolder: TypeAlias = Annotated[
    Path, option("FOLDER", "The folder of golden runs; it is created if it does not exist.")
]
SafetyMode: TypeAlias = Annotated[
    ApprovalMode | None,
    option(
        "MODE",
        f"The most that the run may do, one of {', '.join(ApprovalMode)}: by default the pack's, else local_write.",
    ),
]


def takes(shared: type[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of a struct, which it takes as `options`; its own options come first."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own["options"]
        types = get_type_hints(shared, include_extras=True)
        fields = inspect.signature(shared).parameters.items()
        more = {name: each.replace(annotation=types[name]) for name, each in fields if name not in own}

        @wraps(command)
        def run(**given: Any) -> Any:
            return command(options=shared(**{name: given.pop(name) for name in more}), **given)

        vars(run)["__signature__"] = inspect.Signature([*own.values(), *more.values()])
        run.__annotations__ = {name: each.annotation for name, each in (own | more).items()}
        return run

    return decorate


# --- statuses ---


_RECORDED: tuple[SessionStatus, ...] = get_args(SessionStatus)
_WAITING = "waiting"
STATUSES = tuple(_WAITING if each == "awaiting_gate" else each for each in _RECORDED)
"""The words for `--status`, as lists show them; `awaiting_gate`, as JSON has it, is taken too."""


def recorded_status(word: str | None, offered: Sequence[str] = STATUSES) -> SessionStatus | None:
    """Return the recorded status that a word stands for; raise `UsageError` with those that are offered if there is none."""
    if word is None:
        return None
    recorded = "awaiting_gate" if word == _WAITING else word
    if recorded in _RECORDED:
        return recorded
    raise UsageError(
        f"unknown status '{word}'", code="unknown_status", remedy=f"choose one of {', '.join(offered)}"
    )
