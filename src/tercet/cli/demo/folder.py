"""The folder of one demo: a copy of the refund pack, the journal, and the shop's payment database."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import tercet
from tercet.contracts.errors import InternalError, UsageError
from tercet.contracts.request import Actor

_PACK = Path("examples", "refunds")


@dataclass(frozen=True, kw_only=True)
class Folder:
    """The files of a demo. Journal and database have the names that commands look for in the working folder."""

    root: Path

    @property
    def pack(self) -> Path:
        """The refund pack."""
        return self.root / "refunds"

    @property
    def journal(self) -> Path:
        """The journal of the runs."""
        return self.root / "tercet.db"

    @property
    def journal_url(self) -> str:
        """The journal as a URL."""
        return f"sqlite:///{self.journal}"

    @property
    def payments(self) -> Path:
        """The shop's payment database."""
        return self.root / "refunds.db"

    def plan(self, name: str) -> Path:
        """Return the file of a plan of the pack."""
        return self.pack / "plans" / f"{name}.json"


def make_folder(wanted: Path | None) -> Folder:
    """Make a folder with a copy of the pack; raise `UsageError` if it is not empty or cannot be made."""
    _require_sqlite()
    source = pack_home()
    try:
        folder = Folder(root=_empty(wanted))
        shutil.copytree(source, folder.pack, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    except OSError as error:
        raise UsageError(
            f"the demo cannot write its files: {error.strerror or error}",
            code="unwritable",
            remedy="name a folder that you may write to: tercet demo --dir FOLDER",
        ) from error
    return folder


def _empty(wanted: Path | None) -> Path:
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="tercet-demo-")).resolve()
    if wanted.exists() and (not wanted.is_dir() or any(wanted.iterdir())):
        raise UsageError(
            f"{wanted} is {'not empty' if wanted.is_dir() else 'not a folder'}, and the demo overwrites nothing",
            code="folder_not_empty",
            remedy="name a new or empty folder, or leave --dir out",
        )
    wanted.mkdir(parents=True, exist_ok=True)
    return wanted.resolve()


def pack_home() -> Path:
    """Return the folder of the refund pack: inside the package in a wheel, beside the sources in a checkout."""
    package = Path(tercet.__file__).resolve().parent
    for home in (package / _PACK, package.parents[1] / _PACK):
        if (home / "pack.toml").is_file():
            return home
    raise InternalError("this installation of Tercet has no refund pack")


def _require_sqlite() -> None:
    if find_spec("_sqlite3") is None:
        raise UsageError(
            "this Python has no SQLite",
            code="sqlite_missing",
            remedy="use a Python that was built with it: there, python3 -c 'import sqlite3' prints no error",
        )


Facts: TypeAlias = dict[str, Any]
"""The facts of one scene, as the JSON document has them."""


class Scene(NamedTuple):
    """A scene under its name in the JSON document; headings and asides are not part of the document."""

    name: str
    facts: Facts


def heading(number: int, text: str) -> Scene:
    """Return the heading above the next scenes."""
    return Scene("heading", {"number": number, "text": text})


OWNER = Actor(id="agt_support", roles=("support_agent",))
APPROVER = Actor(id="user_finance_lead", roles=("finance_lead",))

Answer: TypeAlias = Literal["approve", "deny", "quit"]
"""What the user answers at the gate."""
