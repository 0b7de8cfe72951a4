"""Reading recorded plans."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from tercet.contracts.plan import Plan


def read_plan(fields: dict[str, Any]) -> Plan:
    """The plan that recorded fields say; raises what `Plan.model_validate` raises.

    The same words give the same object, since plans are frozen: folding, following and judging one run read its plan
    several times over, and many runs carry out the same plan.
    """
    return _read(msgspec.json.encode(fields))


@lru_cache(maxsize=64)
def _read(data: bytes) -> Plan:
    return Plan.model_validate(msgspec.json.decode(data))
