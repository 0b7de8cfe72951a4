"""The smallest parts of a page, of which the others are made."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Tone: TypeAlias = Literal["good", "bad", "wait", "busy", "quiet"]
"""What a colour means: it went well, badly, it waits or is not known, it goes on, nothing came of it."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A label and what stands beside it."""

    label: str
    text: str
    is_code: bool = False
    is_block: bool = False
    """Whether it is a text of several lines."""
    note: str = ""
    """A quieter word behind it."""
    tone: Tone = "quiet"


class Chip(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict in a few words."""

    text: str
    tone: Tone


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """A score between 0 and 1, and what it is held to."""

    name: str
    number: str
    limit: str
    """What it should be, in words."""
    share: float
    mark: float | None
    """Where on its bar the limit is."""
    tone: Tone
