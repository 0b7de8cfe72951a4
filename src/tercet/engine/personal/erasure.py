"""Erasing a subject: its key is destroyed, and with it every value that was sealed under the key."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from tercet.contracts.errors import UsageError
from tercet.core.state import TERMINAL
from tercet.engine.personal.keys import STOP_NOTES, SubjectKey, find_key
from tercet.engine.streams.audit import AuditEntry, write_audit
from tercet.journal.protocol import Journal

_LEASE_MS = 60_000


@runtime_checkable
class Purging(Protocol):
    """A journal that can overwrite what removed rows have left in its files."""

    async def purge(self) -> None:
        """Overwrite the bytes of removed rows, as far as the store can."""
        ...


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """The keys and values that the erasure of a subject destroys, or has destroyed."""

    key_id: str
    """The id of the key: tokens carry it, so it identifies the erased values, but not the person."""
    sessions: tuple[str, ...]
    """The sessions whose request named the subject, as far as they are stored."""
    in_progress: tuple[str, ...] = ()
    """Those that are not over."""


async def plan_erasure(journal: Journal, tenant: str, subject: str) -> Erasure:
    """Return what erasing a subject would destroy. Raises `UsageError` if there is nothing."""
    return await _describe(journal, tenant, await _demand_key(journal, tenant, subject))


async def erase(
    journal: Journal, tenant: str, subject: str, *, owner: str, now_ms: int, is_forced: bool = False
) -> Erasure:
    """Destroy the key of a subject. Raises `UsageError` while one of its sessions is not over, unless it is forced."""
    key = await _demand_key(journal, tenant, subject)
    found = await _describe(journal, tenant, key)
    if found.in_progress and not is_forced:
        raise UsageError(
            f"{len(found.in_progress)} of the subject's sessions are not over: {', '.join(found.in_progress[:5])}",
            code="subject_in_progress",
            remedy="end them first, or erase with --force: calls that need an erased value are then refused",
        )
    notes = await find_key(journal, tenant, STOP_NOTES)  # they may name anyone
    for destroyed in (key,) if notes is None else (key, notes):
        lease = await journal.acquire(tenant, destroyed.stream, owner=owner, now_ms=now_ms, ttl_ms=_LEASE_MS)
        await journal.forget(lease)
    if isinstance(journal, Purging):
        await journal.purge()
    return found


async def erase_and_log(
    journal: Journal, tenant: str, subject: str, *, by: str, now_ms: int, is_forced: bool = False
) -> Erasure:
    """Destroy the key of a subject as `erase` does, and record it in the audit log, without the subject's name."""
    done = await erase(journal, tenant, subject, owner=by, now_ms=now_ms, is_forced=is_forced)
    entry = AuditEntry(
        at=now_ms, actor=by, auth="local", credential="", method="eraseSubject", subject=done.key_id
    )
    await write_audit(journal, tenant, entry)
    return done


async def _demand_key(journal: Journal, tenant: str, subject: str) -> SubjectKey:
    key = await find_key(journal, tenant, subject) if subject else None
    if key is None:
        raise UsageError(
            f"tenant {tenant} has no personal values of this subject",
            code="unknown_subject",
            remedy="check the subject and the tenant; values that were erased before cannot be erased again",
        )
    return key


async def _describe(journal: Journal, tenant: str, key: SubjectKey) -> Erasure:
    rows = [(session, await journal.session(tenant, session)) for session in key.sessions]
    return Erasure(
        key_id=key.id,
        sessions=tuple(session for session, row in rows if row is not None),
        in_progress=tuple(session for session, row in rows if row is not None and row.status not in TERMINAL),
    )
