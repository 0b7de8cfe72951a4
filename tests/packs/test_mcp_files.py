"""`mcp.toml` and `mcp.lock.json`: what they make of a pack, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from mcp_servers.raw import definition
from packs.conftest import WritePack
from tercet.contracts.errors import PackError, UsageError
from tercet.contracts.mode import Trust
from tercet.contracts.tool import OncePer
from tercet.packs import Pack, check_folder
from tercet.packs.mcp_tools import LOCK_FILE, Lock, Pin, read_pins, write_lock
from tercet.tools import Tool
from tercet.tools.mcp import Definition, McpServer

SERVER = """
    [[server]]
    name = "crm"
    command = ["no-such-program", "serve.txt"]

    [[server.tool]]
    name = "look"
    mode = "read_only"

    [[server.tool]]
    name = "write"
    mode = "local_write"
    no_compensation = "it is written anew"
    timeout_ms = 1_234
    limits = ["size(args.text) < 90", { expression = "args.text != ''", message = "say something" }]
"""
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
SAID = [definition("look"), definition("write", inputSchema=TEXT, outputSchema={"type": "object"})]


def lock_of(*said: dict[str, Any], server: str = "crm", **more: Any) -> str:
    """A lock file that pins these definitions."""
    pins = {each["name"]: {"hash": Definition.read(each).hash, "definition": each, **more} for each in said}
    return json.dumps({"format": 1, "servers": {server: pins}})


@pytest.fixture
def write_mcp(write_pack: WritePack) -> WritePack:
    """A pack with a server of two tools, and with changes to its files."""

    def write(**changes: str | bytes | None) -> Path:
        files = {"mcp.toml": dedent(SERVER), LOCK_FILE: lock_of(*SAID), "serve.txt": "1", **changes}
        return write_pack({name: text for name, text in files.items() if text is not None})

    return write


def tool_named(pack: Pack, name: str) -> Tool:
    """A tool of a pack."""
    return next(tool for tool in pack.tools if tool.name == name)


def codes(folder: Path) -> dict[str, str]:
    """The problems that a folder has beside those of other files: code and place."""
    return {
        problem.code: f"{problem.place}:{problem.row}"
        for problem in check_folder(folder)
        if (problem.file or "").startswith("mcp") or problem.file == LOCK_FILE
    }


def test_loading_starts_nothing_and_takes_what_is_pinned(write_mcp: WritePack) -> None:
    """The program does not even exist; descriptions and schemas are those that a person has accepted."""
    pack = Pack.load(write_mcp())
    look, write = tool_named(pack, "crm.look"), tool_named(pack, "crm.write")
    assert (look.mode, look.adapter, look.result_trust) == ("read_only", "mcp", Trust.UNTRUSTED)
    assert (write.mode, write.parameters, write.result) == ("local_write", TEXT, {"type": "object"})
    assert (look.timeout_ms, write.timeout_ms) == (30_000, 1_234)
    assert [limit.expression for limit in write.limits] == ["size(args.text) < 90", "args.text != ''"]
    assert isinstance(look.outside, McpServer)
    assert look.outside is write.outside


def test_a_whole_pack_has_no_problem(write_mcp: WritePack) -> None:
    """Two labelled tools, both pinned."""
    assert codes(write_mcp()) == {}


def test_a_call_of_a_server_may_be_allowed_once_in_a_period(write_mcp: WritePack) -> None:
    """The table says it as `@tool` does; a parameter that the tool does not have is a problem."""
    once = 'once_per = { identity = ["text"], days = 30, then = "ask" }\n'
    table = dedent(SERVER) + once
    pack = Pack.load(write_mcp(**{"mcp.toml": table}))
    assert tool_named(pack, "crm.write").once_per == OncePer(identity=("text",), days=30, then="ask")
    wrong = write_mcp(**{"mcp.toml": table.replace('"text"]', '"txt"]')})
    assert codes(wrong).keys() == {"identity_unknown"}


@pytest.mark.parametrize(
    ("said", "trust"),
    [
        ("", Trust.UNTRUSTED),
        ("untrusted = []", Trust.TRUSTED),
        ('untrusted = ["note"]', Trust.TRUSTED),
        ('trust = "trusted"', Trust.TRUSTED),
        ('untrusted = []\ntrust = "untrusted"', Trust.UNTRUSTED),
    ],
)
def test_results_are_untrusted_unless_the_pack_says_otherwise(
    write_mcp: WritePack, said: str, trust: Trust
) -> None:
    """To list the fields that are other people's words is to say that the others are not."""
    table = f'[[server]]\nname = "crm"\ncommand = ["x"]\n[[server.tool]]\nname = "look"\nmode = "read_only"\n{said}'
    pack = Pack.load(write_mcp(**{"mcp.toml": table, LOCK_FILE: lock_of(SAID[0])}))
    assert tool_named(pack, "crm.look").result_trust is trust


def test_a_mark_with_a_dot_is_refused(write_mcp: WritePack) -> None:
    """It would mark nothing; a JSON Pointer says what is meant, also a name that has a dot in it."""
    for written, marks in (
        ("order.note", None),
        ("/order/note", "/order/note"),
        ("/order.note", "/order.note"),
    ):
        table = f'[[server]]\nname = "crm"\ncommand = ["x"]\n[[server.tool]]\nname = "look"\nmode = "read_only"\nuntrusted = ["{written}"]'
        folder = write_mcp(**{"mcp.toml": table, LOCK_FILE: lock_of(SAID[0])})
        if marks is not None:
            assert tool_named(Pack.load(folder), "crm.look").untrusted == (marks,)
            continue
        with pytest.raises(PackError, match="write /order/note for a field of a field"):
            Pack.load(folder)


def test_a_server_that_is_not_pinned_does_not_load(write_mcp: WritePack) -> None:
    """Nobody has seen what its tools say about themselves."""
    folder = write_mcp(**{LOCK_FILE: None})
    with pytest.raises(PackError, match="its tools are not pinned"):
        Pack.load(folder)
    assert codes(folder) == {"mcp_unpinned": "server crm:1"}


def test_a_tool_that_is_named_and_not_pinned_is_told_with_its_line(write_mcp: WritePack) -> None:
    """The nearest pinned name is suggested."""
    text = dedent(SERVER).replace('"write"', '"wriet"')
    [problem] = [p for p in check_folder(write_mcp(**{"mcp.toml": text})) if p.code == "mcp_unpinned"]
    assert (problem.row, problem.message) == (9, "no tool wriet is pinned")
    assert problem.remedy.startswith("did you mean write?")


def test_an_unlabelled_tool_is_destructive(write_mcp: WritePack) -> None:
    """It loads, `check` says so, and that it must be gated; a pack that does not want it takes others."""
    text = '[[server]]\nname = "crm"\ncommand = ["x"]\n'
    folder = write_mcp(**{"mcp.toml": text, LOCK_FILE: lock_of(SAID[0])})
    assert tool_named(Pack.load(folder), "crm.look").mode == "destructive"
    assert {"mcp_unlabelled", "ungated"} <= set(codes(folder))
    without = f'{text}tools = ["write"]\n[[server.tool]]\nname = "write"\nmode = "read_only"\n'
    pack = Pack.load(write_mcp(**{"mcp.toml": without}))
    assert [tool.name for tool in pack.tools if tool.adapter == "mcp"] == ["crm.write"]


def test_a_hint_raises_a_mode_and_check_says_so(write_mcp: WritePack) -> None:
    """The pack says read_only and pure, the server destructive: then it is destructive, and not pure."""
    said = definition("look", annotations={"destructiveHint": True, "idempotentHint": False})
    table = """
        [[server]]
        name = "crm"
        command = ["x"]

        [[server.tool]]
        name = "look"
        mode = "read_only"
        reversibility = "pure"
        idempotent = true
    """
    folder = write_mcp(**{"mcp.toml": dedent(table), LOCK_FILE: lock_of(said)})
    tool = tool_named(Pack.load(folder), "crm.look")
    assert (tool.mode, tool.effective_reversibility, tool.idempotent) == (
        "destructive",
        "irreversible",
        False,
    )
    found = codes(folder)
    assert found["mcp_mode_raised"] == "tool crm.look, mode:7"
    assert found["mcp_not_idempotent"] == "tool crm.look, idempotent:9"
    assert "ungated" in found


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ('name = "crm"', "either command"),
        ('name = "crm"\ncommand = ["x"]\nurl = "https://a.example"', "either command"),
        ('name = "crm"\nurl = "ftp://a.example"', "begins with https://"),
        ('name = "crm"\nurl = "http://a.example/mcp"', "outside of this machine"),
        ('name = "crm"\nurl = "https://u:p@a.example/mcp"', "holds no password"),
        ('name = "crm"\nurl = "https://a.example"\nenv = ["A"]', "env is for a command"),
        ('name = "crm"\ncommand = ["x"]\nheaders = { A = "B" }', "headers are for a url"),
        ('name = "crm"\ncommand = []', "at least 1 item"),
        ('name = "c r m"\ncommand = ["x"]', "wrong form"),
        ('name = "crm"\ncommand = ["x"]\ncomand = 1', "unknown key 'comand'"),
        ('name = "crm"\ncommand = ["x"]\n[[server.tool]]\nname = "a"\nmode = "harmless"', "it cannot be"),
    ],
)
def test_a_wrong_server_is_told(write_mcp: WritePack, server: str, said: str) -> None:
    """Every fault of the file has its line and a remedy."""
    problems = check_folder(write_mcp(**{"mcp.toml": f"[[server]]\n{server}\n"}))
    assert [problem for problem in problems if problem.file == "mcp.toml" and said in problem.message]


def test_names_that_meet_are_an_error(write_mcp: WritePack) -> None:
    """Two tools whose names differ only in letters that no name here has would be one."""
    twins = lock_of(definition("a b"), definition("a:b"))
    text = '[[server]]\nname = "crm"\ncommand = ["x"]\n'
    with pytest.raises(PackError, match="there are two of this name"):
        Pack.load(write_mcp(**{"mcp.toml": text, LOCK_FILE: twins}))


def test_a_name_of_a_python_tool_is_taken(write_mcp: WritePack) -> None:
    """A server cannot take the place of a tool of the pack."""
    text = '[[server]]\nname = "desk"\ncommand = ["x"]\n[[server.tool]]\nname = "find_copy"\nmode = "read_only"\n'
    folder = write_mcp(**{"mcp.toml": text, LOCK_FILE: lock_of(definition("find_copy"), server="desk")})
    with pytest.raises(PackError, match="there are two of this name"):
        Pack.load(folder)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "json_syntax"),
        ("[]", "wrong_value"),
        ('{"format": 2}', "wrong_value"),
        ('{"servers": {"crm": {"look": {}}}}', "missing_key"),
        (lock_of(SAID[0]).replace("Does what", "Does not what"), "mcp_lock_damaged"),
        (lock_of(SAID[0]).replace('{"look"', '{"other"'), "mcp_lock_damaged"),
        ("[" * 100_000, "json_syntax"),
    ],
)
def test_a_damaged_lock_is_not_believed(write_mcp: WritePack, text: str, code: str) -> None:
    """A definition that was edited by hand is not the one that was accepted."""
    folder = write_mcp(**{LOCK_FILE: text})
    assert code in codes(folder)
    with pytest.raises(PackError):
        Pack.load(folder)
    with pytest.raises(PackError):
        read_pins(folder)
    assert read_pins(folder, is_mending=True).lock == Lock()


def test_pins_of_a_server_that_is_gone_are_a_warning(write_mcp: WritePack) -> None:
    """They protect nothing, and harm nothing."""
    folder = write_mcp(**{"mcp.toml": None})
    assert codes(folder) == {"mcp_lock_unused": "server crm:None"}
    Pack.load(folder)


def test_the_hash_of_a_pack_knows_its_servers(write_mcp: WritePack) -> None:
    """How a server is started, the file of the pack that it runs, and what is pinned; not who pinned it, or when."""
    usual = Pack.load(write_mcp()).hash
    command = dedent(SERVER).replace("no-such-program", "another-program")
    errors = dedent(SERVER).replace('mode = "local_write"', 'mode = "local_write"\nerror_means = "not_done"')
    titled = [SAID[0] | {"title": "Look!"}, SAID[1]]
    assert Pack.load(write_mcp(**{"mcp.toml": command})).hash != usual
    assert Pack.load(write_mcp(**{"mcp.toml": errors})).hash != usual
    assert Pack.load(write_mcp(**{"serve.txt": "2"})).hash != usual
    assert Pack.load(write_mcp(**{LOCK_FILE: lock_of(*titled)})).hash != usual
    signed = lock_of(*SAID, pinned_by="ada", pinned_at="2026-05-09T09:30:00Z")
    assert Pack.load(write_mcp(**{LOCK_FILE: signed})).hash == usual


def test_a_pin_that_holds_keeps_its_date(tmp_path: Path) -> None:
    """Pinning again changes only what has changed; what is gone is gone, and other servers are left alone."""
    look, write = (Definition.read(each) for each in SAID)
    other = {"other": {"look": Pin(hash=look.hash, definition=look)}}
    first = Lock(servers=other).pinned("crm", {"look": look, "write": write}, by="ada", at="1")
    louder = Definition.read(SAID[0] | {"description": "Looks!"})
    second = first.pinned("crm", {"look": louder, "write": write}, by="bob", at="2")
    assert {name: pin.pinned_by for name, pin in second.servers["crm"].items()} == {
        "look": "bob",
        "write": "ada",
    }
    assert second.servers["other"] == first.servers["other"]
    assert list(second.pinned("crm", {"look": louder}, by="bob", at="3").servers["crm"]) == ["look"]
    write_lock(tmp_path, second)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_FILE]
    assert read_pins(tmp_path).lock == second


def test_a_server_that_is_not_there_is_wrong_use(write_mcp: WritePack) -> None:
    """The known ones are named."""
    pins = read_pins(write_mcp())
    assert [server.name for server in pins.wanted(None)] == ["crm"]
    with pytest.raises(UsageError, match="it has crm"):
        pins.wanted("erp")
