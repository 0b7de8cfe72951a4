"""Text is UTF-8 wherever it is written and read, whatever a machine is set to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tercet

SOURCE = Path(tercet.__file__).parent
TEXTUAL = {"read_text": 0, "write_text": 1}
"""The methods of a path, by how many arguments stand before the encoding."""


def unnamed(path: Path) -> Iterator[str]:
    """Each place of a file where text is read or written without saying in which encoding."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        modes = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
        is_file = node.func.attr == "open" and modes in (["r"], ["w"], ["a"], ["x"])
        is_text = TEXTUAL.get(node.func.attr) == len(node.args)
        if (is_text or is_file) and not any(k.arg == "encoding" for k in node.keywords):
            yield f"{path.relative_to(SOURCE)}:{node.lineno}"


def test_every_text_file_names_its_encoding() -> None:
    """A person's words in a log or a proposal read the same on every machine; what nobody reads needs none."""
    found = [place for path in sorted(SOURCE.rglob("*.py")) for place in unnamed(path)]
    assert [place for place in found if not place.startswith("cli/main.py")] == []  # writes to nowhere
