"""Sessions of an earlier version replay as they were judged, and go on only under the rules of this one."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from engine.workshop import ADA, ASK, BOB, Workshop, events, names
from tercet.contracts.context import RunContext
from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.request import Actor
from tercet.contracts.runs.behaviour import CURRENT, REQUIRED_TO_RESUME
from tercet.contracts.runs.record import FailureReport
from tercet.contracts.runs.saga import RollbackStatus
from tercet.core import events as e
from tercet.engine.result import RunResult
from tercet.engine.streams.nesting import Place
from tercet.journal.protocol import Journal
from tercet.replay.replay import replay
from tercet.runtime import Runtime, RuntimeOptions
from upgrade.sessions import BYPASS, WAITS, make_pack

RECORDED = Path(__file__).parent / "0.1.0-rules-4.db.gz"
IDS = {
    "waiting": "ses_0001",
    "approved": "ses_0004",
    "paused": "ses_0007",
    "died": "ses_0010",
    "bypassing": "ses_0013",
    "rolling_back": "ses_0016",
}
Check = Callable[[Runtime, Journal, Workshop], Awaitable[None]]


def play(tmp_path: Path, check: Check) -> None:
    """Run a check on a copy of the recorded journal, after the leases in it have run out."""
    file = tmp_path / "old.db"
    file.write_bytes(gzip.decompress(RECORDED.read_bytes()))
    workshop = Workshop()

    async def main() -> None:
        await workshop.clock.sleep(60_000)
        async with (
            workshop.journal(f"sqlite:///{file}") as journal,
            workshop.runtime(make_pack(workshop), journal) as runtime,
        ):
            await check(runtime, journal, workshop)

    workshop.run(main())


def called(workshop: Workshop) -> list[str]:
    """The steps whose tools were called, in order."""
    return [step for step, _ in workshop.calls]


async def approve(runtime: Runtime, result: RunResult) -> RunResult:
    """Approve the gate that a session waits at, and let it go on."""
    assert result.gate is not None
    await runtime.approve(result.gate.id, actor=BOB)
    return await runtime.resume(result.session_id)


@pytest.mark.parametrize("name", IDS)
def test_an_unfinished_session_of_an_earlier_version_still_replays(tmp_path: Path, name: str) -> None:
    """Its verdicts are derived again under the rules that it ran under."""

    async def check(_: Runtime, journal: Journal, __: Workshop) -> None:
        report = await replay(journal, IDS[name])
        assert report.difference is None
        assert not REQUIRED_TO_RESUME & set(report.behaviour)

    play(tmp_path, check)


@pytest.mark.parametrize("name", IDS)
def test_resuming_it_names_the_call_that_moves_it(tmp_path: Path, name: str) -> None:
    """The hash of a pack with Python tools is another one by now: nothing goes on unasked, and nothing is written."""

    async def check(runtime: Runtime, journal: Journal, workshop: Workshop) -> None:
        before = await events(journal, IDS[name])
        with pytest.raises(UsageError) as caught:
            await runtime.resume(IDS[name])
        assert caught.value.code == "pack_version_mismatch"
        assert f"await runtime.migrate({IDS[name]!r})" in (caught.value.remedy or "")
        assert (await events(journal, IDS[name]), workshop.calls) == (before, [])

    play(tmp_path, check)


@pytest.mark.parametrize(
    ("name", "calls"),
    [("waiting", ["w"]), ("approved", ["w"]), ("paused", ["b", "w"])],
)
def test_a_moved_session_asks_again_and_repeats_nothing(tmp_path: Path, name: str, calls: list[str]) -> None:
    """What was done stays done; what was approved under the old rules is asked about again."""

    async def check(runtime: Runtime, journal: Journal, workshop: Workshop) -> None:
        result = await runtime.migrate(IDS[name], actor=BOB)
        assert (result.status, "w" in called(workshop)) == ("awaiting_gate", False)
        result = await approve(runtime, result)
        assert (result.status, called(workshop)) == ("completed", calls)
        started = next(x for x in await events(journal, IDS[name]) if isinstance(x, e.SessionMigrated))
        assert started.behaviour == CURRENT

    play(tmp_path, check)


def test_a_call_that_the_earlier_version_lost_is_asked_about(tmp_path: Path) -> None:
    """A tool that declares nothing is not called again blindly after an upgrade either."""

    async def check(runtime: Runtime, _: Journal, workshop: Workshop) -> None:
        result = await runtime.migrate(IDS["died"], actor=BOB)
        assert result.gate is not None
        assert (result.gate.kind, called(workshop)) == ("reconcile", [])
        await runtime.settle(result.gate.id, happened=True, value={"n": "a"}, actor=BOB)
        result = await approve(runtime, await runtime.resume(IDS["died"]))
        assert (result.status, called(workshop)) == ("completed", ["b", "w"])

    play(tmp_path, check)


def test_an_unapproved_compensation_of_the_earlier_version_does_not_run(tmp_path: Path) -> None:
    """The owner had agreed to a compensation whose tool has a gate: it is left to an operator, and nothing is called."""

    async def check(runtime: Runtime, _: Journal, workshop: Workshop) -> None:
        result = await runtime.migrate(IDS["bypassing"], actor=BOB)
        assert (result.status, called(workshop)) == ("failed", [])
        report = await runtime.artifact(IDS["bypassing"])
        assert isinstance(report, FailureReport)
        assert report.rollback is not None
        assert [entry.status for entry in report.rollback.log] == [RollbackStatus.CANNOT_ROLLBACK]

    play(tmp_path, check)


def test_a_rollback_that_had_begun_is_finished(tmp_path: Path) -> None:
    """Both effects are compensated, the one under way with the key that it had."""

    async def check(runtime: Runtime, _: Journal, workshop: Workshop) -> None:
        result = await runtime.migrate(IDS["rolling_back"], actor=BOB)
        assert (result.status, called(workshop)) == ("rejected", ["~b", "~a"])

    play(tmp_path, check)


class EarlierRules(Runtime):
    """A runtime whose sessions start under the rules that an earlier version had."""

    def _frame(self, now: int, actor: Actor, safety_mode: ApprovalMode | None, place: Place) -> RunContext:
        frame = super()._frame(now, actor, safety_mode, place)
        return frame.model_copy(update={"behaviour": tuple(set(CURRENT) - REQUIRED_TO_RESUME)})


def earlier(workshop: Workshop, journal: Journal) -> EarlierRules:
    """Such a runtime in a workshop."""
    ids = iter(range(1000))
    return EarlierRules(
        make_pack(workshop),
        journal,
        watchdog_ms=None,
        options=RuntimeOptions(clock=workshop.clock, ids=lambda: f"{next(ids):04}"),
    )


def test_a_session_whose_pack_is_unchanged_adopts_the_rules_by_itself(tmp_path: Path) -> None:
    """Resuming is enough: the event says so, the old approval is void, and the run ends with each effect once."""
    workshop = Workshop()

    async def main() -> None:
        async with workshop.journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
            async with earlier(workshop, journal) as old:
                waiting = await old.run(ASK, plan=WAITS, actor=ADA)
                assert waiting.gate is not None
                with pytest.raises(UsageError) as caught:
                    await old.approve(waiting.gate.id, actor=BOB)
                assert caught.value.code == "outdated_rules"
            async with workshop.runtime(old.pack, journal) as runtime:
                result = await runtime.resume(waiting.session_id)
                moved = [
                    x for x in await events(journal, result.session_id) if isinstance(x, e.SessionMigrated)
                ]
                assert [(x.by, x.behaviour) for x in moved] == [("", CURRENT)]
                assert result.status == "awaiting_gate"
                result = await approve(runtime, result)
                assert (result.status, called(workshop)) == ("completed", ["a", "b", "w"])
                assert names(await events(journal, result.session_id)).count("session_migrated") == 1

    workshop.run(main())


def test_a_denial_under_earlier_rules_still_counts(tmp_path: Path) -> None:
    """To say no is never refused for its age."""
    workshop = Workshop()

    async def main() -> None:
        async with workshop.journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
            async with earlier(workshop, journal) as old:
                waiting = await old.run(ASK, plan=WAITS, actor=ADA)
                assert waiting.gate is not None
                await old.deny(waiting.gate.id, actor=BOB)
            async with workshop.runtime(old.pack, journal) as runtime:
                result = await runtime.resume(waiting.session_id)
                assert result.gate is not None
                assert (result.gate.kind, called(workshop)) == ("compensation", ["a", "b"])

    workshop.run(main())


def test_a_plan_that_the_earlier_rules_let_through_is_refused_when_it_is_resumed(tmp_path: Path) -> None:
    """A gated call hidden in a proposed compensation is reviewed under the current rules before anything goes on."""
    workshop = Workshop()

    async def main() -> None:
        async with workshop.journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
            async with earlier(workshop, journal) as old:
                result = await old.run(ASK, plan=BYPASS, actor=ADA)
                assert result.status == "paused"
            async with workshop.runtime(old.pack, journal) as runtime:
                await runtime.resume(result.session_id)
                assert "~a" not in called(workshop)

    workshop.run(main())
