"""Read the requirement marks from the sources of the tests, without importing them."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from mutants.code import parse


def marked_tests(root: Path) -> dict[str, list[str]]:
    """Return for each line the tests that are marked with it, as node ids without parameters."""
    tests: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        if "mark.req(" in path.read_text(encoding="utf-8"):
            file = path.relative_to(root).as_posix()
            for test, line in _marks(parse(path)[1].body, file, ()):
                tests[line].append(test)
    return tests


def _marks(body: list[ast.stmt], place: str, inherited: Sequence[str]) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _marks(node.body, f"{place}::{node.name}", [*inherited, *_lines(node.decorator_list)])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            lines = dict.fromkeys([*inherited, *_lines(node.decorator_list)])
            yield from ((f"{place}::{node.name}", line) for line in lines)


def _lines(decorators: list[ast.expr]) -> Iterator[str]:
    for decorator in decorators:
        for node in ast.walk(decorator):
            match node:
                case ast.Call(func=ast.Attribute(attr="req"), args=arguments):
                    yield from (each.value for each in arguments if isinstance(each, ast.Constant))  # pyright: ignore[reportReturnType]
                case _:
                    pass
