"""Writes docs/cli.md: every command with its arguments and options. Run it with `make api`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from tercet.cli.main import COMMANDS, SHORTCUTS, app

PAGE = Path(__file__).resolve().parent / "cli.md"
_INTRODUCTION = """\
# The command line

<!-- `make api` writes this page; a test fails when it is out of date. -->

`tercet` and `python -m tercet` are the same command.
With `--json`, every command prints one JSON object on stdout and nothing else (`tercet sessions watch` prints one line for each event).
An error is reported with its remedy on stderr, or with `--json` on stdout as `{"error": {"code", "message", "remedy", "problems"}}`.

| exit code | meaning |
|---|---|
| 0 | accepted; for a run: completed |
| 1 | a bug in Tercet, or an output that cannot be written; `TERCET_TRACEBACK=1` shows where |
| 2 | wrong use: an invalid option, plan, pack or input, an unknown session, a journal that cannot be opened |
| 3 | refused by the critic; a replay, a what-if or a golden run that differs; a bundle that is not intact |
| 4 | a run waits at a gate, or was paused by Ctrl-C, SIGTERM, an operator or an emergency stop; `tercet sessions resume` goes on |
| 5 | a run failed, was escalated, rejected or cancelled, or expired; or its journal failed (full, locked, damaged or removed while in use): what was written before is safe; or a check or a list found damage |
| 130 | interrupted |

Ids of sessions and gates may be abbreviated to four characters or more: `tercet show 4be1` shows the only session whose id begins with `ses_4be1`.
Where a gate is named, its session is enough if no other gate of it is open: `tercet approve 4be1`.

| shortcut | command |
|---|---|
SHORTCUTS

With `--server URL` or `TERCET_SERVER`, commands about sessions, gates and stops use a service instead of a journal, with the API key in `TERCET_API_KEY`: [from the command line](service.md#from-the-command-line).

The person who starts a run, answers a gate or sets a stop is the user of the operating system, mapped by the `actors.toml` of a pack: to the actor with that `os_user`, else to the one with that id.
Commands that load no pack read such a file with `--actors`; they never run code of a pack.
The answer is recorded as `auth: local` with the login, which comes from the operating system and not from the environment.
A gate is answered under the name and in the roles that the run's own pack gives to that login; another file changes neither.
Anyone who can write to the journal's file or database directly can write anything into it: [how sure it is who answered](runtime.md#how-sure-it-is-who-answered).
The owner of a run stays its owner, whichever file is named.

Commands that write a file replace a page or drawing that Tercet made; any other file is kept, unless `--force` is given.
A file appears under its name only when it is complete.

Colours follow the terminal, `NO_COLOR` and `FORCE_COLOR`; the width follows the terminal and `COLUMNS`.
"""


_HEAD = "| argument or option | meaning |\n|---|---|"


def page() -> str:
    """Return the page."""
    # The classes of the parser differ between versions of typer; the attributes read here do not.
    group: Any = get_command(app)
    sections = ["\n".join(_section(name, _find(group, name))) for name in COMMANDS]
    shortcuts = [f"| `tercet {name}` | `tercet {' '.join(words)}` |" for name, words in SHORTCUTS.items()]
    return "\n".join([_INTRODUCTION.replace("SHORTCUTS", "\n".join(shortcuts)), *sections])


def _find(group: Any, name: str) -> Any:
    for word in name.split():
        group = group.commands[word]
    return group.real


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    usage = " ".join(p.metavar if p.required else f"[{p.metavar}]" for p in arguments)
    yield f"## tercet {name}\n"
    yield _sentences(inspect.cleandoc(command.help))
    yield f"\n```text\n{f'tercet {name} [OPTIONS] {usage}'.rstrip()}\n```\n"
    yield _HEAD
    for parameter in (*arguments, *options):
        spelling = parameter.metavar if parameter in arguments else _spelling(parameter)
        yield f"| `{spelling}` | {parameter.help} |"
    yield f"\n```sh\n{COMMANDS[name].load()[1].strip()}\n```\n"


def _sentences(text: str) -> str:
    """Return a text with one sentence per line."""
    paragraphs = (" ".join(each.split()) for each in text.split("\n\n"))
    return "\n\n".join(paragraph.replace(". ", ".\n") for paragraph in paragraphs)


def _spelling(option: Any) -> str:
    return " ".join(filter(None, [", ".join([*option.opts, *option.secondary_opts]), option.metavar]))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
