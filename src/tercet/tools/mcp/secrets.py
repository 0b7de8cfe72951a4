"""Values of the environment that a server is given, and that must not come back: not in a result, not in an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tercet.contracts.errors import NotSent
from tercet.contracts.shape import as_list, as_object
from tercet.tools.secrets import MIN_LENGTH, Redaction

LEAST = 4
"""A shorter value is no secret, and hiding it would make holes into ordinary words."""
HIDDEN = "[hidden]"


class Secrets:
    """The values of some environment variables, and a text without them."""

    def __init__(self, names: Sequence[str], environment: Mapping[str, str]) -> None:
        """Raises `NotSent` if a variable is not set: nothing was called."""
        missing = [name for name in names if not environment.get(name)]
        if missing:
            raise NotSent(
                f"the environment variable {missing[0]} is not set",
                code="mcp_environment",
                remedy=f"set {', '.join(missing)} for the process that runs Tercet",
                is_retriable=False,
            )
        self.values = {name: environment[name] for name in names}
        found = self.values.values()
        self._redaction = Redaction((value for value in found if len(value) >= MIN_LENGTH), mark=HIDDEN)
        # The longest first: one value may be a part of another.
        self._short = sorted((value for value in found if LEAST <= len(value) < MIN_LENGTH), key=len)[::-1]

    def hide(self, text: str) -> str:
        """The text without the values."""
        text = self._redaction.text(text)
        for value in self._short:
            text = text.replace(value, HIDDEN)
        return text

    def hide_in(self, value: Any) -> Any:
        """A JSON value without them, wherever they stand in it."""
        if isinstance(value, str):
            return self.hide(value)
        if (members := as_object(value)) is not None:
            return {self.hide(key): self.hide_in(member) for key, member in members.items()}
        if (items := as_list(value)) is not None:
            return [self.hide_in(item) for item in items]
        return self._redaction.value(value)
