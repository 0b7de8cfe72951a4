"""Find a function, class or constant by its name, and compute a digest that rewording does not change."""

from __future__ import annotations

import ast
import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_IGNORED_MARKS = frozenset({"req", "slow"})


class NotFoundError(LookupError):
    """A name that the sources or tests do not have."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A function, class or assignment, and the file it is in."""

    name: str
    qualname: str
    path: Path
    source: str
    node: ast.stmt

    @functools.cached_property
    def start(self) -> int:
        """The offset of the definition in its file, in characters."""
        return self.offset(self.node.lineno, self.node.col_offset)

    @functools.cached_property
    def end(self) -> int:
        """The offset just after the definition."""
        return self.offset(self.node.end_lineno or 0, self.node.end_col_offset or 0)

    @functools.cached_property
    def _lines(self) -> list[str]:
        return self.source.splitlines(keepends=True)

    @functools.cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self._lines:
            starts.append(starts[-1] + len(line))
        return starts

    def offset(self, line: int, column: int) -> int:
        """Turn a position of the syntax tree, whose columns count bytes, into an offset in characters."""
        text = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(text)

    def digest(self) -> str:
        """Return a short hash of the code without docstrings, comments, layout and marks."""
        return hashlib.sha256(repr(_outline(self.node)).encode()).hexdigest()[:12]


def find_source(sources: Path, name: str) -> Definition:
    """Find what a dotted name such as `tercet.critic.verify.verify` means; the name may be a method or a constant."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = sources.joinpath(*parts[:length])
        for path in (module.with_suffix(".py"), module / "__init__.py"):
            if path.is_file():
                return _find(name, path, parts[length:])
    raise NotFoundError(f"{name} does not exist")


def find_test(root: Path, test: str) -> Definition:
    """Find a test by its node id without parameters, such as `tests/test_x.py::TestClass::test_y`."""
    file, *parts = test.split("::")
    if not (root / file).is_file():
        raise NotFoundError(f"{test} does not exist")
    return _find(test, root / file, parts)


def _find(name: str, path: Path, parts: list[str]) -> Definition:
    source, tree = parse(path)
    body: list[ast.stmt] = tree.body
    found: ast.stmt | None = None
    for part in parts:
        # The last definition of a name counts: the earlier ones are overloads.
        found = next((node for node in reversed(body) if part in _names(node)), None)
        if found is None:
            raise NotFoundError(f"{name} does not exist")
        body = getattr(found, "body", [])
    if found is None:
        raise NotFoundError(f"{name} is a module: name a function, class or constant")
    return Definition(name=name, qualname=".".join(parts), path=path, source=source, node=found)


@functools.cache
def parse(path: Path) -> tuple[str, ast.Module]:
    """Read and parse a file, once."""
    source = path.read_text(encoding="utf-8")
    return source, ast.parse(source)


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a body but its docstring."""
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return body


def _outline(node: Any) -> Any:
    """Return the tree as tuples that are the same in every version of Python."""
    if isinstance(node, list):
        return tuple(_outline(each) for each in node)  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: value for name, value in ast.iter_fields(node) if value not in (None, [])}
    fields.pop("kind", None)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        fields["body"] = without_docstring(node.body)
        fields["decorator_list"] = [each for each in node.decorator_list if not _is_ignored(each)]
    return (type(node).__name__, *((name, _outline(value)) for name, value in sorted(fields.items())))


def _is_ignored(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Attribute) and called.attr in _IGNORED_MARKS
