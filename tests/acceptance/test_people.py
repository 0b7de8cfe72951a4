"""A sample of the crash campaign around people: gates, answers, and the ways back (`make crash` does more)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from acceptance.tally import problems_of
from acceptance.trial import Found, Trial, run_trial
from acceptance.witness import warrant
from tercet.core import events as e


@pytest.fixture(params=["sqlite", "postgresql"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A journal on each of the two durable backends."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    return request.getfixturevalue("postgres_url")


def tried(
    journal: str,
    folder: Path,
    scene: str,
    *,
    kills: tuple[str, ...] = (),
    undo: tuple[str, ...] = (),
    spoken: tuple[str, ...] = (),
    seed: int = 0,
) -> Found:
    """Run a scene with kills and without, and demand that both left the same; what was found with kills."""
    base = f"{folder.name}-{scene}".replace(":", "-")

    async def story() -> tuple[Found, Found]:
        calm = Trial(name=f"{base}-calm", journal=journal, scene=scene, folder=folder)
        killed = Trial(
            name=base,
            journal=journal,
            scene=scene,
            folder=folder,
            kills=kills,
            undo_kills=undo,
            spoken_kills=spoken,
            seed=seed,
        )
        return await run_trial(calm), await run_trial(killed)

    calm, killed = asyncio.run(story())
    assert not calm.is_lost, calm.status
    assert list(problems_of(killed, calm.left)) == []
    return killed


@pytest.mark.req("R151", "R155", "R156", "R237", "R262")
@pytest.mark.parametrize(
    ("journal", "scene"),
    [("sqlite", "denied:idempotent"), ("postgresql", "denied:reconcile")],
    indirect=["journal"],
)
def test_each_effect_of_a_denied_run_is_taken_back_once(journal: str, tmp_path: Path, scene: str) -> None:
    """Workers die before and behind the first way back, between the two, and behind the second one."""
    undo = ("after_append:1", "after_effect:1", "before_append:2", "after_answer:1")
    found = tried(journal, tmp_path, scene, kills=("before_append:2",), undo=undo)
    assert (found.kills, found.undo_kills) == (1, len(undo))
    assert found.steps == {"s1": 1, "s2": 1, "~s2": 1, "~s1": 1}


@pytest.mark.req("R151", "R156", "R239")
def test_a_way_back_that_declares_nothing_is_never_repeated_blindly(tmp_path: Path) -> None:
    """A run fails for good and is given up; its workers die around the way back, and a person is asked each time."""
    journal = f"sqlite:///{tmp_path / 'runs.db'}"
    undo = ("after_append:1", "after_append:2", "after_effect:1", "after_answer:1")
    found = tried(journal, tmp_path, "abandoned:nothing", undo=undo)
    assert found.undo_kills >= 2
    assert found.steps == {"s1": 1, "s2": 1, "~s2": 1, "~s1": 1}


@pytest.mark.req("R138", "R262")
@pytest.mark.parametrize(
    ("journal", "point", "undo"),
    [
        ("sqlite", "before_append:1", ()),
        ("postgresql", "after_append:1", ("before_append:1", "after_append:1")),
    ],
    indirect=["journal"],
)
def test_a_gate_expires_through_kills(
    journal: str, tmp_path: Path, point: str, undo: tuple[str, ...]
) -> None:
    """Those who open it die, and so does the approver who comes too late, before and behind the writing of its end: the
    session expires by its gate, not by its own time, and what it did is taken back."""
    kills = ("before_append:2", "after_append:1")
    found = tried(journal, tmp_path, "expired:idempotent", kills=kills, spoken=("", point), undo=undo)
    assert found.status == "expired"
    assert (found.kills, found.spoken_kills, found.undo_kills) == (2, 1, len(undo))


@pytest.mark.req("R262")
def test_an_answer_outlives_its_approver(journal: str, tmp_path: Path) -> None:
    """Killed between the inbox and the event, the approver has answered: the next worker hears it, and nobody is asked
    again."""
    found = tried(journal, tmp_path, "refunds:idempotent", spoken=("after_post:1",))
    assert (found.spoken_kills, found.gates) == (1, 0)


def test_an_answer_to_a_run_that_was_handed_over_outlives_its_approver(tmp_path: Path) -> None:
    """Killed between the inbox and the event, whoever gave the run up has given it up: resuming it tries nothing again,
    and goes on to the question what becomes of its effects."""
    journal = f"sqlite:///{tmp_path / 'runs.db'}"
    found = tried(journal, tmp_path, "abandoned:idempotent", spoken=("", "", "after_post:1"))
    assert (found.spoken_kills, found.gates) == (1, 3)


@pytest.mark.req("R262")
@pytest.mark.parametrize("point", ["before_post", "inside_commit"])
def test_an_answer_that_was_never_posted_is_asked_for_again(tmp_path: Path, point: str) -> None:
    """Killed before the inbox has it, the approver has not answered: the gate is still open, and nothing happened."""
    journal = f"sqlite:///{tmp_path / 'runs.db'}"
    found = tried(journal, tmp_path, "refunds:nothing", spoken=(f"{point}:1",))
    assert (found.spoken_kills, found.gates) == (1, 1)


@pytest.mark.req("R235")
def test_a_way_back_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    """The failure is in the rollback's log, an operator is alerted, and the effect before it is taken back too."""
    journal = f"sqlite:///{tmp_path / 'runs.db'}"
    found = tried(journal, tmp_path, "denied:broken", undo=("after_effect:1",))
    log = found.left["rollback"]["log"]
    assert [(entry["step_id"], entry["status"]) for entry in log] == [
        ("s2", "COMPENSATION_FAILED"),
        ("s1", "COMPENSATED"),
    ]
    assert found.left["rollback"]["requires_manual_intervention"] is True
    assert found.alerts == ["~s2"]


# --- the witness itself ---

INTENT = e.Intent(at=1, step="s2", tool="book.charge", params={"item": "b"}, key="k", attempt=1)
OPENED = e.GateOpened(
    at=2,
    gate="g1",
    kind="approval",
    step="s2",
    digest="d",
    needs={"GATE": e.Need(quorum=1)},
    shown={"params": {"item": "b"}},
)
APPROVED = e.GateAnswered(at=3, gate="g1", digest="d", answer="approve", actor="bob")
WITHDRAWN = e.GateAnswered(at=4, gate="g1", digest="d", answer="withdraw", actor="bob")
DENIED = e.GateAnswered(at=4, gate="g1", digest="d", answer="deny", actor="bob")
OTHER = e.GateAnswered(at=3, gate="g1", digest="another", answer="approve", actor="bob")
STARTED = e.SessionStarted(
    at=0, session="ses", run="run", trace="t", tenant="t", actor={}, request={}, decision="d", safety_mode="m",
    budget={}, pack="p", pack_hash="h", snapshot="", context="c", on_failure="ask",
)  # fmt: skip
UNDO_INTENT = e.Intent(at=5, step="~s2", tool="book.repay", params={"item": "b"}, key="u", attempt=1)
BEGUN = e.CompensationBegun(at=5, undo=(e.Undo(step="s2", tool="book.repay", params={"item": "b"}, key="u"),))
AGREED = e.GateAnswered(at=4, gate="g2", digest="x", answer="compensate", actor="bob")


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ((OPENED, APPROVED, INTENT), "d"),
        ((OPENED, APPROVED), ""),
        ((OPENED, INTENT), ""),
        ((OPENED, OTHER, INTENT), ""),
        ((OPENED, DENIED, INTENT), ""),
        ((OPENED, APPROVED, WITHDRAWN, INTENT), ""),
    ],
)
def test_the_witness_sees_whether_a_call_was_approved(events: tuple[e.Event, ...], found: str) -> None:
    """Without a durable INTENT and a standing approval of this digest there is no warrant."""
    assert warrant(events, "s2", "k", {"item": "b"}) == found


def test_the_witness_sees_other_parameters() -> None:
    """An approval of one call is no warrant for another."""
    assert warrant((OPENED, APPROVED, INTENT), "s2", "k", {"item": "another"}) == ""


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ((STARTED, OPENED, APPROVED, AGREED, BEGUN, UNDO_INTENT), "d"),
        ((STARTED, OPENED, APPROVED, BEGUN, UNDO_INTENT), ""),
        ((STARTED, OPENED, APPROVED, AGREED, UNDO_INTENT), ""),
    ],
)
def test_the_witness_sees_whether_a_way_back_was_decided(events: tuple[e.Event, ...], found: str) -> None:
    """Where people are to be asked, they have agreed, and the calls are resolved in the journal."""
    assert warrant(events, "~s2", "u", {"item": "b"}) == found
