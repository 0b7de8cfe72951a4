"""Places in an output: what a location means, how far a window and a section reach, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import UsageError
from tercet.contracts.values import pointer
from tercet.quality.repair.regions import (
    Edit,
    follow_edit,
    headings,
    is_precise,
    locate,
    section,
    splice,
    text_at,
    texts,
    window,
)
from tercet.quality.verification.places import Location

TEXT = "intro\n\n# One\n\na\nb\nc\n\n## Deep\n\nd\n\n# Two\n\ne\n"
OUTPUT: dict[str, Any] = {
    "text": TEXT,
    "a@1-2": "odd",
    "odd#name": 1,
    "n": {"total": 5, "items": [1, {"x": "y"}]},
    "s": "short",
}


@pytest.mark.parametrize(
    ("location", "region"),
    [
        ("/text", Location(pointer="/text")),
        ("/text#char=0,5", Location(pointer="/text", start=0, end=5)),
        ("/text#line=3", Location(pointer="/text", start=7, end=12)),
        ("/odd#name#", Location(pointer="/odd#name")),
        ("/text@0-5", Location(pointer="/text", start=0, end=5)),
        ("/text#0-5", Location(pointer="/text", start=0, end=5)),
        ("/text:0-5", Location(pointer="/text", start=0, end=5)),
        ("/text@L3", Location(pointer="/text", start=7, end=12)),
        ("/text:3", Location(pointer="/text", start=7, end=12)),
        ("text:3", Location(pointer="/text", start=7, end=12)),
        ("/a@1-2", Location(pointer="/a@1-2")),
        ("/n/total", Location(pointer="/n/total")),
        ("/n/items/1/x", Location(pointer="/n/items/1/x")),
        ("/n/missing", Location(pointer="/n/missing")),
        ("", Location()),
        ("/text@0-999", Location(pointer="/text")),
        ("/text@9-3", Location(pointer="/text")),
        ("/text@L99", Location(pointer="/text")),
        ("/nowhere/at/all", None),
        ("somewhere", None),
        (None, None),
    ],
)
def test_what_a_location_means(location: str | None, region: Location | None) -> None:
    """A member, characters or a line of a text, a member that is missing; of what is not there, the whole, or nothing."""
    assert locate(OUTPUT, location) == region


def test_a_test_names_a_file() -> None:
    """`total.py:2` is the second line of the text that has this name, wherever it is."""
    output = {"files": {"total.py": "def total():\n    return 1\n", "other.py": "x\n"}}
    assert locate(output, "src/total.py:2") == Location(pointer="/files/total.py", start=13, end=25)


@pytest.mark.parametrize(
    ("location", "is_so"),
    [("/text@0-5", True), ("/text", False), ("/n", False), ("/n/total", True), ("/s", True), ("/n/new", True), ("", False)],
)  # fmt: skip
def test_which_places_are_precise(location: str, *, is_so: bool) -> None:
    """A range, a scalar, a short text and a missing member are; a long text and whatever holds others are not."""
    assert is_precise(OUTPUT, locate(OUTPUT, location)) is is_so


def test_headings_hold_what_belongs_to_them() -> None:
    """A section ends where one of its own level or above begins; number signs in code are none."""
    found = {each.title: TEXT[each.start : each.end] for each in headings(TEXT)}
    assert found == {
        "One": "# One\n\na\nb\nc\n\n## Deep\n\nd\n\n",
        "Deep": "## Deep\n\nd\n\n",
        "Two": "# Two\n\ne\n",
    }
    assert headings("```\n# no\n```\n") == []


@pytest.mark.req("R202")
@pytest.mark.parametrize(
    ("radius", "shown"),
    [(0, "b\n"), (1, "a\nb\nc\n"), (2, "\na\nb\nc\n\n"), (9, "# One\n\na\nb\nc\n\n## Deep\n\nd\n\n")],
)
def test_a_window_is_the_lines_around_a_place(radius: int, shown: str) -> None:
    """From l - w to l + w, and never beyond the section that it is in."""
    at = TEXT.index("b")
    found = window(OUTPUT, Location(pointer="/text", start=at, end=at + 1), radius)
    assert TEXT[found.start : found.end] == shown


def test_sections_of_texts_and_of_json() -> None:
    """The nearest heading, the paragraph where there is none, and what holds a member."""

    def of(output: dict[str, Any], location: str) -> str:
        region = locate(output, location)
        assert region is not None
        return str(section(output, region))

    at = TEXT.index("d\n")
    assert of(OUTPUT, f"/text@{at}-{at + 1}") == f"/text#char={TEXT.index('## Deep')},{TEXT.index('# Two')}"
    assert of(OUTPUT, "/text@0-2") == f"/text#char=0,{TEXT.index('# One')}"
    assert of({"t": "one\n\ntwo\n\nthree"}, "/t@5-6") == "/t#char=5,10"
    assert of(OUTPUT, "/n/total") == "/n"
    assert of(OUTPUT, "/n/items/1/x") == "/n/items/1"
    assert of(OUTPUT, "/s") == "/s"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=3), JSON, min_size=1, max_size=4)


def places(value: Any, at: str = "") -> list[str]:
    """Every pointer into a value."""
    found = [at]
    if isinstance(value, dict):
        for name, member in value.items():  # pyright: ignore[reportUnknownVariableType] - drawn JSON
            found += places(member, at + pointer.join([str(name)]))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        for index, item in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            found += places(item, f"{at}/{index}")
    return found


@pytest.mark.req("R202")
@given(st.data())
def test_a_splice_changes_nothing_outside_of_its_region(data: st.DataObject) -> None:
    """Every other member stays, and of a text every character before and behind."""
    output = data.draw(OBJECTS)
    place = data.draw(st.sampled_from(places(output)))
    text = text_at(output, place)
    if text is not None and data.draw(st.booleans()):
        start = data.draw(st.integers(0, len(text)))
        region = Location(pointer=place, start=start, end=data.draw(st.integers(start, len(text))))
        edit = Edit(region=region, replacement=data.draw(st.text(max_size=9)))
    else:
        edit = Edit(region=Location(pointer=place), replacement=data.draw(JSON if place else OBJECTS))
    changed = splice(output, edit)
    others = [each for each in places(output) if not each.startswith(place) and not place.startswith(each)]
    assert all(pointer.follow(changed, each) == pointer.follow(output, each) for each in others)
    if edit.region.is_range and text is not None:
        start, end = edit.region.start or 0, edit.region.end or 0
        assert text_at(changed, place) == text[:start] + edit.replacement + text[end:]
    else:
        assert pointer.follow(changed, place) == edit.replacement


@given(text=st.text(min_size=1, max_size=30), data=st.data())
def test_a_place_is_found_again_after_an_edit(text: str, data: st.DataObject) -> None:
    """What an edit did not touch has the same characters at its new place."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    low = data.draw(st.integers(0, len(text)))
    high = data.draw(st.integers(low, len(text)))
    edit = Edit(
        region=Location(pointer="/t", start=start, end=end), replacement=data.draw(st.text(max_size=5))
    )
    moved, is_touched = follow_edit(Location(pointer="/t", start=low, end=high), edit)
    changed = str(splice({"t": text}, edit)["t"])
    assert moved is not None
    assert 0 <= (moved.start or 0) <= (moved.end or 0) <= len(changed)
    if not is_touched:
        assert changed[moved.start : moved.end] == text[low:high]
    else:
        assert low < end or start < high
        assert moved.start == min(low, start)
        assert (moved.end or 0) >= start + len(edit.replacement)


def test_an_edit_that_does_not_fit_is_refused() -> None:
    """A number cannot stand inside a text, and nothing can stand where nothing is held."""
    for edit in (
        Edit(region=Location(pointer="/s", start=0, end=2), replacement=5),
        Edit(region=Location(pointer="/s", start=3, end=99), replacement="x"),
        Edit(region=Location(pointer="/s/deeper"), replacement=5),
        Edit(region=Location(pointer="/n/items/2"), replacement=5),
        Edit(region=Location(), replacement=[]),
    ):
        with pytest.raises(UsageError):
            splice(OUTPUT, edit)


@given(OBJECTS)
def test_all_texts_are_found(output: dict[str, Any]) -> None:
    """Each pointer leads to a text, and no text is missed."""
    found = texts(output)
    assert sorted(found) == sorted(
        each for each in places(output) if isinstance(pointer.follow(output, each), str)
    )


@given(st.text(alphabet="a#@:-1,=~/", max_size=8), st.integers(0, 9), st.integers(0, 9))
def test_a_place_that_was_written_down_is_found_again(name: str, start: int, length: int) -> None:
    """Whatever a member is called, what a region prints leads back to it."""
    output = {name: "0123456789" * 2}
    place = pointer.join([name])
    for region in (Location(pointer=place), Location(pointer=place, start=start, end=start + length)):
        assert locate(output, str(region)) == region
