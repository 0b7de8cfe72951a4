"""What a repair may be made of: the schema of the output, evidence, and the sections that it must have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.outputs.repair import SectionTemplate
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.quality.repair.losses import Stated


@dataclass(frozen=True, kw_only=True, slots=True)
class Materials:
    """What a repair may be made of, and what it must leave."""

    schema: JsonObject | None = None
    evidence: tuple[Evidence, ...] = ()
    sections: tuple[SectionTemplate, ...] = ()
    slots: Mapping[str, str] = field(default_factory=dict[str, str])
    """The slot that may take the place of a wrong value, by the value's location."""
    guide: str = ""
    """Which slots there are, for a model."""
    required_sections: tuple[str, ...] = ()
    stated: tuple[Stated, ...] = ()
    """The values that the outputs state rightly."""

    @property
    def by_trust(self) -> tuple[tuple[Evidence, ...], ...]:
        """The trusted facts, then the others: what trusted ones say is not asked of others."""
        trusted = tuple(fact for fact in self.evidence if fact.trust is Trust.TRUSTED)
        return trusted, tuple(fact for fact in self.evidence if fact.trust is not Trust.TRUSTED)

    def members(self, name: str) -> list[Any]:
        """Return every value that a member of this name has in a fact; of the trusted ones, if any has it."""
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
    """The value that all of them are; None if they differ or there is none."""
    first = values[0] if values else None
    return first if all(value == first and type(value) is type(first) for value in values) else None


def objects(value: Any) -> Iterator[JsonObject]:
    """Yield every JSON object in a value, the outermost first."""
    if (members := as_object(value)) is not None:
        yield members
        for member in members.values():
            yield from objects(member)
    for item in as_list(value) or ():
        yield from objects(item)
