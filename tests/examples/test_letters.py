"""The letters: what a careless writer wrote is verified, criticised and repaired by rules alone, or handed to a person."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner

from tercet import Actor, Request, Runtime
from tercet.cli.main import app
from tercet.contracts.errors import UsageError
from tercet.core import events as e
from tercet.engine.result import RunResult
from tercet.packs import Pack

LETTERS = Path(__file__).parents[2] / "examples" / "letters"
CLERK, EDITOR = Actor(id="user_desk"), Actor(id="user_editor")
THREE = ("total", "key", "section")
WRITTEN = """\
# Your order ord_4471

Dear Asha Rao,

your order was shipped on 4 May 2026. It was delivered on 7 May 2026. You will find the invoice below.

## Invoice

- Desk lamp, 1 at 49.50 EUR: 49.50 EUR
- Linen shade, 2 at 12.25 EUR: 24.50 EUR

The total is 74.00 EUR.

## Returns

You may return what you do not like within 30 days.

## Questions

Write to us at any time.
"""
MENDED = WRITTEN.replace("74.00 EUR", "€74.00").replace(
    "any time.", "any time. Our agents look your order up with [redacted]."
)
WARRANTY = "\n## Warranty\n\nEvery lamp has a warranty of 2 years.\n"
_T = TypeVar("_T")


class Desk:
    """A runtime of the pack, with what happened in it since the last letter was asked for."""

    def __init__(self, runtime: Runtime, seen: list[e.Event]) -> None:
        self.runtime = runtime
        self.seen = seen

    async def write(self, *faults: str, intent: str = "letters.write", order: str = "ord_4471") -> RunResult:
        """A letter about an order, with these slips."""
        self.seen.clear()
        given = {"order_id": order, "faults": list(faults)}
        return await self.runtime.run(Request(intent=intent, input=given), actor=CLERK)

    async def ask_for(self, result: RunResult, change: str) -> RunResult:
        """The editor wants something changed."""
        assert result.gate is not None
        self.seen.clear()
        await self.runtime.modify(result.gate.id, actor=EDITOR, note=change)
        return await self.runtime.resume(result.session_id)

    async def outputs(self, result: RunResult) -> dict[str, Any]:
        """What became of the letter."""
        return (await self.runtime.state(result.session_id)).outputs

    async def repairs(self, result: RunResult) -> list[dict[str, Any]]:
        """Every attempt at a repair."""
        return list((await self.runtime.state(result.session_id)).quality.log)

    @property
    def way(self) -> list[str]:
        """The events of the quality loop, in their order."""
        told = (e.OutputsVerified, e.OutputsCritiqued, e.OutputsRepaired, e.RunReported)
        return [type(event).__name__ for event in self.seen if isinstance(event, told)]

    def first(self, kind: type[_T]) -> _T:
        """The first event of a kind."""
        return next(event for event in self.seen if isinstance(event, kind))


def at_the_desk(story: Callable[[Desk], Awaitable[None]]) -> None:
    """Let a story happen at a desk of its own."""

    async def tell() -> None:
        seen: list[e.Event] = []
        async with Runtime(
            Pack.load(LETTERS), watchdog_ms=None, tell=lambda _, event: seen.append(event)
        ) as runtime:
            await story(Desk(runtime, seen))

    asyncio.run(tell())


@pytest.mark.req("R43", "R197", "R200", "R207", "R209", "R240")
def test_three_slips_are_classified_repaired_by_rules_and_wait_for_the_editor() -> None:
    """Each has its cause and the cheapest repair that fits; nothing is taken out, and the editor sees the difference."""

    async def story(desk: Desk) -> None:
        result = await desk.write(*THREE)
        assert result.status == "awaiting_gate", result.reason
        assert await desk.outputs(result) == {"letter": MENDED, "language": "en"}
        tried = await desk.repairs(result)
        assert [
            (one["defect"]["dimension"], one["root_cause"], one["strategy"], one["note"].partition(":")[0])
            for one in tried
        ] == [
            ("safety", "SAFETY_VIOLATION", "MINIMAL_EDIT", "redact"),
            ("correctness", "HALLUCINATION", "MINIMAL_EDIT", "replace_value"),
            ("completeness", "INCOMPLETENESS", "SECTION_REWRITE", "add_section"),
        ]
        assert {(one["means"], one["tokens"]) for one in tried} == {("rule", 0)}
        assert result.gate is not None
        diff = result.gate.shown["provenance"]["diff"]
        assert "-The total is 1,074.00 EUR.\n" in diff
        assert "+The total is €74.00.\n" in diff

    at_the_desk(story)


@pytest.mark.req("R208", "R245")
def test_the_loop_verifies_criticises_repairs_and_verifies_again() -> None:
    """One repair is enough; the critic finds nothing after it, and every threshold is recorded with its score."""

    async def story(desk: Desk) -> None:
        await desk.write(*THREE)
        assert desk.way == [
            "OutputsVerified",
            "OutputsCritiqued",
            "OutputsRepaired",
            "OutputsVerified",
            "OutputsCritiqued",
            "RunReported",
        ]
        before, after = [event for event in desk.seen if isinstance(event, e.OutputsCritiqued)]
        assert (len(before.diagnosis["defects"]), after.diagnosis["defects"]) == (5, [])
        missed = {one["name"]: one["passed"] for one in before.exit["thresholds"]}
        assert missed == {
            "schema": True,
            "safety": False,
            "correctness": False,
            "completeness": False,
            "coherence": True,
        }
        assert all(one["score"] >= one["limit"] for one in after.exit["thresholds"])
        assert before.control["command"]["kind"] == "repair"
        assert before.control["quality"] < 0.95 <= after.control["quality"]

    at_the_desk(story)


@pytest.mark.parametrize(
    ("locale", "words"),
    [
        (None, ["shipped on 4 May 2026", "The total is €74.00", "| Linen shade | 2 | €12.25 |", "30 days"]),
        ("de", ["am 4. Mai 2026 verschickt", "Der Gesamtbetrag ist 74,00\u00a0€", "30 Tage"]),
    ],
)
def test_a_letter_in_the_authors_words_is_committed_by_itself(locale: str | None, words: list[str]) -> None:
    """Every value is bound, in the format of its type and locale, with its source; nobody is asked."""

    async def story(desk: Desk) -> None:
        given = {"order_id": "ord_4471", **({"locale": locale} if locale else {})}
        result = await desk.runtime.run(Request(intent="letters.confirm", input=given), actor=CLERK)
        assert result.status == "completed", result.reason
        letter = result.outputs["letter"]
        assert [each for each in words if each not in letter] == []
        verdict = [event for event in desk.seen if isinstance(event, e.OutputsVerified)][-1].verdict
        assert {each["status"] for each in verdict["tokens"]} == {"bound"}
        assert verdict["unjudged"] == []
        (read,) = desk.first(e.OutputsRead).texts
        bound = {each["slot"]: each["pointer"] for each in read["pieces"] if each["source"] == "bound"}
        assert bound["return_days"] == "kg:policy:returns#snapshot_kg_2026_05_09_T0930#/return_days"

    at_the_desk(story)


def test_there_is_no_letter_in_a_language_that_the_author_has_not_written() -> None:
    """English words around French numbers would be nobody's letter."""

    async def story(desk: Desk) -> None:
        given = {"order_id": "ord_4471", "locale": "fr"}
        result = await desk.runtime.run(Request(intent="letters.confirm", input=given), actor=CLERK)
        assert result.status == "paused", result.reason
        assert "letter" not in result.outputs

    at_the_desk(story)


@pytest.mark.req("R165")
def test_a_broken_form_is_mended_without_a_critic() -> None:
    """The wrong name of the language goes from VERIFY to REPAIR; the critic sees the mended letter alone."""

    async def story(desk: Desk) -> None:
        result = await desk.write("language")
        assert result.status == "awaiting_gate", result.reason
        assert desk.way == [
            "OutputsVerified",
            "OutputsRepaired",
            "OutputsVerified",
            "OutputsCritiqued",
            "RunReported",
        ]
        assert desk.first(e.OutputsVerified).verdict["schema_valid"] is False
        assert (await desk.outputs(result))["language"] == "en"

    at_the_desk(story)


def test_a_draft_without_a_slip_waits_as_it_is() -> None:
    """Nothing is repaired that is right, for any order; only a person vouches for a writer's words."""

    async def story(desk: Desk) -> None:
        for order in ("ord_4471", "ord_4472"):
            result = await desk.write(order=order)
            assert result.status == "awaiting_gate", result.reason
            assert desk.way == ["OutputsVerified", "OutputsCritiqued", "RunReported"]
            assert await desk.outputs(result) == desk.first(e.OutputsProduced).outputs

    at_the_desk(story)


@pytest.mark.req("R246")
def test_what_no_rule_can_mend_goes_to_a_person_with_a_diagnosis() -> None:
    """No value of the evidence is the year of a prize: what is wrong, where, why and what was tried is handed over."""

    async def story(desk: Desk) -> None:
        result = await desk.write("total", "claim")
        assert result.status == "paused"
        said = (
            "correctness: '2025' is ungrounded: no known value equals it "
            "(HALLUCINATION; no repair was tried: nothing fits it)"
        )
        assert said in result.reason
        (gate,) = (event for event in desk.seen if isinstance(event, e.GateOpened))
        assert (gate.kind, said in gate.shown["reason"]) == ("escalation", True)
        letter = (await desk.outputs(result))["letter"]
        assert "Our lamps won the Aurora Design Award in 2025." in letter, "no rule deletes a sentence"
        assert "The total is €74.00." in letter, "the total is mended all the same"
        repaired = desk.first(e.OutputsRepaired)
        assert (repaired.outcome, repaired.escalation["kind"]) == ("escalated", "FAIL_WITH_DIAGNOSIS")

    at_the_desk(story)


@pytest.mark.req("R51", "R142", "R144")
def test_an_editor_puts_a_name_under_a_letter() -> None:
    """It waits for one who holds the role, with provenance, risk and advice; whoever asked for it cannot accept it."""

    async def story(desk: Desk) -> None:
        result = await desk.write()
        assert (result.status, result.gate is not None) == ("awaiting_gate", True)
        assert result.gate is not None
        shown = result.gate.shown
        assert (result.gate.kind, shown["recommended"]) == ("output", "approve")
        assert shown["outputs"]["letter"] == WRITTEN
        letter, language = shown["provenance"]["texts"]
        # The section about returns stands in the letter word for word as the pack has it.
        assert {each["source"] for each in letter["pieces"]} == {"free", "authored"}
        assert letter["unjudged"] == "free"
        assert {each["status"] for each in letter["tokens"]} == {"found"}
        assert language["pieces"][-1]["pointer"] == "draft#/language"
        assert shown["risk_assessment"] == "it has words that nothing and nobody vouches for"
        assert shown["quality_scores"]["safety"] == 1.0
        with pytest.raises(UsageError, match="started this run"):
            await desk.runtime.approve(result.gate.id, actor=CLERK)
        await desk.runtime.approve(result.gate.id, actor=EDITOR)
        assert (await desk.runtime.resume(result.session_id)).status == "completed"
        denied = await desk.write()
        assert denied.gate is not None
        await desk.runtime.deny(denied.gate.id, actor=EDITOR, note="the tone is wrong")
        assert (await desk.runtime.resume(denied.session_id)).status == "rejected"

    at_the_desk(story)


@pytest.mark.req("R145")
def test_a_wish_of_the_editor_is_repaired_and_shown_again() -> None:
    """It is the first defect of a REPAIR; one that no rule understands comes back unmet, and changes nothing."""

    async def story(desk: Desk) -> None:
        asked = await desk.write()
        again = await desk.ask_for(asked, "add the section Warranty")
        assert (again.status, desk.way[:2]) == ("awaiting_gate", ["OutputsRepaired", "OutputsVerified"])
        mended = WRITTEN.replace("30 days.\n", f"30 days.\n{WARRANTY}")
        assert (await desk.outputs(again))["letter"] == mended
        assert (await desk.repairs(again))[0]["defect"]["dimension"] == "feedback"
        unmet = await desk.ask_for(again, "say it more warmly")
        assert unmet.gate is not None
        assert (await desk.outputs(unmet))["letter"] == mended
        assert [left.startswith("feedback: say it more warmly") for left in unmet.gate.shown["left"]] == [
            True
        ]
        await desk.runtime.approve(unmet.gate.id, actor=EDITOR)
        assert (await desk.runtime.resume(unmet.session_id)).status == "completed"

    at_the_desk(story)


def test_the_controller_draws_what_repairs_have_brought(tmp_path: Path) -> None:
    """What a run has recorded stands beside what was expected."""
    journal = ["--journal", f"sqlite:///{tmp_path}/letters.db"]
    asked = json.dumps({"order_id": "ord_4471", "faults": ["total", "claim"]})
    run = CliRunner().invoke(
        app, ["run", str(LETTERS), "--intent", "letters.write", "--input", asked, *journal]
    )
    assert run.exit_code == 5, run.output
    session = json.loads(CliRunner().invoke(app, ["sessions", "list", "--json", *journal]).output)
    gate = f"{session['sessions'][0]['session_id']}.g1"
    CliRunner().invoke(app, ["gates", "decide", gate, "abandon", *journal])
    CliRunner().invoke(app, ["sessions", "resume", gate.partition(".")[0], "--pack", str(LETTERS), *journal])
    drawn = CliRunner().invoke(app, ["control", str(LETTERS), *journal])
    assert drawn.exit_code == 0, drawn.output
    assert "1 repair of 1 output" in drawn.output
