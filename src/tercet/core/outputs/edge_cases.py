"""Edge cases out of a JSON Schema, made by Hypothesis.

First come the bounds that the schema names, on both sides; then what Hypothesis draws, which likes to be nasty.
The same program makes the same cases each time for the same seed. Another one may not, since Hypothesis also tries the
constants of the code that is loaded: the cases are facts to be recorded, not to be made again.
Needs `hypothesis` (the extra `adversarial`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

from tercet.contracts.errors import extra_missing
from tercet.contracts.outputs.rubric import EdgeCase
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.plain import MAX_NUMBER, not_plain
from tercet.policy import schemas

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Wanted: TypeAlias = Callable[[EdgeCase], bool]
"""Whether a case is of use."""

_LARGE = 10**9
_DEEPEST = 6
_SHARED = ("$defs", "definitions")
_NASTY = (
    "",
    " ",
    "0",
    "null",
    "\u0000",
    "\u202e\u00df\u0130",
    "'; DROP TABLE x; --",
    "<script>1</script>",
    "a" * 300,
)


def make_edge_cases(
    schema: JsonObject, *, limit: int, seed: int | None = None, wanted: Wanted = lambda _: True
) -> tuple[EdgeCase, ...]:
    """Return at most `limit` inputs that lie at the edges of a schema, each with whether the schema takes it.

    Those that are not `wanted` are left out, and do not count.
    """
    found: dict[bytes, EdgeCase] = {}
    text = canonical(schema).decode()
    schemas.validator(text)
    for value, reason in _candidates(inlined(schema), limit, seed):
        if len(found) >= limit:
            break
        if not_plain(value) is None:
            case = EdgeCase(input=value, is_valid=not schemas.faults(text, value), reason=reason)
            if wanted(case):
                found.setdefault(canonical(value), case)
    return tuple(found.values())


def demand_maker() -> None:
    """Raise `UsageError` where edge cases cannot be made, since Hypothesis is not installed."""
    if not is_maker_installed():
        raise extra_missing("making edge cases", "hypothesis", "adversarial")


def is_maker_installed() -> bool:
    """Return whether edge cases can be made here."""
    return find_spec("hypothesis") is not None


def inlined(schema: JsonObject) -> JsonObject:
    """Return a schema with its local references replaced by their targets; a circular one allows anything."""
    return as_object(_inline(schema, schema, 0)) or {}


def _inline(part: Any, root: JsonObject, hops: int) -> Any:
    if (items := as_list(part)) is not None:
        return [_inline(item, root, hops) for item in items]
    if (rule := as_object(part)) is None:
        return part
    found = {name: _inline(value, root, hops) for name, value in rule.items() if name not in _SHARED}
    if not isinstance(ref := found.pop("$ref", None), str):
        return found
    if hops >= _DEEPEST or not ref.startswith("#"):
        return found
    target = as_object(_inline(pointer.follow(root, ref[1:]), root, hops + 1))
    return {**(target or {}), **found}


def _candidates(schema: JsonObject, limit: int, seed: int | None) -> Iterator[tuple[Any, str]]:
    drawn = _draw(schema, max(limit * 3, 20), seed)
    base = next((value for value in drawn if not schemas.faults(canonical(schema).decode(), value)), None)
    # Taken in turn, so that a small limit holds some of both.
    bounds, others = iter(_bounds(schema, base)), iter(drawn)
    for _ in range(limit * 8):
        for source, reason in ((bounds, None), (others, "drawn by Hypothesis")):
            value = next(source, None)
            if value is not None:
                yield (value, reason) if reason else value


def _bounds(schema: JsonObject, base: Any) -> Iterator[tuple[Any, str]]:
    """Yield a valid input with one member changed: left out, null, or at and beyond a bound."""
    members, whole = as_object(schema.get("properties")), as_object(base)
    if members is None or whole is None:
        yield from _at_bounds(schema, "the value")
        return
    for name, part in members.items():
        yield {key: value for key, value in whole.items() if key != name}, f"without {name}"
        yield {**whole, name: None}, f"{name} is null"
        for value, reason in _at_bounds(as_object(part) or {}, name):
            yield {**whole, name: value}, reason
    yield {**whole, "unforeseen": 1}, "with a member that nobody foresaw"


def _at_bounds(schema: JsonObject, name: str) -> Iterator[tuple[Any, str]]:
    kinds = as_list(schema.get("type")) or [schema.get("type")]
    for key, beyond in (("minimum", -1), ("maximum", 1)):
        if isinstance(bound := schema.get(key), int | float):
            yield bound, f"{name} is at its {key}"
            yield bound + beyond, f"{name} is beyond its {key}"
    if "integer" in kinds or "number" in kinds:
        for value in (0, -1, MAX_NUMBER, -MAX_NUMBER):
            yield value, f"{name} is {value}"
        yield str(schema.get("minimum", 1)), f"{name} is a number in a string"
    if "string" in kinds:
        yield from ((value, f"{name} is {value[:20]!r}") for value in _NASTY)
        for key, more in (("minLength", -1), ("maxLength", 1)):
            if isinstance(size := schema.get(key), int) and size + more >= 0:
                yield "x" * size, f"{name} is at its {key}"
                yield "x" * (size + more), f"{name} is beyond its {key}"
    if "array" in kinds:
        yield [], f"{name} is empty"


def _draw(schema: JsonObject, count: int, number: int | None) -> list[Any]:
    """Return what Hypothesis draws for a schema."""
    demand_maker()
    from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: PLC0415 - an optional dependency
    from hypothesis.errors import HypothesisException  # noqa: PLC0415 - as above

    drawn: list[Any] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large),
    )
    @given(_strategy(schema, 0))
    def collect(value: Any) -> None:
        drawn.append(value)

    # What Hypothesis cannot make, such as a number above its maximum or a pattern of another language, is left out.
    with suppress(HypothesisException, re.error, ValueError):
        (collect if number is None else seed(number)(collect))()
    return drawn


def _strategy(schema: Any, depth: int) -> SearchStrategy[Any]:  # noqa: C901 - one case for each kind of schema
    from hypothesis import strategies as st  # noqa: PLC0415 - an optional dependency

    rule = as_object(schema)
    if rule is None or depth > _DEEPEST:
        return st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
    if "const" in rule:
        return st.just(rule["const"])
    if choices := as_list(rule.get("enum")):
        return st.sampled_from(choices)
    if options := as_list(rule.get("anyOf")) or as_list(rule.get("oneOf")):
        return st.one_of([_strategy(option, depth + 1) for option in options])
    kinds = as_list(rule.get("type")) or ([rule["type"]] if "type" in rule else [])
    if len(kinds) > 1:
        return st.one_of([_strategy({**rule, "type": kind}, depth + 1) for kind in kinds])
    match kinds[0] if kinds else ("object" if "properties" in rule else None):
        case "integer":
            return st.integers(int(rule.get("minimum", -_LARGE)), int(rule.get("maximum", _LARGE)))
        case "number":
            low, high = float(rule.get("minimum", -_LARGE)), float(rule.get("maximum", _LARGE))
            return st.floats(low, high, allow_nan=False, allow_infinity=False)
        case "string":
            return _strings(rule)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            items = _strategy(rule.get("items", {}), depth + 1)
            return st.lists(
                items, min_size=int(rule.get("minItems", 0)), max_size=int(rule.get("maxItems", 6))
            )
        case "object":
            return _objects(rule, depth)
        case _:
            return st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)


def _strings(rule: JsonObject) -> SearchStrategy[str]:
    from hypothesis import strategies as st  # noqa: PLC0415 - an optional dependency

    pattern = rule.get("pattern")
    if isinstance(pattern, str):
        return st.from_regex(pattern)
    characters = st.characters(exclude_categories=("Cs",))
    return st.text(
        characters, min_size=int(rule.get("minLength", 0)), max_size=int(rule.get("maxLength", 40))
    )


def _objects(rule: JsonObject, depth: int) -> SearchStrategy[Any]:
    from hypothesis import strategies as st  # noqa: PLC0415 - an optional dependency

    parts = {
        name: _strategy(part, depth + 1) for name, part in (as_object(rule.get("properties")) or {}).items()
    }
    required = [name for name in as_list(rule.get("required")) or () if name in parts]
    needed = {name: parts[name] for name in required}
    return st.fixed_dictionaries(
        needed, optional={name: part for name, part in parts.items() if name not in needed}
    )
