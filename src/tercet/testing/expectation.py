"""Shared helpers of the conformance suites: opening a store, and expectations with informative failures, without a test
runner.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, Protocol, TypeVar


class Store(Protocol):
    """An object that can be closed."""

    async def close(self) -> None:
        """Close it."""


E = TypeVar("E", bound=Exception)
S = TypeVar("S", bound=Store)


@dataclass(frozen=True, kw_only=True)
class StoreBackend(Generic[S]):
    """How to open a store. A durable backend opens the same one every time; in memory, a new one."""

    open: Callable[[], Awaitable[S]]

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[S]:
        """Yield an open store, closed at the end."""
        store = await self.open()
        try:
            yield store
        finally:
            await store.close()


def new_tenant() -> str:
    """Return a tenant that no other case uses, so that cases may share a store."""
    return f"tenant-{secrets.token_hex(8)}"


def with_new_tenant(
    *cases: Callable[[S, str], Coroutine[Any, Any, None]],
) -> tuple[Callable[[StoreBackend[S]], Coroutine[Any, Any, None]], ...]:
    """Return cases of a backend from functions of an open store and a tenant."""

    def of_backend(
        case: Callable[[S, str], Coroutine[Any, Any, None]],
    ) -> Callable[[StoreBackend[S]], Coroutine[Any, Any, None]]:
        @wraps(case)
        async def run(backend: StoreBackend[S]) -> None:
            async with backend.opened() as store:
                await case(store, new_tenant())

        return run

    return tuple(map(of_backend, cases))


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
