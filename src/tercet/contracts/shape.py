"""Base classes of all contracts: frozen, keyword-only, and strict where people or planners write them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Self, TypeAlias, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

TYPE_VERSION = 1
"""The version of the public types. Additive fields keep it; a breaking change raises it."""

TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000
"""The longest wait; longer ones would overflow the calendar."""

# Building a validator takes milliseconds, and a process that only verifies needs few of them: each is built at
# first use, and defaults come from factories rather than at import, which keeps `import tercet` cheap.


class Shape(BaseModel):
    """A value that Tercet itself writes: frozen, and tolerant of fields added by a newer version."""

    # NaN is dumped as it is rather than as null, so that hashing it fails instead of hashing another value.
    model_config = ConfigDict(
        frozen=True, extra="ignore", defer_build=True, allow_inf_nan=False, ser_json_inf_nan="constants"
    )


class Published(Shape):
    """A published shape: absent fields are omitted, never printed as null. Optional fields are declared as `Absent`."""


def _is_none(value: object) -> bool:
    return value is None


_T = TypeVar("_T")
# A check per field is fast: a serializer of the whole shape would read every field in Python.
Absent: TypeAlias = Annotated[_T | None, Field(exclude_if=_is_none)]
"""An optional field of a published shape, omitted if absent."""


class Authored(BaseModel):
    """A value that a planner or a person writes: frozen, and an unknown field is an error that names it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
        allow_inf_nan=False,
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a validated copy, so that changes are checked and no cached value of the old fields survives."""
        source = super().model_copy(deep=True) if deep else self
        fields = {name: getattr(source, name) for name in source.model_fields_set}
        return type(self).model_validate({**fields, **(update or {})})


_ModelT = TypeVar("_ModelT", bound=BaseModel)
_new = object.__new__
# The attributes of a model by their descriptors, which takes half as long as by their names.
_set_fields, _set_names, _set_extra, _set_private = (
    vars(BaseModel)[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


@cache
def _names_of(kind: type[BaseModel]) -> set[str]:
    return set(kind.model_fields)


def unchecked(kind: type[_ModelT], fields: dict[str, Any]) -> _ModelT:
    """Return a contract made of already validated fields; `fields` is used as it is, not copied.

    `model_construct` does the same for incomplete fields, and takes five times as long.
    """
    made = _new(kind)
    _set_fields(made, fields)
    _set_names(made, _names_of(kind))
    _set_extra(made, None)
    _set_private(made, None)
    return made


Json = Any
"""A JSON value. The loaders check it; a recursive type would be slower and add nothing."""

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
"""ISO 8601 with its zone, kept as text: published shapes must print back byte for byte."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Score = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0)]


def as_object(value: Any) -> JsonObject | None:
    """Return the value if it is a JSON object."""
    return cast("JsonObject", value) if isinstance(value, dict) else None


def as_list(value: Any) -> list[Json] | None:
    """Return the value if it is a JSON list."""
    return cast("list[Json]", value) if isinstance(value, list) else None
