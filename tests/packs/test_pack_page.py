"""The page about packs lists every problem that loading and checking can report, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for room in ("packs", "tools")
    for path in (ROOT / "src/tercet" / room).rglob("*.py")
    if path.name != "scaffold.py" and "template" not in path.parts
]
# Parsed while tests are collected: Python's parser does not stand a thread of another test that parses at the same time.
TREES = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES]


def reported() -> Iterator[str]:
    """The codes that are written as the first argument where a problem is made."""
    for tree in TREES:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                first = node.args[0]
                if node.func.attr in ("note", "problem") and isinstance(first, ast.Constant):
                    yield str(first.value)


def words() -> set[str]:
    """Every string in the sources."""
    nodes = (node for tree in TREES for node in ast.walk(tree))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def listed() -> list[str]:
    """The codes in the tables of the page."""
    page = (ROOT / "docs/packs.md").read_text()
    section = page[page.index("## What `tercet check` looks for") :]
    cells = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    return [code for cell in cells for code in re.findall(r"`(\w+)`", cell)]


def test_the_page_lists_every_code() -> None:
    """A check cannot be added without a line that says what it looks for."""
    assert set(reported()) - set(listed()) == set()


def test_the_page_lists_no_other_code() -> None:
    """A code on the page is one that can be reported, and stands there once."""
    assert len(set(reported())) > 40
    assert set(listed()) - words() == set()
    assert len(listed()) == len(set(listed()))
