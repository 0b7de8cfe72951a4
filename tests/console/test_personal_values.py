"""Personal values in the console: people see them where they are shown, until their subject is erased."""

from __future__ import annotations

from typing import Any

from console.desk import Browser, ConsoleDesk, open_console
from tercet import tool
from tercet.console.session import TABS
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.gate import Gate
from tercet.contracts.personal import PersonalMarks
from tercet.packs.pack import Pack

NAME, OTHER_NAME = "Mira Jansen-Planted", "Mira de Vries"


def greetings() -> tuple[Pack, list[str]]:
    """A pack that greets a customer by name, at a gate, and the names that it greeted."""
    greeted: list[str] = []

    @tool("crm.greet", mode="local_write", no_compensation="greetings stay", gates=["LEAD"], authority=[])
    def greet(name: str) -> dict[str, str]:
        greeted.append(name)
        return {"said": f"hello {name}"}

    marks = {"subject": "customer_id", "request": ["name"], "tools": {"crm.greet": {"params": ["name"]}}}
    pack = Pack(
        name="greetings",
        version="1.0.0",
        tools=[greet],
        decisions=[DecisionSpec(id="greet")],
        gates=[Gate(name="LEAD", roles=("lead",))],
        personal=PersonalMarks.model_validate(marks),
    )
    return pack, greeted


PLAN: dict[str, Any] = {
    "intent": "greet",
    "steps": [{"id": "a", "tool": "crm.greet", "params": {"name": {"$from": "request#/name"}}}],
    "outputs": {"said": {"$from": "a#/said"}},
}


async def _start(desk: ConsoleDesk) -> str:
    request = {"intent": "greet", "input": {"customer_id": "cus_7", "name": NAME}}
    found = await desk.rpc(await desk.key("agt_desk"), "invokeAgent", request=request, plan=PLAN)
    return found["gates"][0]


async def _pages(browser: Browser, session: str, gate: str) -> dict[str, str]:
    paths = [
        "", f"/gates/{gate}", f"/compare?a={session}&b={session}",
        *(f"/sessions/{session}?tab={tab}" for tab in TABS),
    ]  # fmt: skip
    return {path: (await browser.get(f"/console{path}")).text for path in paths}


async def test_an_approver_sees_the_personal_values_of_a_call_until_they_are_erased() -> None:
    pack, greeted = greetings()
    async with open_console(None, pack) as desk:
        gate = await _start(desk)
        session = gate.rpartition(".")[0]
        lead = await desk.person("lead", roles=("lead",))
        waiting = await _pages(lead, session, gate)
        assert [path for path, text in waiting.items() if "[personal:" in text] == []
        assert all(NAME in waiting[path] for path in ("", f"/gates/{gate}", f"/sessions/{session}?tab=plan"))
        page = await lead.get(f"/console/gates/{gate}")
        same = await lead.send(page, f"/console/gates/{gate}/answer", answer="set_values", note="x")
        assert "nothing_changed" in same.text
        await lead.send(page, f"/console/gates/{gate}/answer", answer="approve")
        await desk.until(await desk.key("agt_desk"), session, "completed")
        assert greeted == [NAME]
        ended = await _pages(lead, session, gate)
        assert f"hello {NAME}" in ended[f"/sessions/{session}?tab=transcript"]
        operator = await desk.key("opal", scopes=("operate", "read"))
        assert "erased" in await desk.rpc(operator, "eraseSubject", subject="cus_7")
        erased = await _pages(lead, session, gate)
        assert [path for path, text in {**ended, **erased}.items() if "[personal:" in text] == []
        assert [path for path, text in erased.items() if NAME in text] == []
        assert "hello erased" in erased[f"/sessions/{session}?tab=transcript"]


async def test_another_personal_value_that_a_person_sets_is_what_the_tool_gets() -> None:
    pack, greeted = greetings()
    async with open_console(None, pack) as desk:
        gate = await _start(desk)
        session = gate.rpartition(".")[0]
        lead, deputy = [await desk.person(name, roles=("lead",)) for name in ("lead", "deputy")]
        page = await lead.get(f"/console/gates/{gate}")
        path = f"/console/gates/{gate}/answer"
        changed = await lead.send(
            page, path, answer="set_values", note="she married", **{"set:name": OTHER_NAME}
        )
        assert changed.status_code == 200, changed.text
        key = await desk.key("agt_desk")
        second = await desk.next_gate(key, session, gate)
        page = await deputy.get(f"/console/gates/{second}")
        assert OTHER_NAME in page.text
        await deputy.send(page, f"/console/gates/{second}/answer", answer="approve")
        await desk.until(key, session, "completed")
        assert greeted == [OTHER_NAME]
