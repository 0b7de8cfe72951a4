"""Evidence: the facts that a plan may rely on."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, NamedTuple, Self

from pydantic import AwareDatetime, model_validator

from tercet.contracts.mode import Trust
from tercet.contracts.shape import Authored, Shape, as_object
from tercet.contracts.values.canonical import digest
from tercet.contracts.values.plain import PlainValue

EPISODE = "episode"
"""The class of facts that runs have remembered."""

_REF = re.compile(r"kg:(?P<classification>[^:#\s]+):(?P<key>[^#\s]+)#snapshot_(?P<snapshot>[^#\s]+)")


class EvidenceRef(NamedTuple):
    """The parts of an evidence id `kg:<class>:<id>#snapshot_<snapshot>`."""

    classification: str
    key: str
    snapshot: str

    def __str__(self) -> str:
        return f"kg:{self.classification}:{self.key}#snapshot_{self.snapshot}"


def parse_ref(text: str) -> EvidenceRef | None:
    """Return the parts of an evidence id, or None if the text is not one."""
    match = _REF.fullmatch(text)
    return EvidenceRef(*match.groups()) if match else None


def meets(requirement: str, classification: str) -> bool:
    """Return whether evidence of a class meets a requirement: `x_evidence` is met by `x` and by `x_evidence` only."""
    return requirement in (classification, f"{classification}_evidence")


class Evidence(Authored):
    """A fact with its class, content, source, trust and expiry."""

    id: str
    classification: str = ""
    content: PlainValue = None
    trust: Trust = Trust.UNTRUSTED
    source: str = ""
    expires_at: AwareDatetime | None = None

    @model_validator(mode="before")
    @classmethod
    def _class_from_id(cls, data: Any) -> Any:
        fields = as_object(data)
        if fields is None or not isinstance(fields.get("id"), str) or fields.get("classification"):
            return data
        ref = parse_ref(fields["id"])
        return {**fields, "classification": ref.classification if ref else ""}

    @model_validator(mode="after")
    def _id_is_a_ref(self) -> Self:
        if parse_ref(self.id) is None:
            raise ValueError(
                f"an evidence id reads kg:<class>:<id>#snapshot_<snapshot>, not {self.id[:80]!r}"
            )
        return self

    @cached_property
    def hash(self) -> str:
        """The hash of the content, which an approval pins."""
        return digest(self.content)

    @property
    def snapshot(self) -> str:
        """The snapshot that this fact belongs to."""
        ref = parse_ref(self.id)
        return ref.snapshot if ref else ""


class Citation(Shape):
    """Where a fact was found: the document, the part of it, and the query."""

    evidence: str
    """The id of the fact."""
    content_hash: str
    snapshot_hash: str = ""
    """The hash of everything that the snapshot was made from."""
    document: str = ""
    document_hash: str = ""
    chunk: int | None = None
    start: int | None = None
    end: int | None = None
    """The byte range of the chunk in the document's text, from `start` up to `end`."""
    query: str | None = None
    """The search words; None for a fact that was read by its id."""

    @cached_property
    def hash(self) -> str:
        """The content address of this citation."""
        return digest(self)
