"""Secrets of the environment: named where a tool is declared, read when it is called, and redacted from its results.

A service may echo what it was sent, in an answer or in an error; so everything that leaves an adapter passes
`Redaction`. It recognises a secret verbatim, in any letter case, with characters escaped as in a URL, in JSON or in
HTML, with every character percent-encoded, in hexadecimal with or without separators, in Base64, also broken into
lines, and, if the secret is itself Base64, decoded. It cannot recognise a secret that a service transforms further,
such as by truncating it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from tercet.contracts.errors import NotSent
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.text.encodings import BREAK, MAX_BREAKS, MAX_SEPARATORS, SEPARATOR

REDACTED = "[redacted]"
MIN_LENGTH = 6
"""Shorter values occur in ordinary text, and redacting them would garble it."""


_SECRET_NAME = re.compile(
    r"(?i)(?:.*[_-])?(?:password|passwd|passphrase|secret|credentials?|authorization|bearer|cookie"
    r"|(?:api|access|private|secret|signing)[_-]?key|token)"
)


def is_secret(name: str, value: Any) -> bool:
    """Return whether the name of a value suggests that it is secret; a reference to a value is not."""
    is_reference = as_object(value) is not None and any(key.startswith("$") for key in as_object(value) or {})
    return _SECRET_NAME.fullmatch(name) is not None and bool(value) and not is_reference


def read_secret(environment: Mapping[str, str], name: str, tool: str) -> str:
    """Return a secret by the name of its variable; raise `NotSent`, which names the variable and never its value."""
    value = environment.get(name, "").strip()
    if len(value) < MIN_LENGTH:
        is_short = f"has fewer than {MIN_LENGTH} characters, too few to be found and cut out of answers"
        raise NotSent(
            f"{tool} is not called: the environment variable {name} {is_short if value else 'is not set'}",
            code="secret_missing",
            remedy=f"set {name} to a longer secret" if value else f"set {name} where Tercet runs",
            is_retriable=False,
        )
    if not (value.isascii() and value.isprintable()):
        raise NotSent(
            f"{tool} is not called: {name} is not a valid header value",
            code="secret_missing",
            remedy=f"give {name} printable ASCII characters only",
            is_retriable=False,
        )
    return value


class Redaction:
    """Redacts secrets in texts and JSON values."""

    def __init__(self, secrets: Iterable[str], *, mark: str = REDACTED) -> None:
        self._mark = mark
        known = {
            text for secret in secrets for text in (secret, *_decoded(secret)) if len(text) >= MIN_LENGTH
        }
        plain = sorted(known, key=len, reverse=True)
        packed = sorted({text for each in plain for text in _base64_forms(each)}, key=len, reverse=True)
        patterns = [*map(_in_hexadecimal, plain), *map(_wrapped_pattern, packed), *map(_escaped, plain)]
        pattern = "|".join(patterns)
        self._pattern = re.compile(pattern, re.IGNORECASE) if pattern else None

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        return text if self._pattern is None else self._pattern.sub(self._mark, text)

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets, also in its keys and numbers."""
        if self._pattern is None:
            return value
        if (members := as_object(value)) is not None:
            return {self.text(key): self.value(member) for key, member in members.items()}
        if (items := as_list(value)) is not None:
            return [self.value(item) for item in items]
        if isinstance(value, str):
            return self.text(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self._mark if is_number and self._pattern.search(str(value)) else value


def _base64_forms(plain: str) -> Iterator[str]:
    """Return the Base64 forms of a text: the middle of it, whatever bytes surround it, such as `user:` in basic
    authentication.
    """
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            shifted = encode(b"\0" * before + plain.encode()).decode().rstrip("=")
            found = shifted[4 if before else 0 : -1]
            if len(found) >= MIN_LENGTH:
                yield found


_BREAK = f"{BREAK}{{0,{MAX_BREAKS}}}"
_BETWEEN = f"{SEPARATOR}{{0,{MAX_SEPARATORS}}}"


def _wrapped_pattern(packed: str) -> str:
    """Return a pattern for Base64 that may be broken into lines anywhere, with escaped characters."""
    return _BREAK.join(letter if letter.isalnum() else _spelt(letter) for letter in packed)


def _in_hexadecimal(plain: str) -> str:
    return _BETWEEN.join(f"{byte:02x}" for byte in plain.encode())


def _escaped(text: str) -> str:
    """Return a pattern for a text in which every character may be escaped: errors quote what a service sent verbatim."""
    return "".join(_lettered(letter) if letter.isalnum() else _spelt(letter) for letter in text)


def _lettered(letter: str) -> str:
    codes = sorted({f"%{byte:02x}" for each in (letter, letter.swapcase()) for byte in each.encode()})
    return f"(?:{letter}|{'|'.join(codes)})" if letter.isascii() else letter


def _spelt(sign: str) -> str:
    code, plain = ord(sign), re.escape(sign)
    ways = [rf"\\?{plain}", rf"%{code:02x}", rf"\\u{code:04x}", rf"\\x{code:02x}", rf"&#0*{code};"]
    ways += [rf"&#x0*{code:x};", re.escape(escape(sign)), *([r"\+"] if sign == " " else [])]
    return f"(?:{'|'.join(ways)})"


def _decoded(secret: str) -> Iterator[str]:
    """Return the content of a secret that is Base64 of a text, such as `user:password`, and the password alone."""
    try:
        text = base64.b64decode(secret, validate=True).decode()
    except (binascii.Error, ValueError):
        return
    if text.isprintable():
        yield text
        _, _, password = text.partition(":")
        if password:
            yield password
