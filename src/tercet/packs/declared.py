"""A pack made of its declarations only: enough to judge by, but its tools cannot be called.

A replay has the declarations of a pack, which its hash covers, but no code. The pack made of them has the same hash, so
it compiles the same contexts and reaches the same verdicts; its tools raise when called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from tercet.contracts.errors import NotSent, PackError, TercetError, UsageError
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values.canonical import canonical
from tercet.packs.declarations import ACTORS, ALL_DECLARED, PACK_FILE
from tercet.packs.folder import COMMANDS_FILE, HTTP_FILE, Draft
from tercet.packs.loading import TEMPLATES
from tercet.packs.mcp_tools import LOCK_FILE
from tercet.packs.pack import Pack


def write_declarations(pack: Pack) -> bytes:
    """Return the declarations of a pack as canonical JSON: their SHA-256 is the pack's hash."""
    return canonical(pack.declarations)


def read_declarations(data: bytes) -> Pack:
    """Return the pack made of declarations; raise `UsageError` if they are invalid or have another hash."""
    try:
        declared = msgspec.json.decode(data)
        known = _without_retired(declared)
        pack = _build(known)
    except (ValidationError, TercetError, TypeError, ValueError, KeyError, RecursionError) as error:
        raise _refusal(f"they do not read: {str(error)[:300]}") from error
    if canonical(pack.declarations) != canonical(known):
        raise _refusal("this version of Tercet reads something else in them")
    if known is not declared:
        object.__setattr__(pack, "content", data)  # the recorded hash covers retired fields too
    return pack


_RETIRED = {"quality": ("required_facts",), "repair": ("redaction",)}
"""Retired fields of decisions: their consequences are recorded facts of the runs that used them."""


def _without_retired(declared: Any) -> Any:
    """Return declarations without retired fields; the same object if there are none."""
    decisions = as_list((as_object(declared) or {}).get("decisions")) or []
    kept = [_kept_of(as_object(each) or {}) for each in decisions]
    return declared if kept == decisions else {**declared, "decisions": kept}


def _kept_of(decision: JsonObject) -> JsonObject:
    quality = as_object(decision.get("quality"))
    if quality is None:
        return decision
    kept = {name: value for name, value in quality.items() if name not in _RETIRED["quality"]}
    if (repair := as_object(kept.get("repair"))) is not None:
        left = {name: value for name, value in repair.items() if name not in _RETIRED["repair"]}
        kept = {**kept, "repair": left} if left else {n: v for n, v in kept.items() if n != "repair"}
    return {**decision, "quality": kept}


def _build(declared: Any) -> Pack:
    fields = as_object(declared)
    if fields is None:
        raise ValueError("a pack is one JSON object")
    calls = {str(name): str(call) for name, call in fields["calls"].items()}
    tools = [_tool(dict(tool), calls[tool["name"]]) for tool in fields["tools"]]
    given = {name: value for name, value in fields.items() if name not in ("format", "calls", "tools")}
    return Pack.model_validate({**given, "tools": tools})


def _tool(fields: JsonObject, code_name: str) -> JsonObject:
    """Return the fields of a tool with a placeholder for its code."""
    made: JsonObject = {**fields, "call": _stand_in(code_name)}
    return {**made, "reconcile": _stand_in(code_name)} if fields.get("reconciles") else made


def _stand_in(code_name: str) -> Callable[..., Any]:
    """Return a function that raises when called; it keeps the recorded name of the code, which is part of the pack's
    hash.
    """

    def call(**_: Any) -> Any:
        raise NotSent(
            f"{code_name} is not called: this pack has declarations and no code",
            code="no_code",
            remedy="load the pack from its folder",
            is_retriable=False,
        )

    call.recorded_name = code_name  # pyright: ignore[reportFunctionMemberAccess] - read by `name_code`
    return call


def _refusal(reason: str) -> UsageError:
    return UsageError(
        f"invalid pack declarations: {reason}",
        code="declarations_unreadable",
        remedy="read them with the version of Tercet that wrote them, or load the pack from its folder",
    )


# --- files ---
# Excluded are the people, the evidence, which is pinned separately, and any other file in the folder, such as a
# database or secrets.


def read_files(path: str | os.PathLike[str], pack: Pack) -> dict[str, bytes]:
    """Return the files that a pack was loaded from, by name; raise `PackError` if one can no longer be read."""
    draft = Draft(Path(os.path.realpath(path)))
    found = {name: draft.read_bytes(name) for name in sorted(set(_names(draft, pack)))}
    if draft.problems:
        raise PackError(draft.problems)
    return {name: data for name, data in found.items() if data is not None}


def _names(draft: Draft, pack: Pack) -> Iterator[str]:
    declared = (each.file for each in ALL_DECLARED if each.file != ACTORS.file)
    for name in (PACK_FILE, *declared, HTTP_FILE, COMMANDS_FILE, LOCK_FILE, *pack.code):
        if draft.has(name):
            yield name
    yield from draft.list_files(TEMPLATES, ".json")
