"""An MCP server without an SDK, so that it can misbehave: `python raw_mcp.py CONFIG.json`.

The file says which tools it has, how it greets, and where it writes down each call with its idempotency key. What a tool
does is in its name. It is read anew for every list of tools, so that a test can change what the server says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CONFIG = Path(sys.argv[1].removeprefix("--config="))


def config() -> dict[str, Any]:
    """What the test says now."""
    return json.loads(CONFIG.read_text(encoding="utf-8"))


def send(message: dict[str, Any]) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def log(line: str) -> None:
    """Write down what happened, so that it outlives this process."""
    with Path(config()["log"]).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def answer(number: Any, content: Any, **more: Any) -> None:
    """Answer a call."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    send({"id": number, "result": {"content": blocks, **more}})


def call(number: Any, name: str, given: dict[str, Any], meta: dict[str, Any]) -> None:  # noqa: C901 - one table
    """Do what the name of a tool says."""
    log(f"{name} {meta.get('tercet/idempotency-key')}")
    match name:
        case "stall":
            return
        case "stall_once":
            mark = CONFIG.with_suffix(".stalled")
            if not mark.exists():
                mark.touch()
                return
            answer(number, "", structuredContent={"given": given})
        case "die":
            os._exit(9)
        case "fail":
            answer(number, f"it broke; the token is {os.environ.get('RAW_TOKEN')}", isError=True)
        case "refuse":
            answer(number, "nothing was done", isError=True, _meta={"tercet/outcome": "not_done"})
        case "text":
            answer(number, [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])
        case "picture":
            answer(number, [{"type": "image", "data": "AAAA", "mimeType": "image/png"}])
        case "big":
            answer(number, "x" * int(given["size"]))
        case "lie":
            answer(number, "", structuredContent={"total": "much"})
        case "object":
            send({"id": number, "error": {"code": -32602, "message": "the tool objects"}})
        case "garbled":
            send({"id": number, "result": {"content": "no list"}})
        case "advance":
            for done in (1, 2):
                token = {"progressToken": meta["progressToken"]}
                told = {**token, "progress": done, "total": 2, "message": f"part {done}"}
                send({"method": "notifications/progress", "params": told})
            answer(number, "", structuredContent={})
        case "announce":
            send({"method": "notifications/tools/list_changed"})
            answer(number, "", structuredContent={})
        case "token":
            answer(
                number,
                "",
                structuredContent={"token": os.environ.get("RAW_TOKEN"), "home": "HOME" in os.environ},
            )
        case _:
            traced = {"trace": meta["traceparent"]} if "traceparent" in meta else {}
            told = {"given": given, "key": meta.get("tercet/idempotency-key"), **traced}
            answer(number, "", structuredContent=told)


def serve(message: dict[str, Any]) -> None:
    """Answer one message."""
    number, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize":
            version = config().get("version", "2025-06-18")
            info = {"name": "raw", "version": "1"}
            result: dict[str, Any] = {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            send({"id": number, "result": result})
        case "tools/list":
            log("list")
            more = {"nextCursor": "again"} if config().get("endless") else {}
            send({"id": number, "result": {"tools": config()["tools"], **more}})
        case "tools/call":
            call(number, params["name"], params.get("arguments", {}), params.get("_meta", {}))
        case "notifications/cancelled":
            log("cancelled")
        case _ if number is not None:
            send({"id": number, "error": {"code": -32601, "message": "no such method"}})
        case _:
            pass


def main() -> None:
    """Greet as the test says, then answer until the input ends."""
    log(f"start {os.getpid()}")
    match config().get("greet"):
        case "silence":
            time.sleep(600)
        case "stubbornness":
            import signal  # noqa: PLC0415 - only one that does not go needs it

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "chatter":
            sys.stdout.write("Listening on port 80!\n" * int(config()["lines"]))
        case "death":
            sys.stderr.write(f"cannot open the book, token {os.environ.get('RAW_TOKEN')}\n")
            sys.exit(1)
        case "child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            log(f"start {child.pid}")
        case _:
            pass
    for line in sys.stdin:
        serve(json.loads(line))
    if config().get("greet") == "stubbornness":
        time.sleep(600)


if __name__ == "__main__":
    main()
