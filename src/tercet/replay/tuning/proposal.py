"""A proposal: everything that a person needs to decide about a candidate, in one folder.

The same search makes the same proposal, byte for byte: nothing in it tells the time or the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from tercet.contracts.errors import UsageError
from tercet.contracts.packs.tuning import Candidate, SurfaceName, Value
from tercet.contracts.shape import Published
from tercet.contracts.values.canonical import digest
from tercet.replay.recording import Recording
from tercet.replay.tuning.edits import FileEdit, edit_folder, next_version
from tercet.replay.tuning.evaluation import Evaluated, Evaluation, Expectation, expect
from tercet.replay.tuning.frozen import Guardrail, apply
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
