"""A text that is read in several passes: what one pass has taken, later ones leave alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from tercet.contracts.documents import TextToken, TokenKind
from tercet.locales.plain_text import PlainText, level, read_plain
from tercet.locales.vocabulary import Vocabulary
from tercet.quality.words import word_ranges

MAX_TOKENS = 5_000
"""Tokens of one text; what follows is one token that nothing equals, so that no one takes it for read."""


@dataclass
class Scan:
    """The plain form of a text, the same without case and accents, its words, and the tokens found so far."""

    plain: PlainText
    original: str
    vocabulary: Vocabulary
    flat: str
    words: list[tuple[str, int, int]]
    taken: bytearray
    found: list[TextToken] = field(default_factory=list[TextToken])
    unread: int | None = None
    """Where reading ended, because there were too many tokens."""

    @property
    def text(self) -> str:
        """The plain text."""
        return self.plain.text

    def is_free(self, start: int, end: int) -> bool:
        """Return whether nothing of a range is taken."""
        return end > start and self.taken.find(1, start, end) < 0

    def skip(self, start: int, end: int) -> None:
        """Mark a range as read without a token."""
        self.taken[start:end] = b"\1" * (end - start)

    def add(self, start: int, end: int, kind: TokenKind, value: str, unit: str = "") -> None:
        """Take a range as a token, unless something of it is taken."""
        if self.is_free(start, end):
            self.skip(start, end)
            self.found.append(self.token(*self.plain.span(start, end), kind, value, unit))

    def token(self, start: int, end: int, kind: TokenKind, value: str, unit: str = "") -> TextToken:
        """Return a range of the original as a token."""
        text = self.original[start:end]
        return TextToken(start=start, end=end, text=text, kind=kind, value=value, unit=unit)

    def tokens(self) -> tuple[TextToken, ...]:
        """Return what was found, in the order of the text."""
        found = sorted(self.found, key=lambda each: each.start)
        ends = [found[MAX_TOKENS].start] if len(found) > MAX_TOKENS else []
        ends += [] if self.unread is None else [self.plain.starts[self.unread]]
        if ends:
            unread = self.token(min(ends), len(self.original), "identifier", "")
            found = [*(each for each in found if each.end <= unread.start), unread]
        return tuple(found)


def begin_scan(text: str, vocabulary: Vocabulary) -> Scan:
    """Prepare a text for reading."""
    plain = read_plain(text, vocabulary.decimal, vocabulary.lexicon)
    return Scan(
        plain, text, vocabulary, level(plain.text), word_ranges(plain.text), bytearray(len(plain.text))
    )
