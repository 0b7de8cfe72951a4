"""Reads the pages of the documentation: their blocks and the command lines in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SHOWN = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
WALKTHROUGHS = sorted(
    [
        *(DOCS / "tutorial").glob("*.md"),
        *(DOCS / "how-to").glob("*.md"),
        DOCS / "service.md",
        ROOT / "README.md",
    ]
)
"""Pages whose steps are carried out one after the other, as a reader would."""

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(r"(?:\.venv/bin/)?(?P<name>tercet|make)\b(?P<rest>.*)")
_MENTION = re.compile(r"`(?:\.venv/bin/)?tercet (?P<rest>[^`\n]+)`")
EXIT = re.compile(r"#.*\bexit (?P<code>\d+)(?! if\b)")
_VARIES = re.compile(
    r"\bses_[0-9a-f]{16}\b|\b[0-9a-f]{64}\b|\d+(?:\.\d+)? ?(?:ms|s|min|h|bytes)\b|\d{4}-\d\d-\d\dT?[ \d:.]+(?:Z|UTC)?"
    r"|process \d+ on \S+|[\d,]+ bytes|\bmsg_\w+|\btck_[\w…-]+|\b[0-9a-f]{12}\b|127\.0\.0\.1:\d+|token=\S+"
)
_TITLE = re.compile(r'title="(?P<title>[^"]+)"')
ENDS = {"|", ">", ">>", "2>", "&&", ";"}
"""The words that end the part of a command line that is tried."""
SHOWN_ID = "ses_0123456789abcdef"
"""The id of a run on a page."""
BROWSER = "browser"
"""The language of a sentence that says what to do in a browser."""
_IN_BROWSER = re.compile(r"\b(?:open|press|choose|type) \*\*|\b(?:open|follow) the link\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block, its title, and the line of the page on which its body begins."""

    language: str
    row: int
    body: str
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command line that a page shows, and the exit code it promises."""

    name: str
    words: tuple[str, ...]
    code: int
    shown: tuple[str, ...] = ()
    """The lines of output that are shown below it."""


def read_blocks(page: Path) -> Iterator[Block]:
    """Find the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        indent = len(match["indent"])
        body = "\n".join(line[indent:] for line in match["body"].splitlines())
        named = _TITLE.search(match["info"])
        row = text.count("\n", 0, match.start("body"))
        yield Block(language=match["language"], row=row, body=body, title=named["title"] if named else "")


def read_steps(page: Path) -> Iterator[Block]:
    """Find what a reader does on a page, in its order: the blocks, and sentences about buttons in bold."""
    text = page.read_text(encoding="utf-8")
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    lines = [
        Block(language=BROWSER, row=row, body=line)
        for row, line in enumerate(prose.splitlines(), start=1)
        if _IN_BROWSER.search(line)
    ]
    yield from sorted([*read_blocks(page), *lines], key=lambda block: block.row)


def read_commands(page: Path) -> Iterator[Command]:
    """Find the command lines of a page, up to the first pipe or redirection of each."""
    for block in read_blocks(page):
        for line, shown in read_lines(block) if block.language in {"sh", "console"} else ():
            if _COMMAND.fullmatch(line):
                yield read_command(line, shown)


def read_command(line: str, shown: Sequence[str] = ()) -> Command:
    """Read a command line, up to its first pipe or redirection."""
    match = _COMMAND.fullmatch(line)
    assert match, line
    words = takewhile(lambda word: word not in ENDS, shlex.split(match["rest"], comments=True))
    return Command(name=match["name"], words=tuple(words), code=promised_code(line), shown=tuple(shown))


def read_mentions(page: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Find the commands inside sentences: the line of each, and the words behind `tercet`."""
    text = page.read_text(encoding="utf-8")
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    for match in _MENTION.finditer(prose):
        yield prose.count("\n", 0, match.start()) + 1, tuple(shlex.split(match["rest"]))


def promised_code(line: str) -> int:
    """Return the exit code that the comment of a command line gives, else 0."""
    promised = EXIT.search(line)
    return int(promised["code"]) if promised else 0


def read_lines(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Yield the command lines of a block, each with the output that is shown below it."""
    lines = block.body.replace("\\\n", " ").splitlines()
    if block.language == "sh":
        yield from ((line, []) for line in lines if line.strip() and not line.startswith("#"))
        return
    current: tuple[str, list[str]] | None = None
    for line in lines:
        if line.startswith("$ "):
            if current:
                yield current
            current = (line[2:], [])
        elif current:
            current[1].append(line)
    if current:
        yield current


def demand_lines(shown: list[str], printed: str, command: str) -> None:
    """Check that the lines were printed, in their order; ids, times and sizes may differ."""
    expected = [simplify(line) for line in shown if simplify(line)]
    actual = [simplify(line) for line in printed.splitlines() if simplify(line)]
    place = 0
    may_skip = False
    for line in expected:
        if line == "…":
            may_skip = True
            continue
        rest = actual[place:]
        assert line in (rest if may_skip else rest[:1]), f"{command}\nshown: {line}\nprinted:\n{printed}"
        place += rest.index(line) + 1
        may_skip = False
    assert may_skip or not expected or place == len(actual), (
        f"{command}\nthe page does not show all of\n{printed}"
    )


def simplify(line: str) -> str:
    """Return a line without what varies from run to run."""
    return _VARIES.sub("#", " ".join(line.split()))


def page_name(page: Path) -> str:
    """Name a page as a reader would."""
    return page.relative_to(ROOT).as_posix()
