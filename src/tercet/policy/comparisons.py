"""Finds the texts that rules compare with, from their tokens: `step.tool == "x.pay"`, `"GATE" in s.gates`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tercet.contracts.values import references
from tercet.contracts.values.references import Token

_FRAME = frozenset({"request", "context", "decision", "plan", "args", "params"})
"""Names that do not refer to a step."""


class Comparison(NamedTuple):
    """A text that a rule compares with a field, or searches in one."""

    path: tuple[str, ...]
    """The path of the field: `("s", "tool")`; the first name is empty for a computed value."""
    text: str

    @property
    def step_field(self) -> str | None:
        """The compared field of a step; None if it is not one."""
        return self.path[1] if len(self.path) == 2 and self.path[0] not in _FRAME else None


def compared_texts(expression: str) -> tuple[Comparison, ...]:
    """Return the texts that an expression compares with fields by `==`, `!=` and `in`."""
    found = references.tokens(expression)
    return tuple(
        Comparison(path, text)
        for position, token in enumerate(found)
        if token.kind == "literal" and isinstance(text := references.constant_value(token.text), str)
        for path in _paths_compared(found, position)
    )


def named_tools(expression: str) -> frozenset[str]:
    """Return the tools that a policy searches for among the steps."""
    return frozenset(
        each.text for each in compared_texts(expression) if each.step_field == "tool" and each.text
    )


def may_match_tool(expression: str, tool: str) -> bool:
    """Return whether a rule over one step may hold for a call of a tool: false only where it is certain from comparisons
    of `step.tool`.
    """
    return _may_match(references.tokens(expression), tool, 0)


_DEEPEST = 50
"""The largest depth of brackets that is looked into; what is deeper may match."""


def _may_match(found: tuple[Token, ...], tool: str, depth: int) -> bool:
    if depth > _DEEPEST or _split(found, "?") != [found]:
        return True
    if len(either := _split(found, "||")) > 1:
        return any(_may_match(part, tool, depth + 1) for part in either)
    if len(both := _split(found, "&&")) > 1:
        return all(_may_match(part, tool, depth + 1) for part in both)
    texts = [token.text for token in found]
    if texts[:1] == ["("] and _closing(texts) == len(texts) - 1:
        return _may_match(found[1:-1], tool, depth + 1)
    named = {references.constant_value(token.text) for token in found if token.kind == "literal"}
    shape = "".join("…" if token.kind == "literal" else token.text for token in found)
    if shape in ("step.tool==…", "…==step.tool") or re.fullmatch(r"step\.toolin\[…(,…)*\]", shape):
        return tool in named or any(not isinstance(name, str) for name in named)
    if shape in ("step.tool!=…", "…!=step.tool"):
        return tool not in named
    return True


def _split(found: tuple[Token, ...], operator: str) -> list[tuple[Token, ...]]:
    """Return the parts of an expression between operators that are in no bracket."""
    parts: list[tuple[Token, ...]] = []
    depth = start = 0
    for position, token in enumerate(found):
        depth += (token.text in _OPENING) - (token.text in _CLOSING) if token.kind == "mark" else 0
        ahead = "".join(each.text for each in found[position : position + len(operator)])
        if depth == 0 and token.kind == "mark" and position >= start and ahead == operator:
            parts.append(found[start:position])
            start = position + len(operator)
    return [*parts, found[start:]]


def _closing(texts: list[str]) -> int:
    """Return where the bracket closes that an expression starts with."""
    depth = 0
    for position, text in enumerate(texts):
        depth += (text in _OPENING) - (text in _CLOSING)
        if depth == 0:
            return position
    return -1


_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


def reads_list_order(expression: str) -> bool:
    """Return whether a policy depends on the order in which a plan lists its steps: by `index`, or by `plan.steps[0]`.

    `s.index >= 0` and `s.index < 0` only distinguish the steps of the plan from the calls of earlier plans.
    """
    found = references.tokens(expression)
    for position, token in enumerate(found):
        after = "".join(each.text for each in found[position + 1 : position + 4])
        if token.text == "steps" and token.is_member and after.startswith("["):
            return True
        path = _path_ending(found, position) if token.text == "index" and token.is_member else ()
        is_sign = after.startswith((">=0", "<0"))
        if len(path) == 2 and path[0] not in _FRAME and not is_sign:
            return True
    return False


def _paths_compared(found: tuple[Token, ...], position: int) -> Iterator[tuple[str, ...]]:
    texts = [token.text for token in found]
    if texts[position + 1 : position + 2] == ["in"]:
        yield _path_starting(found, position + 2)
    if texts[position + 1 : position + 3] in (["=", "="], ["!", "="]):
        yield _path_starting(found, position + 3)
    if position >= 3 and texts[position - 2 : position] in (["=", "="], ["!", "="]):
        yield _path_ending(found, position - 3)
    opening = position - 1
    while opening > 1 and (texts[opening] == "," or found[opening].kind == "literal"):
        opening -= 1
    if opening > 1 and texts[opening] == "[" and texts[opening - 1] == "in":
        yield _path_ending(found, opening - 2)


def _path_starting(found: tuple[Token, ...], position: int) -> tuple[str, ...]:
    if position >= len(found) or not found[position].is_name:
        return ()
    return (found[position].text, *map(str, references.selected(found, position + 1)))


def _path_ending(found: tuple[Token, ...], position: int) -> tuple[str, ...]:
    path: list[str] = []
    while found[position].is_name and found[position].is_member:
        path.append(found[position].text)
        position -= 2
    root = found[position].text if found[position].is_name else ""
    return (root, *reversed(path))
