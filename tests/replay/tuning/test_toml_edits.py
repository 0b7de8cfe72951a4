"""Values of TOML files are changed where they stand, and nothing else is."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import UsageError
from tercet.contracts.packs.tuning import Value
from tercet.contracts.shape import as_list, as_object
from tercet.replay.tuning.proposal import TomlPath, edit_toml

PAGE = '''\
# A pack.
name = "a # b"   # its name
version = '1.0.0'
"odd key" = 3
text = """
[budget]
max_steps = 1 """
list = [ [1, 2], # two
  {a = 1, "b" = "x, }"}, ]
[budget] # what a run may use
max_steps = 12 # a dozen
a.b = 0.5
[[decision]]
id = "one"
thresholds = [{ name = "safety" }, { name = "correctness", minimum = 0.85 }]
[decision.quality.rubric]
threshold = 0.8
[[decision.quality.rubric.dimensions]]
weight = 0.25
[[decision.quality.rubric.dimensions]]
weight = 0.75
[[decision]]
id = "two"
[decision.quality.rubric]
threshold = 0.9
'''


def _leaves(value: Any, path: TomlPath = ()) -> dict[TomlPath, Any]:
    parts = as_object(value) or dict(enumerate(as_list(value) or ()))
    if not parts:
        return {path: value}
    return {way: leaf for key, each in parts.items() for way, leaf in _leaves(each, (*path, key)).items()}


LEAVES = _leaves(tomllib.loads(PAGE))


@pytest.mark.parametrize("path", LEAVES, ids=lambda path: ".".join(map(str, path)))
def test_every_value_can_be_changed_alone(path: TomlPath) -> None:
    """Wherever a value stands, exactly that value is another one afterwards, and every comment is still there."""
    edited = edit_toml(PAGE, {path: "new"})
    assert _leaves(tomllib.loads(edited)) == {**LEAVES, path: "new"}
    assert all(
        comment in edited for comment in ("# A pack.", "# its name", "# two", "# what a run", "# a dozen")
    )


def test_several_values_at_once() -> None:
    """Changes do not get in each other's way."""
    changes: dict[TomlPath, Value] = {
        ("budget", "max_steps"): 7,
        ("decision", 0, "thresholds", 1, "minimum"): 0.9,
        ("decision", 1, "quality", "rubric", "threshold"): 0.95,
    }
    edited = edit_toml(PAGE, changes)
    assert _leaves(tomllib.loads(edited)) == {**LEAVES, **changes}
    assert "max_steps = 7 # a dozen" in edited


def test_what_is_not_there_is_refused() -> None:
    """A value that nobody has written cannot be changed in place, and the answer says what to write."""
    with pytest.raises(UsageError, match=r"budget\.max_replans") as refused:
        edit_toml(PAGE, {("budget", "max_replans"): 1})
    assert refused.value.code == "value_not_editable"


@given(st.one_of(st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x7f"))))  # fmt: skip
def test_values_read_back_as_they_were(value: Value) -> None:
    """What is written is read as the same value, of the same type."""
    read = tomllib.loads(edit_toml("v = 0 # here\n", {("v",): value}))["v"]
    assert (type(read), read) == (type(value), value)


@given(st.text(max_size=200))
def test_nonsense_is_refused_and_never_raises_otherwise(text: str) -> None:
    """Whatever the text is, an edit changes what it should, or is refused."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    with pytest.raises(UsageError):
        edit_toml(text, {("not", "there"): 1})
