"""`check`: finds all problems of a pack."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tercet.contracts.problem import Problem
from tercet.packs.checks import Check
from tercet.packs.checks.decisions import DECISION_CHECKS, GOAL_CHECKS
from tercet.packs.checks.effects import EFFECT_CHECKS
from tercet.packs.checks.expressions import LOADING_CHECKS
from tercet.packs.checks.gates import AUTHORITY_CHECKS, GATE_CHECKS
from tercet.packs.checks.limits import LIMIT_CHECKS, SESSION_CHECKS
from tercet.packs.checks.quality import PLACE_CHECKS, QUALITY_CHECKS
from tercet.packs.checks.rule_fields import RULE_CHECKS
from tercet.packs.checks.templates import TEMPLATE_CHECKS
from tercet.packs.checks.tools import EXTRA_CHECKS, LANE_CHECKS, TOOL_CHECKS
from tercet.packs.checks.unused import SENTENCE_CHECKS, UNUSED_CHECKS
from tercet.packs.loading import read_folder
from tercet.packs.pack import Pack
from tercet.packs.parts import Parts
from tercet.packs.scenarios import read_all
from tercet.packs.surfaces import TUNING_CHECKS

CHECKS: tuple[Check, ...] = (
    *LOADING_CHECKS,
    *RULE_CHECKS,
    *TOOL_CHECKS,
    *EFFECT_CHECKS,
    *GATE_CHECKS,
    *SESSION_CHECKS,
    *DECISION_CHECKS,
    *LANE_CHECKS,
    *SENTENCE_CHECKS,
    *AUTHORITY_CHECKS,
    *LIMIT_CHECKS,
    *QUALITY_CHECKS,
    *PLACE_CHECKS,
    *TUNING_CHECKS,
    *TEMPLATE_CHECKS,
    *GOAL_CHECKS,
    *UNUSED_CHECKS,
    *EXTRA_CHECKS,
)


def check(pack: Pack) -> tuple[Problem, ...]:
    """Return every problem of a pack, by file and row; without problems of severity error the pack can be used."""
    return _ordered(_found(pack.parts))


def check_folder(path: str | os.PathLike[str]) -> tuple[Problem, ...]:
    """Return every problem of a pack folder: those that keep it from loading, those in the rest, and those of its scenarios.

    Scenarios are held against the pack's parts only where all of these could be read.
    """
    loaded = read_folder(path)
    problems = [*loaded.problems, *(_found(loaded.parts) if loaded.is_pack else ())]
    if not any(problem.severity == "error" for problem in loaded.problems):
        problems += read_all(path, loaded.parts)[1]
    return _ordered(problems)


def _found(parts: Parts) -> list[Problem]:
    return [problem for look in CHECKS for problem in look(parts)]


def _ordered(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda problem: (problem.file or "", problem.row or 0)))
