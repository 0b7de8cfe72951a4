"""Where the temporary files of tests are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from plugins.temporary_files import LEAST_FREE, use_memory


def use_system(patch: pytest.MonkeyPatch, *, free: int = LEAST_FREE, flags: int = 0) -> None:
    """Let a file system have so much room and such flags."""

    def disk_usage(_: Path) -> SimpleNamespace:
        return SimpleNamespace(free=free)

    def statvfs(_: Path) -> SimpleNamespace:
        return SimpleNamespace(f_flag=flags)

    patch.setattr(shutil, "disk_usage", disk_usage)
    patch.setattr(os, "statvfs", statvfs)
    patch.setattr("tempfile.tempdir", None)


def test_temporary_files_are_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts inherit the choice."""
    use_system(monkeypatch)
    environment: dict[str, str] = {}
    use_memory(environment, tmp_path)
    assert environment == {"TMPDIR": str(tmp_path)}


def test_a_folder_that_a_user_has_chosen_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`TMPDIR` is not changed."""
    use_system(monkeypatch)
    environment = {"TMPDIR": "/elsewhere"}
    use_memory(environment, tmp_path)
    assert environment == {"TMPDIR": "/elsewhere"}


@pytest.mark.parametrize("fault", ["missing", "small", "without programs"])
def test_memory_that_does_not_fit_is_not_used(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be no such folder, too little room as in most containers, or no right to execute what is in it."""
    free = LEAST_FREE - (fault == "small")
    use_system(monkeypatch, free=free, flags=os.ST_NOEXEC if fault == "without programs" else 0)
    environment: dict[str, str] = {}
    use_memory(environment, tmp_path / "missing" if fault == "missing" else tmp_path)
    assert environment == {}
