"""`http.toml` and `commands.toml`: the HTTP services and programs of a pack, and the tools made of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from tercet.contracts.errors import UsageError, install_words
from tercet.contracts.mode import MODE_RANK
from tercet.contracts.shape import as_object
from tercet.contracts.values.canonical import digest, hash_bytes
from tercet.packs.folder import COMMANDS_FILE, HTTP_FILE, Draft
from tercet.packs.programs import (
    CommandLine,
    Table,
    hash_files,
    inner_tables,
    keep_tool,
    note_faults,
    read_model,
    read_tables,
)
from tercet.tools.commands.command import Command
from tercet.tools.commands.making import Place, command_tool, find_program
from tercet.tools.http.service import Operation, Service
from tercet.tools.openapi.calling import USUAL_MODE, demand_callable, find_operation, make_tool
from tercet.tools.openapi.document import Described, Document, OpenApiError, read_document
from tercet.tools.tool import SAYABLE, Tool, split

_DEFAULTS = "defaults"
_LISTED = "tool"


def read_services(draft: Draft) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """Return the tools of all services, and the hashes of their declarations and descriptions."""
    found: dict[str, Tool] = {}
    hashes: dict[str, str] = {}
    declared: list[Any] = []
    names: set[str] = set()
    for table in read_tables(draft, HTTP_FILE, "service"):
        declared.append(table.values)
        service = _read_service(table)
        if service is None:
            continue
        if service.name in names:
            table.note("duplicate_name", "there are two services of this name", "rename one of them")
        names.add(service.name)
        document = _read_document(draft, service, hashes)
        if document is not None:
            _read_operations(table, service, document, found)
    return tuple(found.values()), hashes | _hash(draft, HTTP_FILE, declared)


def _hash(draft: Draft, file: str, declared: list[Any]) -> dict[str, str]:
    """Return the hash of what a file declares."""
    try:
        return {file: digest(declared)} if declared else {}
    except (UsageError, TypeError):  # a date, NaN, or a number beyond 2^53, which no field accepts
        draft.note(
            "not_canonical",
            "it contains values that JSON does not have",
            "use texts, whole numbers and lists",
            file=file,
        )
        return {}


def _read_service(table: Table) -> Service | None:
    own = {key: value for key, value in table.values.items() if key not in (_DEFAULTS, _LISTED)}
    service = read_model(table, Service, own)
    if service is None:
        return None
    try:
        demand_callable(service)
    except OpenApiError as error:
        _note(table, error, f"{table.place}, base_url")
    _warn_of_missing_variables(table, (auth.env for auth in service.auth))
    if service.auth and service.scheme == "http" and not service.private:
        table.warn(
            "secret_in_clear", f"{service.base_url} is not encrypted, and a secret is sent there", "use https"
        )
    if find_spec("httpx2") is None:
        table.warn("http_unavailable", "the HTTP library is not installed here", install_words("http"))
    return service


def _warn_of_missing_variables(table: Table, names: Iterable[str]) -> None:
    for name in names:
        if not os.environ.get(name):
            table.warn(
                "variable_missing",
                f"the environment variable {name} is not set here",
                "set it where runs of this pack are carried out",
            )


def _read_document(draft: Draft, service: Service, hashes: dict[str, str]) -> Document | None:
    name = service.description
    data = draft.read_bytes(name)
    text = None if data is None else draft.decode(name, data)
    if data is None or text is None:
        draft.unread.add("tool")
        return None
    hashes[name] = hash_bytes(data)
    try:
        return read_document(text, is_yaml=name.lower().endswith((".yaml", ".yml")))
    except OpenApiError as error:
        draft.unread.add("tool")
        draft.note(error.code, error.message, error.remedy or "correct it", file=name, place=error.place)
    return None


def _read_operations(table: Table, service: Service, document: Document, found: dict[str, Tool]) -> None:
    defaults = _read_defaults(table)
    try:
        known = document.operations()
    except OpenApiError as error:
        _note(table, error, table.place)
        return
    listed: list[Described] = []
    for inner in inner_tables(table, _LISTED):
        described = _find(inner, document)
        if described is not None:
            listed.append(described)
            _read_tool(inner, service, document, described, defaults, found)
    if service.operations == "all":
        for described in known:
            if described not in listed:
                other = table._replace(
                    values={"operation": described.id}, place=f"{table.place}, {described.id}"
                )
                _read_tool(other, service, document, described, defaults, found)
    if service.operations == "listed" and not table.values.get(_LISTED):
        table.warn(
            "service_without_tools",
            "none of its operations is listed",
            'list them as [[service.tool]], or say operations = "all"',
        )


def _read_defaults(table: Table) -> dict[str, Any]:
    """Return the default terms of a service's tools."""
    given = table.values.get(_DEFAULTS, {})
    members = as_object(given)
    said, rest = ({}, {str(given): given}) if members is None else split(members)
    for key in rest:
        table.note(
            "unknown_key",
            f"unknown key {key!r}",
            f"known here: {', '.join(sorted(SAYABLE))}",
            place=f"{table.place}, {_DEFAULTS}",
        )
    return said


def _find(table: Table, document: Document) -> Described | None:
    name = table.values.get("operation")
    if not isinstance(name, str):
        table.draft.unread.add("tool")
        table.note("missing_key", "'operation' is missing", "add 'operation'")
        return None
    try:
        return find_operation(document, name)
    except OpenApiError as error:
        _note(table, error, table.place)
    return None


def _read_tool(
    table: Table,
    service: Service,
    document: Document,
    described: Described,
    defaults: dict[str, Any],
    found: dict[str, Tool],
) -> None:
    about_tool, own = split(table.values)
    said = read_model(table, Operation, {**own, "tool": {**defaults, **about_tool}})
    if said is None:
        return
    try:
        tool = make_tool(service, document, described, said)
    except OpenApiError as error:
        _note(table, error, table.place)
    except ValidationError as error:
        note_faults(table, Tool, error)
    else:
        keep_tool(table.draft, found, tool, table.spot)
        _warn_of(table, described, tool)


def _warn_of(table: Table, described: Described, tool: Tool) -> None:
    usual = USUAL_MODE.get(described.method, None)
    if usual is None and MODE_RANK[tool.mode] == 0:
        table.warn(
            "mode_below_method",
            f"{described.method.upper()} is declared {tool.mode}, so it is called again without asking",
            "keep it so only if this operation changes nothing",
            place=f"tool {tool.name}",
        )
    if tool.result is None and described.method != "head":
        table.warn(
            "result_undescribed",
            "the description says nothing about its answer, so nothing checks it",
            "describe its 2xx answers as JSON",
            place=f"tool {tool.name}",
        )


def _note(table: Table, error: OpenApiError, place: str) -> None:
    table.draft.unread.add("tool")
    where = f" (at {error.place})" if error.place else ""
    table.note(error.code, f"{error.message}{where}", error.remedy or "correct the description", place=place)


def read_commands(draft: Draft) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """Return the tools of all commands, and the hashes of the declarations and of the pack's own programs."""
    found: dict[str, Tool] = {}
    hashes: dict[str, str] = {}
    declared: list[Any] = []
    for table in read_tables(draft, COMMANDS_FILE, "command"):
        declared.append(table.values)
        about_tool, own = split(table.values)
        timeout = {"timeout_ms": about_tool.pop("timeout_ms")} if "timeout_ms" in about_tool else {}
        command = read_model(table, Command, {**own, **timeout, "tool": about_tool})
        if command is not None and _is_at_home(table, command):
            _keep(table, command, found, hashes)
    return tuple(found.values()), hashes | _hash(draft, COMMANDS_FILE, declared)


def _keep(table: Table, command: Command, found: dict[str, Tool], hashes: dict[str, str]) -> None:
    files = hash_files(table.draft, _line_of(table, command))
    program = find_program(command, table.draft.folder, os.environ)
    place = Place(folder=table.draft.folder, program=program, files=files)
    hashes |= files
    try:
        keep_tool(table.draft, found, command_tool(command, place=place), table.spot)
    except ValidationError as error:
        note_faults(table, Tool, error)
        return
    if program is None:
        table.warn(
            "program_missing",
            f"the program {command.argv[0]} is not installed here",
            "install it where runs happen",
        )
    elif "/" not in command.argv[0]:
        table.note(
            "program_not_hashed",
            f"{command.argv[0]} is looked up on the machine's search path, and is not part of the pack's hash",
            "nothing, if every machine that runs this pack may choose the program; else copy it into the pack",
            severity="note",
        )
    _warn_of_missing_variables(table, command.secrets)


def _is_at_home(table: Table, command: Command) -> bool:
    """Return whether a command's working directory exists and is allowed."""
    path = PurePosixPath(command.cwd)
    folder = table.draft.folder / command.cwd
    is_inside = path.is_absolute() or (
        ".." not in path.parts and folder.resolve().is_relative_to(table.draft.folder)
    )
    if is_inside and folder.is_dir():
        return True
    table.draft.unread.add("tool")
    table.note(
        "outside_pack" if not is_inside else "missing_folder",
        f"it runs in {command.cwd}, which {'lies outside the pack' if not is_inside else 'does not exist'}",
        "name a folder of the pack, or an absolute path",
        place=f"{table.place}, cwd",
    )
    return False


def _line_of(table: Table, command: Command) -> CommandLine:
    """Return the command with its fixed arguments; a file that a parameter names is chosen by the plan, and not hashed."""
    words = ["".join(piece.text for piece in each.pieces) for each in command.template if each.is_fixed]
    return CommandLine(
        words=words,
        file=COMMANDS_FILE,
        place=f"{table.place}, argv",
        row=table.spot.row,
        cwd=command.cwd,
        outside_files=command.outside_files,
        remedy="copy the file into the pack, name a program of the machine without a path, or list it in outside_files",
    )
