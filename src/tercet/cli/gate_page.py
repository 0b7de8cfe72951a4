"""A gate whole, as an approver reads it before answering: all that the answer binds to, and what stands around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.text import Text

from tercet.cli.attempts_view import attempt_rows
from tercet.cli.event_view import STYLES
from tercet.cli.exit_view import confidence_text, threshold_text
from tercet.cli.gate_view import (
    Row,
    approval_rows,
    call_rows,
    expiry_rows,
    output_rows,
    question,
    show_question,
    show_rows,
    undo_rows,
)
from tercet.cli.screen import Screen
from tercet.cli.text import ago, json_text, listed, moment, printable
from tercet.cli.values import WHOLE, name_text, sample, value_text, with_reading
from tercet.contracts.gate import HandOff
from tercet.contracts.outputs.exit import ExitDecision
from tercet.contracts.shape import as_list, as_object
from tercet.core.approval import diagnosis_of
from tercet.core.events import EarlierCall
from tercet.core.fold.session import ESCALATED
from tercet.core.state import Answer, OpenGate, State
from tercet.engine.streams.recent_calls import RecentCall
from tercet.quality.exit.decision import TRIGGERS
from tercet.view.events import changes_text
from tercet.view.judging import ADVICE, UNJUDGED
from tercet.view.text import amount_text
from tercet.view.words import STEPS, answer_word, login_words


class GatePage(msgspec.Struct, frozen=True, kw_only=True):
    """A gate, the session that it belongs to, and what was fetched for it."""

    gate: OpenGate
    state: State
    is_open: bool
    packet: HandOff | None = None
    """What the person is handed, where a run escalated."""
    recent: tuple[RecentCall, ...] = ()
    """Recent calls of the tenant like the one that is asked about."""

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Who has answered so far, once each."""
        mine = [answer for answer in self.state.answers if answer.gate == self.gate.id]
        return tuple({(a.actor, a.answer, a.at): a for a in mine}.values())


def show_page(screen: Screen, page: GatePage, *, now: int) -> None:
    """Prints a gate whole."""
    gate = page.gate
    if page.is_open:
        show_question(screen, gate)
    else:
        screen.put(Text.assemble(("· ", "dim"), (f"closed: {printable(question(gate))}", "bold")), rest="  ")
    for rows in _sections(page, now):
        if found := list(rows):
            screen.say()
            show_rows(screen, found)


def _sections(page: GatePage, now: int) -> Iterator[Iterator[Row]]:
    gate = page.gate
    match gate.kind:
        case "approval":
            yield _approval(gate)
            yield _repeats(gate, now)
            yield _recent(page.recent, now)
            yield _evidence(gate.shown)
            yield _who(page, now)
            yield _around(gate)
        case "reconcile":
            yield _reconcile(gate)
            yield _recent(page.recent, now)
            yield _who(page, now)
        case "escalation":
            yield _escalation(page)
            yield _packet(page.packet)
            yield attempt_rows(page.packet.attempts if page.packet else ())
            if page.state.quality.exit and page.is_open:
                yield _judged(page.state.quality.exit, diagnosis_of(page.state))
                yield output_rows(page.state.outputs)
            yield _who(page, now)
        case "compensation":
            yield iter([("why", str(gate.shown.get("reason", "")))])
            yield undo_rows(gate)
            yield _who(page, now)
        case "output":
            yield _produced(gate)
            yield output_rows(as_object(gate.shown.get("outputs")) or {})
            yield _who(page, now)
            yield _budget(as_object(gate.shown.get("budget")) or {})
    yield _bound(gate)


def _approval(gate: OpenGate) -> Iterator[Row]:
    shown = gate.shown
    if shown.get("changed"):
        yield "changed", Text(printable(str(shown["changed"])), style="bold yellow")
    if refused := shown.get("refused_change"):
        told = f"other values were set, and the critic refused them: {refused}"
        yield "change", Text(printable(told, WHOLE), style="bold yellow")
    if shown.get("description"):
        yield "does", str(shown["description"])
    yield from call_rows(shown, with_sources=True)
    if judgement := as_object(shown.get("judgement")):
        yield from _delivered(judgement)
    for other in as_list(shown.get("sequence")) or ():
        yield from call_rows(as_object(other) or {}, with_sources=True)


def _delivered(judgement: Mapping[str, Any]) -> Iterator[Row]:
    """Who accepted the outputs that a call delivers, and what they were judged by."""
    people = ", ".join(map(str, as_list(judgement.get("accepted_by")) or ()))
    by = f"by {people}" if people else f"by rule: {judgement.get('rationale', '')}"
    yield "judged", printable(f"outputs accepted {by}", WHOLE)
    if given := as_object(judgement.get("exit")):
        yield from _judged(given, ())


def _repeats(gate: OpenGate, now: int) -> Iterator[Row]:
    """The earlier calls that a call repeats, where its tool allows one in a period."""
    given = as_list(gate.shown.get("repeats")) or []
    for number, call in enumerate(msgspec.convert(given, list[EarlierCall])):
        text = f"made before, {_earlier(call, now)}"
        yield "" if number else "repeats", Text(printable(text, WHOLE), style="bold yellow")


def _recent(calls: Sequence[RecentCall], now: int) -> Iterator[Row]:
    """Recent calls like the one that is asked about; the parameters of those that are not the same."""
    for number, call in enumerate(calls):
        is_grave = call.identical and call.outcome in ("done", "unknown")
        text = f"{'the same' if call.identical else 'similar'}, {_earlier(call, now)}"
        yield "" if number else "recent", Text(printable(text, WHOLE), style="bold yellow" * is_grave)
        for name, value in call.params.items() if not call.identical else ():
            yield "", Text(f"  {name_text(name)} = {with_reading(name, value)}", style="dim")


def _earlier(call: EarlierCall | RecentCall, now: int) -> str:
    became = _BECAME.get(call.outcome, "")
    return f"{ago(now - call.at)} in session {call.session}, step {call.step}{became}"


_BECAME = {
    "unknown": ": outcome unknown",
    "not_done": ": it did not happen",
    "compensated": ": it was compensated",
}


def _produced(gate: OpenGate) -> Iterator[Row]:
    """Why a person is asked about outputs, what is advised, and what they were judged by."""
    shown = gate.shown
    if shown.get("changed"):
        yield "changed", Text(printable(str(shown["changed"]), WHOLE), style="bold yellow")
    yield "why", str(shown.get("reason", ""))
    yield "advice", ADVICE.get(str(shown.get("recommended")), str(shown.get("recommended", "")))
    left = tuple(map(str, as_list(shown.get("left")) or ()))
    yield from _judged(as_object(shown.get("exit")) or {}, left)
    yield "repairs", str(shown.get("repairs", 0))
    if risk := shown.get("risk_assessment"):
        yield "risk", str(risk)
    provenance = as_object(shown.get("provenance")) or {}
    yield from _provenance(provenance)
    for place, line in enumerate(str(provenance.get("diff", "")).splitlines()):
        style = {"+": "green", "-": "red"}.get(line[:1], "dim")
        yield "" if place else "changes", Text(printable(line, WHOLE), style=style)


def _provenance(given: Mapping[str, Any]) -> Iterator[Row]:
    """Each text: who wrote how much of it, the values that are refused or only found, and whether it is unjudged."""
    for text in as_list(given.get("texts")) or ():
        sizes: dict[str, int] = {}
        for piece in text["pieces"]:
            sizes[piece["source"]] = sizes.get(piece["source"], 0) + piece["end"] - piece.get("start", 0)
        shares = ", ".join(f"{size:,} characters {source}" for source, size in sizes.items())
        yield "text", f"{text['pointer']}: {shares}"
        for token in text["tokens"]:
            is_refused = token["status"] in ("elsewhere", "unknown")
            told = f"{token['text']}: {token['status']} {', '.join(token.get('sources', ()))}".rstrip()
            yield "", Text(printable(told, WHOLE), style="red" if is_refused else "dim")
        if text["unjudged"]:
            yield "", Text(UNJUDGED[text["unjudged"]], style="yellow")
    for said in as_list(given.get("judgements")) or ():
        yield "judge", f"{said['model'] or 'no model'} says {said['says']}: {said['reason']}"


def _judged(given: Mapping[str, Any], left: Sequence[str]) -> Iterator[Row]:
    """Every threshold with its score and limit, confidence, what asks for a person, and what repairs left."""
    decided = ExitDecision.model_validate(given)
    for place, result in enumerate(decided.thresholds):
        yield "" if place else "limits", threshold_text(result)
    if decided.confidence is not None:
        yield "" if decided.thresholds else "limits", confidence_text(decided)
    for place, trigger in enumerate(decided.triggers):
        yield "" if place else "asked", TRIGGERS[trigger]
    for place, defect in enumerate(left):
        yield "" if place else "left", Text.assemble(("✗ ", "red"), printable(defect, WHOLE))


def _evidence(shown: Mapping[str, Any]) -> Iterator[Row]:
    """The pinned facts of every call that the gate is about, each with its hash and its content."""
    calls = [shown, *(as_object(other) or {} for other in as_list(shown.get("sequence")) or ())]
    facts = [as_object(fact) or {} for call in calls for fact in as_list(call.get("evidence")) or ()]
    known = {str(fact.get("id")): fact for fact in facts}
    for number, (name, fact) in enumerate(known.items()):
        source = f", from {fact['source']}" if fact.get("source") else ""
        yield "" if number else "evidence", Text(printable(f"{name}{source}", WHOLE), style="bold")
        for line in _content(fact.get("content")):
            yield "", f"  {line}"
        yield "", Text(printable(str(fact.get("hash", ""))), style="dim")


def _content(content: Any) -> Iterator[str]:
    members = as_object(content)
    if members is None:
        yield value_text(content)
        return
    for name, value in members.items():
        yield f"{name_text(name)} = {with_reading(name, value)}"


def _who(page: GatePage, now: int) -> Iterator[Row]:
    """Who may answer, who has, and until when."""
    gate, owner = page.gate, str(page.state.start.actor["id"])
    if gate.kind in ("approval", "output"):
        yield from approval_rows(gate, owner)
    elif gate.kind == "escalation":
        yield (
            "by",
            f"an operator; somebody other than {owner}, who started the run, if it is accepted as partial",
        )
    for answer in page.answers:
        note = f": {value_text(answer.note)}" if answer.note else ""
        roles = f" ({listed(answer.roles)})" if answer.roles else ""
        who = f"{answer.actor}{roles}{login_words(answer.login, answer.simulated_by)}"
        changes = f", who set {changes_text(answer.changes)}" if answer.changes else ""
        yield "answer", f"{answer_word(answer)} by {who}{changes}, {ago(now - answer.at)}{note}"
    yield "opened", f"{ago(now - gate.at)}, {moment(gate.at)}"
    if page.is_open:
        yield from expiry_rows(gate, now)


def _around(gate: OpenGate) -> Iterator[Row]:
    """What is not part of the call: the cost, the budget that is left, and the rest of the plan."""
    if cost := gate.shown.get("cost_microcents"):
        yield "cost", amount_text("cost_microcents", cost)
    yield from _budget(as_object(gate.shown.get("budget")) or {})
    for number, entry in enumerate(as_list(gate.shown.get("plan")) or ()):
        step = as_object(entry) or {}
        yield "" if number else "plan", _step(step, is_asked=step.get("step") in gate.calls)


def _step(step: Mapping[str, Any], *, is_asked: bool) -> Text:
    mark, tone, _ = STEPS.get(str(step.get("status")), STEPS["pending"])
    name, tool = name_text(str(step.get("step"))), name_text(str(step.get("tool") or "note"))
    here = ("  this call", "yellow") if is_asked else ""
    return Text.assemble(
        (f"{'?' if is_asked else mark} ", STYLES["wait" if is_asked else tone]), f"{name}  {tool}", here
    )


def _budget(left: Mapping[str, Any]) -> Iterator[Row]:
    if left:
        yield "left", ", ".join(amount_text(name, int(amount)) for name, amount in left.items())


def _reconcile(gate: OpenGate) -> Iterator[Row]:
    shown = gate.shown
    yield from call_rows(shown)
    yield "attempt", str(shown.get("attempt", "?"))
    yield "key", str(shown.get("key", ""))
    schema = as_object(shown.get("result_schema"))
    if schema is not None:
        yield (
            "value",
            f"if it happened, what it brought, in this shape: {json_text(sample(schema), indent=None)}",
        )
    if (roles := as_list(shown.get("trusted_roles"))) is not None:
        yield "trust", _settling_trust([str(role) for role in roles])


def _settling_trust(roles: list[str]) -> str:
    """Return who has to enter the value for it to be trusted."""
    if not roles:
        return "what you enter is untrusted: no gate of the pack names a role"
    return f"what you enter is trusted only if you have the role {' or '.join(roles)} and do not own the run"


def _escalation(page: GatePage) -> Iterator[Row]:
    reason = str(page.gate.shown.get("reason", "")).removeprefix(ESCALATED)
    yield "why", reason
    if page.gate.step:
        yield "at", page.gate.step
    request = page.state.start.request
    yield "asked", f"{request['intent']} {value_text(request.get('input', {}))}"


def _packet(packet: HandOff | None) -> Iterator[Row]:
    """What is known of the run: its plan, what was called, and what the critic said."""
    if packet is None:
        return
    outcomes = _outcomes(packet.transcript)
    for number, step in enumerate(as_list(packet.plan.get("steps")) or ()):
        fields = as_object(step) or {}
        name = str(fields.get("id"))
        shown = {"step": name, "tool": fields.get("tool"), "status": outcomes.get(name, "pending")}
        yield "" if number else "plan", _step(shown, is_asked=False)
    for number, verdict in enumerate(packet.verdicts):
        yield "" if number else "critic", _verdict(verdict)
    yield from _budget(packet.budget_remaining)


def _verdict(verdict: Mapping[str, Any]) -> str:
    said = "; ".join(map(str, as_list(verdict.get("reasons")) or ())) or str(verdict.get("rationale", ""))
    words = (verdict.get("stage"), verdict.get("step_id"), verdict.get("outcome"))
    return f"{' '.join(str(word) for word in words if word)}: {said}"


def _outcomes(transcript: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """How the last call of each step ended, in the words of a step's status."""
    words = {"done": "done", "not_done": "failed", "unknown": "unknown"}
    results = [as_object(entry.get("result")) or {} for entry in transcript]
    return {str(result.get("step_id")): words.get(str(result.get("outcome")), "failed") for result in results}


def _bound(gate: OpenGate) -> Iterator[Row]:
    """What an answer binds to."""
    yield "gate", gate.id
    yield "digest", Text(printable(gate.digest), style="dim")
    for step, digest in gate.covers.items():
        yield "", Text(f"{printable(digest)} {name_text(step)}", style="dim")
