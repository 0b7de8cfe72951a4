"""What calls return: sessions, gates, stops and audit entries as JSON, and their personal values."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any

import msgspec
import orjson

from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values.plain import storable
from tercet.core.transcript import timestamp
from tercet.engine import progress
from tercet.engine.lists import ListedSession, PendingGate
from tercet.engine.personal.keys import STOP_NOTES
from tercet.engine.personal.reveal import Revealer
from tercet.engine.personal.sealing import MARK
from tercet.engine.streams.audit import AuditEntry
from tercet.engine.streams.recent_calls import recent_calls
from tercet.engine.streams.stops import Stop
from tercet.journal.protocol import Journal
from tercet.runtime import Runtime
from tercet.runtime.live import LiveRun
from tercet.service.errors import MOVE, not_found
from tercet.view.vocabulary import standing


async def session_view(
    runtime: Runtime,
    session: str,
    now: int,
    serves: Callable[[str, str], bool] | None = None,
    live: LiveRun | None = None,
) -> dict[str, Any]:
    """Return a session: its published row, its progress envelope and verdict, and why it waits or ended.

    `serves` tells for the name and the hash of a pack version whether its sessions go on here. A run that this process
    has in memory need not be read.
    """
    # The row is made of the same state: one read later, it could say that the session waits at a gate which `gates` lacks.
    if live is not None and live.is_current:
        state, row = live.state, live.session_row()
    else:
        state = await runtime.state(session)
        row = await progress.session_row(runtime.journal, state)
    envelope = progress.envelope(state, max(now, state.at))
    return {
        "session": row.model_dump(mode="json"),
        "progress": envelope.model_dump(mode="json"),
        "verdict": state.envelope or None,
        "review": state.verdict or None,
        "standing": standing(state),
        "reason": state.reason,
        "code": state.paused_for,
        "gates": list(state.gates),
        "outputs": state.outputs,
        "record": state.record or None,
        "run_id": str(state.start.run),
        "dev": bool(state.start.dev),
        "not_served": None
        if state.is_over or serves is None or serves(state.start.pack, state.start.pack_hash)
        else _not_served(state.start.pack),
    }


def _not_served(pack: str) -> dict[str, str]:
    """Return that an unfinished session does not go on at this service, since its pack version is not served."""
    return {
        "pack": pack,
        "message": f"this service does not serve the version of {pack} that the session is pinned to, so it does not continue it",
        "remedy": MOVE,
    }


def listed_session(row: ListedSession) -> dict[str, Any]:
    """Return a session as a list shows it."""
    return {
        **{each.name: getattr(row, each.name) for each in fields(row)},
        "started_at": row.started_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


def gate_view(gate: PendingGate) -> dict[str, Any]:
    """Return a gate with everything that its approver is shown."""
    return {
        **{each.name: getattr(gate, each.name) for each in fields(gate)},
        "opened_at": gate.opened_at.isoformat(),
        "expires_at": gate.expires_at.isoformat() if gate.expires_at else None,
        "recent": msgspec.to_builtins(gate.recent),
        "leads_to": msgspec.to_builtins(gate.leads_to),
    }


async def find_gate(runtime: Runtime, gate: str, now: int) -> PendingGate:
    """Return an open gate; raises `ServiceError` if it is not open."""
    state = await runtime.state(gate.rpartition(".g")[0])
    found = state.gates.get(storable(gate))
    if found is None:
        raise not_found("open gate", gate)
    recent = await recent_calls(runtime.journal, runtime.tenant, str(state.start.session), found, now)
    return PendingGate.of(state, found, recent)


def stop_view(stop: Stop) -> dict[str, Any]:
    """Return an emergency stop."""
    fields = msgspec.structs.asdict(stop)
    del fields["key"]
    return {**fields, "at": timestamp(stop.at)}


def audit_view(position: int, entry: AuditEntry) -> dict[str, Any]:
    """Return an entry of the audit log."""
    return {**msgspec.structs.asdict(entry), "position": position, "at": timestamp(entry.at)}


async def reveal_result(journal: Journal, tenant: str, result: dict[str, Any], asked: str) -> dict[str, Any]:
    """Return the result of a method with its personal values, each part with those of the session that it shows.

    Only fields that methods write themselves say which session that is; `asked` is the one that the call has named.
    """
    with suppress(TypeError, ValueError):  # what cannot be written is looked through
        if MARK not in orjson.dumps(result, default=str):
            return result
    session = (as_object(result.get("session")) or {}).get("session_id", asked)
    return {name: await _reveal_part(journal, tenant, name, part, session) for name, part in result.items()}


async def _reveal_part(journal: Journal, tenant: str, name: str, part: Any, session: str) -> Any:
    if name == "gate" or (name in ("sessions", "gates") and as_list(part) is not None):
        rows = [await _reveal_row(journal, tenant, row, session) for row in as_list(part) or [part]]
        return rows if as_list(part) is not None else rows[0]
    if name in ("stop", "stops"):
        return await Revealer(journal, tenant, STOP_NOTES).reveal(part)
    if name == "found":  # stored as it is, but for a list of gates
        gates = (as_object(part) or {}).get("gates")
        return (
            part
            if gates is None
            else {**part, "gates": await _reveal_part(journal, tenant, "gates", gates, "")}
        )
    return await Revealer(journal, tenant, session).reveal(part) if session else part


async def _reveal_row(journal: Journal, tenant: str, row: Any, session: str) -> Any:
    """Return a session or a gate of a list; the calls that resemble that at a gate are of other sessions."""
    fields = as_object(row) or {}
    recent = as_list(fields.get("recent")) or ()
    shown = await Revealer(journal, tenant, fields.get("session_id", session)).reveal(row)
    if recent:
        shown["recent"] = [await Revealer(journal, tenant, each["session"]).reveal(each) for each in recent]
    return shown
