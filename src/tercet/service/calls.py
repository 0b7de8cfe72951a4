"""One call of a method, whichever protocol brought it: scope, parameters, request key, audit log and time limit."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import orjson
from pydantic import BaseModel

from tercet.contracts.shape import as_object
from tercet.contracts.values.canonical import canonical, hash_bytes
from tercet.contracts.values.plain import storable
from tercet.engine.streams import audit
from tercet.service.errors import METHOD_NOT_FOUND, ServiceError, understand
from tercet.service.identity import Caller
from tercet.service.methods import METHODS, Method, Service

CALL_S = 60
"""How long a call may take."""
_SUBJECTS = ("session_id", "gate_id", "name")


async def call(service: Service, caller: Caller, name: str, given: Any) -> dict[str, Any]:
    """Carry out a method for a caller and return its result; raises `ServiceError`.

    Every call that changes something is in the audit log of the caller's tenant, also if it is refused.
    """
    method = METHODS.get(name)
    if method is None:
        raise ServiceError(
            f"there is no method {name[:100]!r}",
            code="unknown_method",
            remedy="GET /v1/methods lists them",
            status=404,
            rpc=METHOD_NOT_FOUND,
        )
    try:
        result = await _carry_out(service, caller, name, method, given)
    except Exception as error:
        refusal = understand(error)
        if method.is_mutating:
            await _audit(service, caller, name, given, refusal.code)
        raise refusal from error
    return result


async def _carry_out(
    service: Service, caller: Caller, name: str, method: Method, given: Any
) -> dict[str, Any]:
    caller.demand(method.scope)
    params = method.params.model_validate({} if given is None else given)
    stream = _call_stream(caller, name, params)
    hashed = hash_bytes(canonical(params.model_dump(mode="json"))) if stream else ""
    if stream and (earlier := await audit.find_result(service.hub.journal, caller.tenant, stream, hashed)):
        return orjson.loads(earlier)
    async with asyncio.timeout(CALL_S):
        result = await method.call(service, caller, params)
    if stream:
        data = orjson.dumps(result, default=str)
        await audit.keep_result(service.hub.journal, caller.tenant, stream, hashed, data)
    if method.is_mutating:
        await _audit(service, caller, name, given, "ok", subject=_subject(result))
    return result


def _call_stream(caller: Caller, name: str, params: BaseModel) -> str:
    """Return where the result of a call with a request key is kept; a run's own key belongs to the run."""
    key = getattr(params, "request_key", None)
    return audit.call_stream(caller.actor.id, name, key) if key else ""


def _subject(result: dict[str, Any]) -> str:
    return str((as_object(result.get("session")) or {}).get("session_id", ""))


async def _audit(
    service: Service, caller: Caller, name: str, given: Any, outcome: str, *, subject: str = ""
) -> None:
    fields = as_object(given) or {}
    named = next((fields[each] for each in _SUBJECTS if isinstance(fields.get(each), str)), "")
    actor = caller.actor
    entry = audit.AuditEntry(
        at=service.now(),
        actor=storable(actor.id),
        auth=actor.auth,
        credential=caller.credential,
        method=name,
        subject=storable(named[:512] or subject),
        params=hash_bytes(msgspec.json.encode(given, order="sorted")),
        outcome=outcome,
        simulated_by=storable(actor.os_user or "") if actor.auth == "simulated" else "",
    )
    await audit.write_audit(service.hub.journal, caller.tenant, entry)
