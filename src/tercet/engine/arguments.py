"""Validation of the arguments that callers pass: objects of the expected type, or dicts of their fields."""

from __future__ import annotations

import os
from collections.abc import Mapping
from reprlib import repr as brief
from typing import Any, TypeAlias, TypeVar, cast

from pydantic import ValidationError

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import Plan
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.request import Actor, InvokeRequest, Request
from tercet.contracts.shape import Authored
from tercet.packs.pack import Pack

Fields: TypeAlias = Mapping[str, Any]
_Value = TypeVar("_Value", bound=Authored)


def as_request(given: object) -> Request:
    """Return a caller's request as a `Request`."""
    return _read(Request, "request", given, 'Request(intent="support.refund", input={…})')


def as_envelope(given: object) -> InvokeRequest:
    """Return a caller's envelope as an `InvokeRequest`."""
    return _read(InvokeRequest, "envelope", given, 'InvokeRequest(request=Request(intent="support.refund"))')


def as_actor(given: object) -> Actor:
    """Return a caller's actor as an `Actor`. A bare name is refused, since it does not say how it was authenticated."""
    example = f"Actor(id={given!r})" if isinstance(given, str) else 'Actor(id="ada")'
    return _read(Actor, "actor", given, example)


def as_plan(given: object) -> Plan:
    """Return a caller's plan as a `Plan`, also from one of the two published shapes; raises `PlanError` for other dicts."""
    if isinstance(given, Plan):
        return given
    if isinstance(given, Mapping):
        return load_plan(cast("Fields", given))
    raise _wrong("plan", given, "tercet.contracts.plan_formats.load_plan(text) reads one from JSON")


def as_pack(given: object) -> Pack:
    """Return a caller's pack. A path is refused, since loading a pack runs its code."""
    if isinstance(given, Pack):
        return given
    is_path = isinstance(given, str | os.PathLike)
    raise _wrong("pack", given, f"load it with Pack.load({str(cast('object', given))!r})" if is_path else "load one with Pack.load(folder)")  # fmt: skip


def demand_journal(given: object) -> None:
    """Raise `UsageError` for a journal given as a path instead of an address."""
    if isinstance(given, os.PathLike):
        raise _wrong("journal", cast("object", given), f'write journal="sqlite:///{given!s}"')


def _read(kind: type[_Value], what: str, given: object, example: str) -> _Value:
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise _wrong(what, given, f"write {example}")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"invalid {kind.__name__}: {field}: {first['msg'].lower()}",
            code=f"wrong_{what}",
            remedy=f"its fields are {', '.join(kind.model_fields)}",
        ) from error


def _wrong(what: str, given: object, remedy: str) -> UsageError:
    return UsageError(
        f"invalid {what}: {brief(given)} ({type(given).__name__})", code=f"wrong_{what}", remedy=remedy
    )
