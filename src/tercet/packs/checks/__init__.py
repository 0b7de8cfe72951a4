"""What `check` looks for, one small function per question.

A check takes the parts of a pack and yields a problem for each defect. It is pure, and it keeps quiet where a file
could not be read and it cannot know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Literal, TypeAlias

from tercet.contracts.problem import Problem
from tercet.packs.parts import Parts

Problems: TypeAlias = Iterator[Problem]
Check: TypeAlias = Callable[[Parts], Problems]


def unknown_gate(parts: Parts, place: str, name: str) -> Problem:
    """The problem of a gate that is named and not there."""
    remedy = did_you_mean(name, parts.gate) or "declare it in gates.toml, or name another"
    return parts.problem("unknown_gate", place, f"there is no gate {name}", remedy)


def unknown_tool(parts: Parts, place: str, name: str) -> Problem:
    """The problem of a tool that is named and not there."""
    remedy = did_you_mean(name, parts.tool) or f"this pack has {', '.join(sorted(parts.tool)) or 'no tools'}"
    return parts.problem("unknown_tool", place, f"there is no tool {name}", remedy)


def unknown_parameter(parts: Parts, code: str, place: str, name: str, known: Iterable[str]) -> Problem:
    """The problem of a parameter that is named and not there."""
    names = list(known)
    remedy = did_you_mean(name, names) or f"it takes {', '.join(names) or 'none'}"
    return parts.problem(code, place, f"there is no parameter {name}", remedy)


def unknown_fact(
    parts: Parts,
    place: str,
    told: str,
    name: str,
    known: Iterable[str],
    *,
    severity: Literal["error", "warning"] = "error",
) -> Problem:
    """The problem of a member of evidence that is named and not there."""
    names = list(known)
    remedy = (
        did_you_mean(name, names) or f"name one of {', '.join(names[:12]) or 'those that the evidence has'}"
    )
    return parts.problem("required_fact_unknown", place, told, remedy, severity=severity)


def did_you_mean(name: str, known: Iterable[str], words: str = "did you mean {}?") -> str | None:
    """Words about the known name that is nearest to this one; None if none is near."""
    near = get_close_matches(name, list(known), n=1)
    return words.format(near[0]) if near else None
