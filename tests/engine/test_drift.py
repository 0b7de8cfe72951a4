"""What changes between an approval and its call: each fails closed, with its reason, and nothing is called."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate, Policy
from tercet.contracts.loop import Phase
from tercet.contracts.plan import Step
from tercet.contracts.request import Actor
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.fold.base import IllegalEvent
from tercet.core.state import NOT_STARTED, State
from tercet.core.transcript import moment
from tercet.packs.pack import Pack
from tercet.runtime import RunResult, Runtime
from tercet.tools import ToolContext

from .test_deciding import Case
from .test_gates import gate_of
from .test_runs import Script
from .workshop import ADA, ASK, BOB, CLEO, Workshop, events, plan, step

BOSS = Gate(name="BOSS", roles=("boss",))
FACT = "kg:rule:limit#snapshot_s1"
PINNED = plan(step("w", "wipe.it", params={"most": {"$evidence": f"{FACT}#/most"}}, evidence_refs=(FACT,)))


def fact(workshop: Workshop, most: int = 10, *, lives_ms: int | None = None, ref: str = FACT) -> Evidence:
    """What the call stands on."""
    ends = None if lives_ms is None else moment(workshop.clock.now()) + timedelta(milliseconds=lives_ms)
    return Evidence.model_validate(
        {"id": ref, "content": {"most": most}, "trust": "trusted", "source": "the book", "expires_at": ends}
    )


def packed(
    workshop: Workshop, *evidence: Evidence, declared: dict[str, Any] | None = None, **header: Any
) -> Pack:
    """A pack whose one tool waits for a gate."""
    workshop.tools.clear()
    given: dict[str, Any] = {
        "mode": "destructive",
        "authority": (),
        "gates": ("BOSS",),
        "no_compensation": "gone",
    }
    workshop.tool("wipe.it", **{**given, **(declared or {})})
    parts: dict[str, Any] = {"gates": (BOSS,), "evidence": evidence}
    return workshop.pack(**{**parts, **header})


async def approved(runtime: Runtime, *people: Actor) -> RunResult:
    """A run whose call has been approved and has not begun."""
    result = await runtime.run(ASK, plan=PINNED, actor=ADA)
    for actor in people or (BOB,):
        await runtime.approve(gate_of(result), actor=actor)
    return result


LATER: list[tuple[str, str, dict[str, Any]]] = [
    ("policy", "pack_version_mismatch", {"policies": (Policy(name="never", scope="step", expression="false"),)}),
    ("tool definition", "pack_version_mismatch", {"declared": {"description": "wipes more"}}),
    ("tool mode", "pack_version_mismatch", {"declared": {"reversibility": "irreversible"}}),
    ("gate definition", "pack_version_mismatch", {"gates": (BOSS.model_copy(update={"quorum": 2}),)}),
    ("pack version", "pack_version_mismatch", {"version": "2.0.0"}),
    ("budget", "pack_version_mismatch", {"budget": {"tool_calls": 99}}),
]  # fmt: skip


@pytest.mark.req("R136", "R328")
@pytest.mark.parametrize(("what", "code", "change"), LATER, ids=[what for what, _, _ in LATER])
def test_another_pack_does_not_go_on(
    workshop: Workshop, url: str, what: str, code: str, change: dict[str, Any]
) -> None:
    """Whatever of the pack is another one when the call is due: the resume is refused, and says what can be done."""

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(packed(workshop, fact(workshop)), journal) as runtime:
                result = await approved(runtime)
            async with workshop.runtime(packed(workshop, fact(workshop), **change), journal) as moved:
                before = await moved.state(result.session_id)
                with pytest.raises(UsageError) as caught:
                    await moved.resume(result.session_id)
                assert caught.value.code == code
                assert "migrate" in str(caught.value.remedy)
                assert await moved.state(result.session_id) == before
            async with workshop.runtime(packed(workshop, fact(workshop)), journal) as again:
                assert (await again.resume(result.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("w", 1)], what


@pytest.mark.req("R136", "R328")
@pytest.mark.parametrize("is_gone", [False, True])
def test_other_evidence_does_not_go_on(workshop: Workshop, is_gone: bool) -> None:
    """Evidence with other content than what the approver saw, or none, is refused as another snapshot."""

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(packed(workshop, fact(workshop)), journal) as runtime:
                result = await approved(runtime)
            other = fact(workshop, ref=FACT.replace("s1", "s2")) if is_gone else fact(workshop, 1_000)
            async with workshop.runtime(packed(workshop, other), journal) as moved:
                with pytest.raises(UsageError) as caught:
                    await moved.resume(result.session_id)
                assert caught.value.code == "snapshot_version_mismatch"

    workshop.run(main())
    assert workshop.calls == []


async def _refusal(runtime: Runtime, session: str) -> list[tuple[str, str]]:
    found = await events(runtime.journal, session)
    return [(each.code, each.reason) for each in found if isinstance(each, e.StepRefused)]


@pytest.mark.req("R136")
def test_evidence_that_has_expired_refuses_the_call(workshop: Workshop) -> None:
    """What was good when it was approved and is stale when the call is due: the call is refused, and a person told."""

    async def main() -> None:
        async with workshop.runtime(packed(workshop, fact(workshop, lives_ms=60_000))) as runtime:
            result = await approved(runtime)
            workshop.clock.advance(60_000)
            result = await runtime.resume(result.session_id)
            assert result.status == "paused"
            assert f"the evidence {FACT} has expired" in result.reason
            assert [code for code, _ in await _refusal(runtime, result.session_id)] == ["evidence_expired"]
            assert (await runtime.resume(result.session_id)).status == "paused"

    workshop.run(main())
    assert workshop.calls == []


def test_evidence_is_good_until_it_expires(workshop: Workshop) -> None:
    """A moment before its end the same call is made."""

    async def main() -> None:
        async with workshop.runtime(packed(workshop, fact(workshop, lives_ms=60_000))) as runtime:
            result = await approved(runtime)
            workshop.clock.advance(59_999)
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())


READING: dict[str, dict[str, Any]] = {
    "reference": {"params": {"most": {"$evidence": f"{FACT}#/most"}}},
    "expression": {"params": {"most": {"$cel": f'evidence["{FACT}"].most'}}},
    "condition": {"params": {"most": 1}, "when": f'evidence["{FACT}"].most == 10'},
    "compensation": {
        "params": {"most": 1},
        "compensate": {"tool": "wipe.it", "params": {"most": {"$evidence": f"{FACT}#/most"}}},
    },
}
"""The ways in which a call may depend on evidence that its step does not list."""


@pytest.mark.req("R136")
@pytest.mark.parametrize("way", READING)
def test_evidence_that_a_call_reads_is_shown_and_bound(workshop: Workshop, way: str) -> None:
    """Whichever way a call depends on it: its content stands at the gate, and with other content the call is another."""

    async def asked(most: int) -> str:
        pack = packed(workshop, fact(workshop, most), declared={"reversibility": "compensable"})
        when = READING[way].get("when", "").replace("10", str(most)) or None
        reading = plan(step("w", "wipe.it", **{**READING[way], "when": when}))
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=reading, actor=ADA)
            assert result.gate is not None
            [shown] = result.gate.shown["evidence"]
            assert (shown["id"], shown["content"]) == (FACT, {"most": most})
            return result.gate.digest

    assert workshop.run(asked(10)) != workshop.run(asked(11))


@pytest.mark.req("R136")
@pytest.mark.parametrize("is_gated", [True, False])
@pytest.mark.parametrize("way", READING)
def test_evidence_that_a_call_reads_must_not_have_expired(
    workshop: Workshop, way: str, is_gated: bool
) -> None:
    """Nobody approves on expired evidence, and no call is made on it, approved or not."""
    declared = {"reversibility": "compensable", **({} if is_gated else {"mode": "local_write", "gates": ()})}

    async def main() -> None:
        workshop.tools.clear()
        pack = packed(workshop, fact(workshop, lives_ms=60_000), declared=declared)
        slow = {"wait.it": 60_000}

        async def wait(_: ToolContext, __: dict[str, Any]) -> Any:
            await workshop.clock.sleep(slow["wait.it"])
            return {}

        workshop.tool("wait.it", wait, "read_only", timeout_ms=100_000)
        pack = workshop.pack(gates=(BOSS,), evidence=pack.evidence)
        reading = plan(step("s", "wait.it"), step("w", "wipe.it", depends_on=("s",), **READING[way]))
        async with workshop.runtime(pack) as runtime:
            if not is_gated:
                result = await runtime.run(ASK, plan=reading, actor=ADA)
            else:
                slow["wait.it"] = 0
                result = await runtime.run(ASK, plan=reading, actor=ADA)
                assert result.gate is not None
                assert result.gate.stale
                await runtime.approve(gate_of(result), actor=BOB)
                late = await runtime.run(ASK, plan=reading, actor=ADA)
                workshop.clock.advance(60_000)
                with pytest.raises(UsageError) as caught:
                    await runtime.approve(gate_of(late), actor=BOB)
                assert caught.value.code == "evidence_expired"
                result = await runtime.resume(result.session_id)
            assert result.status == "paused"
            assert f"the evidence {FACT} has expired" in result.reason

    workshop.run(main())
    assert "w" not in [name for name, _ in workshop.calls]


NOTED = step("n", None, kind="note", params={"most": {"$evidence": f"{FACT}#/most"}, "other": 5})
THROUGH: dict[str, tuple[Step, ...]] = {
    "note": (NOTED, step("w", "wipe.it", params={"most": {"$from": "n#/most"}})),
    "expression": (NOTED, step("w", "wipe.it", params={"most": {"$cel": "n.most"}})),
    "condition": (NOTED, step("w", "wipe.it", params={}, when="n.most > 1")),
    "note of a note": (
        NOTED,
        step("m", None, kind="note", params={"all": {"$from": "n"}}),
        step("w", "wipe.it", params={"most": {"$from": "m#/all/most"}}),
    ),
    "condition of a note": (
        step("n", None, kind="note", params={}, when=f'evidence["{FACT}"].most == 10'),
        step("w", "wipe.it", params={}, depends_on=("n",)),
    ),
    "compensation": (
        NOTED,
        step("w", "wipe.it", params={}, depends_on=("n",), compensate={"tool": "wipe.it", "params": {"most": {"$from": "n#/most"}}}),
    ),
    "literal in a note": (
        step("n", None, kind="note", params={"most": 10}, evidence_refs=(FACT,)),
        step("w", "wipe.it", params={"most": {"$from": "n#/most"}}),
    ),
}  # fmt: skip
"""The ways in which a call may depend on evidence that its step does not mention."""
STRICT = {"authority": ("most",), "aliases": {"limit": "most"}, "reversibility": "compensable"}


@pytest.mark.req("R136")
@pytest.mark.parametrize("way", THROUGH)
def test_evidence_behind_notes_is_shown_and_must_be_valid(workshop: Workshop, way: str) -> None:
    """The gate shows it, and a call that was approved before it expired is not made afterwards."""

    async def main() -> None:
        pack = packed(workshop, fact(workshop, lives_ms=60_000), declared=STRICT)
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=plan(*THROUGH[way]), actor=ADA)
            assert result.gate is not None
            assert [shown["id"] for shown in result.gate.shown["evidence"]] == [FACT]
            assert result.gate.stale
            await runtime.approve(gate_of(result), actor=BOB)
            workshop.clock.advance(60_000)
            result = await runtime.resume(result.session_id)
            assert result.status == "paused"
            assert f"the evidence {FACT} has expired" in result.reason

    workshop.run(main())
    assert "w" not in [name for name, _ in workshop.calls]


@pytest.mark.parametrize(
    "steps",
    [
        (step("w", "wipe.it", params={"most": {"$from": "request#/most"}}),),
        (step("w", "wipe.it", params={"most": 10}),),
        (NOTED, step("w", "wipe.it", params={"text": {"$from": "n#/other"}})),
    ],
    ids=["a reference to the request", "a literal of the request", "another place of a note"],
)
def test_evidence_that_a_call_does_not_need_may_expire(workshop: Workshop, steps: tuple[Step, ...]) -> None:
    """A value that the request holds as well needs no evidence, nor does another place of the same note."""

    async def main() -> None:
        pack = packed(workshop, fact(workshop, lives_ms=60_000), declared=STRICT)
        asked = ASK.model_copy(update={"input": {**ASK.input, "most": 10}})
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(asked, plan=plan(*steps), actor=ADA)
            assert result.gate is not None
            assert result.gate.shown["evidence"] == []
            await runtime.approve(gate_of(result), actor=BOB)
            workshop.clock.advance(60_000)
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())


@pytest.mark.req("R136")
def test_a_result_that_decides_whether_a_call_is_made_is_bound(workshop: Workshop) -> None:
    """The results that its condition reads belong to the digest, and are named at the gate."""
    workshop.tool("do.it")
    workshop.tool("wipe.it", mode="destructive", authority=(), gates=("BOSS",), no_compensation="gone")
    digests: list[str] = []
    for value in ("yes", "no"):
        waiting = plan(step("a"), step("w", "wipe.it", params={}, when="a.n != 'never'", depends_on=("a",)))
        case = Case(workshop, waiting, gates=(BOSS,))
        case.begin("a")
        case.end("a", value={"n": value})
        [asked] = case.due()
        assert isinstance(asked, c.Ask)
        assert asked.shown["when"] == "a.n != 'never'"
        assert list(asked.shown["results"]) == ["a"]
        digests.append(asked.digest)
    assert digests[0] != digests[1]


@pytest.mark.req("R136")
@pytest.mark.parametrize(
    "people", [(Actor(id="bob", roles=("clerk",)), CLEO), (CLEO,)], ids=["moved", "gone"]
)
def test_an_approver_who_lost_the_role_refuses_the_call(
    workshop: Workshop, url: str, people: tuple[Actor, ...]
) -> None:
    """Another list of people, the same pack: the call is refused, the approval is void, and whoever resumes the run has
    people asked again; one who still holds the role lets the call through."""
    evidence = fact(workshop)

    async def main() -> None:
        async with workshop.journal(url) as journal:
            first = packed(workshop, evidence, actors=(BOB, CLEO))
            async with workshop.runtime(first, journal) as runtime:
                result = await approved(runtime)
            second = packed(workshop, evidence, actors=people)
            assert second.hash == first.hash
            async with workshop.runtime(second, journal) as later:
                result = await later.resume(result.session_id)
                assert result.status == "paused"
                assert "bob approved BOSS, and no longer holds boss" in result.reason
                assert [code for code, _ in await _refusal(later, result.session_id)] == [
                    "approver_lost_role"
                ]
                again = await later.resume(result.session_id)
                assert (again.status, workshop.calls) == ("awaiting_gate", [])
                await later.approve(gate_of(again), actor=CLEO)
                assert (await later.resume(result.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("w", 1)]


def test_a_lost_role_costs_a_planned_run_nothing(workshop: Workshop) -> None:
    """No other plan would help, so none is asked for: people are asked again, and the same plan goes on."""
    workshop.tool("wipe.it", mode="destructive", authority=(), gates=("BOSS",), no_compensation="gone")
    planner = Script(plan(step("w", "wipe.it")))

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(workshop.pack(gates=(BOSS,), actors=(BOB, CLEO)), journal) as runtime:
                result = await runtime.run(ASK, planner=planner, actor=ADA)
                await runtime.approve(gate_of(result), actor=BOB)
            async with workshop.runtime(workshop.pack(gates=(BOSS,), actors=(CLEO,)), journal) as later:
                assert (await later.resume(result.session_id, planner=planner)).status == "paused"
                again = await later.resume(result.session_id, planner=planner)
                await later.approve(gate_of(again), actor=CLEO)
                assert (await later.resume(result.session_id, planner=planner)).status == "completed"
                assert (await later.state(result.session_id)).used.replans == 0

    workshop.run(main())
    assert workshop.calls == [("w", 1)]


def test_a_quorum_that_shrinks_refuses_the_call(workshop: Workshop) -> None:
    """Of two approvers one has lost the role: the other alone is not enough."""
    two = BOSS.model_copy(update={"quorum": 2})

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            before = packed(workshop, fact(workshop), gates=(two,), actors=(BOB, CLEO))
            async with workshop.runtime(before, journal) as runtime:
                result = await approved(runtime, BOB, CLEO)
            after = packed(workshop, fact(workshop), gates=(two,), actors=(BOB, Actor(id="cleo")))
            async with workshop.runtime(after, journal) as later:
                result = await later.resume(result.session_id)
                assert "cleo approved BOSS, and no longer holds boss" in result.reason

    workshop.run(main())
    assert workshop.calls == []


@pytest.mark.req("R136")
def test_a_parameter_with_another_source_is_asked_about_again(workshop: Workshop) -> None:
    """An approved call whose parameter resolves to something else by now is no approved call."""
    workshop.tool("do.it")
    workshop.tool("wipe.it", mode="destructive", authority=(), gates=("BOSS",), no_compensation="gone")
    case = Case(
        workshop,
        plan(step("a"), step("w", "wipe.it", params={"n": {"$from": "a#/n"}})),
        gates=(BOSS,),
    )
    case.begin("a")
    case.end("a")
    [asked] = case.due()
    assert isinstance(asked, c.Ask)
    case.happen(
        e.GateOpened(at=1_000, gate="g", kind="approval", step="w", digest=asked.digest, needs=asked.needs),
        e.GateAnswered(at=1_000, gate="g", digest=asked.digest, answer="approve", actor="bob", roles=("boss",)),
    )  # fmt: skip
    assert [type(each) for each in case.due()] == [c.Dispatch]
    source = msgspec.structs.replace(case.state.steps["a"], value={"n": "something else"})
    case.state = msgspec.structs.replace(case.state, steps={**case.state.steps, "a": source})
    [again] = case.due()
    assert isinstance(again, c.Ask)
    assert again.digest != asked.digest
    assert again.shown["params"] == {"n": "something else"}
    assert asked.digest[:20] in again.shown["changed"]


def test_a_migration_voids_what_was_approved(workshop: Workshop) -> None:
    """Moved to other evidence, the call is another one: it waits at a new gate that shows the new value."""

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(packed(workshop, fact(workshop)), journal) as runtime:
                result = await approved(runtime)
            async with workshop.runtime(packed(workshop, fact(workshop, 1_000)), journal) as moved:
                migrated = await moved.migrate(result.session_id, actor=BOB)
                assert gate_of(migrated) != gate_of(result)
                assert migrated.gate is not None
                assert migrated.gate.shown["params"] == {"most": 1_000}
                assert workshop.calls == []
                await moved.approve(gate_of(migrated), actor=BOB)
                assert (await moved.resume(result.session_id)).status == "completed"

    workshop.run(main())
    assert workshop.calls == [("w", 1)]


BOUND: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("parameters", {"params": {"n": 2}}, {}),
    ("step", {"id": "v"}, {}),
    ("mode", {"approval_mode": "destructive"}, {}),
    ("compensation", {"compensate": {"tool": "undo.it", "params": {"n": 1}}}, {}),
    ("tool definition", {}, {"description": "does more"}),
    ("evidence", {"evidence_refs": (FACT,)}, {}),
]


@pytest.mark.req("R136")
@pytest.mark.parametrize(("what", "planned", "declared"), BOUND, ids=[what for what, _, _ in BOUND])
def test_the_digest_binds_what_the_design_lists(
    workshop: Workshop, what: str, planned: dict[str, Any], declared: dict[str, Any]
) -> None:
    """Any of it that is another one makes another digest, and the same makes the same."""

    def asked(planned: dict[str, Any], declared: dict[str, Any]) -> str:
        workshop.tools.clear()
        workshop.tool("undo.it")
        network: dict[str, Any] = {"mode": "network", "authority": ()}
        workshop.tool("net.it", **{**network, **declared})
        fields: dict[str, Any] = {"params": {"n": 1}, **planned}
        made = step(fields.pop("id", "a"), "net.it", **fields)
        [command] = Case(workshop, plan(made), evidence=(fact(workshop),), gates=(BOSS,)).due()
        assert isinstance(command, c.Ask)
        return command.digest

    assert asked({}, {}) == asked({}, {}) != asked(planned, declared), what


# --- outputs ---


def accepted(workshop: Workshop, quorum: int, people: tuple[Actor, ...]) -> Pack:
    """A pack whose outputs people of a list must accept; the list is no part of its hash."""
    editor = Gate(name="EDITOR", roles=("boss",), quorum=quorum)
    decision = {"requires_human_approval": True, "output_gate": "EDITOR"}
    return workshop.pack(gates=(editor,), actors=people, decision=decision)


ANN = Actor(id="ann", roles=("boss",))
OUTPUT = plan(step("a"), outputs={"x": {"$from": "a#/n"}})


@pytest.mark.req("R136")
@pytest.mark.parametrize(
    "left", [(Actor(id="bob", roles=("clerk",)), CLEO, ANN), (CLEO, ANN)], ids=["moved", "gone"]
)
def test_outputs_are_not_committed_on_the_word_of_somebody_who_lost_the_role(
    workshop: Workshop, url: str, left: tuple[Actor, ...]
) -> None:
    """One of a quorum approves, loses the role, and the next one approves: nothing is committed, both are asked again, are
    told why, and two who hold the role have it committed."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.journal(url) as journal:
            before = accepted(workshop, 2, (BOB, CLEO, ANN))
            async with workshop.runtime(before, journal) as runtime:
                result = await runtime.run(ASK, plan=OUTPUT, actor=ADA)
                await runtime.approve(gate_of(result), actor=BOB)
            after = accepted(workshop, 2, left)
            assert after.hash == before.hash
            async with workshop.runtime(after, journal) as later:
                await later.approve(gate_of(result), actor=CLEO)
                again = await later.resume(result.session_id)
                assert again.status == "awaiting_gate"
                assert again.gate is not None
                assert (again.gate.kind, again.gate.approvals) == ("output", ())
                assert again.gate.shown["changed"] == "bob approved EDITOR, and no longer holds boss"
                [lapsed] = [
                    event
                    for event in await events(journal, result.session_id)
                    if isinstance(event, e.AcceptanceLapsed)
                ]
                assert lapsed.gate == gate_of(result)
                for actor in (CLEO, ANN):
                    await later.approve(gate_of(again), actor=actor)
                assert (await later.resume(result.session_id)).status == "completed"

    workshop.run(main())


@pytest.mark.req("R136")
def test_one_who_accepted_alone_and_lost_the_role_is_not_enough(workshop: Workshop) -> None:
    """Also where one is enough: between the yes and the commit the role was taken away."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            async with workshop.runtime(accepted(workshop, 1, (BOB, CLEO)), journal) as runtime:
                result = await runtime.run(ASK, plan=OUTPUT, actor=ADA)
                await runtime.approve(gate_of(result), actor=BOB)
            async with workshop.runtime(accepted(workshop, 1, (CLEO,)), journal) as later:
                again = await later.resume(result.session_id)
                assert again.status == "awaiting_gate"
                await later.deny(gate_of(again), actor=CLEO)
                assert (await later.resume(result.session_id)).status == "rejected"

    workshop.run(main())


def test_outputs_are_committed_where_enough_approvals_hold(workshop: Workshop) -> None:
    """Whoever still holds the role is counted as before, and whoever never stood on a list where callers are trusted."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.runtime(accepted(workshop, 2, (BOB,)), trusts_caller=True) as runtime:
            result = await runtime.run(ASK, plan=OUTPUT, actor=ADA)
            for actor in (BOB, CLEO):
                await runtime.approve(gate_of(result), actor=actor)
            assert (await runtime.resume(result.session_id)).status == "completed"

    workshop.run(main())


def test_nothing_lapses_that_nobody_accepted() -> None:
    """A run that is committed without asking anybody cannot be held up by such an event."""
    committing = State(phase=Phase.COMMIT, start=msgspec.structs.replace(NOT_STARTED, run="run_1"))
    with pytest.raises(IllegalEvent, match="not accepted there"):
        fold_event(committing, e.AcceptanceLapsed(at=1, gate="ses_1.g1", reason="bob is no boss any more"))
