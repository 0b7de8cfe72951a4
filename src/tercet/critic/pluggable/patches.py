"""How a retry changes the state, the prompt, and `state.metadata`.

    before = copy_state(state)              before decide
    ... decide, act, reduce ...
    reduced = copy_metadata(state)          before the critics are asked
    ... the critics ...
    state = restore(before, reduced, state)
    state, prompt = apply_patches(state, agent_prompt, result)

So decide, act and reduce are undone, the metadata written by critics is kept, and then the patches apply.
Each time the patch starts from the agent's own prompt: it guides one attempt and does not accumulate.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from keyword import iskeyword
from typing import Any, NamedTuple, TypeVar, cast

from tercet.critic.pluggable.errors import CriticStateError, PatchError
from tercet.critic.pluggable.result import CriticResult


def metadata_of(state: object) -> MutableMapping[str, Any]:
    """Return the state's metadata for writing; a missing one, or None, becomes an empty dict on the state.

    It is the only place where critics write. It belongs to the run, not to the critic: two runs that share a critic do
    not share its counts, and a resumed run finds its own. Its values should be plain data, like everything stored.
    """
    found = getattr(state, "metadata", None)
    if found is None:
        found = dict[str, Any]()
        try:
            setattr(state, "metadata", found)  # noqa: B010 - `state` may have any type
        except (AttributeError, TypeError, ValueError) as error:
            raise _unfit(state, "takes no metadata") from error
    if not isinstance(found, MutableMapping):
        raise _unfit(state, f"has a {type(found).__name__} for metadata")
    return cast("MutableMapping[str, Any]", found)


def read_metadata(state: object) -> Mapping[str, Any]:
    """Return the state's metadata for reading; empty if there is none."""
    found = getattr(state, "metadata", None)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def copy_metadata(state: object) -> dict[str, Any]:
    """Return a copy of the current metadata."""
    return detached(dict(read_metadata(state)), of=state)


def detached(value: Any, *, of: object) -> Any:
    """Return a deep copy; raise CriticStateError if the state cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception as error:  # __deepcopy__ and __reduce__ are user code and may raise anything
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
    """Return a copy of the current state."""
    return cast("S", detached(state, of=state))


def restore(before: S, reduced: Mapping[str, Any], judged: object) -> S:
    """Return the state before the step, with what the critics have written into its metadata since `reduced`.

    A metadata key counts as written if its value differs, by ==, from the one the critics received.
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
    """Return the patched copies of state and prompt; for any action but retry, both unchanged.

    A modified_prompt replaces the prompt; an instruction_patch is then appended.
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
        raise PatchError(f"state_patch has the key {key!r}, which is not an attribute name")
    if key.startswith("__"):
        raise PatchError(
            f"state_patch has the key {key!r}", remedy="names with two underscores belong to Python"
        )


def _merged_metadata(state: object, value: object) -> dict[str, Any]:
    # Replacing it would reset the critics' counters, and retries would never end.
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
    except Exception:  # noqa: BLE001 - == is user code; values that cannot be compared count as written
        return False
