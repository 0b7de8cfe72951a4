"""Reads the scenarios of a pack, and finds what in them cannot be meant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tercet.contracts.errors import PackError, PlanError, UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.packs.scenario import Expectation, Scenario
from tercet.contracts.plan import Plan
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.problem import Problem
from tercet.packs.checks import did_you_mean
from tercet.packs.declarations import ACTORS, SCENARIOS, read_declared
from tercet.packs.folder import Draft
from tercet.packs.pack import Pack
from tercet.packs.parts import Parts

FOLDER = "scenarios"
QUESTIONS = ("approval", "compensation", "escalation", "output", "reconcile")
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
    loaded, problems = read_all(path, pack.parts)
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise PackError(errors)
    if not loaded:
        raise UsageError(
            f"{path} has no scenarios",
            code="no_scenarios",
            remedy=f"write {FOLDER}/first.toml with these lines, and your own input: [[scenario]] | "
            'name = "a tomato gets water" | input = { plant = "tomato" } | expect = { status = "completed" }',
        )
    return loaded


def read_all(path: str | os.PathLike[str], parts: Parts) -> tuple[tuple[LoadedScenario, ...], list[Problem]]:
    """Return the scenarios of a pack's folder, by file and place, with every problem in them."""
    draft = Draft(Path(path))
    problems: list[Problem] = []
    loaded: list[LoadedScenario] = []
    for file in draft.list_files(FOLDER, ".toml"):
        for scenario in read_declared(draft, SCENARIOS._replace(file=file)):
            wrong = [*_problems(scenario, parts)]
            try:
                plan = _read_plan(draft.folder, scenario)
                loaded.append(LoadedScenario(file=file, scenario=scenario, plan=plan))
            except UsageError as error:
                wrong.append(_problem(scenario, "plan", "scenario_plan", error.message, error.remedy or ""))
            for each in wrong:
                spot = draft.spots.get(each.place) or draft.spots[f"scenario {scenario.name}"]
                problems.append(each.model_copy(update={"file": file, "row": spot.row}))
    return tuple(loaded), [*draft.problems, *problems]


def _read_plan(folder: Path, scenario: Scenario) -> Plan | None:
    if scenario.plan is None or not isinstance(scenario.plan, str):
        return None if scenario.plan is None else load_plan(scenario.plan)
    inside = Draft(folder)
    data = inside.read_bytes(scenario.plan)
    if data is None:
        raise PlanError(inside.problems)
    return load_plan(data)


def _problems(scenario: Scenario, parts: Parts) -> Iterator[Problem]:
    actors = {actor.id for actor in parts.actors}
    for name in sorted({*(result.tool for result in scenario.results), *scenario.real} - set(parts.tool)):
        remedy = did_you_mean(name, parts.tool) or "name a tool of the pack"
        yield _problem(scenario, "results", "unknown_tool", f"the pack has no tool {name}", remedy)
    for name in scenario.real:
        if name in parts.tool and (mode := parts.tool[name].mode) not in _HARMLESS:
            message = f"{name} is {mode.value}: a scenario does not really call it"
            yield _problem(scenario, "real", "scenario_real", message, "say in results what it returns")
    gates = {*parts.gate, *QUESTIONS}
    for name in sorted(
        {*(answer.gate for answer in scenario.answers), *(scenario.expect.gates or ())} - gates
    ):
        remedy = did_you_mean(name, gates) or f"name a gate of the pack, or one of {', '.join(QUESTIONS)}"
        yield _problem(scenario, "answers", "unknown_gate", f"the pack has no gate {name}", remedy)
    named = {("answers", answer.by) for answer in scenario.answers}
    if "actor" in scenario.model_fields_set:
        named.add(("actor", scenario.actor))
    for key, name in sorted(named) if actors else ():
        if name not in actors:
            remedy = (
                did_you_mean(name, actors) or f"name one of {ACTORS.file}: {', '.join(sorted(actors)[:12])}"
            )
            yield _problem(scenario, key, "unknown_actor", f"the pack has no actor {name}", remedy)
    if sum(map(bool, (scenario.plan, scenario.planner, scenario.script))) > 1:
        message = "plan, planner and script all say where the plan comes from"
        yield _problem(scenario, "plan", "scenario_plan", message, "keep one of them")
    if _expects_any_refusal(scenario.expect):
        message = "any refusal would do: it passes also if the plan is refused for another reason than its name says"
        remedy = 'add code = "…" to expect; with a wrong one, tercet test shows the actual one'
        note = _problem(scenario, "expect", "scenario_without_code", message, remedy)
        yield note.model_copy(update={"severity": "note"})


def _expects_any_refusal(expect: Expectation) -> bool:
    is_refused = expect.verdict in ("replan", "reject") or (expect.status == "failed" and expect.calls == ())
    return is_refused and expect.code is None and expect.reason is None


def _problem(scenario: Scenario, key: str, code: str, message: str, remedy: str) -> Problem:
    return Problem(code=code, message=message, remedy=remedy, place=f"scenario {scenario.name}, {key}")
