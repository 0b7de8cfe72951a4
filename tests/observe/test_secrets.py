"""What is in parameters, results, errors, prompts, notes and the environment is in no span, no metric and no log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.oracle import GOOD, ORDER, planner, scripted, shop
from engine.workshop import ADA, BOB, Workshop, plan, step
from tercet.contracts.errors import NotDone
from tercet.contracts.request import Actor, Request
from tercet.observe import Sampling, Telemetry, TelemetrySettings
from tercet.tools import ToolContext

from .receiver import Receiver

PLANTED = "tk_5f0e9c1b7a3d2846"


def test_a_planted_secret_is_told_nowhere(
    workshop: Workshop, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in the input, in parameters, results, errors and their codes, notes, names of people and the
    environment; spans, metrics and log are full of everything else."""
    monkeypatch.setenv("SHOP_TOKEN", PLANTED)
    log = tmp_path / "runs.jsonl"

    async def leak(context: ToolContext, params: dict[str, Any]) -> Any:
        if context.attempt == 1:
            raise NotDone(f"the token {PLANTED} is refused", code=f"bad token {PLANTED}")
        return {"echo": params, "token": PLANTED}

    async def broken(_: ToolContext, __: dict[str, Any]) -> Any:
        raise ValueError(f"no {PLANTED}")

    workshop.tool("shop.leak", leak, idempotent=True)
    workshop.tool("shop.broken", broken, mode="read_only")
    workshop.tool("shop.pay", mode="destructive", gates=["BOSS"], authority=(), no_compensation="by hand")
    pack = workshop.pack(gates=({"name": "BOSS", "roles": ["boss"]},))
    told = plan(
        step("leak", "shop.leak", params={"n": {"deep": [PLANTED]}}),
        step("broken", "shop.broken", params={"n": PLANTED}, optional=True),
        step("pay", "shop.pay", params={"to": PLANTED}, depends_on=["leak"]),
        outputs={"token": {"$from": "leak#/token"}},
    )
    settings = TelemetrySettings(
        otlp=True, prometheus_port=0, log=log, sampling=Sampling(1.0), flush_ms=20_000
    )

    async def main() -> None:
        async with Telemetry(settings) as telemetry, workshop.runtime(pack, observers=[telemetry]) as runtime:
            request = Request(intent="work", input={"token": PLANTED})
            first = await runtime.run(request, plan=told, actor=Actor(id=f"ada {PLANTED}"))
            assert first.gate is not None
            boss = Actor(id=f"bob {PLANTED}", roles=("boss",))
            await runtime.approve(first.gate.id, actor=boss, note=PLANTED)
            done = await runtime.resume(first.session_id)
            assert done.outputs == {"token": PLANTED}
            await runtime.cancel(
                (await runtime.run(request, plan=told, actor=ADA)).session_id, actor=BOB, note=PLANTED
            )

    workshop.run(main())
    demand_silence(receiver, log)
    assert receiver.named("execute_tool shop.leak")


def test_what_models_are_told_and_say_stays_here(
    workshop: Workshop, receiver: Receiver, tmp_path: Path
) -> None:
    """Neither a prompt nor an answer leaves, only their lengths in tokens."""
    log = tmp_path / "runs.jsonl"
    pack = shop(workshop)
    order = ORDER.model_copy(update={"input": {**ORDER.input, "note": PLANTED}})
    settings = TelemetrySettings(otlp=True, log=log, sampling=Sampling(1.0), flush_ms=20_000)
    model = scripted(json.dumps({**GOOD, "note": PLANTED}), GOOD)

    async def main() -> None:
        async with Telemetry(settings) as telemetry, workshop.runtime(pack, observers=[telemetry]) as runtime:
            assert (await runtime.run(order, planner=planner(model), actor=ADA)).status == "completed"

    workshop.run(main())
    assert any(PLANTED in message.text for question in model.questions for message in question.messages)
    demand_silence(receiver, log)
    assert receiver.named("chat one")


def demand_silence(receiver: Receiver, log: Path) -> None:
    """The secret was told to nobody, and much else was."""
    everything = b"".join(receiver.raw) + log.read_bytes()
    assert len(receiver.spans) > 10
    assert len(log.read_bytes().splitlines()) > 10
    assert PLANTED.encode() not in everything
