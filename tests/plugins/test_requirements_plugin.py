"""The requirement marks, tried on small suites of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from mutants import code
from mutants.code import find_source, find_test
from mutants.proofs import TABLE, Result, write_results

PAGE = """\
# Requirements

## A. First things

- **R1** One is proved [A Text, 1]
- **R2** Two is open [A Text, 2] *(amended: not quite)*

## B. Second things

- **R3** Three, with a list[] in it [A Text, 3; Another, 1]
"""


CODE = '''
def one():
    """Return the price."""
    return 1
'''


def run(
    pytester: pytest.Pytester,
    tests: str,
    *args: str,
    page: str = PAGE,
    killers: Mapping[str, str] | None = None,
) -> pytest.RunResult:
    """Run a suite beside a small page, with the options of this repository and mutants that these tests have killed."""
    folder = pytester.mkdir("docs")
    (folder / "requirements.md").write_text(page, encoding="utf-8")
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers --strict-config --import-mode=importlib\nfilterwarnings = error\n"
    )
    suite = pytester.makepyfile(f"import pytest\n\n{tests}")
    record_kills(pytester.path, suite.name, {} if killers is None else killers)
    return start(pytester, *args)


def start(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run the suite as it is now."""
    code.parse.cache_clear()
    # Hypothesis is left out because every inner run would load it anew, a second each.
    return pytester.runpytest_inprocess("-p", "no:hypothesispytest", "-p", "plugins.requirements", *args)


def record_kills(root: Path, suite: str, killers: Mapping[str, str]) -> None:
    """Write a table in which one function implements these lines, and results in which these tests kill a mutant."""
    (root / "src").mkdir()
    (root / "src" / "shop.py").write_text(CODE, encoding="utf-8")
    (root / TABLE).parent.mkdir(parents=True)
    (root / TABLE).write_text("".join(f'{line} = "shop.one"\n' for line in killers), encoding="utf-8")
    digest = find_source(root / "src", "shop.one").digest()
    results: dict[str, list[Result]] = {}
    for line, test in killers.items():
        node = f"{suite}::{test}"
        digests = (digest, find_test(root, node).digest())
        results[line] = [
            Result(name="shop.one", mutant="1 -> 2", test=node, digest=digests[0], test_digest=digests[1])
        ]
    write_results(root, results)


def test_a_line_with_a_passing_test_counts(pytester: pytest.Pytester) -> None:
    """Claims on functions, classes and parameters count, once per line, however they are attached."""
    suite = """
@pytest.mark.req("R1")
def test_one(): pass

@pytest.mark.req("R1")
class TestClass:
    @pytest.mark.parametrize("n", [pytest.param(3, marks=pytest.mark.req("R3"))])
    def test_three(self, n): pass

def test_without_a_claim(): pass
"""
    result = run(pytester, suite, killers={"R1": "TestClass::test_three", "R3": "TestClass::test_three"})
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["requirements: proved 2 of 3 (make requirements lists the others)"])


@pytest.mark.parametrize(
    "other",
    [
        "def test_other(): assert False",
        "def test_other(broken): pass",
        "@pytest.mark.xfail(strict=True)\ndef test_other(): pass",
    ],
    ids=["fails", "breaks in set-up", "passes against a strict xfail"],
)
def test_a_failing_claim_outweighs_a_passing_one(pytester: pytest.Pytester, other: str) -> None:
    """One failed test keeps its line open, however many others pass."""
    suite = f"""
@pytest.fixture
def broken(): raise ValueError

@pytest.mark.req("R1")
def test_one(): pass

@pytest.mark.req("R1")
{other}
"""
    result = run(pytester, suite, "--requirements-open", killers={"R1": "test_one"})
    result.stdout.fnmatch_lines(["  R1    One is proved (failing: *::test_other)"])
    result.stdout.fnmatch_lines(["requirements: proved 0 of 3"])


def test_a_failing_teardown_keeps_the_line_open(pytester: pytest.Pytester) -> None:
    """A test whose teardown fails has not passed."""
    suite = """
@pytest.fixture
def leaky():
    yield
    raise ValueError

@pytest.mark.req("R1")
def test_one(leaky): pass
"""
    run(pytester, suite, killers={"R1": "test_one"}).stdout.fnmatch_lines(["requirements: proved 0 of 3 *"])


@pytest.mark.parametrize(
    "body",
    [
        '@pytest.mark.skip(reason="later")\ndef test_one(): pass',
        'def test_one(): pytest.skip("later")',
        "@pytest.mark.xfail\ndef test_one(): assert False",
        "@pytest.mark.xfail(strict=False)\ndef test_one(): pass",
    ],
    ids=["marked skip", "skips itself", "xfailed", "xpassed"],
)
def test_skipped_and_expected_failures_prove_nothing(pytester: pytest.Pytester, body: str) -> None:
    """Only a plain pass counts; the others leave the line as it was."""
    result = run(pytester, f'@pytest.mark.req("R1")\n{body}', killers={"R1": "test_one"})
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["requirements: proved 0 of 3 *"])


def test_a_skip_after_the_call_proves_nothing(pytester: pytest.Pytester) -> None:
    """A test that passes and is then skipped by its teardown was skipped."""
    suite = """
@pytest.fixture
def late():
    yield
    pytest.skip("the service was gone")

@pytest.mark.req("R1")
def test_one(late): pass
"""
    run(pytester, suite, killers={"R1": "test_one"}).stdout.fnmatch_lines(["requirements: proved 0 of 3 *"])


def test_a_skip_does_not_undo_another_tests_proof(pytester: pytest.Pytester) -> None:
    """A line stays proved when one of its tests is skipped and another passes."""
    suite = """
@pytest.mark.req("R1")
def test_one(): pass

@pytest.mark.req("R1")
def test_elsewhere(): pytest.skip("not on this machine")
"""
    run(pytester, suite, killers={"R1": "test_one"}).stdout.fnmatch_lines(["requirements: proved 1 of 3 *"])


def test_a_claim_on_an_unknown_line_is_a_collection_error(pytester: pytest.Pytester) -> None:
    """The message names the test and the number, and nothing runs."""
    suite = '@pytest.mark.req("R1", "R99")\ndef test_one(): pass\n\ndef test_two(): pass'
    result = run(pytester, suite)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*.py::test_one claims 'R99', which is no line of docs/requirements.md"])


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("req", '*::test_one: name the lines it proves, as in @pytest.mark.req("R82")'),
        ("req(1)", "*::test_one claims 1, which is no line of docs/requirements.md"),
        ('req(["R1"])', "*::test_one claims [[]'R1'], which is no line of docs/requirements.md"),
    ],
    ids=["bare", "an integer", "a list"],
)
def test_a_mark_that_names_no_line_is_a_collection_error(
    pytester: pytest.Pytester, mark: str, message: str
) -> None:
    """A bare mark, a number without its R and a list are each refused in words."""
    result = run(pytester, f"@pytest.mark.{mark}\ndef test_one(): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


def test_the_open_lines_are_listed_by_section(pytester: pytest.Pytester) -> None:
    """The list shows number and text under the section's title, without the sources."""
    suite = '@pytest.mark.req("R1")\ndef test_one(): pass'
    result = run(pytester, suite, "--requirements-open", killers={"R1": "test_one"})
    result.stdout.fnmatch_lines(
        [
            "A. First things",
            "  R2    Two is open (no marked test passed)",
            "",
            "B. Second things",
            "  R3    Three, with a list[[]] in it (no marked test passed)",
            "",
            "requirements: proved 1 of 3",
        ],
        consecutive=True,
    )


def test_the_report_names_the_proofs(pytester: pytest.Pytester) -> None:
    """The JSON file holds the passed tests of each proved line, and the other lines with the reasons."""
    suite = '@pytest.mark.req("R1")\ndef test_one(): pass\n\n@pytest.mark.req("R2")\ndef test_two(): assert 0'
    run(pytester, suite, "--requirements-report", "report.json", killers={"R1": "test_one"})
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))
    assert report == {
        "proved": {"R1": ["test_the_report_names_the_proofs.py::test_one"]},
        "open": {
            "R2": "failing: test_the_report_names_the_proofs.py::test_two",
            "R3": "no marked test passed",
        },
    }


ONE = """
@pytest.mark.req("R1")
def test_one():
    assert True

@pytest.mark.req("R1")
def test_other():
    assert True
"""


def test_a_passing_test_without_a_killed_mutant_proves_nothing(pytester: pytest.Pytester) -> None:
    """A line whose code is not in the table is open, and so is one whose mutants were not run or survived."""
    run(pytester, ONE, "--requirements-open").stdout.fnmatch_lines(
        ["  R1    One is proved (no mutant in tests/mutants/lines.toml)", "requirements: proved 0 of 3"]
    )
    (pytester.path / TABLE).write_text('R1 = "shop.one"', encoding="utf-8")
    start(pytester, "--requirements-open").stdout.fnmatch_lines(
        ["  R1    One is proved (no result for shop.one: run make mutants)"]
    )
    digest = find_source(pytester.path / "src", "shop.one").digest()
    write_results(pytester.path, {"R1": [Result(name="shop.one", digest=digest, mutant="1 -> 2")]})
    start(pytester, "--requirements-open").stdout.fnmatch_lines(
        ["  R1    One is proved (survived in shop.one: 1 -> 2)", "requirements: proved 0 of 3"]
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("src/shop.py", "return 1", "return 2", "stale: shop.one has changed, run make mutants"),
        ("src/shop.py", "def one", "def two", "shop.one does not exist"),
        ("suite", "assert True", "pass", "stale: *::test_one has changed, run make mutants"),
        ("suite", "def test_one", "def test_two", "*::test_one does not exist"),
        ("suite", '@pytest.mark.req("R1")', "", "stale: *::test_one is not a passing test of this line, *"),
        (TABLE.as_posix(), "shop.one", "shop.none", "shop.none does not exist"),
    ],
    ids=["code", "name of the code", "test", "name of the test", "mark", "table"],
)
def test_a_stale_result_proves_nothing(
    pytester: pytest.Pytester, file: str, old: str, new: str, reason: str
) -> None:
    """Once code, test, mark or table differ from what was run, the line is open and says why."""
    run(pytester, ONE, killers={"R1": "test_one"}).stdout.fnmatch_lines(["requirements: proved 1 of 3 *"])
    path = next(pytester.path.glob("test_*.py")) if file == "suite" else pytester.path / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    start(pytester, "--requirements-open").stdout.fnmatch_lines(
        [f"  R1    One is proved ({reason})", "requirements: proved 0 of 3"]
    )


def test_rewording_keeps_a_result_fresh(pytester: pytest.Pytester) -> None:
    """Docstrings, comments, layout and other marks are no change."""
    run(pytester, ONE, killers={"R1": "test_one"})
    sources, suite = pytester.path / "src" / "shop.py", next(pytester.path.glob("test_*.py"))
    sources.write_text('def one():\n    "Say it better."\n    return (1)  # one\n', encoding="utf-8")
    text = suite.read_text(encoding="utf-8").replace('req("R1")', 'req("R1", "R2")')
    suite.write_text(text.replace("assert True", "'It holds.'\n    assert True"), encoding="utf-8")
    start(pytester).stdout.fnmatch_lines(["requirements: proved 1 of 3 *"])


@pytest.mark.slow
def test_workers_change_nothing(pytester: pytest.Pytester) -> None:
    """Under pytest-xdist the same claims are proved, and a claim on an unknown line is still named."""
    pytester.makepyfile(
        test_other="""
import pytest

@pytest.mark.req("R99")
def test_lost(): pass
"""
    )
    suite = """
@pytest.mark.req("R1")
def test_one(): pass

@pytest.mark.req("R2")
def test_two(): assert False

@pytest.mark.req("R2", "R3")
def test_three(): pass
"""
    args = ("-n", "1", "--requirements-open", "--requirements-report", "report.json")
    result = run(pytester, suite, *args, killers={"R1": "test_one", "R3": "test_three"})
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "test_other.py::test_lost claims 'R99', which is no line of docs/requirements.md",
            "  R2    Two is open (failing: *::test_two)",
            "requirements: proved 2 of 3",
        ]
    )
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))
    assert report == {
        "proved": {
            "R1": ["test_workers_change_nothing.py::test_one"],
            "R3": ["test_workers_change_nothing.py::test_three"],
        },
        "open": {"R2": "failing: test_workers_change_nothing.py::test_two"},
    }


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (PAGE + "- **R3** Three again [A Text, 4]\n", "*requirements.md:11: R3 stands here a second time"),
        (PAGE + "- **R4** No source\n", "*requirements.md:11: write it as *"),
    ],
    ids=["a number twice", "no source"],
)
def test_a_broken_page_stops_the_run(pytester: pytest.Pytester, page: str, message: str) -> None:
    """A doubled number or a line without its source is named with its place."""
    result = run(pytester, "def test_one(): pass", page=page)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_missing_page_stops_the_run(pytester: pytest.Pytester) -> None:
    """Without the page no claim can be checked, so nothing runs."""
    pytester.makepyfile("def test_one(): pass")
    result = pytester.runpytest_inprocess("-p", "plugins.requirements")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*requirements.md is missing*"])


def test_listing_tests_prints_no_count(pytester: pytest.Pytester) -> None:
    """A run that only collects has proved nothing and says nothing."""
    result = run(pytester, "def test_one(): pass", "--collect-only")
    result.stdout.no_fnmatch_line("requirements:*")


def test_the_page_of_this_repository_numbers_every_line_once(pytestconfig: pytest.Config) -> None:
    """The real page holds R1 to R332, each once and in order."""
    page = Path(pytestconfig.rootpath, "docs", "requirements.md").read_text(encoding="utf-8")
    numbers = [line.split("**")[1] for line in page.splitlines() if line.startswith("- **R")]
    assert numbers == [f"R{n}" for n in range(1, 333)]
