"""What a command line runs is what was loaded: files of the pack are hashed, and files outside of it refused."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from packs.conftest import WritePack
from packs.test_mcp_files import SAID, lock_of
from tercet.core.answers import Ended, NotHappened
from tercet.executor.clock import SystemClock
from tercet.executor.gateway import Gateway
from tercet.packs import Pack, check_folder
from tercet.packs.mcp_tools import LOCK_FILE
from tercet.tools import ToolContext
from tercet.tools.tool import Lines

CONTEXT = ToolContext(tenant="t", run_id="r", step_id="s", actor="ada", idempotency_key="k")


def command(argv: list[str], more: str = "") -> str:
    """A `commands.toml` with one command."""
    return f'[[command]]\nname = "ops.it"\nmode = "read_only"\nargv = {json.dumps(argv)}\n{more}\n'


def run(pack: Pack) -> Ended:
    """How a call of the command ends."""
    [tool] = [each for each in pack.tools if each.name == "ops.it"]
    return asyncio.run(Gateway(SystemClock()).call(tool, {}, CONTEXT, timeout_ms=20_000))


def codes(folder: Path) -> set[str]:
    """The codes of what is wrong with a folder."""
    return {each.code for each in check_folder(folder) if each.severity == "error"}


@pytest.mark.parametrize(
    "argv",
    [
        ["../other/run.sh"],
        ["OUTSIDE/run.sh"],
        ["sh", "../other/run.sh"],
        ["sh", "sub/../../other/run.sh"],
        ["sh", "OUTSIDE/run.sh"],
        ["sh", "--rcfile=OUTSIDE/run.sh"],
        ["make", "-C", "../other"],
        ["awk", "-fOUTSIDE/run.sh"],
        ["sed", "-nfOUTSIDE/run.sh"],
        ["awk", "-f../other/run.sh"],
        ["env", "RULES=OUTSIDE/run.sh"],
        ["cc", "--flags=-TOUTSIDE/run.sh"],
        ["dd", "--option=if=OUTSIDE/run.sh"],
        ["curl", "-d@OUTSIDE/run.sh"],
    ],
)
def test_a_command_cannot_name_a_file_outside_the_pack(
    write_pack: WritePack, tmp_path: Path, argv: list[str]
) -> None:
    """It could change after somebody approved a call of it."""
    outside = tmp_path / "other"
    outside.mkdir()
    (outside / "run.sh").write_text("echo 1")
    words = [word.replace("OUTSIDE", str(outside)) for word in argv]
    assert codes(write_pack({"commands.toml": command(words)})) == {"outside_pack"}


def test_a_command_cannot_reach_outside_the_pack_by_a_link(write_pack: WritePack, tmp_path: Path) -> None:
    """Neither as the program nor as its argument, nor through a linked folder."""
    outside = tmp_path / "other"
    outside.mkdir()
    (outside / "run.sh").write_text("echo 1")
    for number, argv in enumerate((["./run.sh"], ["sh", "run.sh"], ["sh", "linked/run.sh"])):
        folder = write_pack({"commands.toml": command(argv)}, f"pack{number}")
        (folder / "run.sh").symlink_to(outside / "run.sh")
        (folder / "linked").symlink_to(outside)
        assert codes(folder) == {"symlink"}, argv


def test_a_program_of_the_pack_must_be_there_when_it_is_loaded(write_pack: WritePack) -> None:
    """One that appears later was never hashed."""
    assert codes(write_pack({"commands.toml": command(["./run.sh"])})) == {"missing_file"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "more", "file"),
    [
        (["sh", "run.sh"], "", "run.sh"),
        (["sh", "sub/run.sh"], "", "sub/run.sh"),
        (["sh", "run.sh"], 'cwd = "sub"', "sub/run.sh"),
        (["./run.sh"], "", "run.sh"),
        (["sh", "run.sh", "--config=sub/it.conf"], "", "sub/it.conf"),
        (["sh", "run.sh", "-csub/it.conf"], "", "sub/it.conf"),
        (["sh", "run.sh", "-xcit.conf"], 'cwd = "sub"', "sub/it.conf"),
        (["sh", "run.sh", "CONFIG=sub/it.conf"], "", "sub/it.conf"),
        (["sh", "run.sh", "--set=CONFIG=sub/it.conf"], "", "sub/it.conf"),
        (["sh", "run.sh", "--flags=-csub/it.conf"], "", "sub/it.conf"),
        (["sh", "run.sh", "--data=@sub/it.conf"], "", "sub/it.conf"),
    ],
)
def test_a_file_that_a_command_names_is_hashed_and_compared_before_each_call(
    write_pack: WritePack, argv: list[str], more: str, file: str
) -> None:
    """A change after the pack was loaded makes the call fail, and another pack of the next load."""
    files = {"run.sh": "#!/bin/sh\necho 1\n", "sub/run.sh": "echo 1\n", "sub/it.conf": "a"}
    folder = write_pack({"commands.toml": command(argv, more), **files})
    (folder / "run.sh").chmod(0o755)
    pack = Pack.load(folder)
    assert not isinstance(run(pack), NotHappened)
    (folder / file).write_text("#!/bin/sh\necho changed\n")
    ended = run(pack)
    assert isinstance(ended, NotHappened)
    assert (ended.code, ended.is_retriable) == ("program_changed", False)
    assert Pack.load(folder).hash != pack.hash


@pytest.mark.slow
def test_a_listed_file_outside_the_pack_is_hashed(write_pack: WritePack, tmp_path: Path) -> None:
    """The pack says that it means it; then its bytes count like those of the pack."""
    outside = tmp_path / "run.sh"
    outside.write_text("echo 1")
    folder = write_pack(
        {"commands.toml": command(["sh", str(outside)], f"outside_files = [{json.dumps(str(outside))}]")}
    )
    pack = Pack.load(folder)
    assert not isinstance(run(pack), NotHappened)
    outside.write_text("echo 2")
    ended = run(pack)
    assert isinstance(ended, NotHappened)
    assert ended.code == "program_changed"
    assert Pack.load(folder).hash != pack.hash


def test_a_listed_file_outside_the_pack_may_be_glued_to_an_option(
    write_pack: WritePack, tmp_path: Path
) -> None:
    """It is hashed and compared however the argument names it."""
    outside = tmp_path / "it.awk"
    outside.write_text("BEGIN { print 1 }")
    listed = f"outside_files = [{json.dumps(str(outside))}]"
    folder = write_pack({"commands.toml": command(["awk", f"-f{outside}"], listed)})
    pack = Pack.load(folder)
    outside.write_text("BEGIN { print 2 }")
    ended = run(pack)
    assert isinstance(ended, NotHappened)
    assert ended.code == "program_changed"


@pytest.mark.parametrize(
    "word", ["=" * 20_000, "-" + "a" * 20_000, "x" * 300, "-f" + "x" * 300, "-f", "a=", "@"]
)
def test_an_argument_that_names_no_file_is_not_a_problem(write_pack: WritePack, word: str) -> None:
    """However long it is, and however many values it may have."""
    assert codes(write_pack({"commands.toml": command(["echo", word])})) == set()


@pytest.mark.parametrize("replacement", ["pipe", "link", "folder", "large"])
def test_a_program_that_is_no_longer_a_regular_file_has_changed(
    write_pack: WritePack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replacement: str
) -> None:
    """It is neither read nor waited for: opening a pipe would never return."""
    folder = write_pack({"commands.toml": command(["./run.sh"]), "run.sh": "#!/bin/sh\necho 1\n"})
    program = folder / "run.sh"
    program.chmod(0o755)
    pack = Pack.load(folder)
    kept = program.rename(tmp_path / "kept.sh")
    match replacement:
        case "pipe":
            os.mkfifo(program)
        case "link":
            program.symlink_to(kept)
        case "folder":
            program.mkdir()
        case _:
            monkeypatch.setattr("tercet.tools.code.MAX_BYTES", 5)
            kept.rename(program)
    ended = run(pack)
    assert isinstance(ended, NotHappened)
    assert (ended.code, ended.is_retriable) == ("program_changed", False)


def test_a_listed_file_that_is_a_pipe_is_refused(write_pack: WritePack, tmp_path: Path) -> None:
    """Loading a pack does not wait for a program that writes to it."""
    os.mkfifo(tmp_path / "pipe")
    listed = json.dumps(str(tmp_path / "pipe"))
    folder = write_pack(
        {"commands.toml": command(["sh", str(tmp_path / "pipe")], f"outside_files = [{listed}]")}
    )
    assert codes(folder) == {"unreadable"}


@pytest.mark.parametrize("word", ["../server.py", "OUTSIDE", "-rOUTSIDE", "SERVER=OUTSIDE"])
def test_a_server_cannot_be_started_from_outside_the_pack(
    write_pack: WritePack, tmp_path: Path, word: str
) -> None:
    """Its definitions are pinned, and so is its code."""
    outside = tmp_path / "server.py"
    outside.write_text("")
    words: Any = ["python", word.replace("OUTSIDE", str(outside))]
    table = f'[[server]]\nname = "crm"\ncommand = {json.dumps(words)}\n'
    folder = write_pack({"mcp.toml": table, LOCK_FILE: lock_of(*SAID)})
    assert "outside_pack" in codes(folder)


def test_a_server_whose_file_has_changed_is_not_started(write_pack: WritePack) -> None:
    """It is compared with what was loaded whenever the server is started."""
    table = '[[server]]\nname = "crm"\ncommand = ["python", "server.py"]\n'
    labels = "".join(f'[[server.tool]]\nname = "{name}"\nmode = "read_only"\n' for name in ("look", "write"))
    files = {"mcp.toml": table + labels, LOCK_FILE: lock_of(*SAID), "server.py": "raise SystemExit"}
    folder = write_pack(files)
    tools = Lines().bind(Pack.load(folder).tools)
    (folder / "server.py").write_text("print('changed')")
    ended = asyncio.run(Gateway(SystemClock()).call(tools["crm.look"], {}, CONTEXT, timeout_ms=20_000))
    assert isinstance(ended, NotHappened)
    assert (ended.code, ended.is_retriable) == ("program_changed", False)
