"""How every contract is built: frozen, keyword-only, and strict where somebody writes it by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Self, TypeAlias, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

TYPE_VERSION = 1
"""The version of the public types. Additive fields keep it; a breaking change raises it."""

TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000
"""Nothing that is waited for may take longer: behind it lie times that no calendar has."""

# Building a validator takes milliseconds, and a process that only verifies needs few of them: each is built at
# its first use, and defaults are made by factories rather than at import, which keeps `import tercet` cheap.


class Shape(BaseModel):
    """A value that Tercet itself writes: frozen, and tolerant of fields added by a newer version."""

    # A number that is none is dumped as it is rather than as null, so that its hash is refused and not a lie.
    model_config = ConfigDict(
        frozen=True, extra="ignore", defer_build=True, allow_inf_nan=False, ser_json_inf_nan="constants"
    )


class Published(Shape):
    """A published shape: what is absent is left out, never printed as null. So a field that may be is `Absent`."""


def _is_none(value: object) -> bool:
    return value is None


_T = TypeVar("_T")
# Asked of these fields alone: a serializer of the whole shape would read each of its fields in Python.
Absent: TypeAlias = Annotated[_T | None, Field(exclude_if=_is_none)]
"""A field of a published shape that may be absent, and is then left out."""


class Authored(BaseModel):
    """A value that a planner or a person writes: frozen, and an unknown field is an error that names it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
        allow_inf_nan=False,
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A validated copy, so that a change is checked and nothing derived from the old fields survives."""
        source = super().model_copy(deep=True) if deep else self
        fields = {name: getattr(source, name) for name in source.model_fields_set}
        return type(self).model_validate({**fields, **(update or {})})


_ModelT = TypeVar("_ModelT", bound=BaseModel)
_set = object.__setattr__


@cache
def _names_of(kind: type[BaseModel]) -> set[str]:
    return set(kind.model_fields)


def unchecked(kind: type[_ModelT], fields: dict[str, Any]) -> _ModelT:
    """Return a contract made of all its fields, which were checked before; `fields` becomes a part of it.

    `model_construct` does the same for fields of which some may be missing, in five times the time.
    """
    made = kind.__new__(kind)
    _set(made, "__dict__", fields)
    _set(made, "__pydantic_fields_set__", _names_of(kind))
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made


Json = Any
"""A JSON value. The loaders check that it is one; a recursive type would cost time and say no more."""

JsonObject = dict[str, Json]


def _exists(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Timestamp = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$"
    ),
    AfterValidator(_exists),
]
"""ISO 8601 with its zone, kept as it was recorded: published shapes print back to the letter."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Score = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0)]


def as_object(value: Any) -> JsonObject | None:
    """The value if it is a JSON object."""
    return cast("JsonObject", value) if isinstance(value, dict) else None


def as_list(value: Any) -> list[Json] | None:
    """The value if it is a JSON list."""
    return cast("list[Json]", value) if isinstance(value, list) else None
