"""One call of a method, whichever protocol brought it: scope, parameters, request key, audit log and time limit."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import orjson
from pydantic import BaseModel

from tercet.contracts.shape import as_object
from tercet.contracts.values.canonical import canonical, digest, hash_bytes
from tercet.contracts.values.plain import storable
from tercet.engine.leases import POLL_MS, TICK_MS, HeldLease, LeaseClient
from tercet.engine.streams import audit
from tercet.executor.clock import Clock
from tercet.journal.errors import JournalBusy, JournalError, JournalUnavailable, LeaseHeld, LeaseLost
from tercet.service.errors import METHOD_NOT_FOUND, ServiceError, demand_flat, understand
from tercet.service.identity import Caller
from tercet.service.methods import METHODS, Method, Service, demand_actor
from tercet.service.views import reveal_result

CALL_S = 60
"""How long a call may take."""
STOPPING = "stopping"
"""The outcome of a call that was not over when the service stopped: it may have taken effect."""
_SUBJECTS = ("session_id", "gate_id", "name")
_OWN_ID = re.compile(r"ses_[\w.-]{1,500}", re.ASCII)
"""What names a session or a gate. Where there are personal values, the audit log keeps no other text of a call: it is
never erased."""


async def call(service: Service, caller: Caller, name: str, given: Any) -> dict[str, Any]:
    """Carry out a method for a caller and return its result; raises `ServiceError`.

    Every call that changes something is in the audit log of the caller's tenant before it takes effect, and also if it is
    refused.
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
    log = None
    try:
        log = _Log(service, caller, name, given) if method.is_mutating else None
        result = await _carry_out(service, caller, name, method, given, log)
    except asyncio.CancelledError:
        if log is not None:
            # The service stops: the call may have taken effect, and the log must say so.
            await asyncio.shield(log.write(STOPPING))
        raise
    except Exception as error:
        refusal = understand(error)
        try:
            if log is not None:
                await log.write(refusal.code)
        except JournalError as lost:
            refusal = understand(lost)
        raise refusal from error
    try:
        named = (as_object(given) or {}).get("session_id", "")
        return await reveal_result(service.hub.journal, caller.tenant, result, named)
    except Exception as error:
        raise understand(error) from error


async def _carry_out(
    service: Service, caller: Caller, name: str, method: Method, given: Any, log: _Log | None
) -> dict[str, Any]:
    demand_flat(given)
    caller.demand(method.scope)
    demand_actor(service, caller)
    params = method.params.model_validate({} if given is None else given)
    stream = _call_stream(caller, name, params)
    hashed = hash_bytes(canonical(params.model_dump(mode="json"))) if stream else ""
    if stream:
        caller = replace(caller, call_key=digest([stream, hashed]))

    async def make() -> dict[str, Any]:
        if log is not None:
            await log.write(audit.BEGUN)
        result = await method.call(service, caller, params)
        if log is not None:
            await log.write("ok", subject=_subject(result))
        return result

    async with asyncio.timeout(CALL_S):
        return await (_make_once(service, caller.tenant, stream, hashed, make) if stream else make())


async def _make_once(
    service: Service,
    tenant: str,
    stream: str,
    hashed: str,
    make: Callable[[], Awaitable[dict[str, Any]]],
) -> dict[str, Any]:
    """Return the kept result of a call; if there is none, make it, and keep its result.

    The same call that is sent meanwhile waits, also in another process: the lease on the call's stream decides. A process
    that dies before the result is kept leaves its lease to end, and the call is then made again: what it has written into an
    inbox, or as a stop, carries the call's key, and is not written twice.
    """
    journal, clock = service.hub.journal, service.hub.clock
    leases = LeaseClient(journal=journal, tenant=tenant, clock=clock)
    lock = service.calls.setdefault((tenant, stream), asyncio.Lock())
    async with lock:
        while (earlier := await audit.find_result(journal, tenant, stream, hashed)) is None:
            try:
                held = await leases.acquire(stream)
            except LeaseHeld as found:
                await clock.sleep(min(POLL_MS, max(1, found.wait_ms)))
                continue
            renewing = asyncio.create_task(_renew(held, clock))
            try:
                # It may have been made between looking and acquiring the lease.
                if (earlier := await audit.find_result(journal, tenant, stream, hashed)) is None:
                    result = await make()
                    data, epoch = orjson.dumps(result, default=str), held.lease.epoch
                    await audit.keep_result(
                        journal, tenant, stream, hashed, data, epoch=epoch, at=clock.now()
                    )
                    return result
            finally:
                renewing.cancel()
                with suppress(LeaseLost):
                    await journal.release(held.lease)
        return orjson.loads(earlier)


async def _renew(held: HeldLease, clock: Clock) -> None:
    """Keep a lease until cancelled, or until another process has it."""
    with suppress(LeaseLost):
        while True:
            await clock.sleep(TICK_MS)
            if held.is_due:
                with suppress(JournalBusy, JournalUnavailable):
                    await held.renew()


def _call_stream(caller: Caller, name: str, params: BaseModel) -> str:
    """Return where the result of a call with a request key is kept; a run's own key belongs to the run."""
    key = getattr(params, "request_key", None)
    return audit.call_stream(caller.actor.id, name, key) if key else ""


def _subject(result: dict[str, Any]) -> str:
    if (erased := as_object(result.get("erased"))) is not None:
        return str(erased.get("key_id", ""))
    return str((as_object(result.get("session")) or {}).get("session_id", ""))


def _is_personal(service: Service, name: str) -> bool:
    """Return whether parameters may hold personal values: these could be guessed from their hash."""
    return name == "eraseSubject" or any(
        pack.personal.has_marks for packs in service.hub.packs.values() for pack in packs
    )


async def log_refused(service: Service, caller: Caller, name: str, code: str) -> None:
    """Write into the audit log that a request was refused before its calls were read."""
    await _Log(service, caller, name, None).write(code)


def _hash(given: Any) -> str:
    """Return a hash of parameters; empty for those that are refused since they cannot be written."""
    try:
        return hash_bytes(msgspec.json.encode(given, order="sorted"))
    except (RecursionError, TypeError, ValueError):
        return ""


class _Log:
    """The entries of one call in the audit log."""

    def __init__(self, service: Service, caller: Caller, name: str, given: Any) -> None:
        self._service = service
        self._tenant = caller.tenant
        fields, actor = as_object(given) or {}, caller.actor
        named = next((fields[each] for each in _SUBJECTS if isinstance(fields.get(each), str)), "")
        is_personal = _is_personal(service, name)
        if isinstance(kind := fields.get("kind"), str):
            named = f"{kind[:16]} {named}".strip()
        elif is_personal and _OWN_ID.fullmatch(named) is None:
            named = ""
        self._entry = audit.AuditEntry(
            at=service.now(),
            actor=storable(actor.id),
            auth=actor.auth,
            credential=caller.credential,
            method=name,
            subject=storable(named[:512]),
            params="" if given is None or is_personal else _hash(given),
            simulated_by=storable(actor.os_user or "") if actor.auth == "simulated" else "",
            call=os.urandom(8).hex(),
        )

    async def write(self, outcome: str, *, subject: str = "") -> None:
        """Write how far the call is; `subject` is what it was about where its parameters do not say so."""
        entry = msgspec.structs.replace(
            self._entry,
            at=self._service.now(),
            outcome=outcome,
            subject=self._entry.subject or storable(subject),
        )
        await self._service.log_of(self._tenant).write(entry)
