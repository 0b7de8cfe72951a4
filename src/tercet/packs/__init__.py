"""Packs: loading a folder, building one in Python, and checking it.

This room reads the pack folder and runs the Python files in it, since that is what declares its tools. It calls no
tool, and it writes only when `scaffold` makes a new folder.
"""

from tercet.packs.checking import check, check_folder
from tercet.packs.pack import Pack
from tercet.packs.scaffold import scaffold

__all__ = ["Pack", "check", "check_folder", "scaffold"]
