"""One action, one key: whatever spelling a plan uses for what its tool receives."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.gate import Gate
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.core import events as e
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack

from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

REFUND = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "cents": {"type": "integer", "default": 9900}},
    "required": ["to"],
}
BOSS = Gate(name="BOSS", roles=("boss",))
OLDER = tuple(number for number in CURRENT if number != Behaviour.STRICT_CALLS)
EARLIER = tuple(number for number in CURRENT if number < Behaviour.SCHEMAS_READ_WHOLE)


def refund(step_id: str, **params: Any) -> Any:
    """A step that refunds."""
    return step(step_id, "pay.back", params=params)


async def test_a_default_left_out_and_written_out_is_one_action_at_review(workshop: Workshop) -> None:
    """The second call is refused before anything runs."""
    workshop.tool("pay.back", parameters=REFUND, no_compensation="final")

    async with workshop.runtime(workshop.pack(decision={"risk_tier": "high"})) as runtime:
        both = plan(refund("a", to="x"), refund("b", to="x", cents=9900))
        result = await runtime.run(ASK, plan=both, actor=ADA)
        assert result.status == "failed"
        assert "repeats the action" in result.reason
        other = plan(refund("a", to="x"), refund("b", to="x", cents=9901))
        assert (await runtime.run(ASK, plan=other, actor=ADA)).status == "completed"


async def test_a_default_left_out_and_written_out_is_one_action_when_called(workshop: Workshop) -> None:
    """A value that only the run knows is compared when the call is due; the tool gets its parameters as written."""
    workshop.tool("pay.back", parameters=REFUND)

    async def look(_: Any, params: dict[str, Any]) -> Any:
        return {"cents": 9900}

    workshop.tool("look.up", look, mode="read_only")
    journal = MemoryJournal()

    async with workshop.runtime(workshop.pack(on_failure="keep"), journal) as runtime:
        computed = refund("b", to="x", cents={"$from": "l#/cents"})
        both = plan(refund("a", to="x"), step("l", "look.up"), computed)
        result = await runtime.run(ASK, plan=both, actor=ADA)
        found = await events(journal, result.session_id)
        [intent] = [each for each in found if isinstance(each, e.Intent) and each.tool == "pay.back"]
        assert intent.params in ({"to": "x"}, {"to": "x", "cents": 9900})
        [refused] = [each for each in found if isinstance(each, e.StepRefused)]
        assert refused.code == "duplicate_action"


async def test_an_approver_sees_the_defaults_that_a_call_will_use(workshop: Workshop) -> None:
    """The amount is at the gate although the plan does not write it, marked as a default; the call is made as written."""
    received: list[dict[str, Any]] = []

    async def pay(_: Any, params: dict[str, Any]) -> Any:
        received.append(params)
        return {}

    gated: dict[str, Any] = {"gates": ("BOSS",), "authority": ("to", "cents"), "no_compensation": "final"}
    workshop.tool("pay.back", pay, mode="destructive", parameters=REFUND, **gated)

    async with workshop.runtime(workshop.pack(gates=(BOSS,))) as runtime:
        result = await runtime.run(ASK, plan=plan(refund("a", to="o1")), actor=ADA)
        assert result.gate is not None
        shown = result.gate.shown
        assert shown["params"] == {"to": "o1", "cents": 9900}
        assert (shown["defaults"], shown["authority"]) == (["/cents"], ["cents", "to"])
        assert shown["sources"]["cents"] == "the tool's default"
        await runtime.approve(result.gate.id, actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "completed"
    assert received == [{"to": "o1"}]


LINES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "lines": {"additionalProperties": {"properties": {"cents": {"type": "integer", "default": 7000}}}},
        "either": {"anyOf": [{"properties": {"a": {"default": 1}}}, {"properties": {"b": {"default": 2}}}]},
    },
}


@pytest.mark.parametrize("is_earlier", [False, True])
async def test_an_approver_sees_defaults_of_any_member_and_where_others_are_possible(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, *, is_earlier: bool
) -> None:
    """Members that no property names are shown with their defaults, and a union that two options fit says so."""
    frame = Pack.run_context

    def earlier_frame(self: Pack, **given: Any) -> Any:
        return frame(self, **given).model_copy(update={"behaviour": EARLIER})

    if is_earlier:
        monkeypatch.setattr(Pack, "run_context", earlier_frame)
    workshop.tool(
        "pay.back",
        mode="destructive",
        parameters=LINES,
        authority=(),
        gates=("BOSS",),
        no_compensation="final",
    )
    params: dict[str, Any] = {"lines": {"k": {}}, "either": {"c": 1}}

    async with workshop.runtime(workshop.pack(gates=(BOSS,))) as runtime:
        result = await runtime.run(ASK, plan=plan(step("a", "pay.back", params=params)), actor=ADA)
        assert result.gate is not None
        shown = result.gate.shown
        if is_earlier:
            assert shown["params"] == params
            assert "defaults" not in shown
        else:
            assert shown["params"] == {"lines": {"k": {"cents": 7000}}, "either": {"c": 1, "a": 1}}
            assert shown["defaults"] == ["/lines/k/cents", "/either/a"]
            assert shown["sources"]["lines"].endswith("; the tool's default for /k/cents")
            assert shown["sources"]["either"].endswith("; the tool may add other defaults")
        await runtime.approve(result.gate.id, actor=BOB)
        assert (await runtime.resume(result.session_id)).status == "completed"


async def test_an_approval_does_not_cover_another_default(workshop: Workshop) -> None:
    """The digest covers the tool's definition, and with it the amount that is not written out."""
    gated: dict[str, Any] = {"gates": ("BOSS",), "authority": ("to", "cents"), "no_compensation": "final"}
    digests: list[str] = []

    for cents in (9900, 9901):
        workshop.tools.clear()
        amount = {"type": "integer", "default": cents}
        schema = {**REFUND, "properties": {"to": {"type": "string"}, "cents": amount}}
        workshop.tool("pay.back", mode="destructive", parameters=schema, **gated)
        pack = workshop.pack(gates=(BOSS,))
        async with workshop.runtime(pack, ids=lambda: "same") as runtime:
            result = await runtime.run(ASK, plan=plan(refund("a", to="o1")), actor=ADA)
            assert result.gate is not None
            digests.append(result.gate.digest)
    assert len(set(digests)) == 2


@pytest.mark.parametrize("rules", [OLDER, CURRENT], ids=["older rules", "current rules"])
def test_what_was_done_under_earlier_rules_still_counts_as_done(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, rules: tuple[int, ...]
) -> None:
    """A session that adopts the current rules recognises an action by the key that it had before."""
    workshop.tool("pay.back", parameters=REFUND)
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="final")
    framed = Pack.run_context

    def frame(self: Pack, **given: Any) -> Any:
        return framed(self, **given).model_copy(update={"behaviour": rules})

    wipe = step("w", "wipe.it", depends_on=("a",), params={"to": "x"})
    again = refund("b", to={"$from": "w#/to"})
    pack = workshop.pack(gates=(BOSS,), on_failure="keep")

    async def main() -> None:
        journal = MemoryJournal()
        async with workshop.runtime(pack, journal) as runtime:
            with monkeypatch.context() as older:
                older.setattr(Pack, "run_context", frame)
                result = await runtime.run(ASK, plan=plan(refund("a", to="x"), wipe, again), actor=ADA)
            result = await runtime.resume(result.session_id)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            await runtime.resume(result.session_id)
            found = await events(journal, result.session_id)
            [refused] = [each for each in found if isinstance(each, e.StepRefused)]
            assert (refused.step, refused.code) == ("b", "duplicate_action")

    workshop.run(main())
    assert workshop.calls == [("a", 1), ("w", 1)]


LETTER = {"type": "object", "properties": {"to": {"type": "string"}, "text": {"type": "string"}}}


async def test_a_second_message_with_another_text_to_the_same_person_is_sent(workshop: Workshop) -> None:
    """Both are reviewed and called; the same text again is refused."""
    workshop.tool("mail.send", parameters=LETTER, authority=("to",), no_compensation="sent is sent")

    def send(step_id: str, text: str) -> Any:
        return step(step_id, "mail.send", params={"to": "o1", "text": text})

    async with workshop.runtime(workshop.pack(on_failure="keep")) as runtime:
        both = plan(send("a", "hello"), send("b", "goodbye"))
        assert (await runtime.run(ASK, plan=both, actor=ADA)).status == "completed"
        twice = await runtime.run(ASK, plan=plan(send("a", "hello"), send("b", "hello")), actor=ADA)
        assert "repeats the action" in twice.reason
    assert workshop.calls == [("a", 1), ("b", 1)]
