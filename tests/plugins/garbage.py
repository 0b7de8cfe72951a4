"""Keep the garbage collector away from the collected tests: there are hundreds of thousands of objects, and none is garbage.

Without this, half of the time of collecting goes to looking for garbage. Later rounds are rare for the same reason: with the
usual thresholds they take a tenth of the time of the tests.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

THRESHOLDS = (20_000, 10, 10)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Pause it while tests are collected, and leave what there is then out of every later round."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
        if was_enabled:
            gc.enable()
