"""From JSON to what a function's annotations ask for.

A plan holds JSON, and so does the journal; a function that says `money: Money` wants a `Money`. What is made of the
values is made just before the call, so a value that cannot be made is a call that did not happen. Functions that ask
for nothing but JSON's own types are called as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tercet.contracts.errors import NotSent

_ATOMS = (str, int, float, bool, NoneType, Any, object, list, dict)
_SHELLS = (list, dict, Union, UnionType)


def convert(
    function: Callable[..., Any], model: type[BaseModel], parameters: Mapping[str, inspect.Parameter]
) -> Callable[..., Any]:
    """The function, or one that makes the values of its annotated types first. `model` has a field for each parameter,
    with the parameter's name as alias."""
    names = {field: str(info.alias) for field, info in model.model_fields.items()}
    filled = {f for f, name in names.items() if parameters[name].default is inspect.Parameter.empty}
    optional = {field for field, info in model.model_fields.items() if not info.is_required()}
    if all(_is_json(info) for info in model.model_fields.values()) and not filled & optional:
        return function

    def made(given: dict[str, Any]) -> dict[str, Any]:
        known = {name: given[name] for name in names.values() if name in given}
        try:
            values = model.model_validate(known)
        except ValidationError as error:
            raise _unmade(error) from error
        # What neither the plan nor the signature gives comes from the annotation: Annotated[int, Field(default=3)].
        wanted = values.model_fields_set | filled
        return given | {names[field]: getattr(values, field) for field in wanted}

    return _wrapped(function, made)


def _wrapped(
    function: Callable[..., Any], made: Callable[[dict[str, Any]], dict[str, Any]]
) -> Callable[..., Any]:
    routine = function if inspect.isroutine(function) else type(function).__call__
    if inspect.iscoroutinefunction(routine):

        @wraps(routine)
        async def call_async(**given: Any) -> Any:
            return await function(**made(given))

        return call_async

    @wraps(routine)
    def call(**given: Any) -> Any:
        return function(**made(given))

    return call


def _is_json(info: FieldInfo) -> bool:
    """Whether a parameter is what JSON brings, and nothing checks or changes it that the schema does not tell."""
    is_plain = all(type(each).__module__ == "annotated_types" for each in info.metadata)
    return is_plain and _is_json_type(info.annotation)


def _is_json_type(hint: Any) -> bool:
    if hint in _ATOMS:
        return True
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return all(type(part) in (str, int, bool, NoneType) for part in parts)
    if origin is Annotated:
        return all(isinstance(each, FieldInfo | str) for each in parts[1:]) and _is_json_type(parts[0])
    return origin in _SHELLS and all(map(_is_json_type, parts))


def _unmade(error: ValidationError) -> NotSent:
    detail = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, detail["loc"]))
    return NotSent(
        f"{where}: {str(detail['msg']).removeprefix('Value error, ')}",
        code="argument_invalid",
        is_retriable=False,
    )
