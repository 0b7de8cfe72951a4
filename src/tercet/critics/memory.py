"""What of an agent's state the journal keeps: the JSON in it, and the names of what is none."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

from tercet.contracts.plain import not_plain
from tercet.contracts.shape import JsonObject
from tercet.critic.pluggable.metadata import detached, metadata_of, read_metadata


def recordable(found: Mapping[Any, Any], what: str) -> tuple[JsonObject, tuple[str, ...]]:
    """The entries that are plain data, and the others by their names."""
    kept: JsonObject = {}
    left_out: list[str] = []
    for key, value in found.items():
        if not_plain({key: value}) is None:
            kept[key] = detached(value, of=value)
        else:
            left_out.append(f"{what}.{str(key).encode('utf-8', 'replace').decode()}")
    return kept, tuple(left_out)


def record_metadata(state: object) -> tuple[JsonObject, tuple[str, ...]]:
    """What the metadata of a state hold, as far as it can be recorded."""
    return recordable(read_metadata(state), "metadata")


def recall_metadata(state: object, recorded: JsonObject) -> None:
    """Let the metadata of a state be what was recorded."""
    if not recorded and not read_metadata(state):
        return
    metadata = metadata_of(state)
    metadata.clear()
    metadata.update(detached(recorded, of=state))


def changed_fields(before: object, after: object) -> tuple[str, ...]:
    """The attributes of a state that are other than before, as far as that can be seen."""
    if before is after:
        return ()
    old, new = _fields(before), _fields(after)
    return tuple(f"state.{name}" for name in (*new, *(set(old) - set(new))) if not _same(name, old, new))


def mark_stopped(state: object, reason: object) -> None:
    """Tell the state why its run ended, where it lets itself be told."""
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        setattr(state, "stop_reason", reason)  # noqa: B010 - `state` is anybody's type


def _fields(state: object) -> dict[str, Any]:
    if isinstance(state, dict):
        return cast("dict[str, Any]", state)
    if is_dataclass(state):
        return {each.name: getattr(state, each.name, None) for each in fields(state)}
    return getattr(state, "__dict__", {})


def _same(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if name not in old or name not in new:
        return False
    try:
        if bool(old[name] == new[name]):
            return True
        # Objects that do not say when they are equal differ from their own copies: nothing can be seen there.
        return not bool(copy.deepcopy(old[name]) == old[name])
    except Exception:  # noqa: BLE001 - == and copying are anybody's code
        return True
