"""`tercet tools`: the tools of a pack, and pinning the definitions of MCP tools."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.options import AsJson, PackFolder, argument, flag
from tercet.cli.screen import Screen, print_json, respond
from tercet.cli.sessions import people
from tercet.contracts.errors import PackError
from tercet.core.transcript import timestamp
from tercet.executor.clock import SystemClock
from tercet.packs.declarations import ServerTable
from tercet.packs.loading import read_folder
from tercet.packs.mcp_tools import LOCK_FILE, Pins, read_pins, taken, write_lock
from tercet.tools.mcp.server import Change, Definition, McpServer, ServerSpec, demand_sdk, tool_name
from tercet.tools.tool import Tool
from tercet.view.terminal.text import count, json_text, printable

LIST_TOOLS_EXAMPLES = """\
tercet tools list examples/mcp
tercet tools list examples/mcp --json
"""
PIN_EXAMPLES = """\
tercet tools pin examples/mcp
tercet tools pin examples/mcp depot --yes
"""
DIFF_EXAMPLES = "tercet tools diff examples/mcp\n"

ServerName = Annotated[
    str | None, argument("SERVER", "An MCP server of the pack; by default all of them.", show_default=False)
]


@dataclass(frozen=True, kw_only=True)
class ServerTools:
    """The tools that a server offers, and how they differ from the pinned ones."""

    server: ServerTable
    protocol: str
    live: dict[str, Definition]
    changes: tuple[Change, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the tools and the differences as JSON."""
        return {
            "server": self.server.name,
            "protocol": self.protocol,
            "tools": sorted(self.live),
            "changes": [change._asdict() for change in self.changes],
        }


def list_tools(pack: PackFolder, *, as_json: AsJson = False) -> ExitCode:
    """List the tools of a pack, with mode, origin and pin.

    Nothing is started. Tools of MCP servers that are declared but not pinned yet are listed too.
    """
    rows = list_json(pack)
    document = {"folder": str(pack), "tools": rows}
    return respond(lambda: document, lambda screen: show_tools(screen, rows), as_json=as_json)


def diff(pack: PackFolder, server: ServerName = None, *, as_json: AsJson = False) -> ExitCode:
    """Compare the tools of MCP servers with what is pinned.

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
    yes: Annotated[bool, flag("Accept the changes without asking.", "--yes")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Pin the tools of a pack's MCP servers, after you accept them.

    The differences from what is pinned are shown first. Only pinned tools can be used, and a server that later offers
    another definition is refused before anything is called. Read what you accept: a planner will. Without a terminal
    and without --yes nothing is written, and it exits with 3 if there is something to accept.
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


def _look(pins: Pins, name: str | None) -> list[ServerTools]:
    demand_sdk()
    return asyncio.run(_look_at(pins, pins.wanted(name)))


async def _look_at(pins: Pins, servers: Sequence[ServerTable]) -> list[ServerTools]:
    """Ask one server after the other, so that the first error is reported."""
    from tercet.tools.mcp.link import Link  # noqa: PLC0415 - the SDK is an extra

    looks: list[ServerTools] = []
    for server in servers:
        link = await Link.opened(server.spec, pins.folder, within_ms=server.start_timeout_ms)
        await link.aclose()
        live = taken(server, link.definitions)
        looks.append(
            ServerTools(server=server, protocol=link.protocol, live=live, changes=pins.changes(server, live))
        )
    return looks


def _show(screen: Screen, looks: Sequence[ServerTools]) -> None:
    for look in looks:
        head = f"{look.server.name}: {count(len(look.live), 'tool')}, protocol {look.protocol}"
        mark = ("! ", "bold yellow") if look.changes else ("✓ ", "bold green")
        told = count(len(look.changes), "change") if look.changes else "as pinned"
        screen.say(Text.assemble(mark, (head, "bold"), f", {told}"))
        show_changes(screen, look.changes)


def _is_accepted(servers: int) -> bool:
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return typer.confirm(f"Accept what {count(servers, 'server')} offers to the planner?", default=False)


def _write(pins: Pins, looks: Sequence[ServerTools]) -> None:
    lock, now, who = pins.lock, timestamp(SystemClock().now()), people.login_name()
    for look in looks:
        lock = lock.pinned(look.server.name, look.live, by=who, at=now)
    write_lock(pins.folder, lock)


def _tell(screen: Screen, pack: Path, *, is_accepted: bool) -> None:
    if is_accepted:
        screen.conclude(f"pinned in {LOCK_FILE}; the pack has another hash now")
        screen.show_command(f"tercet check {pack}")
    else:
        screen.say(Text.assemble(("✗ ", "bold red"), "nothing was written; to accept it:"))
        screen.show_command(f"tercet tools pin {pack} --yes")


# --- on the screen ---


_SHOWN = 2_000
_LEAD = 60
_FIELDS = ("description", "inputSchema", "outputSchema", "annotations")


def list_json(pack: Path) -> list[dict[str, Any]]:
    """Return the tools of a pack folder in the order of their names; raise `PackError` if it is not a pack."""
    loaded = read_folder(pack)
    if not loaded.is_pack:
        raise PackError(loaded.problems)
    rows = [_row(tool) for tool in loaded.tools]
    known = {str(row["name"]) for row in rows}
    with suppress(PackError):  # `tercet check` reports what is wrong with the file
        rows += [row for row in _unpinned(read_pins(pack)) if row["name"] not in known]
    return sorted(rows, key=lambda row: str(row["name"]))


def _row(tool: Tool) -> dict[str, Any]:
    server = tool.outside if isinstance(tool.outside, McpServer) else None
    definition = None if server is None else server.pinned[server.names[tool.name]]
    return {
        "name": tool.name,
        "mode": tool.mode.value,
        "reversibility": tool.effective_reversibility.value,
        "adapter": tool.adapter,
        "source": tool.adapter if server is None else _source(server.spec),
        "is_pinned": None if definition is None else True,
        "hash": tool.hash if definition is None else definition.hash,
        "description": tool.description,
        "trust": tool.result_trust.value,
        "is_trust_assumed": tool.is_trust_assumed,
    }


def _unpinned(pins: Pins) -> Iterator[dict[str, Any]]:
    for server in pins.servers:
        pinned = pins.lock.definitions(server.name)
        names = dict.fromkeys((*(server.tools or ()), *(label.name for label in server.tool)))
        for name in names:
            if name not in pinned:
                yield {
                    "name": tool_name(server.name, name),
                    "mode": "destructive",
                    "reversibility": "irreversible",
                    "adapter": "mcp",
                    "source": _source(server.spec),
                    "is_pinned": False,
                    "hash": None,
                    "description": "",
                    "trust": "untrusted",
                    "is_trust_assumed": False,
                }


def _source(spec: ServerSpec) -> str:
    return f"mcp {spec.name}: {spec.url or ' '.join(spec.command or ())}"


def show_tools(screen: Screen, rows: Sequence[dict[str, Any]]) -> None:
    """Print one or two lines for each tool."""
    for row in rows:
        pin = {None: "", True: "  pinned", False: "  NOT PINNED"}[row["is_pinned"]]
        name = (printable(str(row["name"]), 200), "bold")
        style = "bold red" if row["is_pinned"] is False else "green"
        source = (f"  {printable(str(row['source']), 120)}", "dim")
        trust = ("  results trusted by default" if row["is_trust_assumed"] else "", "yellow")
        screen.say(Text.assemble("· ", name, f"  {row['mode']}", source, (pin, style), trust))
        if row["description"]:
            summary = str(row["description"]).partition("\n\n")[0]
            screen.put(printable(" ".join(summary.split()), 200), first="    ")
    if not rows:
        screen.say("The pack has no tools.")


def show_changes(screen: Screen, changes: Sequence[Change]) -> None:
    """Print each changed field with its old and its new value."""
    for change in changes:
        name = (printable(change.tool, 200), "bold")
        if change.field:
            screen.put(Text.assemble(name, f", {printable(change.field, 200)}:"), first="  ! ")
            old, new = _shown(change.old), _shown(change.new)
            skipped = _shared(old, new)
            _side(screen, "  - ", old, "red", skipped)
            _side(screen, "  + ", new, "green", skipped)
        elif change.old is None:
            screen.put(Text.assemble(name, " is new"), first="  + ")
            _show_definition(screen, change.new)
        else:
            screen.put(Text.assemble(name, " is gone"), first="  - ")


def _show_definition(screen: Screen, dumped: dict[str, Any]) -> None:
    mode, hint = Definition.read(dumped).least_mode
    for field in _FIELDS:
        if field in dumped:
            _side(screen, f"  {field}: ", _shown(dumped[field]), "")
    if hint:
        screen.put(f"its {hint} makes it at least {mode}", first="      ")


def _shown(value: Any) -> str:
    if value is None:
        return "(nothing)"
    return value if isinstance(value, str) else json_text(value, indent=None)


def _shared(old: str, new: str) -> int:
    """Return how many letters to skip at the start of two long texts, so that their first difference is shown."""
    pairs = enumerate(zip(old, new, strict=False))
    parting = next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))
    return parting - _LEAD if parting > _SHOWN // 2 else 0


def _side(screen: Screen, mark: str, text: str, style: str, skipped: int = 0) -> None:
    shown = printable(text[skipped : skipped + _SHOWN], _SHOWN)
    missing = max(0, len(text) - skipped - _SHOWN) + skipped
    left_out = f" ({count(missing, 'letter')} left out; --json has them)" if missing else ""
    screen.put(Text(f"{'…' * bool(skipped)}{shown}{left_out}", style=style), first=f"  {mark}", rest="      ")
