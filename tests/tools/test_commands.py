"""Commands: a program gets exactly the arguments of its template, is held to its limits, and leaves nobody behind."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tercet.contracts.errors import GatewayError, NotDone
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.core.answers import Done, Ended, NotHappened, Unknown
from tercet.executor.clock import SystemClock
from tercet.executor.gateway import Gateway
from tercet.tools import ToolContext
from tercet.tools.commands import Command, TemplateError, command_tool
from tercet.tools.commands.command import fill, names_in, read_template
from tercet.tools.commands.making import Place

pytestmark = pytest.mark.slow
CONTEXT = ToolContext(
    tenant="t", run_id="r", step_id="s", actor="ada", idempotency_key="key-1", fencing_token=7
)
TEXT = {"type": "string"}


def python(code: str, *arguments: str) -> list[str]:
    """The template of a small Python program."""
    return [sys.executable, "-I", "-S", "-c", code.replace("$", "$$"), *arguments]


def declare(argv: list[str], **fields: Any) -> Command:
    """A command with this template."""
    return Command.model_validate({"name": "ops.it", "argv": argv, **fields})


def run(
    argv: list[str], params: dict[str, Any] | None = None, *, place: Place | None = None, timeout_ms: int = 600_000, **fields: Any
) -> Ended:  # fmt: skip
    """How one call of a command ends."""
    tool = command_tool(declare(argv, **fields), place=place)
    return asyncio.run(Gateway(SystemClock()).call(tool, params or {}, CONTEXT, timeout_ms=timeout_ms))


def value(ending: Ended) -> Any:
    """What a command gave that did its work."""
    assert isinstance(ending, Done), ending
    assert not ending.error, ending
    return ending.value


# --- arguments ---

texts = st.text(max_size=20).filter(lambda text: "\0" not in text)


@given(texts, texts)
def test_a_placeholder_is_one_argument_whatever_it_holds(one: str, two: str) -> None:
    """Nothing is split, joined or expanded."""
    template = read_template(["it", "--", "${one}", "a${two}b", "$$HOME"])
    assert fill(template, {"one": one, "two": two}) == ["it", "--", one, f"a{two}b", "$HOME"]


@settings(max_examples=25)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20))
def test_a_program_gets_its_arguments_to_the_letter(text: str) -> None:
    """No shell reads them: what a plan says arrives as it is."""
    code = "import sys; sys.stdout.buffer.write(repr(sys.argv[2:]).encode('utf-8', 'surrogateescape'))"
    ending = run(
        python(code, "--", "${text}"), {"text": text}, parameters={"text": TEXT}, env=["LANG", "LC_ALL"]
    )
    assert value(ending).encode("utf-8") == repr([text]).encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("argv", "values", "is_refused"),
    [
        (["it", "${a}"], {"a": "-rf"}, True),
        (["it", "${a}"], {"a": "--help"}, True),
        (["it", "${a}${b}"], {"a": "", "b": "-x"}, True),
        (["it", "${a}"], {"a": -5}, True),
        (["it", "--", "${a}"], {"a": "-rf"}, False),
        (["it", "--path=${a}"], {"a": "-rf"}, False),
        (["it", "-n${a}"], {"a": "-1"}, False),
        (["it", "./${a}"], {"a": "-rf"}, False),
        (["it", "${a}"], {"a": "rf-"}, False),
        (["it", "${a}${b}"], {"a": "x", "b": "-y"}, False),
        (["it", "--x", "${a}"], {"a": "-y"}, True),
    ],
)
def test_a_value_does_not_become_an_option(argv: list[str], values: dict[str, Any], is_refused: bool) -> None:
    """One that would begin an argument with '-' is refused, unless '--' ends the options before it."""
    template = read_template(argv)
    if not is_refused:
        fill(template, values)
        return
    with pytest.raises(NotDone) as caught:
        fill(template, values)
    assert (caught.value.code, caught.value.is_retriable) == ("argument_unsendable", False)
    assert fill(template, values, frozenset(values))


@pytest.mark.parametrize("wrong", [[], {}, None, "a\0b", "x" * 200_000])
def test_a_value_that_is_no_argument_is_refused(wrong: Any) -> None:
    """Lists and objects go by stdin."""
    with pytest.raises(NotDone):
        fill(read_template(["it", "${a}"]), {"a": wrong})


@pytest.mark.parametrize(
    "argv", [["$x"], ["it", "${"], ["it", "${a-b}"], ["it", "$"], ["${a}"], [""], ["it", "a\0"]]
)
def test_a_template_that_means_nothing_is_refused(argv: list[str]) -> None:
    """A dollar sign begins a parameter or is written twice; the program is no parameter."""
    with pytest.raises(TemplateError):
        read_template(argv)


def test_a_template_names_its_parameters() -> None:
    """Each once, in the order of the arguments."""
    assert names_in(read_template(["it", "${b}", "${a}${b}", "$${c}"])) == ("b", "a")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"argv": ["it", "${a}"]}, "not a parameter"),
        ({"argv": ["it"], "parameters": {"a": TEXT}}, "never used"),
        ({"argv": ["it", "${a}"], "parameters": {"a": {"type": "array"}}}, "stdin"),
        ({"argv": ["it"], "done": [300]}, "not an exit code"),
        ({"argv": ["it"], "not_done": [0]}, "both"),
        ({"argv": ["it"], "env": ["A=B"]}, "not a valid variable name"),
        ({"argv": ["it"], "result_schema": {}}, "only JSON"),
        ({"argv": []}, "at least 1"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(fields: dict[str, Any], words: str) -> None:
    """Each with a sentence that says what is wrong."""
    with pytest.raises(ValidationError, match=words):
        Command.model_validate({"name": "ops.it", **fields})


def test_a_command_is_careful_until_the_pack_says_otherwise() -> None:
    """Destructive, untrusted, and every parameter without a default must be given."""
    fields: dict[str, Any] = {
        "parameters": {"a": {**TEXT, "may_be_option": True}, "b": {**TEXT, "default": "x"}}
    }
    tool = command_tool(declare(["it", "${a}", "${b}"], timeout_ms=777, **fields))
    assert (tool.mode, tool.result_trust, tool.adapter) == (
        ApprovalMode.DESTRUCTIVE,
        Trust.UNTRUSTED,
        "command",
    )
    assert (tool.parameters["required"], tool.timeout_ms) == (["a"], 777)
    assert tool.parameters["properties"]["a"] == TEXT


# --- what a program sees ---


def test_a_program_sees_the_allowed_variables_and_its_key() -> None:
    """Nothing of the environment but what is listed, what names the action, and the fence."""
    world = {"PATH": os.defpath, "SHOWN": "yes", "HIDDEN": "no"}
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    seen = value(run(python(code), place=Place(environment=world), env=["SHOWN", "ABSENT"], result="json"))
    own = {key: text for key, text in seen.items() if key != "LC_CTYPE"}  # Python sets that one by itself
    assert own == {"SHOWN": "yes", "TERCET_IDEMPOTENCY_KEY": "key-1", "TERCET_FENCING_TOKEN": "7"}


def test_a_program_reads_all_parameters_as_json() -> None:
    """Lists and objects too, and defaults; more than fits into a pipe."""
    given = {"items": list(range(50_000)), "who": "ü"}
    fields: dict[str, Any] = {
        "stdin": "json",
        "parameters": {"items": {"type": "array"}, "who": TEXT, "n": {"default": 3}},
    }
    code = "import sys, json; d = json.load(sys.stdin.buffer); print(json.dumps([len(d['items']), d['who'], d['n']]))"
    assert value(run(python(code), given, result="json", **fields)) == [50_000, "ü", 3]


def test_a_program_that_reads_finds_an_end() -> None:
    """Where nothing is given, it does not wait for somebody to type."""
    assert value(run(python("import sys; print(len(sys.stdin.read()))"))) == "0\n"


def test_a_program_runs_in_its_folder(tmp_path: Path) -> None:
    """The folder of the pack, or the one inside it that is named."""
    (tmp_path / "inner").mkdir()
    shown = value(run(python("import os; print(os.getcwd())"), place=Place(folder=tmp_path), cwd="inner"))
    assert Path(shown.strip()) == (tmp_path / "inner").resolve()


def test_secrets_of_a_program_are_cut_out_of_what_it_prints() -> None:
    """In its output and in its complaints."""
    place = Place(environment={"TOKEN": "sk_12345678"})
    code = "import os, sys; print(os.environ['TOKEN'])"
    assert value(run(python(code), place=place, secrets=["TOKEN"], env=[])) == "[redacted]\n"
    failing = run(
        python("import os, sys; sys.exit(os.environ['TOKEN'])"), place=place, secrets=["TOKEN"], env=[]
    )
    assert "[redacted]" in failing.error
    assert "sk_1234" not in failing.error
    missing = run(python(""), place=Place(environment={}), secrets=["TOKEN"])
    assert isinstance(missing, NotHappened)
    assert missing.code == "secret_missing"


# --- how it ends ---


@pytest.mark.parametrize(
    ("code", "mode", "kind"),
    [
        (0, "destructive", Done),
        (3, "destructive", Done),
        (2, "destructive", NotHappened),
        (64, "destructive", NotHappened),
        (1, "destructive", Unknown),
        (137, "destructive", Unknown),
        (1, "read_only", NotHappened),
    ],
)
@pytest.mark.req("R110")
def test_an_exit_code_says_what_happened(code: int, mode: str, kind: type) -> None:
    """Done and not done are what the pack lists; every other code leaves it open."""
    fields: dict[str, Any] = {"done": [0, 3], "not_done": [2, 64], "mode": mode}
    ending = run(python(f"import sys; print('why', file=sys.stderr); sys.exit({code})"), **fields)
    assert isinstance(ending, kind)
    if not isinstance(ending, Done):
        assert (ending.code, "why" in ending.error) == (f"exit_{code}", True)


def test_why_a_program_failed_is_read_at_the_end_of_what_it_said() -> None:
    """However much it said before."""
    code = "import sys; sys.stderr.write('warning ' * 5_000 + 'the disk is full'); sys.exit(3)"
    ending = run(python(code))
    assert isinstance(ending, Unknown)
    assert ending.error.endswith("warning the disk is full")


@pytest.mark.parametrize(("before", "behind"), [(2_010, 0), (500, 3_900), (500, 4_000)])
def test_no_half_of_a_secret_is_left_where_words_are_cut(before: int, behind: int) -> None:
    """What is kept of a long text begins and ends with a whole word."""
    planted = "".join(f"{number:x}" for number in range(200))
    place = Place(environment={"PATH": os.defpath, "TOKEN": planted})
    said = f"'w ' * {before} + os.environ['TOKEN'] + ' ' * {behind}"
    ending = run(
        python(f"import os, sys; sys.stderr.write({said}); sys.exit(3)"), place=place, secrets=["TOKEN"]
    )
    assert isinstance(ending, Unknown)
    assert not any(planted[start : start + 12] in ending.error for start in range(len(planted) - 12))


def test_a_program_that_is_given_up_leaves_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Its output is not read any more, and nobody is told of that as of an error."""
    ending = run(python("import sys\nwhile True: sys.stderr.write('y' * 65_536)"), timeout_ms=500)
    gc.collect()
    assert isinstance(ending, Unknown)
    assert not caplog.records


def test_a_program_that_a_signal_ends_leaves_it_open() -> None:
    """Nobody knows how far it came."""
    ending = run(python("import os; os.kill(os.getpid(), 9)"))
    assert isinstance(ending, Unknown)
    assert (ending.code, ending.error) == ("signalled", "ops.it was ended by signal 9")


@pytest.mark.parametrize(
    ("result", "printed", "read"),
    [("text", "a\\nb\\n", "a\nb\n"), ("lines", "a\\nb\\n", ["a", "b"]), ("json", '[1, "ü"]', [1, "ü"])],
)
def test_output_is_read_as_the_pack_says(result: str, printed: str, read: Any) -> None:
    """As a text, as lines, or as JSON."""
    code = f"import sys; sys.stdout.buffer.write('{printed}'.encode())"
    assert value(run(python(code), result=result)) == read


def test_bytes_that_are_no_text_are_replaced() -> None:
    """Output is text, whatever a program prints."""
    assert value(run(python("import sys; sys.stdout.buffer.write(b'a\\xffb')"))) == "a�b"


@pytest.mark.parametrize("printed", ["{", "[NaN]", '{"a": 1, "a": 2}', "[9007199254740993]", "[" * 3_000])
def test_json_that_is_none_is_done_and_of_no_use(printed: str) -> None:
    """The program did its work, so it is not run again; a read may be."""
    assert isinstance(run(python(f"print('{printed}')"), result="json"), Done)
    ending = run(python(f"print('{printed}')"), result="json", mode="read_only")
    assert isinstance(ending, NotHappened)
    assert ending.code == "answer_not_json"


def test_a_result_is_checked_by_its_schema() -> None:
    """What a program prints is what the pack says that it prints."""
    ending = run(python("print('[1]')"), result="json", result_schema={"type": "object"})
    assert isinstance(ending, Done)
    assert "breaks its schema" in ending.error


# --- what it is held to ---


def test_endless_output_is_ended() -> None:
    """The program is killed at the limit, and how far it came is not known; exactly the limit is no fault."""
    ending = run(python("while True: print('x' * 1000)"), max_output_bytes=10_000)
    assert isinstance(ending, Unknown)
    assert ending.code == "output_too_large"
    assert len(value(run(python("print('x' * 9999)"), max_output_bytes=10_000))) == 10_000


def test_endless_complaints_do_not_hold_a_program_up() -> None:
    """What it says to nobody is read and thrown away."""
    assert value(run(python("import sys; sys.stderr.write('e' * 1_000_000); print('done')"))) == "done\n"


def lives(fifo: Path, has_begun: threading.Event | None = None) -> bool:
    """Whether somebody still holds the other end of a pipe open, waited for until nobody does."""
    with fifo.open("rb") as file:
        if has_begun is not None:
            has_begun.set()
        file.read()
    return False


FAMILY = """
import os, sys, time
fifo = sys.argv[2]
held = os.open(fifo, os.O_WRONLY)
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(600)
    time.sleep(600)
{then}
"""


@pytest.mark.parametrize(
    ("then", "timeouts_ms"),
    [
        ("time.sleep(600)", (1_500, 15_000, 150_000)),
        ("print('done'); os._exit(0)", (600_000,)),
        ("os.kill(os.getpid(), 9)", (600_000,)),
    ],
    ids=["time-out", "ended", "killed"],
)
def test_children_and_their_children_do_not_outlive_the_call(
    tmp_path: Path, then: str, timeouts_ms: tuple[int, ...]
) -> None:
    """Each of them holds a pipe open; that it comes to its end proves that all of them are gone."""
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    has_begun = threading.Event()
    reading = threading.Thread(target=lives, args=(fifo, has_begun), daemon=True)
    reading.start()
    code = FAMILY.replace("{then}", then)
    ending: Ended | None = None
    for timeout_ms in timeouts_ms:  # on a busy machine the program may not even have begun
        ending = run(
            python(code, "--", "${fifo}"),
            {"fifo": str(fifo)},
            parameters={"fifo": TEXT},
            timeout_ms=timeout_ms,
        )
        if has_begun.is_set():
            break
    reading.join(600)
    assert not reading.is_alive()
    assert isinstance(ending, Done if "done" in then else Unknown)


@pytest.mark.req("R109")
async def test_who_is_cancelled_takes_the_program_along(tmp_path: Path) -> None:
    """A call that nobody waits for any more has no process left."""
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    code = "import os, sys, time; os.open(sys.argv[2], os.O_WRONLY); time.sleep(600)"
    tool = command_tool(declare(python(code, "--", "${fifo}"), parameters={"fifo": TEXT}))

    reading = asyncio.get_running_loop().run_in_executor(None, lives, fifo)
    calling = asyncio.ensure_future(tool.call(CONTEXT, fifo=str(fifo)))
    opened = asyncio.get_running_loop().run_in_executor(None, fifo.open, "rb")
    (await opened).close()  # opens once the program has opened it as well
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await asyncio.wait_for(reading, 600) is False


async def test_a_program_that_nobody_looks_after_ends_as_well() -> None:
    """The tool holds itself to its time, also where no gateway does."""
    tool = command_tool(declare(python("import time; time.sleep(600)"), timeout_ms=300))
    with pytest.raises(GatewayError, match="300 ms") as caught:
        await tool.call(CONTEXT)
    assert caught.value.code == "timeout"


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ({"max_memory_bytes": 2**28}, "x = bytearray(2**30)"),
        ({"max_cpu_seconds": 1}, "while True: pass"),
        ({"max_file_bytes": 1_000}, "import tempfile; f = tempfile.TemporaryFile(buffering=0); f.write(b'x' * 5000); f.write(b'x')"),
        ({"max_open_files": 16}, "import os; [os.open('/dev/null', 0) for _ in range(64)]"),
    ],
    ids=["memory", "time", "file", "files"],
)  # fmt: skip
def test_the_operating_system_holds_a_program_to_its_limits(limit: dict[str, Any], code: str) -> None:
    """Memory, processor time, the size of files and their number; without a limit the same program ends well."""
    assert isinstance(run(python(code), **limit), Unknown)
    if "while" not in code:
        assert value(run(python(code))) == ""


def test_limits_change_nothing_else() -> None:
    """A program under limits gets its arguments and its environment as without them."""
    code = "import sys, os; print(sys.argv[1:], os.environ['TERCET_IDEMPOTENCY_KEY'])"
    assert value(run(python(code, "a b"), max_open_files=64)) == value(run(python(code, "a b")))


def test_a_program_that_is_not_there_was_not_run(tmp_path: Path) -> None:
    """Nor was one that cannot be executed, with limits or without."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    for argv in (["no-such-program-here"], ["./absent"], ["./broken"]):
        for limits in (dict[str, Any](), dict[str, Any](max_open_files=64)):
            ending = run(argv, place=Place(folder=tmp_path), **limits)
            assert isinstance(ending, NotHappened)
            assert (ending.code, ending.is_retriable) == (
                "program_failed" if argv == ["./broken"] else "program_missing",
                False,
            )


def test_a_file_of_the_pack_that_changed_is_not_run(tmp_path: Path) -> None:
    """What runs is what was loaded and hashed."""
    (tmp_path / "it.py").write_text("print('other')")
    place = Place(folder=tmp_path, files={"it.py": "sha256:0"})
    ending = run([sys.executable, "it.py"], place=place)
    assert isinstance(ending, NotHappened)
    assert ending.code == "program_changed"
