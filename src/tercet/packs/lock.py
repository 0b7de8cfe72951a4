"""`mcp.lock.json`: the accepted tool definitions of MCP servers.

Each hash covers the definition only; who accepted it, and when, is kept beside it for information.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from tercet.contracts.errors import PackError, UsageError
from tercet.contracts.shape import Authored
from tercet.packs.declarations import SERVERS, ServerTable, explain, read_declared
from tercet.packs.folder import Draft
from tercet.tools.mcp.server import Change, Definition, compare

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
