"""Personal values in the keys of objects are sealed, found and revealed as those in texts are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tercet import Actor, DecisionSpec, Pack, Runtime, tool
from tercet.contracts.decision import RiskTier
from tercet.contracts.errors import NotDone, UsageError
from tercet.contracts.personal import PersonalMarks
from tercet.engine.personal.sealing import list_erased

MAIL = "mira.jansen@planted.example"
BOTH = f"{MAIL}, again"


def _pack(seen: list[Any], *marked: str) -> Pack:
    @tool("crm.by", mode="read_only")
    def by(email: str) -> dict[str, Any]:
        return {"by_mail": {email: {"open": 1}, f"{email}, again": {"open": 2}}}

    @tool("plain.map", mode="local_write", authority=[], no_compensation="nothing is kept")
    def plain(v: dict[str, Any]) -> dict[str, bool]:
        seen.append(v)
        return {"ok": True}

    return Pack(
        name="maps",
        version="1.0.0",
        tools=[by, plain],
        decisions=[DecisionSpec(id="d", risk_tier=RiskTier.LOW)],
        personal=PersonalMarks.model_validate(
            {
                "subject": "customer_id",
                "request": ["email"],
                "tools": {"crm.by": {"params": ["email"]}, "plain.map": {"params": marked}},
            }
        ),
    )


def _files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


REQUEST: dict[str, Any] = {"intent": "d", "input": {"customer_id": "cus_7", "email": MAIL}}
BY = {"id": "b", "tool": "crm.by", "params": {"email": {"$from": "request#/email"}}}
MAP = {"id": "m", "tool": "plain.map", "params": {"v": {"$from": "b#/by_mail"}}}


async def test_a_value_in_a_key_is_not_stored_and_is_erased(tmp_path: Path) -> None:
    """A result that has a personal value as a key reaches no unmarked parameter, and erasing takes the key too."""
    seen: list[Any] = []
    async with Runtime(_pack(seen), f"sqlite:///{tmp_path / 'runs.db'}") as runtime:
        refused = await runtime.run(REQUEST, plan={"steps": [BY, MAP]})
        assert refused.status == "paused"
        assert "not marked" in refused.reason
        assert seen == []
        result = await runtime.run(REQUEST, plan={"steps": [BY], "outputs": {"o": {"$from": "b#/by_mail"}}})
        assert await runtime.reveal(result.outputs, result.session_id) == {
            "o": {MAIL: {"open": 1}, BOTH: {"open": 2}}
        }
        await runtime.erase_subject("cus_7", actor=Actor(id="olga"), force=True)
        shown = await runtime.reveal(result.outputs, result.session_id)
        assert shown == {"o": {"erased": {"open": 1}, "erased, again": {"open": 2}}}
        replayed = await runtime.replay(result.session_id)
        assert replayed.outcome == "replay_equal"
        listed = await list_erased(runtime.journal, "default", [msgspec.json.encode(result.outputs)])
        assert listed == ("event 1: o",)
    assert MAIL.encode() not in _files(tmp_path)


async def test_a_marked_parameter_gets_the_keys_of_its_value() -> None:
    """A marked parameter receives its value whole."""
    seen: list[Any] = []
    async with Runtime(_pack(seen, "v"), "memory:") as runtime:
        result = await runtime.run(REQUEST, plan={"steps": [BY, MAP]})
    assert result.status == "completed", result.reason
    assert seen == [{MAIL: {"open": 1}, BOTH: {"open": 2}}]


@pytest.mark.parametrize(
    ("more", "plan"),
    [
        ({"seen": {MAIL: 1}}, {"steps": [BY]}),
        ({}, {"steps": [BY], "outputs": {f"of {MAIL}": {"$from": "b"}}}),
        ({}, {"steps": [{"id": "m", "tool": "plain.map", "params": {"v": {MAIL: 1}}}]}),
        ({}, {"steps": [{"id": "m", "tool": "plain.map", "params": {MAIL: 1}}]}),
    ],
)
async def test_names_of_fields_are_no_personal_values(more: dict[str, Any], plan: dict[str, Any]) -> None:
    """No token can take the place of a name in a request or a plan, so neither may be a personal value."""
    async with Runtime(_pack([]), "memory:") as runtime:
        with pytest.raises(UsageError) as refused:
            await runtime.run({"intent": "d", "input": {**REQUEST["input"], **more}}, plan=plan)
        assert refused.value.code == "personal_key"
        assert MAIL not in str(refused.value)
        assert await runtime.sessions() == []


async def test_a_request_with_a_token_as_a_key_is_refused() -> None:
    """Only the runtime makes tokens."""
    token = "[personal:0123456789abcdef:AAAAAAAAAAAAAAAAAAAAAAAAAAAA]"  # noqa: S105 - no password
    async with Runtime(_pack([]), "memory:") as runtime:
        with pytest.raises(UsageError) as refused:
            await runtime.run(
                {"intent": "d", "input": {**REQUEST["input"], "x": {token: 1}}}, plan={"steps": [BY]}
            )
        assert refused.value.code == "personal_token"


async def test_words_of_plans_may_be_values() -> None:
    """A value that is also the name of a field of every plan does not change the plan."""
    async with Runtime(_pack([]), "memory:") as runtime:
        request = {"intent": "d", "input": {"customer_id": "cus_8", "email": "params"}}
        result = await runtime.run(request, plan={"steps": [BY]})
        assert result.status == "completed"


@pytest.mark.parametrize(
    "form",
    [
        "mira%2Bl%20%C3%A9@planted.example".replace("@", "%40"),
        "mira%2bl%20%c3%a9%40planted.example",
        "mira%2Bl+%C3%A9%40planted.example",
        "mira+l \\u00e9@planted.example",
    ],
)
@pytest.mark.parametrize("is_failing", [False, True])
async def test_values_are_found_as_they_are_sent(form: str, is_failing: bool, tmp_path: Path) -> None:
    """A service that repeats its URL or its body repeats the encoded value, in a result or in an error."""

    @tool("crm.by", mode="read_only")
    def by(email: str) -> dict[str, Any]:
        if is_failing:
            raise NotDone(f"no page /people/{form} for {len(email)} letters", is_retriable=False)
        return {"url": f"/people/{form}", form: 1}

    pack = _pack([])
    pack = pack.model_copy(update={"tools": (by, *pack.tools[1:])})
    request = {"intent": "d", "input": {"customer_id": "cus_7", "email": "mira+l \u00e9@planted.example"}}
    async with Runtime(pack, f"sqlite:///{tmp_path / 'runs.db'}") as runtime:
        result = await runtime.run(request, plan={"steps": [BY], "outputs": {"o": {"$from": "b"}}})
        assert result.status == ("paused" if is_failing else "completed")
    assert b"/people/[personal:" in _files(tmp_path)
    assert form.encode() not in _files(tmp_path)
