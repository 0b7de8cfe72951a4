"""A proposal: everything that a person needs to decide about a candidate, in one folder.

The same search makes the same proposal, byte for byte: nothing in it tells the time or the machine.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError

from tercet.contracts.errors import UsageError, extra_missing
from tercet.contracts.packs.tuning import Candidate, SurfaceName, TemplateSurface, Value
from tercet.contracts.shape import Published, as_list, as_object
from tercet.contracts.values.canonical import digest, hash_bytes
from tercet.packs.declarations import DECISIONS, METHODS, PACK_FILE
from tercet.packs.pack import Pack
from tercet.packs.surfaces import PackPath, changes_of, missing, template_of
from tercet.replay.recording import Recording
from tercet.replay.tuning.evaluation import Evaluated, Evaluation, Expectation, expect
from tercet.replay.tuning.frozen import Guardrail, apply, demand_same
from tercet.replay.tuning.measuring import Outcome
from tercet.replay.tuning.scoring import Interval, Score
from tercet.replay.tuning.search import Found

FILE = "proposal.json"
DIFF = "pack.diff"
MOST_SHOWN = 20
"""The number of runs that are shown in full; the others are counted."""


class Change(Published):
    """One surface, before and after."""

    surface: SurfaceName
    id: str
    old: Value
    new: Value


class Basis(Published):
    """The basis of the scores."""

    given: int
    """How many recorded runs there were."""
    told: int
    """The number of runs that predict the effect of the candidate."""
    untold: dict[str, int] = {}
    """The reasons why the others do not, with their numbers."""
    unreproduced: tuple[str, ...] = ()
    corrected: int = 0
    """How many of them people have corrected."""


class Proposal(Published):
    """A candidate with its diff, its scores, its guardrails, and the predicted outcomes of runs."""

    version: Literal[1] = 1
    id: str = ""
    pack: str
    pack_hash: str
    """The pack that it was made for; it cannot be applied to another one."""
    new_version: str
    new_hash: str
    changes: tuple[Change, ...]
    edits: tuple[FileEdit, ...]
    gain: Interval
    """By how much the candidate is better, in the one number that was searched by."""
    before: Score
    after: Score
    basis: Basis
    guardrails: tuple[Guardrail, ...]
    expectations: tuple[Expectation, ...]
    changed_runs: int
    """The number of runs whose outcome would change."""
    trials: int
    tried: int
    refused: int
    seed: int

    @property
    def candidate(self) -> Candidate:
        """The values that are proposed."""
        return Candidate(values={each.id: each.new for each in self.changes})

    @property
    def diff(self) -> str:
        """The change of the pack as people read it."""
        return "".join(each.diff for each in self.edits)

    @property
    def is_sure(self) -> bool:
        """Whether the gain is above nothing in 95 of 100 sets of such runs."""
        return self.gain.low > 0


def propose(folder: Path, evaluation: Evaluation, found: Found, *, trials: int, seed: int) -> Proposal | None:
    """Return the proposal of a search; None if it found no improvement. Nothing is applied."""
    best = found.best
    if best is None:
        return None
    pack, candidate = evaluation.pack, best.candidate
    version = next_version(pack.version)
    pairs = best.compared.pairs
    changed = [new for old, new in pairs if (old.status, old.position) != (new.status, new.position)]
    kinds: dict[str, SurfaceName] = {each.id: each.surface for each in pack.tuning.surfaces}
    draft = Proposal(
        pack=pack.ref,
        pack_hash=pack.hash,
        new_version=version,
        new_hash=apply(pack, candidate, version=version).hash,
        changes=tuple(
            Change(surface=kinds[name], id=name, old=evaluation.now[name], new=value)
            for name, value in candidate.values.items()
        ),
        edits=edit_folder(folder, pack, candidate, version),
        gain=best.compared.interval(),
        before=best.compared.score(is_after=False),
        after=best.compared.score(is_after=True),
        basis=_basis(evaluation, best),
        guardrails=best.guardrails,
        expectations=_expectations(evaluation, candidate, changed),
        changed_runs=len(changed),
        trials=trials,
        tried=found.tried,
        refused=found.refused,
        seed=seed,
    )
    return draft.model_copy(update={"id": f"tune_{digest(draft)[7:23]}"})


def _basis(evaluation: Evaluation, best: Evaluated) -> Basis:
    after = best.compared.after
    reasons = [_kind(each.why) for each in after if not each.is_told]
    known = {each.session for each in evaluation.recordings}
    return Basis(
        given=len(evaluation.recordings),
        told=best.compared.runs,
        untold={reason: reasons.count(reason) for reason in sorted(set(reasons))},
        unreproduced=evaluation.unreproduced,
        corrected=len(evaluation.corrected & known),
    )


def _kind(why: str) -> str:
    """Return the reason without the parts that belong to one run."""
    return why.partition(":")[0]


def _expectations(
    evaluation: Evaluation, candidate: Candidate, changed: Sequence[Outcome]
) -> tuple[Expectation, ...]:
    """Return the expected results of runs: those that change, and if there are none, some that do not."""
    by_session: dict[str, Recording] = {each.session: each for each in evaluation.recordings}
    told = [new for new in evaluation.evaluate(candidate).compared.after if new.is_told]
    shown = (changed or told)[:MOST_SHOWN]
    pack = apply(evaluation.pack, candidate)
    return tuple(expect(by_session[each.session], evaluation.pack, pack) for each in shown)


# --- files ---


def demand_folder(folder: Path, *, is_forced: bool) -> None:
    """Raise `UsageError` if a proposal may not be written here: the path is a file, or holds another proposal."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder", code="not_a_folder", remedy="name a folder with --out FOLDER"
        )
    if not is_forced and any((folder / name).exists() for name in (FILE, DIFF)):
        raise UsageError(
            f"there is a proposal in {folder} already",
            code="file_exists",
            remedy="name another folder with --out FOLDER, or overwrite it with --force",
        )


def write_proposal(proposal: Proposal, folder: Path, *, is_forced: bool = False) -> Path:
    """Write a proposal into a folder of its own; raises `UsageError` if it cannot be written, or the folder holds
    another one."""
    target = folder / FILE
    text = proposal.model_dump_json(indent=2) + "\n"
    try:
        if target.exists() and target.read_text(encoding="utf-8") != text:
            demand_folder(folder, is_forced=is_forced)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / DIFF).write_text(proposal.diff, encoding="utf-8")
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror or error}",
            code="unwritable",
            remedy="name a folder that you may write to with --out FOLDER",
        ) from error
    return target


def read_proposal(path: Path) -> Proposal:
    """Return the proposal in a folder or a file; raises `UsageError` if there is none, or it was changed by hand."""
    file = path / FILE if path.is_dir() else path
    try:
        proposal = Proposal.model_validate_json(file.read_bytes())
    except OSError as error:
        raise UsageError(
            f"there is no proposal in {path}",
            code="proposal_not_found",
            remedy="make one with tercet tune and the option --all",
        ) from error
    except ValidationError as error:
        first: Any = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{file} is not a proposal: {place or 'it'}: {first['msg']}",
            code="proposal_unreadable",
            remedy="make it again with tercet tune and the option --all",
        ) from error
    if digest(proposal.model_copy(update={"id": ""}))[7:23] != proposal.id.removeprefix("tune_"):
        raise UsageError(
            f"{file} was changed after it was made",
            code="proposal_changed",
            remedy="make it again with tercet tune and the option --all; change other values in the pack itself",
        )
    return proposal


# --- edits ---
# Every file is edited where the value stands. What the edited folder loads as is then held against the candidate: an edit
# that changes anything else is never shown and never applied.


TomlPath: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys, and the numbers of elements."""


def edit_toml(text: str, changes: Mapping[TomlPath, Value]) -> str:
    """Return the text with other values at some places; raises `UsageError` where one cannot be changed safely."""
    try:
        import tomlkit  # noqa: PLC0415 - an optional dependency
        from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise extra_missing("tuning", "tomlkit", "tuning") from error
    wanted, written = tomllib.loads(text), ""
    for path, value in changes.items():
        if not _replace(wanted, path, value):
            raise _uneditable(path)
    try:
        document = tomlkit.parse(text)
        for path, value in changes.items():
            _replace(document, path, value)
        written = tomlkit.dumps(document)
    except (TOMLKitError, LookupError, TypeError, ValueError, RecursionError):
        raise _uneditable(next(iter(changes))) from None
    if not _is_same(written, wanted):
        raise _uneditable(next(iter(changes)))
    return written


def _replace(document: Any, path: TomlPath, value: Value) -> bool:
    """Replace an existing value; return whether there was one."""
    try:
        for part in path[:-1]:
            document = document[part]
        document[path[-1]]  # pyright: ignore[reportUnusedExpression] - raises where there is nothing to replace
        document[path[-1]] = value
    except (LookupError, TypeError):
        return False
    return True


def _is_same(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _uneditable(path: TomlPath) -> UsageError:
    place = ".".join(map(str, path))
    return UsageError(
        f"the value {place} cannot be changed in its place",
        code="value_not_editable",
        remedy=f"write it on a line of its own, as {path[-1]} = …",
    )


_PARAMS = ("params", "args")
"""The names of a step's parameters in the two published formats."""
_INDENTS = (2, 4, None)
_LEFT_BEHIND = shutil.ignore_patterns("__pycache__", "*.db", "*.db-*", "*.tercet", ".git", ".venv")


class FileEdit(Published):
    """One file before and after."""

    file: str
    before: str
    """The hash of its bytes."""
    after: str
    text: str
    """Its contents afterwards."""
    diff: str


def edit_folder(folder: Path, pack: Pack, candidate: Candidate, version: str) -> tuple[FileEdit, ...]:
    """Return the files that a candidate changes, under a new version. Nothing is written.

    Raises `UsageError` for a value that cannot be edited where it stands, and `CandidateRefused` where the edited folder
    would be anything but the pack with the candidate's values.
    """
    texts = _apply_all(folder, pack, candidate, version)
    edits = tuple(_edit(folder, name, text) for name, text in sorted(texts.items()))
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(folder, Path(scratch) / "pack", ignore=_LEFT_BEHIND))
        for edit in edits:
            (copy / edit.file).write_bytes(edit.text.encode())
        demand_same(pack, candidate, Pack.load(copy), version=version)
    return edits


def next_version(version: str) -> str:
    """Return the version after one: its last number is one more."""
    head, _, last = version.rpartition(".")
    return f"{head}.{int(last) + 1}"


def _apply_all(folder: Path, pack: Pack, candidate: Candidate, version: str) -> dict[str, str]:
    toml: dict[str, dict[TomlPath, Value]] = {PACK_FILE: {("version",): version}}
    texts: dict[str, str] = {}
    for surface in pack.tuning.surfaces:
        if surface.id not in candidate.values:
            continue
        value = candidate.values[surface.id]
        if isinstance(surface, TemplateSurface):
            name = _template_file(pack, surface)
            texts[name] = _edit_template(texts.get(name) or _read(folder, name), pack, surface, value)
        else:
            for path, changed in changes_of(pack, surface, value).items():
                file, place = _toml_place(path)
                toml.setdefault(file, {})[place] = changed
    return texts | {file: edit_toml(_read(folder, file), changes) for file, changes in toml.items()}


def _edit(folder: Path, name: str, text: str) -> FileEdit:
    before = _read(folder, name)
    lines = unified_diff(
        before.splitlines(keepends=True), text.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=1
    )
    return FileEdit(
        file=name,
        before=hash_bytes(before.encode()),
        after=hash_bytes(text.encode()),
        text=text,
        diff="".join(line if line.endswith("\n") else f"{line}\n" for line in lines),
    )


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_bytes().decode()


_FILES: dict[tuple[str | int, ...], tuple[str, str]] = {
    ("decisions",): (DECISIONS.file, DECISIONS.kind),
    ("library", "methods"): (METHODS.file, METHODS.kind),
}
"""The file that holds declarations of a kind, and what they are called in it; the rest is in the pack's own file."""


def _toml_place(path: PackPath) -> tuple[str, TomlPath]:
    """Return the TOML file with a value of a pack, and its path in that file."""
    for head, (file, kind) in _FILES.items():
        if path[: len(head)] == head:
            return file, (kind, *path[len(head) :])
    return PACK_FILE, path


# --- templates ---


def _template_file(pack: Pack, surface: TemplateSurface) -> str:
    spot = pack.spots.get(f"template {surface.intent}")
    if spot is None:
        raise missing(surface, "the pack was not loaded from a folder", "load it from its folder")
    return spot.file


def _edit_template(text: str, pack: Pack, surface: TemplateSurface, value: Value) -> str:
    """Return a template with a changed parameter, in its own indentation; one that was laid out by hand is formatted
    again."""
    plan, step = template_of(pack, surface)
    document = json.loads(text)
    steps = as_list((as_object(document) or {}).get("steps")) or []
    written = as_object(steps[plan.steps.index(step)]) or {}
    params = next((as_object(written[name]) for name in _PARAMS if name in written), None)
    if params is None or surface.param not in params:
        raise UsageError(
            f"{surface.id} is not a parameter in the file of its template",
            code="value_not_editable",
            remedy="write it under params",
        )
    layout = next((each for each in _INDENTS if _format_template(document, each) == text.rstrip("\n")), 2)
    params[surface.param] = value
    return f"{_format_template(document, layout)}\n"


def _format_template(document: Any, indent: int | None) -> str:
    return json.dumps(document, indent=indent, ensure_ascii=False)
