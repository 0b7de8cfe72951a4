"""Tests that are coroutines, tried on small suites of their own."""

from __future__ import annotations

import pytest

SUITE = """
import asyncio
import pytest

@pytest.fixture
def number():
    return 3

async def test_passes(number):
    await asyncio.sleep(0)
    assert number == 3

async def test_fails(number):
    await asyncio.sleep(0)
    assert number == 4

@pytest.mark.parametrize("limit", [2, 3])
async def test_takes_parameters(number, limit):
    assert number == limit

class Workshop:
    def run(self, test):
        with asyncio.Runner() as runner:
            runner.get_loop().is_virtual = True
            runner.run(test)

@pytest.fixture
def workshop():
    return Workshop()

async def test_runs_in_virtual_time(workshop):
    assert asyncio.get_running_loop().is_virtual

async def test_fails_in_virtual_time(workshop):
    assert not asyncio.get_running_loop().is_virtual

class TestMethods:
    async def test_fails(self, number):
        assert number == 4

def test_forgets_to_await():
    async def story():
        raise AssertionError

    story()

def test_returns_a_coroutine():
    async def story():
        raise AssertionError

    return story()
"""


PROPERTY = """
from hypothesis import given, strategies as st

@given(st.integers())
async def test_property(number):
    assert False
"""

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def with_plugins(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Make the plugins of this repository known to the inner runs."""
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath / "tests"))


def run(pytester: pytest.Pytester, suite: str, *args: str) -> pytest.RunResult:
    """Run a suite with this repository's rule that warnings are errors, in a process that may leak coroutines."""
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    pytester.makepyfile(suite)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *args)


def test_coroutines_are_awaited(pytester: pytest.Pytester) -> None:
    """A coroutine that fails fails its test, and so does one that is never awaited."""
    result = run(pytester, SUITE, "-p", "plugins.coroutines", "-rA")
    result.assert_outcomes(passed=3, failed=6)
    result.stdout.fnmatch_lines_random(
        ["PASSED *::test_passes", "PASSED *::test_takes_parameters?3?", "*'test_forgets*' was never awaited*"]
    )


def test_without_the_plugin_no_coroutine_passes(pytester: pytest.Pytester) -> None:
    """Were the plugin not loaded, pytest itself would fail every coroutine."""
    run(pytester, SUITE, "-k", "test_passes or takes_parameters").assert_outcomes(failed=3, deselected=6)


def test_a_property_is_never_a_coroutine(pytester: pytest.Pytester) -> None:
    """Hypothesis does not await what it calls, and refuses a coroutine function."""
    run(pytester, PROPERTY, "-p", "plugins.coroutines").assert_outcomes(failed=1)
