"""The built-in critics.

The reflecting ones count their retries in `state.metadata`, each under its own key. The count is of consecutive
retries: a step without errors resets it to zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tercet.critic.pluggable.critic import Critic, ToolResults, critic
from tercet.critic.pluggable.errors import CriticError, CriticStateError
from tercet.critic.pluggable.patches import metadata_of, read_metadata
from tercet.critic.pluggable.result import CriticResult

RETRIES_KEY = "self_reflection_retries"
REACT_RETRIES_KEY = "react_self_reflection_retries"
REFLECTIONS_KEY = "reflections"
"""The metadata key of the notes for the next decide."""

MAX_REFLECTIONS = 20
"""How many of the latest notes are kept, so that the state of a long run stays small."""

DEFAULT_MAX_RETRIES = 2


class PassThroughCritic(Critic):
    """Passes every step; the default critic."""

    pure = True

    def evaluate(self, state: Any, decision: Any, results: ToolResults) -> CriticResult:  # noqa: ARG002 - a critic's signature
        """Continue with a full score."""
        return CriticResult("continue", "pass", 1.0)


@dataclass(frozen=True)
class SelfReflectionCritic(Critic):
    """Retries a step with a failed tool, up to `max_retries` times in a row, then stops."""

    max_retries: int = DEFAULT_MAX_RETRIES
    pure = True

    def __post_init__(self) -> None:
        _check_retries(self.max_retries)

    def evaluate(self, state: Any, decision: Any, results: ToolResults) -> CriticResult:  # noqa: ARG002 - a critic's signature
        """Retry, stop or continue by the errors among the results."""
        return _reflect(state, _errors_in(results), key=RETRIES_KEY, max_retries=self.max_retries)


@dataclass(frozen=True)
class ReActSelfReflectionCritic(SelfReflectionCritic):
    """Like `SelfReflectionCritic`, and leaves a note on each failed action for the next decide."""

    pure = True

    def evaluate(self, state: Any, decision: Any, results: ToolResults) -> CriticResult:
        """Retry, stop or continue, with a note for each error."""
        errors = _errors_in(results)
        result = _reflect(state, errors, key=REACT_RETRIES_KEY, max_retries=self.max_retries)
        if errors:
            _note(state, decision, errors, attempt=result.details["attempt"])
        return result


@critic(pure=True)
def pass_through_critic(state: Any, decision: Any, results: ToolResults) -> CriticResult:
    """Pass every step."""
    return PassThroughCritic().evaluate(state, decision, results)


@critic(pure=True)
def self_reflection_critic(state: Any, decision: Any, results: ToolResults) -> CriticResult:
    """Retry a step with a failed tool, at most twice, then stop."""
    return SelfReflectionCritic().evaluate(state, decision, results)


@critic(pure=True)
def react_self_reflection_critic(state: Any, decision: Any, results: ToolResults) -> CriticResult:
    """Retry like `self_reflection_critic`, with a note for each failed action."""
    return ReActSelfReflectionCritic().evaluate(state, decision, results)


def _check_retries(limit: object) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise CriticError(f"max_retries is {limit!r}", remedy="give a whole number, 0 or more")


def _errors_in(results: ToolResults) -> dict[int, str]:
    found: dict[int, str] = {}
    for place, result in enumerate(results):
        match result:
            case {"error": error} if error:
                found[place] = str(error)
            case _:
                pass
    return found


def _reflect(state: object, errors: Mapping[int, str], *, key: str, max_retries: int) -> CriticResult:
    retries = _count(state, key)
    if not errors:
        if retries:
            metadata_of(state)[key] = 0
        return CriticResult("continue", "no tool errors", 1.0)
    seen = "; ".join(errors.values())
    details = {"errors": list(errors.values()), "attempt": retries + 1}
    if retries >= max_retries:
        return CriticResult("stop", f"tool errors, and no retry left of {max_retries}: {seen}", 0.0, details)
    metadata_of(state)[key] = retries + 1
    return CriticResult("retry", f"tool errors, retry {retries + 1} of {max_retries}: {seen}", 0.2, details)


def _count(state: object, key: str) -> int:
    count = read_metadata(state).get(key, 0)
    if not isinstance(count, int) or count < 0:
        raise CriticStateError(
            f"state.metadata[{key!r}] is {count!r}, not a count", remedy="leave this key alone"
        )
    return count


def _note(state: object, decision: object, errors: Mapping[int, str], *, attempt: int) -> None:
    metadata = metadata_of(state)
    notes: list[object] = metadata.get(REFLECTIONS_KEY) or []
    added = [
        {"action": _action_at(decision, place), "error": error, "attempt": attempt}
        for place, error in errors.items()
    ]
    metadata[REFLECTIONS_KEY] = [*notes, *added][-MAX_REFLECTIONS:]


def _action_at(decision: object, place: int) -> str:
    # The shape of a decision is up to the agent: one tool, a list of actions, objects or dicts.
    actions = _read_field(decision, "actions")
    if isinstance(actions, Sequence) and not isinstance(actions, str):
        listed = cast("Sequence[object]", actions)
        return _name(listed[place] if place < len(listed) else decision)
    return _name(decision)


def _name(thing: object) -> str:
    if isinstance(thing, str):
        return thing
    named = (_read_field(thing, key) for key in ("tool", "tool_name", "name", "action", "mode"))
    return next((name for name in named if isinstance(name, str) and name), "unknown action")


def _read_field(thing: object, key: str) -> Any:
    if isinstance(thing, Mapping):
        return cast("Mapping[str, Any]", thing).get(key)
    return getattr(thing, key, None)
