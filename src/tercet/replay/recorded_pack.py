"""A pack as data: what a session has kept of it. Its tools are declarations, and calling one is an error.

Rules (CEL, limits, gates, budgets, thresholds) are text and come from here. Code is never loaded from what was recorded.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NoReturn

import msgspec
from pydantic import Field

from tercet.contracts.canonical import hash_bytes
from tercet.contracts.errors import InternalError, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.shape import JsonObject
from tercet.packs.pack import Pack
from tercet.tools.tool import Tool

_BESIDE = ("format", "code", "calls", "tools")
"""What of a pack's content is no field of a pack as it stands."""


class RecordedPack(Pack):
    """A pack of which only the declarations are here. Its hash is the one that it was recorded under."""

    kept: bytes = Field(repr=False, exclude=True)
    """The bytes that the hash is over."""

    @cached_property
    def content(self) -> bytes:
        """The bytes that the hash is over, as they were recorded."""
        return self.kept

    @cached_property
    def tools_by_name(self) -> dict[str, Tool]:
        """The tools by name."""
        return {tool.name: tool for tool in self.tools}


def read_pack(content: bytes) -> RecordedPack:
    """The pack that recorded bytes declare, without evidence; raises `UsageError` if this version cannot read it."""
    try:
        fields: JsonObject = msgspec.json.decode(content)
        declared = {name: value for name, value in fields.items() if name not in _BESIDE}
        return RecordedPack.model_validate(
            {**declared, "tools": tuple(map(_tool, fields["tools"])), "kept": content}
        )
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"the pack with hash {hash_bytes(content)[:20]}… cannot be read as this version writes packs: {error}",
            code="pack_unreadable",
            remedy="replay it with the version of Tercet that recorded it",
        ) from error


def with_evidence(pack: Pack, snapshot: str, facts: tuple[Evidence, ...]) -> RecordedPack:
    """A pack as data with the evidence that a session has kept; a snapshot may be empty."""
    known = pack if isinstance(pack, RecordedPack) else read_pack(pack.content)
    times = {snapshot: datetime.min.replace(tzinfo=UTC)} if snapshot else {}
    return known.model_copy(update={"evidence": facts, "snapshot_times": times})


def _tool(declared: JsonObject) -> dict[str, Any]:
    looked_up = {"reconcile": _never} if declared.get("reconciles") else {}
    return {**declared, **looked_up, "call": _never}


def _never(*_: object, **__: object) -> NoReturn:
    raise InternalError("a tool was called while a run was replayed")
