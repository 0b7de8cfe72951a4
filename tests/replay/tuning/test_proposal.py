"""A proposal shows all that a person needs, and only a person applies it, to the pack that it was made for."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.workshop import ADA, Workshop
from tercet.contracts.errors import UsageError
from tercet.contracts.packs.tuning import Candidate
from tercet.contracts.plan import Plan
from tercet.contracts.request import Request
from tercet.contracts.runs.record import DecisionRecord
from tercet.contracts.values.canonical import digest
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording, load
from tercet.replay.tuning import acceptance
from tercet.replay.tuning.acceptance import accept, accepted_in
from tercet.replay.tuning.evaluation import Evaluation, expect
from tercet.replay.tuning.frozen import apply
from tercet.replay.tuning.proposal import Proposal, edit_folder, propose, read_proposal, write_proposal
from tercet.replay.tuning.search import search

pytestmark = pytest.mark.slow

CENTRE = Path(__file__).parent / "centre"
NOW = datetime(2026, 5, 9, 12, tzinfo=UTC)
BUSY = (0, 1, 2, 1, 0, 9, 9)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the call centre's pack that may be changed."""
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(CENTRE, tmp_path / "centre", ignore=ignored)


def _record(pack: Pack) -> list[Recording]:
    """Calls to lines that are busy for a while, and to two that are always busy."""
    workshop = Workshop()

    async def main() -> list[Recording]:
        found: list[Recording] = []
        for number, busy in enumerate(BUSY):
            journal = MemoryJournal()
            async with workshop.runtime(pack, journal) as runtime:
                request = Request(intent="reach", input={"busy": busy, "number": number})
                result = await runtime.run(request, planner="template", actor=ADA)
            found.append(await load(journal, "default", result.session_id))
        return found

    return workshop.run(main())


def _call(workshop: Workshop, pack: Pack, asked: dict[str, Any]) -> DecisionRecord:
    """The record of a call that fails."""

    async def main() -> DecisionRecord:
        async with workshop.runtime(pack) as runtime:
            request = Request(intent="reach", input=asked)
            result = await runtime.run(request, planner="template", actor=ADA)
            assert result.status == "failed"
            return await runtime.record(result.session_id)

    return workshop.run(main())


def _proposal(folder: Path) -> Proposal:
    pack = Pack.load(folder)
    evaluation = Evaluation(pack, _record(pack))
    found = search(evaluation, trials=25, seed=1)
    made = propose(folder, evaluation, found, trials=25, seed=1)
    assert made is not None
    return made


def _files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.req("R279", "R280")
def test_a_proposal_shows_what_would_happen(folder: Path) -> None:
    """The diff, scores with intervals, what they rest on, and for each run its plan, its calls and its record's changes."""
    before = _files(folder)
    made = _proposal(folder)
    assert [(each.id, each.old, each.new) for each in made.changes] == [("replan max_step_retries", 5, 2)]
    assert "-max_step_retries = 5 # for busy lines\n+max_step_retries = 2 # for busy lines\n" in made.diff
    assert '-version = "1.2.9"\n+version = "1.2.10"\n' in made.diff
    assert (made.basis.given, made.basis.told, made.basis.untold) == (7, 7, {})
    assert made.before.pass_rate == made.after.pass_rate
    assert made.after.held_ms.value < made.before.held_ms.value
    assert made.after.pass_rate.low < made.after.pass_rate.value < made.after.pass_rate.high
    assert made.gain.value > 0
    assert all(each.passed for each in made.guardrails)
    assert made.refused > 0
    assert _files(folder) == before  # nothing is applied


@pytest.mark.req("R279")
def test_what_it_expects_of_runs_can_be_held_against_a_replay(folder: Path) -> None:
    """A run that changes has its plan, the calls up to where it changes, and the fields of its record that differ."""
    pack = Pack.load(folder)
    runs = _record(pack)
    pack = pack.model_copy(update={"tuning": pack.tuning.model_copy(update={"min_runs": 1})})
    evaluation = Evaluation(pack, runs[:3])
    candidate = Candidate(values={"replan max_step_retries": 1})
    made = evaluation.evaluate(candidate)
    assert [each.status for each in made.compared.after] == ["completed", "completed", "failed"]
    found = expect(runs[2], pack, apply(pack, candidate))
    assert (found.old_status, found.new_status) == ("completed", "failed")
    assert found.why == "step_judged: retry → replan"
    assert Plan.model_validate(found.plan).steps[0].tool == "phone.ring"
    assert [(call.step, call.tool, call.outcome) for call in found.transcript] == [
        ("ring", "phone.ring", "not_done")
    ] * 2
    changed = {each.field: (each.old, each.new) for each in found.record}
    assert changed["status"] == ("completed", "failed")
    # What happens is what was foreseen.
    real = _call(Workshop(), apply(pack, candidate), {"busy": 2, "number": 2})
    assert real.report.status == changed["report.status"][1]
    assert [each.result.outcome for each in real.transcript] == [each.outcome for each in found.transcript]


def test_the_same_search_makes_the_same_proposal(folder: Path, tmp_path: Path) -> None:
    """Byte for byte: nothing in it tells the time or the machine; and it reads back as it was written."""
    first, second = _proposal(folder), _proposal(folder)
    assert first == second
    one, two = (write_proposal(first, tmp_path / name).read_bytes() for name in ("one", "two"))
    assert one == two
    assert read_proposal(tmp_path / "one") == first
    assert (tmp_path / "one" / "pack.diff").read_text() == first.diff
    assert str(tmp_path) not in one.decode()


def test_every_kind_of_value_is_changed_where_it_stands(folder: Path) -> None:
    """One candidate over all files changes exactly its values, and the edited folder is the candidate."""
    values: dict[str, Any] = {
        "replan max_step_retries": 3,
        "template reach ring.patience": 60,
        "method tell": "post",
        "rubric letter threshold correctness": 0.8,
        "rubric letter weight correctness": 0.4,
        "rubric letter rubric_threshold": 0.5,
        "rubric letter verification_threshold": 0.6,
        "session ttl_ms": 60_000,
    }
    before = _files(folder)
    edits = edit_folder(folder, Pack.load(folder), Candidate(values=values), "1.3.0")
    assert [each.file for each in edits] == [
        "decisions.toml",
        "methods.toml",
        "pack.toml",
        "templates/reach.json",
    ]
    changed = "".join(each.diff for each in edits)
    for line in (
        "+max_step_retries = 3 # for busy lines",
        "+ttl_ms = 60000",
        '+        "patience": 60',
        "+cost = 1.0 # stamps",
        '+    { name = "correctness", minimum = 0.8 }, # of the prices',
        "+weight = 0.4",
        "+weight = 0.3",
    ):
        assert f"{line}\n" in changed
    assert changed.count("\n+") - changed.count("\n+++") == 11
    assert _files(folder) == before


# --- accepting ---


@pytest.mark.req("R278")
def test_a_person_accepts(folder: Path) -> None:
    """The folder is the candidate afterwards, under the next version, and it is written down who did that and when."""
    made = _proposal(folder)
    done = accept(folder, made, by="bob", at=NOW)
    pack = Pack.load(folder)
    assert (pack.version, pack.hash, pack.budget.max_step_retries) == ("1.2.10", made.new_hash, 2)
    assert accepted_in(folder) == [done]
    assert (done.by, done.at, done.proposal) == ("bob", NOW.isoformat(), made.id)
    assert not list(folder.rglob(".*accepting"))
    with pytest.raises(UsageError) as refused:
        accept(folder, made, by="eve", at=NOW)
    assert refused.value.code == "already_accepted"


def test_a_pack_that_has_changed_does_not_take_it(folder: Path) -> None:
    """A proposal is for the pack that it was measured on."""
    made = _proposal(folder)
    path = folder / "pack.toml"
    path.write_text(path.read_text().replace("max_retries = 20", "max_retries = 21"))
    before = _files(folder)
    with pytest.raises(UsageError) as refused:
        accept(folder, made, by="bob", at=NOW)
    assert refused.value.code == "pack_changed"
    assert _files(folder) == before


def _forged(made: Proposal, **changes: Any) -> Proposal:
    """A proposal that somebody has changed, with an id that fits."""
    forged = made.model_copy(update={**changes, "id": ""})
    return forged.model_copy(update={"id": f"tune_{digest(forged)[7:23]}"})


@pytest.mark.req("R278")
def test_a_forged_proposal_applies_nothing(folder: Path) -> None:
    """Other texts, other values and values out of bounds are refused, whatever the file says about itself."""
    made = _proposal(folder)
    before = _files(folder)
    loose = made.edits[0].model_copy(
        update={"text": made.edits[0].text.replace('"network"', '"destructive"')}
    )
    none = made.edits[0].model_copy(update={"after": made.edits[0].before})
    far = made.changes[0].model_copy(update={"new": 99})
    other = made.changes[0].model_copy(update={"id": "budget max_steps", "new": 99})
    for forged in (
        _forged(made, edits=(loose,)),
        _forged(made, edits=(none, loose)),
        _forged(made, changes=(far,)),
        _forged(made, changes=(other,)),
    ):
        with pytest.raises(UsageError):
            accept(folder, forged, by="eve", at=NOW)
        assert _files(folder) == before


def test_a_proposal_that_was_changed_does_not_read(folder: Path, tmp_path: Path) -> None:
    """A file that does not fit its id, is no JSON, or is not there, is answered with what to do."""
    path = write_proposal(_proposal(folder), tmp_path / "p")
    text = path.read_text()
    path.write_text(text.replace('"seed": 1', '"seed": 2'))
    for where, code in ((path, "proposal_changed"), (tmp_path / "none", "proposal_not_found")):
        with pytest.raises(UsageError) as refused:
            read_proposal(where)
        assert refused.value.code == code
    for nonsense in ("", "{}", "[1]", json.dumps({**json.loads(text), "edits": 3})):
        path.write_text(nonsense)
        with pytest.raises(UsageError) as refused:
            read_proposal(path)
        assert refused.value.code == "proposal_unreadable"


def test_another_proposal_is_not_overwritten(folder: Path, tmp_path: Path) -> None:
    """A folder that holds one keeps it."""
    made = _proposal(folder)
    write_proposal(made, tmp_path / "p")
    with pytest.raises(UsageError) as refused:
        write_proposal(_forged(made, seed=9), tmp_path / "p")
    assert refused.value.code == "file_exists"


@pytest.mark.parametrize("cut_off_after", [0, 1, 2, 3])
def test_accepting_is_all_or_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cut_off_after: int
) -> None:
    """A process that dies after any file leaves a folder that the next attempt puts back, and then changes whole."""
    pack = Pack.load(folder)
    candidate = Candidate(
        values={"replan max_step_retries": 2, "method tell": "post", "template reach ring.patience": 60}
    )
    edits = edit_folder(folder, pack, candidate, "1.3.0")
    before = _files(folder)
    real, left = Path.replace, [cut_off_after]

    def dying(self: Path, target: Path) -> Path:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        return real(self, target)

    monkeypatch.setattr(Path, "replace", dying)
    if cut_off_after < len(edits):
        with pytest.raises(KeyboardInterrupt):
            acceptance.apply_edits(folder, edits)
    else:
        acceptance.apply_edits(folder, edits)  # all is done but for the log
    monkeypatch.undo()
    acceptance.recover(folder)
    assert _files(folder) == before
    acceptance.apply_edits(folder, edits)
    assert Pack.load(folder).budget.max_step_retries == 2


def test_a_file_that_cannot_be_replaced_leaves_the_folder_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error on the way puts everything back."""
    candidate = Candidate(values={"replan max_step_retries": 2, "method tell": "post"})
    edits = edit_folder(folder, Pack.load(folder), candidate, "1.3.0")
    before = _files(folder)
    real = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if self.name == ".pack.toml.accepting":
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(UsageError, match="No space left"):
        acceptance.apply_edits(folder, edits)
    assert _files(folder) == before
