"""`tercet tools`: what the tools of a pack are, and the definitions of MCP tools that a person has accepted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from tercet.cli import case
from tercet.cli.exit_code import ExitCode
from tercet.cli.options import AsJson, PackFolder
from tercet.cli.screen import Screen, print_json
from tercet.cli.text import count
from tercet.cli.tool_view import change_json, list_json, show_changes, show_tools
from tercet.core.transcript import timestamp
from tercet.executor.clock import SystemClock
from tercet.packs.lock import LOCK_FILE, write_lock
from tercet.packs.mcp_tables import ServerTable
from tercet.packs.pins import Pins, read_pins, taken
from tercet.tools.mcp.definition import Change, Definition
from tercet.tools.mcp.server import demand_sdk

LIST_EXAMPLES = """\
tercet tools list examples/mcp
tercet tools list examples/mcp --json
"""
PIN_EXAMPLES = """\
tercet tools pin examples/mcp
tercet tools pin examples/mcp parcels --yes
"""
DIFF_EXAMPLES = """\
tercet tools diff examples/mcp
"""

ServerName = Annotated[
    str | None,
    typer.Argument(metavar="SERVER", help="One MCP server of the pack; without it, all.", show_default=False),
]


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a server said, and how that differs from what is pinned."""

    server: ServerTable
    protocol: str
    live: dict[str, Definition]
    changes: tuple[Change, ...]

    def as_json(self) -> dict[str, Any]:
        """The look for programs."""
        return {
            "server": self.server.name,
            "protocol": self.protocol,
            "tools": sorted(self.live),
            "changes": [change_json(change) for change in self.changes],
        }


def list_tools(pack: PackFolder, *, as_json: AsJson = False) -> ExitCode:
    """List the tools of a pack. It says what each may touch, where it comes from, and whether its definition is
    pinned.

    Nothing is started and nobody is asked. Tools of MCP servers that are named and not pinned yet are listed too.
    """
    rows = list_json(pack)
    if as_json:
        print_json({"folder": str(pack), "tools": rows})
    else:
        show_tools(Screen(), rows)
    return ExitCode.ACCEPTED


def diff(pack: PackFolder, server: ServerName = None, *, as_json: AsJson = False) -> ExitCode:
    """Compare the tools of MCP servers with what is pinned. The servers of the pack are asked for them.

    Starts the servers that are programs, and calls none of their tools. Exits with 3 if something has changed.
    """
    pins = read_pins(pack)
    looks = _look(pins, server)
    has_changed = any(look.changes for look in looks)
    if as_json:
        print_json({"changed": has_changed, "servers": [look.as_json() for look in looks]})
    else:
        _show(Screen(), looks)
        if has_changed:
            Screen().show_command(f"tercet tools pin {pack}")
    return ExitCode.REFUSED if has_changed else ExitCode.ACCEPTED


def pin(
    pack: PackFolder,
    server: ServerName = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the changes without being asked.")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Pin the tools of a pack's MCP servers, once a person accepts. It shows first how they differ from what is
    pinned.

    Only pinned tools can be used, and a server that says something else later is refused before anything is called.
    So read what you accept: a planner will. Without a terminal and without --yes nothing is written, and it exits
    with 3 if there is something to accept.
    """
    pins = read_pins(pack, is_mending=True)
    looks = _look(pins, server)
    open_looks = [look for look in looks if look.changes]
    if not as_json:
        _show(Screen(), looks)
    is_accepted = not open_looks or yes or (not as_json and _is_accepted(len(open_looks)))
    if open_looks and is_accepted:
        _write(pins, looks)
    if as_json:
        print_json({"accepted": is_accepted, "servers": [look.as_json() for look in looks]})
    elif open_looks:
        _tell(Screen(), pack, is_accepted=is_accepted)
    return ExitCode.ACCEPTED if is_accepted else ExitCode.REFUSED


def _look(pins: Pins, name: str | None) -> list[Look]:
    demand_sdk()
    return asyncio.run(_look_at(pins, pins.wanted(name)))


async def _look_at(pins: Pins, servers: Sequence[ServerTable]) -> list[Look]:
    """Ask one server after the other, so that an error is of the first that has one."""
    from tercet.tools.mcp.link import Link  # noqa: PLC0415 - the SDK is an extra

    looks: list[Look] = []
    for server in servers:
        link = await Link.opened(server.spec, pins.folder, within_ms=server.start_timeout_ms)
        await link.aclose()
        live = taken(server, link.definitions)
        looks.append(
            Look(server=server, protocol=link.protocol, live=live, changes=pins.changes(server, live))
        )
    return looks


def _show(screen: Screen, looks: Sequence[Look]) -> None:
    for look in looks:
        head = f"{look.server.name}: {count(len(look.live), 'tool')}, protocol {look.protocol}"
        mark = ("! ", "bold yellow") if look.changes else ("✓ ", "bold green")
        told = count(len(look.changes), "change") if look.changes else "as pinned"
        screen.say(Text.assemble(mark, (head, "bold"), f", {told}"))
        show_changes(screen, look.changes)


def _is_accepted(servers: int) -> bool:
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return typer.confirm(f"Accept what {count(servers, 'server')} would have a planner read?", default=False)


def _write(pins: Pins, looks: Sequence[Look]) -> None:
    lock, now, who = pins.lock, timestamp(SystemClock().now()), case.local_user()
    for look in looks:
        lock = lock.pinned(look.server.name, look.live, by=who, at=now)
    write_lock(pins.folder, lock)


def _tell(screen: Screen, pack: Path, *, is_accepted: bool) -> None:
    if is_accepted:
        screen.say(
            Text.assemble(("✓ ", "bold green"), f"pinned in {LOCK_FILE}; the pack has another hash now")
        )
        screen.show_command(f"tercet check {pack}")
    else:
        screen.say(Text.assemble(("✗ ", "bold red"), "nothing was written; to accept it:"))
        screen.show_command(f"tercet tools pin {pack} --yes")
