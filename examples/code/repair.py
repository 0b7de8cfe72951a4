"""Repairs a function whose tests fail.

    python examples/code/repair.py                                 late_fee, by a stand-in for a model
    python examples/code/repair.py is_open
    python examples/code/repair.py waiting_days                    its tests pass: edge cases break it
    python examples/code/repair.py initials                        beyond the stand-in: handed to a person, exit 5
    python examples/code/repair.py initials --model openai:gpt-5   with a model of yours

The stand-in works as tools for program repair do. It is asked what a model would be asked, and answers with one small change
after another: a sign or a number of the part that it is shown. Whether a change helps, it does not know; the tests do,
which are run again after each of them.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tercet import Actor, Request, Runtime, TercetError
from tercet.contracts.question import Question, Reply
from tercet.contracts.shape import as_object
from tercet.core import events as e
from tercet.core.state import State
from tercet.engine.result import RunResult
from tercet.models.model import Model
from tercet.packs import Pack

PACK = Path(__file__).resolve().parent

_PART = re.compile(r"The (?:part to be replaced|whole document): <data-(\w+)> (?P<part>.*?) </data-\1>")
_COMPARED = re.compile(r"expected (?P<expected>[^,]+), found (?P<actual>[^\",]+)")
_NOTE = re.compile(r"\n# change (\d+), (\w+) first: line (\d+), column (\d+), '([^']+)' became '([^']+)'\n\Z")
_SIGNS: dict[str, tuple[str, ...]] = {
    "<": ("<=", ">"),
    "<=": ("<", ">="),
    ">": (">=", "<"),
    ">=": (">", "<="),
    "==": ("!=",),
    "!=": ("==",),
    "+": ("-",),
    "-": ("+",),
    "*": ("+", "//"),
    "//": ("/", "*"),
    "/": ("//", "*"),
}
_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


class Change(NamedTuple):
    """One sign or number of a source, and what it becomes."""

    line: int
    column: int
    old: str
    new: str

    @property
    def kind(self) -> str:
        """What is changed."""
        if self.old.isdigit():
            return "numbers"
        return "comparisons" if self.old in _COMPARISONS else "arithmetic"


def find_changes(source: str, first: str) -> list[Change]:
    """Every small change of a source: those of one kind before the others, and those of its first line last."""
    found = [change for token in _tokens(source) for change in _changes(token)]
    return sorted(found, key=lambda change: (change.kind != first, change.line == 1))


def _tokens(source: str) -> list[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return []


def _changes(token: tokenize.TokenInfo) -> Iterator[Change]:
    line, column = token.start
    if token.type == tokenize.OP:
        for new in _SIGNS.get(token.string, ()):
            yield Change(line, column, token.string, new)
    if token.type == tokenize.NUMBER and token.string.isdigit():
        number = int(token.string)
        for new in (number + 1, number - 1):
            yield Change(line, column, token.string, str(new))


def apply(source: str, change: Change) -> str:
    """The source with a change made."""
    lines = source.splitlines(keepends=True)
    text = lines[change.line - 1]
    lines[change.line - 1] = text[: change.column] + change.new + text[change.column + len(change.old) :]
    return "".join(lines)


def undo_change(source: str) -> tuple[str, int, str]:
    """A source as it was before the change that its last line tells of, the number of that change, and what was first."""
    match = _NOTE.search(source)
    if match is None:
        return source, 0, ""
    number, first, line, column, old, new = match.groups()
    made = Change(int(line), int(column), new, old)
    return apply(source[: match.start() + 1], made), int(number), first


class Mutations:
    """Stands in for a language model, and has no memory either: which change comes next stands in what it is shown."""

    name = "example:mutations"

    def price(self, question: Question) -> int:  # noqa: ARG002 - it costs nothing
        """Nothing."""
        return 0

    async def ask(self, question: Question) -> Reply:
        """The next small change, or that there is none left."""
        asked = question.messages[-1].text
        text = json.dumps(self._answer(asked))
        return Reply(text=text, model=self.name, tokens_in=len(asked) // 4, tokens_out=len(text) // 4)

    def _answer(self, asked: str) -> dict[str, Any]:
        match = _PART.search(asked)
        shown: Any = json.loads(match["part"]) if match else ""
        whole = as_object(shown)  # else it is the code itself
        source, number, first = undo_change(str(whole["code"] if whole else shown))
        first = first or guess(asked)
        changes = find_changes(source, first)
        if number >= len(changes):
            return {"gave_up": f"none of {len(changes)} small changes helps"}
        change = changes[number]
        note = f"line {change.line}, column {change.column}, '{change.old}' became '{change.new}'"
        repaired = f"{apply(source, change)}# change {number + 1}, {first} first: {note}\n"
        return {"replacement": {**whole, "code": repaired} if whole else repaired}


def guess(asked: str) -> str:
    """What is most likely wrong, by what a test expected and found: numbers come of numbers, yes and no of comparisons."""
    match = _COMPARED.search(asked)
    if match is None:
        return "arithmetic"
    values = {match["expected"].strip(), match["actual"].strip()}
    return "comparisons" if values & {"True", "False"} else "numbers"


# ---- the run ------------------------------------------------------------------------------------------------------


def say(line: str) -> None:
    """Print progress."""
    print(line)  # noqa: T201 - an example shows what happens


def narrate(_: State, event: e.Event) -> None:
    """What the tests said, and what was changed then."""
    match event:
        case e.TestsRun() if event.result:
            say(f"tests   {event.result['passed']} passed, {event.result['failed']} failed")
            for failure in event.result["errors"]:
                found = f"expected {failure['expected']}, found {failure['actual']}"
                say(f"        {failure['name']}: {found if failure['expected'] else failure['location']}")
        case e.TestsRun():
            say(f"tests   {event.error}")
        case e.OutputsAttacked():
            broken = [each for each in event.tried if "error" in each]
            say(f"attack  {len(event.tried)} cases, {len(broken)} broke it")
            for each in broken[:3]:
                say(f"        {json.dumps(each['case']['input'])}: {each['error']}")
        case e.OutputsRepaired():
            note = _NOTE.search(str(event.outputs["code"])) if event.outcome == "repaired" else None
            say(f"repair  {note[0].strip().lstrip('# ') if note else event.outcome}")
        case _:
            pass


async def repair(
    function: str, model: Model, *, journal: str = "memory:"
) -> tuple[RunResult, dict[str, Any]]:
    """Repair one function with any model; return the result of the run and its outputs."""
    async with Runtime(Pack.load(PACK), journal, repairers=[model], tell=narrate) as runtime:
        intent = "code.harden" if function == "waiting_days" else "code.repair"
        request = Request(intent=intent, input={"function": function})
        result = await runtime.run(request, actor=Actor(id="desk"))
        return result, (await runtime.state(result.session_id)).outputs


def open_model(name: str) -> Model:
    """A model by its name; the libraries that others need are imported only for them."""
    if name == "mutations":
        return Mutations()
    opened: Model = import_module("tercet.models.opening").open_model(name)
    return opened


def main(words: Sequence[str] | None = None) -> int:
    """Repair a function, and print the result."""
    parser = argparse.ArgumentParser(description="Repairs a function by what its failing tests report.")
    parser.add_argument(
        "function", nargs="?", default="late_fee", help="late_fee, is_open, waiting_days or initials"
    )
    parser.add_argument("--model", default="mutations", help='"mutations", "local", "openai:gpt-5", …')
    parser.add_argument("--journal", default="memory:", help='for example "sqlite:///runs.db"')
    given = parser.parse_args(words)
    try:
        result, outputs = asyncio.run(repair(given.function, open_model(given.model), journal=given.journal))
    except TercetError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    say(f"{result.status}: {result.reason}")
    if result.status == "completed":
        say(f"\n{outputs['code']}")
    return 0 if result.status == "completed" else 5


if __name__ == "__main__":
    sys.exit(main())
