"""Where the temporary files of tests are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from plugins.temporary_files import LEAST_FREE, use_memory


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system with enough room, on which programs can be run."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=LEAST_FREE))
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=0))
    monkeypatch.setattr("tempfile.tempdir", None)


def test_temporary_files_are_kept_in_memory(tmp_path: Path) -> None:
    """Processes that a test starts inherit the choice."""
    environment: dict[str, str] = {}
    use_memory(environment, tmp_path)
    assert environment == {"TMPDIR": str(tmp_path)}


def test_a_folder_that_a_user_has_chosen_is_kept(tmp_path: Path) -> None:
    """`TMPDIR` is not changed."""
    environment = {"TMPDIR": "/elsewhere"}
    use_memory(environment, tmp_path)
    assert environment == {"TMPDIR": "/elsewhere"}


@pytest.mark.parametrize("fault", ["missing", "small", "without programs"])
def test_memory_that_does_not_fit_is_not_used(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be no such folder, too little room as in most containers, or no right to execute what is in it."""
    if fault == "small":
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=LEAST_FREE - 1))
    elif fault == "without programs":
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    environment: dict[str, str] = {}
    use_memory(environment, tmp_path / "missing" if fault == "missing" else tmp_path)
    assert environment == {}
