"""The environment of AgentDojo that the packs' tools work on: one at a time in a process.

The packs import this module when they are loaded, so it does not import AgentDojo: `tercet check` works without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tercet import NotDone


@dataclasses.dataclass
class Environment:
    """A task environment of AgentDojo, the functions that work on it, and the calls that were made."""

    state: Any
    runtime: Any
    """AgentDojo's `FunctionsRuntime`."""
    calls: list[tuple[str, dict[str, Any]]] = dataclasses.field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )
    """Every call that succeeded, in order."""


_current: list[Environment] = []


@contextmanager
def environment_in_use(environment: Environment) -> Generator[Environment]:
    """Let the tools of the packs work on this environment."""
    _current.append(environment)
    try:
        yield environment
    finally:
        _current.pop()


def call_function(name: str, arguments: dict[str, Any]) -> Any:
    """Call a function of the suite and return its result as JSON values; raises `NotDone` where it raises.

    Arguments that are None are left out: AgentDojo's functions have the same defaults.
    """
    if not _current:
        raise NotDone("no AgentDojo environment is in use", is_retriable=False)
    environment = _current[-1]
    given = {key: value for key, value in arguments.items() if value is not None}
    result, error = environment.runtime.run_function(environment.state, name, given)
    if error is not None:
        # These functions check their arguments before they change anything.
        raise NotDone(str(error), is_retriable=False)
    environment.calls.append((name, given))
    return _as_json(result)


def _as_json(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [_as_json(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
