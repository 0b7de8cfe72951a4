"""A raw MCP server for one test: what it says, what it wrote down, and the pack's view of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tercet.tools import Tool, ToolContext
from tercet.tools.mcp import Definition, McpServer
from tercet.tools.mcp.server import ServerSpec, call_without_runtime, tool_name

SCRIPT = Path(__file__).with_name("raw_mcp.py")


def definition(name: str, description: str = "Does what its name says.", **more: Any) -> dict[str, Any]:
    """A tool in the words of the protocol."""
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


@dataclass
class Raw:
    """The configuration of a raw server, in a folder of its own."""

    folder: Path
    said: dict[str, Any] = field(default_factory=dict[str, Any])
    spec: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        self.say(tools=[definition("echo")])

    def say(self, **more: Any) -> None:
        """Let the server say this from now on."""
        self.said.update(more)
        told = {"log": str(self.folder / "log"), **self.said}
        (self.folder / "raw.json").write_text(json.dumps(told), encoding="utf-8")

    def offer(self, *names: str, **more: Any) -> None:
        """Let it have these tools."""
        self.say(tools=[definition(name, **more) for name in names])

    @property
    def command(self) -> list[str]:
        """How it is started; the first word stands for the Python of these tests."""
        return ["python", str(SCRIPT), f"--config={self.folder / 'raw.json'}"]

    @property
    def server(self) -> McpServer:
        """The server as a pack declares it, with all that it says now pinned."""
        pinned = {tool["name"]: Definition.read(tool) for tool in self.said["tools"]}
        spec = ServerSpec.model_validate({"name": "raw", "command": self.command, **self.spec})
        return McpServer(spec=spec, folder=self.folder, pinned=pinned)

    @property
    def log(self) -> list[str]:
        """What the server wrote down, without where it started."""
        return [line for line in self._lines() if not line.startswith("start ")]

    @property
    def pids(self) -> list[int]:
        """The processes that it was, and its children."""
        return [int(line.removeprefix("start ")) for line in self._lines() if line.startswith("start ")]

    def _lines(self) -> Iterator[str]:
        path = self.folder / "log"
        yield from path.read_text(encoding="utf-8").splitlines() if path.exists() else ()


def tool_of(server: McpServer, name: str, mode: str = "local_write", **declared: Any) -> Tool:
    """A tool of a server, declared so."""
    fields = {"name": tool_name(server.spec.name, name), "mode": mode, "call": call_without_runtime}
    given = {"adapter": "mcp", "no_compensation": "a test", "outside": server, **declared}
    return Tool.model_validate({**fields, **given})


def context(**more: Any) -> ToolContext:
    """The context of a call."""
    fields: dict[str, Any] = {
        "tenant": "t",
        "run_id": "r",
        "step_id": "s",
        "actor": "ada",
        "idempotency_key": "key_1",
    }
    return ToolContext(**{**fields, **more})


def all_gone(pids: list[int], within_s: float = 600) -> bool:
    """Whether these processes end within a time; one that was killed takes a moment."""
    until = time.monotonic() + within_s
    while any(map(is_alive, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def is_alive(pid: int) -> bool:
    """Whether a process is there. A child of ours that has ended is, until it is asked about; one of others is not."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
    except OSError:
        return False
    return state != "Z" or int(parent) == os.getpid()
