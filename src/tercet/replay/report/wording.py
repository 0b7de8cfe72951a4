"""Other people's words on a page: without secrets, with what cannot be seen made visible, and cut if they are long.

Secrets are taken out before a text is cut, so that no half of one is left. Three kinds are found: the secrets that
the caller names (those of the environment), what has the shape of a known key, and the members of a value whose name
says that they are secret. What looks like dice only is left alone: every hash does.

Numbers in words follow at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tercet.contracts.shape import as_list, as_object
from tercet.quality.rubric.credentials import find_any_secrets
from tercet.tools.secrets import MIN_LENGTH, REDACTED, Redaction, is_secret
from tercet.view.text import BLANK, cents, count, joined, moment, score, spoken, took

__all__ = (
    "BLOCK", "LEFT_OUT", "Wording", "cents", "count", "elapsed", "joined", "moment", "score", "secrets_of", "spoken", "took",
    "visible",
)  # fmt: skip

LINE = 300
"""How much of a text is shown where it stands in a line."""
BLOCK = 6_000
"""How much of a text is shown where it has a place of its own."""
DEEPEST = 40
LEFT_OUT = "[a secret that is left out here]"

_PLAIN = frozenset("\n\t")
_SECRET_VARIABLE = re.compile(
    r"(?i).*(?:password|passwd|passphrase|secret|credential|token|api_?key|access_?key|private_?key|_key)s?"
)


def secrets_of(environment: Mapping[str, str]) -> Redaction:
    """What takes the secrets of an environment out: the values of the variables whose names say that they are secret."""
    values = [value.strip() for name, value in environment.items() if _SECRET_VARIABLE.fullmatch(name)]
    return Redaction(value for value in values if len(value) >= MIN_LENGTH)


class Wording:
    """How the words of plans, tools, models and people are shown."""

    def __init__(self, secrets: Redaction | None = None) -> None:
        self._secrets = secrets or Redaction(())

    def text(self, text: object, limit: int = LINE) -> str:
        """A text without secrets, cut to about so many characters, with everything that cannot be seen made visible."""
        return visible(_cut(self.clean(str(text)), limit))

    def value(self, value: Any, limit: int = BLOCK) -> str:
        """A value as JSON over several lines; a text that stands alone as it is."""
        if isinstance(value, str):
            return self.text(value, limit)
        return self.text(_json(value, indent=2), limit)

    def inline(self, value: Any, limit: int = LINE) -> str:
        """A value as JSON on one line."""
        return self.text(_json(value, indent=None), limit)

    def member(self, name: str, value: Any, limit: int = LINE) -> str:
        """The value of a named member on one line; one whose name says that it is secret is not shown."""
        return REDACTED if is_secret(name, value) else self.inline(value, limit)

    def block(self, name: str, value: Any, limit: int = BLOCK) -> str:
        """The value of a named member over several lines; one whose name says that it is secret is not shown."""
        return REDACTED if is_secret(name, value) else self.value(value, limit)

    def lines(self, name: str, value: Any) -> list[str]:
        """The value of a named member line by line, whole, to be compared with another one.

        What is left out of the report has another name in it than what a repair has put in the place of a secret: so a
        line from which a secret was taken does not look like one that never changed.
        """
        if is_secret(name, value):
            return [REDACTED]
        text, mark = value if isinstance(value, str) else _json(value, indent=2), "\ue000"
        while mark in text:
            mark += "\ue000"
        told = self.clean(text.replace(REDACTED, mark)).replace(REDACTED, LEFT_OUT).replace(mark, REDACTED)
        return told.removesuffix("\n").split("\n")

    def clean(self, text: str) -> str:
        """A text without the secrets that are known, whole."""
        told = self._secrets.text(text)
        for secret in reversed(find_any_secrets(told)):
            if secret.kind != "random string":
                told = f"{told[: secret.start]}{REDACTED}{told[secret.end :]}"
        return told


def visible(text: str) -> str:
    """The text with everything that does not print, or prints and cannot be seen, spelt out."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(
            letter if letter.isprintable() or letter in _PLAIN else _spelt(letter) for letter in text
        )
    return text if text.isascii() else BLANK.sub(lambda found: _spelt(found.group()), text)


def _spelt(letter: str) -> str:
    if letter == "\xa0":
        return " "
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    left_out = len(text) - head - tail
    return f"{text[:head]} […{left_out:,} characters are left out…] {text[-tail:]}"


def _json(value: Any, *, indent: int | None) -> str:
    return json.dumps(_without_secrets(value, DEEPEST), ensure_ascii=False, indent=indent, default=str)


def _without_secrets(value: Any, depth: int) -> Any:
    """A value without the members whose names say that they are secret, and without what nobody would read any more."""
    members, items = as_object(value), as_list(value)
    if members is None and items is None:
        return value
    if not depth:
        return "… deeper values are left out"
    if members is not None:
        return {
            name: REDACTED if is_secret(name, each) else _without_secrets(each, depth - 1)
            for name, each in members.items()
        }
    return [_without_secrets(each, depth - 1) for each in items or ()]


# --- numbers ---


def elapsed(ms: int) -> str:
    """How long after the start something was: `+3.4 s`."""
    return f"+{took(max(0, ms))}"
