"""`commands.toml`: programs of the machine or of the pack as tools."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from tercet.contracts.canonical import digest
from tercet.contracts.errors import UsageError
from tercet.packs.folder import COMMANDS_FILE, Draft
from tercet.packs.outside_tables import Table, keep_tool, note_faults, read_model, read_tables
from tercet.packs.programs import CommandLine, hash_files
from tercet.tools.commands.command import Command
from tercet.tools.commands.making import Place, command_tool, find_program
from tercet.tools.declaration import split
from tercet.tools.tool import Tool


def read_commands(draft: Draft) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """The tools of all commands, and the hashes of the declarations and of the pack's own programs."""
    found: dict[str, Tool] = {}
    hashes: dict[str, str] = {}
    declared: list[Any] = []
    for table in read_tables(draft, COMMANDS_FILE, "command"):
        declared.append(table.values)
        about_tool, own = split(table.values)
        timeout = {"timeout_ms": about_tool.pop("timeout_ms")} if "timeout_ms" in about_tool else {}
        command = read_model(draft, table, Command, {**own, **timeout, "tool": about_tool})
        if command is not None and _is_at_home(draft, table, command):
            _keep(draft, table, command, found, hashes)
    if declared:
        try:
            hashes[COMMANDS_FILE] = digest(declared)
        except (
            UsageError,
            TypeError,
        ):  # a date, a NaN, a number beyond 2^53: some field refuses it, or ought to
            draft.note(
                "not_canonical", "it holds what JSON does not have", "use texts, whole numbers and lists", file=COMMANDS_FILE
            )  # fmt: skip
    return tuple(found.values()), hashes


def _keep(
    draft: Draft, table: Table, command: Command, found: dict[str, Tool], hashes: dict[str, str]
) -> None:
    files = hash_files(draft, _line_of(table, command))
    program = find_program(command, draft.folder, os.environ)
    place = Place(folder=draft.folder, program=program, files=files)
    hashes |= files
    try:
        keep_tool(draft, found, command_tool(command, place=place), table.spot)
    except ValidationError as error:
        note_faults(draft, table, Tool, error)
        return
    if program is None:
        _warn(
            draft,
            table,
            "program_missing",
            f"there is no program {command.argv[0]} here",
            "install it where runs happen",
        )
    elif "/" not in command.argv[0]:
        draft.note(
            "program_not_hashed",
            f"{command.argv[0]} is looked up on the machine's search path, and is not part of the pack's hash",
            "nothing, if every machine that runs this pack may choose the program; else copy it into the pack",
            file=COMMANDS_FILE, place=table.place, row=table.spot.row, severity="note",
        )  # fmt: skip
    for name in command.secrets:
        if not os.environ.get(name):
            _warn(draft, table, "variable_missing", f"the environment variable {name} is not set here", "set it where runs of this pack are carried out")  # fmt: skip


def _is_at_home(draft: Draft, table: Table, command: Command) -> bool:
    """Whether a command runs in a folder that is there, and in no other by a way around."""
    path = PurePosixPath(command.cwd)
    folder = draft.folder / command.cwd
    is_inside = path.is_absolute() or (
        ".." not in path.parts and folder.resolve().is_relative_to(draft.folder)
    )
    if is_inside and folder.is_dir():
        return True
    draft.unread.add("tool")
    draft.note(
        "outside_pack" if not is_inside else "missing_folder",
        f"it runs in {command.cwd}, which {'lies outside the pack' if not is_inside else 'does not exist'}",
        "name a folder of the pack, or an absolute path", file=COMMANDS_FILE, place=f"{table.place}, cwd", row=table.spot.row,
    )  # fmt: skip
    return False


def _line_of(table: Table, command: Command) -> CommandLine:
    """The command with its fixed arguments; a file that a parameter names is the plan's choice, and is not hashed."""
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


def _warn(draft: Draft, table: Table, code: str, message: str, remedy: str) -> None:
    draft.note(
        code, message, remedy, file=COMMANDS_FILE, place=table.place, row=table.spot.row, severity="warning"
    )
