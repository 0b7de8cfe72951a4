"""Somebody tries to have outputs committed that should not be, or to keep every later run from judging."""

from __future__ import annotations

import msgspec
import pytest

from tercet.contracts.shape import JsonObject
from tercet.journal import events as e
from tercet.journal.side_stream import append_next
from tercet.runtime import experience

from .quality_desk import LEAKY, WRITE, desk, last
from .workshop import ADA, ASK, Workshop, events

_OUTCOME: JsonObject = {"features": {"critic": "high"}, "is_correct": True}
_STEERED: JsonObject = {"task_class": "letter", "run": "r", "iteration": 0, "before": 0.1, "after": 0.2}
_TINY: JsonObject = {**_STEERED, "intensity": 1e-200, "means": "model"}
_HUGE: JsonObject = {"bias": 1e308, "weights": {"critic": 1e308}, "centers": {"critic": -1e308}}

FOREIGN: dict[str, bytes] = {
    "bytes": b"\xff\x00garbage",
    "another shape": b"[]",
    "no session": b'{"session": "", "pattern": {"a": 1}}',
    "an attempt that is none": b'{"session": "s", "log": [{"a": 1}]}',
    "an observation that is none": b'{"session": "s", "observations": [{"x": 1}]}',
    "repairs without intensity": msgspec.json.encode({"session": "s", "observations": [_TINY] * 9}),
    "an outcome that is none": msgspec.json.encode({"session": "s", "outcomes": [_OUTCOME]}),
    "less than nothing": b'{"session": "s", "pattern": {"a": -5}}',
    "more than can be added": b'{"session": "s", "pattern": {"a": 1e308, "b": 1e308}}',
    "weights that are none": b'{"session": "s", "weights": {"bias": "x"}}',
    "weights without bounds": msgspec.json.encode({"session": "s", "weights": _HUGE}),
}


@pytest.mark.parametrize("kind", ["experience", "calibration"])
@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_bytes_among_lessons_keep_no_run_from_judging(
    workshop: Workshop, what: str, kind: str
) -> None:
    """What is no lesson teaches nothing; those before and behind it count as ever."""
    pack = desk(workshop, {"letter": LEAKY}, quality={"novelty": 1.0})
    stream = f"{kind}:letter"

    async def main() -> None:
        async with workshop.journal("memory:") as journal, workshop.runtime(pack, journal) as runtime:
            first = await runtime.run(ASK, plan=WRITE, actor=ADA)
            await append_next(journal, "default", stream, lambda _: (FOREIGN[what],))
            second = await runtime.run(ASK, plan=WRITE, actor=ADA)
            drawn = last(e.ExperienceDrawn, await events(journal, second.session_id))
            assert (first.status, second.status) == ("completed", "completed")
            assert [each["tried"] for each in drawn.rates["tallies"]] == [1]
            assert drawn.novelty["nearest"] == first.session_id
            known = await experience.recall(journal, "default", "letter")
            assert {first.session_id, second.session_id} <= {each.session for each in known.lessons}

    workshop.run(main())
