"""The code of a tool is known by its source, however its module was imported."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tercet.packs.pack import Pack
from tercet.tools.code import hash_file, name_code
from tercet.tools.tool import Tool

SHOP = """
from tercet import Absent, DecisionSpec, Pack, ToolContext, tool

def find(ctx: ToolContext, amount: int) -> Absent:
    return Absent()

@tool("pay.refund", mode="network", reconcile=find)
def refund(ctx: ToolContext, amount: int) -> dict:
    return {"paid": amount}

PACK = Pack(name="shop", version="1.0.0", tools=(refund,), decisions=(DecisionSpec(id="d", risk_tier="low"),))
if __name__ == "__main__":
    print(PACK.hash)
"""


def hash_of(path: Path, name: str) -> str:
    """The hash of the pack in a file that is run under a name."""
    pack: Pack = runpy.run_path(str(path), run_name=name)["PACK"]
    return pack.hash


@pytest.mark.slow
def test_the_pack_hash_does_not_depend_on_how_a_module_is_imported(tmp_path: Path) -> None:
    """Run as a program and imported under any name, a file gives one pack."""
    path = tmp_path / "shop.py"
    path.write_text(SHOP)
    program = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    imported = subprocess.run(
        [sys.executable, "-c", "import shop; print(shop.PACK.hash)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert program.stdout == imported.stdout
    assert program.stdout.strip() == hash_of(path, "elsewhere.shop")


@pytest.mark.parametrize("change", ['"paid": amount + 1', '"paid": amount, "x": 1'])
def test_the_pack_hash_changes_with_the_source_of_a_tool(tmp_path: Path, change: str) -> None:
    """Also of its look-up."""
    first, second, third = (tmp_path / f"{name}.py" for name in "abc")
    first.write_text(SHOP)
    second.write_text(SHOP.replace('"paid": amount', change))
    third.write_text(SHOP.replace("return Absent()", "return Absent()  # always"))
    hashes = {hash_of(path, "shop") for path in (first, second, third)}
    assert len(hashes) == 3


def typed(source: str, module: str) -> Any:
    """The function `f` of code that has no file."""
    names: dict[str, Any] = {"__name__": module}
    exec(source, names)  # noqa: S102 - as a prompt does
    return names["f"]


def test_code_without_a_file_is_known_by_its_instructions() -> None:
    """As from a prompt or `python -c`."""
    source = "def f(x):\n    return x in {'a', 'b', 'c'} and (lambda: 1)()"
    named = name_code(typed(source, "__main__"))
    assert named == name_code(typed(source, "shop"))
    assert named != name_code(typed(source.replace("1", "2"), "shop"))
    assert name_code(len) == "name:len"


def test_a_tool_made_of_a_callable_object_has_a_name() -> None:
    """The source of its class."""

    class Pay:
        def __call__(self, amount: int) -> int:
            return amount

    made = Tool(name="pay.it", mode="network", call=Pay())  # pyright: ignore[reportArgumentType]
    assert name_code(made.call).startswith("source:")


def test_a_folder_in_the_place_of_a_file_is_closed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused without leaving a descriptor open."""
    opened: list[int] = []
    real = os.open

    def watch(path: str, flags: int) -> int:
        opened.append(real(path, flags))
        return opened[-1]

    monkeypatch.setattr(os, "open", watch)
    with pytest.raises(IsADirectoryError):
        hash_file(tmp_path, follow_links=True)
    (descriptor,) = opened
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
