"""The circuit breaker of a tool, shared by all runs of a tenant and stored in a stream of its own.

CLOSED opens after `threshold` failures in a row; OPEN lets calls through again after `cooldown_ms` (HALF_OPEN), and the
first of them that ends closes or opens it. Every failure counts. The state that a run saw is written into its INTENT; replay reads that.
A success while nothing is wrong writes nothing, so that a healthy tool costs no append.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.runs.invocation import CircuitState
from tercet.core.answers import Done, Ended, Unknown
from tercet.core.fold.base import LANE_WAITING, NOT_MADE
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import append_at, demand_owner, encode_entry

_CLOSED = CircuitState.CLOSED
FRESH_MS = 1_000
"""How long a circuit that was read counts as fresh."""


@dataclass(frozen=True, kw_only=True)
class CircuitBreaker:
    """The settings of circuit breakers: when a failing tool is no longer called, and for how long."""

    threshold: int = 5
    """How many failures in a row open the circuit."""
    cooldown_ms: int = 30_000
    """How long it stays open, until one call is let through to try."""

    def __post_init__(self) -> None:
        for name, limit in (("threshold", self.threshold), ("cooldown_ms", self.cooldown_ms)):
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:  # pyright: ignore[reportUnnecessaryIsInstance] - the caller may give anything
                raise UsageError(
                    f"invalid {name} of a circuit breaker: {limit!r}",
                    code="breaker_invalid",
                    remedy="give a whole number, 1 or more",
                )


class Circuit(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a tool's circuit."""

    failures: int = 0
    opened_at: int = 0
    at: int = 0

    def state(self, now: int, cooldown_ms: int) -> CircuitState:
        """Return the breaker's state at a time."""
        if not self.opened_at:
            return _CLOSED
        # Another process wrote that time: where its clock was ahead of this one, the circuit is not open for longer.
        return CircuitState.OPEN if abs(now - self.opened_at) < cooldown_ms else CircuitState.HALF_OPEN

    def failed(self, now: int, threshold: int) -> Circuit:
        """Return the circuit after one more failure."""
        failures = self.failures + 1
        is_open = failures >= threshold or bool(self.opened_at)
        return Circuit(failures=failures, opened_at=now if is_open else 0, at=now)

    def succeeded(self, now: int) -> Circuit:
        """Return the circuit after a success: closed, without failures."""
        return Circuit(at=now)


_UNKNOWN = (0, Circuit())
"""The position and the circuit of a tool of which nothing was recorded."""


class Breakers:
    """The breakers of one tenant, kept in its journal."""

    def __init__(self, journal: Journal, tenant: str, settings: CircuitBreaker) -> None:
        self._journal = journal
        self._settings = settings
        self._tenant = tenant
        self._known: dict[str, tuple[int, Circuit]] = {}
        self._looked: dict[str, int] = {}

    async def look(self, tool: str) -> Circuit:
        """Read the circuit of a tool from the journal."""
        return (await self._read(tool))[1]

    async def refresh(self, tool: str, now: int) -> None:
        """Read the circuit of a tool again if the known one is not fresh."""
        if abs(now - self._looked.get(tool, -FRESH_MS)) >= FRESH_MS:
            self._looked[tool] = now
            await self._read(tool)

    def state(self, tool: str, now: int) -> CircuitState:
        """Return the state of a tool's breaker, as far as this process knows."""
        return self.glance(tool).state(now, self._settings.cooldown_ms)

    def glance(self, tool: str) -> Circuit:
        """Return the circuit of a tool as this process last read or wrote it."""
        return self._known.get(tool, _UNKNOWN)[1]

    def is_affected(self, tool: str, ended: Ended) -> bool:
        """Return whether the end of a call has to be counted: one that was not made, or goes on, says nothing, nor does one
        more success."""
        if isinstance(ended, Done):
            return bool(self.glance(tool).failures)
        if ended.code == LANE_WAITING:
            return False
        return isinstance(ended, Unknown) or ended.code not in NOT_MADE

    async def record(self, tool: str, *, is_success: bool, now: int) -> None:
        """Count the end of a call; another process that counts at the same moment is waited for."""
        if is_success and not self.glance(tool).failures:
            return
        while True:
            position, circuit = await self._read(tool)
            if is_success and not circuit.failures:
                return
            moved = circuit.succeeded(now) if is_success else circuit.failed(now, self._settings.threshold)
            data = encode_entry(moved, self._tenant, _stream(tool))
            if await append_at(self._journal, self._tenant, _stream(tool), position, data) is not None:
                self._known[tool] = (position + 1, moved)
                return

    async def _read(self, tool: str) -> tuple[int, Circuit]:
        position, circuit = self._known.get(tool, _UNKNOWN)
        head = await self._journal.head(self._tenant, _stream(tool))
        if head.seq > position:
            newest = await self._journal.read(self._tenant, _stream(tool), after=head.seq - 1, limit=1)
            demand_owner(self._tenant, _stream(tool), newest)
            position, circuit = newest[-1].seq, msgspec.json.decode(newest[-1].data, type=Circuit)
            self._known[tool] = (position, circuit)
        return position, circuit


def _stream(tool: str) -> str:
    return f"breaker:{tool}"
