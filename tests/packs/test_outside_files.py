"""`http.toml` and `commands.toml`: tools that are no Python functions, what is wrong with them, and what the hash covers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from packs.conftest import WritePack
from tercet.contracts.errors import PackError
from tercet.contracts.problem import Problem
from tercet.packs import Pack, check_folder

API: dict[str, Any] = {
    "openapi": "3.1.0",
    "paths": {
        "/holds": {
            "get": {
                "operationId": "listHolds",
                "responses": {"200": {"content": {"application/json": {"schema": {"type": "array"}}}}},
            },
            "post": {
                "operationId": "sendHold",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"type": "object", "properties": {"id": {"type": "string"}}}}},
                },
                "responses": {"204": {"description": "sent"}},
            },
        }
    },
}  # fmt: skip
HTTP = """
[[service]]
name = "branch"
description = "branch.json"
base_url = "https://api.example.test/v1"
egress = ["api.example.test:443"]
auth = { env = "BRANCH_TOKEN", prefix = "Bearer " }

[service.defaults]
roles = ["librarian"]

[[service.tool]]
operation = "listHolds"

[[service.tool]]
operation = "sendHold"
mode = "local_write"
no_compensation = "a branch can be told again"
limits = ["args.id != ''"]
"""
COMMANDS = """
[[command]]
name = "ops.count"
argv = ["sh", "count.sh", "--", "${title}"]
mode = "read_only"
result = "lines"
timeout_ms = 5000

[command.parameters.title]
type = "string"
maxLength = 40
"""
FILES = {
    "http.toml": HTTP,
    "branch.json": json.dumps(API),
    "commands.toml": COMMANDS,
    "count.sh": "echo 1\n",
}


def found(folder: Path) -> dict[str, Problem]:
    """The errors and warnings of a folder by their codes, without those that any machine may have."""
    problems = (each for each in check_folder(folder) if each.severity != "note")
    return {each.code: each for each in problems if each.code != "variable_missing"}


def test_tools_from_outside_are_tools_of_the_pack(write_pack: WritePack) -> None:
    """Those of all kinds stand side by side, each with what its table and the defaults say."""
    folder = write_pack(FILES)
    assert found(folder) == {}
    tools = {tool.name: tool for tool in Pack.load(folder).tools}
    assert {"desk.find_copy", "branch.listHolds", "branch.sendHold", "ops.count"} <= set(tools)
    assert (tools["branch.sendHold"].mode, tools["branch.sendHold"].roles) == ("local_write", ("librarian",))
    assert (tools["ops.count"].timeout_ms, tools["ops.count"].result) == (
        5000,
        {"type": "array", "items": {"type": "string"}},
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "changes"),
    [
        ("http.toml", "api.example.test", "api2.example.test", True),
        ("http.toml", "BRANCH_TOKEN", "OTHER_TOKEN", True),
        ("http.toml", "[[service]]", "# a comment\n[[service]]", False),
        ("branch.json", '"3.1.0"', '"3.1.1"', True),
        ("commands.toml", '"--", ', "", True),
        ("commands.toml", "[[command]]", "\n[[command]]", False),
        ("count.sh", "1", "2", True),
    ],
)
def test_the_hash_covers_declarations_descriptions_and_programs(
    write_pack: WritePack, name: str, old: str, new: str, changes: bool
) -> None:
    """Where a call goes, what it is, and which bytes run; comments are nothing of that."""
    first = Pack.load(write_pack(FILES, "one")).hash
    assert old in FILES[name]
    second = Pack.load(write_pack({**FILES, name: FILES[name].replace(old, new)}, "two")).hash
    assert (first != second) == changes


@pytest.mark.parametrize(
    ("old", "new", "code", "severity"),
    [
        ('operation = "sendHold"', 'operation = "sendHolt"', "operation_unknown", "error"),
        ('operation = "sendHold"', 'gates = []', "missing_key", "error"),
        ("api.example.test:443", "api.example.test:80", "egress_missing", "error"),
        ("api.example.test:443", "api.example.test", "wrong_value", "error"),
        ("https://api.example.test/v1", "ftp://x", "wrong_value", "error"),
        ("https://api.example.test/v1", "https://me:secret@api.example.test", "wrong_value", "error"),
        ('"branch.json"', '"other.json"', "missing_file", "error"),
        ('"branch.json"', '"../branch.json"', "outside_pack", "error"),
        ('mode = "local_write"', 'mood = "local_write"', "unknown_key", "error"),
        ('mode = "local_write"', 'mode = "brave"', "wrong_value", "error"),
        ('mode = "local_write"', 'mode = "read_only"', "mode_below_method", "warning"),
        ('roles = ["librarian"]', 'rules = ["librarian"]', "unknown_key", "error"),
        ('operation = "listHolds"', 'operation = "listHolds"\nname = "desk.find_copy"', "duplicate_name", "error"),
        ("[[service]]", "[[services]]", "unknown_key", "error"),
        ("limits = [\"args.id != ''\"]", "limits = [\"args.no != ''\"]", "expression_invalid", "error"),
        ('egress = ["api.example.test:443"]', 'egress = ["api.example.test:443"]\nprivate = ["localhost:1"]', "wrong_value", "error"),
        ("https://api.example.test/v1", "http://api.example.test:443", "secret_in_clear", "warning"),
        ("Bearer ", "Bearer\\n", "wrong_value", "error"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_service_is_said(
    write_pack: WritePack, old: str, new: str, code: str, severity: str
) -> None:
    """Each with its file and what to do about it; an error keeps the pack from loading, a warning does not."""
    assert old in HTTP
    folder = write_pack({**FILES, "http.toml": HTTP.replace(old, new, 1)})
    problem = found(folder)[code]
    assert (problem.severity, bool(problem.remedy)) == (severity, True)
    if severity == "warning":
        Pack.load(folder)
        return
    with pytest.raises(PackError):
        Pack.load(folder)


def test_an_unknown_table_of_services_is_found_by_its_line(write_pack: WritePack) -> None:
    """A misspelt header is the line that the author has to correct."""
    text = f"# books\n{HTTP.strip()}".replace("[[service]]", "[[services]]", 1)
    line = text.splitlines().index("[[services]]") + 1
    assert found(write_pack({**FILES, "http.toml": text}))["unknown_key"].row == line


@pytest.mark.parametrize(
    ("old", "new", "code", "severity"),
    [
        ("${title}", "${tittle}", "placeholder_unknown", "error"),
        (', "${title}"', "", "parameter_unused", "error"),
        ("${title}", "$title", "template_invalid", "error"),
        ('"sh", "count.sh"', '"no-such-program-here"', "program_missing", "warning"),
        ("timeout_ms = 5000", "timeout_ms = 0", "wrong_value", "error"),
        ("timeout_ms = 5000", 'cwd = "nowhere"', "missing_folder", "error"),
        ("timeout_ms = 5000", 'cwd = "../x"', "outside_pack", "error"),
        ('type = "string"', 'type = "sting"', "schema_invalid", "error"),
        ("timeout_ms = 5000", "timeout = 5000", "unknown_key", "error"),
        ("[[command]]", "[command]", "unused", ""),
    ],
)
def test_what_is_wrong_with_a_command_is_said(
    write_pack: WritePack, old: str, new: str, code: str, severity: str
) -> None:
    """Each with its file and what to do about it."""
    assert old in COMMANDS
    problems = found(write_pack({**FILES, "commands.toml": COMMANDS.replace(old, new, 1)}))
    if code == "unused":
        assert problems == {}  # one table is a list of one
        return
    assert (problems[code].severity, problems[code].file) == (severity, "commands.toml")


def test_a_service_on_this_machine_has_to_be_listed_as_private(write_pack: WritePack) -> None:
    """An address that every call would refuse is found before anyone approves such a call."""
    near = HTTP.replace("https://api.example.test/v1", "http://127.0.0.1:8931").replace(
        "api.example.test:443", "127.0.0.1:8931"
    )
    assert found(write_pack({**FILES, "http.toml": near}))["private_address"].remedy.endswith(
        'private = ["127.0.0.1:8931"]'
    )
    listed = near.replace("egress =", 'private = ["127.0.0.1:8931"]\negress =')
    assert "private_address" not in found(write_pack({**FILES, "http.toml": listed}))


def test_a_missing_variable_is_only_a_warning(write_pack: WritePack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine on which a pack is checked need not be the one on which it runs."""
    folder = write_pack(FILES)
    monkeypatch.delenv("BRANCH_TOKEN", raising=False)
    [problem] = (each for each in check_folder(folder) if each.severity != "note")
    assert (problem.code, problem.severity, problem.file) == ("variable_missing", "warning", "http.toml")
    monkeypatch.setenv("BRANCH_TOKEN", "something long")
    assert all(each.severity == "note" for each in check_folder(folder))


def test_a_program_that_the_machine_looks_up_is_listed_as_a_note(write_pack: WritePack) -> None:
    """It is not part of the pack's hash; a program of the pack is, and is not listed."""
    [note] = (each for each in check_folder(write_pack(FILES, "one")) if each.severity == "note")
    assert (note.code, note.file, note.place) == ("program_not_hashed", "commands.toml", "command ops.count")
    assert note.message.startswith("sh is looked up on the machine's search path")
    own = COMMANDS.replace('"sh", "count.sh"', '"./count.sh"')
    assert own != COMMANDS
    problems = check_folder(write_pack({**FILES, "commands.toml": own}, "two"))
    assert all(each.severity != "note" for each in problems)


def test_a_problem_is_told_with_its_line(write_pack: WritePack) -> None:
    """Also in the second of two tables inside another."""
    text = HTTP.replace('operation = "sendHold"', 'operation = "no"').lstrip()
    problem = found(write_pack({**FILES, "http.toml": text}))["operation_unknown"]
    second = [row for row, line in enumerate(text.split("\n"), 1) if line == "[[service.tool]]"][1]
    assert (problem.file, problem.row) == ("http.toml", second)
    assert problem.place == "service branch, tool no"


def test_a_program_of_the_pack_is_no_link(write_pack: WritePack) -> None:
    """What a pack is must not change elsewhere."""
    folder = write_pack(FILES)
    (folder / "count.sh").unlink()
    (folder / "count.sh").symlink_to("/bin/sh")
    assert "symlink" in found(folder)


def test_an_operation_without_a_schema_is_said(write_pack: WritePack) -> None:
    """A body that nothing checks is an error, an answer that nothing checks a warning."""
    bare: dict[str, Any] = json.loads(FILES["branch.json"])
    bare["paths"]["/holds"]["get"]["responses"] = {"200": {"content": {"application/json": {}}}}
    assert (
        found(write_pack({**FILES, "branch.json": json.dumps(bare)}, "one"))["result_undescribed"].severity
        == "warning"
    )
    bare["paths"]["/holds"]["post"]["requestBody"] = {"content": {"application/json": {}}}
    assert (
        found(write_pack({**FILES, "branch.json": json.dumps(bare)}, "two"))[
            "operation_without_schema"
        ].severity
        == "error"
    )


def test_all_operations_may_be_tools(write_pack: WritePack) -> None:
    """Then those that are not listed have the mode of their method, and a check that they are gated."""
    text = HTTP.replace("[service.defaults]", 'operations = "all"\n[service.defaults]')
    text = text[: text.index('[[service.tool]]\noperation = "sendHold"')]
    problems = found(write_pack({**FILES, "http.toml": text}))
    assert {"ungated", "compensation_missing", "above_safety_mode"} == set(problems)
    assert 'compensate = { tool = "…", params = { … } }' in problems["compensation_missing"].remedy


@pytest.mark.parametrize("name", ["http.toml", "commands.toml"])
@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        "[[service]]\n",
        "[[command]]\n",
        "service = 3",
        "command = ['a']",
        "[[service]]\nname = 2026-01-01",
        "=",
        "",
    ],
)
def test_whatever_stands_in_the_file_it_is_answered(write_pack: WritePack, name: str, text: str) -> None:
    """No file brings anything but problems."""
    problems = check_folder(write_pack({**FILES, name: text}))
    assert all(problem.message and problem.remedy for problem in problems)
