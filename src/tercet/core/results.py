"""What references can point at: the results of completed steps, and the request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tercet.contracts import references
from tercet.contracts.context import EnteredResult
from tercet.contracts.mode import Trust
from tercet.core.state import State


def entered_results(state: State) -> tuple[EnteredResult, ...]:
    """Return the results that people typed, as the critic takes them."""
    return tuple(
        EnteredResult(step_id=step, by=each.by, trust=Trust.TRUSTED if each.is_trusted else Trust.UNTRUSTED)
        for step, each in state.entered.items()
    )


class Results(Mapping[str, Any]):
    """A view of a run's results by step; nothing is copied, since a run may have a thousand of them."""

    def __init__(self, state: State, request: Mapping[str, Any], blobs: Mapping[str, Any]) -> None:
        self._state = state
        self._request = request
        self._blobs = blobs

    def __getitem__(self, name: str) -> Any:
        if name == references.REQUEST:
            return self._request
        step = self._state.steps[name]
        if step.status != "done":
            raise KeyError(name)
        return self._blobs[step.blob] if step.blob else step.value

    def __contains__(self, name: object) -> bool:
        if name == references.REQUEST:
            return True
        step = self._state.steps.get(name) if isinstance(name, str) else None
        return step is not None and step.status == "done"

    def __iter__(self) -> Iterator[str]:
        return iter(self._state.done)

    def __len__(self) -> int:
        return len(self._state.done)
