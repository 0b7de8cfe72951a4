"""What is said where an extra is not installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tercet.contracts.extras import extra_missing

ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r'(?:extra_missing\([^)]*|install_words\()"([a-z-]+)"\)')


def test_the_answer_is_one_code_and_one_command() -> None:
    """What needs which library, and the command that brings it, quoted so that every shell leaves it alone."""
    error = extra_missing("tuning", "optuna", "tuning")
    assert (error.code, error.message, error.remedy) == (
        "extra_missing",
        "tuning needs optuna, which is not installed",
        "pip install 'tercet[tuning]'",
    )


def test_every_extra_that_is_asked_for_is_declared() -> None:
    """Nobody is told to install an extra that the package has not."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    named = {name for text in texts for name in _NAMED.findall(text)}
    assert named >= {
        "postgres",
        "signing",
        "telemetry",
        "tuning",
        "http",
        "mcp",
        "documents",
        "embeddings",
        "models",
    }
    assert named <= declared.keys()
