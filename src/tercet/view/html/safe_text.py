"""Text of plans, tools, models and people for a page: without known secrets, visible, and shortened if it is long.

Secrets are removed before a text is cut, so that no half of one is left. Three kinds are found: the secrets that the
caller names (those of the environment), what has the shape of a known key, and the members of a value whose name says
that they are secret. A random-looking string alone is left alone: every hash looks like one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tercet.contracts.shape import as_list, as_object
from tercet.quality.rubric.safety import find_any_secrets
from tercet.tools.secrets import MIN_LENGTH, REDACTED, Redaction, is_secret
from tercet.view.text import BLANK

LINE = 300
"""The number of characters of a text that are shown within a line."""
BLOCK = 6_000
"""The number of characters of a text that are shown in a block of its own."""
DEEPEST = 40
LEFT_OUT = "[a secret that is left out here]"

_PLAIN = frozenset("\n\t")
_SECRET_VARIABLE = re.compile(
    r"(?i).*(?:password|passwd|passphrase|secret|credential|token|api_?key|access_?key|private_?key|_key)s?"
)


def secrets_of(environment: Mapping[str, str]) -> Redaction:
    """Return the redaction of an environment's secrets: the values of variables whose names say that they are secret."""
    values = [value.strip() for name, value in environment.items() if _SECRET_VARIABLE.fullmatch(name)]
    return Redaction(value for value in values if len(value) >= MIN_LENGTH)


class Shown(str):
    """A text that is safe to print."""

    __slots__ = ()


class SafeText:
    """Makes recorded text safe for a page."""

    def __init__(self, secrets: Redaction | None = None) -> None:
        self._secrets = secrets or Redaction(())

    def text(self, text: object, limit: int = LINE) -> Shown:
        """Return a text without secrets, cut to about `limit` characters, with invisible characters spelt out."""
        return text if isinstance(text, Shown) else Shown(visible(_cut(self.clean(str(text)), limit)))

    def value(self, value: Any, limit: int = BLOCK) -> Shown:
        """Return a value as JSON over several lines; a text as it is."""
        if isinstance(value, str):
            return self.text(value, limit)
        return self.text(_json(value, indent=2), limit)

    def inline(self, value: Any, limit: int = LINE) -> Shown:
        """Return a value as JSON on one line."""
        return self.text(_json(value, indent=None), limit)

    def member(self, name: str, value: Any, is_block: bool = False, limit: int = 0) -> Shown:  # noqa: FBT001, FBT002 - called by templates
        """Return the value of a named member on one line or as a block; one whose name says that it is secret is redacted."""
        if is_secret(name, value):
            return Shown(REDACTED)
        return self.value(value, limit or BLOCK) if is_block else self.inline(value, limit or 4_000)

    def lines(self, name: str, value: Any) -> list[str]:
        """Return the value of a named member line by line, whole, to be compared with another one.

        A secret that is left out here reads differently from one that a repair redacted, so that the line from which a
        repair removed a secret reads as changed.
        """
        if is_secret(name, value):
            return [REDACTED]
        text, mark = value if isinstance(value, str) else _json(value, indent=2), "\ue000"
        while mark in text:
            mark += "\ue000"
        shown = self.clean(text.replace(REDACTED, mark)).replace(REDACTED, LEFT_OUT).replace(mark, REDACTED)
        return shown.removesuffix("\n").split("\n")

    def clean(self, text: str) -> str:
        """Return a text without the secrets that are known, whole."""
        clean = self._secrets.text(text)
        for secret in reversed(find_any_secrets(clean)):
            if secret.kind != "random string":
                clean = f"{clean[: secret.start]}{REDACTED}{clean[secret.end :]}"
        return clean


def visible(text: str) -> str:
    """Return a text with everything spelt out that does not print, or prints and cannot be seen."""
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
    """Return a value without the members whose names say that they are secret, and cut at a depth."""
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
