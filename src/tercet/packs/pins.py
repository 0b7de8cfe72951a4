"""The MCP servers of a pack folder and what is pinned of them, read without the rest of the pack."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tercet.contracts.errors import PackError, UsageError
from tercet.packs.declarations import SERVERS, read_servers
from tercet.packs.folder import Draft
from tercet.packs.lock import Lock, read_lock
from tercet.packs.mcp_tables import ServerTable
from tercet.tools.mcp.definition import Change, Definition, compare


@dataclass(frozen=True, kw_only=True)
class Pins:
    """The servers of a folder, and the definitions that were accepted."""

    folder: Path
    servers: tuple[ServerTable, ...]
    lock: Lock

    def wanted(self, name: str | None) -> tuple[ServerTable, ...]:
        """One server by its name, or all; raises `UsageError`."""
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
        """What a server says otherwise than what is pinned of it, of all that the pack takes."""
        return compare(self.lock.definitions(server.name), taken(server, live))


def taken(server: ServerTable, live: dict[str, Definition]) -> dict[str, Definition]:
    """The definitions that the pack takes of a server."""
    return {name: definition for name, definition in live.items() if server.takes(name)}


def read_pins(path: str | os.PathLike[str], *, is_mending: bool = False) -> Pins:
    """The servers and pins of a folder; raises `PackError`. Whoever mends the lock need not be able to read it."""
    draft = Draft(Path(os.path.realpath(path)))
    if not draft.has("."):
        draft.note("missing_folder", "there is no such folder", "check the path", file=os.fspath(path))
        raise PackError(draft.problems)
    servers = read_servers(draft)
    problems = list(draft.problems)
    lock = read_lock(draft)
    if problems or (lock is None and not is_mending):
        raise PackError(draft.problems)
    return Pins(folder=draft.folder, servers=servers, lock=lock or Lock())
