"""How a run through the loop ends: by confidence, by what asks for a person, and by what that person says."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Gate
from tercet.contracts.runs.record import AgentResult, FailureReport
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.runtime import Runtime

from .quality_desk import (
    AUTHORED,
    BAD_TONE,
    FINE_TONE,
    GOOD,
    KEY,
    LEAKY,
    LETTER,
    THRESHOLDS,
    TONE,
    WRITE,
    carry,
    desk,
    last,
    mended,
    model,
    of,
    told,
    way,
)
from .workshop import ADA, ASK, BOB, DAN, Workshop, events, step


@pytest.mark.req("R243")
@pytest.mark.parametrize(
    ("bands", "disposition", "outcome", "status"),
    [
        ({"auto_commit": 0.1, "human_review": 0.05}, "AUTO_COMMIT", "accept", "completed"),
        ({"auto_commit": 1.0, "human_review": 0.1}, "HUMAN_REVIEW", "ask", "awaiting_gate"),
        ({"auto_commit": 1.0, "human_review": 1.0}, "REJECT", "fail", "failed"),
    ],
)
def test_confidence_leads_to_a_commit_a_person_or_the_end(
    workshop: Workshop, url: str, bands: JsonObject, disposition: str, outcome: str, status: str
) -> None:
    """The same output, measured the same: only the bands of the decision say where its confidence leads."""
    pack = desk(
        workshop, {"letter": GOOD}, quality=AUTHORED, decision={"confidence": bands}, on_failure="keep"
    )
    done = carry(workshop, pack, url)
    reported = last(e.RunReported, done.found)
    assert (reported.exit["disposition"], reported.outcome, done.result.status) == (
        disposition,
        outcome,
        status,
    )
    assert reported.exit["confidence"] == last(e.OutputsCritiqued, done.found).confidence["value"]
    if status == "failed":
        assert "too low to ask a person" in done.result.reason


TRIGGERS: dict[str, JsonObject] = {
    "low_confidence": {"decision": {"confidence": {"auto_commit": 1.0, "human_review": 0.1}}},
    "required": {"decision": {"requires_human_approval": True}},
    "novel": {"quality": {"novelty": 0.5}},
    "unjudged": {"quality": {"documents": ()}},
}


@pytest.mark.req("R143", "R144", "R244")
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_each_of_what_asks_for_a_person_does_so_by_itself(workshop: Workshop, url: str, trigger: str) -> None:
    """Everything holds, and one condition asks for a person: a gate shows the outputs, why, and what is advised."""
    given = TRIGGERS[trigger]
    quality = {**AUTHORED, **given.get("quality", {})}
    pack = desk(workshop, {"letter": GOOD}, **{**given, "quality": quality})
    done = carry(workshop, pack, url, accepts=False)
    assert done.result.status == "awaiting_gate"
    gate = done.result.gate
    assert gate is not None
    assert gate.kind == "output"
    assert gate.shown["exit"]["triggers"] == [trigger]
    assert gate.shown["outputs"] == {"letter": GOOD if trigger == "unjudged" else LETTER}
    assert gate.shown["recommended"] == "approve"
    assert trigger in gate.shown["reason"]


@pytest.mark.req("R143")
def test_an_effect_that_cannot_be_undone_asks_for_a_person(workshop: Workshop) -> None:
    """The same output is not committed by itself once the run has done something irreversible."""
    workshop.tool("mail.it", mode="network", reversibility="irreversible", gates=("BOSS",), authority=())
    pack = desk(workshop, {"letter": GOOD}, quality=AUTHORED, gates=(Gate(name="BOSS", roles=("boss",)),))
    mailed = WRITE.model_copy(update={"steps": (*WRITE.steps, step("mail", "mail.it"))})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=mailed, actor=ADA)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            result = await runtime.resume(result.session_id)
            assert result.gate is not None
            assert (result.gate.kind, result.gate.shown["exit"]["triggers"]) == ("output", ["irreversible"])

    workshop.run(main())


@pytest.mark.req("R143")
def test_nothing_of_that_asks_nobody(workshop: Workshop) -> None:
    """Without any of them the same output is committed by itself."""
    done = carry(workshop, desk(workshop, {"letter": GOOD}, quality=AUTHORED), accepts=False)
    assert (done.result.status, done.result.outputs) == ("completed", {"letter": LETTER})
    assert last(e.RunReported, done.found).exit["triggers"] == []


@pytest.mark.req("R143")
def test_an_output_that_is_unsafe_goes_to_a_person(workshop: Workshop) -> None:
    """Safety below its threshold, and no repair left: nobody can wave it through at an output gate."""
    pack = desk(workshop, {"letter": LEAKY}, budget={"max_repairs": 0})
    done = carry(workshop, pack)
    exit_ = last(e.RunReported, done.found).exit
    assert "unsafe" in exit_["triggers"]
    assert (done.result.status, exit_["needs_approval"]) == ("paused", False)
    assert done.result.gate is not None
    assert done.result.gate.kind == "escalation"


@pytest.mark.req("R143", "R206")
def test_what_is_of_use_in_part_goes_to_a_person_who_may_take_it(workshop: Workshop, url: str) -> None:
    """No repair is left, and the decision says that a part is of use: the trigger says so, and a person takes it."""
    mild: JsonObject = {**BAD_TONE, "score": 0.7}
    pack = desk(
        workshop,
        {"letter": GOOD},
        quality={"rubric": TONE, "is_partial_useful": True},
        decision={"thresholds": THRESHOLDS},
    )

    async def main() -> None:
        critics = [model(*[mild] * 9)]
        async with (
            workshop.journal(url) as journal,
            workshop.runtime(pack, journal, critics=critics) as runtime,
        ):
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            found = await events(runtime.journal, result.session_id)
            assert last(e.OutputsRepaired, found).escalation["kind"] == "PARTIAL_COMMIT"
            assert "partial" in last(e.RunReported, found).exit["triggers"]
            assert result.gate is not None
            await runtime.decide(result.gate.id, "accept_partial", actor=BOB)
            done = await runtime.resume(result.session_id)
            record = await runtime.record(result.session_id)
            assert (done.status, record.report.status) == ("completed", "partial")

    workshop.run(main())


@pytest.mark.req("R142", "R144")
def test_who_may_accept_is_said_by_a_gate_of_the_pack(workshop: Workshop, url: str) -> None:
    """The gate that the decision names has roles; whoever holds none is told, and who approved stands in the record."""
    boss = Gate(name="EDITOR", roles=("boss",), ttl_ms=60_000)
    pack = desk(
        workshop,
        {"letter": GOOD},
        gates=(boss,),
        decision={"requires_human_approval": True, "output_gate": "EDITOR"},
    )

    async def main() -> None:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            gate = result.gate
            assert gate is not None
            assert (gate.names, gate.expires_at is not None) == (("EDITOR",), True)
            with pytest.raises(UsageError) as caught:
                await runtime.approve(gate.id, actor=DAN)
            assert caught.value.code == "role_missing"
            await runtime.approve(gate.id, actor=BOB, note="fine")
            done = await runtime.resume(result.session_id)
            left = await runtime.artifact(result.session_id)
            record = await runtime.record(result.session_id)
            assert done.status == "completed"
            assert isinstance(left, AgentResult)
            assert left.provenance.approver == "bob"
            (approval,) = record.approvals
            assert (approval.gate, approval.approver, approval.note) == ("EDITOR", "bob", "fine")

    workshop.run(main())


def test_an_output_gate_expires_with_its_session(workshop: Workshop) -> None:
    """Nobody answered in time: the session has expired, and nothing was committed."""
    pack = desk(
        workshop,
        {"letter": GOOD},
        gates=(Gate(name="EDITOR", roles=("boss",), ttl_ms=1_000),),
        decision={"requires_human_approval": True, "output_gate": "EDITOR"},
    )

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            assert result.gate is not None
            await workshop.clock.sleep(2_000)
            with pytest.raises(UsageError) as caught:
                await runtime.approve(result.gate.id, actor=BOB)
            assert caught.value.code == "gate_expired"
            assert (await runtime.resume(result.session_id)).status == "expired"

    workshop.run(main())


@pytest.mark.req("R142")
def test_a_denial_ends_it_with_its_reason(workshop: Workshop) -> None:
    """One no is enough: the run is rejected, and what it made is only in the report on its failure."""
    pack = desk(workshop, {"letter": GOOD}, decision={"requires_human_approval": True})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            assert result.gate is not None
            await runtime.deny(result.gate.id, actor=BOB, note="too long")
            done = await runtime.resume(result.session_id)
            left = await runtime.artifact(result.session_id)
            assert (done.status, done.reason) == ("rejected", "bob denied the outputs: too long")
            assert isinstance(left, FailureReport)
            assert left.partial_output == {"letter": GOOD}

    workshop.run(main())


async def changed(runtime: Runtime, note: str) -> tuple[Any, list[e.Event]]:
    """A run whose outputs a person wants changed, as it stands after that."""
    result = await runtime.run(ASK, plan=WRITE, actor=ADA)
    assert result.gate is not None
    await runtime.modify(result.gate.id, actor=BOB, note=note)
    again = await runtime.resume(result.session_id)
    return again, await events(runtime.journal, result.session_id)


@pytest.mark.req("R145")
def test_what_a_person_wants_changed_is_repaired_and_shown_again(workshop: Workshop, url: str) -> None:
    """Their words are the first defect that a model is told; what it writes is verified, criticised and shown to a person."""
    pack = desk(workshop, {"letter": GOOD}, decision={"requires_human_approval": True})
    mender = model(mended(f"Dear Ms. Okafor, {GOOD[0].lower()}{GOOD[1:]}"))

    async def main() -> None:
        async with (
            workshop.journal(url) as journal,
            workshop.runtime(pack, journal, repairers=[mender]) as runtime,
        ):
            again, found = await changed(runtime, "address her by her name")
            assert "address her by her name" in told(mender.questions[0])
            assert way(found)[-6:] == [
                "gate_answered: modify",
                "outputs_repaired: repaired",
                "outputs_verified: critique",
                "outputs_critiqued: exit",
                "run_reported: ask",
                "gate_opened: output",
            ]
            assert again.gate is not None
            assert again.gate.shown["outputs"]["letter"].startswith("Dear Ms. Okafor")
            assert again.gate.shown["repairs"] == 1
            await runtime.approve(again.gate.id, actor=BOB)
            assert (await runtime.resume(again.session_id)).status == "completed"

    workshop.run(main())


@pytest.mark.req("R145")
def test_what_nobody_can_change_is_told_to_that_person(workshop: Workshop) -> None:
    """Without a model the wish stays a wish: the next gate says so, with the outputs as they were."""
    pack = desk(workshop, {"letter": GOOD}, decision={"requires_human_approval": True})

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            again, found = await changed(runtime, "write it in verse")
            assert last(e.OutputsRepaired, found).escalation["kind"] == "HUMAN_REVIEW"
            assert again.gate is not None
            assert again.gate.shown["outputs"] == {"letter": GOOD}
            assert any("write it in verse" in line for line in again.gate.shown["left"])

    workshop.run(main())


def test_a_change_cannot_smuggle_something_in(workshop: Workshop) -> None:
    """What a model wrote for a person is judged like anything else: a key in it is taken out again, and not committed."""
    pack = desk(workshop, {"letter": GOOD}, decision={"requires_human_approval": True})
    mender = model(*[mended(f"{GOOD} Use {KEY}.")] * 5)

    async def main() -> None:
        async with workshop.runtime(pack, repairers=[mender]) as runtime:
            again, found = await changed(runtime, "tell her the key")
            assert KEY not in again.outputs["letter"]
            assert len(of(e.OutputsRepaired, found)) == 2

    workshop.run(main())


def test_a_yes_for_outputs_that_changed_is_none(workshop: Workshop) -> None:
    """The digest of an output gate binds the outputs and the decision about them: another gate has another one."""
    pack = desk(workshop, {"letter": GOOD}, decision={"requires_human_approval": True})
    mender = model(mended(GOOD + " Thank you."))

    async def main() -> None:
        async with workshop.runtime(pack, repairers=[mender]) as runtime:
            result = await runtime.run(ASK, plan=WRITE, actor=ADA)
            assert result.gate is not None
            await runtime.modify(result.gate.id, actor=BOB, note="say thanks")
            again = await runtime.resume(result.session_id)
            assert again.gate is not None
            assert again.gate.digest != result.gate.digest
            with pytest.raises(UsageError) as caught:
                await runtime.approve(again.gate.id, actor=BOB, digest=result.gate.digest)
            assert caught.value.code == "wrong_digest"
            with pytest.raises(UsageError) as caught:
                await runtime.approve(result.gate.id, actor=BOB)
            assert caught.value.code == "gate_not_open"

    workshop.run(main())


@pytest.mark.req("R240", "R246")
def test_a_rubric_that_is_not_met_is_never_committed(workshop: Workshop) -> None:
    """Its dimension has no threshold of its own, and still: without a repair that helps, a person decides."""
    pack = desk(workshop, {"letter": GOOD}, quality={"rubric": TONE}, decision={"thresholds": THRESHOLDS})
    done = carry(workshop, pack, critics=[model(*[BAD_TONE] * 9)])
    assert done.result.status == "paused"
    assert "the rubric is not met: tone below the minimum" in done.result.reason
    assert carry(workshop, pack, critics=[model(FINE_TONE)]).result.status == "completed"


@pytest.mark.req("R240", "R246")
def test_what_misses_a_threshold_is_repaired_although_the_rubric_would_let_it_pass(
    workshop: Workshop,
) -> None:
    """The minimum of a dimension is never below the threshold of its name: between the two nothing would mend it."""
    lax: JsonObject = {
        "dimensions": [
            {"name": "correctness", "weight": 0.9, "minimum": 0.1, "scorer": "grounded"},
            {"name": "safety", "weight": 0.1, "minimum": 0.1, "scorer": "safe"},
        ],
        "threshold": 0.1,
    }
    pack = desk(
        workshop,
        {"letter": LEAKY},
        quality={"rubric": lax},
        decision={"thresholds": (*THRESHOLDS, {"name": "correctness"})},
    )
    done = carry(workshop, pack)
    assert of(e.OutputsCritiqued, done.found)[0].rubric["below"] == ["correctness", "safety"]
    assert (done.result.status, KEY in done.result.outputs["letter"]) == ("completed", False)


@pytest.mark.req("R165")
def test_a_broken_schema_is_never_committed(workshop: Workshop) -> None:
    """Not even by a decision that lists no threshold for it."""
    pack = desk(
        workshop,
        {"letter": 7},
        budget={"max_repairs": 0},
        decision={"thresholds": ({"name": "policy"},)},
    )
    done = carry(workshop, pack)
    assert done.way == ["outputs_produced", "outputs_verified: exit", "run_reported: escalate", "gate_opened: escalation"]  # fmt: skip
    assert "7 is not of type" in done.result.reason
