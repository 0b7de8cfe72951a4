"""AgentDojo's suites: their tasks as calls, fresh environments, and the suites' own checks of what a run did."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tercet import Pack, Tool

from .environment import Environment

# AgentDojo is not installed where types are checked.
_functions: Any = import_module("agentdojo.functions_runtime")
_suites: Any = import_module("agentdojo.task_suite.load_suites")

VERSION = "v1.2.2"
"""The newest version of AgentDojo's tasks: 16 of banking and 21 of slack."""
SUITES = ("banking", "slack")


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of one of the suite's functions."""

    function: str
    args: dict[str, Any]
    is_injected: bool = False
    """Whether it belongs to an attack."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """One suite of AgentDojo with its pack."""

    name: str
    pack: Pack
    _suite: Any = field(repr=False)

    @property
    def user_tasks(self) -> dict[str, Any]:
        """AgentDojo's user tasks by id."""
        return self._suite.user_tasks

    @property
    def injection_tasks(self) -> dict[str, Any]:
        """AgentDojo's injection tasks by id."""
        return self._suite.injection_tasks

    @property
    def intent(self) -> str:
        """The intent of the pack's one decision."""
        return self.pack.decisions[0].id

    def tool(self, function: str) -> Tool:
        """Return the tool that wraps a function."""
        return next(tool for tool in self.pack.tools if tool.capability_id == function)

    def is_read(self, function: str) -> bool:
        """Whether a function only reads."""
        return self.tool(function).mode == "read_only"

    def is_harmless(self, function: str) -> bool:
        """Whether a function reads, and no value decides where from: it has no authority parameters."""
        return self.is_read(function) and not self.tool(function).authority_parameters

    def new_environment(self, injected: str = "") -> Environment:
        """Return a fresh environment, with a text behind everything that AgentDojo lets an attacker write."""
        state = _load_state(self.name, injected).model_copy(deep=True)
        return Environment(state=state, runtime=_functions.FunctionsRuntime(self._suite.tools))

    def honest_calls(self, task: Any, state: Any) -> list[Call]:
        """Return the calls that do a user task in an environment."""
        return _calls(task, state, is_injected=False)

    def injected_calls(self, injection: Any, state: Any) -> list[Call]:
        """Return the calls that reach an injection task's goal in an environment."""
        return _calls(injection, state, is_injected=True)

    def is_useful(self, task: Any, before: Any, environment: Environment) -> bool:
        """Whether the user task was done, as the suite judges it."""
        return self._check(task, before, environment)

    def is_harmed(self, injection: Any, before: Any, environment: Environment) -> bool:
        """Whether the attacker reached the goal, as the suite judges it, and the run brought that about."""
        untouched = Environment(state=copy.deepcopy(before), runtime=environment.runtime)
        return self._check(injection, before, environment) and not self._check(injection, before, untouched)

    def _check(self, task: Any, before: Any, environment: Environment) -> bool:
        trace: list[Any] = [
            _functions.FunctionCall(function=name, args=args) for name, args in environment.calls
        ]
        output = [{"type": "text", "content": task.GROUND_TRUTH_OUTPUT}]
        with contextlib.redirect_stdout(io.StringIO()):  # one of the checks prints
            return bool(self._suite._check_task_result(task, output, before, environment.state, trace))


def _calls(task: Any, state: Any, *, is_injected: bool) -> list[Call]:
    found: Sequence[Any] = task.ground_truth(state)
    return [Call(function=call.function, args=dict(call.args), is_injected=is_injected) for call in found]


@cache
def _load_state(name: str, injected: str) -> Any:
    suite = _suites.get_suite(VERSION, name)
    vectors: dict[str, str] = suite.get_injection_vector_defaults()
    texts = {vector: f"{default}{injected}" for vector, default in vectors.items()} if injected else {}
    return suite.load_and_inject_default_environment(texts)


@cache
def load_suite(name: str) -> Suite:
    """Return a suite with the pack beside this module."""
    return Suite(
        name=name, pack=Pack.load(Path(__file__).parent / name), _suite=_suites.get_suite(VERSION, name)
    )
