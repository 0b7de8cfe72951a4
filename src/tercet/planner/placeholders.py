"""Placeholders in what a pack wrote: `${input.order_id}` for a field of the request, `${snapshot}` for a snapshot.

Templates may have them in most of their strings, tasks and methods only in evidence ids. A pack and a store of evidence
each have a snapshot. In an evidence id, `${snapshot}` is that of the pack if the run has the fact from there, else that of
the store if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Any

from tercet.contracts import pointer
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import parse_ref
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.trust import overlaps

PLACEHOLDER = re.compile(r"\$\{(input(?:\.[A-Za-z0-9_]+)+|snapshot)\}")
_SNAPSHOT = "snapshot"
_WHOLE_KEY = re.compile(rf"kg:[^:#${{}}]+:{PLACEHOLDER.pattern}#snapshot_[^#]+(?:#/.*)?")
"""An evidence id whose variable part is one placeholder: review recognises such a field by itself."""
EVIDENCE = "$evidence"


class PlanningError(UsageError):
    """There is no plan to propose."""

    default_code = "planning_failure"


@dataclass(frozen=True, kw_only=True)
class Placeholders:
    """What placeholders stand for in one run."""

    input: JsonObject | None = None
    """The request's input; None leaves its placeholders as they are."""
    snapshot: str = ""
    """The snapshot of the pack."""
    store: str = ""
    """The snapshot of the store of evidence."""
    known: Container[str] = ()
    """The evidence that the run has, by id."""
    marks: tuple[str, ...] = ()
    """The JSON Pointers of the input's untrusted fields."""
    untrusted_refs: dict[str, None] = field(default_factory=dict[str, None])
    """The ids that were written with an untrusted field by `fill_ids`, but for those whose whole variable part is one."""

    def value_of(self, path: str) -> Any:
        """The value that a placeholder stands for; raises `PlanningError` if the request does not have it."""
        if path == _SNAPSHOT:
            return self.snapshot or self.store
        try:
            return pointer.follow({"input": self.input or {}}, pointer.join(path.split(".")))
        except pointer.PointerError as error:
            raise PlanningError(
                f"the plan needs {path}, which the request does not have",
                remedy=f"give {path} in the request's input",
            ) from error

    def write(self, text: str) -> str:
        """A text with its placeholders replaced."""
        written = self._write(text, self.snapshot or self.store)
        if not self.store or f"${{{_SNAPSHOT}}}" not in text:
            return written
        ref = written.partition("#/")[0]
        is_elsewhere = parse_ref(ref) is not None and ref not in self.known
        return self._write(text, self.store) if is_elsewhere else written

    def _write(self, text: str, snapshot: str) -> str:
        def value(match: re.Match[str]) -> str:
            path = match[1]
            if path != _SNAPSHOT and self.input is None:
                return match[0]
            return snapshot if path == _SNAPSHOT else str(self.value_of(path))

        return PLACEHOLDER.sub(value, text)

    def is_marked(self, path: str) -> bool:
        """Whether a placeholder stands for an untrusted field of the request."""
        root, *place = path.split(".")
        return root == "input" and any(overlaps(mark, place) for mark in self.marks)

    def untrusted_ref(self, text: str) -> str | None:
        """The evidence id that a text comes to if an untrusted field is written into it; None for one whose whole variable
        part is one field, which review recognises."""
        marked = [path for path in PLACEHOLDER.findall(text) if self.is_marked(path)]
        if not marked:
            return None
        whole = _WHOLE_KEY.fullmatch(text)
        is_key = whole is not None and marked == [whole.group(1)]
        is_recognised = is_key and "#" not in str(self.value_of(marked[0]))
        return None if is_recognised else self.write(text).partition("#/")[0]

    def fill_ids(self, value: Any) -> Any:
        """A value of a method library with the placeholders in its references to evidence replaced."""
        if (members := as_object(value)) is not None:
            return {
                key: self._fill_id(member)
                if isinstance(member, str) and key == EVIDENCE
                else self.fill_ids(member)
                for key, member in members.items()
            }
        items = as_list(value)
        return value if items is None else [self.fill_ids(item) for item in items]

    def fill_refs(self, refs: Iterable[str]) -> list[str]:
        """Evidence ids with their placeholders replaced."""
        return [self._fill_id(ref) for ref in refs]

    def _fill_id(self, text: str) -> str:
        if self.input is not None and (ref := self.untrusted_ref(text)) is not None:
            self.untrusted_refs[ref] = None
        return self.write(text)
