"""Wrong use from Python is told in words, with what to do, and starts nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from tercet.contracts.errors import PlanError, UsageError
from tercet.runtime import Runtime

from .workshop import ADA, ASK, Workshop, plan, step

DO = plan(step("a"))
Use = Callable[[Any], Coroutine[Any, Any, Any]]

UNOPENED: dict[str, Use] = {
    "run": lambda runtime: runtime.run(ASK, plan=DO),
    "resume": lambda runtime: runtime.resume("ses_1"),
    "approve": lambda runtime: runtime.approve("ses_1.g1", actor=ADA),
    "sessions": lambda runtime: runtime.sessions(),
    "halt": lambda runtime: runtime.halt("tool", "do.it", actor=ADA),
    "sweep": lambda runtime: runtime.sweep(),
}


@pytest.mark.parametrize("name", UNOPENED)
def test_a_runtime_that_is_not_open_says_so(workshop: Workshop, name: str) -> None:
    """Whatever is asked of it, the answer is how to open it."""
    workshop.tool("do.it")
    runtime = Runtime(workshop.pack())
    with pytest.raises(UsageError, match="not open") as caught:
        asyncio.run(UNOPENED[name](runtime))
    assert caught.value.code == "not_open"
    assert "async with" in (caught.value.remedy or "")
    assert not hasattr(runtime, "no_such_thing")


WRONG: dict[str, Use] = {
    "wrong_request": lambda runtime: runtime.run("work", plan=DO),
    "wrong_request: missing": lambda runtime: runtime.run({"input": {}}, plan=DO),
    "wrong_request: unknown": lambda runtime: runtime.run({"intent": "work", "inputs": {}}, plan=DO),
    "wrong_envelope": lambda runtime: runtime.invoke(ASK),
    "wrong_envelope: unknown": lambda runtime: runtime.invoke({"request": {"intent": "work"}, "mood": 1}),
    "wrong_plan": lambda runtime: runtime.run(ASK, plan=[step("a")]),
    "wrong_actor": lambda runtime: runtime.run(ASK, plan=DO, actor="ada"),
    "wrong_actor: answer": lambda runtime: runtime.approve("ses_1.g1", actor="ada"),
    "wrong_actor: cancel": lambda runtime: runtime.cancel("ses_1", actor=None),
    "wrong_actor: stop": lambda runtime: runtime.halt("tool", "do.it", actor="ada"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_handed_in_wrongly_is_wrong_use(workshop: Workshop, name: str) -> None:
    """A typed answer with a word for it and what to write instead; no session is begun."""
    workshop.tool("do.it")

    async with workshop.runtime(workshop.pack()) as runtime:
        with pytest.raises(UsageError) as caught:
            await WRONG[name](runtime)
        assert caught.value.code == name.partition(":")[0]
        assert caught.value.remedy
        assert await runtime.sessions() == []


async def test_dicts_are_read_like_what_they_stand_for(workshop: Workshop) -> None:
    """Request, plan and actor as dicts: the run is the same, and a plan with a wrong field names it."""
    workshop.tool("do.it")
    fields = {"intent": "work", "input": {"order": "o1"}}

    async with workshop.runtime(workshop.pack()) as runtime:
        made: dict[str, Any] = {"intent": "work", "steps": [{"id": "a", "tool": "do.it", "params": {}}]}
        result = await runtime.run(fields, plan=made, actor={"id": "ada"})
        assert result.status == "completed"
        assert (await runtime.state(result.session_id)).start.actor["id"] == "ada"
        with pytest.raises(PlanError, match="stepz"):
            await runtime.run(fields, plan={**made, "stepz": []})
    assert workshop.calls == [("a", 1)]


@pytest.mark.parametrize("given", ["examples/refunds", Path("examples/refunds"), None])
def test_a_path_is_no_pack(given: Any) -> None:
    """Loading a pack runs its code, so it is done by name."""
    with pytest.raises(UsageError) as caught:
        Runtime(given)
    assert caught.value.code == "wrong_pack"
    assert "Pack.load(" in (caught.value.remedy or "")


def test_a_path_is_no_journal(workshop: Workshop) -> None:
    """A journal has an address; the answer says which it would be."""
    with pytest.raises(UsageError) as caught:
        Runtime(workshop.pack(), cast("Any", Path("runs.db")))
    assert caught.value.code == "wrong_journal"
    assert "sqlite:///runs.db" in (caught.value.remedy or "")
