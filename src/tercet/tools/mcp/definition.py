"""What an MCP server says about one of its tools, as it is pinned: what is hashed, what differs, what its hints mean.

Pinned is what a planner reads or what decides how a call is judged: name, title, description, both schemas and the
annotations. Icons and `_meta` are not: nobody here reads them, and servers put times and versions into them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field

from tercet.contracts.canonical import canonical, digest
from tercet.contracts.mode import ApprovalMode, stronger
from tercet.contracts.plain import PlainObject
from tercet.contracts.shape import Authored, as_object

MAX_SHOWN = 200
"""So many letters of an old and of a new text are shown in a change."""
LEAD = 30
"""So many letters that both have are shown before the first that differs."""


class Definition(Authored):
    """A tool's definition in the words of the protocol."""

    model_config = ConfigDict(populate_by_name=True)

    name: str = Field(min_length=1, max_length=200)
    title: str | None = None
    description: str | None = None
    input_schema: PlainObject = Field(alias="inputSchema")
    output_schema: PlainObject | None = Field(default=None, alias="outputSchema")
    annotations: PlainObject | None = None

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Definition:
        """What is pinned of all that a server tells about a tool; raises `ValidationError`."""
        names = {field.alias or name for name, field in cls.model_fields.items()}
        return cls.model_validate({key: value for key, value in told.items() if key in names})

    def dump(self) -> dict[str, Any]:
        """The definition as it is stored; what was not said is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @cached_property
    def hash(self) -> str:
        """What is pinned; raises `UsageError` for what canonical JSON does not have."""
        return digest(self.dump())

    def hint(self, name: str) -> bool | None:
        """A hint of the server's; None where it says nothing."""
        found = (self.annotations or {}).get(name)
        return found if isinstance(found, bool) else None

    @cached_property
    def least_mode(self) -> tuple[ApprovalMode, str]:
        """The least mode that the hints leave open, and the hint that says so. Silence demands nothing: what a pack
        does not label is destructive already."""
        is_reading = self.hint("readOnlyHint") is True
        if self.hint("destructiveHint") is True:
            return ApprovalMode.DESTRUCTIVE, "destructiveHint"
        if self.hint("openWorldHint") is True and not is_reading:
            return ApprovalMode.NETWORK, "openWorldHint"
        if self.hint("readOnlyHint") is False:
            return ApprovalMode.LOCAL_WRITE, "readOnlyHint"
        return ApprovalMode.READ_ONLY, ""

    def mode_for(self, declared: ApprovalMode | None) -> ApprovalMode:
        """The mode of a tool that its pack declares so: a hint can raise it, and nothing else makes it harmless."""
        return stronger(declared or ApprovalMode.DESTRUCTIVE, self.least_mode[0])


class Change(NamedTuple):
    """A difference between what is pinned and what a server says now."""

    tool: str
    field: str
    """A field of the definition by its path, or empty where the whole tool came or went."""
    old: Any
    new: Any

    def sentence(self, server: str) -> str:
        """The change for people: which tool, which field, old → new."""
        where = f"{server}: {self.tool}"
        if not self.field:
            return f"{where} {'is new' if self.old is None else 'is gone'}"
        return f"{where}, {self.field}: {_told(self.old, self.new)}"


def compare(
    pinned: Mapping[str, Definition], live: Mapping[str, Definition], *, with_new: bool = True
) -> tuple[Change, ...]:
    """What is different, tool by tool and field by field."""
    return tuple(_compared(pinned, live, with_new=with_new))


def _compared(
    pinned: Mapping[str, Definition], live: Mapping[str, Definition], *, with_new: bool
) -> Iterator[Change]:
    for name, old in pinned.items():
        if name not in live:
            yield Change(name, "", old.dump(), None)
        elif live[name].hash != old.hash:
            yield from _fields(name, "", old.dump(), live[name].dump())
    if with_new:
        for name, new in live.items():
            if name not in pinned:
                yield Change(name, "", None, new.dump())


def _fields(tool: str, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """The differing fields, as deep as both sides have objects: a schema is told by its part that changed."""
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        where = f"{path}.{key}" if path else key
        if key in old and key in new and (a := as_object(before)) and (b := as_object(after)):
            yield from _fields(tool, where, a, b)
        elif key not in old or key not in new or canonical(before) != canonical(after):
            yield Change(tool, where, before, after)


def _told(old: Any, new: Any) -> str:
    """Old → new, both from shortly before where they part: what matters may stand at the end of a long text."""
    before, after = _text(old), _text(new)
    shared = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    start = min(len(before), len(after)) if shared is None else shared
    skipped = max(0, start - LEAD) if start > 2 * LEAD else 0
    return f"{_cut(before, skipped)} → {_cut(after, skipped)}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical(value).decode()


def _cut(text: str, skipped: int) -> str:
    if not text:
        return "nothing"
    shown = text[skipped : skipped + MAX_SHOWN]
    return f"“{'…' * bool(skipped)}{shown}{'…' * (len(text) > skipped + MAX_SHOWN)}”"
