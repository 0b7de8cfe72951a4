"""`@tool`: declares a function as a tool, with the schemas of its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from tercet.contracts.errors import NotSent, UsageError
from tercet.contracts.mode import ApprovalMode, Reversibility, Trust
from tercet.contracts.plan import Compensation
from tercet.contracts.problem import words_for
from tercet.contracts.shape import JsonObject, as_object
from tercet.contracts.tool import Limit, OncePer, Unbound
from tercet.tools.tool import Tool, ToolContext

_ATOMS = (str, int, float, bool, NoneType, Any, object, list, dict)
_SHELLS = (list, dict, Union, UnionType)


def convert(
    function: Callable[..., Any], model: type[BaseModel], parameters: Mapping[str, inspect.Parameter]
) -> Callable[..., Any]:
    """Return the function, or a wrapper that converts arguments to the annotated types. `model` has a field for each
    parameter, with the parameter's name as alias.
    """
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
        # A default may also come from the annotation: Annotated[int, Field(default=3)].
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
    """Return whether a parameter has a JSON type, without validators that the schema does not show."""
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


class SignatureError(UsageError):
    """A function whose signature is invalid for a tool; the message names the function."""

    default_code = "tool_signature"


class _Untitled(GenerateJsonSchema):
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - the signature is Pydantic's
        return False


def read_parameters(function: Callable[..., Any]) -> tuple[JsonObject, Callable[..., Any]]:
    """Return the schema of the parameters that a plan fills, and the function as it is called with JSON.

    Raises `SignatureError`.
    """
    hints = _hints(function)
    found = {parameter.name: parameter for parameter in _parameters(function, hints)}
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(found.values()):
        default: Any = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[f"p{number}"] = (hints[parameter.name], Field(default, alias=parameter.name))
    try:
        model = create_model("parameters", __config__=ConfigDict(extra="forbid"), **fields)
        schema = _without_title(model.model_json_schema(schema_generator=_Untitled))
    except PydanticUserError as error:
        raise _undescribable(function, "a parameter", error) from error
    return schema, convert(function, model, found)


def read_look_up(function: Callable[..., Any], parameters: JsonObject) -> Callable[..., Any]:
    """Return a look-up as it is called with JSON; `parameters` is the schema of its tool's parameters.

    Raises `SignatureError` if it needs something that the tool does not take.
    """
    schema, called = read_parameters(function)
    known = as_object(parameters.get("properties"))
    missing = [name for name in schema.get("required", ()) if known is not None and name not in known]
    if missing:
        raise SignatureError(
            f"look-up function {name_of(function)} takes {missing[0]}, which its tool does not",
            remedy="name parameters of the tool, and annotate the context as ToolContext",
        )
    return called


def read_result(function: Callable[..., Any]) -> JsonObject | None:
    """Return the schema of the result; None if the annotation is missing, None or Any. Raises `SignatureError`."""
    hint = _hints(function).get("return", Any)
    if hint is Any or hint is type(None):
        return None
    try:
        schema = TypeAdapter[Any](hint).json_schema(mode="serialization", schema_generator=_Untitled)
    except PydanticUserError as error:
        raise _undescribable(function, "the result", error) from error
    return _without_title(schema)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function for a message."""
    return getattr(function, "__qualname__", None) or repr(function)


def _parameters(function: Callable[..., Any], hints: dict[str, Any]) -> Iterator[inspect.Parameter]:
    """Return the parameters that a plan fills, after checking each."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise SignatureError(
                f"tool function {name_of(function)} takes {str(parameter).partition(':')[0]}",
                remedy="name each parameter: a plan's arguments are checked one by one before anything runs",
            )
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise SignatureError(
                f"tool function {name_of(function)} takes {parameter.name} by position only",
                remedy="drop the '/': arguments are passed by name",
            )
        if parameter.name not in hints:
            raise SignatureError(
                f"tool function {name_of(function)} does not say what {parameter.name} is",
                remedy=f"annotate it, for example {parameter.name}: str",
            )
        hint = hints[parameter.name]
        if ToolContext in get_args(hint):
            raise SignatureError(
                f"tool function {name_of(function)} takes a ToolContext among other types as {parameter.name}",
                remedy=f"annotate it as {parameter.name}: ToolContext, so that no plan can fill it",
            )
        if hint is not ToolContext:
            yield parameter


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    if isinstance(function, partial):
        # Bound arguments remain in the signature, as defaults that a plan could override.
        raise SignatureError(
            "a partial cannot be a tool function",
            remedy="write a function that calls it with what a plan may give",
        )
    # A callable object keeps its annotations on its __call__.
    annotated = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(inspect.unwrap(annotated), include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise SignatureError(
            f"tool function {name_of(function)} has an annotation that cannot be resolved: {error}",
            remedy="import or define the type at the top of the module, outside of functions and TYPE_CHECKING",
        ) from error


def _without_title(schema: JsonObject) -> JsonObject:
    return {key: value for key, value in schema.items() if key != "title"}


def _undescribable(function: Callable[..., Any], what: str, error: PydanticUserError) -> SignatureError:
    if error.code == "typed-dict-version":
        return SignatureError(
            f"tool function {name_of(function)} has a TypedDict from typing for {what}, which Python before 3.12 does not "
            "describe completely",
            remedy="import it so: from typing_extensions import TypedDict",
        )
    return SignatureError(
        f"tool function {name_of(function)} has a type for {what} that JSON Schema cannot describe: "
        f"{error.message.splitlines()[0]}",
        remedy="use a Pydantic model, dataclass, TypedDict or JSON type, or give the schema itself",
    )


# --- decorator ---


ModeWord = Literal["read_only", "local_write", "network", "delegated", "destructive"]
ReversibilityWord = Literal["pure", "reversible", "compensable", "irreversible"]
TrustWord = Literal["untrusted", "trusted"]

_REMEDIES = {
    "name": "write the name as adapter.capability, for example orders.lookup",
    "mode": f"choose one of {', '.join(ApprovalMode)}",
    "reversibility": f"choose one of {', '.join(Reversibility)}",
    "trust": f"choose one of {', '.join(Trust)}",
}


def tool(
    name: str,
    *,
    mode: ApprovalMode | ModeWord,
    reversibility: Reversibility | ReversibilityWord | None = None,
    gates: Sequence[str] = (),
    roles: Sequence[str] = (),
    tenants: Sequence[str] = (),
    authority: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    result_kinds: Mapping[str, str] | None = None,
    unbound: Mapping[str, Unbound] | None = None,
    identity: Sequence[str] | None = None,
    once_per: OncePer | Mapping[str, Any] | None = None,
    aliases: Mapping[str, str] | None = None,
    limits: Sequence[Limit | str] = (),
    compensate: Compensation | Mapping[str, Any] | None = None,
    no_compensation: str = "",
    requires_evidence: Sequence[str] = (),
    preconditions: Sequence[str] = (),
    establishes: Sequence[str] = (),
    revokes: Sequence[str] = (),
    attests: Sequence[str] = (),
    untrusted: Sequence[str] = (),
    trust: Trust | TrustWord | None = None,
    endorses: bool = False,
    idempotent: bool = False,
    reconcile: Callable[..., Any] | None = None,
    settle_after_ms: int | None = None,
    timeout_ms: int | None = None,
    estimated_ms: int | None = None,
    estimated_tokens: int | None = None,
    cost_microcents: int | None = None,
    description: str | None = None,
    parameters: JsonObject | None = None,
    result: JsonObject | None = None,
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a plain or async function; each argument has the meaning of the field in `ToolSpec`.

    The schemas come from the annotations, the description from the docstring, unless they are given here. A parameter
    annotated `ToolContext` is filled by the runtime and is not part of the schema.

    `reconcile` is called with the parameters of a call of unknown outcome, or with those of them that it names, and its
    `ToolContext`. It returns `Happened(value)`, `Absent()` or `Unknown(reason)`.
    """
    # Each argument has the name of its field.
    declared: dict[str, Any] = {**locals(), "limits": _limits(limits)}

    def decorate(function: Callable[..., Any]) -> Tool:
        fields = {key: value for key, value in declared.items() if value is not None}
        fields["call"], fields["parameters"] = function, parameters
        if parameters is None:
            fields["parameters"], fields["call"] = read_parameters(function)
        fields["description"] = (inspect.getdoc(function) or "") if description is None else description
        fields["result"] = read_result(function) if result is None else result
        if callable(reconcile):  # other types are reported with the other wrong arguments
            fields["reconcile"] = read_look_up(reconcile, fields["parameters"] or {})
        try:
            return Tool(**fields)
        except ValidationError as error:
            raise _misuse(function, error) from error

    return decorate


def _limits(limits: Sequence[Limit | str]) -> Any:
    # A single string is a sequence too; the declaration rejects it.
    if isinstance(limits, str):
        return limits
    return [Limit(expression=limit) if isinstance(limit, str) else limit for limit in limits]


def _misuse(function: Callable[..., Any], error: ValidationError) -> UsageError:
    """Return one error with every wrong argument of a use of the decorator, naming the function."""
    faults: list[str] = []
    remedies: dict[str, None] = {}
    for detail in error.errors(include_url=False):
        faults.append(f"{'.'.join(map(str, detail['loc'])) or 'the tool'}: {_fault(detail)}")
        remedies[_remedy(detail)] = None
    return UsageError(
        f"tool function {name_of(function)} is declared wrongly: {'; '.join(faults)}",
        code="tool_declaration",
        remedy="; ".join(filter(None, remedies)) or None,
    )


def _fault(detail: Any) -> str:
    given = repr(detail.get("input"))
    shown = f"{given[:60]}{'…' * (len(given) > 60)}"
    if detail["type"] in ("string_pattern_mismatch", "enum"):
        return f"{shown} does not fit"
    words = words_for(detail)
    message = words.fault if words is not None else str(detail["msg"]).removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]} (here: {shown})"


def _remedy(detail: Any) -> str:
    field = str(detail["loc"][0]) if detail["loc"] else ""
    if detail["type"] == "tuple_type":
        return f"write {field} as a list of strings"
    return _REMEDIES.get(field, "")
