"""A gate in a few rows: what is asked, about which call, who may answer, and until when.

An approver sees every value that will be used. What agents and customers wrote cannot draw on the screen: it is in
quotes, on its own rows, and everything in it that does not print is spelt out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from rich.text import Text

from tercet.cli.screen import Screen
from tercet.cli.text import ago, ahead, listed, moment, printable
from tercet.cli.values import WHOLE, name_text, strange_letters, value_text, with_reading
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values import pointer, references
from tercet.core.state import OpenGate
from tercet.view.words import QUESTIONS, need_text, way_back

Row: TypeAlias = tuple[str, Text | str]

LABEL = 10
BRIEF = 400
"""How much of an output is shown where it is not shown whole."""
QUOTE = "│ "
"""What each line of a quoted text begins with, also where it is wrapped: so it is never taken for a row of the page."""


def show_gate(screen: Screen, gate: OpenGate, *, owner: str, now: int) -> None:
    """Prints what a gate asks, about which call, and who may not answer: the owner of the run."""
    show_question(screen, gate)
    show_rows(screen, brief_rows(gate, owner, now))


def show_question(screen: Screen, gate: OpenGate) -> None:
    """Prints what a gate asks."""
    screen.put(Text.assemble(("? ", "yellow"), (printable(question(gate)), "bold")), rest="  ")


def show_rows(screen: Screen, rows: Iterable[Row]) -> None:
    """Prints labelled rows; an empty label goes on with the row above."""
    for label, text in rows:
        shown = printable(text, WHOLE) if isinstance(text, str) else text
        first = f"  {label:<{LABEL}}"
        if _is_hash(shown) and len(first) + len(shown) > screen.width:
            # Whole on a line of its own, to be compared and copied.
            screen.put(Text(label), first="  ") if label else None
            first = "    "
        rest = f"{'':<{len(first)}}{QUOTE}" if str(shown).startswith(QUOTE) else None
        screen.put(shown, first=first, rest=rest)


def _is_hash(text: Text | str) -> bool:
    plain = text.plain if isinstance(text, Text) else text
    return plain.strip().startswith("sha256:") and " " not in plain.strip()


def question(gate: OpenGate) -> str:
    """What a gate asks."""
    match gate.kind:
        case "approval":
            also = f" and {listed(list(gate.covers))}" if gate.covers else ""
            return f"may {gate.step}{also} be called? ({listed(gate.names) or 'this call needs an approval'})"
        case "reconcile":
            return f"did {gate.step} happen?"
        case "escalation" | "compensation" | "output":
            return f"{QUESTIONS[gate.kind]}{f' ({listed(gate.names)})' if gate.names else ''}"


def brief_rows(gate: OpenGate, owner: str, now: int) -> Iterator[Row]:
    """What must be known at least before a gate is answered."""
    yield "gate", gate.id
    match gate.kind:
        case "approval":
            yield from call_rows(gate.shown)
            for other in as_list(gate.shown.get("sequence")) or ():
                yield from call_rows(as_object(other) or {})
            yield from approval_rows(gate, owner)
        case "reconcile":
            yield from call_rows(gate.shown)
        case "escalation":
            yield "why", str(gate.shown.get("reason", ""))
        case "compensation":
            yield "why", str(gate.shown.get("reason", ""))
            yield from undo_rows(gate)
        case "output":
            yield "why", str(gate.shown.get("reason", ""))
            yield from output_rows(as_object(gate.shown.get("outputs")) or {}, is_brief=True)
            yield from approval_rows(gate, owner)
    yield from expiry_rows(gate, now)


# --- the call ---


def call_rows(shown: Mapping[str, Any], *, with_sources: bool = False) -> Iterator[Row]:
    """A call as it would be made, with the way back from it."""
    nature = [str(shown[name]) for name in ("mode", "reversibility") if name in shown]
    step = f"{shown['step']}: " if "step" in shown else ""
    yield "call", f"{step}{', '.join([str(shown.get('tool', '?')), *nature])}"
    params = as_object(shown.get("params")) or {}
    authority = frozenset(map(str, shown.get("authority", ())))
    sources = as_object(shown.get("sources")) or {}
    defaults = {pointer.parts(str(place)) for place in shown.get("defaults", ())}
    for number, (name, value) in enumerate(params.items()):
        parameter = _parameter(name, value, is_authority=name in authority)
        if (name,) in defaults:
            parameter.append("  default", style="yellow")
        yield "" if number else "with", parameter
        if name in authority and (letters := strange_letters(value)):
            yield "", Text(f"  ! not plain letters: {printable(letters)}", style="yellow")
        if with_sources and name in sources:
            source = printable(str(sources[name]), WHOLE)
            yield "", Text(f"  ← {source}", style="bold yellow" if "untrusted" in source else "dim")
    yield from _way_back(shown)
    if shown.get("why"):
        yield "why", str(shown["why"])


def _parameter(name: str, value: Any, *, is_authority: bool) -> Text:
    text = Text(f"{name_text(name)} = ")
    text.append(with_reading(name, value), style="bold" if is_authority else "")
    if is_authority:
        text.append("  authority", style="red")
    return text


def _way_back(shown: Mapping[str, Any]) -> Iterator[Row]:
    way = as_object(shown.get("compensation")) or {}
    if told := way_back(shown, _given(way)):
        yield "undo", told
    for name, source in (as_object(way.get("sources")) or {}).items():
        text = printable(f"{name} ← {source}", WHOLE)
        yield "", Text(f"  {text}", style="bold yellow" if "untrusted" in text else "dim")


# --- what a run produced ---


def output_rows(outputs: Mapping[str, Any], *, is_brief: bool = False) -> Iterator[Row]:
    """Every output whole, texts line by line; in brief, each on one row that may be shortened."""
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


# --- who, and until when ---


def approval_rows(gate: OpenGate, owner: str) -> Iterator[Row]:
    """Whom a gate asks for, who has approved so far, and who may not."""
    label = "by"
    for name, need in gate.needs.items():
        so_far = f"; so far {listed(gate.approvers(name))}" if gate.approvers(name) else ""
        yield label, f"{need_text(name, need.quorum, need.roles)}{so_far}"
        label = ""
    changers = listed([str(name) for name in as_list(gate.shown.get("changed_by")) or ()])
    yield label, f"somebody other than {owner}, who started the run"
    if changers:
        yield "", f"and other than {changers}, who set values in the call"


def expiry_rows(gate: OpenGate, now: int) -> Iterator[Row]:
    """Until when a gate may be answered."""
    if gate.expires > now:
        yield "expires", f"{ahead(gate.expires - now)}, {moment(gate.expires)}"
    elif gate.expires:
        late = f"expired {ago(now - gate.expires)}: it cannot be answered any more"
        yield "expires", Text(late, style="red")


# --- the way back from a run ---


def undo_rows(gate: OpenGate) -> Iterator[Row]:
    """What would be taken back, in this order, and what cannot be."""
    for number, entry in enumerate(as_list(gate.shown.get("undo")) or ()):
        yield "" if number else "undo", undo_text(as_object(entry) or {})


def undo_text(undo: Mapping[str, Any]) -> Text:
    """The way back from one step."""
    step = name_text(str(undo.get("step", "?")))
    if not undo.get("tool"):
        why = printable(str(undo.get("note", "")), WHOLE)
        return Text.assemble((f"✗ {step}", "red"), f"  cannot be taken back: {why}")
    given = _given(undo)
    return Text.assemble(("← ", "green"), f"{step}  {name_text(str(undo['tool']))}{given}")


def _given(call: Mapping[str, Any]) -> str:
    """What a call is given, in a few words: references as arrows."""
    params = as_object(call.get("params")) or {}
    pairs = [f"{name_text(name)} {_bound_to(value)}" for name, value in params.items()]
    return f" with {', '.join(pairs)}" if pairs else ""


def _bound_to(value: Any) -> str:
    reference = references.as_reference(members) if (members := as_object(value)) else None
    return f"= {value_text(value)}" if reference is None else f"← {printable(reference.text, WHOLE)}"
