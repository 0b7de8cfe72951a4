"""The tools in a pack's Python files.

A file is compiled and executed directly rather than imported. Its module is named after its content, so two versions of
one pack can coexist in a process; nothing is written into the folder; and the bytes that run are the bytes that were
hashed. The name depends on nothing else, since Pydantic puts module names into some schemas, and the hash of a pack
must not depend on where the folder is.

A tools file cannot import its neighbours: they would run without being part of the hash.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from difflib import get_close_matches
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from tercet.contracts.errors import TercetError
from tercet.contracts.values.canonical import hash_bytes
from tercet.packs.declarations import PACK_FILE, note_duplicate
from tercet.packs.folder import Draft
from tercet.packs.parts import PACK, PackFile, Spot
from tercet.tools.code import PACK_MODULE
from tercet.tools.decorator import tool as declare
from tercet.tools.tool import Tool

USUAL_FILE = "tools.py"


def read_tools(draft: Draft, pack_file: PackFile) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """Return the tools of the folder, and the hash of each file that they came from."""
    found: dict[str, Tool] = {}
    hashes: dict[str, str] = {}
    for name in _files(draft, pack_file):
        source = draft.read_bytes(name) if _is_python(draft, name) else None
        if source is None or not _is_text(draft, name, source):
            draft.unread.add("tool")
            continue
        hashes[name] = hash_bytes(source)
        for tool in _run(draft, name, source):
            place = f"tool {tool.name}"
            spot = Spot(name, _row(tool, draft.folder / name))
            if tool.name in found:
                note_duplicate(draft, place, draft.spots[place], spot)
                continue
            found[tool.name] = tool
            draft.spots[place] = spot
    return tuple(found.values()), hashes


def _files(draft: Draft, pack_file: PackFile) -> tuple[str, ...]:
    if pack_file.tools is None:
        return (USUAL_FILE,) if draft.has(USUAL_FILE) else ()
    return tuple(dict.fromkeys(pack_file.tools))


def _is_python(draft: Draft, name: str) -> bool:
    if name.endswith(".py"):
        return True
    draft.note(
        "not_python",
        f"{name!r} is not a Python file",
        "name files that end in .py",
        file=PACK_FILE,
        place=f"{PACK}, tools",
    )
    return False


def _is_text(draft: Draft, name: str, source: bytes) -> bool:
    """Return whether a file can be Python at all; the compiler's own message differs between Python versions."""
    if b"\0" in source:
        row = source.count(b"\n", 0, source.index(b"\0")) + 1
        draft.note("python_syntax", "not Python: it holds a null character", "remove it", file=name, row=row)
        return False
    return draft.decode(name, source) is not None


def _run(draft: Draft, name: str, source: bytes) -> list[Tool]:
    """Return the tools of a file; if it fails, note a problem and return the tools that it had defined by then."""
    path = draft.folder / name
    content = hashlib.sha256(b"%b\0%b" % (name.encode(), source)).hexdigest()
    module = ModuleType(f"{PACK_MODULE}{content[:16]}")
    module.__file__ = str(path)
    before = sys.modules.get(module.__name__)
    # Dataclasses, Pydantic and typing look up a class's module by name while the class is being created.
    sys.modules[module.__name__] = module
    names = _Names(vars(module))
    try:
        # Neither this file's __future__ imports nor -OO apply: a docstring is a description, and so part of the hash.
        code = compile(source, str(path), "exec", dont_inherit=True, optimize=0)
        exec(code, vars(module), names)  # noqa: S102 - loading tools means running the pack's code
    except KeyboardInterrupt:
        _restore(module.__name__, before)
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit must not end this process
        _restore(module.__name__, before)
        draft.unread.add("tool")
        _note_failure(draft, name, error)
    return names.tools()


class _Names(MutableMapping[str, Any]):
    """The names of a module. It remembers each tool that a name has held: otherwise a second `def` of the same name
    would silently replace a tool.
    """

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._held: dict[int, Tool] = {}

    def __setitem__(self, name: str, value: Any) -> None:
        self._names[name] = value
        if isinstance(value, Tool):
            self._held[id(value)] = value

    def __getitem__(self, name: str) -> Any:
        return self._names[name]

    def __delitem__(self, name: str) -> None:
        del self._names[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def tools(self) -> list[Tool]:
        """The tools in order of definition."""
        return list(self._held.values())


def _restore(name: str, before: ModuleType | None) -> None:
    if before is None:
        del sys.modules[name]
    else:
        sys.modules[name] = before


def _note_failure(draft: Draft, name: str, error: BaseException) -> None:
    path = str(draft.folder / name)
    if isinstance(error, SyntaxError) and error.filename in (path, None):
        draft.note(
            "python_syntax", f"not Python: {error.msg}", "correct the line", file=name, row=error.lineno
        )
        return
    frames = traceback.extract_tb(error.__traceback__)
    row = next((frame.lineno for frame in reversed(frames) if frame.filename == path), None)
    if isinstance(error, TercetError):
        draft.note(error.code, error.message, error.remedy or "correct the declaration", file=name, row=row)
        return
    text = str(error).strip().partition("\n")[0][:300]
    message = f"it does not run: {type(error).__name__}{': ' if text else ''}{text}"
    draft.note("tools_failed", message, _remedy(error), file=name, row=row)


def _remedy(error: BaseException) -> str:
    if isinstance(error, ImportError):
        return "install what it imports; a tools file cannot import its neighbours, name them in pack.toml instead"
    if isinstance(error, SystemExit):
        return "let the file only declare tools, and do nothing when it is loaded"
    if isinstance(error, TypeError) and (argument := _UNKNOWN_ARGUMENT.search(str(error))):
        known = [name for name in inspect.signature(declare).parameters if name != "name"]
        near = get_close_matches(argument[1], known, n=1)
        return f"did you mean {near[0]}?" if near else f"@tool takes {', '.join(known)}"
    return "run the file by itself to see the whole error"


_UNKNOWN_ARGUMENT = re.compile(r"^tool\(\) got an unexpected keyword argument '(\w+)'")


def _row(tool: Tool, path: Path) -> int | None:
    code = getattr(inspect.unwrap(tool.call), "__code__", None)
    return code.co_firstlineno if isinstance(code, CodeType) and code.co_filename == str(path) else None
