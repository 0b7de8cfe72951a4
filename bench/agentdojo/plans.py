"""Calls as plans: in literals, with references to earlier results, and one turn after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from tercet import Plan, Step
from tercet.contracts.values import pointer
from tercet.contracts.values.kinds import parameter_kind, result_kind
from tercet.contracts.values.trust import overlaps

from .suites import Call, Suite

Form = Literal["literals", "references", "turns"]
FORMS: tuple[Form, ...] = ("literals", "references", "turns")


def plan_of(suite: Suite, calls: Sequence[Call]) -> Plan:
    """Return the calls as one plan.

    The user's calls wait for each other in their order, and so do the attacker's. An attacker's call also waits for the
    reading calls before it, which bring what it refers to, but for no effect of the user's, which may wait for a person.
    """
    steps: list[Step] = []
    for number, call in enumerate(calls):
        before = [n for n in range(number) if calls[n].is_injected == call.is_injected][-1:]
        if call.is_injected:
            before += [
                n for n in range(number) if not calls[n].is_injected and suite.is_read(calls[n].function)
            ][-1:]
        steps.append(
            Step(
                id=f"s{number}",
                tool=suite.tool(call.function).name,
                params=call.args,
                depends_on=tuple(f"s{n}" for n in sorted(before)),
            )
        )
    return Plan(intent=suite.intent, steps=tuple(steps))


def with_references(suite: Suite, prompt: str, calls: Sequence[Call]) -> list[Call]:
    """Return the calls with references in place of the values that earlier results hold and the prompt does not.

    The calls are made, so that their results are known; a call that fails brings none. The environment is the one in use.
    """
    earlier: list[tuple[Call, Any]] = []
    changed: list[Call] = []
    for call in calls:
        args = {
            name: value if is_named(value, prompt) else (find_reference(suite, call, name, earlier) or value)
            for name, value in call.args.items()
        }
        changed.append(replace(call, args=args))
        earlier.append((call, result_of(suite, call)))
    return changed


def result_of(suite: Suite, call: Call) -> Any:
    """Return what the tool of a call answers now, or None if it fails."""
    coroutine = suite.tool(call.function).call(**call.args)  # pyright: ignore - the tools of these packs are async and await nothing
    try:
        coroutine.send(None)
    except StopIteration as answer:
        return answer.value
    except Exception:  # noqa: BLE001 - whatever fails brings no result
        return None
    raise AssertionError(f"{call.function} waits for something")


def is_named(value: object, prompt: str) -> bool:
    """Whether the prompt holds a value as words of its own."""
    return re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", prompt) is not None


def find_reference(
    suite: Suite, call: Call, name: str, earlier: Sequence[tuple[Call, Any]]
) -> dict[str, str] | None:
    """Return a reference to a place in earlier results that holds the value of a parameter, None if there is none.

    Of several places it is the one that the pack trusts most for this parameter: one that cannot carry other people's words,
    of the parameter's kind, and with the parameter's name, in this order.
    """
    value = call.args[name]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    wanted = parameter_kind(suite.tool(call.function), (name,))
    places: list[tuple[tuple[bool, bool, bool], str]] = []
    for number, (source, result) in enumerate(earlier):
        tool = suite.tool(source.function)
        for place, held in scalars(result):
            if isinstance(held, bool) or held != value or isinstance(held, str) != isinstance(value, str):
                continue
            is_marked = any(overlaps(mark, place) for mark in tool.untrusted)
            is_other_kind = result_kind(tool, place).name != wanted.name
            places.append(((is_marked, is_other_kind, name not in place), f"s{number}#{pointer.join(place)}"))
    return {"$from": min(places, key=lambda each: each[0])[1]} if places else None


def scalars(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Iterate over the scalars of a result with their places."""
    if isinstance(value, dict):
        for key, member in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from scalars(member, (*place, str(key)))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        for number, item in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from scalars(item, (*place, str(number)))
    else:
        yield place, value
