"""Edge cases out of a JSON Schema, made by Hypothesis.

First come the bounds that the schema names, on both sides; then what Hypothesis draws, which likes to be nasty.
The same program makes the same cases each time. Another one may not, since Hypothesis also tries the constants of the
code that is loaded: the cases are facts to be recorded, not to be made again.
Needs `hypothesis` (the extra `adversarial`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tercet.contracts.canonical import canonical
from tercet.contracts.extras import extra_missing
from tercet.contracts.plain import MAX_NUMBER, not_plain
from tercet.contracts.rubric import EdgeCase
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.policy import schemas

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_LARGE = 10**9
_DEEPEST = 6
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


def make_edge_cases(schema: JsonObject, *, limit: int) -> tuple[EdgeCase, ...]:
    """At most `limit` inputs that lie at the edges of a schema, each with whether the schema takes it."""
    found: dict[bytes, EdgeCase] = {}
    text = canonical(schema).decode()
    schemas.validator(text)
    for value, reason in _candidates(schema, limit):
        if len(found) >= limit:
            break
        if not_plain(value) is None:
            is_valid = not schemas.faults(text, value)
            found.setdefault(canonical(value), EdgeCase(input=value, is_valid=is_valid, reason=reason))
    return tuple(found.values())


def _candidates(schema: JsonObject, limit: int) -> Iterator[tuple[Any, str]]:
    drawn = _draw(schema, max(limit * 3, 20))
    base = next((value for value in drawn if not schemas.faults(canonical(schema).decode(), value)), None)
    # Taken in turn, so that a small limit holds some of both.
    bounds, others = iter(_bounds(schema, base)), iter(drawn)
    for _ in range(limit * 8):
        for source, reason in ((bounds, None), (others, "drawn by Hypothesis")):
            value = next(source, None)
            if value is not None:
                yield (value, reason) if reason else value


def _bounds(schema: JsonObject, base: Any) -> Iterator[tuple[Any, str]]:
    """A valid input with one member changed: left out, null, or at and beyond a bound."""
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


def _draw(schema: JsonObject, count: int) -> list[Any]:
    """What Hypothesis draws for a schema."""
    try:
        from hypothesis import HealthCheck, Phase, given, settings  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise extra_missing("making edge cases", "hypothesis", "adversarial") from error
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

    collect()
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
