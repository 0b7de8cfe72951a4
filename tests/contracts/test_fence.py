"""Data in prompts: it cannot contain the marks that it stands between, and nothing in it is invisible."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.text.pasted import Data, fence, find_mark, join, show

TEXTS = st.lists(st.text(max_size=40), min_size=1, max_size=4)


@given(TEXTS)
def test_no_data_contains_its_mark(texts: list[str]) -> None:
    """Whatever the data is, between the marks of a prompt stands all of it, and nothing else."""
    pieces = [Data(text) for text in texts]
    mark = find_mark(pieces)
    between = re.findall(rf"<data-{mark}> (.*?) </data-{mark}>", join(pieces, mark), re.DOTALL)
    assert between == texts


@given(TEXTS)
def test_named_parts_keep_to_their_lines(texts: list[str]) -> None:
    """Each part is a name, a mark, one line of JSON and the mark again."""
    lines = fence([(f"Part{number}", text) for number, text in enumerate(texts)]).split("\n")
    assert lines[::4] == [f"Part{number}:" for number in range(len(texts))]
    assert lines[2::4] == [show(text, 12_000) for text in texts]


def test_what_one_cannot_see_is_written_out() -> None:
    """Characters that turn the direction of writing are escapes, those of other scripts only where asked for."""
    assert show("é\u202e\U000e0041", 80) == r'"é\u202e\U000e0041"'
    assert show("é", 80, is_ascii=True) == r'"\u00e9"'
    assert show("abcdef", 4) == '"abc … (4 more characters)'
