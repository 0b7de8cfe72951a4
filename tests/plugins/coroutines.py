"""Runs `async def` tests, each in an event loop of its own. Without it pytest fails such tests.

A test with the fixture `workshop` runs in the virtual time of its clock. Any other fails after five minutes, so that one that
waits for something which never happens does not keep the whole run.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any

import pytest

LIMIT_S = 300


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function to its end; leave other tests to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    run = getattr(pyfuncitem.funcargs.get("workshop"), "run", _run)
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def _run(test: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await test

    asyncio.run(limited())
