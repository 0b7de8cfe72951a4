"""What of a plan stays when a part of it is planned again."""

from __future__ import annotations

import pytest

from tercet.contracts.plan import Plan
from tercet.planner.answer import find_kept, find_kept_outputs

#   a → b → c
#   d → e
PLAN = Plan.model_validate(
    {
        "steps": [
            {"id": "a", "tool": "t.a"},
            {"id": "b", "tool": "t.b", "depends_on": ["a"]},
            {"id": "c", "tool": "t.c", "params": {"x": {"$from": "b#/x"}}},
            {"id": "d", "tool": "t.d"},
            {"id": "e", "tool": "t.e", "depends_on": ["d"]},
        ],
        "outputs": {
            "one": {"$from": "c#/y"},
            "two": {"$cel": "d.y + a.y"},
            "three": {"$from": "request#/n"},
            "four": "word",
        },
    }
)


@pytest.mark.req("R75")
@pytest.mark.parametrize(
    ("ended", "blamed", "kept"),
    [
        ("", "b", "ade"),
        ("a", "b", "ade"),
        ("", "a", "de"),
        ("ad", "", "ad"),
        ("", "", ""),
        ("abcde", "", "abcde"),
        ("ab", "b", "abde"),
        ("", "z", "abcde"),
        ("", "be", "ad"),
    ],
)
def test_what_is_done_and_what_nobody_blames_stays(ended: str, blamed: str, kept: str) -> None:
    """Blamed steps and all behind them go, unless they are done; where nobody is blamed only what is done stays."""
    assert "".join(find_kept(PLAN, [*ended], [*blamed])) == kept


def test_outputs_stay_that_come_from_what_stays() -> None:
    """An output goes with the step that it was bound to."""
    assert find_kept_outputs(PLAN, ["a", "d", "e"]) == ("two", "three", "four")
    assert find_kept_outputs(PLAN, []) == ("three", "four")
