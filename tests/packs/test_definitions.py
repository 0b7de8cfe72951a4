"""The hash of a pack built in Python covers what its commands run and what its HTTP tools request."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.outputs.quality_rules import QualityRules
from tercet.contracts.plan import Plan, Step
from tercet.contracts.request import Actor, Request
from tercet.contracts.values.canonical import canonical, hash_bytes
from tercet.journal.memory import MemoryJournal
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack
from tercet.runtime import Runtime
from tercet.tools.commands import Command, command_tool
from tercet.tools.openapi import Document, Service, openapi_tools
from tercet.tools.tool import Tool

TEXT = {"type": "string"}


def pack_of(*tools: Tool) -> Pack:
    """A pack with these tools."""
    gates = (Gate(name="BOSS", roles=("boss",)),)
    return Pack(
        name="p",
        version="1.0.0",
        safety_mode=ApprovalMode.DESTRUCTIVE,
        tools=tools,
        gates=gates,
        decisions=(DecisionSpec(id="d"),),
    )


def command(**changes: Any) -> Tool:
    """A command that prints a word."""
    fields: dict[str, Any] = {"name": "say.it", "argv": ("echo", "${word}"), "parameters": {"word": TEXT}}
    said = {"gates": ("BOSS",), "no_compensation": "said is said"}
    return command_tool(Command.model_validate({**fields, **said, **changes}))


def service(path: str = "/hour", where: str = "query", **changes: Any) -> Tool:
    """A service that tells the hour."""
    fields: dict[str, Any] = {
        "name": "clock",
        "description": "clock.json",
        "base_url": "https://time.example.test",
        "egress": ("time.example.test:443", "other.example.test:443"),
        "operations": "all",
        "auth": {"env": "CLOCK_KEY"},
    }
    hour = {
        "operationId": "hour",
        "parameters": [{"name": "zone", "in": where, "schema": TEXT}],
        "responses": {"200": {"content": {"application/json": {"schema": {"type": "integer"}}}}},
    }
    document = Document({"openapi": "3.1.0", "paths": {path: {"get": hour}}})
    [tool] = openapi_tools(Service.model_validate({**fields, **changes}), document)
    return tool


@pytest.mark.parametrize(
    "changes",
    [
        {"argv": ("echo", "-n", "${word}")},
        {"argv": ("printf", "${word}")},
        {"cwd": "/srv"},
        {"env": ("PATH",)},
        {"secrets": ("KEY",)},
        {"done": (0, 1)},
        {"stdin": "json"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_pack_hash_changes_with_what_a_command_runs(changes: dict[str, Any]) -> None:
    """Nothing of it stands in the declaration that a plan is judged by."""
    before, after = pack_of(command()), pack_of(command(**changes))
    assert before.tools[0].hash == after.tools[0].hash
    assert pack_of(command()).hash == before.hash != after.hash


@pytest.mark.parametrize(
    "changes",
    [
        {"base_url": "https://other.example.test"},
        {"base_url": "https://time.example.test/v2"},
        {"headers": {"X-Realm": "a"}},
        {"auth": {"env": "OTHER_KEY"}},
        {"auth": {"env": "CLOCK_KEY", "header": "X-Key"}},
        {"idempotency_header": ""},
        {"path": "/minute"},
        {"where": "header"},
    ],
    ids=["host", "base path", "header", "variable", "header of a secret", "key", "path", "place"],
)
def test_the_pack_hash_changes_with_what_a_tool_requests(changes: dict[str, Any]) -> None:
    """Where a request goes, under which headers, and where its values stand in it."""
    before, after = pack_of(service()), pack_of(service(**changes))
    assert before.tools[0].hash == after.tools[0].hash
    assert pack_of(service()).hash == before.hash != after.hash


def test_recorded_declarations_of_such_a_pack_have_its_hash() -> None:
    """A replay knows the pack by what its session has kept of it."""
    pack = pack_of(command(), service())
    assert read_declarations(pack.content).hash == pack.hash


def test_declarations_with_rules_of_earlier_versions_are_read_under_their_own_hash() -> None:
    """Rules about outputs that are gone judge nothing any more; what they judged is in the record."""
    rules = QualityRules(task_class="letter")
    written = Pack(name="p", version="1.0.0", decisions=(DecisionSpec(id="d", quality=rules),))
    declared = json.loads(written.content)
    declared["decisions"][0]["quality"] |= {
        "required_facts": ["order#/total"],
        "repair": {"redaction": "sentence"},
    }
    recorded = canonical(declared)
    pack = read_declarations(recorded)
    assert pack.hash == hash_bytes(recorded) != written.hash
    assert pack.decisions[0].quality == rules


def test_an_approval_of_a_command_does_not_cover_another_one() -> None:
    """The digest holds the pack's hash, and a session does not go on with another pack."""
    plan = Plan(steps=(Step(id="a", tool="say.it", params={"word": {"$from": "request#/word"}}),))

    async def main() -> None:
        journal = MemoryJournal()
        async with Runtime(pack_of(command()), journal=journal) as runtime:
            result = await runtime.run(
                Request(intent="d", input={"word": "hi"}), plan=plan, actor=Actor(id="ada")
            )
            assert result.gate is not None
        async with Runtime(pack_of(command(argv=("rm", "${word}"))), journal=journal) as runtime:
            with pytest.raises(UsageError) as caught:
                await runtime.resume(result.session_id)
            assert caught.value.code == "pack_version_mismatch"

    asyncio.run(main())
