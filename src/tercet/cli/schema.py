"""`tercet schema`: the JSON Schema of every public type."""

from __future__ import annotations

import inspect
from difflib import get_close_matches
from typing import Annotated, Any

from rich.text import Text

from tercet.cli.options import AsJson, argument
from tercet.cli.screen import Screen, print_json
from tercet.contracts.errors import UsageError
from tercet.contracts.schema import PUBLIC_TYPES, json_schema

EXAMPLES = """\
tercet schema
tercet schema Plan
"""


def schema(
    name: Annotated[str | None, argument("TYPE", "The type; without one, all of them are listed.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of a public type, or list the types.

    Give a planner the schema of Plan, and check what it writes with `tercet verify`.
    """
    if name is not None:
        print_json(_schema(name))
    elif as_json:
        print_json({"types": [{"name": key, "description": _describe(key)} for key in sorted(PUBLIC_TYPES)]})
    else:
        _list_types(Screen())


def _schema(name: str) -> dict[str, Any]:
    if name not in PUBLIC_TYPES:
        near = _near(name)
        raise UsageError(
            f"unknown public type {name!r}",
            code="unknown_type",
            remedy=f"did you mean {' or '.join(near)}?" if near else "tercet schema lists them all",
        )
    return json_schema(name)


def _near(name: str) -> list[str]:
    by_lower = {known.lower(): known for known in PUBLIC_TYPES}
    if name.lower() in by_lower:
        return [by_lower[name.lower()]]
    return [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]


def _list_types(screen: Screen) -> None:
    width = max(map(len, PUBLIC_TYPES)) + 2
    for name in sorted(PUBLIC_TYPES):
        screen.put(Text(_describe(name), style="dim"), first=f"{name:<{width}}")


def _describe(name: str) -> str:
    """The first sentence of a type's docstring; a union has none, and names its members."""
    kind = PUBLIC_TYPES[name]
    if isinstance(kind, type):
        return (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
    members = [
        reference.rpartition("/")[2] for reference in json_schema(name)["discriminator"]["mapping"].values()
    ]
    return f"Either {' or '.join(members)}."
