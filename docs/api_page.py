"""Writes docs/api.md: every public name with the first sentence of its docstring. Run it with `make api`."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tercet.contracts.packs.schema import PUBLIC_TYPES

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "api.md"
TESTING = {
    "tercet.testing.clock": ("VirtualClock",),
    "tercet.testing.models": ("ScriptedModel",),
    "tercet.testing.adversarial": ("make_edge_cases",),
    "tercet.testing.journal_suite": ("Backend", "Case", "cases"),
    "tercet.testing.evidence_suite": ("EvidenceBackend", "Case", "cases"),
    "tercet.testing.model_suite": ("Subject", "Case", "CASES"),
}
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page() -> str:
    """Return the page as it should be."""
    return f"""# Public names

{_TOP}
## tercet

{_table("tercet", import_module("tercet").__all__)}
## tercet.critics

Critics of your own, and step-by-step agents: [critics](critics.md), [engine](engine.md).

{_table("tercet.critics", import_module("tercet.critics").__all__)}
## tercet.testing

For tests of your own: a clock, a model with a script, edge cases, and the suites that a journal, an evidence store or a model of your own has to pass.

{"".join(_table(module, names, show_module=True, has_head=module == next(iter(TESTING))) for module, names in TESTING.items())}
## tercet.contracts

The published shapes, which `tercet schema NAME` prints as JSON Schema.
Each is in the module that the table names.

{_table("", sorted(PUBLIC_TYPES))}
## Names that the guides use

For extensions, such as a journal, a model or a retriever of your own, the guides import these from their modules.
They are internal as well, but where one moves, the changelog says so.

{_guides()}"""


_TOP = """`make api` writes this page; the tests check that it is current.
What it does not list is internal, and may change in any version.
"""


def _table(module: str, names: Any, *, show_module: bool = False, has_head: bool = True) -> str:
    rows = ["| name | what it is |\n|---|---|\n"] if has_head else []
    for name in names:
        thing = PUBLIC_TYPES[name] if not module else getattr(import_module(module), name)
        home = module if show_module else ("" if module else _home(thing))
        rows.append(
            f"| `{f'{home}.{name}' if home else name}` | {_sentence(thing, module or home, name)} |\n"
        )
    return "".join(rows)


def _home(thing: Any) -> str:
    return getattr(thing, "__module__", "") if inspect.isclass(thing) else "tercet.contracts.verdict"


def _sentence(thing: Any, module: str, name: str) -> str:
    """Return the first sentence of a docstring; of a constant or an alias, the text below it."""
    is_documented = (
        inspect.isclass(thing) or inspect.isroutine(thing) or "__wrapped__" in getattr(thing, "__dict__", {})
    )
    text = inspect.getdoc(thing) if is_documented else _text_below(module, name)
    first = " ".join((text or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.) ", first)[0].replace("|", "\\|")


def _text_below(module: str, name: str) -> str:
    """Return the string that follows an assignment, in the module that has it."""
    imported = import_module(module)
    lines = ast.parse(inspect.getsource(imported)).body
    for line, after in zip(lines, [*lines[1:], ast.Pass()], strict=True):
        match line, after:
            case ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(
                target=ast.Name(id=found)
            ), ast.Expr(value=ast.Constant(value=str(text))) if found == name:
                return text
            case ast.ImportFrom(module=str(home)), _ if any(each.name == name for each in line.names):
                return _text_below(home, name)
            case _:
                pass
    return ""


def _guides() -> str:
    rows = ["| name | guides |\n|---|---|\n"]
    for name, pages in sorted(_imports_of_guides()):
        links = ", ".join(f"[{each}]({each}.md)" for each in pages)
        rows.append(f"| `{name}` | {links} |\n")
    return "".join(rows)


def _imports_of_guides() -> Iterator[tuple[str, list[str]]]:
    """Yield the names that Python blocks import from deeper modules, with the pages that do."""
    found: dict[str, set[str]] = {}
    for guide in DOCS.glob("*.md"):
        for block in _BLOCK.findall(guide.read_text(encoding="utf-8")):
            for line in ast.walk(ast.parse(block)):
                if isinstance(line, ast.ImportFrom) and (line.module or "").startswith("tercet."):
                    for each in line.names:
                        found.setdefault(f"{line.module}.{each.name}", set()).add(guide.stem)
    listed = {f"{module}.{name}" for module, names in TESTING.items() for name in names}
    listed |= {f"{_home(thing)}.{name}" for name, thing in PUBLIC_TYPES.items()}
    listed |= {f"tercet.critics.{name}" for name in import_module("tercet.critics").__all__}
    yield from ((name, sorted(pages)) for name, pages in found.items() if name not in listed)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
