"""The tools of a pack's MCP servers, built from `mcp.toml` and the pins in `mcp.lock.json`.

No server is started or contacted: a pack is what its files say. A tool without a pin is a problem, since its definition
has not been accepted.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from tercet.contracts.errors import PackError, UsageError
from tercet.contracts.mode import ApprovalMode, Reversibility
from tercet.contracts.shape import Authored
from tercet.contracts.values.canonical import digest
from tercet.packs.declarations import SERVERS, ServerTable, ToolTable, explain, note_duplicate, read_declared
from tercet.packs.folder import Draft
from tercet.packs.parts import Spot
from tercet.packs.programs import CommandLine, hash_files
from tercet.tools.mcp.server import Change, Definition, McpServer, call_without_runtime, compare, tool_name
from tercet.tools.tool import Tool

MCP_FILE = SERVERS.file


def read_mcp_tools(draft: Draft) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """Return the tools of the folder's servers, and the hashes of their definitions."""
    servers = read_declared(draft, SERVERS)
    lock = read_lock(draft) if servers or draft.has(LOCK_FILE) else Lock()
    if lock is None or "server" in draft.unread or any(place.startswith("server ") for place in draft.broken):
        draft.unread.add("tool")
    if lock is None:
        return (), {}
    files = {table.name: hash_files(draft, _line_of(draft, table)) for table in servers}
    tools = [tool for table in servers for tool in _tools(draft, table, lock, files[table.name])]
    if "server" not in draft.unread:
        _note_unused(draft, servers, lock)
    if not servers:
        return (), {}
    named = {name: found for each in files.values() for name, found in each.items()}
    return tuple(tools), _hashes(servers, lock, named)


def _line_of(draft: Draft, table: ServerTable) -> CommandLine:
    place = f"server {table.name}"
    return CommandLine(
        words=table.command or (), file=MCP_FILE, place=f"{place}, command", row=draft.spots[place].row
    )


def _tools(draft: Draft, table: ServerTable, lock: Lock, files: Mapping[str, str]) -> Iterator[Tool]:
    pinned = {name: found for name, found in lock.definitions(table.name).items() if table.takes(name)}
    labels = {label.name: label for label in table.tool}
    _note_unpinned(draft, table, pinned)
    server = McpServer(
        spec=table.spec,
        folder=draft.folder,
        pinned=pinned,
        files=files,
        harmless_errors=frozenset(label.name for label in table.tool if label.error_means == "not_done"),
    )
    for name, definition in pinned.items():
        place = f"tool {tool_name(table.name, name)}"
        spot = _spot(draft, table, name)
        if place in draft.spots:
            note_duplicate(draft, place, draft.spots[place], spot)
            continue
        label = labels.get(name)
        _place(draft, table, name, place, spot)
        tool = _tool(draft, server, definition, label, place)
        if tool is not None:
            _remark(draft, definition, label, tool, place)
            yield tool


def _tool(
    draft: Draft, server: McpServer, definition: Definition, label: ToolTable | None, place: str
) -> Tool | None:
    said: dict[str, Any] = {} if label is None else label.declared
    mode = definition.mode_for(None if label is None else label.mode)
    fields = {
        "description": definition.description or "",
        "timeout_ms": server.spec.timeout_ms,
        **said,
        "name": tool_name(server.spec.name, definition.name),
        "parameters": definition.input_schema,
        "result": definition.output_schema,
        "mode": mode,
        "adapter": "mcp",
        "call": call_without_runtime,
        "outside": server,
    }
    if mode is not ApprovalMode.READ_ONLY and said.get("reversibility") is Reversibility.PURE:
        fields["reversibility"] = (
            None  # a tool with effects is not pure, even if a hint says that it only reads
        )
    if definition.hint("idempotentHint") is False:
        fields["idempotent"] = False
    try:
        return Tool.model_validate(fields)
    except ValidationError as error:
        told = "; ".join(str(detail["msg"]) for detail in error.errors(include_url=False)[:3])
        draft.broken.add(place)
        draft.note("tool_declaration", told, "correct the table of this tool", file=MCP_FILE, place=place)
        return None


def _remark(draft: Draft, definition: Definition, label: ToolTable | None, tool: Tool, place: str) -> None:
    """Warn where the pack and the server disagree about a tool: the more cautious declaration applies."""

    def row(field: str) -> int | None:
        return draft.spots.get(f"{place}, {field}", draft.spots[place]).row

    if label is None or label.mode is None:
        draft.note(
            "mcp_unlabelled",
            "the pack does not declare its mode, so it counts as destructive",
            f'add [[server.tool]] with name = "{definition.name}" and its mode, or leave it out of the server\'s tools',
            file=MCP_FILE, place=place, row=row("mode"), severity="warning",
        )  # fmt: skip
    elif tool.mode is not label.mode:
        draft.note(
            "mcp_mode_raised",
            f"the pack says {label.mode}; the server's {definition.least_mode[1]} makes it {tool.mode}",
            f'say mode = "{tool.mode}"; a hint can raise a mode, and nothing lowers it',
            file=MCP_FILE, place=f"{place}, mode", row=row("mode"), severity="warning",
        )  # fmt: skip
    if label is not None and label.idempotent and not tool.idempotent:
        draft.note(
            "mcp_not_idempotent",
            "the pack says idempotent; the server's idempotentHint says that it is not",
            "drop idempotent: an unknown outcome goes to a person then",
            file=MCP_FILE, place=f"{place}, idempotent", row=row("idempotent"), severity="warning",
        )  # fmt: skip


def _note_unpinned(draft: Draft, table: ServerTable, pinned: Mapping[str, Definition]) -> None:
    """Note a server without pins, or a named tool that is not pinned."""
    remedy = f"look at them and accept them: tercet tools pin {shlex.quote(str(draft.folder))} {table.name}"
    place, spot = f"server {table.name}", draft.spots[f"server {table.name}"]
    if not pinned:
        draft.unread.add("tool")
        draft.note(
            "mcp_unpinned", "its tools are not pinned", remedy, file=MCP_FILE, place=place, row=spot.row
        )
        return
    named = [*(table.tools or ()), *(label.name for label in table.tool)]
    for name in dict.fromkeys(named):
        if name in pinned:
            continue
        near = get_close_matches(name, list(pinned), n=1)
        draft.unread.add("tool")
        draft.note(
            "mcp_unpinned",
            f"no tool {name} is pinned",
            f"did you mean {near[0]}? Otherwise {remedy}" if near else remedy,
            file=MCP_FILE, place=place, row=_spot(draft, table, name).row,
        )  # fmt: skip


def _note_unused(draft: Draft, servers: tuple[ServerTable, ...], lock: Lock) -> None:
    known = {table.name for table in servers} | {
        place.removeprefix("server ") for place in draft.broken if place.startswith("server ")
    }
    for name in lock.servers:
        if name not in known:
            draft.note(
                "mcp_lock_unused",
                f"it pins tools of the server {name}, which {MCP_FILE} does not have",
                "remove them from the file, or add the server",
                file=LOCK_FILE, place=f"server {name}", severity="warning",
            )  # fmt: skip


def _hashes(servers: tuple[ServerTable, ...], lock: Lock, files: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes of the servers, their pins, and the files of the pack that their commands name."""
    declared = [
        {
            **table.spec.model_dump(mode="json", exclude_defaults=True),
            "harmless": sorted(label.name for label in table.tool if label.error_means == "not_done"),
        }
        for table in servers
    ]
    return {
        MCP_FILE: digest(sorted(declared, key=lambda server: str(server["name"]))),
        LOCK_FILE: digest(lock.hashes()),
        **files,
    }


def _spot(draft: Draft, table: ServerTable, name: str) -> Spot:
    """Return the place of a server's tool: its own table, else the server's."""
    base = f"server {table.name}"
    number = next((n for n, label in enumerate(table.tool) if label.name == name), None)
    own = None if number is None else draft.spots.get(f"{base}, tool.{number}")
    return own or draft.spots[base]


def _place(draft: Draft, table: ServerTable, name: str, place: str, spot: Spot) -> None:
    """Register the places of a tool and its fields with the lines where they were written."""
    draft.spots[place] = spot
    number = next((n for n, label in enumerate(table.tool) if label.name == name), None)
    prefix = f"server {table.name}, tool.{number}."
    found = {key.removeprefix(prefix): at for key, at in draft.spots.items() if key.startswith(prefix)}
    draft.spots |= {f"{place}, {field}": at for field, at in found.items()}


# --- lock ---
# Each hash in `mcp.lock.json` covers the definition only; who accepted it, and when, is kept beside it for information.


LOCK_FILE = "mcp.lock.json"


class Pin(Authored):
    """One accepted definition."""

    hash: str
    pinned_by: str = ""
    pinned_at: str = ""
    definition: Definition


class Lock(Authored):
    """The accepted definitions, by server and tool name."""

    format: Literal[1] = 1
    servers: dict[str, dict[str, Pin]] = {}

    def definitions(self, server: str) -> dict[str, Definition]:
        """Return the accepted definitions of a server."""
        return {name: pin.definition for name, pin in self.servers.get(server, {}).items()}

    def hashes(self) -> dict[str, dict[str, str]]:
        """The hashes that are part of the pack."""
        return {
            server: {name: pin.definition.hash for name, pin in pins.items()}
            for server, pins in self.servers.items()
        }

    def pinned(self, server: str, live: Mapping[str, Definition], *, by: str, at: str) -> Lock:
        """Return the lock updated with a server's current definitions; unchanged pins keep their dates."""
        known = self.servers.get(server, {})
        pins = {
            name: known[name]
            if name in known and known[name].hash == definition.hash
            else Pin(hash=definition.hash, pinned_by=by, pinned_at=at, definition=definition)
            for name, definition in live.items()
        }
        return Lock(servers={**self.servers, server: pins})


def read_lock(draft: Draft) -> Lock | None:
    """Return the lock of a folder, empty if there is none; None, with a problem noted, if it is invalid."""
    if not draft.has(LOCK_FILE):
        return Lock()
    text = draft.read_text(LOCK_FILE)
    if text is None:
        return None
    try:
        lock = Lock.model_validate(json.loads(text))
    except ValidationError as error:
        for detail in error.errors(include_url=False)[:5]:
            code, message, remedy = explain(detail, Lock)
            draft.note(code, message, remedy, file=LOCK_FILE, place=".".join(map(str, detail["loc"])))
        return None
    except (ValueError, RecursionError) as error:
        draft.note("json_syntax", f"not JSON: {error}", _remedy(draft), file=LOCK_FILE)
        return None
    return lock if _is_whole(draft, lock) else None


def _remedy(draft: Draft) -> str:
    pin = f"tercet tools pin {shlex.quote(str(draft.folder))}"
    return f"restore the file, or accept the definitions again: {pin}"


def _is_whole(draft: Draft, lock: Lock) -> bool:
    """Return whether each definition matches its accepted hash."""
    is_whole = True
    for server, pins in lock.servers.items():
        for name, pin in pins.items():
            try:
                fault = "" if pin.hash == pin.definition.hash and name == pin.definition.name else _OTHER
            except UsageError as error:
                fault = error.message
            if fault:
                is_whole = False
                draft.note(
                    "mcp_lock_damaged", fault, _remedy(draft), file=LOCK_FILE, place=f"{server}.{name}"
                )
    return is_whole


_OTHER = "this is not the definition that was accepted: its hash differs"


def write_lock(folder: Path, lock: Lock) -> None:
    """Write the lock of a folder atomically."""
    path = folder / LOCK_FILE
    draft = path.with_name(f".{LOCK_FILE}.{os.getpid()}")
    try:
        draft.write_text(_text(lock), encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _text(lock: Lock) -> str:
    servers: dict[str, Any] = {
        server: {
            name: {**pin.model_dump(mode="json", exclude={"definition"}), "definition": pin.definition.dump()}
            for name, pin in sorted(pins.items())
        }
        for server, pins in sorted(lock.servers.items())
    }
    return f"{json.dumps({'format': lock.format, 'servers': servers}, indent=2, ensure_ascii=False)}\n"


@dataclass(frozen=True, kw_only=True)
class Pins:
    """The servers of a folder, and their accepted definitions."""

    folder: Path
    servers: tuple[ServerTable, ...]
    lock: Lock

    def wanted(self, name: str | None) -> tuple[ServerTable, ...]:
        """Return one server by name, or all; raise `UsageError` if it does not exist."""
        found = tuple(server for server in self.servers if name in (None, server.name))
        if found:
            return found
        known = ", ".join(server.name for server in self.servers)
        raise UsageError(
            f"the pack has no MCP server{'' if name is None else f' {name}'}",
            code="mcp_unknown_server",
            remedy=f"it has {known}" if known else f"declare one in {SERVERS.file}",
        )

    def changes(self, server: ServerTable, live: dict[str, Definition]) -> tuple[Change, ...]:
        """Return the differences between a server's current definitions and the pinned ones."""
        return compare(self.lock.definitions(server.name), taken(server, live))


def taken(server: ServerTable, live: dict[str, Definition]) -> dict[str, Definition]:
    """Return the definitions of a server that the pack uses."""
    return {name: definition for name, definition in live.items() if server.takes(name)}


def read_pins(path: str | os.PathLike[str], *, is_mending: bool = False) -> Pins:
    """Return the servers and pins of a folder; raise `PackError`. With `is_mending`, an invalid lock is ignored."""
    draft = Draft(Path(os.path.realpath(path)))
    if not draft.has("."):
        draft.note("missing_folder", "there is no such folder", "check the path", file=os.fspath(path))
        raise PackError(draft.problems)
    servers = read_declared(draft, SERVERS)
    problems = list(draft.problems)
    lock = read_lock(draft)
    if problems or (lock is None and not is_mending):
        raise PackError(draft.problems)
    return Pins(folder=draft.folder, servers=servers, lock=lock or Lock())
