"""What the files that declare tools outside of Python share: tables with spots, faults with rows, names that are unique."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.packs.declarations import explain, list_faults, note_duplicate
from tercet.packs.folder import Draft
from tercet.packs.parts import Spot
from tercet.packs.toml import TomlFile, read_toml
from tercet.tools.tool import Tool

ModelT = TypeVar("ModelT", bound=BaseModel)


class Table(NamedTuple):
    """A table of a file, and where it stands."""

    values: JsonObject
    place: str
    spot: Spot
    path: tuple[str | int, ...]
    toml: TomlFile


def read_tables(draft: Draft, file: str, kind: str) -> Iterator[Table]:
    """The tables of a kind that a file holds and no other; what is wrong is noted."""
    toml = read_toml(draft, file) if draft.has(file) else None
    if toml is None:
        if draft.has(file):
            draft.unread.add("tool")
        return
    for key in toml.values:
        if key != kind:
            draft.note(
                "unknown_key",
                f"unknown key {key!r}",
                f"write each {kind} as [[{kind}]]",
                file=file,
                row=toml.row((key,)),
            )
    yield from inner_tables(draft, Table(dict(toml.values), "", Spot(file), (), toml), kind)


def inner_tables(draft: Draft, around: Table, key: str) -> Iterator[Table]:
    """The tables that stand under a key of another one."""
    given = around.values.get(key, [])
    for number, item in enumerate(as_list(given) or [given]):
        values = as_object(item)
        path = (*around.path, key, number)
        row = around.toml.row(path)
        if values is None:
            if given != []:
                draft.unread.add("tool")
                draft.note(
                    "wrong_value", f"{key} is no list of tables", f"write [[{key}]], with two brackets",
                    file=around.spot.file, place=around.place, row=row,
                )  # fmt: skip
            continue
        name = values.get("name") or values.get("operation")
        shown = name if isinstance(name, str) and name else f"number {number + 1}"
        place = f"{around.place}, {key} {shown}" if around.place else f"{key} {shown}"
        yield Table(values, place, Spot(around.spot.file, row), path, around.toml)


def read_model(draft: Draft, table: Table, model: type[ModelT], values: JsonObject) -> ModelT | None:
    """What a table declares; None, and problems, if it declares nothing that can be used."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        note_faults(draft, table, model, error)
    return None


def note_faults(draft: Draft, table: Table, model: type[BaseModel], error: ValidationError) -> None:
    """Notes every fault that a contract found in a table."""
    draft.unread.add("tool")
    for detail in list_faults(draft, error, table.spot):
        code, message, remedy = explain(detail, model)
        if detail["type"] in _OWN_CODES:
            code, message, remedy = detail["type"], *_parted(detail["msg"])
        field = ".".join(map(str, detail["loc"]))
        draft.note(
            code,
            message,
            remedy,
            file=table.spot.file,
            place=f"{table.place}, {field}" if field else table.place,
            row=table.toml.row((*table.path, *_known(detail["loc"]))) or table.spot.row,
        )


_OWN_CODES = ("template_invalid", "placeholder_unknown", "parameter_unused")
"""The codes that a command's declaration gives its faults itself."""


def _parted(message: str) -> tuple[str, str]:
    what, _, remedy = message.partition(": ")
    return what, remedy or "correct the template"


def _known(location: Sequence[Any]) -> tuple[str | int, ...]:
    return tuple(part for part in location if isinstance(part, str | int))


def keep_tool(draft: Draft, found: dict[str, Tool], tool: Tool, spot: Spot) -> None:
    """Adds a tool under its name, unless the pack has one of that name."""
    place = f"tool {tool.name}"
    if place in draft.spots:
        note_duplicate(draft, place, draft.spots[place], spot)
        return
    draft.spots[place] = spot
    # The hash of the pack covers the file that declares it, and all that this file names.
    found[tool.name] = tool.model_copy(update={"definition": None})
