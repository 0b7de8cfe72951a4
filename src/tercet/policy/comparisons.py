"""Finds the texts that rules compare with, from their tokens: `step.tool == "x.pay"`, `"GATE" in s.gates`."""

from __future__ import annotations

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
