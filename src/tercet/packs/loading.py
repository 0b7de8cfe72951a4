"""Reads a pack folder.

Loading is deterministic: the same bytes give the same pack, wherever the folder is and in whatever order the file
system lists it. It does not stop at the first problem; it returns what could be read together with all problems.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

from tercet.contracts.errors import PlanError
from tercet.contracts.plan import Plan
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.problem import Problem
from tercet.packs.declarations import (
    ACTORS,
    ALL_DECLARED,
    DECISIONS,
    GATES,
    LANES,
    PACK_FILE,
    POLICIES,
    TUNING_FILE,
    nameless,
    read_declared,
    read_methods,
    read_pack_file,
    read_tuning,
)
from tercet.packs.evidence_files import FOLDER as EVIDENCE
from tercet.packs.evidence_files import read_evidence
from tercet.packs.folder import COMMANDS_FILE, HTTP_FILE, Draft
from tercet.packs.mcp_tools import read_mcp_tools
from tercet.packs.parts import PACK, Header, PackFile, Parts, Spot
from tercet.packs.python_tools import USUAL_FILE, read_tools
from tercet.tools.tool import Tool

TEMPLATES = "templates"
SCENARIOS = "scenarios"


def read_templates(draft: Draft) -> tuple[Plan, ...]:
    """Return the templates of the folder ordered by file name."""
    found: dict[str, Plan] = {}
    for name in draft.list_files(TEMPLATES, ".json"):
        text = draft.read_text(name)
        if text is None:
            continue
        try:
            plan = load_plan(text)
        except PlanError as error:
            for problem in error.problems:
                draft.note(problem.code, problem.message, problem.remedy, file=name, place=problem.place)
            continue
        if plan.intent is None or plan.intent in found:
            fault = (
                "a template names the intent that it is for"
                if plan.intent is None
                else f"there is another template for {plan.intent}"
            )
            draft.note("template_intent", fault, 'give it an "intent" of its own', file=name)
            continue
        draft.spots[f"template {plan.intent}"] = Spot(name)
        found[plan.intent] = plan
    return tuple(found.values())


_TOML_FILES = (
    PACK_FILE,
    *(declared.file for declared in ALL_DECLARED),
    HTTP_FILE,
    COMMANDS_FILE,
    TUNING_FILE,
)


_FOLDERS = {EVIDENCE: ".json", SCENARIOS: ".toml", TEMPLATES: ".json"}
"""The folders that a pack reads, and how the names of their files end."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A folder as far as it could be read, with all problems."""

    pack_file: PackFile
    parts: Parts
    tools: tuple[Tool, ...]
    code: Mapping[str, str]
    snapshot_times: Mapping[str, datetime]
    problems: tuple[Problem, ...]
    is_pack: bool = True
    """Whether this is a pack folder at all."""


def read_folder(path: str | os.PathLike[str]) -> Loaded:
    """Return everything that a pack folder declares, with every problem of reading it."""
    shown = os.fspath(path)
    draft = Draft(_real(shown))
    if not _is_pack(draft, shown):
        return Loaded(
            pack_file=nameless(), parts=Parts(), tools=(), code={}, snapshot_times={}, problems=tuple(draft.problems),
            is_pack=False,
        )  # fmt: skip
    draft.spots |= {PACK: Spot(PACK_FILE), "decisions": Spot(DECISIONS.file), "tools": Spot(USUAL_FILE)}
    _note_ignored_files(draft)
    pack_file = read_pack_file(draft)
    tools, code = _read_all_tools(draft, pack_file)
    decisions, gates = read_declared(draft, DECISIONS), read_declared(draft, GATES)
    policies, actors = read_declared(draft, POLICIES), read_declared(draft, ACTORS)
    evidence, times = read_evidence(draft)
    parts = Parts(
        **{
            each.name: getattr(pack_file, each.name)
            for each in fields(Parts)
            if each.name in Header.model_fields
        },
        tools=tools,
        decisions=decisions,
        gates=gates,
        policies=policies,
        lanes=read_declared(draft, LANES),
        actors=actors,
        evidence=evidence,
        templates=read_templates(draft),
        library=read_methods(draft),
        tuning=read_tuning(draft),
        spots=draft.spots,
        broken=frozenset(draft.broken),
        unread=frozenset(draft.unread),
    )
    return Loaded(
        pack_file=pack_file,
        parts=parts,
        tools=tools,
        code=code,
        snapshot_times=times,
        problems=tuple(draft.problems),
    )


def _read_all_tools(draft: Draft, pack_file: PackFile) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """Return the tools of all kinds, and the hash of everything that they came from."""
    tools, code = read_tools(draft, pack_file)
    # Importing the code for services and programs takes a while, and most packs have neither.
    if draft.has(HTTP_FILE):
        from tercet.packs.outside_files import read_services  # noqa: PLC0415 - see above

        more, declared = read_services(draft)
        tools, code = (*tools, *more), {**code, **declared}
    if draft.has(COMMANDS_FILE):
        from tercet.packs.outside_files import read_commands  # noqa: PLC0415 - see above

        more, declared = read_commands(draft)
        tools, code = (*tools, *more), {**code, **declared}
    more, declared = read_mcp_tools(draft)
    return (*tools, *more), {**code, **declared}


def _real(path: str) -> Path:
    """Return the folder itself: a pack may be reached through a link, but its files may not be links."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # a null character in the path
        return Path(path)


def _is_pack(draft: Draft, shown: str) -> bool:
    """Return whether the folder exists and has at least one file of a pack."""
    if not draft.has("."):
        draft.note(
            "missing_folder",
            "there is no such folder",
            "check the path, or make a pack: tercet init DIR",
            file=shown,
        )
        return False
    if not draft.folder.is_dir():
        draft.note(
            "not_a_folder", "a pack is a folder", f"name the folder that holds {PACK_FILE}", file=shown
        )
        return False
    if draft.has(PACK_FILE):
        return True
    draft.note(
        "missing_file",
        f"there is no {PACK_FILE} in {shown}",
        'add one with name = "…" and version = "1.0.0"',
        file=PACK_FILE,
    )
    return any(draft.has(name) for name in (*_TOML_FILES, USUAL_FILE))


def _note_ignored_files(draft: Draft) -> None:
    """Note TOML files with an unknown name, and folders whose name is close to one that is read."""
    for name in draft.list_files(".", ".toml"):
        if name not in _TOML_FILES:
            stems = [known.removesuffix(".toml") for known in _TOML_FILES]
            near = get_close_matches(name.removesuffix(".toml"), stems, n=1)
            remedy = f"did you mean {near[0]}.toml?" if near else f"a pack reads {', '.join(_TOML_FILES)}"
            draft.note("unknown_file", f"{name} is not read", remedy, file=name)
    for name in draft.list_folders():
        near = get_close_matches(name.lower(), list(_FOLDERS), n=1, cutoff=0.8)
        if name not in _FOLDERS and near and draft.list_files(name, _FOLDERS[near[0]]):
            draft.note(
                "unknown_folder",
                "this folder is not read",
                f"did you mean {near[0]}/?",
                file=f"{name}/",
                severity="warning",
            )
