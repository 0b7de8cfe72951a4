"""What commands print about recorded stories stays as it was kept, for people and for programs.

After a deliberate change of terminal texts, look at the difference, then keep the new screens:

    PYTHONPATH=tests .venv/bin/python -m view.screens --diff
    PYTHONPATH=tests .venv/bin/python -m view.screens --record

Answers to `--json` are never recorded again. A field that is added is named in `ADDED`, one that may differ in `CHANGED`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tercet.contracts.shape import as_list, as_object

from . import screens

ADDED = frozenset(
    {
        "/asked",
        "/figures/lane_success_rate",
        "/figures/parent_replan_rate",
        "/gates/leads_to",
        "/leads_to",
        "/published",
        "/runs/diff",
        "/runs/erased",
        "/validation",
    }
)
"""Fields that answers have now and did not have when they were kept, as paths without the numbers of lists."""
CHANGED: frozenset[str] = frozenset(
    {
        "/error/message",
        "/error/remedy",
        "/next",
        "/report/rationale",
        "/report/verify/reasons",
        "/runs/facts/reason",
        "/verdict/reasons",
        "/verdict/refusals/reason",
        "/verdict/refusals/remedy",
        "/verdict/remedy",
        "/verify/reasons",
    }
)
"""Fields whose values may differ from the kept ones: the next commands were placeholders in part, and reasons are prose."""


@pytest.mark.slow
def test_terminal_screens_are_the_kept_ones() -> None:
    """A change of any text shows as one difference, and is kept on purpose."""
    found = screens.difference(screens.load(screens.TERMINAL), screens.take_terminal())
    assert not found, f"{found[:20_000]}\n(python -m view.screens --record keeps the new screens)"


@pytest.mark.slow
def test_answers_to_programs_only_gain_fields() -> None:
    """Whoever reads `--json` today can read it tomorrow."""
    kept, now = screens.load(screens.PROGRAMS), screens.take_programs()
    assert set(kept) <= set(now)
    found = [f"{name}: {each}" for name, answer in kept.items() for each in differences(answer, now[name])]
    assert not found, "\n".join(found[:50])


def differences(kept: Any, now: Any, path: str = "") -> Iterator[str]:
    """Where an answer differs from the kept one, besides what is added or may change."""
    if path in CHANGED:
        return
    before, after = as_object(kept), as_object(now)
    one, other = as_list(kept), as_list(now)
    if before is not None and after is not None:
        for name in {**before, **after}:
            place = f"{path}/{name}"
            if name in before and name in after:
                yield from differences(before[name], after[name], place)
            elif name in before:
                yield f"{place} is missing"
            elif place not in ADDED:
                yield f"{place} is new"
    elif one is not None and other is not None and len(one) == len(other):
        for item, now_item in zip(one, other, strict=True):
            yield from differences(item, now_item, path)
    elif kept != now:
        yield f"{path}: kept {str(kept)[:300]!r}, now {str(now)[:300]!r}"


def test_differences_are_found() -> None:
    """The comparison sees a changed value, a lost field, a new field and a list of another length."""
    assert list(differences({"a": 1}, {"a": 2})) == ["/a: kept '1', now '2'"]
    assert list(differences({"a": 1}, {})) == ["/a is missing"]
    assert list(differences({}, {"a": 1})) == ["/a is new"]
    assert list(differences({"a": [{"b": 1}]}, {"a": [{"b": 2}]})) == ["/a/b: kept '1', now '2'"]
    assert list(differences([1], [1, 2])) == [": kept '[1]', now '[1, 2]'"]
