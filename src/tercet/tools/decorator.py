"""`@tool`: declares a function as a tool, where its code stands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import ValidationError

from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode, Reversibility, Trust
from tercet.contracts.plan import Compensation
from tercet.contracts.problem import words_for
from tercet.contracts.shape import JsonObject
from tercet.contracts.tool import Limit, OncePer, Unbound
from tercet.tools.signature import name_of, read_look_up, read_parameters, read_result
from tercet.tools.tool import Tool

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
    """Make a `Tool` of a plain or async function; each argument means what the field of `ToolSpec` means.

    The schemas come from the annotations, the description from the docstring, unless they are given here.
    A parameter annotated `ToolContext` is filled by the runtime and is no part of the schema.

    `reconcile` is called with the parameters of a call of unknown outcome, or with those of them that it names, and its
    `ToolContext`. It returns `Happened(value)`, `Absent()` or `Unknown(reason)`.
    """
    declared: dict[str, Any] = {
        "name": name,
        "mode": mode,
        "reversibility": reversibility,
        "gates": gates,
        "roles": roles,
        "tenants": tenants,
        "authority": authority,
        "kinds": kinds,
        "result_kinds": result_kinds,
        "unbound": unbound,
        "identity": identity,
        "once_per": once_per,
        "aliases": aliases,
        "limits": _limits(limits),
        "compensate": compensate,
        "no_compensation": no_compensation,
        "requires_evidence": requires_evidence,
        "preconditions": preconditions,
        "establishes": establishes,
        "revokes": revokes,
        "attests": attests,
        "untrusted": untrusted,
        "trust": trust,
        "endorses": endorses,
        "idempotent": idempotent,
        "reconcile": reconcile,
        "settle_after_ms": settle_after_ms,
        "timeout_ms": timeout_ms,
        "estimated_ms": estimated_ms,
        "estimated_tokens": estimated_tokens,
        "cost_microcents": cost_microcents,
    }

    def decorate(function: Callable[..., Any]) -> Tool:
        fields = {key: value for key, value in declared.items() if value is not None}
        fields["call"], fields["parameters"] = function, parameters
        if parameters is None:
            fields["parameters"], fields["call"] = read_parameters(function)
        fields["description"] = (inspect.getdoc(function) or "") if description is None else description
        fields["result"] = read_result(function) if result is None else result
        if callable(reconcile):  # anything else is refused with the other wrong arguments
            fields["reconcile"] = read_look_up(reconcile, fields["parameters"] or {})
        try:
            return Tool(**fields)
        except ValidationError as error:
            raise _misuse(function, error) from error

    return decorate


def _limits(limits: Sequence[Limit | str]) -> Any:
    # A lone string is a sequence too; it is left as it is, and the declaration refuses it.
    if isinstance(limits, str):
        return limits
    return [Limit(expression=limit) if isinstance(limit, str) else limit for limit in limits]


def _misuse(function: Callable[..., Any], error: ValidationError) -> UsageError:
    """Every wrong argument of one use of the decorator, in one error that names the function."""
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
