"""A secret of the environment is in no journal, no log and no error, whatever a service does with it."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.plan import Plan
from tercet.contracts.request import Actor, Request
from tercet.packs.pack import Pack
from tercet.runtime import Runtime
from tercet.tools.http.service import World
from tools.loopback import Heard, Loopback, respond, serving

PLANTED = "tk_5f0e9c1b7a3d2846"
RUNS = 1_000
EACH = 4
AUTH = [{"header": "Authorization", "env": "THINGS_TOKEN", "prefix": "Bearer "}]


async def echo(heard: Heard, writer: asyncio.StreamWriter) -> None:
    """A service that tells everybody what it was told, in another place each time."""
    token = heard.headers["authorization"].removeprefix("Bearer ")
    kind = int(heard.path.rpartition("/")[2]) % 10
    packed = base64.b64encode(f"token {token}".encode()).decode()
    answers = {
        0: respond({"id": 1, "note": f"you said Bearer {token}"}),
        1: respond({"id": 1, token: packed}),
        2: respond(status="403 Forbidden", body=f"token {token} may not".encode()),
        3: respond(status="500 Oops", body=json.dumps({"headers": dict(heard.headers)}).encode()),
        4: respond(status=f"200 {token}", headers={"x-echo": token}),
        5: respond(body=f"<html>{token}".encode()),
        6: respond(status="302 Found", headers={"location": f"http://{token}.example.test/"}, body=b""),
        7: f"HTTP/1.1 200 OK\r\n{token} no header\r\n\r\n".encode(),
        8: respond({"id": token}),
        9: f"{token}\r\n\r\n".encode(),
    }
    writer.write(answers[kind])


def build(service: Loopback) -> Pack:
    """A pack whose tools call the service with the secret; many, since the breaker of one would open after five."""
    world = World(environment={"THINGS_TOKEN": PLANTED})
    many = [{"operation": "getThing", "name": f"get{number}"} for number in range(RUNS // EACH)]
    tools = service.tools(auth=AUTH, world=world, operations=many)
    return Pack.model_validate(
        {
            "name": "things",
            "version": "1.0.0",
            "tools": [tool for name, tool in tools.items() if name.startswith("get")],
            "decisions": [{"id": "look", "risk_tier": "low"}],
            "budget": {"max_step_retries": 0},
        }
    )


async def run_once(runtime: Runtime, number: int) -> str:
    """What a caller sees of one run."""
    step: dict[str, Any] = {"id": "a", "tool": f"things.get{number // EACH}", "params": {"id": str(number)}}
    plan = Plan.model_validate({"plan_id": f"p{number}", "intent": "look", "steps": [step]})
    result = await runtime.run(Request(intent="look", input={}), plan=plan, actor=Actor(id="ada"))
    return f"{result.status} {result!r}"


async def run_all(journal: Path) -> tuple[list[str], int]:
    """What callers see of all runs, and how many requests carried the secret."""
    async with serving(echo) as service:
        seen: list[str] = []
        async with Runtime(build(service), f"sqlite:///{journal}") as runtime:
            for start in range(0, RUNS, 50):
                batch = (run_once(runtime, number) for number in range(start, start + 50))
                seen += await asyncio.gather(*batch)
        return seen, sum(PLANTED in heard.headers["authorization"] for heard in service.heard)


def test_a_planted_secret_is_found_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """After a thousand runs, most of which came to nothing, neither the files of the journal nor any log or answer holds it."""
    caplog.set_level(logging.DEBUG)
    seen, sent = asyncio.run(run_all(tmp_path / "journal.db"))
    assert (len(seen), sent) == (RUNS, RUNS)
    assert {text.split(" ")[0] for text in seen} == {"completed", "paused"}
    spellings = [PLANTED, PLANTED.upper(), base64.b64encode(PLANTED.encode()).decode()[:-3]]
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"[redacted]" in stored
    told = "".join(seen) + caplog.text + "".join(capfd.readouterr())
    assert "http_403" in stored.decode("latin-1")
    for spelling in spellings:
        assert spelling.encode() not in stored
        assert spelling not in told
