"""The post room of the letters: what was accepted is sent, once, to the customer of the order and to nobody else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engine.workshop import Death
from tercet import Actor, Request, Runtime
from tercet.contracts.plan import Plan
from tercet.contracts.plan_formats import load_plan
from tercet.engine.result import RunResult
from tercet.packs import Pack
from tercet.runtime import RuntimeOptions

ROOT = Path(__file__).parents[2]
LETTERS = ROOT / "examples" / "letters"
CLERK, EDITOR = Actor(id="user_desk"), Actor(id="user_editor")
ASKED = Request(intent="letters.send", input={"order_id": "ord_4471", "customer_id": "cus_17"})


def load_sink() -> ModuleType:
    """The relay of the example; it is no part of a package."""
    spec = util.spec_from_file_location("tercet_example_sink", LETTERS / "sink.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A relay that listens on this machine."""
    sink, controller = load_sink().relay(0)
    controller.start()
    monkeypatch.setenv("ALDER_FINCH_RELAY_PORT", str(controller.port))
    yield sink
    controller.stop()


async def settle(runtime: Runtime, result: RunResult) -> RunResult:
    """Let the editor approve whatever is asked."""
    while result.gate is not None:
        await runtime.approve(result.gate.id, actor=EDITOR)
        result = await runtime.resume(result.session_id)
    return result


def test_the_accepted_letter_arrives(sink: Any, tmp_path: Path) -> None:
    """The editor sees letter and address before anything is sent; what arrives is the committed output."""

    async def main() -> None:
        async with Runtime(Pack.load(LETTERS), f"sqlite:///{tmp_path / 'runs.db'}") as runtime:
            result = await runtime.run(ASKED, actor=CLERK)
            assert result.gate is not None
            assert (result.gate.step, result.gate.names, sink.letters) == ("send", ("GATE_EDITOR",), {})
            assert result.gate.shown["params"]["to"] == "asha.rao@customers.example"
            assert "The total is" in result.gate.shown["params"]["body"]
            assert result.gate.shown["judgement"]["exit"]["outcome"] == "COMMIT"
            result = await settle(runtime, result)
            assert result.status == "completed"
            [letter] = sink.letters.values()
            assert letter["To"] == "asha.rao@customers.example"
            assert letter.get_content().replace("\r\n", "\n").strip() == result.outputs["letter"].strip()
            record = await runtime.record(result.session_id)
            assert record.delivery is not None
            assert record.delivery.delivered == ("send",)
            [entry] = record.transcript
            assert entry.call.idempotency_key.replace(":", "-") in letter["Message-ID"]

    asyncio.run(main())


def test_a_letter_that_the_editor_denies_is_not_sent(sink: Any) -> None:
    async def main() -> None:
        async with Runtime(Pack.load(LETTERS)) as runtime:
            result = await runtime.run(ASKED, actor=CLERK)
            assert result.gate is not None
            await runtime.deny(result.gate.id, actor=EDITOR, note="not today")
            assert (await runtime.resume(result.session_id)).status == "rejected"
            assert sink.letters == {}

    asyncio.run(main())


@pytest.mark.parametrize(
    "to",
    [
        {"$evidence": "kg:customer:cus_18#snapshot_kg_2026_05_09_T0930#/email"},
        "eve@evil.example",
        {"$from": "outputs#/letter"},
    ],
    ids=["another customer", "a literal", "the letter itself"],
)
def test_a_letter_goes_to_the_customer_of_the_order_and_to_nobody_else(sink: Any, to: Any) -> None:
    """Whatever a plan says: an address from elsewhere is refused before anything happens."""
    assert refused_plan(to).steps[1].params["to"] == to

    async def main() -> None:
        async with Runtime(Pack.load(LETTERS)) as runtime:
            result = await runtime.run(ASKED, plan=refused_plan(to), actor=CLERK)
            verdict = (await runtime.state(result.session_id)).verdict
            assert (result.status, verdict["code"], sink.letters) == ("failed", "unbound_argument", {})

    asyncio.run(main())


def refused_plan(to: Any) -> Plan:
    """The plan of the template, with another address."""
    text = (LETTERS / "templates" / "send.json").read_text(encoding="utf-8")
    for name, value in (("input.order_id", "ord_4471"), ("input.customer_id", "cus_17"), ("snapshot", "kg_2026_05_09_T0930")):  # fmt: skip
        text = text.replace(f"${{{name}}}", value)
    plan = load_plan(text)
    read, sending = plan.steps
    changed = sending.model_copy(update={"params": {**sending.params, "to": to}})
    return plan.model_copy(update={"steps": (read, changed)})


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("point", ["before_append", "after_append", "before_call", "after_answer"])
def test_a_process_that_dies_sends_one_letter(sink: Any, tmp_path: Path, point: str, nth: int) -> None:
    """Wherever it dies around the gate and the call, the next process sends what was not sent, under the same name."""
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    async def live(runtime: Runtime, session: str) -> None:
        await settle(runtime, await runtime.resume(session))

    async def main() -> None:
        async with Runtime(Pack.load(LETTERS), url) as runtime:
            session = (await runtime.run(ASKED, actor=CLERK)).session_id
        death = Death(point, nth)
        doomed = Runtime(Pack.load(LETTERS), url, options=RuntimeOptions(crash=death, lease_ms=1_000))
        await doomed.__aenter__()
        await death.of(live(doomed, session))
        async with Runtime(Pack.load(LETTERS), url) as runtime:
            result = await settle(runtime, await runtime.resume(session))
            assert result.status == "completed"
            assert list(sink.letters) == list(sink.handed)
            assert len(sink.letters) == 1

    asyncio.run(main())


def test_the_demo_sends_a_letter() -> None:
    done = subprocess.run(
        [sys.executable, "examples/letters/send.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("gate    letters.send to asha.rao@customers.example, 0 letters sent")
    assert done.stdout.strip().endswith("completed: 1 letter sent")
