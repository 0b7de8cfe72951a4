"""A sample of the crash campaign: real workers, killed at every named point on both journals (`make crash` does more)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.schedule import HANGS
from acceptance.tally import problems_of
from acceptance.trial import RANDOM, Trial, run_trial
from tercet.contracts.errors import UsageError
from tercet.contracts.loop import Phase
from tercet.core import codec
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.journal.opening import open_journal
from tercet.testing.crash_points import POINTS, CrashPlan

EVERYWHERE = tuple(f"{point}:1" for point in POINTS)
AROUND_A_PAYMENT = (
    "inside_checkpoint:1", "inside_commit:2", "after_commit:1", "after_append:1",
    "after_answer:1", "before_call:1", "before_effect:1", "after_effect:1",
)  # fmt: skip
"""The payment is the last step: once it has happened, nothing more is called."""


@pytest.fixture(params=["sqlite", "postgresql"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A journal on each of the two durable backends."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    return request.getfixturevalue("postgres_url")


async def compare(journal: str, folder: Path, scene: str, *kills: str, hang: str = "") -> int:
    """Run a scene with kills and without, and demand that both left the same; the number of kills."""
    base = f"{folder.name}-{scene}".replace(":", "-")

    def trials() -> Iterator[Trial]:
        yield Trial(name=f"{base}-calm", journal=journal, scene=scene, folder=folder)
        yield Trial(name=base, journal=journal, scene=scene, folder=folder, kills=kills, hang=hang)

    calm, killed = await asyncio.gather(*map(run_trial, trials()))
    assert not calm.is_lost, calm.status
    assert list(problems_of(killed, calm.left)) == []
    return killed.kills


@pytest.mark.req("R111", "R116", "R146", "R150", "R151", "R153", "R155", "R156", "R323")
@pytest.mark.parametrize(
    ("journal", "scene"),
    [("sqlite", "twelve:idempotent"), ("postgresql", "twelve:reconcile")],
    indirect=["journal"],
)
def test_a_run_killed_at_every_point_leaves_what_a_calm_one_leaves(
    journal: str, tmp_path: Path, scene: str
) -> None:
    """Nine workers in a row die, each at another point; no effect happens twice, and the record is the same."""
    kills = asyncio.run(compare(journal, tmp_path, scene, *EVERYWHERE))
    assert kills == len(EVERYWHERE)


@pytest.mark.req("R110", "R151", "R156", "R323")
def test_a_payment_that_declares_nothing_is_never_repeated_blindly(tmp_path: Path) -> None:
    """Eight workers die around a refund with its approval; an operator is asked before any second call."""
    journal = f"sqlite:///{tmp_path / 'runs.db'}"
    kills = asyncio.run(compare(journal, tmp_path, "refunds:nothing", *AROUND_A_PAYMENT))
    assert kills == len(AROUND_A_PAYMENT)


@pytest.mark.req("R110", "R156")
@pytest.mark.parametrize("scene", ["refunds:idempotent", "refunds:reconcile", "refunds:nothing"])
def test_a_payment_that_outlives_its_time_happens_once(tmp_path: Path, scene: str) -> None:
    """A call that has its effect and then hangs is settled by what its tool declares, also through a kill."""
    journal = f"sqlite:///{tmp_path / 'runs.db'}"
    asyncio.run(compare(journal, tmp_path, scene, RANDOM, hang=HANGS["refunds"]))


AROUND_LANES = (
    "after_append:2", "inside_checkpoint:1", "before_call:1", "before_effect:1", "after_effect:1", "after_answer:1",
    "inside_commit:2", "before_append:2",
)  # fmt: skip
"""While lanes run, while one of them waits for its approval, and in the call that comes after them."""


@pytest.mark.parametrize(
    ("journal", "scene"),
    [("sqlite", "lanes:nothing"), ("postgresql", "lanes:reconcile")],
    indirect=["journal"],
)
def test_a_run_killed_around_its_lanes_leaves_what_a_calm_one_leaves(
    journal: str, tmp_path: Path, scene: str
) -> None:
    """Eight workers die around three lanes and what is done with their prices; no lane is started twice or left."""
    kills = asyncio.run(compare(journal, tmp_path, scene, *AROUND_LANES))
    assert kills == len(AROUND_LANES)


IN_THE_LOOP = ("after_append:2", "before_append:2", "after_append:2", "inside_commit:2") * 4
"""Each worker takes the run over with its first append; the second one holds what a phase came to."""


@pytest.mark.req("R116", "R329")
def test_a_run_killed_in_every_phase_of_the_quality_loop_leaves_what_a_calm_one_leaves(
    tmp_path: Path,
) -> None:
    """Workers die where a test was run, and in VERIFY, CRITIQUE and REPAIR; the next one goes on there, the letter is
    drafted once, and the record is the same."""
    journal = f"sqlite:///{tmp_path / 'runs.db'}"
    kills = asyncio.run(compare(journal, tmp_path, "letter:idempotent", *IN_THE_LOOP))
    assert kills >= 8
    died_in = asyncio.run(_taken_over_in(journal, f"{tmp_path.name}-letter-idempotent"))
    assert {Phase.VERIFY, Phase.CRITIQUE, Phase.REPAIR} <= died_in


async def _taken_over_in(url: str, tenant: str) -> set[Phase]:
    """The phases that a session was in when a worker took it over."""
    async with open_journal(url) as journal:
        (row,) = await journal.sessions(tenant)
        events = [codec.decode(stored.data) for stored in await journal.read(tenant, row.session_id)]
    state, phases = State(), set[Phase]()
    for event in events:
        if isinstance(event, e.SessionResumed):
            phases.add(state.phase)
        state = fold_event(state, event)
    return phases


@pytest.mark.parametrize("text", ["nowhere:1", "before_call:x", "before_call:1:faint"])
def test_a_plan_that_names_no_point_is_refused(text: str) -> None:
    """A worker that was to die and does not would prove nothing."""
    with pytest.raises(UsageError, match="names no crash point"):
        CrashPlan.read({"TERCET_CRASH": text})
