"""Typed form fields for the values of a call, made from its JSON Schema, and for budgets, and what was entered in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.core.budget import BY_NAME
from tercet.service.errors import ServiceError
from tercet.tools.secrets import is_secret
from tercet.view.html.safe_text import Shown

_LINE = 80
"""The number of characters from which a text gets several lines."""
_SIMPLE = ("string", "integer", "number", "boolean")


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a form: its name in the form, its label, and the value that it holds first, exactly as it is."""

    name: str
    label: str
    kind: Literal["text", "lines", "number", "checkbox", "choice", "json"]
    value: Shown
    hint: str = ""
    step: str = ""
    least: str = ""
    most: str = ""
    choices: tuple[tuple[Shown, Shown, bool], ...] = ()
    """The value that is sent, its text, and whether it is chosen first."""
    is_required: bool = False


def make_fields(schema: JsonObject, values: Mapping[str, Any], prefix: str) -> tuple[Field, ...]:
    """Return a field for each value that a schema allows; those whose names say that they are secret have none."""
    properties = as_object(schema.get("properties")) or {}
    required = as_list(schema.get("required")) or ()
    names = [name for name in values if not is_secret(name, values[name])]
    return tuple(
        _field(
            f"{prefix}{name}",
            name,
            as_object(properties.get(name)) or {},
            values[name],
            is_required=name in required,
        )
        for name in names
    )


def _field(sent: str, label: str, schema: JsonObject, value: Any, *, is_required: bool) -> Field:
    kind = schema.get("type")
    hint = str(schema.get("description") or "")
    choices = as_list(schema.get("enum"))
    shared: dict[str, Any] = {"name": sent, "label": label, "hint": hint, "is_required": is_required}
    if choices and len(choices) <= 200:
        options = [(json.dumps(each), each) for each in choices]
        found = tuple((Shown(text), Shown(str(each)), each == value) for text, each in options)
        return Field(kind="choice", value=Shown(json.dumps(value)), choices=found, **shared)
    if kind == "boolean" and isinstance(value, bool | None):
        return Field(kind="checkbox", value=Shown("true" if value else ""), **shared)
    if (
        kind in ("integer", "number")
        and not isinstance(value, bool)
        and isinstance(value, int | float | None)
    ):
        return Field(
            kind="number",
            value=Shown("" if value is None else json.dumps(value)),
            step="1" if kind == "integer" else "any",
            least=_bound(schema, "minimum", "exclusiveMinimum", kind, 1),
            most=_bound(schema, "maximum", "exclusiveMaximum", kind, -1),
            **shared,
        )
    if kind == "string" and isinstance(value, str | None):
        text = value or ""
        is_long = "\n" in text or len(text) > _LINE
        return Field(kind="lines" if is_long else "text", value=Shown(text), **shared)
    text = "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)
    shared["hint"] = hint or "JSON"
    return Field(kind="json", value=Shown(text), **shared)


def _bound(schema: JsonObject, inside: str, outside: str, kind: Any, step: int) -> str:
    limit, beyond = schema.get(inside), schema.get(outside)
    if isinstance(limit, int | float):
        return json.dumps(limit)
    is_whole = kind == "integer" and isinstance(beyond, int) and not isinstance(beyond, bool)
    return str(beyond + step) if is_whole and isinstance(beyond, int) else ""


def read_changes(
    schema: JsonObject, values: Mapping[str, Any], form: Mapping[str, str], prefix: str
) -> dict[str, Any]:
    """Return the values that were changed in a form, by their JSON Pointers; raises `ServiceError` for one that cannot be read."""
    changes: dict[str, Any] = {}
    for field in make_fields(schema, values, prefix):
        value = _entered(field, form, values[field.label])
        if value != values[field.label] or type(value) is not type(values[field.label]):
            changes[pointer.join((field.label,))] = value
    return changes


def _entered(field: Field, form: Mapping[str, str], before: Any) -> Any:
    if field.kind == "checkbox":
        return bool(form.get(field.name)) if before is not None or form.get(field.name) else None
    sent = form.get(field.name)
    if sent is None or _lines(sent) == _lines(field.value):
        return before
    if field.kind in ("text", "lines"):
        return _lines(sent)
    return parse_json(field.label, sent)


def _lines(text: str) -> str:
    """Return a text with the line ends that browsers send replaced."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_json(label: str, text: str) -> Any:
    """Return an entered JSON value; raises `ServiceError`."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ServiceError(
            f"{label}: {text[:80]!r} is not a value of this kind",
            code="wrong_value",
            remedy="go back, and enter a number where one is expected, or JSON",
            status=422,
        ) from None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def result_values(schema: JsonObject | None) -> dict[str, Any] | None:
    """Return the empty values of a result that is entered field by field; None if it is entered as JSON."""
    properties = as_object((schema or {}).get("properties")) or {}
    simple = [name for name, each in properties.items() if (as_object(each) or {}).get("type") in _SIMPLE]
    return dict.fromkeys(properties) if properties and len(simple) == len(properties) else None


def read_result(schema: JsonObject | None, form: Mapping[str, str]) -> Any:
    """Return the result of a call that a person entered."""
    empty = result_values(schema)
    if schema is None or empty is None:
        text = form.get("value", "").strip()
        return parse_json("value", text) if text else None
    found: dict[str, Any] = {}
    for field in make_fields(schema, empty, "result:"):
        if field.kind == "checkbox":
            found[field.label] = bool(form.get(field.name))
        elif sent := form.get(field.name, ""):
            found[field.label] = (
                _lines(sent) if field.kind in ("text", "lines") else parse_json(field.label, sent)
            )
    return found


# --- budgets ---


@dataclass(frozen=True, kw_only=True)
class AmountField:
    """A field that takes how much is added to a dimension of a budget."""

    name: str
    label: str
    unit: str = ""
    """The unit that is entered, where it is not that of the budget."""
    factor: int = 1
    """The number of the budget's units in one that is entered."""

    @property
    def title(self) -> str:
        """The label with the unit."""
        return f"{self.label}{f', in {self.unit}' if self.unit else ''}"


_UNITS = {"cost_microcents": ("cents", 1_000_000), "wall_clock_ms": ("seconds", 1_000)}
_AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?", re.ASCII)


def amount_fields(dimensions: Iterable[str]) -> tuple[AmountField, ...]:
    """Return a field for each dimension of a budget, in units that people think in."""
    return tuple(
        AmountField(name=name, label=BY_NAME[name].label, unit=unit, factor=factor)
        for name in dimensions
        for unit, factor in [_UNITS.get(name, ("", 1))]
    )


def read_amounts(fields: Iterable[AmountField], form: Mapping[str, str]) -> dict[str, int]:
    """Return the amounts that were entered, in the units of the budget; raise `ServiceError` for any other text."""
    found: dict[str, int] = {}
    for field in fields:
        given = form.get(f"more_{field.name}", "").strip()
        if not given:
            continue
        amount = Decimal(given) * field.factor if _AMOUNT.fullmatch(given) else Decimal(0)
        if amount <= 0 or amount != int(amount):
            raise ServiceError(
                f"{field.title}: {given[:40]!r} is not {'a' if field.unit else 'a whole'} number above zero",
                code="wrong_amount",
                remedy="write digits, such as 20" + (" or 2.5" if field.unit else ""),
                status=422,
            )
        found[field.name] = int(amount)
    if not found:
        raise ServiceError(
            "no amount was entered", code="wrong_amount", remedy="enter at least one amount", status=422
        )
    return found
