"""How Hypothesis runs here: with fixed examples, the same on every machine, and on request with random ones.

Whether a finished change passes must not depend on the luck of the draw, so `make test` tries the same examples for
everyone. `--random-examples SECONDS` runs the property tests alone, in random order and with random examples, and starts
no further test once the time is over. A counterexample that it finds becomes a test.

There is no deadline, and slowness is no health problem: machines are busy now and then.
"""

from __future__ import annotations

import os
import random
import time

import pytest
from hypothesis import HealthCheck, settings

OPTION = "--random-examples"

settings.register_profile(
    "fixed", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
# Hypothesis itself fixes the examples where it sees CI, unless it is told not to.
settings.register_profile(
    "random",
    deadline=None,
    derandomize=False,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fixed")


class RandomExamples:
    """The property tests alone, in random order, for a limited time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = float("inf")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out every test without a property, shuffle the others alike in each worker, and let the time begin."""
        others = [item for item in items if item.get_closest_marker("hypothesis") is None]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.get_closest_marker("hypothesis") is not None]
        random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID")).shuffle(items)  # noqa: S311 - no secret
        self._end = time.monotonic() + self._seconds

    def pytest_runtest_setup(self) -> None:
        """Skip what is left when the time is over."""
        if time.monotonic() > self._end:
            pytest.skip(f"the time of {OPTION} is over")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("properties").addoption(
        OPTION,
        type=float,
        metavar="SECONDS",
        help="run property tests alone, with random examples, this long",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Go over to random examples where they are asked for."""
    seconds: float | None = config.getoption("random_examples")
    if seconds is not None:
        settings.load_profile("random")
        config.pluginmanager.register(RandomExamples(seconds), "random-examples")
