"""The command line as a user with few rights: files that may be read, or not even that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .harness import ROOT, Answer

NOBODY = 65_534
"""The user of that name, where a test runs as root; else whoever runs it has few enough rights."""


@dataclass(frozen=True)
class Nobody:
    """Somebody who works in a folder of somebody else's."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict[str, str])

    def __call__(self, *words: str | Path) -> Answer:
        """Run a command in the folder."""
        less: dict[str, Any] = (
            {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        )
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TERCET_", "XDG_"))}
        done = subprocess.run(
            [sys.executable, "-m", "tercet", *map(str, words)],
            cwd=self.folder,
            env={
                **kept,
                "PYTHONPATH": path,
                "PYTHONDONTWRITEBYTECODE": "1",
                "COLUMNS": "100",
                **self.variables,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            **less,
        )
        assert "Traceback" not in done.stderr
        return Answer(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.fixture
def nobody() -> Generator[Nobody]:
    """A folder that everybody may enter, and nobody but its owner may write to; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="tercet-nobody-"))
    folder.chmod(0o755)
    try:
        yield Nobody(folder)
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
