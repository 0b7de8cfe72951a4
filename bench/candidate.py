"""What every candidate of the benchmark offers: something that makes one run of twelve durable steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

Run: TypeAlias = Callable[[], Awaitable[None]]
"""Makes one run and returns when it is over and durable."""
Facts: TypeAlias = dict[str, Any]
"""What was read back from a store: its settings, and how many rows its tables have."""
