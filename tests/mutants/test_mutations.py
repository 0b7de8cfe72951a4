"""The mutations of a definition, and how definitions are found and compared."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from mutants.code import Definition, NotFoundError, find_source
from mutants.marks import marked_tests
from mutants.mutations import generated_mutations, written_mutation

SHOP = '''
LIMITS = {"small": 1, "large": 2}


class Shop:
    """A docstring with a 7 in it."""

    name: str = "corner"

    def price(self, amount: int) -> int:
        """Return the price."""
        if amount > 10 and self.name:
            amount -= 1
        return amount * 2  # größer
'''


def definition(folder: Path, name: str, source: str = SHOP) -> Definition:
    """Write a module `shop`, and find a name in it."""
    (folder / "shop.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return find_source(folder, f"shop.{name}")


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("LIMITS", {"1 -> 2", "2 -> 3", "\"small\" -> 'small_x'", "'small' -> (removed)"}),
        ("Shop", {"name: str = 'corner' -> (removed)", "\"corner\" -> 'corner_x'"}),
        (
            "Shop.price",
            {
                "amount > 10 -> amount <= 10",
                "amount > 10 and self.name -> (amount > 10 or self.name)",
                "10 -> 11",
                "amount -= 1 -> (removed)",
                "amount * 2 -> (amount + 2)",
                "return amount * 2 -> return None",
            },
        ),
    ],
)
def test_each_kind_of_code_has_mutations(tmp_path: Path, name: str, texts: set[str]) -> None:
    """Conditions, literals, operators, rows, fields, statements and results change; docstrings and annotations do not."""
    found = definition(tmp_path, name)
    mutations = generated_mutations(found)
    assert texts <= {mutation.text for mutation in mutations}
    for mutation in mutations:
        mutated = mutation.apply(found.source)
        compile(mutated, "shop.py", "exec")
        assert (mutated.count("7 in it"), mutated.count("amount: int")) == (1, 1)


def test_a_guard_is_left_out_and_not_negated(tmp_path: Path) -> None:
    """Negating it would break everything that comes there, which no test could miss."""
    guarded = """
        def pay(state, amount):
            demand(state, is_met=amount > 0)
            if amount > 10:
                raise ValueError
        """
    texts = {mutation.text for mutation in generated_mutations(definition(tmp_path, "pay", guarded))}
    assert texts == {"demand(state, is_met=amount > 0) -> (removed)", "raise ValueError -> (removed)"}


def test_a_written_mutation_replaces_text_of_its_definition_only(tmp_path: Path) -> None:
    """The text must occur once in the definition, wherever else it occurs in the file."""
    price = definition(tmp_path, "Shop.price")
    mutation = written_mutation(price, "amount * 2", "amount")
    assert mutation.text == "amount * 2 -> amount"
    assert mutation.apply(price.source) == price.source.replace("amount * 2", "amount")
    with pytest.raises(NotFoundError, match=r"shop\.Shop\.price contains 'corner' 0 times instead of once"):
        written_mutation(price, "corner", "")


@pytest.mark.parametrize("name", ["Stop", "Shop.cost", "LIMITS.small"])
def test_a_renamed_definition_is_an_error_with_its_name(tmp_path: Path, name: str) -> None:
    """What is no longer there is named."""
    with pytest.raises(NotFoundError, match=f"shop.{name} does not exist"):
        definition(tmp_path, name)


def test_a_module_is_no_definition(tmp_path: Path) -> None:
    """A name must lead to something inside of a module."""
    with pytest.raises(NotFoundError, match="does not exist"):
        find_source(tmp_path, "shop")


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ('def f(x):\n    "Say it."\n    return (x + 1)  # so\n', True),
        ("@mark.req('R1')\ndef f(x):\n    return x + 1\n", True),
        ("def f(x):\n    return x + 2\n", False),
        ("@cache\ndef f(x):\n    return x + 1\n", False),
        ("def f(x, y=1):\n    return x + 1\n", False),
    ],
    ids=["reworded", "marked", "another number", "decorated", "another parameter"],
)
def test_a_digest_changes_with_the_code_alone(tmp_path: Path, other: str, is_same: bool) -> None:
    """Docstrings, comments, layout and requirement marks do not count."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first = definition(tmp_path / "first", "f", "def f(x):\n    return x + 1\n")
    assert (first.digest() == definition(tmp_path / "second", "f", other).digest()) == is_same


def test_marks_are_read_from_functions_classes_and_parameters(tmp_path: Path) -> None:
    """A test has the marks of its class, its own and those of its parameters."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_shop.py").write_text(
        textwrap.dedent(
            """
            @pytest.mark.req("R1")
            class TestShop:
                @pytest.mark.parametrize("n", [pytest.param(3, marks=pytest.mark.req("R2", "R3"))])
                def test_price(self, n): pass

            def test_other(): pass
            """
        ),
        encoding="utf-8",
    )
    test = "tests/test_shop.py::TestShop::test_price"
    assert marked_tests(tmp_path) == {"R1": [test], "R2": [test], "R3": [test]}
