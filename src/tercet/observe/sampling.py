"""Which runs are traced: a share of all, chosen by their ids, and every one that somebody will ask about."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from tercet.contracts.errors import UsageError
from tercet.contracts.trace_context import read_traceparent
from tercet.core.state import State

DEFAULT_RATE = 0.05
_SCALE = 2**64


@dataclass(frozen=True)
class Sampling:
    """A share of the runs between 0 and 1, and every failed, gated or escalated one.

    The same run is chosen by every process that asks, also by the one that carries it on.
    """

    rate: float = DEFAULT_RATE

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise UsageError(
                f"{self.rate} is no share of the runs",
                code="wrong_sampling",
                remedy="give a number from 0 (only failed, gated and escalated runs) to 1 (all runs)",
            )

    def picks(self, run: str) -> bool:
        """Whether a run is among the share, whatever becomes of it."""
        number = int.from_bytes(sha256(f"{run}/sample".encode()).digest()[:8], "big")
        return number < self.rate * _SCALE

    def wants(self, state: State) -> bool:
        """Whether a run that came to rest so is traced. A caller who traces its request gets the whole trace."""
        start = state.start
        if state.opened or state.ending or state.status in ("failed", "rejected", "expired", "cancelled"):
            return True
        asked: str = start.traceparent
        return self.picks(start.run) or (bool(asked) and read_traceparent(asked).is_sampled)

    def __str__(self) -> str:
        if self.rate == 1:
            return "every run"
        share = f"1 run in {1 / self.rate:,.4g}, and " if self.rate else ""
        return f"{share}every failed, gated or escalated one"
