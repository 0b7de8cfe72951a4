"""Extracts the text of documents: plain text, HTML pages, and PDF (the extra `tercet[documents]`)."""

from __future__ import annotations

import io
import logging
import re
import warnings
from html.parser import HTMLParser

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
