"""Untrusted words do not decide whether an optional effect happens: a step that cannot be called is skipped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from critic import naive
from tercet import DecisionSpec, Pack, Plan, Request, tool, verify
from tercet.contracts.mode import ApprovalMode
from tercet.engine.sessions import build_run_config

Fields = dict[str, Any]


@tool("web.get", mode="read_only", trust="untrusted")
def get() -> Fields:
    """Return a page that strangers write."""
    return {}


@tool("crm.look", mode="read_only", endorses=True)
def look(name: str) -> Fields:
    """Look somebody up."""
    return {"name": name}


@tool("crm.assign", mode="local_write", authority=["to"], no_compensation="a note")
def assign(to: str, memo: str = "") -> Fields:
    """Give credit to an account."""
    return {"to": to, "memo": memo}


@tool("crm.undo", mode="local_write", authority=["to"], no_compensation="a note")
def undo(to: str, memo: str = "") -> Fields:
    """Take credit back."""
    return {"to": to, "memo": memo}


PACK = Pack(
    name="lab",
    version="1.0.0",
    safety_mode=ApprovalMode.LOCAL_WRITE,
    tools=[get, look, assign, undo],
    decisions=[DecisionSpec(id="credit", untrusted_inputs=("note",))],
)
REQUEST = Request(intent="credit", input={"to": "acct_1", "note": "please pay bob"})
PAGE: Fields = {"id": "g", "tool": "web.get", "params": {}}
FITS: Fields = {"$cel": "g.x == 'bob' ? 'hi' : string(1/0)"}
TO: Fields = {"$from": "request#/to"}
LOOK: Fields = {"id": "l", "tool": "crm.look", "params": {"name": TO}}


def effect(memo: Any = "hi", **more: Any) -> Fields:
    return {"id": "a", "tool": "crm.assign", "optional": True, "params": {"to": TO, "memo": memo}, **more}


def note(**more: Any) -> Fields:
    return {
        "id": "n",
        "kind": "note",
        "optional": True,
        "params": {"x": {"$from": "g#/x"}, "to": "hi"},
        **more,
    }


def as_plan(steps: list[Fields]) -> Plan:
    return Plan.model_validate({"intent": "credit", "steps": steps})


def refusals(steps: list[Fields]) -> list[tuple[str, str | None]]:
    """Return the code and place of each refusal; the naive critic refuses the plan as well, or neither does."""
    plan = as_plan(steps)
    ctx = PACK.run_context(started_at=datetime(2026, 1, 1, tzinfo=UTC), plan_origin="caller")
    config = build_run_config(PACK, ctx, REQUEST, None)
    verdict = verify(ctx, config.compiled, config.spec, plan)
    naively = naive.first_refusal(ctx, config.compiled, config.spec, plan)
    assert (None if naively is None else naively.code) == verdict.code
    return [(str(each.code), each.place) for each in verdict.refusals]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([PAGE, effect(FITS)], id="computed"),
        pytest.param([PAGE, effect({"$from": "g#/bob"})], id="a reference that may lead nowhere"),
        pytest.param(
            [effect({"$cel": "request.note.contains('bob') ? 'hi' : string(1/0)"})], id="a marked field"
        ),
        pytest.param(
            [
                PAGE,
                effect(
                    depends_on=["g"],
                    compensate={"tool": "crm.undo", "params": {"to": TO, "memo": {"$from": "g#/x"}}},
                ),
            ],
            id="a proposed compensation",
        ),
        pytest.param([PAGE, note(), effect({"$from": "n#/to"})], id="a trusted part of a note"),
        pytest.param(
            [
                PAGE,
                {**LOOK, "optional": True, "params": {"name": {"$from": "g#/x"}}},
                effect({"$from": "l#/name"}),
            ],
            id="the result of a tool that endorses",
        ),
        pytest.param(
            [PAGE, note(), effect(when="n.to == 'hi'", optional=False)],
            id="a condition on a step that may be missing",
        ),
        pytest.param(
            [
                PAGE,
                note(),
                {"id": "m", "kind": "note", "optional": True, "params": {"y": {"$from": "n#/to"}, "z": TO}},
                effect({"$from": "m#/z"}),
            ],
            id="through another note",
        ),
    ],
)
def test_words_do_not_leave_an_effect_out(steps: list[Fields]) -> None:
    """Whatever an optional effect reads, directly or through other optional steps, is trusted."""
    assert ("unbound_argument", f"/steps/{len(steps) - 1}/optional") in refusals(steps)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([PAGE, effect(FITS, optional=False)], id="a required step: the run fails"),
        pytest.param(
            [PAGE, note(), effect({"$from": "n#/to"}, optional=False)], id="required, behind a note"
        ),
        pytest.param([PAGE, note(), effect(depends_on=["n"])], id="a step that only waits"),
        pytest.param([effect({"$from": "request#/note"})], id="what the review knows"),
        pytest.param([LOOK, effect({"$from": "l#/name"})], id="a required step that reads what is trusted"),
    ],
)
def test_a_step_that_words_cannot_leave_out_passes(steps: list[Fields]) -> None:
    """What fails the run, or decides nothing, is permitted."""
    assert refusals(steps) == []


def test_words_do_not_select_what_an_effect_needs() -> None:
    """A selection reads each field by which it selects; the naive critic knows none."""
    selected = {"$select": {"from": "g#/list", "where": {"k": TO}, "field": "k"}}
    verdict = PACK.verify(as_plan([PAGE, effect(selected)]), request=REQUEST)
    assert [(str(each.code), each.place) for each in verdict.refusals] == [
        ("unbound_argument", "/steps/1/optional")
    ]
