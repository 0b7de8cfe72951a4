"""The question of a gate: why people are asked, and what each possible answer leads to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from tercet.contracts.decision import OnFailure
from tercet.contracts.gate import Gate
from tercet.contracts.plan import compensated_step
from tercet.contracts.policy import Policy
from tercet.contracts.shape import as_list, as_object
from tercet.core.events.gate import Answered
from tercet.core.fold.base import answers_to
from tercet.core.fold.gate import can_be_held, is_of_compensation
from tercet.core.message_rules import lacking_approvals
from tercet.core.messages import TEMPLATE
from tercet.core.modifications import SETTABLE
from tercet.core.state import OpenGate, State
from tercet.view.text import count, join_names

# --- why people are asked ---


@dataclass(frozen=True, kw_only=True)
class AskedName:
    """A name of a gate: its description by the pack, and the reasons for asking."""

    name: str
    description: str
    reasons: tuple[str, ...]


class AskingRules(Protocol):
    """The rules of a pack that ask people."""

    @property
    def gates(self) -> Sequence[Gate]: ...
    @property
    def policies(self) -> Sequence[Policy]: ...


def asked_names(gate: OpenGate, state: State, pack: AskingRules | None = None) -> tuple[AskedName, ...]:
    """Return why people are asked at a gate, by the gates and policies of its pack if that is known.

    The reasons are those of the plan's verdict. A name that it lacks comes from a policy that was decided at the call.
    """
    gates, policies = (pack.gates, pack.policies) if pack is not None else ((), ())
    demands = [as_object(each) or {} for each in as_list(state.verdict.get("gates")) or ()]
    found: list[AskedName] = []
    for name in gate.names:
        planned = [
            d.get("reason") for d in demands if d.get("gate") == name and d.get("step_id") in gate.calls
        ]
        messages = [each.message for each in policies if each.gate == name and each.message]
        description = next((each.description for each in gates if each.name == name), "")
        reasons = tuple(dict.fromkeys(map(str, planned or messages)))
        found.append(AskedName(name=name, description=description, reasons=reasons))
    return tuple(found)


# --- what an answer leads to ---


GateAnswer: TypeAlias = Answered | Literal["set_values"]
"""An answer to a gate; `set_values` is `modify` with values for the call."""
GateEnding: TypeAlias = Literal["completed", "rejected", "failed"]


@dataclass(frozen=True, kw_only=True)
class Consequence:
    """What an answer to a gate leads to."""

    answer: GateAnswer
    sentences: tuple[str, ...]
    ends: GateEnding | None = None
    """The status that the answer ends the run with; None if it goes on, or if its end was decided before."""

    @property
    def text(self) -> str:
        """The sentences in one line."""
        return "; ".join(self.sentences)


def consequences(gate: OpenGate, state: State) -> tuple[Consequence, ...]:
    """Return what each answer that an open gate takes leads to."""
    return tuple(
        Consequence(
            answer=answer, sentences=tuple(_sentences(answer, gate, state)), ends=_ends(answer, gate, state)
        )
        for answer in _possible_answers(gate, state)
    )


def _possible_answers(gate: OpenGate, state: State) -> Iterator[GateAnswer]:
    """Yield the answers that the state of the run allows, to any person."""
    is_fixed = is_of_compensation(state, gate)
    can_replan = state.plan_origin == "planner" and state.start.planner != TEMPLATE and not state.accepted
    for answer in gate.shown.get("options", answers_to(gate)):
        match answer:
            case "withdraw":
                is_possible = bool(gate.approvals) and any(
                    can_be_held(state.steps[name], gate) for name in gate.calls
                )
            case "modify":
                is_possible = gate.kind == "output" or (can_replan and not is_fixed)
                if can_set_values(gate, state) and not is_fixed:
                    yield "set_values"
            case _:
                is_possible = True
        if is_possible:
            yield answer


def can_set_values(gate: OpenGate, state: State) -> bool:
    """Return whether values can be set in the call of a gate: it shows which, and another person could approve them."""
    if SETTABLE not in gate.shown or state.is_stepwise:
        return False
    people: dict[str, Any] = state.start.people or {}
    wanted = {role for need in gate.needs.values() for role in need.roles}
    able = (
        who
        for who, person in people.items()
        if who != state.start.actor["id"] and not wanted.isdisjoint(person["roles"])
    )
    return not people or any(not lacking_approvals(gate, state, {who}) for who in able)


def _ends(answer: GateAnswer, gate: OpenGate, state: State) -> GateEnding | None:
    match answer:
        case "accept_partial":
            return "completed"
        case "abandon":
            return "failed"
        case "deny":
            return None if gate.lane or is_of_compensation(state, gate) else "rejected"
        case _:
            return None


def _sentences(answer: GateAnswer, gate: OpenGate, state: State) -> Iterator[str]:
    match answer:
        case "approve":
            yield from _approved(gate, state)
        case "deny":
            yield from _denied(gate, state)
        case "happened" | "did_not_happen":
            yield _settled(gate, state, has_happened=answer == "happened")
        case "modify" if gate.kind == "output":
            yield "the outputs are repaired with your note, and judged again"
        case "abandon":
            yield "nothing more is called, and the run ends failed"
            yield from effects_at_the_end(state)
        case "compensate":
            yield f"the compensations are called, the last effect first, and the run ends {state.ending}"
        case "keep":
            yield f"nothing is called: the effects stay, and the run ends {state.ending}"
        case _:
            yield from _FIXED[answer]


_FIXED: dict[GateAnswer, tuple[str, ...]] = {
    "modify": (
        "nothing is called",
        "the planner makes another plan with your note, and the critic reviews it",
    ),
    "set_values": (
        "nothing is called yet",
        "the critic reviews the plan with your values, and another person approves the changed call",
    ),
    "withdraw": ("an approval no longer counts, and the gate waits for another one",),
    "extend": ("the budget grows by what you add, and the run goes on where it stopped",),
    "replan": ("the planner makes another plan with your note, and the critic reviews it",),
    "accept_partial": ("the run ends completed, as partial, with what it has", "its effects are kept"),
}
"""The consequences of answers that lead to the same in every run."""


def _approved(gate: OpenGate, state: State) -> Iterator[str]:
    """Yield which approvals are still missing after the next one, and what happens once there are all."""
    missing = {name: gate.needs[name].quorum - len(gate.approvers(name)) for name in gate.unmet}
    more = max(missing.values(), default=1) - 1
    if len(missing) > 1:  # one person may count for several names
        yield f"nothing happens before {join_names(list(missing))} have all their approvals"
    elif more:
        yield f"nothing happens yet: {count(more, 'more approval')} {'is' if more == 1 else 'are'} needed"
    then = "then " if len(missing) > 1 or more else ""
    if gate.kind == "output":
        yield f"{then}the outputs are accepted as they are, and the run goes on to its end"
        return
    host = compensated_step(gate.step) if is_of_compensation(state, gate) else ""
    made = "are called once each" if gate.covers else "is called once"
    yield f"{then}{_calls(gate)} {made}, with exactly these values{f', to compensate {host}' if host else ''}"


def _denied(gate: OpenGate, state: State) -> Iterator[str]:
    """Yield what a denial leads to: the end of the run, of its lane, or only of a compensation."""
    nothing = f"{_calls(gate)} {'are' if gate.covers else 'is'} not called"
    if gate.lane:
        yield f"{nothing}, and the lane ends rejected"
        yield "the run that started the lane goes on by its plan"
    elif is_of_compensation(state, gate):
        yield nothing
        yield f"the effect of {compensated_step(gate.step)} stays, and is left to an operator"
        yield "other effects are compensated"
    else:
        nothing = "the outputs are not committed" if gate.kind == "output" else nothing
        yield f"{nothing}, and the run ends rejected"
        yield from effects_at_the_end(state)


def _settled(gate: OpenGate, state: State, *, has_happened: bool) -> str:
    """Return what the answer whether a call has happened leads to; in a run that ends, only compensations are called."""
    is_ending = bool(state.ending) and not is_of_compensation(state, gate)
    if not has_happened and not is_ending:
        return f"{_calls(gate)} is called again"
    on = "goes on with the result that you enter" if has_happened else ""
    return f"{_calls(gate)} is not called again, and the run {f'ends {state.ending}' if state.ending else on}"


def _calls(gate: OpenGate) -> str:
    """Return the tools of the calls that a gate is about."""
    others = (str(each.get("tool")) for each in gate.shown.get("sequence", ()))
    return join_names([str(gate.shown.get("tool") or "the call"), *others])


_EFFECTS: dict[OnFailure, str] = {
    "ask": "if its earlier calls had effects, a person decides whether these are compensated",
    "compensate": "effects of its earlier calls are compensated, the last one first",
    "keep": "effects of its earlier calls are kept",
}


def effects_at_the_end(state: State) -> Iterator[str]:
    """Yield what happens to the effects of a run that a person ends; nothing if it has called nothing."""
    if state.keys or state.used.tool_calls:
        yield _EFFECTS[state.start.on_failure]
