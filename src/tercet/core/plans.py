"""Conversion of plans to their recorded form and back."""

from __future__ import annotations

import msgspec

from tercet.contracts.plan import Plan
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.cache import BoundedCache

_MOST = 128
"""The size of the caches: a process works on few plans at a time, and reads each several times."""
_by_bytes: BoundedCache[bytes, Plan] = BoundedCache(_MOST)
_by_dict: BoundedCache[int, tuple[JsonObject, Plan]] = BoundedCache(_MOST)
"""By the `id` of the dict that a plan was dumped as, with that dict."""


def read_plan(fields: JsonObject) -> Plan:
    """Return the plan with recorded fields; raises what `Plan.model_validate` raises.

    Equal fields give the same object, since plans are frozen: one run reads its plan several times, and many runs
    execute the same plan.
    """
    known = _by_dict.get(id(fields))
    if known is not None and known[0] is fields:
        return known[1]
    data = msgspec.json.encode(fields)
    # Decoded from the bytes, so that no one else holds these dicts and can change the plan.
    return _by_bytes.get(data) or _by_bytes.keep(data, Plan.model_validate(msgspec.json.decode(data)))


def dump_plan(plan: Plan) -> JsonObject:
    """Return a plan in its recorded form; later changes by its owner have no effect."""
    fields = plan.model_dump(mode="json", exclude_defaults=True)
    own = read_plan(fields)
    if "hash" not in vars(own):
        vars(own)["hash"] = Plan.hash_dumped(fields)  # which would dump it again
    _by_dict.keep(id(fields), (fields, own))
    return fields
