"""Ids of sessions and gates as users type them: in full, or abbreviated to a unique prefix."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tercet.cli.journals import TENANT, use_journal
from tercet.cli.options import argument
from tercet.contracts.errors import UsageError

MOST_NAMED = 10
"""The number of sessions that are listed for an ambiguous id."""
_PREFIX = "ses_"
_WHOLE = re.compile(r"ses_[0-9a-f]{16}", re.ASCII)


def complete_session(ctx: typer.Context, value: str | None) -> str | None:
    """Return the full id of the session that an argument names."""
    return None if value is None else find_session(value, ctx.params["journal"])


def complete_gate(ctx: typer.Context, value: str | None) -> str | None:
    """Return the full id of a gate or correction of a session that an argument names."""
    session, dot, rest = (value or "").rpartition(".")
    return f"{find_session(session, ctx.params['journal'])}{dot}{rest}" if session else value


def complete_run(ctx: typer.Context, value: str | None) -> str | None:
    """Return the full id of a session, or a bundle's file name unchanged."""
    return value if value is None or is_bundle(value) else complete_session(ctx, value)


def complete_runs(ctx: typer.Context, value: list[str] | None) -> list[str] | None:
    """Return the full ids of sessions, and bundles' file names unchanged."""
    return None if value is None else [complete_run(ctx, each) or each for each in value]


def find_session(name: str, url: str) -> str:
    """Return the one session of the journal at `url` whose id begins with a name, with or without `ses_`.

    A full id is returned unchanged, without reading the journal. Raises `UsageError` if no session or several match.
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
            remedy="tercet sessions list shows the sessions of this journal",
        )
    more = ", …" if len(found) > MOST_NAMED else ""
    raise UsageError(
        f"several session ids begin with '{name}'",
        code="ambiguous_session",
        remedy=f"type more of it: {', '.join(found[:MOST_NAMED])}{more}",
    )


def is_bundle(name: str) -> bool:
    """Return whether a name is the file of a bundle: session ids contain no dot and no slash."""
    path = Path(name)
    return bool(path.suffix) or len(path.parts) > 1 or path.is_file()


SessionId: TypeAlias = Annotated[
    str,
    argument("ID", "The session's id, or a unique prefix of it.", callback=complete_session),
]
GateId: TypeAlias = Annotated[
    str,
    argument("GATE", "The gate's id, such as ses_0123456789abcdef.g1.", callback=complete_gate),
]
