"""Every answer to a gate, sent with the forms of its page without script, and what the run then records."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from console.desk import Browser, ConsoleDesk, open_console
from console.example_runs import OPERATOR, PACKS, start
from console.works import run_works, works_pack
from tercet.core.messages import session_of
from tercet.engine.session_reader import load_state


async def _failed_after_an_effect(desk: ConsoleDesk) -> str:
    """Return the gate that asks what becomes of the effects of a run that was given up."""
    gate = await run_works(desk, "works.done", "works.bad")
    operator = await desk.key("olga", scopes=OPERATOR)
    assert "session" in await desk.rpc(operator, "decideEscalation", gate_id=gate, decision="abandon")
    return await desk.next_gate(operator, session_of(gate), gate)


async def _letter(desk: ConsoleDesk) -> str:
    _, gates = await start(
        desk, "letters.write", order_id="ord_4471", faults=["total", "claim", "key", "section"]
    )
    return gates[0]


async def _approved_by_one(desk: ConsoleDesk) -> str:
    _, gates = await start(desk, "support.refund", order_id="ord_882", window_id="rw_882")
    lead = await desk.key("user_finance_lead", roles=("finance_lead",))
    assert "session" in await desk.rpc(lead, "approveGate", gate_id=gates[0])
    return gates[0]


@dataclass(frozen=True)
class Case:
    """An answer, the gate that it is given to, and what is entered in its form."""

    answer: str
    gate: Callable[[ConsoleDesk], Awaitable[str]]
    entered: dict[str, str] = field(default_factory=dict[str, str])
    is_confirmed: bool = False
    person: tuple[str, tuple[str, ...]] = ("user_editor", ("editor",))


LEAD = ("user_finance_lead", ("finance_lead",))
CASES = (
    Case("happened", lambda desk: run_works(desk, "works.lost"), {"value": '{"id": "7"}'}),
    Case("did_not_happen", lambda desk: run_works(desk, "works.lost")),
    Case("compensate", _failed_after_an_effect, is_confirmed=True),
    Case("keep", _failed_after_an_effect, is_confirmed=True),
    Case("extend", _letter, {"more_tool_calls": "3"}),
    Case("accept_partial", _letter, is_confirmed=True),
    Case("abandon", _letter, is_confirmed=True),
    Case("withdraw", _approved_by_one, person=LEAD),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.answer)
async def test_each_answer_is_given_by_its_form(
    case: Case, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERCET_LETTERS_DB", str(shop / "letters.db"))
    async with open_console(None, *PACKS, works_pack()) as desk:
        gate = await case.gate(desk)
        name, roles = case.person
        person = await desk.person(name, roles=roles, scopes=OPERATOR)
        page = await person.get(f"/console/gates/{gate}")
        assert f'name="answer" value="{case.answer}"' in page.text
        done = await _send(person, page.text, gate, case)
        assert done.url.path == f"/console/gates/{gate}", done.text
        state = await load_state(desk.journal, "default", session_of(gate))
        given = [each for each in state.answers if each.gate == gate]
        assert (given[-1].answer, given[-1].actor, given[-1].note) == (case.answer, name, "I looked")


async def _send(person: Browser, page: str, gate: str, case: Case) -> Any:
    """Send the form of an answer, and the one that confirms it; nothing is done before that."""
    path = f"/console/gates/{gate}/answer"
    form = next(
        each for each in re.findall(r"<form .*?</form>", page, re.DOTALL) if f'value="{case.answer}"' in each
    )
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))
    for name in case.entered:
        assert f'name="{name}"' in form
    sent = await person.client.post(
        path, data={**hidden, **case.entered, "note": "I looked"}, headers={"origin": "http://127.0.0.1:8700"},
        follow_redirects=True,
    )  # fmt: skip
    assert ("please confirm" in sent.text) == case.is_confirmed, sent.text
    return await person.send(sent, path) if case.is_confirmed else sent


async def test_values_that_are_not_trusted_are_marked_in_words_and_by_their_row() -> None:
    async with open_console(None, works_pack()) as desk:
        steps: list[dict[str, Any]] = [
            {"id": "a", "tool": "works.read", "params": {}},
            {
                "id": "b",
                "tool": "works.ask",
                "params": {"to": {"$from": "a#/id"}, "pages": {"$from": "request#/pages"}},
                "depends_on": ["a"],
            },
        ]
        request: dict[str, Any] = {"intent": "go", "input": {"pages": 2}}
        found = await desk.rpc(await desk.key("agt"), "invokeAgent", request=request, plan={"steps": steps})
        lead = await desk.person("lena", roles=("lead",))
        page = (await lead.get(f"/console/gates/{found['gates'][0]}")).text
        rows = re.findall(r"<tr[^>]*><th scope=\"row\">.*?</tr>", page, re.DOTALL)
        marked = {
            re.findall(r"<code>(\w+)</code>", row)[0]: row for row in rows if 'class="untrusted"' in row
        }
        assert list(marked) == ["to"]
        assert "untrusted</span>" in marked["to"]
        assert len(rows) == 2
