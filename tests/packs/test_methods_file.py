"""`methods.toml`: what is wrong in it is said with its file, its line, its place and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tercet.contracts.errors import PackError
from tercet.contracts.problem import Problem
from tercet.contracts.tasks import TaskLibrary
from tercet.packs import Pack
from tercet.packs.checking import check_folder
from tercet.tools import Tool

TASKS = """
[[goal]]
intent = "work"
task = "do"

[[fact]]
name = "load"
type = "integer"
value = { "$from" = "request#/load" }

[[task]]
name = "do"

[[task]]
name = "act"
tool = "x.act"
args = ["on"]
params = { on = { "$arg" = "on" } }

[[task]]
name = "rest"
tool = "x.act"
"""
FINE = """
[[method]]
name = "once"
task = "do"
applies = "state.load < 5"
cost = "state.load"
subtasks = [{ task = "act", args = { on = "a" } }, { task = "rest", when = "act.ok" }]
"""
TOOL = '''
from tercet import tool

@tool("x.act", mode="read_only", parameters={"type": "object"})
def act(**params: object) -> dict[str, bool]:
    """Do something."""
    return {"ok": True}
'''


def folder_with(tmp_path: Path, methods: str) -> Path:
    """A pack folder with this file of methods."""
    files = {
        "pack.toml": 'name = "p"\nversion = "1.0.0"\n',
        "decisions.toml": '[[decision]]\nid = "work"\n',
        "tools.py": TOOL,
        "methods.toml": methods,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def problems(tmp_path: Path, methods: str) -> list[Problem]:
    """What checking says of a file of methods."""
    found = check_folder(folder_with(tmp_path, methods))
    return [problem for problem in found if problem.file == "methods.toml"]


def way(subtasks: str, more: str = "", task: str = "do") -> str:
    """A method with these subtasks."""
    return f'{TASKS}\n[[method]]\nname = "m"\ntask = "{task}"\n{more}\nsubtasks = [{subtasks}]\n'


def test_a_library_loads_with_its_pack(tmp_path: Path) -> None:
    """Goals, facts, tasks and methods are part of the pack and of its hash."""
    folder = folder_with(tmp_path, TASKS + FINE)
    assert problems(tmp_path, TASKS + FINE) == []
    first = Pack.load(folder)
    assert [method.name for method in first.library.methods] == ["once"]
    other = Pack.load(folder_with(tmp_path, (TASKS + FINE).replace("< 5", "< 6")))
    assert first.hash != other.hash


@pytest.mark.parametrize(
    ("methods", "code", "place"),
    [
        (way('{ task = "gone" }'), "unknown_task", "method m, subtasks"),
        (way('{ task = "rest" }', task="act"), "task_kind", "task act"),
        (TASKS, "task_without_method", "task do"),
        (TASKS.replace("x.act", "x.gone") + FINE, "unknown_tool", "task act, tool"),
        (way('{ task = "rest" }, { task = "rest" }'), "subtask_name", "method m, subtasks"),
        (way('{ task = "rest", name = "request" }'), "subtask_name", "method m, subtasks"),
        (way('{ task = "rest", after = ["gone"] }', 'ordering = "partial"'), "unknown_subtask", "method m, subtasks"),
        (way('{ task = "rest" }', 'result = "gone"'), "unknown_subtask", "method m, subtasks"),
        (way('{ task = "rest" }, { task = "act", args = { on = 1 }, after = ["rest"] }'), "subtask_order", "method m, subtasks"),
        (
            way('{ task = "rest", after = ["b"] }, { task = "rest", name = "b", after = ["rest"] }', 'ordering = "partial"'),
            "subtask_order",
            "method m, subtasks",
        ),
        (way('{ task = "act", args = { on = { "$from" = "rest#/x" } } }, { task = "rest" }'), "subtask_order", "method m, subtasks"),
        (way('{ task = "act" }'), "task_arguments", "method m, subtasks"),
        (way('{ task = "rest", args = { on = 1 } }'), "task_arguments", "method m, subtasks"),
        (way('{ task = "act", args = { on = { "$arg" = "gone" } } }'), "task_arguments", "method m, subtasks"),
        (way('{ task = "act", args = { on = { "$form" = "x" } } }'), "task_value", "method m, subtasks"),
        (way('{ task = "act", args = { on = { "$from" = "gone#/x" } } }'), "unknown_subtask", "method m, subtasks"),
        (way('{ task = "act", args = { on = { "$cel" = "1 +" } } }'), "expression_invalid", "method m, subtasks"),
        (way('{ task = "rest" }', 'applies = "state.gone > 1"'), "expression_invalid", "method m, applies"),
        (way('{ task = "rest" }', 'applies = "state.load"'), "expression_invalid", "method m, applies"),
        (way('{ task = "rest" }', """applies = "state.load == 'a'" """), "expression_invalid", "method m, applies"),
        (way('{ task = "rest" }', """cost = "'a'" """), "expression_invalid", "method m, cost"),
        (way('{ task = "rest" }', 'when = "args.gone"'), "expression_invalid", "method m, when"),
        (way('{ task = "rest", when = "gone.ok" }'), "expression_invalid", "method m, subtasks"),
        (way('{ task = "do" }'), "endless_recursion", "task do"),
        (way('{ task = "rest" }', "price = 1"), "unknown_key", "method m, price"),
        (TASKS + FINE + '\n[[metod]]\nname = "x"\n', "unknown_key", ""),
        (TASKS + FINE + FINE, "duplicate_name", "method once"),
        ("[[goal]\n", "toml_syntax", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, methods: str, code: str, place: str) -> None:
    """Each mistake has a code, the file, a line or a place, and a remedy, and keeps the pack from loading."""
    found = problems(tmp_path, methods)
    assert code in {problem.code for problem in found}, found
    problem = next(problem for problem in found if problem.code == code)
    assert problem.place == place
    assert problem.remedy
    assert problem.row is not None
    with pytest.raises(PackError):
        Pack.load(tmp_path)


def test_infinite_recursion_is_named_with_its_circle(tmp_path: Path) -> None:
    """A library in which tasks only lead to each other is refused when it is loaded, with the circle."""
    tasks = '\n[[task]]\nname = "left"\n[[task]]\nname = "right"\n'
    methods = "".join(
        f'\n[[method]]\nname = "m_{task}"\ntask = "{task}"\nsubtasks = [{{ task = "{below}" }}]\n'
        for task, below in (("do", "left"), ("left", "right"), ("right", "left"))
    )
    (problem,) = [each for each in problems(tmp_path, TASKS + tasks + methods) if each.severity == "error"]
    assert problem.code == "endless_recursion"
    assert "left → right → left" in problem.message


def test_a_result_must_be_that_of_one_step(tmp_path: Path) -> None:
    """Reading the result of an abstract task asks all of its methods to name one."""
    more = '\n[[task]]\nname = "mid"\n[[method]]\nname = "n"\ntask = "mid"\nsubtasks = [{ task = "rest" }]\n'
    read = way('{ task = "mid" }, { task = "act", args = { on = { "$from" = "mid#/x" } } }')
    (problem,) = problems(tmp_path, read + more)
    assert problem.code == "task_without_result"
    assert problems(tmp_path, read + more.replace('task = "mid"\n', 'task = "mid"\nresult = "rest"\n')) == []


def test_a_pack_built_in_python_is_checked_too() -> None:
    """A library that could not be planned with is refused before anybody plans."""
    library = TaskLibrary.model_validate({"goals": [{"intent": "work", "task": "gone"}]})
    tool = Tool.model_validate({"name": "x.act", "mode": "read_only", "call": dict})
    with pytest.raises(PackError) as caught:
        Pack(name="p", version="1.0.0", tools=[tool], library=library)
    assert caught.value.problems[0].code == "unknown_task"
