"""Fixed and random examples, tried on small suites of their own."""

from __future__ import annotations

import pytest

SUITE = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_number(number):
    with open("drawn", "a") as file:
        file.write(f"{number}\\n")

@given(st.integers(0, 10_000))
def test_false(number):
    assert number < 3

def test_without_property():
    pass
"""

PLUGINS = ("-p", "plugins.properties", "-p", "no:cacheprovider", "-p", "no:schemathesis")


def run(pytester: pytest.Pytester, *args: str) -> tuple[pytest.RunResult, str]:
    """Run the suite in a fresh process; the result, and the numbers that were drawn."""
    pytester.makepyfile(SUITE)
    drawn = pytester.path / "drawn"
    drawn.unlink(missing_ok=True)
    result = pytester.runpytest_subprocess(*PLUGINS, *args)
    return result, drawn.read_text(encoding="utf-8") if drawn.exists() else ""


@pytest.fixture(autouse=True)
def with_plugins(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Make the plugins of this repository known to the inner runs, outside of any other run of pytest-xdist."""
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath / "tests"))
    monkeypatch.delenv("PYTEST_XDIST_TESTRUNUID", raising=False)


@pytest.mark.slow
def test_every_run_tries_the_same_examples(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a finished change passes does not depend on the draw, on CI or elsewhere."""
    _, here = run(pytester, "-k", "number")
    monkeypatch.setenv("CI", "true")
    _, on_ci = run(pytester, "-k", "number")
    assert len(here.split()) > 50
    assert here == on_ci


@pytest.mark.slow
@pytest.mark.parametrize("on_ci", [False, True])
def test_random_examples_differ_and_counterexamples_are_reported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, on_ci: bool
) -> None:
    """Only property tests run, and a failing example is printed with what repeats it, on CI and elsewhere."""
    if on_ci:
        monkeypatch.setenv("CI", "true")
    else:
        monkeypatch.delenv("CI", raising=False)
    result, first = run(pytester, "--random-examples", "600")
    result.assert_outcomes(passed=1, failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*test_false(*", "*number=3,*", "*@reproduce_failure(*"])
    _, second = run(pytester, "--random-examples", "600")
    assert first != second


@pytest.mark.slow
def test_no_test_starts_when_the_time_for_random_examples_is_over(pytester: pytest.Pytester) -> None:
    """What was not tried is counted as skipped, with the reason."""
    result, drawn = run(pytester, "--random-examples", "0", "-rs")
    result.assert_outcomes(skipped=2, deselected=1)
    result.stdout.fnmatch_lines(["*the time of --random-examples is over"])
    assert drawn == ""
