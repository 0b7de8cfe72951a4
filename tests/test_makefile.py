"""The Makefile in a folder whose path contains spaces, with a Python whose path does as well; neither is a real one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Like the scripts of a virtual environment whose path contains spaces, no script beside it can be executed.
FAKE = """#!/bin/sh
printf '%s\\n' "$*" >> asked
if [ "$1 $2" = "-m venv" ]; then
  mkdir -p "$4/bin" && cp "$0" "$4/bin/python"
elif [ "$1" = -c ]; then
  case $2 in *"import pip"*) [ -e .venv/bin/python ];; esac
fi
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in such a folder, and beside it a Python that notes what it is asked for."""
    folder = tmp_path / "my clone"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    python = tmp_path / "my python" / "python3"
    python.parent.mkdir()
    python.write_text(FAKE, encoding="utf-8")
    python.chmod(0o755)
    return folder


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on this machine")
@pytest.mark.parametrize(
    ("target", "started"),
    [
        ("demo", "-m tercet demo"),
        ("test", "-m pytest -n auto"),
        ("test-quick", "--quick"),
        ("test-random", "--random-examples"),
        ("check", ".venv/bin/lint-imports --no-logo"),
        ("fmt", "-m ruff format"),
        ("crash", "-m acceptance"),
        ("bench", "-m bench"),
        ("bench-critic", "-m bench critic"),
    ],
)
def test_commands_work_in_paths_with_spaces(clone: Path, target: str, started: str) -> None:
    """`.venv` is made, and everything in it is started through its interpreter: a script could not be."""
    python = clone.parent / "my python" / "python3"
    if target == "bench":
        (clone / "bench").mkdir()
        shutil.copy(ROOT / "bench" / "constraints.txt", clone / "bench")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", target, f"PYTHON={python}"],  # noqa: S607 - the one of this machine
        cwd=clone, env=kept, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    asked = (clone / "asked").read_text(encoding="utf-8").splitlines()
    assert "-m venv --clear .venv" in asked
    assert any(started in line for line in asked)
