"""Reads the pages of the documentation: their blocks and the command lines in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
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
_COMMAND = {
    "sh": re.compile(r"(?:\$ )?(?:\.venv/bin/)?(?P<name>tercet|make)\b(?P<rest>.*)"),
    "console": re.compile(r"\$ (?:\.venv/bin/)?(?P<name>tercet|make)\b(?P<rest>.*)"),
}
_MENTION = re.compile(r"`(?:\.venv/bin/)?tercet (?P<rest>[^`\n]+)`")
EXIT = re.compile(r"#.*\bexit (?P<code>\d+)")
_TITLE = re.compile(r'title="(?P<title>[^"]+)"')
ENDS = {"|", ">", ">>", "2>", "&&", ";"}
"""The words that end the part of a command line that is tried."""
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
        pattern = _COMMAND.get(block.language)
        for line in block.body.replace("\\\n", " ").splitlines() if pattern else ():
            if pattern and (match := pattern.fullmatch(line)):
                words = shlex.split(match["rest"], comments=True)
                until_pipe = takewhile(lambda word: word not in ENDS, words)
                yield Command(name=match["name"], words=tuple(until_pipe), code=promised_code(line))


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


def page_name(page: Path) -> str:
    """Name a page as a reader would."""
    return page.relative_to(ROOT).as_posix()
