"""Every public name of the contracts is used by a run: nothing is published that only a test or a page knows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import tercet
from tercet.contracts.packs.schema import PUBLIC_TYPES

SRC = Path(tercet.__file__).parent
CONTRACTS = "tercet.contracts"
RE_EXPORTS = ("tercet", f"{CONTRACTS}.schema", "tercet.testing")
"""Modules that list names for others: being listed is no use."""


class Name(NamedTuple):
    """A name at the top of a module."""

    module: str
    name: str


class Module(NamedTuple):
    """What a module defines at its top, and what its names stand for elsewhere."""

    definitions: dict[str, list[ast.stmt]]
    imported: dict[str, Name]
    tree: ast.Module


def _defined(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return [node.name]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.If():
            return [name for inner in node.body for name in _defined(inner)]
        case _:
            return []


@cache
def modules() -> dict[str, Module]:
    """Every module of the package, by its name."""
    found: dict[str, Module] = {}
    for path in SRC.rglob("*.py"):
        parts = path.relative_to(SRC.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        definitions: dict[str, list[ast.stmt]] = {}
        for node in tree.body:
            for defined in _defined(node):
                definitions.setdefault(defined, []).append(node)
        imported = {
            alias.asname or alias.name: Name(node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        found[name] = Module(definitions, imported, tree)
    return found


def _resolve(name: Name) -> Name:
    """Follow a name to the module that defines it."""
    module = modules().get(name.module)
    if module is None or name.name in module.definitions:
        return name
    target = module.imported.get(name.name, name)
    return name if target == name else _resolve(target)


def used_in(module: str, nodes: list[ast.stmt]) -> Iterator[Name]:
    """The names of the package that some code reads: plain ones, and members of imported modules."""
    known = modules()[module]
    for node in (inner for each in nodes for inner in ast.walk(each)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in known.imported:
                yield _resolve(known.imported[name])
            case ast.Name(id=name, ctx=ast.Load()) if name in known.definitions:
                yield Name(module, name)
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if owner in known.imported:
                inside = ".".join(known.imported[owner])
                if inside in modules():
                    yield _resolve(Name(inside, attribute))
            case _:
                pass


@cache
def live() -> frozenset[Name]:
    """The names of the contracts that code outside of them reads, and those that these need."""
    due = [
        name
        for module, found in modules().items()
        if not module.startswith(CONTRACTS) and module not in RE_EXPORTS
        for name in used_in(module, found.tree.body)
    ]
    reached: set[Name] = set()
    while due:
        name = due.pop()
        if name not in reached and name.module.startswith(CONTRACTS) and name.module in modules():
            reached.add(name)
            due += used_in(name.module, modules()[name.module].definitions.get(name.name, []))
    return frozenset(reached)


@pytest.mark.slow
def test_every_public_name_of_the_contracts_is_used() -> None:
    """A type, constant or function that only tests read is not part of the product: remove it."""
    public = {
        Name(module, name)
        for module, found in modules().items()
        if module.startswith(CONTRACTS) and module not in RE_EXPORTS
        for name in found.definitions
        if not name.startswith("_")
    }
    assert sorted(public - live()) == []


@pytest.mark.slow
@pytest.mark.req("R34")
def test_the_schema_lists_types_that_runs_use() -> None:
    """`tercet schema` describes no type that no run makes or reads."""
    names = {name.name for name in live()}
    assert sorted(set(PUBLIC_TYPES) - names) == []
