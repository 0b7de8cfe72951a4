"""Keeps the temporary files of tests in memory, where the machine has room for them.

A durable journal waits for the disk at every commit, and so would most of the tests, beside other writers half of their time.
What a killed process wrote is with the operating system: only a power failure needs the disk, and no test has one.
`TMPDIR` names another folder. What a test that passed leaves behind is removed at its end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - on Linux, a file system in memory
LEAST_FREE = 4 << 30
"""A whole run holds about a quarter of it at a time."""


def use_memory(environment: MutableMapping[str, str], folder: Path = SHARED_MEMORY) -> None:
    """Set `TMPDIR` to a folder in memory, unless it is set or the folder is too small or lets no program run."""
    if "TMPDIR" in environment or not os.access(folder, os.W_OK | os.X_OK):
        return
    if shutil.disk_usage(folder).free < LEAST_FREE or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return
    environment["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it may have been looked up before


use_memory(os.environ)
