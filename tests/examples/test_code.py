"""The code: a function whose tests fail is mended by what they say, and the tests are run again after every repair."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tercet import Actor, Request, Runtime
from tercet.contracts.question import Message, Question, Reply
from tercet.core import events as e
from tercet.models.model import Model
from tercet.packs import Pack

ROOT = Path(__file__).parents[2]
CODE = ROOT / "examples" / "code"
LOOP = (
    e.TestsRun, e.OutputsVerified, e.OutputsAttacked, e.OutputsCritiqued, e.OutputsRepaired, e.RunReported,
)  # fmt: skip
MENDED = {
    "late_fee": ("(days - 2) * daily", "(days - 3) * daily"),
    "is_open": ("9 < hour < closes", "9 <= hour < closes"),
}


def load_repair() -> ModuleType:
    """The program of the example; it is no part of a package."""
    spec = util.spec_from_file_location("tercet_example_repair", CODE / "repair.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


repair = load_repair()


class Overheard:
    """The stand-in of the example, with every question that it was asked."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self._model = repair.Mutations()
        self.name: str = self._model.name

    def price(self, question: Question) -> int:
        """What it costs."""
        return self._model.price(question)

    async def ask(self, question: Question) -> Reply:
        """Ask, and remember that."""
        self.questions.append(question)
        return await self._model.ask(question)


def mend(
    function: str, *models: Model, intent: str = "code.repair"
) -> tuple[Any, dict[str, Any], list[e.Event]]:
    """How a run for a function ended, its outputs, and what happened in the quality loop."""
    seen: list[e.Event] = []

    async def run() -> tuple[Any, dict[str, Any], list[e.Event]]:
        async with Runtime(
            Pack.load(CODE), repairers=models, watchdog_ms=None, tell=lambda _, event: seen.append(event)
        ) as runtime:
            asked = Request(intent=intent, input={"function": function})
            result = await runtime.run(asked, actor=Actor(id="desk"))
            outputs = (await runtime.state(result.session_id)).outputs
            return result, outputs, [event for event in seen if isinstance(event, LOOP)]

    return asyncio.run(run())


def check(function: str, code: str) -> str:
    """The JUnit report of the test command, run as the pack runs it."""
    ran = subprocess.run(
        [sys.executable, "-I", "-B", "check.py", "cases.py"],
        cwd=CODE,
        input=json.dumps({"function": function, "code": code}),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return str(json.loads(ran.stdout)["junit"])


@pytest.mark.req("R41", "R170", "R208")
@pytest.mark.parametrize("function", list(MENDED))
def test_a_failing_test_leads_to_a_repair_and_to_the_tests_again(function: str) -> None:
    """Each round is tests, VERIFY, CRITIQUE, REPAIR; the last one ends with all tests passed and a commit."""
    result, outputs, events = mend(function, Overheard())
    assert result.status == "completed", result.reason
    repairs = sum(isinstance(event, e.OutputsRepaired) for event in events)
    judged = [e.TestsRun, e.OutputsVerified, e.OutputsCritiqued]
    assert [type(event) for event in events] == [
        *[*judged, e.OutputsRepaired] * repairs,
        *judged,
        e.RunReported,
    ]
    assert repairs > 1, "the first guess is not the right one"
    ran = [event.result for event in events if isinstance(event, e.TestsRun)]
    assert all(one["failed"] for one in ran[:-1])
    assert (ran[-1]["failed"], ran[-1]["passed"]) == (0, ran[0]["passed"] + ran[0]["failed"])
    wrong, right = MENDED[function]
    source = (CODE / "functions" / f"{function}.py").read_text(encoding="utf-8")
    assert outputs["code"].startswith(source.replace(wrong, right)), "one small change, and nothing else"
    assert outputs["function"] == function


@pytest.mark.req("R185")
def test_what_passes_its_tests_is_mended_by_what_edge_cases_break() -> None:
    """Nobody wrote a test for a book without copies: a case of the schema finds it, and the same cases pass in the end."""
    result, outputs, events = mend("waiting_days", Overheard(), intent="code.harden")
    assert result.status == "completed", result.reason
    tested = [event for event in events if isinstance(event, e.TestsRun)]
    attacked = [event for event in events if isinstance(event, e.OutputsAttacked)]
    assert tested[0].result["failed"] == 0
    assert 1 < len(attacked) == sum(event.result["failed"] == 0 for event in tested) < len(tested)
    first, final = attacked[0].tried, attacked[-1].tried
    broken = [each["case"]["input"]["copies"] for each in first if "error" in each]
    assert (set(broken), len(first)) == ({0}, 8)
    assert [each["case"] for each in first] == [each["case"] for each in final]
    assert not any("error" in each for each in final)
    assert "if copies <= 0:" in outputs["code"]


@pytest.mark.req("R198")
def test_the_failure_is_data_in_the_question() -> None:
    """Whoever mends is told which test failed, what it expected and found, and the function and line, besides the source."""
    model = Overheard()
    _, _, events = mend("late_fee", model)
    first = next(event for event in events if isinstance(event, e.TestsRun)).result["errors"][-1]
    assert {name: first[name] for name in ("name", "expected", "actual", "location")} == {
        "name": "LateFee.test_the_fourth_day_counts",
        "expected": "2",
        "actual": "4",
        "location": "cases.py:28",
    }
    asked = model.questions[0].messages[0].text
    assert '"expected_vs_actual": "expected 2, found 4"' in asked
    assert '"failing_function": "test_the_fourth_day_counts"' in asked
    assert "(days - 2) * daily" in asked
    critique = next(event for event in events if isinstance(event, e.OutputsCritiqued))
    defects = [(one["dimension"], one["location"]) for one in critique.diagnosis["defects"]]
    assert defects == [("tests", "/code"), ("tests", "/code")]


@pytest.mark.req("R246")
def test_what_is_beyond_the_stand_in_goes_to_a_person_with_a_diagnosis() -> None:
    """When no change is left, the best source is handed over, which is that before the changes, with what fails in it."""
    result, outputs, events = mend("initials", Overheard())
    assert result.status == "paused"
    assert outputs["code"] == (CODE / "functions" / "initials.py").read_text(encoding="utf-8")
    assert "test_pass_rate is 0.5, below 1.0" in result.reason
    repairs = sum(isinstance(event, e.OutputsRepaired) for event in events)
    assert f"these are the outputs before the first of {repairs} repairs" in result.reason
    said = "tests: the test Initials.test_two_names fails: expected 'A. R.', found 'A.' (LOGIC_ERROR; tried 1 time: "
    assert said in result.reason
    assert "test_one_name" not in result.reason, "it passes in what is handed over"
    last = [event for event in events if isinstance(event, e.OutputsRepaired)][-1]
    assert (last.outcome, last.escalation["root_cause"]) == ("escalated", "CAPABILITY_LIMIT")
    assert all(entry["success"] is False for entry in last.log)


def test_without_a_model_nothing_is_tried() -> None:
    """Code is mended by no rule: the run is handed over with the failures as they are, and with the code as it was."""
    result, outputs, events = mend("late_fee")
    assert result.status == "paused"
    assert "LateFee.test_the_fourth_day_counts fails: expected 2, found 4" in result.reason
    assert "no repair was tried: nothing fits it" in result.reason
    assert outputs["code"] == (CODE / "functions" / "late_fee.py").read_text(encoding="utf-8")
    assert sum(isinstance(event, e.TestsRun) for event in events) > 0


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def is_open(hour, day:", "SyntaxError"),
        ("raise ValueError('no \\x00 such day')", "no ? such day"),
        ("def is_closed(): ...", "is_open"),
        ("def is_open(hour, day): return [].pop()", "pop from empty list"),
    ],
)
def test_source_that_cannot_be_run_is_a_failure_too(code: str, told: str) -> None:
    """Whatever a source does, the report says so, names it by its file alone, and is a report."""
    report = check("is_open", code)
    assert told in report
    assert str(CODE) not in report
    assert tempfile.gettempdir() not in report
    assert not list(CODE.rglob("__pycache__/cases*"))


def test_the_stand_in_takes_its_last_change_back_before_the_next() -> None:
    """It remembers nothing: the note at the end of what it is shown says which change to undo, and which comes next."""
    source = "def f(a: int = 5) -> bool:\n    return a < 3\n"
    changes = repair.find_changes(source, "comparisons")
    assert [f"{one.old} {one.new}" for one in changes] == ["< <=", "< >", "3 4", "3 2", "5 6", "5 4"]
    shown, said = source, set[str]()
    for _ in changes:
        part = f"The part to be replaced: <data-1a> {json.dumps(shown)} </data-1a>"
        asked = Question(messages=(Message(text=f'"the test fails: expected True, found False" {part}'),))
        shown = str(json.loads(asyncio.run(repair.Mutations().ask(asked)).text)["replacement"])
        assert repair.undo_change(shown)[0] == source
        said.add(shown)
    assert len(said) == len(changes)


@pytest.mark.parametrize(("words", "code"), [("", 0), (" initials", 5), (" nothing", 5)])
def test_the_command_on_the_page_ends_as_it_says(words: str, code: int) -> None:
    """It mends the function that it names, or says why not."""
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    [line] = [line for line in page.splitlines() if line.startswith("$ python examples/code/")]
    asked = shlex.split(line)[2:] + words.split()
    ran = subprocess.run(
        [sys.executable, *asked], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    if not words:
        assert "tests   4 passed, 0 failed\ncompleted:" in ran.stdout


def checked(code: str) -> dict[str, Any]:
    """What the test command says of a source of late_fee."""
    command = [sys.executable, "-I", "-B", "check.py", "cases.py"]
    asked = json.dumps({"function": "late_fee", "code": code})
    done = subprocess.run(
        command, cwd=CODE, input=asked, capture_output=True, text=True, check=True, timeout=600
    )
    return json.loads(done.stdout)


def test_code_under_test_has_no_network_where_the_platform_allows_it() -> None:
    """A listener on loopback is out of reach; where the process could not leave the network, it says so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=5)\ndef late_fee(days): return 0\n"
        said = checked(code)
    is_reached = "create_connection" not in said["junit"]
    assert is_reached == (said["network"] == "shared")
    if sys.platform == "linux" and can_leave_network():
        assert said["network"] == "none"


def can_leave_network() -> bool:
    """Whether this system lets a process have a network namespace of its own."""
    found = shutil.which("unshare")
    return (
        found is not None
        and subprocess.run([found, "-rn", "true"], check=False, capture_output=True).returncode == 0
    )


class Hog:
    """A model that answers with code which takes more memory than it may."""

    name = "scripted:hog"

    def price(self, question: Question) -> int:
        """Nothing."""
        del question
        return 0

    async def ask(self, question: Question) -> Reply:
        """Bring the code, whole or as the part that is asked for."""
        code = "blob = bytearray(2**30)\ndef late_fee(days, daily): return len(blob)\n"
        kind = (question.answer_schema or {})["properties"]["replacement"].get("type")
        part = {"function": "late_fee", "code": code} if kind == "object" else code
        return Reply(text=json.dumps({"replacement": part}), model=self.name)


def test_code_under_test_has_limits() -> None:
    """What takes more memory than it may is a failure of the code, and not of the machine."""
    _, _, events = mend("late_fee", Hog())
    ran = [event for event in events if isinstance(event, e.TestsRun)]
    assert "MemoryError" in str(ran[1].result)
