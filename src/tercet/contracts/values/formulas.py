"""Formulas: the few `$cel` expressions whose value is still trusted: a selection or a sum of trusted values.

    value     := condition "?" value ":" value | sum
    sum       := operand (("+" | "-") operand)*
    operand   := selection | constant | "(" value ")"
    selection := name ("." name | "[" key "]")*                        key := constant | selection
    condition := a selection, or comparisons of sums joined by "&&", "||", "!" and parentheses

This is an allowlist. CEL without any constant can build any number, text or flag (`size([[],[]])`, `n / n + n / n`, `a
== a`, `string(n) + string(m)`), so every other expression is opaque: it has no trusted source, whatever it reads. Sums
are kept with their operands, since review allows no constant in a sum and no source twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from tercet.contracts.values.references import (
    CONSTANT_WORDS,
    RESERVED_WORDS,
    Place,
    Read,
    Token,
    constant_value,
    tokens,
)

MAX_FORMULA_DEPTH = 32
"""The maximum nesting of a formula, the same as the evaluator's."""

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_PAIRS = frozenset({"==", "!=", "<=", ">=", "&&", "||"})


class Constant(NamedTuple):
    """A value that a formula spells out."""

    value: Any


Source: TypeAlias = Read | Constant


class Formula(NamedTuple):
    """An expression that only selects, chooses, adds or subtracts."""

    values: tuple[Source, ...]
    """The sources that the result is selected from or added up from."""
    consulted: tuple[Source, ...]
    """The sources of conditions and keys, which decide what is selected."""
    sums: tuple[tuple[tuple[Source, ...], ...], ...]
    """For each sum, conditions included, the sources of each of its operands."""
    is_sum: bool
    """Whether the result may be a sum: it must then be a number, since `+` also joins texts and lists."""


def parse_formula(expression: str) -> Formula | None:
    """Return the formula of an expression; None if the expression is anything else."""
    parser = _Parser(_join_operators(tokens(expression)))
    try:
        node = parser.parse()
    except _UnrecognisedError:
        return None
    return Formula(node.sources, tuple(parser.consulted), tuple(parser.sums), node.is_sum)


Owned: TypeAlias = tuple[Any, Place]
"""A source as it is compared within a sum: its owner, and the place that is read."""


def repeats_a_source(operands: Iterable[Iterable[Owned]]) -> bool:
    """Return whether two operands of a sum may use the same source, or one a part of the other's."""
    places: set[Owned] = set()
    prefixes: set[Owned] = set()
    for operand in operands:
        here = set(operand)
        above = {(owner, place[:length]) for owner, place in here for length in range(len(place) + 1)}
        if not places.isdisjoint(above) or not prefixes.isdisjoint(here):
            return True
        places |= here
        prefixes |= above
    return False


class _UnrecognisedError(Exception):
    """The expression is not a formula."""


class _Node(NamedTuple):
    """A part of a formula: its sources, and whether it is a sum, or a flag that only a condition may use."""

    sources: tuple[Source, ...]
    is_sum: bool = False
    is_flag: bool = False


_END = Token("", "mark", is_member=False)


class _Parser:
    """A recursive-descent parser over the tokens of one expression."""

    def __init__(self, found: list[Token]) -> None:
        self._found = found
        self._at = 0
        self._depth = 0
        self.consulted: list[Source] = []
        self.sums: list[tuple[tuple[Source, ...], ...]] = []

    def parse(self) -> _Node:
        node = self._require_value(self._choice())
        if self._next is not _END:
            raise _UnrecognisedError
        return node

    @property
    def _next(self) -> Token:
        return self._found[self._at] if self._at < len(self._found) else _END

    def _accept(self, *marks: str) -> bool:
        is_here = self._next.kind == "mark" and self._next.text in marks
        self._at += is_here
        return is_here

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            raise _UnrecognisedError

    def _require_value(self, node: _Node) -> _Node:
        if node.is_flag:
            raise _UnrecognisedError
        return node

    def _choice(self) -> _Node:
        self._depth += 1
        if self._depth > MAX_FORMULA_DEPTH:
            raise _UnrecognisedError
        node = self._alternatives()
        if self._accept("?"):
            self.consulted += node.sources
            first = self._require_value(self._choice())
            self._expect(":")
            second = self._require_value(self._choice())
            node = _Node((*first.sources, *second.sources), first.is_sum or second.is_sum)
        self._depth -= 1
        return node

    def _alternatives(self) -> _Node:
        nodes = [self._comparison()]
        while self._accept("&&", "||"):
            nodes.append(self._comparison())
        if len(nodes) == 1:
            return nodes[0]
        return _Node(tuple(source for node in nodes for source in node.sources), is_flag=True)

    def _comparison(self) -> _Node:
        node = self._sum()
        if self._accept(*_COMPARISONS):
            left, right = self._require_value(node), self._require_value(self._sum())
            return _Node((*left.sources, *right.sources), is_flag=True)
        return node

    def _sum(self) -> _Node:
        nodes = [self._operand()]
        while self._accept("+", "-"):
            nodes.append(self._operand())
        if len(nodes) == 1:
            return nodes[0]
        operands = tuple(self._require_value(node).sources for node in nodes)
        self.sums.append(operands)
        return _Node(tuple(source for operand in operands for source in operand), is_sum=True)

    def _operand(self) -> _Node:
        if self._accept("!"):
            return self._operand()._replace(is_flag=True)
        if self._accept("("):
            node = self._choice()
            self._expect(")")
            if self._next.text in (".", "["):  # a selection from something computed
                raise _UnrecognisedError
            return node
        token = self._next
        if token.kind == "literal" or (token.is_name and token.text in CONSTANT_WORDS):
            self._at += 1
            value = CONSTANT_WORDS[token.text] if token.is_name else constant_value(token.text)
            if self._next.text in (".", "["):
                raise _UnrecognisedError
            return _Node((Constant(value),))
        return _Node((self._selection(),))

    def _selection(self) -> Read:
        root = self._next
        if not root.is_name or root.is_member or root.text in RESERVED_WORDS:
            raise _UnrecognisedError
        self._at += 1
        place: list[str | int] = []
        is_static = True
        while self._next.text in (".", "[") and self._next.kind == "mark":
            key = self._member() if self._accept(".") else self._key()
            is_static = is_static and key is not None
            if is_static and key is not None:
                place.append(key)
        if self._next.text == "(":  # a call of a function or method
            raise _UnrecognisedError
        return Read(root.text, tuple(place))

    def _member(self) -> str:
        token = self._next
        if not token.is_name:
            raise _UnrecognisedError
        self._at += 1
        return token.text

    def _key(self) -> str | int | None:
        """Return the key in brackets; None if it is read from a source and known only when the step runs."""
        self._expect("[")
        token = self._next
        key: str | int | None = None
        if token.kind == "literal":
            self._at += 1
            value = constant_value(token.text)
            if type(value) is not str and type(value) is not int:
                raise _UnrecognisedError
            key = value
        else:
            self._depth += 1
            if self._depth > MAX_FORMULA_DEPTH:
                raise _UnrecognisedError
            self.consulted.append(self._selection())
            self._depth -= 1
        self._expect("]")
        return key


def _join_operators(found: tuple[Token, ...]) -> list[Token]:
    """Return the tokens with two-character operators joined, which the scanner splits."""
    joined: list[Token] = []
    for token in found:
        before = joined[-1] if joined else _END
        if token.kind == before.kind == "mark" and before.text + token.text in _PAIRS:
            joined[-1] = before._replace(text=before.text + token.text)
        else:
            joined.append(token)
    return joined
