"""An MCP server of the SDK behind a URL: `python http_mcp.py PORT LOG`. It prints its port once it listens.

It asks for a header, and writes down each call.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import MCPServer

TOKEN = "open-sesame"  # noqa: S105 - an invented one
app = MCPServer("http")


def log(line: str) -> None:
    """Write down what happened, so that it outlives this process."""
    with Path(sys.argv[2]).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


@app.tool()
async def echo(word: str) -> dict[str, str]:
    """Says a word again."""
    log(f"echo {word}")
    return {"word": word}


@app.tool()
async def stall() -> str:
    """Takes for ever."""
    log("stall")
    await asyncio.sleep(600)
    return "never"


@app.tool()
async def big(size: int) -> str:
    """Says a lot."""
    log("big")
    return "x" * size


def guarded(inner: Any) -> Any:
    """The same server for those who have the token."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"x-token") != TOKEN.encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
            return
        await inner(scope, receive, send)

    return serve


def main() -> None:
    """Listen on a port of this machine."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen()
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - the test reads it
    config = uvicorn.Config(guarded(app.streamable_http_app()), log_level="critical")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
