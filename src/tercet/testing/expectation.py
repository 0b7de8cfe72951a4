"""What a conformance case expects, stated so that a failure says what was found. Works without a test runner."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

E = TypeVar("E", bound=Exception)


class ConformanceError(AssertionError):
    """A backend does not behave as its interface promises."""


def expect(what: str, actual: object, expected: object) -> None:
    """Fail unless two values are equal."""
    if actual != expected:
        raise ConformanceError(f"{what}: expected {expected!r}, found {actual!r}")


async def expect_refusal(kind: type[E], call: Awaitable[Any]) -> E:
    """Fail unless awaiting raises exactly this kind of error, which is returned."""
    try:
        result = await call
    except Exception as error:
        if type(error) is kind:
            return error
        raise ConformanceError(f"expected {kind.__name__}, found {type(error).__name__}: {error}") from error
    raise ConformanceError(f"expected {kind.__name__}, but the call returned {result!r}")
