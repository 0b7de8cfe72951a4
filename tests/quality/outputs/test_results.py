"""Results of tools as evidence: what they are worth, and that an output does not bear itself out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.runs.run import Outcome, ToolCall, ToolResult, TranscriptEntry
from tercet.contracts.tool import ToolSpec
from tercet.quality.values import known_values
from tercet.quality.verification.places import is_text
from tercet.quality.verification.results import StepResult, evidence_of, results_of

CLAIM = "The total of order ord_881 is 74.00 EUR."
ORDER = {"order_id": "ord_881", "total": 74, "currency": "EUR", "note": "The parcel was damaged by rain."}


def entry(step: str, tool: str, value: Any, outcome: Outcome = Outcome.DONE) -> TranscriptEntry:
    """A call of a tool, and what came of it."""
    call = ToolCall(step_id=step, tool=tool)
    return TranscriptEntry(call=call, result=ToolResult(step_id=step, outcome=outcome, value=value))


@pytest.mark.req("R166", "R167")
@pytest.mark.parametrize("trust", [Trust.TRUSTED, Trust.UNTRUSTED])
def test_a_result_is_worth_what_it_was_worth_in_the_run(trust: Trust) -> None:
    """Its values are known, and as trusted as it is."""
    facts = evidence_of([StepResult("s1", "shop.order", ORDER, trust)])
    assert [(fact.id, fact.trust, fact.source) for fact in facts] == [
        ("kg:result:s1#snapshot_run", trust, "shop.order")
    ]
    known = {each.value: each.trust for each in known_values((), facts, {}, (), "en")}
    assert known["74"] is trust


def test_marked_fields_are_a_fact_of_their_own() -> None:
    """What others may have written into a trusted result stays untrusted."""
    trusted, others = evidence_of([StepResult("s1", "shop.order", ORDER, Trust.TRUSTED, ("/note",))])
    assert (trusted.trust, others.trust) == (Trust.TRUSTED, Trust.UNTRUSTED)
    assert others.content == {"note": ORDER["note"]}
    assert trusted.content == {key: value for key, value in ORDER.items() if key != "note"}
    (all_others,) = evidence_of([StepResult("s1", "shop.order", ORDER, Trust.TRUSTED, ("*",))])
    assert (all_others.trust, all_others.content) == (Trust.UNTRUSTED, ORDER)


def test_items_keep_their_places() -> None:
    """A field of one item that is marked leaves the pointers to the others as they are."""
    value = {"rows": [{"by": "somebody else"}, {"n": 2}], "words": ["a", "b"]}
    trusted, others = evidence_of(
        [StepResult("s1", "shop.rows", value, Trust.TRUSTED, ("/rows/*/by", "/words/0"))]
    )
    assert trusted.content == {"rows": [{}, {"n": 2}], "words": [None, "b"]}
    assert others.content == {"rows": [{"by": "somebody else"}, {}], "words": ["a", None]}


def test_a_draft_does_not_bear_itself_out() -> None:
    """The tool that wrote the letter is no source for it, nor are the numbers that it wrote beside it."""
    wrong = "The total of order ord_881 is 1,074.00 EUR."
    draft = StepResult("s2", "writer.letter", {"letter": wrong, "total": 1074, "currency": "EUR"})
    order = StepResult("s1", "shop.order", ORDER, Trust.TRUSTED)
    facts = evidence_of([order, draft], drafts={"letter": wrong})
    assert [fact.source for fact in facts] == ["shop.order"]
    assert "1074" not in {each.value for each in known_values((), facts, {}, (), "en")}
    told = evidence_of([order], drafts={"letter": f"Dear Ms. Rao,\n\n{ORDER['note']}"})
    assert told[0].content == {key: value for key, value in ORDER.items() if key != "note"}


def test_a_transcript_brings_what_was_brought_back() -> None:
    """Calls that failed, and results of nothing, are no evidence; a tool that nobody knows is not trusted."""
    spec = ToolSpec(name="shop.order", mode=ApprovalMode.READ_ONLY, untrusted=("note",))
    transcript = [
        entry("s0", "shop.order", None, Outcome.NOT_DONE),
        entry("s1", "shop.order", ORDER),
        entry("s2", "shop.gone", {"n": 1}),
        entry("s3", "shop.order", None),
    ]
    results = results_of(transcript, {"shop.order": spec}, trusted={"s1", "s2"})
    assert [(each.step_id, each.trust, each.untrusted) for each in results] == [
        ("s1", Trust.TRUSTED, ("/note",)),
        ("s2", Trust.UNTRUSTED, ()),
        ("s3", Trust.UNTRUSTED, ("/note",)),
    ]
    assert [fact.id for fact in evidence_of(results)] == [
        "kg:result:s1#snapshot_run",
        "kg:result:s1/untrusted#snapshot_run",
        "kg:result:s2#snapshot_run",
    ]


def test_a_step_may_have_any_name() -> None:
    """What would break the id of a fact is replaced."""
    (fact,) = evidence_of([StepResult("look up #1", "shop.order", {"n": 1})])
    assert fact.id == "kg:result:look_up_1#snapshot_run"


@given(st.text("ab .\n", min_size=1, max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_a_part_of_a_draft_is_found_wherever_it_is_cut(text: str, start: int, end: int) -> None:
    """Also in the middle of a word, and in nothing else than that text."""
    draft = f"Here {text} and there is more of it, as one sees."
    part = draft[start:end]
    found = evidence_of(
        [StepResult("s1", "t", {"text": part, "number": 1}, Trust.TRUSTED)], {"letter": draft}
    )
    content: Any = found[0].content
    assert ("text" in content) == (not (is_text(part) and part in draft))
    others = evidence_of([StepResult("s1", "t", {"text": f"{part} x"}, Trust.TRUSTED)], {"letter": draft})
    assert len(others) == 1
