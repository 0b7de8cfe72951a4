"""The sources of values for a plan: references, with the type and trust of their targets, and trusted values.

Also placeholders: `${input.order_id}` for a field of the request, `${snapshot}` for a snapshot. Templates may have them
in most strings, tasks and methods only in evidence ids. A pack and an evidence store each have a snapshot. In an
evidence id, `${snapshot}` is that of the pack if the run has the fact from there, else that of the store if there is
one.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from tercet.contracts.context import KnownResult
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer
from tercet.contracts.values.references import REQUEST, Leaf, Place
from tercet.contracts.values.trust import is_marked, scalar, scalars
from tercet.planner.sentences import Assignment, is_sentence

MAX_SOURCES = 240
"""The maximum number of references in a schema; a grammar of thousands takes seconds to build."""
MAX_VALUES = 120
"""The maximum number of trusted values in a schema; others can still be referenced."""
_LONGEST = 200
"""The maximum length of a listed value."""


class Source(NamedTuple):
    """A possible target of a reference in a parameter or an output."""

    key: Literal["$from", "$evidence"]
    text: str
    types: frozenset[str]
    """The JSON types that it may have; empty if unknown."""
    is_trusted: bool


def find_sources(assignment: Assignment) -> tuple[Source, ...]:
    """Return every reference that can be listed, in a fixed order."""
    found = (
        *_in_request(assignment),
        *_in_results(assignment),
        *_in_evidence(assignment),
        *_in_kept(assignment),
        *_in_steps(assignment),
    )
    return tuple({(source.key, source.text): source for source in reversed(found)}.values())[::-1]


def is_whole(assignment: Assignment) -> bool:
    """Return whether the listed sources are complete: every tool describes its result, and they are not too many."""
    known = all(_fields(tool) for tool in assignment.tools.values())
    return known and len(find_sources(assignment)) <= MAX_SOURCES


def trusted_values(assignment: Assignment) -> tuple[Any, ...]:
    """Return the scalars that an authority parameter may take as literals, in a fixed order."""
    compiled = assignment.compiled
    leaves = [leaf for leaf in _ordered(compiled.input()) if _is_permitted_input(assignment, leaf.place)]
    for entry in assignment.evidence:
        if entry.trust is Trust.TRUSTED:
            leaves += _ordered(entry.content)
    found: dict[Any, Any] = {}
    for leaf in leaves:
        if leaf.value is not None and len(str(leaf.value)) <= _LONGEST and not _is_container(leaf.value):
            found.setdefault((type(leaf.value), scalar(leaf.value)), leaf.value)
    return tuple(found.values())[:MAX_VALUES]


def type_of(value: Any) -> frozenset[str]:
    """Return the JSON types of a value: a whole number is a number too."""
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"number"})
        case str():
            return frozenset({"string"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})


def types_in(schema: Any) -> frozenset[str]:
    """Return the JSON types that a schema allows; empty if it does not say."""
    members = as_object(schema) or {}
    given = members.get("type")
    if isinstance(given, str):
        return frozenset({given})
    if isinstance(given, list):
        return frozenset(map(str, given))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(members.get("enum"), list):
        return frozenset[str]().union(*map(type_of, members["enum"]))
    if "const" in members:
        return type_of(members["const"])
    parts = [types_in(part) for part in members.get("anyOf", ())]
    return frozenset[str]().union(*parts) if parts and all(parts) else frozenset()


def _ordered(value: Any) -> list[Leaf]:
    """Return the scalars of plain data ordered by place, independent of key order."""
    return sorted(scalars(value), key=lambda leaf: [str(token) for token in leaf.place])


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list)


def _is_permitted_input(assignment: Assignment, place: Place) -> bool:
    """Return whether an authority parameter may take this part of the request; of a sentence only parts count."""
    return assignment.is_trusted_input(place) and not is_sentence(assignment, place)


def _in_request(assignment: Assignment) -> Iterator[Source]:
    for leaf in _ordered(assignment.compiled.input()):
        text = f"{REQUEST}#{pointer.join(leaf.place)}"
        yield Source("$from", text, type_of(leaf.value), _is_permitted_input(assignment, leaf.place))


def _in_evidence(assignment: Assignment) -> Iterator[Source]:
    for entry in assignment.evidence:
        for leaf in _ordered(entry.content):
            text = f"{entry.id}#{pointer.join(leaf.place)}" if leaf.place else entry.id
            yield Source("$evidence", text, type_of(leaf.value), entry.trust is Trust.TRUSTED)


def _in_results(assignment: Assignment) -> Iterator[Source]:
    """Yield the results of completed steps."""
    for result in assignment.results:
        trusted = {leaf.place for leaf in assignment.compiled.trusted_leaves(result)}
        for leaf in _ordered(result.value):
            yield Source("$from", _at(result, leaf), type_of(leaf.value), leaf.place in trusted)


def _at(result: KnownResult, leaf: Leaf) -> str:
    return f"{result.step_id}#{pointer.join(leaf.place)}" if leaf.place else result.step_id


def _in_kept(assignment: Assignment) -> Iterator[Source]:
    """Yield the future results of kept steps that have not completed."""
    done = {result.step_id for result in assignment.results}
    steps = () if assignment.before is None else assignment.before.steps
    for step in steps:
        tool = assignment.tools.get(step.tool or "")
        if step.id in assignment.kept and step.id not in done and tool is not None:
            yield from _promised(assignment, step.id, (tool,))


def _in_steps(assignment: Assignment) -> Iterator[Source]:
    """Yield the future results of the steps to write, for any tool that they may call."""
    for name in assignment.names:
        yield from _promised(assignment, name, assignment.tools.values())


def _promised(assignment: Assignment, name: str, tools: Iterable[ToolSpec]) -> Iterator[Source]:
    fields: dict[str, tuple[frozenset[str], bool]] = {}
    for tool in tools:
        for member, schema in _fields(tool).items():
            types, is_trusted = fields.get(member, (frozenset[str](), False))
            fields[member] = (
                types | types_in(schema),
                is_trusted or assignment.is_trusted_field(tool, (member,)),
            )
    for member in sorted(fields):
        yield Source("$from", f"{name}#{pointer.join((member,))}", *fields[member])


def _fields(tool: ToolSpec) -> dict[str, Any]:
    """Return the fields of a tool's result; none if it does not describe them."""
    return as_object((tool.result or {}).get("properties")) or {}


PLACEHOLDER = re.compile(r"\$\{(input(?:\.[A-Za-z0-9_]+)+|snapshot)\}")
_SNAPSHOT = "snapshot"
_WHOLE_KEY = re.compile(rf"kg:[^:#${{}}]+:{PLACEHOLDER.pattern}#snapshot_[^#]+(?:#/.*)?")
"""An evidence id whose variable part is one placeholder, which review recognises by itself."""
EVIDENCE = "$evidence"


class PlanningError(UsageError):
    """There is no plan to propose."""

    default_code = "planning_failure"


@dataclass(frozen=True, kw_only=True)
class Placeholders:
    """The values of placeholders in one run."""

    input: JsonObject | None = None
    """The request's input; None leaves its placeholders unchanged."""
    snapshot: str = ""
    """The snapshot of the pack."""
    store: str = ""
    """The snapshot of the store of evidence."""
    known: Container[str] = ()
    """The evidence that the run has, by id."""
    marks: tuple[str, ...] = ()
    """The JSON Pointers of the input's untrusted fields."""
    untrusted_refs: dict[str, None] = field(default_factory=dict[str, None])
    """The ids built with an untrusted field by `fill_ids`, except those whose whole variable part is one."""

    def value_of(self, path: str) -> Any:
        """Return the value of a placeholder; raise `PlanningError` if the request does not have it."""
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
        """Return a text with its placeholders replaced."""
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
        """Return whether a placeholder names an untrusted field of the request."""
        root, *place = path.split(".")
        return root == "input" and is_marked(self.marks, place)

    def untrusted_ref(self, text: str) -> str | None:
        """Return the evidence id of a text that contains an untrusted field; None if its whole variable part is one
        field, which review recognises.
        """
        marked = [path for path in PLACEHOLDER.findall(text) if self.is_marked(path)]
        if not marked:
            return None
        whole = _WHOLE_KEY.fullmatch(text)
        is_key = whole is not None and marked == [whole.group(1)]
        is_recognised = is_key and "#" not in str(self.value_of(marked[0]))
        return None if is_recognised else self.write(text).partition("#/")[0]

    def fill_ids(self, value: Any) -> Any:
        """Return a value of a method library with the placeholders in its evidence references replaced."""
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
        """Return evidence ids with their placeholders replaced."""
        return [self._fill_id(ref) for ref in refs]

    def _fill_id(self, text: str) -> str:
        if self.input is not None and (ref := self.untrusted_ref(text)) is not None:
            self.untrusted_refs[ref] = None
        return self.write(text)
