"""Approval modes, reversibility and the effective step: silence inherits, and nothing ever weakens."""

from __future__ import annotations

import itertools

import pytest

from tercet.contracts.mode import MODE_RANK, REVERSIBILITY_RANK, ApprovalMode, Reversibility, Trust, stronger
from tercet.contracts.plan import Compensation, Step
from tercet.contracts.steps.effective import effective
from tercet.contracts.tool import ToolSpec

PAY = ToolSpec(
    name="adp_payments.issue_refund",
    mode=ApprovalMode.DESTRUCTIVE,
    reversibility=Reversibility.COMPENSABLE,
    gates=("GATE_FINANCE_APPROVAL",),
    compensate=Compensation(tool="adp_payments.reverse"),
    aliases={"id": "payment_id"},
    estimated_ms=400,
)


@pytest.mark.req("R19")
def test_modes_have_one_order() -> None:
    """read_only < local_write < network < delegated < destructive."""
    assert list(MODE_RANK.items()) == [
        ("read_only", 0),
        ("local_write", 1),
        ("network", 2),
        ("delegated", 3),
        ("destructive", 4),
    ]
    assert [mode.rank for mode in ApprovalMode] == [0, 1, 2, 3, 4]


@pytest.mark.req("R19")
@pytest.mark.parametrize(("first", "second"), list(itertools.product(ApprovalMode, repeat=2)))
def test_the_stronger_mode_wins(first: ApprovalMode, second: ApprovalMode) -> None:
    """Of two modes, the one that may do more counts, in whatever order they are given."""
    assert stronger(first, second) is stronger(second, first)
    assert stronger(first, second).rank == max(first.rank, second.rank)


@pytest.mark.req("R49")
def test_reversibility_has_four_classes() -> None:
    """Pure, reversible, compensable, irreversible, from harmless to final."""
    assert [kind.name for kind in Reversibility] == ["PURE", "REVERSIBLE", "COMPENSABLE", "IRREVERSIBLE"]
    assert list(REVERSIBILITY_RANK.values()) == [0, 1, 2, 3]


def test_a_value_is_trusted_or_not() -> None:
    """There is nothing between."""
    assert {trust.value for trust in Trust} == {"trusted", "untrusted"}


def test_a_silent_step_inherits_from_its_tool() -> None:
    """Mode, reversibility, gates, compensation and duration come from the tool."""
    step = effective(3, Step(id="a", tool=PAY.name, params={"payment_id": "p1"}), PAY)
    assert (step.position, step.mode, step.reversibility) == (
        3,
        ApprovalMode.DESTRUCTIVE,
        Reversibility.COMPENSABLE,
    )
    assert (step.gates, step.compensate, step.estimated_ms) == (PAY.gates, PAY.compensate, 400)
    assert (step.params, step.doubled) == ({"payment_id": "p1"}, ())


def test_a_step_may_tighten_and_never_loosen() -> None:
    """A step adds gates to those of its tool, raises mode and reversibility, and cannot lower any of them."""
    harder = Step(
        id="a",
        tool=PAY.name,
        gates=("GATE_LEGAL", "GATE_FINANCE_APPROVAL"),
        reversibility=Reversibility.IRREVERSIBLE,
        estimated_ms=0,
        compensate=Compensation(tool="adp_payments.other"),
    )
    step = effective(0, harder, PAY)
    assert step.gates == ("GATE_FINANCE_APPROVAL", "GATE_LEGAL")
    assert step.reversibility is Reversibility.IRREVERSIBLE
    assert step.compensate == harder.compensate
    assert step.estimated_ms == 0

    softer = Step(
        id="a",
        tool=PAY.name,
        gates=(),
        approval_mode=ApprovalMode.READ_ONLY,
        reversibility=Reversibility.PURE,
    )
    step = effective(0, softer, PAY)
    assert step.gates == PAY.gates
    assert step.mode is ApprovalMode.DESTRUCTIVE
    assert step.reversibility is Reversibility.COMPENSABLE


def test_aliases_are_resolved_and_doubles_are_told() -> None:
    """A parameter under another spelling is the parameter; giving it twice is noted for the critic to refuse."""
    assert effective(0, Step(id="a", tool=PAY.name, params={"id": "p1"}), PAY).params == {"payment_id": "p1"}
    twice = effective(0, Step(id="a", tool=PAY.name, params={"id": "p1", "payment_id": "p2"}), PAY)
    assert twice.doubled == ("payment_id",)


@pytest.mark.req("R49")
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ApprovalMode.READ_ONLY, Reversibility.PURE),
        (ApprovalMode.LOCAL_WRITE, Reversibility.COMPENSABLE),
        (ApprovalMode.NETWORK, Reversibility.COMPENSABLE),
        (ApprovalMode.DELEGATED, Reversibility.COMPENSABLE),
        (ApprovalMode.DESTRUCTIVE, Reversibility.IRREVERSIBLE),
    ],
)
def test_a_silent_tool_is_assumed_to_be_dangerous(mode: ApprovalMode, expected: Reversibility) -> None:
    """A tool that says nothing about taking it back is judged by its mode."""
    assert ToolSpec(name="x.y", mode=mode).effective_reversibility is expected


@pytest.mark.parametrize("mode", ApprovalMode)
def test_a_silent_tool_above_local_write_has_authority_everywhere(mode: ApprovalMode) -> None:
    """Without a declaration, all parameters of a tool that reaches outside carry authority, named or not."""
    tool = ToolSpec(name="x.y", mode=mode, parameters={"properties": {"to": {}, "note": {}}})
    reaches_out = mode.rank > ApprovalMode.LOCAL_WRITE.rank
    assert tool.has_authority_everywhere is reaches_out
    assert tool.authority_parameters == (frozenset({"to", "note"}) if reaches_out else frozenset())
    declared = tool.model_copy(update={"authority": ("to",)})
    assert declared.authority_parameters == {"to"}
    assert not declared.has_authority_everywhere
