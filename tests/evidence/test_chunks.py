"""Texts are cut where a reader would cut them, and nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tercet.evidence.importing.texts import MOST, split

PIECES = st.sampled_from(
    ["# Head\n", "## Sub\n", "####### seven\n", "word ", "Sentence. ", "\n", "\n\n", "```\n", "~~~~\n", "é𝄞", "x" * 700, " " * 50, "\t",
     "\r\n", "\u2028", "# ", "#\n", "a. b! c?\n"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=60).map("".join))


@given(TEXTS)
def test_every_letter_is_in_one_chunk(text: str) -> None:
    """The chunks are bounded, in order, do not overlap, are found at their bytes, and leave out space only."""
    data = text.encode("utf-8", "replace")
    shown = data.decode()
    behind = 0
    left = bytearray()
    for chunk in split(shown):
        assert chunk.text == chunk.text.strip() != ""
        assert len(chunk.text) <= MOST
        assert chunk.start >= behind
        assert data[chunk.start : chunk.end].decode() == chunk.text
        left += data[behind : chunk.start]
        behind = chunk.end
    assert not (left + data[behind:]).decode().strip()


@given(TEXTS)
def test_a_text_is_always_cut_alike(text: str) -> None:
    """The same text gives the same chunks."""
    shown = text.encode("utf-8", "replace").decode()
    assert list(split(shown)) == list(split(shown))


def test_headings_begin_chunks() -> None:
    """A heading stands with what follows it, and tells the path to it; a heading of a higher level ends the path."""
    text = "# Guide\n\n## Refunds\nTwo days.\n\nOr three.\n\n## Limits\nAsk.\n# Other ##\nEnd.\n"
    assert [(chunk.text, chunk.heading) for chunk in split(text)] == [
        ("# Guide\n\n## Refunds\nTwo days.\n\nOr three.", "Guide > Refunds"),
        ("## Limits\nAsk.", "Guide > Limits"),
        ("# Other ##\nEnd.", "Other"),
    ]


def test_a_fenced_block_has_no_headings() -> None:
    """What looks like a heading inside a block of code is code."""
    (chunk,) = split("# Install\n```sh\n# not a heading\nmake\n```\n")
    assert chunk.heading == "Install"


def test_a_long_paragraph_is_cut_behind_a_sentence() -> None:
    """The last sentence that fits ends a chunk; a text without any end is cut at a space, or where it must be."""
    sentence = "All work and no play. "
    first, *_ = split(sentence * 200)
    assert first.text.endswith("play.")
    assert len(first.text) > MOST // 2
    assert next(split("word " * 1_000)).text.endswith("word")
    assert [len(chunk.text) for chunk in split("x" * (2 * MOST + 1))] == [MOST, MOST, 1]


def test_a_line_of_marks_is_read_in_no_time() -> None:
    """A megabyte that might become a heading is not looked at again and again."""
    assert len(list(split("# " + " " * 1_000_000 + "x"))) == 2
