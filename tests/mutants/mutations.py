"""Small changes to a definition, each of which a good test notices."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mutants.code import Definition, NotFoundError, without_docstring

_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPPOSITE: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_SMALL = ("comparison", "condition", "literal", "operator", "row", "statement")
_MOST_SMALL, _MOST_BLUNT = 8, 3
_SHOWN = 80


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One replacement in a file."""

    start: int
    end: int
    new: str
    text: str

    def apply(self, source: str) -> str:
        """Return the file with the replacement."""
        return source[: self.start] + self.new + source[self.end :]


def written_mutation(definition: Definition, old: str, new: str) -> Mutation:
    """Return a mutation that the table writes out: text that occurs once in the definition, and its replacement."""
    inside = definition.source[definition.start : definition.end]
    if inside.count(old) != 1:
        raise NotFoundError(f"{definition.name} contains {old!r} {inside.count(old)} times instead of once")
    start = definition.start + inside.index(old)
    return Mutation(start=start, end=start + len(old), new=new, text=describe(old, new))


def describe(old: str, new: str) -> str:
    """Say in one line what a mutation replaces."""
    return f"{_shorten(old)} -> {_shorten(new) or '(removed)'}"


def generated_mutations(definition: Definition) -> list[Mutation]:
    """Return some mutations of a definition: small ones, the first of each kind before the second, then blunt ones."""
    small: dict[str, list[Mutation]] = {kind: [] for kind in _SMALL}
    blunt: list[Mutation] = []
    for kind, node, new, part in _changes(definition.node):
        start = definition.offset(node.lineno, node.col_offset)
        end = definition.offset(node.end_lineno or 0, node.end_col_offset or 0)
        text = describe(part, "") if part else describe(definition.source[start:end], new)
        small.get(kind, blunt).append(Mutation(start=start, end=end, new=new, text=text))
    turns = itertools.zip_longest(*small.values())
    in_turn = [mutation for turn in turns for mutation in turn if mutation is not None]
    return in_turn[:_MOST_SMALL] + blunt[:_MOST_BLUNT]


# The kind of a change, the node, the new text, and the part that is left out, if any.
_Change = tuple[str, Any, str, str]


def _changes(root: ast.AST) -> Iterator[_Change]:
    """Yield every change that could be made."""
    for node in _walk(root):
        yield from _decisions(node)
        yield from _values(node)
        yield from _omissions(node)


def _decisions(node: ast.AST) -> Iterator[_Change]:
    """Yield changes of what is decided: comparisons and conditions."""
    match node:
        case ast.Compare(ops=[operator]):
            yield "comparison", node, _with(node, ops=[_NEGATED[type(operator)]()]), ""
        case (
            ast.If(test=test)
            | ast.While(test=test)
            | ast.IfExp(test=test)
            | ast.comprehension(ifs=[test, *_])
        ) if not isinstance(test, ast.Compare) and not _is_guard(node):
            yield "condition", test, f"(not ({ast.unparse(test)}))", ""
        case ast.BoolOp(op=operator):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "condition", node, f"({_with(node, op=other)})", ""
        case _:
            pass


def _values(node: ast.AST) -> Iterator[_Change]:
    """Yield changes of literals and of arithmetic."""
    match node:
        case ast.Constant(value=bool() as value):
            yield "literal", node, repr(not value), ""
        case ast.Constant(value=int() | float() as value):
            yield "literal", node, repr(value + 1), ""
        case ast.Constant(value=str() as value):
            yield "literal", node, repr(value + "_x"), ""
        case ast.BinOp(op=operator) if type(operator) in _OPPOSITE:
            yield "operator", node, f"({_with(node, op=_OPPOSITE[type(operator)]())})", ""
        case _:
            pass


def _omissions(node: ast.AST) -> Iterator[_Change]:
    """Yield what is left with a statement, a row of a table, a field, an argument or a result less."""
    match node:
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield "statement", node, "pass", ast.unparse(node)
        case ast.Dict(keys=[_, _, *_]):
            for index, key in enumerate(node.keys):
                rest = _with(node, keys=_but(node.keys, index), values=_but(node.values, index))
                yield "row", node, rest, ast.unparse(key or node.values[index])
        case (
            ast.List(elts=[_, _, *_])
            | ast.Set(elts=[_, _, *_])
            | ast.Tuple(elts=[_, _, _, *_], ctx=ast.Load())
        ):
            for index, element in enumerate(node.elts):
                yield "row", node, _with(node, elts=_but(node.elts, index)), ast.unparse(element)
        case ast.ClassDef(body=body):
            for field in body:
                if isinstance(field, ast.Assign | ast.AnnAssign):
                    yield "row", field, "pass", ast.unparse(field)
        case ast.Call(keywords=[_, *_]):
            for index, keyword in enumerate(node.keywords):
                yield "argument", node, _with(node, keywords=_but(node.keywords, index)), ast.unparse(keyword)
        case ast.Return(value=ast.expr()):
            yield "result", node, "return None", ""
        case _:
            pass


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes whose change could matter: no docstrings, annotations of functions or parts of f-strings.

    The condition of a guard is left as it is, since negating it breaks everything; the guard itself can be left out.
    """
    yield node
    match node:
        case ast.If(body=[ast.Raise() as guarded], orelse=rest):
            children: list[Any] = [guarded, *rest]
        case ast.Expr(value=ast.Call(func=ast.Name(id="demand"))) | ast.JoinedStr():
            children = []
        case _:
            children = [
                child for name, value in ast.iter_fields(node) for child in _children(node, name, value)
            ]
    for child in children:
        if isinstance(child, ast.AST):
            yield from _walk(child)


def _is_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and len(node.body) == 1 and isinstance(node.body[0], ast.Raise)


def _children(node: ast.AST, name: str, value: Any) -> list[Any]:
    if name in ("returns", "annotation") and not isinstance(node, ast.AnnAssign):
        return []
    if not isinstance(value, list):
        return [value]
    return without_docstring(value) if name == "body" else value  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


def _with(node: ast.AST, **fields: Any) -> str:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return ast.unparse(changed)


def _but(values: list[Any], index: int) -> list[Any]:
    return values[:index] + values[index + 1 :]


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."
