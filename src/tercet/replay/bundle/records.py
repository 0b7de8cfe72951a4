"""A record of a bundle, and the end of it, as a pass over the file finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tercet.replay.bundle.layout import Header


class Record(NamedTuple):
    """A record whose bytes were checked, and where its payload begins in the file."""

    header: Header
    link: str
    """The hash of its header."""
    offset: int


@dataclass(frozen=True, kw_only=True)
class Seal:
    """The end of a bundle: the hash that stands for all of it, and who signed that."""

    hash: str
    records: int
    size: int
    sha256: str
    """Of all bytes before the end's line."""
    signer: str = ""
    proof: bytes = b""
