"""`tercet check`, `init` and `schema`: commands for authors of packs."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import check_pack, load_pack
from tercet.cli.options import AsJson, PackFolder, argument, option
from tercet.cli.screen import Screen, print_json, respond, show_problems
from tercet.contracts.errors import UsageError
from tercet.contracts.packs.schema import PUBLIC_TYPES, json_schema
from tercet.contracts.problem import Problem
from tercet.packs.scaffold import EXAMPLE_ACTOR, EXAMPLE_INPUT, EXAMPLE_INTENT, scaffold
from tercet.view.terminal.text import count, printable

CHECK_EXAMPLES = """\
tercet check examples/refunds
tercet check examples/refunds --json
"""


def check(pack: PackFolder, *, as_json: AsJson = False) -> ExitCode:
    """Report every problem of a pack, with file, place and remedy.

    Exits with 0 if there is no error (warnings and notes are allowed) and with 2 if there is one.
    """
    problems = check_pack(pack)
    is_ok = all(problem.severity != "error" for problem in problems)
    listed = [problem.model_dump(mode="json") for problem in problems]
    return respond(
        lambda: {"ok": is_ok, "folder": str(pack), "problems": listed},
        lambda screen: _show_check(screen, str(pack), problems),
        as_json=as_json,
        code=ExitCode.ACCEPTED if is_ok else ExitCode.WRONG_USE,
    )


def _show_check(screen: Screen, name: str, problems: Sequence[Problem]) -> None:
    errors = [problem for problem in problems if problem.severity == "error"]
    notes = [problem for problem in problems if problem.severity == "note"]
    warnings = [problem for problem in problems if problem not in errors and problem not in notes]
    show_problems(screen, [*errors, *warnings, *notes])
    counted = f"{count(len(errors), 'error')}, {count(len(warnings), 'warning')}"
    told = counted if errors or warnings else "no problems"
    told += f", {count(len(notes), 'note')}" if notes else ""
    mark = ("✗ ", "bold red") if errors else ("✓ ", "bold green")
    screen.say(Text.assemble(mark, f"{printable(name, 120)}: {told}"))


INIT_EXAMPLES = """\
tercet init my_pack
tercet check my_pack
tercet test my_pack
tercet verify my_pack my_pack/plans/sample.json
tercet run my_pack --input '{"plant": "tomato"}'  # waits at a gate: exit 4
tercet init my_agent --with gate,http,agent
"""


def init(
    folder: Annotated[Path, argument("DIR", "The folder to create; it must be new or empty.")],
    *,
    name: Annotated[str | None, option("NAME", "The pack's name: by default the folder's.")] = None,
    with_: Annotated[
        str,
        option(
            "FLAVOURS",
            "What it has besides, with commas between: gate (a second person agrees to large amounts), http (a tool of an HTTP service), agent (a language model that plans).",
            "--with",
            show_default=False,
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Create a small pack that works.

    It passes `tercet check` and `tercet test`, its plan passes `tercet verify`, and its template can be run with
    `tercet run`. Comments in its files say what they are for, and `ci/` holds a job for a CI server.
    """
    flavours = [word.strip() for word in with_.split(",") if word.strip()]
    files = [path.relative_to(folder).as_posix() for path in scaffold(folder, name, flavours)]
    ref = load_pack(folder).ref
    plan = next(file for file in files if file.startswith("plans/"))
    request = ("--intent", EXAMPLE_INTENT, "--input", EXAMPLE_INPUT)
    lines = (
        ("check", str(folder)),
        ("test", str(folder)),
        ("verify", str(folder), str(folder / plan)),
        # A development run: one person alone could not approve it otherwise.
        ("run", str(folder), *request, "--dev", "--as", EXAMPLE_ACTOR),
        ("console", str(folder), "--dev"),
    )
    commands = [shlex.join(("tercet", *words)) for words in lines]
    if as_json:
        print_json({"pack": ref, "folder": str(folder), "files": files, "plan": plan, "next": commands})
    else:
        _show_new_pack(Screen(), ref, folder, files, commands)


def _show_new_pack(screen: Screen, ref: str, folder: Path, files: list[str], commands: list[str]) -> None:
    screen.say(f"✓ {ref} is in {printable(str(folder), 200)}")
    for file in files:
        screen.put(printable(file), first="    ")
    screen.say("Next:")
    for command in commands:
        screen.show_command(command)


SCHEMA_EXAMPLES = """\
tercet schema
tercet schema Plan
"""


def schema(
    name: Annotated[str | None, argument("TYPE", "The type; without one, all of them are listed.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of a public type, or list the types.

    Give a planner the schema of Plan, and check what it writes with `tercet verify`.
    """
    if name is not None:
        print_json(_schema(name))
    elif as_json:
        print_json({"types": [{"name": key, "description": _describe(key)} for key in sorted(PUBLIC_TYPES)]})
    else:
        _list_types(Screen())


def _schema(name: str) -> dict[str, Any]:
    if name not in PUBLIC_TYPES:
        near = _similar(name)
        raise UsageError(
            f"unknown public type '{name}'",
            code="unknown_type",
            remedy=f"did you mean {' or '.join(near)}?" if near else "tercet schema lists them all",
        )
    return json_schema(name)


def _similar(name: str) -> list[str]:
    by_lower = {known.lower(): known for known in PUBLIC_TYPES}
    if name.lower() in by_lower:
        return [by_lower[name.lower()]]
    return [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]


def _list_types(screen: Screen) -> None:
    width = max(map(len, PUBLIC_TYPES)) + 2
    for name in sorted(PUBLIC_TYPES):
        screen.put(Text(_describe(name), style="dim"), first=f"{name:<{width}}")


def _describe(name: str) -> str:
    """Return the first sentence of a type's docstring, or the members of a union."""
    kind = PUBLIC_TYPES[name]
    if isinstance(kind, type):
        return (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
    members = [
        reference.rpartition("/")[2] for reference in json_schema(name)["discriminator"]["mapping"].values()
    ]
    return f"Either {' or '.join(members)}."
