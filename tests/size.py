"""Prints how large src is: lines and files for each package, and the files, folders and functions that are too large."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "tercet"
MAX_FILE, MAX_FUNCTION, MAX_MODULES = 600, 80, 25
_LARGEST = 10


def report(root: Path = SOURCES) -> Iterator[str]:
    """Yield the lines of the report."""
    files = {path: path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    sizes = {path.relative_to(root): text.count("\n") for path, text in files.items()}
    lines: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for path, size in sizes.items():
        package = path.parts[0] if len(path.parts) > 1 else path.name
        lines[package] += size
        modules[package] += 1
    yield f"{sum(sizes.values()):>7,} lines in {len(sizes)} files"
    for package, size in lines.most_common():
        yield f"{size:>7,} lines in {modules[package]:>3} files  {package}"
    yield "largest files"
    for path, size in sorted(sizes.items(), key=lambda each: -each[1])[:_LARGEST]:
        yield f"{size:>7,}  {path}"
    folders = Counter(path.parent for path in sizes if path.name != "__init__.py")
    many = {f"{folder}/": number for folder, number in folders.items() if number > MAX_MODULES}
    long_files = {str(path): size for path, size in sizes.items() if size > MAX_FILE}
    long_functions = {
        f"{path.relative_to(root)}:{line} {name}": size
        for path, text in files.items()
        for name, line, size in _functions(text)
        if size > MAX_FUNCTION
    }
    yield from _found(f"folders with more than {MAX_MODULES} modules", many)
    yield from _found(f"files over {MAX_FILE} lines", long_files)
    yield from _found(f"functions over {MAX_FUNCTION} lines", long_functions)


def _functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name, line and length of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def _found(what: str, sizes: dict[str, int]) -> Iterator[str]:
    yield f"{what}: {len(sizes) or 'none'}"
    for name, size in sorted(sizes.items(), key=lambda each: -each[1]):
        yield f"{size:>7,}  {name}"


if __name__ == "__main__":
    sys.stdout.write("\n".join([*report(), ""]))
