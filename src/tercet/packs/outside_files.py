"""`http.toml` and `commands.toml`: the HTTP services and programs of a pack, and the tools made of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, ValidationError

from tercet.contracts.errors import UsageError
from tercet.contracts.mode import MODE_RANK
from tercet.contracts.shape import as_object
from tercet.contracts.values.canonical import digest, hash_bytes
from tercet.packs.declarations import (
    Declared,
    TomlFile,
    explain,
    note_duplicate,
    read_declaring,
    read_tables,
)
from tercet.packs.folder import COMMANDS_FILE, HTTP_FILE, Draft
from tercet.packs.parts import Severity, Spot
from tercet.packs.programs import CommandLine, hash_files
from tercet.tools.commands.command import Command
from tercet.tools.commands.making import Place, command_tool, find_program
from tercet.tools.http.service import Operation, Service
from tercet.tools.openapi.calling import USUAL_MODE, demand_callable, find_operation, make_tool
from tercet.tools.openapi.document import Described, Document, OpenApiError, read_document
from tercet.tools.tool import Terms, Tool


def _one_or_more(given: Any) -> Any:
    return given if as_object(given) is None else [given]


class ServiceTable(Service):
    """A service, with the pack's declarations about its tools."""

    defaults: Terms = Terms()
    """What holds for each tool that does not say otherwise."""
    tool: Annotated[tuple[Operation, ...], BeforeValidator(_one_or_more)] = ()


SERVICES = Declared("service", HTTP_FILE, ServiceTable, may_be_one=True)
COMMANDS = Declared("command", COMMANDS_FILE, Command, may_be_one=True)


class Table(NamedTuple):
    """A table of a file: its place and its line."""

    draft: Draft
    place: str
    spot: Spot

    def note(
        self, code: str, message: str, remedy: str, *, place: str = "", severity: Severity = "error"
    ) -> None:
        """Note a problem of the table, or of a place in it. A table with an error may lack tools."""
        if severity == "error":
            self.draft.unread.add("tool")
        file, row = self.spot
        self.draft.note(
            code, message, remedy, file=file, place=place or self.place, row=row, severity=severity
        )

    def warn(self, code: str, message: str, remedy: str, *, place: str = "") -> None:
        """Note a warning, which does not keep the pack from loading."""
        self.note(code, message, remedy, place=place, severity="warning")

    def note_faults(self, error: ValidationError) -> None:
        """Note what does not fit together in the tool of the table."""
        for detail in error.errors(include_url=False):
            self.note(*explain(detail, Tool))


def read_services(draft: Draft) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """Return the tools of all services, and the hashes of their declarations and descriptions."""
    found: dict[str, Tool] = {}
    hashes: dict[str, str] = {}
    toml = read_declaring(draft, SERVICES)
    for service in () if toml is None else read_tables(draft, SERVICES, toml):
        table = _table(draft, f"service {service.name}")
        _check_service(table, service)
        document = _read_document(draft, service, hashes)
        if document is not None:
            _read_operations(table, service, document, found)
    return tuple(found.values()), hashes | _hash(draft, SERVICES, toml)


def _table(draft: Draft, place: str) -> Table:
    return Table(draft, place, draft.spots[place])


def _hash(draft: Draft, declared: Declared[Any], toml: TomlFile | None) -> dict[str, str]:
    """Return the hash of what a file declares."""
    kind, file = declared.kind, declared.file
    if kind in draft.unread or any(place.startswith(f"{kind} ") for place in draft.broken):
        draft.unread.add("tool")
    tables = None if toml is None else toml.values.get(kind)
    try:
        return {file: digest(_one_or_more(tables))} if tables else {}
    except (UsageError, TypeError):  # a date, NaN, or a number beyond 2^53, which no field accepts
        draft.note(
            "not_canonical",
            "it contains values that JSON does not have",
            "use texts, whole numbers and lists",
            file=file,
        )
        return {}


def _check_service(table: Table, service: Service) -> None:
    try:
        demand_callable(service)
    except OpenApiError as error:
        _note(table, error, f"{table.place}, base_url")
    _warn_of_missing_variables(table, (auth.env for auth in service.auth))
    if service.auth and service.scheme == "http" and not service.private:
        table.warn(
            "secret_in_clear", f"{service.base_url} is not encrypted, and a secret is sent there", "use https"
        )


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


def _read_operations(table: Table, service: ServiceTable, document: Document, found: dict[str, Tool]) -> None:
    try:
        known = document.operations()
    except OpenApiError as error:
        _note(table, error, table.place)
        return
    listed: list[Described] = []
    for number, said in enumerate(service.tool):
        spot = table.draft.spots.get(f"{table.place}, tool.{number}", table.spot)
        inner = Table(table.draft, f"{table.place}, tool {said.name or said.operation}", spot)
        try:
            listed.append(find_operation(document, said.operation))
        except OpenApiError as error:
            _note(inner, error, inner.place)
        else:
            _read_tool(inner, service, document, listed[-1], said, found)
    if service.operations == "all":
        for described in known:
            if described not in listed:
                other = table._replace(place=f"{table.place}, {described.id}")
                _read_tool(other, service, document, described, Operation(operation=described.id), found)
    if service.operations == "listed" and not service.tool:
        table.warn(
            "service_without_tools",
            "none of its operations is listed",
            'list them as [[service.tool]], or say operations = "all"',
        )


def _read_tool(
    table: Table,
    service: ServiceTable,
    document: Document,
    described: Described,
    said: Operation,
    found: dict[str, Tool],
) -> None:
    try:
        tool = make_tool(service, document, described, said.or_else(service.defaults))
    except OpenApiError as error:
        _note(table, error, table.place)
    except ValidationError as error:
        table.note_faults(error)
    else:
        _keep_tool(table, tool, found)
        _warn_of(table, described, tool)


def _keep_tool(table: Table, tool: Tool, found: dict[str, Tool]) -> None:
    """Add a tool, unless the pack already has one of that name."""
    spots, place = table.draft.spots, f"tool {tool.name}"
    if place in spots:
        note_duplicate(table.draft, place, spots[place], table.spot)
        return
    spots[place] = table.spot
    # The hash of the pack covers the declaring file and all files that it names.
    found[tool.name] = tool.model_copy(update={"definition": None})


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
    where = f" (at {error.place})" if error.place else ""
    table.note(error.code, f"{error.message}{where}", error.remedy or "correct the description", place=place)


def read_commands(draft: Draft) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """Return the tools of all commands, and the hashes of the declarations and of the pack's own programs."""
    found: dict[str, Tool] = {}
    hashes: dict[str, str] = {}
    toml = read_declaring(draft, COMMANDS)
    for command in () if toml is None else read_tables(draft, COMMANDS, toml):
        table = _table(draft, f"command {command.name}")
        if _is_at_home(table, command):
            _keep(table, command, found, hashes)
    return tuple(found.values()), hashes | _hash(draft, COMMANDS, toml)


def _keep(table: Table, command: Command, found: dict[str, Tool], hashes: dict[str, str]) -> None:
    files = hash_files(table.draft, _line_of(table, command))
    program = find_program(command, table.draft.folder, os.environ)
    place = Place(folder=table.draft.folder, program=program, files=files)
    hashes |= files
    try:
        _keep_tool(table, command_tool(command, place=place), found)
    except ValidationError as error:
        table.note_faults(error)
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
