"""Tools and changes of their definitions, on the screen and as JSON. What servers say is other people's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.text import Text

from tercet.cli.screen import Screen
from tercet.cli.text import count, json_text, printable
from tercet.contracts.errors import PackError
from tercet.packs.loading import read_folder
from tercet.packs.lock import Pins, read_pins
from tercet.tools.mcp.server import Change, Definition, McpServer, ServerSpec, tool_name
from tercet.tools.tool import Tool

_SHOWN = 2_000
_LEAD = 60
_FIELDS = ("description", "inputSchema", "outputSchema", "annotations")


def list_json(pack: Path) -> list[dict[str, Any]]:
    """The tools of a pack folder, in the order of their names; raises `PackError` if it is none."""
    loaded = read_folder(pack)
    if not loaded.is_pack:
        raise PackError(loaded.problems)
    rows = [_row(tool) for tool in loaded.tools]
    known = {str(row["name"]) for row in rows}
    with suppress(PackError):  # what is wrong with the file is what `tercet check` tells
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
    """Prints a line or two for each tool."""
    for row in rows:
        pin = {None: "", True: "  pinned", False: "  NOT PINNED"}[row["is_pinned"]]
        name = (printable(str(row["name"]), 200), "bold")
        style = "bold red" if row["is_pinned"] is False else "green"
        source = (f"  {printable(str(row['source']), 120)}", "dim")
        trust = ("  results trusted by default" if row["is_trust_assumed"] else "", "yellow")
        screen.say(Text.assemble("· ", name, f"  {row['mode']}", source, (pin, style), trust))
        if row["description"]:
            screen.put(printable(str(row["description"]), 200), first="    ")
    if not rows:
        screen.say("The pack has no tools.")


def change_json(change: Change) -> dict[str, Any]:
    """A change for programs."""
    return {"tool": change.tool, "field": change.field, "old": change.old, "new": change.new}


def show_changes(screen: Screen, changes: Sequence[Change]) -> None:
    """Prints what has changed: each field with what it was and what it is."""
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
    """How many letters at the beginning are not shown: where two long texts part must be seen."""
    pairs = enumerate(zip(old, new, strict=False))
    parting = next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))
    return parting - _LEAD if parting > _SHOWN // 2 else 0


def _side(screen: Screen, mark: str, text: str, style: str, skipped: int = 0) -> None:
    shown = printable(text[skipped : skipped + _SHOWN], _SHOWN)
    missing = max(0, len(text) - skipped - _SHOWN) + skipped
    left_out = f" ({count(missing, 'letter')} left out; --json has them)" if missing else ""
    screen.put(Text(f"{'…' * bool(skipped)}{shown}{left_out}", style=style), first=f"  {mark}", rest="      ")
