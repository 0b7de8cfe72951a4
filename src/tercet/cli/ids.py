"""Ids of sessions and gates as people type them: whole, or abbreviated to a beginning that only one session has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tercet.cli.journals import TENANT, use_journal
from tercet.cli.options import argument
from tercet.contracts.errors import UsageError

MOST_NAMED = 10
"""How many sessions are listed for an ambiguous id."""
_PREFIX = "ses_"
_WHOLE = re.compile(r"ses_[0-9a-f]{16}", re.ASCII)


def complete_session(ctx: typer.Context, value: str | None) -> str | None:
    """Return the whole id of the session that an argument names."""
    return None if value is None else find_session(value, ctx.params["journal"])


def complete_gate(ctx: typer.Context, value: str | None) -> str | None:
    """Return the whole id of the gate, or of another thing of a session, that an argument names."""
    session, dot, rest = (value or "").rpartition(".")
    return f"{find_session(session, ctx.params['journal'])}{dot}{rest}" if session else value


def complete_run(ctx: typer.Context, value: str | None) -> str | None:
    """Return the whole id of a session, or the file of a bundle as it was named."""
    return value if value is None or is_bundle(value) else complete_session(ctx, value)


def complete_runs(ctx: typer.Context, value: list[str] | None) -> list[str] | None:
    """Return whole ids and files for a list of runs."""
    return None if value is None else [complete_run(ctx, each) or each for each in value]


def find_session(name: str, url: str) -> str:
    """Return the one session of the journal at `url` whose id begins with a name, with or without `ses_`.

    A whole id is returned as it is, without a look at the journal. Raises `UsageError` for a name that no session has,
    or several.
    """
    if _WHOLE.fullmatch(name):
        return name
    prefix = name if name.startswith(_PREFIX) else f"{_PREFIX}{name}"
    found = use_journal(url, lambda journal: journal.session_ids(TENANT, prefix, limit=MOST_NAMED + 1))
    if len(found) == 1 or prefix in found:
        return prefix if prefix in found else found[0]
    if not found:
        raise UsageError(
            f"there is no session {name}",
            code="unknown_session",
            remedy="tercet sessions list shows those that are there",
        )
    more = ", …" if len(found) > MOST_NAMED else ""
    raise UsageError(
        f"'{name}' is the beginning of several session ids",
        code="ambiguous_session",
        remedy=f"type more of it: {', '.join(found[:MOST_NAMED])}{more}",
    )


def is_bundle(name: str) -> bool:
    """Return whether a name means the file of a bundle: no session has a dot or a slash in its id."""
    path = Path(name)
    return bool(path.suffix) or len(path.parts) > 1 or path.is_file()


SessionId: TypeAlias = Annotated[
    str,
    argument("ID", "The session's id, or enough of its beginning to be unique.", callback=complete_session),
]
GateId: TypeAlias = Annotated[
    str,
    argument("GATE", "The gate: the session's id, a dot, and g with a number.", callback=complete_gate),
]
