"""A gate: everything that an answer is about, and the forms to answer it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.responses import Response

from tercet.console.fields import (
    amount_fields,
    make_fields,
    read_amounts,
    read_changes,
    read_result,
    result_values,
)
from tercet.console.permissions import Permissions, find_permissions
from tercet.console.run_parts import read_run_at
from tercet.console.visit import HOME, Page, Visit
from tercet.contracts.gate import HandOff
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values.plain import storable
from tercet.core import events as e
from tercet.core.budget import EXTENSIBLE
from tercet.core.messages import session_of
from tercet.core.modifications import SETTABLE
from tercet.core.state import OpenGate, State
from tercet.engine.personal.reveal import Revealer
from tercet.engine.streams.recent_calls import recent_calls
from tercet.engine.streams.stops import Stop
from tercet.packs.pack import Pack
from tercet.runtime import Runtime
from tercet.service.errors import ServiceError, not_found
from tercet.service.hub import pack_name
from tercet.view.gate import GateView, gate_view, opened_gate
from tercet.view.html.safe_text import Shown
from tercet.view.questions import asked_names
from tercet.view.text import reasons_text
from tercet.view.vocabulary import REVIEWS, STANDINGS, STEPS, meaning, standing

GATE = f"{HOME}/gates/{{gate_id}}"
_AMOUNTS = amount_fields(EXTENSIBLE)
_MOST_NEXT = 5
"""How many gates of a run the page of a closed one links to."""


# --- the page ---


@dataclass(frozen=True, kw_only=True)
class GatePage:
    """A gate as a page shows it: with the personal values that its call would be given."""

    gate: OpenGate
    state: State
    view: GateView
    runtime: Runtime
    may: Permissions | None
    """None if nothing can be answered any more. An approval may be withdrawn until its call begins."""


async def find_gate(visit: Visit) -> GatePage:
    """Return the gate that the path names, open or closed; raises `ServiceError` if this tenant does not have it."""
    gate_id = visit.path["gate_id"]
    visit.caller.demand("read")
    runtime = await visit.console.http.service.hub.of_gate(visit.caller.tenant, gate_id)
    session = session_of(gate_id)
    state = await Revealer(runtime.journal, runtime.tenant, session).reveal_struct(
        await runtime.state(session)
    )
    gate = state.gates.get(storable(gate_id))
    if gate is None or state.is_over:
        return await _closed_gate(visit, runtime, gate_id)
    similar = await recent_calls(runtime.journal, runtime.tenant, session, gate, visit.now)
    recent = [
        await Revealer(runtime.journal, runtime.tenant, each.session).reveal_struct(each) for each in similar
    ]
    mine = [answer for answer in state.answers if answer.gate == gate.id]
    answers = tuple({(a.actor, a.answer, a.at): a for a in mine}.values())
    packet = await _packet(runtime, gate)
    view = gate_view(gate, state, is_open=True, answers=answers, packet=packet, recent=recent)
    may = find_permissions(visit.caller, runtime, state, gate, visit.now)
    return GatePage(gate=gate, state=state, view=view, runtime=runtime, may=may)


async def _packet(runtime: Runtime, gate: OpenGate) -> HandOff | None:
    """Return the hand-off packet of an escalated run."""
    digest = gate.shown.get("packet")
    if not digest:
        return None
    packet = msgspec.json.decode(await runtime.journal.blob(runtime.tenant, digest))
    revealer = Revealer(runtime.journal, runtime.tenant, session_of(gate.id))
    return HandOff.model_validate(await revealer.reveal(packet))


async def _closed_gate(visit: Visit, runtime: Runtime, gate_id: str) -> GatePage:
    data = (await read_run_at(runtime.journal, runtime.tenant, session_of(gate_id))).data
    state, events = data.state, data.events
    opened = next((each for each in events if isinstance(each, e.GateOpened) and each.gate == gate_id), None)
    if opened is None:
        raise not_found("gate", gate_id)
    approved = state.approved.get(gate_id)
    gate = approved or opened_gate(opened)
    answers = [each for each in events if isinstance(each, e.GateAnswered) and each.gate == gate_id]
    view = gate_view(gate, state, is_open=False, answers=answers, packet=await _packet(runtime, gate))
    can_withdraw = approved is not None and not state.is_over
    may = find_permissions(visit.caller, runtime, state, gate, visit.now) if can_withdraw else None
    return GatePage(gate=gate, state=state, view=view, runtime=runtime, may=may)


async def show_gate(visit: Visit) -> Response:
    """Show a gate."""
    return _render(visit, await find_gate(visit))


def _render(visit: Visit, shown: GatePage) -> Response:
    gate, state, view = shown.gate, shown.state, shown.view
    word = standing(state)
    schema = as_object(view.result_schema)
    results = result_values(schema)
    return visit.render(
        "gate.html.j2",
        title=f"{view.calls[0].tool if view.calls else view.title}",
        section="inbox",
        gate=view,
        may=shown.may,
        session=str(state.start.session),
        intent=str(state.start.request.get("intent", "")),
        standing=word,
        standing_tone=STANDINGS[word][0],
        meaning=meaning(state),
        reason=state.reason,
        next_gates=[] if view.is_open or state.is_over else sorted(state.gates)[:_MOST_NEXT],
        steps=_steps(view, state),
        asked=asked_names(gate, state, _pinned_pack(visit, state)),
        review=_review(state),
        is_dev_run=bool(state.start.dev),
        leads_to={each.answer: each.sentences for each in view.leads_to},
        me=visit.caller.actor.id,
        needs_confirmation=_is_grave(view),
        stop=_stop(visit, shown),
        set_fields=_set_fields(gate) if shown.may and shown.may.may("set_values") else (),
        result_fields=make_fields(schema or {}, results, "result:") if results else (),
        amounts=_AMOUNTS,
        is_trusted=view.trusted_roles is None
        or bool(set(view.trusted_roles) & set(visit.caller.actor.roles)),
    )


def _stop(visit: Visit, shown: GatePage) -> Stop | None:
    """Return the emergency stop that keeps a call of the gate from being made; None if there is none."""
    names = {("tool", call.tool) for call in shown.view.calls}
    names |= {("pack", pack_name(shown.state.start.pack)), ("tenant", visit.caller.tenant)}
    return next((stop for stop in visit.stops if (stop.kind, stop.name) in names), None)


def _is_grave(view: GateView) -> bool:
    """Return whether a yes needs a second look: it does what cannot be undone, or what destroys."""
    return any("destructive" in call.mode or call.reversibility == "irreversible" for call in view.calls)


def _steps(view: GateView, state: State) -> list[dict[str, Any]]:
    """Return the steps of the plan, as they are now."""
    return [
        {
            "step": each.step,
            "tool": each.tool,
            "status": STEPS[state.steps[each.step].status if each.step in state.steps else each.status],
            "is_asked": each.is_asked,
        }
        for each in view.plan
    ]


def _pinned_pack(visit: Visit, state: State) -> Pack | None:
    """Return the version of its pack that a session is pinned to; None if it is not served here."""
    versions = visit.console.http.service.hub.packs.get(pack_name(state.start.pack), ())
    return next((pack for pack in versions if pack.hash == state.start.pack_hash), None)


def _review(state: State) -> dict[str, Any] | None:
    """Return what the critic said of the plan."""
    verdict = state.verdict
    if not verdict:
        return None
    word, tone = REVIEWS.get(str(verdict.get("outcome")), (str(verdict.get("outcome")), "quiet"))
    return {
        "word": word,
        "tone": tone,
        "reasons": [reasons_text([each]) for each in as_list(verdict.get("reasons")) or ()],
        "deferred": [str(each) for each in as_list(verdict.get("deferred")) or ()],
    }


def _set_fields(gate: OpenGate) -> tuple[Any, ...]:
    schema = as_object((as_object(gate.shown.get(SETTABLE)) or {}).get("schema")) or {}
    return make_fields(schema, as_object(gate.shown.get("params")) or {}, "set:")


# --- answers ---


@dataclass(frozen=True)
class Action:
    """What a form on the page does: the method that it calls, with which parameters."""

    method: str
    params: Callable[[Visit, GatePage], dict[str, Any]]
    verb: str
    """What the confirmation asks for; an action that needs none leaves it empty."""
    is_always_confirmed: bool = False


def _nothing(_: Visit, __: GatePage) -> dict[str, Any]:
    return {}


def _digest(visit: Visit, _: GatePage) -> dict[str, Any]:
    return {"digest": visit.form.get("digest", "") or "missing"}


def _changes(visit: Visit, shown: GatePage) -> dict[str, Any]:
    schema = as_object((as_object(shown.gate.shown.get(SETTABLE)) or {}).get("schema")) or {}
    values = as_object(shown.gate.shown.get("params")) or {}
    changes = read_changes(schema, values, visit.form, "set:")
    if not changes:
        raise ServiceError(
            "no value was changed",
            code="nothing_changed",
            remedy="change a value, or approve it as it is",
            status=409,
        )
    return {"changes": changes}


def _result(visit: Visit, shown: GatePage) -> dict[str, Any]:
    return {"happened": True, "value": read_result(as_object(shown.view.result_schema), visit.form)}


def _extension(visit: Visit, _: GatePage) -> dict[str, Any]:
    return {"decision": "extend", "value": read_amounts(_AMOUNTS, visit.form)}


def _decision(name: str) -> Callable[[Visit, GatePage], dict[str, Any]]:
    return lambda _, __: {"decision": name}


ACTIONS: dict[str, Action] = {
    "approve": Action("approveGate", _digest, "Approve"),
    "deny": Action("denyGate", _nothing, ""),
    "send_back": Action("modifyGate", _nothing, ""),
    "set_values": Action("modifyGate", _changes, ""),
    "withdraw": Action("withdrawApproval", _nothing, ""),
    "happened": Action("settleOutcome", _result, ""),
    "did_not_happen": Action("settleOutcome", lambda _, __: {"happened": False}, ""),
    "extend": Action("decideEscalation", _extension, ""),
    "replan": Action("decideEscalation", _decision("replan"), ""),
    "accept_partial": Action(
        "decideEscalation", _decision("accept_partial"), "Accept the partial result", is_always_confirmed=True
    ),
    "abandon": Action("decideEscalation", _decision("abandon"), "Abandon the run", is_always_confirmed=True),
    "compensate": Action(
        "decideEscalation", _decision("compensate"), "Compensate the effects", is_always_confirmed=True
    ),
    "keep": Action("decideEscalation", _decision("keep"), "Keep the effects", is_always_confirmed=True),
}
"""The answers that forms of the page give, by the field `answer`."""


async def answer_gate(visit: Visit) -> Response:
    """Answer a gate; what destroys or cannot be undone is asked about once more."""
    action = ACTIONS.get(visit.form.get("answer", ""))
    if action is None:
        raise ServiceError(
            "the form names no answer", code="wrong_form", remedy="open the gate again", status=400
        )
    back = f"{HOME}/gates/{visit.path['gate_id']}"
    try:
        shown = await find_gate(visit)
        if _is_repeated(visit, shown, action):
            return visit.redirect(back)
        if action.method != "withdrawApproval":
            _demand_open(shown)
        is_confirmed = visit.form.get("confirmed") == "yes"
        must_confirm = action.is_always_confirmed or (bool(action.verb) and _is_grave(shown.view))
        if shown.may is not None and must_confirm and not is_confirmed:
            _demand_same(visit, shown)
            return _confirm(visit, shown, action)
        params = action.params(visit, shown)
        if action.method != "approveGate":
            _demand_same(visit, shown)
        await visit.call(action.method, gate_id=shown.view.id, note=visit.form.get("note", ""), **params)
    except ServiceError as error:
        if error.status >= 500:
            raise
        return visit.render("refusal.html.j2", status=error.status, title="Refused", error=error, back=back)
    return visit.redirect(back)


_ANSWERED = {"approveGate": "approved", "denyGate": "denied"}


def _is_repeated(visit: Visit, shown: GatePage, action: Action) -> bool:
    """Return whether the person has closed the gate with this answer, such as by a form that was sent twice."""
    word, me = _ANSWERED.get(action.method, ""), visit.caller.actor.id
    return not shown.view.is_open and any(each.word == word and each.who == me for each in shown.view.answers)


def _demand_open(shown: GatePage) -> None:
    if not shown.view.is_open:
        raise ServiceError(
            f"this gate is closed: {shown.view.state}",
            code="gate_not_open",
            remedy="look at what became of it; a call that was changed waits at another gate",
            status=409,
        )


def _demand_same(visit: Visit, shown: GatePage) -> None:
    """Raise `ServiceError` if the gate shows something else now than when the form was made; approvals check it again."""
    if visit.form.get("digest", "") != shown.gate.digest:
        raise ServiceError(
            "what this gate shows has changed since you looked at it",
            code="wrong_digest",
            remedy="look at it again, then answer",
            status=409,
        )


def _confirm(visit: Visit, shown: GatePage, action: Action) -> Response:
    return visit.render(
        "confirm.html.j2",
        title="Confirm",
        section="inbox",
        gate=shown.view,
        session=str(shown.state.start.session),
        intent=str(shown.state.start.request.get("intent", "")),
        verb=action.verb,
        fields={
            name: Shown(value) for name, value in visit.form.items() if name not in ("csrf", "confirmed")
        },
        back=f"{HOME}/gates/{shown.view.id}",
    )


PAGES = (Page(GATE, show_gate), Page(f"{GATE}/answer", answer_gate, method="POST"))
