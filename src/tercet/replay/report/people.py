"""Questions to people: what they were shown, what they answered, and what their answer was bound to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tercet.contracts.shape import as_list, as_object
from tercet.core import events as e
from tercet.replay.report.case import Case
from tercet.replay.report.exits import exit_card
from tercet.replay.report.loop_page import Produced
from tercet.replay.report.page import Chip, GateCard, Parameter, Reply, Row, SeenCall
from tercet.replay.report.wording import Wording, count, joined, moment, took
from tercet.view.words import QUESTIONS, answer_tone, answer_word, need_text, way_back

MOST = 100
_SHOWN_APART = frozenset(
    ("tool", "params", "authority", "sources", "mode", "reversibility", "compensation", "no_compensation", "description",
     "evidence", "sequence", "step", "why", "settable")
)  # fmt: skip
_PRODUCED = frozenset(("reason", "outputs", "exit", "recommended", "left", "repairs"))


def gate_cards(case: Case, wording: Wording) -> tuple[GateCard, ...]:
    """Every gate that was opened, in order, and every approval that a policy gave in people's place."""
    cards: list[GateCard] = []
    for number, event in enumerate(case.events):
        if isinstance(event, e.GateOpened):
            cards.append(_gate(event, case, case.events[number:], wording))
        elif isinstance(event, e.ApprovalGranted):
            cards.append(_grant(event, wording))
    return tuple(cards[:MOST])


def _gate(opened: e.GateOpened, case: Case, later: Sequence[e.Event], wording: Wording) -> GateCard:
    answers = [each for each in later if isinstance(each, e.GateAnswered) and each.gate == opened.gate]
    apart = _SHOWN_APART | _PRODUCED if opened.kind == "output" else _SHOWN_APART
    rest = {name: value for name, value in opened.shown.items() if name not in apart}
    name = ", ".join(opened.names) or opened.kind
    return GateCard(
        title=wording.text(f"{name}{f' at {opened.step}' if opened.step else ''}", 200),
        question=QUESTIONS[opened.kind].capitalize(),
        state=_state(opened, answers, case),
        asked=tuple(_asked(opened, wording)),
        calls=tuple(_calls(opened, wording)),
        produced=_produced(opened, case, wording) if opened.kind == "output" else None,
        more=wording.value(rest) if rest else "",
        replies=tuple(_reply(opened, answer, wording) for answer in answers),
    )


def _state(opened: e.GateOpened, answers: Sequence[e.GateAnswered], case: Case) -> Chip:
    if opened.gate in case.state.gates and not case.state.is_over:
        return Chip(text="waits for an answer", tone="wait")
    if not answers:
        return Chip(text="closed without an answer", tone="quiet")
    return Chip(text=answer_word(answers[-1]), tone=answer_tone(answers[-1]))


def _asked(opened: e.GateOpened, wording: Wording) -> Iterator[Row]:
    yield Row(label="asked", text=moment(opened.at))
    for name, need in opened.needs.items():
        yield Row(label="whom", text=wording.text(need_text(name, need.quorum, need.roles)))
    if opened.expires:
        yield Row(label="until", text=moment(opened.expires))
    if reason := opened.shown.get("reason") or opened.shown.get("why"):
        yield Row(label="why", text=wording.text(reason, 1_000))
    yield Row(label="gate", text=wording.text(opened.gate, 120), is_code=True)


# --- what they saw ---


def _calls(opened: e.GateOpened, wording: Wording) -> Iterator[SeenCall]:
    """The resolved calls that an answer lets through, as they were shown."""
    if opened.shown.get("tool"):
        yield _call(opened.step, opened.shown, opened.digest, wording)
    for other in as_list(opened.shown.get("sequence")) or ():
        fields = as_object(other) or {}
        step = str(fields.get("step", ""))
        yield _call(step, fields, opened.covers.get(step, ""), wording)


def _call(step: str, shown: Mapping[str, Any], digest: str, wording: Wording) -> SeenCall:
    sources = as_object(shown.get("sources")) or {}
    authority = frozenset(map(str, as_list(shown.get("authority")) or ()))
    return SeenCall(
        step=wording.text(step, 80),
        tool=wording.text(shown.get("tool", ""), 200),
        nature=wording.text(joined(str(shown.get(name) or "") for name in ("mode", "reversibility")), 80),
        description=wording.text(shown.get("description") or "", 600),
        parameters=tuple(
            _parameter(name, value, sources.get(name), wording, is_authority=name in authority)
            for name, value in (as_object(shown.get("params")) or {}).items()
        ),
        back=wording.text(way_back(shown), 600),
        digest=wording.text(digest, 100),
    )


def _parameter(name: str, value: Any, source: Any, wording: Wording, *, is_authority: bool) -> Parameter:
    told = str(source or "")
    return Parameter(
        name=wording.text(name, 120),
        value=wording.member(name, value, 4_000),
        source=wording.text(told, 600),
        is_authority=is_authority,
        is_trusted="untrusted" not in told,
    )


def _produced(opened: e.GateOpened, case: Case, wording: Wording) -> Produced:
    """The outputs that an answer accepts, as they were shown, and what they were judged by."""
    shown = opened.shown
    before = [each for each in case.events if each.at <= opened.at and isinstance(each, e.OutputsCritiqued)]
    left = map(str, as_list(shown.get("left")) or ())
    return Produced(
        outputs=output_rows(as_object(shown.get("outputs")) or {}, wording),
        exit=exit_card(as_object(shown.get("exit")) or {}, before[-1].confidence if before else {}, wording),
        left=tuple(wording.text(each, 1_000) for each in left)[:MOST],
        repairs=count(int(shown.get("repairs", 0)), "repair"),
    )


# --- what they said ---


def _reply(opened: e.GateOpened, answer: e.GateAnswered, wording: Wording) -> Reply:
    is_same = answer.digest == opened.digest
    rows = [
        Row(label="after", text=took(max(0, answer.at - opened.at))),
        Row(label="as", text=wording.text(", ".join(answer.roles) or "no role"), note=wording.text(_signed_in(answer), 160)),
        Row(label="set", text=wording.inline(answer.changes, 2_000)) if answer.changes else None,
        Row(label="note", text=wording.text(answer.note, 2_000)) if answer.note else None,
        Row(label="said", text=wording.inline(answer.value, 2_000)) if answer.value is not None else None,
        Row(
            label="bound to",
            text=wording.text(answer.digest, 100),
            is_code=True,
            note="" if is_same or not answer.digest else "something else than what was shown",
            tone="quiet" if is_same else "bad",
        ),
    ]  # fmt: skip
    return Reply(
        who=wording.text(answer.actor, 200),
        answer=answer_word(answer),
        tone=answer_tone(answer),
        at=moment(answer.at),
        rows=tuple(row for row in rows if row is not None),
    )


def _signed_in(answer: e.GateAnswered) -> str:
    if answer.simulated_by:
        return f"simulated: login {answer.simulated_by} acted as {answer.actor}"
    return f"signed in: {answer.auth}{f', login {answer.login}' if answer.login else ''}"


def _grant(event: e.ApprovalGranted, wording: Wording) -> GateCard:
    return GateCard(
        title=wording.text(f"{event.policy} at {event.step}", 200),
        question=QUESTIONS["approval"].capitalize(),
        state=Chip(text="granted by a policy", tone="good"),
        asked=(
            Row(label="granted", text=moment(event.at)),
            Row(label="bound to", text=wording.text(event.digest, 100), is_code=True),
        ),
        calls=(),
        produced=None,
        more="",
        replies=(),
    )


# --- what they were asked about ---


def output_rows(outputs: Mapping[str, Any], wording: Wording) -> tuple[Row, ...]:
    """One row for each output; a text of several lines keeps them."""
    return tuple(_output_row(name, value, wording) for name, value in outputs.items())


def _output_row(name: str, value: Any, wording: Wording) -> Row:
    label = wording.text(name, 120)
    if isinstance(value, str) and "\n" in value:
        return Row(label=label, text=wording.block(name, value), is_block=True)
    return Row(label=label, text=wording.member(name, value, 2_000), is_code=True)
