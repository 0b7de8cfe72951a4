"""What a retry does to the state and the prompt, and `state.metadata`.

    before = copy_state(state)              before decide
    ... decide, act, reduce ...
    reduced = copy_metadata(state)          before the critics are asked
    ... the critics ...
    state = restore(before, reduced, state)
    state, prompt = apply_patches(state, agent_prompt, result)

So decide, act and reduce are undone, what the critics wrote into the metadata stays, and then the patches apply.
The prompt that goes in is the agent's own each time: a patch guides one attempt and does not pile up on the last.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from keyword import iskeyword
from typing import Any, NamedTuple, TypeVar, cast

from tercet.critic.pluggable.errors import CriticStateError, PatchError
from tercet.critic.pluggable.result import CriticResult


def metadata_of(state: object) -> MutableMapping[str, Any]:
    """The state's metadata for writing; a missing one, or None, becomes an empty dict on the state.

    It is the one place where critics write. It belongs to the run and not to the critic: two runs that share a critic do
    not share its counts, and a run that is resumed finds its own again. Its values should be plain, as all that is stored.
    """
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


S = TypeVar("S")


class Patched(NamedTuple):
    """The state and the system prompt of the next attempt."""

    state: Any
    prompt: str


def copy_state(state: S) -> S:
    """The state as it is now, detached from what happens to it next."""
    return cast("S", detached(state, of=state))


def restore(before: S, reduced: Mapping[str, Any], judged: object) -> S:
    """The state before the step, with what the critics wrote into its metadata since `reduced`.

    A metadata key counts as written when its value differs, by ==, from the one the critics met.
    """
    restored = copy_state(before)
    now = read_metadata(judged)
    written = {
        key: value for key, value in now.items() if key not in reduced or not _same(value, reduced[key])
    }
    removed = [key for key in reduced if key not in now]
    if written or removed:
        metadata = metadata_of(restored)
        metadata.update(detached(written, of=judged))
        for key in removed:
            metadata.pop(key, None)
    return restored


def apply_patches(state: Any, prompt: str, result: CriticResult) -> Patched:
    """The patched copy of the state, and the patched prompt; unless the action is retry, both as they came.

    A modified_prompt takes the prompt's place, and an instruction_patch is then appended to whichever it is.
    """
    if result.action != "retry":
        return Patched(state, prompt)
    return Patched(_patch_state(state, result.state_patch or {}), _patch_prompt(prompt, result))


def _patch_prompt(prompt: str, result: CriticResult) -> str:
    base = prompt if result.modified_prompt is None else result.modified_prompt
    return "\n\n".join(part for part in (base, result.instruction_patch) if part)


def _patch_state(state: Any, patch: Mapping[str, Any]) -> Any:
    for key in cast("Mapping[Any, Any]", patch):
        _check_name(key)
    patched = copy.copy(state) if patch else state
    for key, value in patch.items():
        _set(patched, key, _merged_metadata(state, value) if key == "metadata" else value)
    return patched


def _check_name(key: object) -> None:
    if not (isinstance(key, str) and key.isidentifier() and not iskeyword(key)):
        raise PatchError(f"state_patch has the key {key!r}, which is no name of an attribute")
    if key.startswith("__"):
        raise PatchError(
            f"state_patch has the key {key!r}", remedy="names with two underscores belong to Python"
        )


def _merged_metadata(state: object, value: object) -> dict[str, Any]:
    # Replacing it would wipe out what critics count, and a retry that forgets its count never ends.
    if not isinstance(value, Mapping):
        raise PatchError(
            f"state_patch has {value!r} for metadata", remedy="give a dict; it is merged key by key"
        )
    return {**read_metadata(state), **cast("Mapping[str, Any]", value)}


def _set(state: object, key: str, value: object) -> None:
    try:
        setattr(state, key, value)
    except (AttributeError, TypeError, ValueError) as error:
        raise PatchError(
            f"state_patch cannot set {key!r} on {type(state).__name__}: {error}",
            remedy="patch attributes that the state lets one assign",
        ) from error


def _same(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - == is anybody's code; what cannot be compared counts as written
        return False
