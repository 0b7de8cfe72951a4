"""Gates on a terminal: in a few rows when a run stops, and in full for an approver.

An approver sees every value that will be used. Text of agents and customers cannot draw on the screen: it is in
quotes, on its own rows, and everything in it that does not print is spelt out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from rich.text import Text

from tercet.contracts.gate import HandOff
from tercet.contracts.shape import as_object
from tercet.contracts.values import references
from tercet.core.same_calls import RecentCall
from tercet.core.state import Answer, OpenGate, State
from tercet.view.gate import (
    CallView,
    CompensationView,
    EarlierCallView,
    GateView,
    ProducedView,
    gate_view,
)
from tercet.view.hand_off import AttemptView, HandOffView, PlannedStep
from tercet.view.quality import ExitView
from tercet.view.questions import AskedName, Consequence
from tercet.view.terminal.outputs import STYLES, confidence_text, line_text, phase_lines, threshold_text
from tercet.view.terminal.screen import Screen
from tercet.view.terminal.text import (
    WHOLE,
    ago,
    ahead,
    json_text,
    listed,
    name_text,
    printable,
    sample,
    strange_letters,
    utc_time,
    value_text,
    with_reading,
)
from tercet.view.text import amount_text, changes_text
from tercet.view.vocabulary import STEPS

Row: TypeAlias = tuple[str, Text | str]

LABEL = 10
BRIEF = 400
"""The number of characters of an output that are shown in brief."""
MOST_EARLIER = 5
"""The number of earlier calls that are shown."""
QUOTE = "│ "
"""The prefix of each line of a quoted text, also of wrapped lines, so that it cannot pass for a row of the page."""


class GatePage(msgspec.Struct, frozen=True, kw_only=True):
    """A gate, its session, and what was fetched for it."""

    gate: OpenGate
    state: State
    is_open: bool
    packet: HandOff | None = None
    """The hand-off packet, if the run was escalated."""
    recent: tuple[RecentCall, ...] = ()
    """Recent calls of the tenant like the one of the gate."""
    asked: tuple[AskedName, ...] = ()
    """Why people are asked."""

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers so far, each once."""
        mine = [answer for answer in self.state.answers if answer.gate == self.gate.id]
        return tuple({(a.actor, a.answer, a.at): a for a in mine}.values())

    @property
    def view(self) -> GateView:
        """The view of the gate."""
        return gate_view(
            self.gate, self.state, is_open=self.is_open, answers=self.answers, packet=self.packet, recent=self.recent
        )  # fmt: skip


def show_gate(
    screen: Screen, gate: OpenGate, state: State, *, asked: Iterable[AskedName] = (), now: int
) -> None:
    """Print an open gate in a few rows; `asked`: why people are asked."""
    view = gate_view(gate, state, is_open=True)
    _show_question(screen, view)
    show_rows(screen, _asked_rows(asked))
    show_rows(screen, _brief_rows(view, now))


def _show_question(screen: Screen, view: GateView) -> None:
    screen.put(Text.assemble(("? ", "yellow"), (printable(view.question), "bold")), rest="  ")


def show_rows(screen: Screen, rows: Iterable[Row]) -> None:
    """Print labelled rows; an empty label continues the row above."""
    for label, text in rows:
        shown = printable(text, WHOLE) if isinstance(text, str) else text
        first = f"  {label:<{LABEL}}"
        if _is_hash(shown) and len(first) + len(shown) > screen.width:
            # In full on a line of its own, to be compared and copied.
            screen.put(Text(label), first="  ") if label else None
            first = "    "
        rest = f"{'':<{len(first)}}{QUOTE}" if str(shown).startswith(QUOTE) else None
        screen.put(shown, first=first, rest=rest)


def _is_hash(text: Text | str) -> bool:
    plain = text.plain if isinstance(text, Text) else text
    return plain.strip().startswith("sha256:") and " " not in plain.strip()


def _labelled(label: str, texts: Iterable[Text | str]) -> Iterator[Row]:
    """Yield rows of which only the first has the label."""
    for number, text in enumerate(texts):
        yield "" if number else label, text


def _brief_rows(view: GateView, now: int) -> Iterator[Row]:
    """Yield the rows that a person needs at least to answer a gate."""
    yield "gate", view.id
    for call in view.calls:
        yield from _call_rows(call)
    if view.kind in ("escalation", "compensation", "output"):
        yield "why", view.why
    yield from _labelled("undo", map(undo_text, view.undo))
    if view.kind == "output" and view.produced:
        yield from _output_rows(view.produced.outputs, is_brief=True)
    if view.kind in ("approval", "output"):
        yield from _approval_rows(view)
    yield from _expiry_rows(view, now)
    yield from _consequence_rows(view.leads_to)


def show_consequences(screen: Screen, leads_to: Iterable[Consequence]) -> None:
    """Print what each answer to a gate leads to."""
    show_rows(screen, _consequence_rows(leads_to))


def _consequence_rows(leads_to: Iterable[Consequence]) -> Iterator[Row]:
    """Yield what each answer leads to."""
    answers = {each.answer.replace("_", " "): each.text for each in leads_to}
    yield from _labelled(
        "answers",
        (Text.assemble((name, "bold"), f": {printable(text, WHOLE)}") for name, text in answers.items()),
    )


# --- the page of a gate ---


def show_page(screen: Screen, page: GatePage, *, now: int) -> None:
    """Print a gate in full."""
    view = page.view
    if view.is_open:
        _show_question(screen, view)
    else:
        screen.put(Text.assemble(("· ", "dim"), (f"closed: {printable(view.question)}", "bold")), rest="  ")
    for rows in (_asked_rows(page.asked), *_sections(view, page.state, now)):
        if found := list(rows):
            screen.say()
            show_rows(screen, found)


def _sections(view: GateView, state: State, now: int) -> Iterator[Iterator[Row]]:
    match view.kind:
        case "approval":
            yield _approval(view)
            yield _earlier_rows("repeats", [each for each in view.earlier if each.is_repeat], now)
            yield _earlier_rows("recent", [each for each in view.earlier if not each.is_repeat], now)
            yield _evidence(view)
            yield _who(view, now)
            yield _around(view)
        case "reconcile":
            yield _reconcile(view)
            yield _earlier_rows("recent", view.earlier, now)
            yield _who(view, now)
        case "escalation":
            yield _escalation(view, state)
            if view.hand_off is not None:
                yield _packet(view.hand_off)
                yield attempt_rows(view.hand_off.attempts)
            if view.produced is not None:
                yield _judged(view.produced.exit, view.produced.left)
                yield _output_rows(view.produced.outputs)
            yield _who(view, now)
        case "compensation":
            yield iter([("why", view.why)])
            yield _labelled("undo", map(undo_text, view.undo))
            yield _who(view, now)
        case "output":
            if view.produced is not None:
                yield _produced(view, view.produced)
                yield _output_rows(view.produced.outputs)
            yield _who(view, now)
            yield _budget(view.budget)
    yield _consequence_rows(view.leads_to)
    yield _bound(view)


def _asked_rows(asked: Iterable[AskedName]) -> Iterator[Row]:
    """Yield why people are asked: the description of each name by the pack, and the reasons of its policies."""
    texts = [(each.name, text) for each in asked for text in (each.description, *each.reasons) if text]
    yield from _labelled("because", (f"{name}: {text}" for name, text in texts))


def _approval(view: GateView) -> Iterator[Row]:
    if view.changed:
        yield "changed", Text(printable(view.changed), style="bold yellow")
    if view.refused_change:
        refused = f"other values were set, and the critic refused them: {view.refused_change}"
        yield "change", Text(printable(refused, WHOLE), style="bold yellow")
    for call in view.calls:
        if not call.is_further and call.description:
            yield "does", call.description
        yield from _call_rows(call, with_sources=True)
        if not call.is_further and view.accepted is not None:
            yield "judged", printable(f"outputs accepted {view.accepted.by}", WHOLE)
            yield from _judged(view.accepted.exit, ())


def _earlier_rows(label: str, calls: Iterable[EarlierCallView], now: int) -> Iterator[Row]:
    """Yield earlier calls that the call repeats or resembles; parameters of those that are not identical."""
    listed_calls = list(calls)
    for number, call in enumerate(listed_calls[:MOST_EARLIER]):
        kind = "made before" if call.is_repeat else "the same" if call.is_identical else "similar"
        became = f": {call.outcome}" if call.outcome else ""
        text = f"{kind}, {ago(now - call.at)} in session {call.session}, step {call.step}{became}"
        yield (
            "" if number else label,
            Text(printable(text, WHOLE), style="bold yellow" if call.is_grave else ""),
        )
        for name, value in call.params.items() if not call.is_identical else ():
            yield "", Text(f"  {name_text(name)} = {with_reading(name, value)}", style="dim")
    if (more := len(listed_calls) - MOST_EARLIER) > 0:
        yield "", f"… and {more} more; --json has them"


def _produced(view: GateView, produced: ProducedView) -> Iterator[Row]:
    """Yield why a person is asked about outputs, the advice, and how they were judged."""
    if view.changed:
        yield "changed", Text(printable(view.changed, WHOLE), style="bold yellow")
    yield "why", view.why
    yield "advice", produced.advice
    yield from _judged(produced.exit, produced.left)
    yield "repairs", str(produced.repairs)
    if produced.risk:
        yield "risk", produced.risk
    for text in produced.texts:
        yield (
            "text",
            f"{text.pointer}: {', '.join(f'{size:,} characters {source}' for source, size in text.shares)}",
        )
        for value, tone in text.values:
            yield "", Text(printable(value, WHOLE), style=STYLES[tone])
        if text.unjudged:
            yield "", Text(text.unjudged, style="yellow")
    for judgement in produced.judgements:
        yield "judge", judgement
    styles = {"+": "green", "-": "red"}
    yield from _labelled(
        "changes", (Text(printable(line, WHOLE), style=styles.get(line[:1], "dim")) for line in produced.diff)
    )


def _judged(found: ExitView | None, left: Iterable[str]) -> Iterator[Row]:
    """Yield every threshold with its score and limit, confidence, why a person is asked, and what repairs left."""
    if found is not None:
        sure = [confidence_text(found)] if found.confidence is not None else []
        yield from _labelled("limits", (*map(threshold_text, found.thresholds), *sure))
        yield from _labelled("asked", found.triggers)
    yield from _labelled("left", (Text.assemble(("✗ ", "red"), printable(each, WHOLE)) for each in left))


def _evidence(view: GateView) -> Iterator[Row]:
    """Yield the pinned facts of every call, each with its hash and its content."""
    known = {fact.id: fact for call in view.calls for fact in call.evidence}
    for number, fact in enumerate(known.values()):
        source = f", from {fact.source}" if fact.source else ""
        yield "" if number else "evidence", Text(printable(f"{fact.id}{source}", WHOLE), style="bold")
        members = as_object(fact.content)
        if members is None:
            yield "", f"  {value_text(fact.content)}"
        for name, value in (members or {}).items():
            yield "", f"  {name_text(name)} = {with_reading(name, value)}"
        yield "", Text(printable(fact.hash), style="dim")


def _who(view: GateView, now: int) -> Iterator[Row]:
    """Yield who may answer, the answers so far, and the deadline."""
    if view.kind in ("approval", "output"):
        yield from _approval_rows(view)
    elif view.kind == "escalation":
        yield (
            "by",
            f"an operator; to accept it as partial, a person other than {view.owner}, who started the run",
        )
    for answer in view.answers:
        note = f": {value_text(answer.note)}" if answer.note else ""
        roles = f" ({listed(answer.roles)})" if answer.roles else ""
        changes = f", who set {changes_text(answer.changes)}" if answer.changes else ""
        yield (
            "answer",
            f"{answer.word} by {answer.who}{roles}{answer.login}{changes}, {ago(now - answer.at)}{note}",
        )
    yield "opened", f"{ago(now - view.at)}, {utc_time(view.at)}"
    if view.is_open:
        yield from _expiry_rows(view, now)


def _around(view: GateView) -> Iterator[Row]:
    """Yield what is not part of the call: the cost, the budget that is left, and the rest of the plan."""
    if view.cost_microcents:
        yield "cost", amount_text("cost_microcents", view.cost_microcents)
    yield from _budget(view.budget)
    yield from _labelled("plan", map(_step, view.plan))


def _step(step: PlannedStep) -> Text:
    mark, tone, _ = STEPS.get(step.status, STEPS["pending"])
    here = ("  this call", "yellow") if step.is_asked else ""
    return Text.assemble(
        (f"{'?' if step.is_asked else mark} ", STYLES["wait" if step.is_asked else tone]),
        f"{name_text(step.step)}  {name_text(step.tool)}",
        here,
    )


def _budget(left: Mapping[str, Any]) -> Iterator[Row]:
    if left:
        yield "left", ", ".join(amount_text(name, int(amount)) for name, amount in left.items())


def _reconcile(view: GateView) -> Iterator[Row]:
    for call in view.calls:
        yield from _call_rows(call)
    yield "attempt", view.attempt
    yield "key", view.key
    if view.result_schema is not None:
        shape = json_text(sample(view.result_schema), indent=None)
        yield "value", f"if it happened, its result in this shape: {shape}"
    if view.trusted_roles is not None:
        yield "trust", _entered_trust(view.trusted_roles)


def _entered_trust(roles: tuple[str, ...]) -> str:
    """Return who has to enter the value for it to be trusted."""
    if not roles:
        return "what you enter is untrusted: no gate of the pack names a role"
    return f"what you enter is trusted only if you have the role {' or '.join(roles)} and do not own the run"


def _escalation(view: GateView, state: State) -> Iterator[Row]:
    yield "why", view.why
    if view.step:
        yield "at", view.step
    request = state.start.request
    yield "asked", f"{request['intent']} {value_text(request.get('input', {}))}"


def _packet(packet: HandOffView) -> Iterator[Row]:
    yield from _labelled("plan", map(_step, packet.plan))
    yield from _labelled("critic", packet.verdicts)
    yield from _budget(packet.budget)


def attempt_rows(attempts: Iterable[AttemptView]) -> Iterator[Row]:
    """Yield one row for each attempt, and one for each detail of a phase."""
    yield from _labelled("tried", (line for attempt in attempts for line in _attempt_lines(attempt)))


def _attempt_lines(attempt: AttemptView) -> Iterator[Text]:
    yield line_text(attempt.line)
    yield from (Text("  ") + line for line in phase_lines(attempt.phase)) if attempt.phase else ()


def _bound(view: GateView) -> Iterator[Row]:
    """Yield the digests that an answer is bound to."""
    yield "gate", view.id
    yield "digest", Text(printable(view.digest), style="dim")
    for step, digest in view.covers.items():
        yield "", Text(f"{printable(digest)} {name_text(step)}", style="dim")


# --- the call ---


def _call_rows(call: CallView, *, with_sources: bool = False) -> Iterator[Row]:
    """Yield a call as it would be made, and its compensation."""
    step = f"{call.step}: " if call.is_further and call.step else ""
    yield "call", f"{step}{', '.join(filter(None, (call.tool, call.nature)))}"
    for number, each in enumerate(call.parameters):
        text = Text(f"{name_text(each.name)} = ")
        text.append(with_reading(each.name, each.value), style="bold" if each.is_authority else "")
        if each.is_authority:
            text.append("  authority", style="red")
        if each.is_default:
            text.append("  default", style="yellow")
        yield "" if number else "with", text
        if each.is_authority and (letters := strange_letters(each.value)):
            yield "", Text(f"  ! not plain letters: {printable(letters)}", style="yellow")
        if with_sources and each.source:
            yield "", _source(f"← {each.source}", is_trusted=each.is_trusted)
    if call.compensation is not None:
        yield from _compensation(call.compensation)
    if call.why:
        yield "why", call.why


def _source(source: str, *, is_trusted: bool) -> Text:
    return Text(f"  {printable(source, WHOLE)}", style="dim" if is_trusted else "bold yellow")


def _compensation(found: CompensationView) -> Iterator[Row]:
    yield "undo", f"{found.tool}{_given(found.params)}; {found.note}" if found.tool else found.note
    for name, source in found.sources.items():
        yield "", _source(f"{name} ← {source}", is_trusted=name not in found.untrusted)


def undo_text(undo: Mapping[str, Any]) -> Text:
    """Return the compensation of one step."""
    step = name_text(str(undo.get("step", "?")))
    if not undo.get("tool"):
        why = printable(str(undo.get("note", "")), WHOLE)
        return Text.assemble((f"✗ {step}", "red"), f"  cannot be compensated: {why}")
    given = _given(as_object(undo.get("params")) or {})
    return Text.assemble(("← ", "green"), f"{step}  {name_text(str(undo['tool']))}{given}")


def _given(params: Mapping[str, Any]) -> str:
    """Return the parameters of a call in a few words: references as arrows."""
    pairs = [f"{name_text(name)} {_bound_to(value)}" for name, value in params.items()]
    return f" with {', '.join(pairs)}" if pairs else ""


def _bound_to(value: Any) -> str:
    reference = references.as_reference(members) if (members := as_object(value)) else None
    return f"= {value_text(value)}" if reference is None else f"← {printable(reference.text, WHOLE)}"


# --- outputs, people and time ---


def _output_rows(outputs: Mapping[str, Any], *, is_brief: bool = False) -> Iterator[Row]:
    """Yield every output in full, texts line by line; in brief, each on one row that may be shortened."""
    for number, (name, value) in enumerate(outputs.items()):
        label = "" if number else "outputs"
        if is_brief:
            yield label, printable(f"{name_text(name)} = {value_text(value)}", BRIEF)
        elif isinstance(value, str) and "\n" in value.strip():
            yield label, f"{name_text(name)} ="
            for line in value.rstrip("\n").split("\n"):
                yield "", f"{QUOTE}{printable(line, WHOLE)}"
        else:
            yield label, f"{name_text(name)} = {with_reading(name, value)}"


def _approval_rows(view: GateView) -> Iterator[Row]:
    """Yield the approvals that a gate needs, those that it has, and who may not approve."""
    for number, need in enumerate(view.needs):
        so_far = f"; so far {listed(need.approvers)}" if need.approvers else ""
        yield "" if number else "by", f"{need.text}{so_far}"
    who = "people" if any(need.quorum > 1 for need in view.needs) else "a person"
    yield "" if view.needs else "by", f"{who} other than {view.owner}, who started the run"
    if view.changers:
        yield "", f"and other than {listed(view.changers)}, who set values in the call"


def _expiry_rows(view: GateView, now: int) -> Iterator[Row]:
    """Yield the deadline of a gate."""
    if view.expires > now:
        yield "expires", f"{ahead(view.expires - now)}, {utc_time(view.expires)}"
    elif view.expires:
        late = f"expired {ago(now - view.expires)}: it can no longer be answered"
        yield "expires", Text(late, style="red")
