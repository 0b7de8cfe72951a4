"""The command line as a user with few rights: files that may be read, or not even that.

Started as root, the command becomes another user only after the interpreter has started: Python, the packages and this
repository may all lie in a home folder that is closed to others. So the process opens those folders while it may, and goes
on importing from them through its own descriptors. What it does with any other file, it does as the other user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .harness import ROOT, Answer

NOBODY = 65_534
"""The user and the group of that name."""
DESCRIPTORS = Path("/proc/self/fd")

BECOME_NOBODY = f"""
import os, sys

kept = {{}}
for folder in (sys.base_prefix, sys.prefix, sys.argv[1]):
    kept[os.path.realpath(folder)] = kept[folder] = f"{DESCRIPTORS}/{{os.open(folder, os.O_RDONLY)}}"

def through_descriptor(path):
    inside = [folder for folder in kept if path == folder or path.startswith(folder + os.sep)]
    folder = max(inside, key=len, default="")
    return kept.get(folder, "") + path[len(folder):]

sys.prefix, sys.base_prefix = map(through_descriptor, (sys.prefix, sys.base_prefix))
sys.path[:] = [through_descriptor(path) for path in sys.path if path]
for module in list(sys.modules.values()):
    if hasattr(module, "__path__"):
        module.__path__ = [through_descriptor(path) for path in module.__path__]

os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
del sys.argv[1]

from tercet.__main__ import run
run()
"""


def command(repository: Path) -> list[str]:
    """Return the words that start `tercet` as a user without privileges."""
    if os.getuid() != 0:
        return [sys.executable, "-m", "tercet"]
    if not DESCRIPTORS.is_dir():
        pytest.skip(
            f"root becomes another user with the help of {DESCRIPTORS}, which this system does not have"
        )
    if closed := closed_to_others(Path(sys.base_prefix), Path(sys.prefix), repository):
        pytest.skip(f"another user cannot read {closed}: its files were made with a strict umask")
    return [sys.executable, "-c", BECOME_NOBODY, str(repository)]


def closed_to_others(*folders: Path) -> Path | None:
    """Return the first package folder in these that others may not read; the folders around them do not matter."""
    inside = (
        path for folder in folders for path in (folder / "lib", folder / "src" / "tercet") if path.is_dir()
    )
    return next((path for path in inside if path.stat().st_mode & 0o005 != 0o005), None)


@dataclass(frozen=True)
class Nobody:
    """A user without privileges, at work in another user's folder."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict[str, str])
    repository: Path = ROOT
    """Where the code of Tercet lies."""

    def __call__(self, *words: str | Path) -> Answer:
        """Run a command in the folder."""
        path = os.pathsep.join([str(self.repository / "src"), os.environ.get("PYTHONPATH", "")])
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TERCET_", "XDG_"))}
        done = subprocess.run(
            [*command(self.repository), *map(str, words)],
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
            timeout=600,
        )
        assert "Traceback" not in done.stderr, done.stderr
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
