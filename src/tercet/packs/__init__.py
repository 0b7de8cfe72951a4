"""Packs: loading a folder, building one in Python, and checking it.

This package reads the pack folder and runs its Python files, since they declare its tools. It calls no tool, and writes
only when `scaffold` creates a new folder.
"""

from tercet.packs.checking import check, check_folder
from tercet.packs.pack import Pack
from tercet.packs.scaffold import scaffold

__all__ = ["Pack", "check", "check_folder", "scaffold"]
