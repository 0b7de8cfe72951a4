"""`make mutants`, tried on a small project."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from mutants import code
from mutants.__main__ import Campaign
from mutants.proofs import RESULTS, TABLE, Result, Target, read_results
from mutants.runner import Runner

pytestmark = pytest.mark.slow

SHOP = """
def price(amount):
    return amount * 2

def discount(amount):
    return amount - 1
"""
TESTS = """
import subprocess
import sys

import pytest
from shop import discount, price

@pytest.mark.req("R1")
def test_price():
    assert price(2) == 4
    assert price(3) == 6

@pytest.mark.req("R2")
def test_discount_is_there():
    discount

@pytest.mark.slow
@pytest.mark.req("R3")
def test_in_another_process():
    assert subprocess.check_output([sys.executable, "-c", "import shop; print(shop.price(3))"]) == b"6\\n"

@pytest.mark.req("R4")
def test_that_fails_anyway():
    assert price(1) == 7
"""
TEST_OF = {"R1": "test_price", "R2": "test_discount_is_there", "R3": "test_in_another_process"}
LINES = """
R1 = "shop.price"
R2 = "shop.discount"
R3 = { in = "shop.price", old = "amount * 2", new = "amount" }
R4 = "shop.price"
R5 = "shop.price"
R6 = "shop.nothing"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with sources, tests and a table."""
    for path, text in {
        "src/shop.py": SHOP,
        "tests/sales/test_shop.py": TESTS,
        TABLE.as_posix(): LINES,
        "pytest.ini": "[pytest]\naddopts = -p plugins.quick\nmarkers =\n  req\n  slow\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(textwrap.dedent(text), encoding="utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def _path_of_the_plugins(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))


def test_kills_and_survivors_are_recorded(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line has the mutant and the test that noticed it; the sources themselves are not touched."""
    Campaign(project, [], float("inf")).run()
    results = read_results(project)
    assert {line: [(each.mutant, each.test) for each in found] for line, found in results.items()} == {
        "R1": [("2 -> 3", "tests/sales/test_shop.py::test_price")],
        "R2": [("3 mutants", None)],
        "R3": [("amount * 2 -> amount", "tests/sales/test_shop.py::test_in_another_process")],
        "R4": [],
    }
    assert (project / "src/shop.py").read_text(encoding="utf-8") == SHOP
    said = capsys.readouterr().out
    assert "tests/sales/test_shop.py::test_that_fails_anyway fails without a mutant too" in said
    assert "R5: no marked test" in said
    assert "R6: shop.nothing does not exist" in said or "R6: no marked test" in said
    assert said.endswith("2 of 6 lines in the table have a killed mutant\n")


def test_functions_are_tried_in_forks(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A mutant of a function is killed by a test of the same process; another process has the code as it was."""
    runner = Runner(project, [tmp_path_factory.mktemp("copy")])
    targets = [
        ("R1", Target(name="shop.price")),
        ("R2", Target(name="shop.discount")),
        ("R3", Target(name="shop.price")),
    ]
    tests = {line: [f"tests/sales/test_shop.py::{test}"] for line, test in TEST_OF.items()}
    kills = runner.run_forked(targets, tests, seconds=60)
    assert {line: (result.mutant, result.test) for (line, _), result in kills.items()} == {
        "R1": ("2 -> 3", "tests/sales/test_shop.py::test_price")
    }


def test_only_what_is_not_fresh_is_run_again(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run leaves out the lines with a kill, until their code or test changes."""
    (project / TABLE).write_text('R1 = "shop.price"\nR3 = "shop.price"\n', encoding="utf-8")
    Campaign(project, [], float("inf")).run()
    capsys.readouterr()
    Campaign(project, [], float("inf")).run()
    assert capsys.readouterr().out == "2 of 2 lines in the table have a killed mutant\n"
    tests = project / "tests/sales/test_shop.py"
    tests.write_text(
        tests.read_text(encoding="utf-8").replace("price(3) == 6", "price(4) == 8"), encoding="utf-8"
    )
    code.parse.cache_clear()
    Campaign(project, [], float("inf")).run()
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()[:-1]] == ["R1"]


def test_no_line_begins_when_the_time_is_over(project: Path) -> None:
    """What was recorded before stays."""
    (project / RESULTS).write_text(
        '{"R1": [{"name": "shop.price", "digest": "0", "mutant": "x"}]}', encoding="utf-8"
    )
    Campaign(project, [], 0).run()
    assert read_results(project) == {"R1": [Result(name="shop.price", digest="0", mutant="x")]}
