"""Plans as events record them, and back."""

from __future__ import annotations

import msgspec

from tercet.contracts.plan import Plan
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.cache import BoundedCache

_MOST = 128
"""How many plans are kept: a process works on few at a time, and reads each several times."""
_by_bytes: BoundedCache[bytes, Plan] = BoundedCache(_MOST)
_by_dict: BoundedCache[int, tuple[JsonObject, Plan]] = BoundedCache(_MOST)
"""By the `id` of the dict that a plan was dumped as, with that dict."""


def read_plan(fields: JsonObject) -> Plan:
    """The plan that recorded fields say; raises what `Plan.model_validate` raises.

    The same words give the same object, since plans are frozen: folding, following and judging one run read its plan
    several times over, and many runs carry out the same plan.
    """
    known = _by_dict.get(id(fields))
    if known is not None and known[0] is fields:
        return known[1]
    data = msgspec.json.encode(fields)
    # Read from the bytes: nobody else holds these dicts, so nobody can change the plan.
    return _by_bytes.get(data) or _by_bytes.keep(data, Plan.model_validate(msgspec.json.decode(data)))


def dump_plan(plan: Plan) -> JsonObject:
    """Return a plan as events record it: what it says now, whatever its owner makes of it later."""
    fields = plan.model_dump(mode="json", exclude_defaults=True)
    own = read_plan(fields)
    if "hash" not in vars(own):
        vars(own)["hash"] = Plan.hash_dumped(fields)  # which would dump it again
    _by_dict.keep(id(fields), (fields, own))
    return fields
