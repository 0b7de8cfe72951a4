"""What a repair may be made of: the schema of the output, evidence, and the sections that it must have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tercet.contracts import pointer
from tercet.contracts.evidence import Evidence, meets
from tercet.contracts.mode import Trust
from tercet.contracts.repair import Redaction, SectionTemplate
from tercet.contracts.shape import JsonObject, as_list, as_object


@dataclass(frozen=True, kw_only=True, slots=True)
class Materials:
    """What a repair may be made of."""

    schema: JsonObject | None = None
    evidence: tuple[Evidence, ...] = ()
    sections: tuple[SectionTemplate, ...] = ()
    redaction: Redaction = "mark"
    may_begin: bool = False
    """Whether a section may be added to a text that says nothing: so it was before the third edition of the rules."""

    @property
    def by_trust(self) -> tuple[tuple[Evidence, ...], ...]:
        """The trusted facts, then the others: what trusted ones say is not asked of others."""
        trusted = tuple(fact for fact in self.evidence if fact.trust is Trust.TRUSTED)
        return trusted, tuple(fact for fact in self.evidence if fact.trust is not Trust.TRUSTED)

    def named(self, classification: str, place: str) -> Any:
        """The one value that facts of a class have at a pointer; None if there is none, or more than one."""
        for facts in self.by_trust:
            found = [
                value
                for fact in facts
                if meets(classification, fact.classification)
                and (value := pointer.value_at(fact.content, place)) is not None
            ]
            if found:
                return only(found)
        return None

    def members(self, name: str) -> list[Any]:
        """Every value that a member of this name has in a fact; of the trusted ones, if any has it."""
        for facts in self.by_trust:
            found = [
                holder[name]
                for fact in facts
                for holder in objects(fact.content)
                if holder.get(name) is not None
            ]
            if found:
                return found
        return []


def only(values: list[Any]) -> Any:
    """The value that all of them are; None where they differ or there is none."""
    first = values[0] if values else None
    return first if all(value == first and type(value) is type(first) for value in values) else None


def objects(value: Any) -> Iterator[JsonObject]:
    """Every JSON object in a value, the outermost first."""
    if (members := as_object(value)) is not None:
        yield members
        for member in members.values():
            yield from objects(member)
    for item in as_list(value) or ():
        yield from objects(item)
