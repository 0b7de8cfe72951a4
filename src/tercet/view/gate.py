"""Gates as view models: the question, its call or outputs, the people who may answer, their answers and the digest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.contracts.gate import HandOff
from tercet.contracts.mode import Trust
from tercet.contracts.plan import compensated_step
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.core import events as e
from tercet.core.approval import diagnosis_of
from tercet.core.events.gate import GateKind
from tercet.core.fold.session import ESCALATED
from tercet.core.same_calls import RecentCall
from tercet.core.state import Answer, OpenGate, State
from tercet.critic.checks.flow import described_trust
from tercet.view.earlier_calls import EarlierCallView, recent_call, repeated_calls
from tercet.view.events import RunData, describe
from tercet.view.hand_off import HandOffView, PlannedStep, hand_off_view
from tercet.view.quality import ExitView, exit_view
from tercet.view.questions import Consequence, consequences
from tercet.view.text import first_names, join_names, with_plain_causes
from tercet.view.vocabulary import (
    ADVICE,
    QUESTIONS,
    SIGN_INS,
    UNJUDGED,
    Tone,
    answer_tone,
    answer_word,
    login_words,
    need_text,
    step_text,
)

_SHOWN_APART = frozenset(
    ("tool", "params", "authority", "sources", "mode", "reversibility", "compensation", "no_compensation", "description",
     "evidence", "sequence", "step", "why", "settable", "lane")
)  # fmt: skip
_OUTPUTS_APART = frozenset(("reason", "outputs", "exit", "recommended", "left", "repairs"))


# --- the call ---


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A value of a call, and where it came from."""

    name: str
    value: Any
    source: str
    trust: Trust | None
    """The trust of its source; None if none is stated, as for a default of the tool."""
    is_authority: bool
    is_default: bool

    @property
    def is_trusted(self) -> bool:
        """Whether no part of it is known to be untrusted."""
        return self.trust is not Trust.UNTRUSTED


@dataclass(frozen=True, kw_only=True)
class CompensationView:
    """How a call is compensated, and what approving the call means for that."""

    tool: str
    """Empty if there is no compensation."""
    params: JsonObject
    sources: Mapping[str, str]
    untrusted: tuple[str, ...]
    """The parameters whose source is untrusted."""
    note: str

    @property
    def text(self) -> str:
        """The compensation in one line, without its parameters."""
        return f"{self.tool}; {self.note}" if self.tool else self.note


@dataclass(frozen=True, kw_only=True)
class PinnedFact:
    """A fact that a call is based on."""

    id: str
    source: str
    hash: str
    content: Any


@dataclass(frozen=True, kw_only=True)
class CallView:
    """A call as approvers see it."""

    step: str
    is_further: bool
    """Whether it is another call of the sequence that the gate covers."""
    tool: str
    mode: str
    reversibility: str
    description: str
    why: str
    parameters: tuple[Parameter, ...]
    compensation: CompensationView | None
    evidence: tuple[PinnedFact, ...]
    digest: str

    @property
    def nature(self) -> str:
        """Its mode and reversibility."""
        return ", ".join(filter(None, (self.mode, self.reversibility)))


def _calls(gate: OpenGate) -> Iterator[CallView]:
    shown = gate.shown
    if shown.get("tool") or gate.kind in ("approval", "reconcile"):
        yield _call(gate.step, shown, gate.digest, is_further=False)
    for other in as_list(shown.get("sequence")) or ():
        fields = as_object(other) or {}
        step = str(fields.get("step", ""))
        yield _call(step, fields, gate.covers.get(step, ""), is_further=True)


def _call(step: str, shown: JsonObject, digest: str, *, is_further: bool) -> CallView:
    authority = frozenset(map(str, as_list(shown.get("authority")) or ()))
    sources = as_object(shown.get("sources")) or {}
    defaults = {pointer.parts(str(place)) for place in as_list(shown.get("defaults")) or ()}
    facts = [as_object(fact) or {} for fact in as_list(shown.get("evidence")) or ()]
    return CallView(
        step=step,
        is_further=is_further,
        tool=str(shown.get("tool", "?")),
        mode=str(shown.get("mode") or ""),
        reversibility=reversibility_of(shown),
        description=str(shown.get("description") or ""),
        why=str(shown.get("why") or ""),
        parameters=tuple(
            Parameter(
                name=name,
                value=value,
                source=(source := str(sources.get(name) or "")),
                trust=described_trust(source),
                is_authority=name in authority,
                is_default=(name,) in defaults,
            )
            for name, value in (as_object(shown.get("params")) or {}).items()
        ),
        compensation=_compensation(shown),
        evidence=tuple(
            PinnedFact(
                id=str(fact.get("id")), source=str(fact.get("source") or ""), hash=str(fact.get("hash", "")), content=fact.get("content")
            )
            for fact in facts
        ),
        digest=digest,
    )  # fmt: skip


def reversibility_of(shown: JsonObject) -> str:
    """Return the reversibility of a gate's call; empty if its tool states that there is no compensation."""
    said = str(shown.get("reversibility") or "")
    return "" if said == "compensable" and shown.get("no_compensation") else said


def _compensation(shown: JsonObject) -> CompensationView | None:
    """Return how a call is compensated; None if the gate does not show it."""
    undo = as_object(shown.get("compensation"))
    if shown.get("no_compensation"):
        return _no_compensation(f"it cannot be compensated: {shown['no_compensation']}")
    if not undo:
        is_final = shown.get("reversibility") == "irreversible"
        return _no_compensation("it cannot be compensated") if is_final else None
    note = "approved together with the call"
    if undo.get("error"):
        note = f"it cannot be made: {undo['error']}"
    elif undo.get("proposed"):
        note = "proposed by the plan: approved here only if it is complete and needs no other gate"
    sources = {name: str(source) for name, source in (as_object(undo.get("sources")) or {}).items()}
    return CompensationView(
        tool=str(undo.get("tool")),
        params=as_object(undo.get("params")) or {},
        sources=sources,
        untrusted=tuple(name for name, text in sources.items() if described_trust(text) is Trust.UNTRUSTED),
        note=note,
    )


def _no_compensation(note: str) -> CompensationView:
    return CompensationView(tool="", params={}, sources={}, untrusted=(), note=note)


# --- outputs ---


@dataclass(frozen=True, kw_only=True)
class TextSource:
    """The authors of a text, the values in it with their sources, and whether it is unjudged."""

    pointer: str
    shares: tuple[tuple[str, int], ...]
    """The characters of each source."""
    values: tuple[tuple[str, Tone], ...]
    unjudged: str


@dataclass(frozen=True, kw_only=True)
class ProducedView:
    """Outputs as approvers see them, and how they were judged."""

    outputs: JsonObject
    exit: ExitView | None
    advice: str
    left: tuple[str, ...]
    """The defects that repairs left."""
    repairs: int
    risk: str
    texts: tuple[TextSource, ...]
    judgements: tuple[str, ...]
    diff: tuple[str, ...]


def _produced(gate: OpenGate, confidence: Mapping[str, Any]) -> ProducedView:
    shown = gate.shown
    provenance = as_object(shown.get("provenance")) or {}
    given, advice = as_object(shown.get("exit")), str(shown.get("recommended", ""))
    return ProducedView(
        outputs=as_object(shown.get("outputs")) or {},
        exit=exit_view(given, confidence, advice if advice in ADVICE else "") if given else None,
        advice=ADVICE.get(advice, advice),
        left=tuple(with_plain_causes(str(each)) for each in as_list(shown.get("left")) or ()),
        repairs=int(shown.get("repairs", 0)),
        risk=str(shown.get("risk_assessment") or ""),
        texts=tuple(_text_source(text) for text in as_list(provenance.get("texts")) or ()),
        judgements=tuple(
            f"{said['model'] or 'no model'} says {said['says']}: {said['reason']}"
            for said in as_list(provenance.get("judgements")) or ()
        ),
        diff=tuple(str(provenance.get("diff", "")).splitlines()),
    )


def _text_source(text: Mapping[str, Any]) -> TextSource:
    sizes: dict[str, int] = {}
    for piece in text["pieces"]:
        sizes[piece["source"]] = sizes.get(piece["source"], 0) + piece["end"] - piece.get("start", 0)
    values: list[tuple[str, Tone]] = [
        (
            f"{token['text']}: {token['status']} {', '.join(token.get('sources', ()))}".rstrip(),
            "bad" if token["status"] in ("elsewhere", "unknown") else "quiet",
        )
        for token in text["tokens"]
    ]
    unjudged = UNJUDGED[text["unjudged"]] if text["unjudged"] else ""
    return TextSource(
        pointer=text["pointer"], shares=tuple(sizes.items()), values=tuple(values), unjudged=unjudged
    )


@dataclass(frozen=True, kw_only=True)
class AcceptedOutputs:
    """Who or which rule accepted the outputs that a call delivers, and how they were judged."""

    by: str
    exit: ExitView | None


def _accepted(judgement: JsonObject | None) -> AcceptedOutputs | None:
    if not judgement:
        return None
    people = [str(each) for each in as_list(judgement.get("accepted_by")) or ()]
    by = f"by {join_names(people)}" if people else f"by rule: {judgement.get('rationale', '')}"
    given = as_object(judgement.get("exit"))
    return AcceptedOutputs(by=by, exit=exit_view(given) if given else None)


# --- people ---


@dataclass(frozen=True, kw_only=True)
class NeedView:
    """The approvals that a gate needs, and those that it has."""

    text: str
    quorum: int
    approvers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AnswerView:
    """An answer of a person."""

    who: str
    roles: tuple[str, ...]
    word: str
    tone: Tone
    at: int
    after_ms: int
    login: str
    """The login that they answered from, as text to follow their name."""
    signed_in: str
    """How they were authenticated."""
    changes: JsonObject
    note: str
    value: Any
    digest: str
    is_bound: bool
    """Whether the answer is bound to what the gate showed."""


def _signed_in(answer: Answer | e.GateAnswered) -> str:
    if answer.simulated_by:
        return f"simulated: login {answer.simulated_by} acted as {answer.actor}"
    how = SIGN_INS.get(answer.auth, f"by {answer.auth}")
    return f"signed in {how}{f', login {answer.login}' if answer.login else ''}"


def _answer(gate: OpenGate, answer: Answer | e.GateAnswered) -> AnswerView:
    return AnswerView(
        who=answer.actor,
        roles=tuple(answer.roles),
        word=answer_word(answer),
        tone=answer_tone(answer),
        at=answer.at,
        after_ms=max(0, answer.at - gate.at),
        login=login_words(answer.login, answer.simulated_by),
        signed_in=_signed_in(answer),
        changes=answer.changes,
        note=answer.note,
        value=getattr(answer, "value", None),
        digest=answer.digest,
        is_bound=answer.digest == gate.digest,
    )


# --- the gate ---


@dataclass(frozen=True, kw_only=True)
class GateView:
    """A gate: its question, call or outputs, the people who may answer, their answers, and its deadline."""

    id: str
    kind: GateKind
    step: str
    names: tuple[str, ...]
    title: str
    question: str
    is_open: bool
    state: str
    """Its state, with all people whose answer counted."""
    tone: Tone
    at: int
    expires: int
    why: str
    changed: str
    """The values that changed since an earlier gate of this call; empty if none did."""
    refused_change: str
    owner: str
    """Who started the run, and may not approve it."""
    changers: tuple[str, ...]
    """Who set values in the call, and may not approve it."""
    edits: tuple[AnswerView, ...]
    """The answers to earlier gates of the call that set its values."""
    needs: tuple[NeedView, ...]
    calls: tuple[CallView, ...]
    accepted: AcceptedOutputs | None
    produced: ProducedView | None
    undo: tuple[JsonObject, ...]
    """The compensations that an answer starts, in this order."""
    earlier: tuple[EarlierCallView, ...]
    plan: tuple[PlannedStep, ...]
    cost_microcents: int
    budget: JsonObject
    answers: tuple[AnswerView, ...]
    leads_to: tuple[Consequence, ...]
    """What each answer leads to; empty if it can no longer be answered."""
    hand_off: HandOffView | None
    digest: str
    covers: Mapping[str, str]
    attempt: str
    key: str
    result_schema: JsonObject | None
    """The shape of a value that settles a call of unknown outcome."""
    trusted_roles: tuple[str, ...] | None
    """The roles whose entered value is trusted; None if the gate does not say."""
    more: JsonObject
    """The other values that were shown."""


def gate_view(
    gate: OpenGate,
    state: State,
    *,
    is_open: bool,
    answers: Sequence[Answer | e.GateAnswered] = (),
    confidence: Mapping[str, Any] | None = None,
    packet: HandOff | None = None,
    recent: Sequence[RecentCall] = (),
) -> GateView:
    """Return the view of a gate; `confidence` is the one that was estimated for its outputs."""
    shown, said = gate.shown, tuple(_answer(gate, each) for each in answers)
    apart = _SHOWN_APART | _OUTPUTS_APART if gate.kind == "output" else _SHOWN_APART
    word, tone = _state(said, is_open=is_open)
    roles = as_list(shown.get("trusted_roles"))
    name = ", ".join(gate.names) or gate.kind
    return GateView(
        id=gate.id,
        kind=gate.kind,
        step=gate.step,
        names=gate.names,
        title=f"{name}{f' at {step_text(gate.step)}' if gate.step else ''}",
        question=question_text(gate),
        is_open=is_open,
        state=word,
        tone=tone,
        at=gate.at,
        expires=gate.expires,
        why=reason_text(gate),
        changed=str(shown.get("changed") or ""),
        refused_change=str(shown.get("refused_change") or ""),
        owner=str(state.start.actor["id"]),
        changers=tuple(map(str, as_list(shown.get("changed_by")) or ())),
        edits=tuple(_edits(gate, state)),
        needs=tuple(
            NeedView(text=need_text(each, need.quorum, need.roles), quorum=need.quorum, approvers=gate.approvers(each)) for each, need in gate.needs.items()
        ),
        calls=tuple(_calls(gate)),
        accepted=_accepted(as_object(shown.get("judgement"))),
        produced=_produced(gate, confidence or {}) if gate.kind == "output" else _escalated(gate, state, is_open=is_open),
        undo=tuple(as_object(entry) or {} for entry in as_list(shown.get("undo")) or ()),
        earlier=(*repeated_calls(gate), *map(recent_call, recent)),
        plan=tuple(_planned(as_object(entry) or {}, gate, state) for entry in as_list(shown.get("plan")) or ()),
        cost_microcents=int(shown.get("cost_microcents") or 0),
        budget=as_object(shown.get("budget")) or {},
        answers=said,
        leads_to=consequences(gate, state) if is_open else (),
        hand_off=hand_off_view(packet) if packet else None,
        digest=gate.digest,
        covers=gate.covers,
        attempt=str(shown.get("attempt", "?")),
        key=str(shown.get("key", "")),
        result_schema=as_object(shown.get("result_schema")),
        trusted_roles=None if roles is None else tuple(map(str, roles)),
        more={name: value for name, value in shown.items() if name not in apart},
    )  # fmt: skip


def _escalated(gate: OpenGate, state: State, *, is_open: bool) -> ProducedView | None:
    """Return the judged outputs of an escalated run; None for any other gate."""
    if gate.kind != "escalation" or not state.quality.exit or not is_open:
        return None
    return ProducedView(
        outputs=state.outputs, exit=exit_view(state.quality.exit), advice="", left=tuple(map(with_plain_causes, diagnosis_of(state))), repairs=state.used.repairs,
        risk="", texts=(), judgements=(), diff=(),
    )  # fmt: skip


def _planned(step: JsonObject, gate: OpenGate, state: State) -> PlannedStep:
    """Return a step of the plan that a gate shows, as it is now: others may have ended since the gate was opened."""
    name = str(step.get("step"))
    now = state.steps.get(name)
    return PlannedStep(
        step=name,
        tool=str(step.get("tool") or "note"),
        status=str(step.get("status")) if now is None else now.status,
        is_asked=name in gate.calls,
    )


def _edits(gate: OpenGate, state: State) -> Iterator[AnswerView]:
    for answer in state.answers:
        is_earlier = answer.gate != gate.id and answer.at <= gate.at
        if answer.changes and answer.step == gate.step and is_earlier:
            yield _answer(gate, answer)


def _state(answers: Sequence[AnswerView], *, is_open: bool) -> tuple[str, Tone]:
    """Return the state of a gate: its last answer, with all people who gave it."""
    if is_open:
        return "waits for an answer", "wait"
    if not answers:
        return "closed without an answer", "quiet"
    last = answers[-1]
    people = list(dict.fromkeys(each.who for each in answers if each.word == last.word))
    return f"{last.word} by {join_names(people)}", last.tone


def question_text(gate: OpenGate) -> str:
    """Return the question of a gate."""
    match gate.kind:
        case "approval":
            lane = as_object(gate.shown.get("lane")) or {}
            also = f" and {first_names(list(gate.covers))}" if gate.covers else ""
            what = f"{lane['step']} of lane {gate.lane}" if lane else f"{step_text(gate.step)}{also}"
            return f"may {what} be called? ({first_names(gate.names) or 'this call needs an approval'})"
        case "reconcile":
            if host := compensated_step(gate.step):
                return f"did the compensation of {host} ({gate.shown.get('tool', '?')}) happen?"
            return f"did {gate.step} happen?"
        case "escalation" | "compensation" | "output":
            return f"{QUESTIONS[gate.kind]}{f' ({first_names(gate.names)})' if gate.names else ''}"


def reason_text(gate: OpenGate) -> str:
    """Return why a gate was opened."""
    found = str(gate.shown.get("reason") or gate.shown.get("why") or "")
    return with_plain_causes(found.removeprefix(ESCALATED if gate.kind == "escalation" else ""))


def opened_gate(event: e.GateOpened) -> OpenGate:
    """Return a gate as it was opened."""
    shared = ("kind", "step", "names", "needs", "digest", "covers", "shown", "at", "expires", "lane")
    return OpenGate(id=event.gate, **{name: getattr(event, name) for name in shared})


# --- all gates of a run ---


@dataclass(frozen=True, kw_only=True)
class GrantView:
    """An approval that a policy gave instead of a person."""

    step: str
    policy: str
    at: int
    digest: str
    text: str


def run_gates(run: RunData) -> tuple[GateView | GrantView, ...]:
    """Return every gate of a run in order, and every approval that a policy gave."""
    found: list[GateView | GrantView] = []
    confidence: Mapping[str, Any] = {}
    answered: dict[str, list[e.GateAnswered]] = {}
    for event in run.events:
        if isinstance(event, e.GateAnswered):
            answered.setdefault(event.gate, []).append(event)
    for event in run.events:
        match event:
            case e.OutputsCritiqued():
                confidence = event.confidence
            case e.GateOpened():
                answers = answered.get(event.gate, [])
                is_open = event.gate in run.state.gates and not run.state.is_over
                found.append(
                    gate_view(
                        opened_gate(event), run.state, is_open=is_open, answers=answers, confidence=confidence
                    )
                )
            case e.ApprovalGranted():
                text = describe(event).text
                found.append(
                    GrantView(
                        step=event.step, policy=event.policy, at=event.at, digest=event.digest, text=text
                    )
                )
            case _:
                pass
    return tuple(found)
