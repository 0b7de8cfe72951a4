"""Corrections about the same thing come together, and always in the same way."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from engine.workshop import ADA, Workshop, plan, step
from tercet.contracts.request import Request
from tercet.engine.streams.experience import Feedback, add_feedback
from tercet.journal.memory import MemoryJournal
from tercet.replay.insights import Blame, Placed, cluster, placed_feedback

SAID = [
    ("a", "the refund leaves out the shipping"),
    ("a", "shipping is left out of the refund"),
    ("a", "the refund leaves out shipping costs"),
    ("a", "wrong currency"),
    ("b", "the refund leaves out the shipping"),
]


def _placed(number: int, decision: str, said: str) -> Placed:
    entry: dict[str, Any] = {
        "record_hash": "sha256:0",
        "report": {
            "trace_id": "t",
            "decision_key": decision,
            "verify": {"ok": True, "reasons": []},
            "status": "completed",
            "rationale": "",
            "decided_at": "2026-01-01T00:00:00Z",
        },
        "author": "bob",
        "correction": said,
        "given_at": datetime.fromtimestamp(number, UTC),
    }
    made = Feedback.model_validate({"id": f"s{number}.f1", "session_id": f"s{number}", "entry": entry})
    return Placed(made, "p@1.0.0", Blame(decision), "completed")


def test_the_same_thing_in_other_words_is_one_insight() -> None:
    """The most frequent come first, another decision is another thing, and the order of arrival changes nothing."""
    placed = [_placed(number, *said) for number, said in enumerate(SAID)]
    found = cluster(placed)
    assert [(each.decision, each.count) for each in found] == [("a", 3), ("a", 1), ("b", 1)]
    assert found[0].examples[0] == SAID[0][1]
    assert found[0].feedback == ("s0.f1", "s1.f1", "s2.f1")
    for seed in range(20):
        shuffled = random.Random(seed).sample(placed, len(placed))  # noqa: S311
        assert cluster(shuffled) == found


def test_the_place_is_read_from_the_record(workshop: Workshop) -> None:
    """A wrong output leads to the step and tool it came from; a refused run to the critic's reason."""
    workshop.tool("do.it", no_compensation="none")
    pack = workshop.pack(
        policies=({"name": "small", "scope": "step", "expression": "step.params.n != 'no'"},)
    )

    async def main() -> None:
        journal = MemoryJournal()
        async with workshop.runtime(pack, journal) as runtime:
            for said in ("yes", "no"):
                course = plan(step("a", params={"n": said}), outputs={"n": {"$from": "a#/n"}, "m": 1})
                result = await runtime.run(Request(intent="work", input={"n": said}), plan=course, actor=ADA)
                await add_feedback(
                    journal, "default", result.session_id, author="bob", correction="no", expected={"n": "x", "m": 1}, now=0
                )  # fmt: skip
        blamed = {
            each.status: each.blame async for each in placed_feedback(journal, "default", pack="workshop")
        }
        assert blamed["completed"] == Blame("work", step="a", tool="do.it", outputs=("n",))
        assert blamed["failed"] == Blame("work", "violates_decision_spec", "policy_invariant", "a", "do.it")
        assert [each async for each in placed_feedback(journal, "default", pack="other")] == []

    workshop.run(main())
