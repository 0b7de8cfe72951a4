"""What is said where an extra is not installed."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tercet.contracts.errors import extra_missing

ROOT = Path(__file__).parents[2]


def test_the_answer_is_one_code_and_one_command() -> None:
    """What needs which library, and the command that brings it, quoted so that every shell leaves it alone."""
    error = extra_missing("tuning", "tomlkit", "tuning")
    assert (error.code, error.message, error.remedy) == (
        "extra_missing",
        "tuning needs tomlkit, which is not installed",
        "install the extra tuning from where you have Tercet: pip install './tercet[tuning]' beside a clone",
    )


@pytest.mark.slow
def test_every_extra_that_is_asked_for_is_declared() -> None:
    """Nobody is told to install an extra that the package has not."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {name for path in (ROOT / "src").rglob("*.py") for name in _named(ast.parse(path.read_text()))}
    assert named >= {
        "postgres",
        "signing",
        "telemetry",
        "tuning",
        "http",
        "mcp",
        "documents",
        "embeddings",
        "locales",
        "models",
    }
    assert named <= declared.keys()


def _named(tree: ast.AST) -> Iterator[str]:
    """The extras that are asked for by name."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="extra_missing" | "install_words"), args=[*_, ast.Constant(value=str(name))]
            ):
                yield name
            case _:
                pass
