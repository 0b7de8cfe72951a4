"""`state.metadata`, the one place where critics write.

It belongs to the run and not to the critic: two runs that share a critic do not share its counts, and a run that is
resumed finds its own again. Its values should be plain (strings, numbers, lists, dicts), as everything that is stored.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any, cast

from tercet.critic.pluggable.errors import CriticStateError


def metadata_of(state: object) -> MutableMapping[str, Any]:
    """The state's metadata for writing; a missing one, or None, becomes an empty dict on the state."""
    found = getattr(state, "metadata", None)
    if found is None:
        found = dict[str, Any]()
        try:
            setattr(state, "metadata", found)  # noqa: B010 - `state` is anybody's type
        except (AttributeError, TypeError, ValueError) as error:
            raise _unfit(state, "takes no metadata") from error
    if not isinstance(found, MutableMapping):
        raise _unfit(state, f"has a {type(found).__name__} for metadata")
    return cast("MutableMapping[str, Any]", found)


def read_metadata(state: object) -> Mapping[str, Any]:
    """The state's metadata for reading; empty where there is none."""
    found = getattr(state, "metadata", None)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def copy_metadata(state: object) -> dict[str, Any]:
    """The metadata as it is now, detached from the state."""
    return detached(dict(read_metadata(state)), of=state)


def detached(value: Any, *, of: object) -> Any:
    """A deep copy; raises CriticStateError where a state holds what cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception as error:  # __deepcopy__ and __reduce__ are anybody's code and raise what they like
        raise CriticStateError(
            f"the state {type(of).__name__} cannot be copied: {error}",
            remedy="keep clients, locks and open files on the agent; a state holds data",
        ) from error


def _unfit(state: object, what: str) -> CriticStateError:
    return CriticStateError(
        f"the state {type(state).__name__} {what}, so critics cannot write to it",
        remedy="give the state an attribute `metadata` that holds a dict",
    )
