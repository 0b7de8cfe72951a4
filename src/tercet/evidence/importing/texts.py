"""Documents as text: what is decoded as it is, and what HTML shows."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from tercet.contracts.errors import UsageError

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


class Unreadable(UsageError):  # noqa: N818 - named by what is so
    """A file that is not what its name says."""

    default_code = "file_unreadable"


def decode(data: bytes) -> str:
    """Bytes as text; raises `Unreadable` for what is none. A mark at the beginning of the file is left where it is."""
    if b"\0" in data:
        raise Unreadable(
            "it holds NUL bytes, so it is no text", code="not_text", remedy="give it the ending of what it is"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"byte {error.start:,} is no UTF-8", code="not_utf8", remedy="save it as UTF-8"
        ) from error


def html_text(markup: str) -> str:
    """What a page says, its headings marked as in Markdown; scripts and styles say nothing."""
    reader = _Page()
    reader.feed(_SECTION.sub(" ", markup))
    reader.close()
    return reader.text()


class _Page(HTMLParser):
    """Gathers the text of a page, block by block."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._blocks: list[str] = []
        self._words: list[str] = []
        self._mark = ""
        self._silent: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A heading, a block or a break begins something new."""
        del attrs
        if tag in _SILENT:
            self._silent.append(tag)
        elif tag == "body":
            self._silent.clear()  # a head that was never closed ends here
        elif tag == "br":
            self._words.append("\n")
        elif tag in ("td", "th"):
            self._words.append(" | " if self._words else "")
        if tag in _BREAKS or tag in _HEADINGS:
            self._end_block()
            self._mark = _HEADINGS.get(tag, "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that closes itself holds nothing."""
        if tag not in _SILENT:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """What a block said is complete."""
        if tag in self._silent:
            while self._silent and self._silent.pop() != tag:
                continue
        if tag in _BREAKS or tag in _HEADINGS:
            self._end_block()

    def handle_data(self, data: str) -> None:
        """Words, unless they are those of a script."""
        if not self._silent:
            self._words.append(data)

    def text(self) -> str:
        """Everything, with an empty line between blocks."""
        self._end_block()
        return "\n\n".join(self._blocks)

    def _end_block(self) -> None:
        lines = [_SPACE.sub(" ", line).strip() for line in "".join(self._words).split("\n")]
        said = " ".join(line for line in lines if line)
        if said:
            self._blocks.append(f"{self._mark} {said}" if self._mark else said)
        self._words.clear()
        self._mark = ""
