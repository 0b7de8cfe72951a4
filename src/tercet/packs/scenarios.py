"""Reads the scenarios of a pack, and finds what in them cannot be meant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tercet.contracts.errors import PackError, PlanError, UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.packs.scenario import Scenario
from tercet.contracts.plan import Plan
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.problem import Problem
from tercet.packs.declarations import read_scenarios
from tercet.packs.folder import Draft
from tercet.packs.pack import Pack

FOLDER = "scenarios"
QUESTIONS = ("escalation", "reconcile", "rollback")
"""Gates without a name in the pack, by their kind."""
_HARMLESS = (ApprovalMode.READ_ONLY, ApprovalMode.LOCAL_WRITE)


@dataclass(frozen=True, kw_only=True)
class LoadedScenario:
    """A scenario with its file, and its plan if it has one."""

    file: str
    scenario: Scenario
    plan: Plan | None


def load_scenarios(path: str | os.PathLike[str], pack: Pack) -> tuple[LoadedScenario, ...]:
    """Return the scenarios of a pack's folder, by file and place; raise `PackError` with every problem in them."""
    draft = Draft(Path(path))
    files = draft.list_files(FOLDER, ".toml")
    found = [(file, scenario) for file in files for scenario in read_scenarios(draft, file)]
    problems = [*draft.problems]
    loaded: list[LoadedScenario] = []
    for file, scenario in found:
        wrong = [*_problems(file, scenario, pack)]
        try:
            plan = _read_plan(draft.folder, scenario)
            loaded.append(LoadedScenario(file=file, scenario=scenario, plan=plan))
        except UsageError as error:
            wrong.append(_problem(file, scenario, "plan", "scenario_plan", error.message, error.remedy or ""))
        problems += wrong
    if problems:
        raise PackError(problems)
    if not loaded:
        raise UsageError(
            f"{path} has no scenarios",
            code="no_scenarios",
            remedy=f"write one: a file {FOLDER}/first.toml with [[scenario]]",
        )
    return tuple(loaded)


def _read_plan(folder: Path, scenario: Scenario) -> Plan | None:
    if scenario.plan is None or not isinstance(scenario.plan, str):
        return None if scenario.plan is None else load_plan(scenario.plan)
    inside = Draft(folder)
    data = inside.read_bytes(scenario.plan)
    if data is None:
        raise PlanError(inside.problems)
    return load_plan(data)


def _problems(file: str, scenario: Scenario, pack: Pack) -> Iterator[Problem]:
    tools = {tool.name: tool for tool in pack.tools}
    actors = {actor.id for actor in pack.actors}
    for name in {*(result.tool for result in scenario.results), *scenario.real} - set(tools):
        yield _problem(
            file,
            scenario,
            "results",
            "unknown_tool",
            f"the pack has no tool {name}",
            "name a tool of the pack",
        )
    for name in scenario.real:
        if name in tools and tools[name].mode not in _HARMLESS:
            message = f"{name} is {tools[name].mode.value}: a scenario does not really call it"
            yield _problem(file, scenario, "real", "scenario_real", message, "say in results what it returns")
    known = {gate.name for gate in pack.gates} | set(QUESTIONS)
    for name in sorted(
        {*(answer.gate for answer in scenario.answers), *(scenario.expect.gates or ())} - known
    ):
        remedy = f"name a gate of the pack, or one of {', '.join(QUESTIONS)}"
        yield _problem(file, scenario, "answers", "unknown_gate", f"the pack has no gate {name}", remedy)
    for name in sorted({answer.by for answer in scenario.answers} - actors) if actors else ():
        remedy = "name one of actors.toml"
        yield _problem(file, scenario, "answers", "unknown_actor", f"the pack has no actor {name}", remedy)
    if sum(map(bool, (scenario.plan, scenario.planner, scenario.script))) > 1:
        message = "plan, planner and script all say where the plan comes from"
        yield _problem(file, scenario, "plan", "scenario_plan", message, "keep one of them")


def _problem(file: str, scenario: Scenario, key: str, code: str, message: str, remedy: str) -> Problem:
    return Problem(
        code=code, message=message, remedy=remedy, file=file, place=f"scenario {scenario.name}, {key}"
    )
