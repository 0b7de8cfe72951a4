"""What every journal that can only be read has in common."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from tercet.contracts.errors import UsageError
from tercet.journal.protocol import ClaimHolder, Lease, Reminder, SessionRow, StatusCount


class ReadOnlyJournal:
    """The base of journals that are only read: writing raises `UsageError`, and there is no work for processes in them."""

    is_keyless = True
    """The keys of personal values are elsewhere, so these are shown as sealed."""
    read_only: ClassVar[str]
    """The message of the error that answers an attempt to write."""
    read_only_remedy: ClassVar[str]

    async def change_count(self, tenant: str) -> int:
        """Return 0: changes are not counted here."""
        del tenant
        return 0

    async def claim(self, tenant: str, key: str) -> ClaimHolder | None:
        """Return None: claims are for writers."""
        del tenant, key
        return None

    async def claims(self, tenant: str, prefix: str, *, limit: int = 100) -> list[tuple[str, ClaimHolder]]:
        """Return nothing: claims are for writers."""
        del tenant, prefix, limit
        return []

    async def lease(self, tenant: str, stream: str) -> Lease | None:
        """Return None: there is no writer."""
        del tenant, stream
        return None

    async def due(self, tenant: str, *, now_ms: int, limit: int = 100) -> list[SessionRow]:
        """Return nothing: there are no sessions to look after."""
        del tenant, now_ms, limit
        return []

    async def resumable(
        self, *, now_ms: int, limit: int = 100, after: SessionRow | None = None
    ) -> list[SessionRow]:
        """Return nothing: there are no sessions to carry on."""
        del now_ms, limit, after
        return []

    async def unfinished(
        self, pack: str, *, pack_hash: str = "", statuses: tuple[str, ...], limit: int = 20
    ) -> list[StatusCount]:
        """Return nothing: no worker is needed here."""
        del pack, pack_hash, statuses, limit
        return []

    async def reminders(self, *, now_ms: int, tenant: str | None = None, limit: int = 100) -> list[Reminder]:
        """Return nothing: no process is reminded of anything."""
        del now_ms, tenant, limit
        return []

    async def ended(
        self, tenant: str, *, before_ms: int, statuses: tuple[str, ...], limit: int = 100
    ) -> list[SessionRow]:
        """Return nothing: nothing is cleared up here."""
        del tenant, before_ms, statuses, limit
        return []

    async def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raise `UsageError`: nothing is written here."""
        raise UsageError(self.read_only, code="read_only", remedy=self.read_only_remedy)

    append = acquire = renew = release = forget = _refuse
