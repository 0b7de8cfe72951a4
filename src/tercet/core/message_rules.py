"""Rules for messages: the event that a message becomes, or why the session's state does not allow it.

Permissions are checked here, against the state that the message meets, so two answers that race have one outcome. A message
that is not allowed is dropped, and the text of the refusal is recorded as a fact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.loop import Phase
from tercet.contracts.request import SIMULATED
from tercet.contracts.runs.behaviour import Behaviour, is_outdated
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values.canonical import canonical
from tercet.core import events as e
from tercet.core.events.gate import GateKind
from tercet.core.fold.base import MODIFIED, POLICY, answers_to, copy_fields, owner_named, owners_of
from tercet.core.fold.gate import can_be_held, gate_for, has_set_values, is_of_compensation
from tercet.core.messages import TEMPLATE, Cancel, Extend, Message, Pause, Reply, demand_extension
from tercet.core.modifications import NOT_SETTABLE, SETTABLE, demand_settable, is_replaced
from tercet.core.state import Answer, OpenGate, State
from tercet.core.transcript import timestamp
from tercet.policy import schemas


def event_of(said: Message, state: State, now: int, *, inbox: int = 0, outside: bool = False) -> e.Event:
    """Return the event of a message; raises `UsageError` if the current state does not allow it."""
    at = max(now, state.at)
    if state.is_over:
        raise session_over(said.session, state)
    _demand_person(said)
    _demand_simulation(said, state)
    if not isinstance(said, Reply):
        _demand_open(said, state)
    said_by = {"at": at, "by": said.actor, "inbox": inbox, "outside": outside}
    match said:
        case Reply():
            return _gate_answer(said, state, at, inbox=inbox, outside=outside)
        case Pause():
            _demand_running(said, state)
            reason = f"paused by {said.actor}: {said.note}".rstrip(": ")
            return copy_fields(e.SessionPaused, said, reason=reason, **said_by)
        case Cancel():
            return copy_fields(e.SessionCancelled, said, reason=said.note, **said_by)
        case Extend():
            demand_extension(said.more)
            _demand_own_budget(said, state)
            return copy_fields(e.BudgetExtended, said, **said_by)


def session_over(session: str, state: State) -> UsageError:
    """Return the error for a message to a session that is over."""
    return UsageError(
        f"session {session} is over: it is {state.status}",
        code="session_over",
        remedy=f"tercet sessions show {session} shows how it ended",
    )


def demand_current_rules(said: Message, state: State) -> None:
    """Raise `UsageError` for an approval of a session with outdated rules, which would be void when it is resumed."""
    is_approval = isinstance(said, Reply) and said.answer in ("approve", "compensate")
    if is_approval and is_outdated(state.start.behaviour):
        session = state.start.session
        raise UsageError(
            f"session {session} was started by an earlier version, and an approval would not count",
            code="outdated_rules",
            remedy=f"continue it under the current rules, then answer its new gate: tercet sessions resume {session} --pack FOLDER",
        )


def _demand_person(said: Message) -> None:
    """Raise `UsageError` for an actor with the name of a policy, since grants of policies are recorded by their name."""
    if said.actor.startswith(POLICY) or said.auth == "policy":
        raise UsageError(
            f"{said.actor} is the name of a policy, not of a person",
            code="reserved_name",
            remedy=f"use a name that does not begin with {POLICY}",
        )


def _demand_simulation(said: Message, state: State) -> None:
    """Raise `UsageError` for a message sent as another person, except in a development session."""
    is_simulated = said.auth == SIMULATED or bool(said.simulated_by)
    if is_simulated and not state.start.dev:
        raise UsageError(
            f"session {said.session} is not a development session: only {said.actor} can speak as {said.actor}",
            code="simulation_refused",
            remedy=f"let {said.actor} do it from their own login; or start the run again with --dev",
        )


def _demand_open(said: Message, state: State) -> None:
    """Raise `UsageError` if the end of the run is decided: it can be neither paused, cancelled nor extended."""
    if state.phase in (Phase.COMMIT, Phase.FAIL):
        raise UsageError(
            f"session {said.session} is ending already: {state.reason}".rstrip(": "),
            code="session_ending",
            remedy=f"tercet sessions resume {said.session} brings it to its end",
        )


def _demand_own_budget(said: Extend, state: State) -> None:
    """Raise `UsageError` for a lane, whose budget is the part that its parent has reserved."""
    if state.start.lane:
        raise UsageError(
            f"session {said.session} is a lane, and has the budget that was reserved for it",
            code="lane_budget",
            remedy=f"extend the run that started it: {state.start.lane['parent']}",
        )


def _demand_running(said: Pause, state: State) -> None:
    if state.status != "in_progress":
        raise UsageError(
            f"session {said.session} is {state.status}: there is nothing to pause",
            code="not_running",
            remedy="answer its gate, resume it, or cancel it",
        )


# --- answers to gates ---


def _gate_answer(said: Reply, state: State, at: int, *, inbox: int, outside: bool) -> e.GateAnswered:
    gate = _gate_of(said, state)
    said = _with_confirmed_roles(said, state)
    _require_own_gate(said, state)
    if said.answer not in answers_to(gate):
        options: Sequence[str] = gate.shown.get("options", answers_to(gate))
        raise UsageError(
            f"gate {said.gate} takes {_or(list(map(_option, options)))}, not {_option(said.answer)}",
            code="wrong_answer",
            remedy=f"answer it with tercet gates {_COMMANDS[gate.kind]}; tercet gates show {said.gate} shows the question",
        )
    if gate.expires and at >= gate.expires and said.answer != "withdraw":
        raise _gate_expired(gate, said.session)
    if said.digest and said.digest != gate.digest:
        raise UsageError(
            f"gate {said.gate} is about another call than the one with digest {said.digest[:20]}…",
            code="wrong_digest",
            remedy=f"look at it again: tercet gates show {said.gate}",
        )
    if said.answer == "approve":
        _demand_fresh(gate, at)
    if said.changes and said.answer != "modify":
        raise UsageError(
            f"{said.answer} sets no values", code="usage", remedy="answer with modify to set values in a call"
        )
    _RULES[said.answer](said, gate, state)
    return copy_fields(e.GateAnswered, said, at=at, digest=gate.digest, outside=outside, inbox=inbox)


def _option(answer: str) -> str:
    """Return an answer as commands spell it."""
    return answer.replace("_", "-")


def _or(names: Sequence[str]) -> str:
    """Return names as words: `approve, deny or modify`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


_COMMANDS: dict[GateKind, str] = {
    "approval": "approve, deny or modify",
    "reconcile": "settle",
    "escalation": "decide",
    "compensation": "decide",
    "output": "approve, deny or modify",
}
"""The commands that answer each kind of gate."""


def _require_own_gate(said: Reply, state: State) -> None:
    """Raise `UsageError` for an answer to a lane that was not given at the run that started it, which waits for it."""
    parent = state.start.lane.get("parent", "")
    if said.via != parent:
        raise UsageError(
            f"gate {said.gate} belongs to a lane of session {parent}",
            code="lane_gate",
            remedy="answer it at that session: tercet gates list names its gate",
        )


def _with_confirmed_roles(said: Reply, state: State) -> Reply:
    """Return an answer with only those of the sender's roles that the run's own list of people confirms.

    The list is used for answers from a login, and for those that claim roles from a list. Raises `UsageError` if the list
    gives that name to another login. The owner of the run is the one recorded at its start.
    """
    people: dict[str, Any] = state.start.people or {}
    owner = state.start.actor
    is_owner = bool(said.login) and (said.actor, said.login) == (owner["id"], owner.get("os_user"))
    if not people or is_owner or not (said.login or _goes_by_list(said, state)):
        return said
    person = as_object(people.get(said.actor)) or {}
    if said.login and said.actor in people and person.get("login") != said.login:
        raise UsageError(
            f"{said.actor} is not the login {said.login}, by the list of people of this run's pack",
            code="wrong_login",
            remedy=f"answer from their login, or let another person answer; {_people_hint(said)}{_dev_hint(state)}",
        )
    held = as_list(person.get("roles")) or ()
    return msgspec.structs.replace(said, roles=tuple(role for role in said.roles if role in held))


def _goes_by_list(said: Reply, state: State) -> bool:
    """Return whether an answer claims roles from a list of people, and the session's rules check that."""
    return said.listed and Behaviour.STRICT_CALLS in state.start.behaviour


def _dev_hint(state: State) -> str:
    """Return how to act as another person in a development run; nothing for other runs."""
    return "; this is a development run: --dev --as NAME acts as any person" if state.start.dev else ""


def _people_hint(said: Reply) -> str:
    """Return where the list of people is, and how a session reads it again."""
    return (
        f"people and their roles are listed in the actors.toml of the run's own pack; if that was changed since, "
        f"resume {said.session} with that pack to read it again"
    )


def _gate_of(said: Reply, state: State) -> OpenGate:
    """Return the gate of an answer; raises `UsageError` if it can no longer be answered."""
    if (gate := gate_for(state, said.gate, said.answer)) is not None:
        return gate
    if state.ending:
        raise UsageError(
            f"gate {said.gate} is closed, and its session is ending: {state.reason}",
            code="gate_expired" if state.ending == "expired" else "session_ending",
            remedy=f"tercet sessions resume {said.session} brings it to its end; start another run only then",
        )
    last = next((each for each in reversed(state.answers) if each.gate == said.gate), None)
    raise UsageError(
        f"gate {said.gate} is not open",
        code="gate_not_open",
        remedy=f"{_answer_words(last)}; tercet gates show {said.gate} shows it, and tercet gates list the open gates",
    )


def _answer_words(last: Answer | None) -> str:
    """Return who gave the last answer to a closed gate, and when."""
    if last is None:
        return "its call has changed since, or is no longer needed"
    return f"{last.actor} answered it with {last.answer.replace('_', '-')} at {timestamp(last.at)}"


def _gate_expired(gate: OpenGate, session: str) -> UsageError:
    """Return the error for an answer to an expired gate."""
    return UsageError(
        f"gate {gate.id} has expired, and its session with it",
        code="gate_expired",
        remedy=f"tercet sessions resume {session} brings it to its end; start another run only then",
    )


def _demand_fresh(gate: OpenGate, at: int) -> None:
    """Raise `UsageError` for an approval on expired evidence."""
    if gate.stale and at >= gate.stale:
        raise UsageError(
            f"evidence behind gate {gate.id} has expired",
            code="evidence_expired",
            remedy=f"deny it, and start the run again on fresh evidence; tercet gates show {gate.id} names it",
        )


def _owner(said: Reply, state: State) -> str:
    """Return the owner identity of the sender; without a login in the answer, the list's login counts."""
    listed: dict[str, Any] = state.start.people or {} if _goes_by_list(said, state) else {}
    login = said.login or (as_object(listed.get(said.actor)) or {}).get("login") or ""
    return owner_named(state, said.actor, login)


def _demand_other_than_owner(said: Reply, state: State, cannot: str, remedy: str) -> None:
    """Raise `UsageError` for an answer that the owner of the run cannot give."""
    if owner := _owner(said, state):
        raise UsageError(f"{owner} started this run, and {cannot}", code="own_gate", remedy=remedy)


def _may_approve(said: Reply, gate: OpenGate, state: State) -> None:
    _demand_other_than_owner(
        said, state, "cannot approve its gate", "let another person approve it, or deny it"
    )
    for approval in gate.approvals:
        if approval.actor != said.actor and not (said.login and approval.login == said.login):
            continue
        who = said.actor if approval.actor == said.actor else f"the login {said.login}"
        raise UsageError(
            f"{who} has approved gate {gate.id} already{'' if who == said.actor else f', as {approval.actor}'}",
            code="already_approved",
            remedy="a quorum counts different people: let another person approve it as well",
        )
    if has_set_values(state, gate, said.actor, said.login):
        raise UsageError(
            f"{said.actor} has set values in the call of gate {gate.id}, and cannot approve it",
            code="own_change",
            remedy="let another person with a role of the gate approve it, or deny it",
        )
    open_roles = [gate.needs[name].roles for name in gate.unmet]
    if not any(not roles or not set(roles).isdisjoint(said.roles) for roles in open_roles):
        raise _role_missing(said, gate, "approve")


def _may_refuse(said: Reply, gate: OpenGate, state: State) -> None:
    """Allow a refusal by anyone who could approve, and by the owner of the run."""
    if _owner(said, state):
        return
    asked = [need.roles for need in gate.needs.values()]
    if not any(not roles or not set(roles).isdisjoint(said.roles) for roles in asked):
        raise _role_missing(said, gate, said.answer)


def _role_missing(said: Reply, gate: OpenGate, what: str) -> UsageError:
    names = gate.unmet if what == "approve" else tuple(gate.needs)
    roles = sorted({role for name in names for role in gate.needs[name].roles})
    held = ", ".join(said.roles) or "no role"
    return UsageError(
        f"{said.actor} ({held}) may not {what} gate {gate.id}: it needs {_or(roles)}",
        code="role_missing",
        remedy=f"let a person with that role answer; {_people_hint(said)}",
    )


def _may_modify(said: Reply, gate: OpenGate, state: State) -> None:
    _may_refuse(said, gate, state)
    if is_of_compensation(state, gate):
        raise UsageError(
            f"gate {gate.id} is about a compensation, which can no longer be changed",
            code="compensation_fixed",
            remedy="approve it, or deny it: then the effect is listed for an operator",
        )
    _demand_no_change(said, gate, state)
    if said.changes:
        _may_set_values(said, gate, state)
    elif gate.kind != "output":  # outputs are repaired whatever planner made the plan
        _demand_planner(state, "deny it, and run the changed plan")
    if not said.note:
        raise UsageError("the change is not described", code="note_missing", remedy="describe it with a note")


def _demand_no_change(said: Reply, gate: OpenGate, state: State) -> None:
    """Raise `UsageError` while another call is being changed, since the next plan can follow one change only."""
    is_sent_back = any(state.steps[name].code == MODIFIED for name in state.unjudged)
    if state.change is not None or (is_sent_back and said.changes):
        raise UsageError(
            f"another call of the run is being changed, and gate {gate.id} waits for the plan that follows from that",
            code="change_pending",
            remedy=f"continue the session, then answer its next gate: tercet sessions resume {said.session}",
        )


def _may_set_values(said: Reply, gate: OpenGate, state: State) -> None:
    """Allow a person to set values if a role of the gate makes the person trusted; the owner of the run is not."""
    _demand_other_than_owner(
        said,
        state,
        "cannot set values in its calls",
        "let an approver of the gate set them; or deny it, and start the run again with other values",
    )
    if gate.kind != "approval" or SETTABLE not in gate.shown:
        raise UsageError(
            f"no values can be set at gate {gate.id}",
            code=NOT_SETTABLE,
            remedy="values can be set in a call of the plan, at a gate that names roles; leave them out, or deny it",
        )
    if state.is_stepwise:
        raise UsageError(
            "an agent decides this run step by step, and its turns are not changed",
            code=NOT_SETTABLE,
            remedy="leave the values out, and describe the change with a note to the agent",
        )
    wanted = {role for need in gate.needs.values() for role in need.roles}
    if wanted.isdisjoint(said.roles):
        raise _role_missing(said, gate, "set values at")
    _demand_other_approver(said, gate, state)
    demand_settable(gate, said.changes)


def _demand_other_approver(said: Reply, gate: OpenGate, state: State) -> None:
    """Raise `UsageError` if the pack lists no other people who could approve the changed call."""
    kept = [each for each in state.changed if each.step in gate.calls and not is_replaced(each, said.changes)]
    # A trusted caller may know people who are not on the list.
    lacking = lacking_approvals(gate, state, {said.actor, *(each.by for each in kept)}) if said.listed else []
    for name in lacking[:1]:
        raise UsageError(
            f"{said.actor} cannot approve a value that they set, and too few others could approve {name}",
            code="no_other_approver",
            remedy=f"list another person with the role {' or '.join(gate.needs[name].roles)} in actors.toml, then resume the session; or deny the call, and start the run again with other values",
        )


def lacking_approvals(gate: OpenGate, state: State, excluded: AbstractSet[str]) -> list[str]:
    """Return the names in a gate that too few listed people could approve, without the owners and the excluded ones."""
    people: dict[str, Any] = state.start.people or {}
    without = {*excluded, *(str(owner.get("id")) for owner in owners_of(state.start))}
    roles = {
        who: tuple(as_list(each.get("roles")) or ()) for who, each in people.items() if who not in without
    }
    return [
        name
        for name, need in gate.needs.items()
        if people and sum(gate.counts(name, held) for held in roles.values()) < need.quorum
    ]


def _demand_planner(state: State, remedy: str) -> None:
    if state.accepted is not None:
        raise UsageError(
            "the outputs are accepted and being delivered, and no other plan is made for them",
            code="outputs_accepted",
            remedy=remedy,
        )
    if state.plan_origin == "caller":
        raise UsageError(
            "the plan came from the caller, and a caller's plan is never changed",
            code="callers_plan",
            remedy=remedy,
        )
    if state.start.planner == TEMPLATE:
        raise UsageError(
            "the plan came from a template of the pack, which knows no other",
            code="template_plan",
            remedy=remedy,
        )


def _may_withdraw(said: Reply, gate: OpenGate, state: State) -> None:
    if all(approval.actor != said.actor for approval in gate.approvals):
        raise UsageError(
            f"{said.actor} has not approved gate {gate.id}",
            code="not_approved",
            remedy="you can withdraw only your own approval",
        )
    if not any(can_be_held(state.steps[name], gate) for name in gate.calls):
        raise UsageError(
            f"the call behind gate {gate.id} has begun",
            code="too_late",
            remedy="it can no longer be stopped; wait for its outcome",
        )


def _may_settle(said: Reply, gate: OpenGate, state: State) -> None:
    """Allow only people who may approve a call to settle its outcome, not the owner of the run."""
    if not gate.needs:
        return
    _demand_other_than_owner(
        said,
        state,
        "cannot settle a call that another person had to approve",
        "let a person who may approve such a call answer",
    )
    if not any(gate.counts(name, said.roles) for name in gate.needs):
        raise _role_missing(said, gate, "answer")


def demand_settler(said: Reply, step: str, state: State) -> None:
    """Raise `UsageError` unless a person may say that the effect of a step was dealt with: not the owner of the run, and for
    a call that was approved only people of its gates."""
    _demand_person(said)
    _demand_simulation(said, state)
    said = _with_confirmed_roles(said, state)
    _demand_other_than_owner(
        said, state, "cannot settle what it left", "let another person say what was done about it"
    )
    gates = [gate for gate in state.approved.values() if step in gate.calls and gate.needs]
    if gates and not any(gate.counts(name, said.roles) for gate in gates for name in gate.needs):
        raise _role_missing(said, gates[0], "settle what was approved at")


def _demand_result(said: Reply, gate: OpenGate, state: State) -> None:
    """Raise `UsageError` for an entered result that the tool's schema does not allow."""
    _may_settle(said, gate, state)
    schema = gate.shown.get("result_schema")
    faults = schemas.faults(canonical(schema).decode(), said.value) if schema is not None else []
    if faults:
        raise UsageError(
            f"{gate.shown.get('tool', 'the call')} cannot have returned this: {faults[0].message}",
            code="wrong_value",
            remedy="give the result of the call as the value",
        )


def _may_accept(said: Reply, gate: OpenGate, state: State) -> None:
    """Allow the people whom the pack names to accept outputs, even if the critic did not accept them."""
    _demand_other_than_owner(
        said,
        state,
        "cannot accept outputs that the critic refused",
        "let another person accept them, or abandon the run",
    )
    if gate.needs and not any(gate.counts(name, said.roles) for name in gate.needs):
        raise _role_missing(said, gate, "accept the outputs of")
    unknown = [name for name in state.frontier if state.steps[name].is_reserving]
    if unknown:
        raise UsageError(
            f"the outcome of {', '.join(unknown)} is unknown",
            code="unsettled",
            remedy=f"resume the session to settle it: tercet sessions resume {said.session}",
        )


_RULES: dict[str, Callable[[Reply, OpenGate, State], object]] = {
    "approve": _may_approve,
    "deny": _may_refuse,
    "modify": _may_modify,
    "withdraw": _may_withdraw,
    "happened": _demand_result,
    "did_not_happen": _may_settle,
    "extend": lambda said, _, __: demand_extension(said.value),
    "replan": lambda _, __, state: _demand_planner(state, "abandon it, and run another plan"),
    "accept_partial": _may_accept,
    "abandon": lambda _, __, ___: None,  # anybody may
    "compensate": _may_settle,
    "keep": _may_settle,
}
