"""Placeholders in outputs: `[amount]`, `<name>`, `{date}` and their like stand for something that nobody has filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tercet.quality.grounding.lexicon import word_set

_PLAIN = (
    r"\b(?:TODO|TBD|FIXME|XXX)\b|\[(?:insert|your|name|date|placeholder)[^\]\n]{0,60}\]|\blorem ipsum\b"
    r"|\{\{[^{}\n]{1,60}\}\}"
)
_SECOND = re.compile(_PLAIN)
_THIRD = re.compile(
    rf"(?P<plain>{_PLAIN})"
    r"|(?<![\w\]])\[(?P<square>[A-Za-z][A-Za-z _'’/-]{0,60})\](?![(\[:])"
    r"|<(?P<angle>[A-Za-z][A-Za-z _'’-]{0,60})>"
    r"|(?<![\w${#])\{(?P<curly>[A-Za-z][A-Za-z _'’-]{0,60})\}"
)
_WORD = re.compile(r"[A-Za-z]+")
_LAST = word_set(
    "name names firstname lastname surname date amount price sum total customer client guest recipient addressee "
    "sender address number order booking reference company organisation organization email phone telephone title "
    "signature city country street day month year time reason product item link url placeholder position department "
    "deadline iban currency refund room"
)
_FIRST = word_set("insert your enter fill add placeholder")
_CODE = re.compile(
    r"```|=>|[;{]\s*$|^\s*(?:def|class|import|return|function|const|let|var|public|private)\b|^\s*#include",
    re.MULTILINE,
)


def find_placeholders(text: str, *, edition: int) -> Iterator[re.Match[str]]:
    """Where a text has placeholders, in their order; in code, brackets are brackets."""
    if edition < 3 or _CODE.search(text):
        yield from _SECOND.finditer(text)
        return
    for match in _THIRD.finditer(text):
        if match["plain"] or _is_blank(text, match):
            yield match


def hide_placeholders(text: str, *, edition: int) -> str:
    """A text with spaces in their place, as long as it was: they name nothing that evidence could have."""
    if edition < 3:
        return text
    for match in find_placeholders(text, edition=edition):
        text = f"{text[: match.start()]}{' ' * len(match[0])}{text[match.end() :]}"
    return text


def _is_blank(text: str, match: re.Match[str]) -> bool:
    inner = match["square"] or match["angle"] or match["curly"]
    words = [word.casefold() for word in _WORD.findall(inner)]
    is_named = bool(words) and len(words) <= 6 and (words[-1] in _LAST or words[0] in _FIRST)
    return is_named and not (match["angle"] and f"</{inner}>" in text)
