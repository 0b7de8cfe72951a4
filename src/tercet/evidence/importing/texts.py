"""Extracts the text of documents (plain text, HTML, and PDF with the extra `tercet[documents]`) and cuts it into chunks."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import NamedTuple

from tercet.contracts.errors import UsageError, extra_missing

_SILENT = frozenset({"script", "style", "template", "noscript", "svg", "math", "iframe", "object", "head"})
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BREAKS = frozenset(
    {"address", "article", "aside", "blockquote", "body", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption",
     "figure", "footer", "form", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "summary", "table",
     "tbody", "tfoot", "thead", "tr", "ul", "html"}
)  # fmt: skip
_SECTION = re.compile(r"<!\[[^>]*>?")
"""Marked sections are comments in HTML; the parser of the standard library stops at one that it does not know."""
_SPACE = re.compile(r"[ \t\r\f\n]+")


class Unreadable(UsageError):  # noqa: N818 - named after the state
    """A file whose content does not match its suffix."""

    default_code = "file_unreadable"


def decode(data: bytes) -> str:
    """Return bytes as text; raise `Unreadable` if they are not text. A byte order mark is kept."""
    if b"\0" in data:
        raise Unreadable(
            "it contains NUL bytes, so it is not text",
            code="not_text",
            remedy="use the suffix of its real format",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"byte {error.start:,} is not UTF-8", code="not_utf8", remedy="save it as UTF-8"
        ) from error


def html_text(markup: str) -> str:
    """Return the text of a page, with headings marked as in Markdown, without scripts and styles."""
    reader = _Page()
    reader.feed(_SECTION.sub(" ", markup))
    reader.close()
    return reader.text()


class _Page(HTMLParser):
    """Collects the text of a page, block by block."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._blocks: list[str] = []
        self._words: list[str] = []
        self._mark = ""
        self._silent: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Start a new block at a heading, a block element or a line break."""
        del attrs
        if tag in _SILENT:
            self._silent.append(tag)
        elif tag == "body":
            self._silent.clear()  # an unclosed head ends here
        elif tag == "br":
            self._words.append("\n")
        elif tag in ("td", "th"):
            self._words.append(" | " if self._words else "")
        if tag in _BREAKS or tag in _HEADINGS:
            self._end_block()
            self._mark = _HEADINGS.get(tag, "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Ignore a self-closing tag."""
        if tag not in _SILENT:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """Finish a block."""
        if tag in self._silent:
            while self._silent and self._silent.pop() != tag:
                continue
        if tag in _BREAKS or tag in _HEADINGS:
            self._end_block()

    def handle_data(self, data: str) -> None:
        """Collect text outside of scripts."""
        if not self._silent:
            self._words.append(data)

    def text(self) -> str:
        """Return everything, with an empty line between blocks."""
        self._end_block()
        return "\n\n".join(self._blocks)

    def _end_block(self) -> None:
        lines = [_SPACE.sub(" ", line).strip() for line in "".join(self._words).split("\n")]
        said = " ".join(line for line in lines if line)
        if said:
            self._blocks.append(f"{self._mark} {said}" if self._mark else said)
        self._words.clear()
        self._mark = ""


def page_texts(data: bytes) -> list[str]:
    """Return the texts of the pages; raise `Unreadable` for a file that is not a PDF, is encrypted, or has no text."""
    try:
        import pypdf  # noqa: PLC0415 - an optional dependency
        from pypdf.errors import FileNotDecryptedError  # noqa: PLC0415 - an optional dependency
    except ModuleNotFoundError as error:
        raise extra_missing("reading PDF", "pypdf", "documents") from error
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # errors are raised, warnings are not needed
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader = pypdf.PdfReader(io.BytesIO(data))
            is_closed = reader.is_encrypted and not reader.decrypt("")
            texts = [] if is_closed else [_storable(page.extract_text()) for page in reader.pages]
    except FileNotDecryptedError:
        is_closed, texts = True, []
    except Exception as error:
        raise Unreadable(
            f"it is not a readable PDF ({f'{type(error).__name__}: {error}'[:200]})",
            code="pdf_unreadable",
            remedy="open it in a viewer and save it again",
        ) from error
    if is_closed:
        raise Unreadable(
            "it is encrypted", code="pdf_encrypted", remedy="save a copy without a password, and import that"
        )
    if not any(text.strip() for text in texts):
        raise Unreadable(
            "it contains no text, only images",
            code="pdf_without_text",
            remedy="run it through text recognition first",
        )
    return texts


def _storable(text: str) -> str:
    """Return a text without characters that no store accepts: fonts may map to lone surrogates and to NUL."""
    return "".join(
        "\ufffd" if "\ud800" <= letter <= "\udfff" or letter == "\0" else letter for letter in text
    )


# --- chunks ---
# A heading begins a chunk. Paragraphs are combined as long as they fit; one that is too long is split at the end of
# a sentence, else at a space, else anywhere. Every non-space character is in exactly one chunk.


MOST = 1_500
"""The maximum length of a chunk: a few paragraphs, which a person reads at a glance."""

_HEADING = re.compile(r" {0,3}(?P<marks>#{1,6})(?:[ \t]+(?P<title>[^\n]*?))?[ \t]*(?:#+[ \t]*)?\n?")
_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})")
_LONGEST_HEADING = 1_000
_SENTENCE = re.compile(r"[.!?。](?=\s)|\n")


class Chunk(NamedTuple):
    """A part of a text: its characters, the headings above it, and its byte range in the UTF-8 text."""

    text: str
    heading: str
    start: int
    end: int


class _Block(NamedTuple):
    """A heading, a paragraph or a fenced block: its characters from `start` up to `end`."""

    start: int
    end: int
    heading: str
    is_heading: bool


def split(text: str) -> Iterator[Chunk]:
    """Return the chunks of a text, in order."""
    counted = bytes_before = 0
    for first, end, heading in _spans(text):
        chunk = text[first:end].strip()
        if not chunk:
            continue
        start = text.index(chunk, first)
        bytes_before += len(text[counted:start].encode())
        size = len(chunk.encode())
        yield Chunk(chunk, heading, bytes_before, bytes_before + size)
        counted, bytes_before = start + len(chunk), bytes_before + size


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where each chunk begins and ends, and its heading."""
    begun: _Block | None = None
    end, has_body = 0, False
    for block in _blocks(text):
        is_new_section = block.is_heading and has_body
        if begun is not None and (is_new_section or block.end - begun.start > MOST):
            yield from _cut(text, begun.start, end, begun.heading)
            begun = None
        if begun is None:
            begun, has_body = block, False
        elif not has_body:
            begun = begun._replace(heading=block.heading)
        end, has_body = block.end, has_body or not block.is_heading
    if begun is not None:
        yield from _cut(text, begun.start, end, begun.heading)


def _cut(text: str, start: int, end: int, heading: str) -> Iterator[tuple[int, int, str]]:
    """Yield a span in pieces of limited length."""
    while end - start > MOST:
        stop = _last_break(text, start, start + MOST)
        yield start, stop, heading
        start = stop
    yield start, end, heading


def _last_break(text: str, start: int, end: int) -> int:
    """Return the best place to split before `end`: after a sentence in the second half, else after a space, else `end`."""
    half = (start + end) // 2
    ends = [match.end() for match in _SENTENCE.finditer(text, half, end)]
    if ends:
        return ends[-1]
    space = max(text.rfind(" ", half, end), text.rfind("\t", half, end))
    return space + 1 if space > start else end


def _blocks(text: str) -> Iterator[_Block]:
    titles: list[tuple[int, str]] = []
    begin, position, fence = -1, 0, ""
    for line in text.splitlines(keepends=True):
        start, position = position, position + len(line)
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark["marks"].startswith(fence) else fence
            continue
        heading = _HEADING.fullmatch(line) if len(line) <= _LONGEST_HEADING else None
        if begin >= 0 and (heading or not line.strip()):
            yield _Block(begin, start, _path(titles), is_heading=False)
            begin = -1
        if heading:
            _enter(titles, len(heading["marks"]), heading["title"] or "")
            yield _Block(start, position, _path(titles), is_heading=True)
        elif line.strip():
            fence = mark["marks"] if mark else ""
            begin = start if begin < 0 else begin
    if begin >= 0:
        yield _Block(begin, position, _path(titles), is_heading=False)


def _enter(titles: list[tuple[int, str]], level: int, title: str) -> None:
    while titles and titles[-1][0] >= level:
        titles.pop()
    titles.append((level, title[:200]))


def _path(titles: list[tuple[int, str]]) -> str:
    return " > ".join(title for _, title in titles if title)
