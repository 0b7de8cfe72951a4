"""The room of repairs is pure: nothing in it can do I/O, tell the time or draw lots, and no input is changed."""

from __future__ import annotations

import ast
import sys
from copy import deepcopy
from pathlib import Path

import tercet.quality
from tercet.quality.repair.phase import repair_output

from .letter import OUTPUT, case, drive, is_gone

ALLOWED = {
    "__future__", "ast", "bisect", "collections", "dataclasses", "datetime", "decimal", "difflib", "fractions", "functools", "hashlib", "itertools", "json",
    "enum", "math", "msgspec", "orjson", "pydantic", "re", "tercet", "typing", "unicodedata", "xml",
}  # fmt: skip
ROOM = Path(str(tercet.quality.__file__)).parent


def imported(path: Path) -> set[str]:
    """The modules that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    return names | {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_the_room_imports_nothing_that_reaches_outside() -> None:
    """Only arithmetic, text and contracts; of Tercet only what lies below."""
    files = sorted(ROOM.rglob("*.py"))
    assert len(files) > 20
    for path in files:
        for name in imported(path):
            assert name.partition(".")[0] in ALLOWED, f"{path.name}: {name}"
            if name.startswith("tercet."):
                assert name.split(".")[1] in ("contracts", "policy", "quality"), f"{path.name}: {name}"
    assert "tercet.quality.repair.phase" in sys.modules


def test_a_repair_leaves_its_inputs_as_they_were() -> None:
    """The output that was handed in is not the one that is changed, and the same case gives the same bytes again."""
    before = deepcopy(OUTPUT)
    first, _ = drive(repair_output(case(), is_gone))
    second, _ = drive(repair_output(case(), is_gone))
    assert before == OUTPUT
    assert first.model_dump_json() == second.model_dump_json()
