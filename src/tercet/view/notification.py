"""What a notification says: a gate that waits, one that expires soon, or a compensation that failed.

It names ids, the tool, the roles and the times, and shows no parameters, outputs or reasons: those are behind the link, where
the reader has to sign in. The step is the only word that a planner chooses; it is quoted and shortened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from tercet.contracts.plan import compensated_step
from tercet.core import events as e
from tercet.core.state import State
from tercet.core.transcript import timestamp
from tercet.view.text import BLANK, join_parts, utc_time
from tercet.view.vocabulary import QUESTIONS, need_text

NotifiedEvent: TypeAlias = Literal[
    "gate.opened", "gate.escalated", "gate.expires_soon", "compensation.failed"
]
HEADLINES: Mapping[NotifiedEvent, str] = {
    "gate.opened": "A gate waits for an answer",
    "gate.escalated": "A run could not continue, and waits for a decision",
    "gate.expires_soon": "A gate expires soon",
    "compensation.failed": "A compensation failed: its step has to be undone by hand",
}
MOST_QUOTED = 80
MOST_LINE = 300


def one_line(text: str, most: int = MOST_LINE) -> str:
    """Return text as one line, shortened, without characters that break, hide or reorder text."""
    shown = "".join(
        c if c.isprintable() and not BLANK.match(c) else "\N{REPLACEMENT CHARACTER}" for c in text[:most]
    )
    return shown + ("…" if len(text) > most else "")


def quoted(text: str) -> str:
    """Return text of others on one line, in quotation marks, shortened."""
    return json.dumps(one_line(text, MOST_QUOTED), ensure_ascii=False)


def _escape(name: str) -> str:
    """Return a name as one segment of a path."""
    return "".join(
        c
        if c.isascii() and (c.isalnum() or c in "-._~")
        else "".join(f"%{b:02X}" for b in c.encode("utf-8", "replace"))
        for c in name
    )


@dataclass(frozen=True, kw_only=True)
class NotificationView:
    """A notification in words and in fields."""

    event: NotifiedEvent
    tenant: str
    session: str
    about: str
    """The gate, or the step whose compensation failed."""
    at: int
    path: str
    """Where the console shows it, below the public address of the service."""
    command: str
    lines: tuple[str, ...]
    fields: Mapping[str, object]

    @property
    def title(self) -> str:
        """One line for a subject."""
        is_step = self.event == "compensation.failed"
        return one_line(f"{HEADLINES[self.event]}: {quoted(self.about) if is_step else self.about}")

    def text(self, public_url: str) -> str:
        """Return the whole notification as plain text."""
        link = f"{public_url.rstrip('/')}{self.path}" if public_url else ""
        lines = (self.title, *self.lines, link or f"Look at it with: {self.command}")
        return "\n".join(one_line(line) for line in lines if line)


def event_of(fact: e.GateOpened | e.StepSkipped, *, is_warning: bool) -> NotifiedEvent:
    """Return what a notification about a fact says."""
    match fact:
        case e.GateOpened() if is_warning:
            return "gate.expires_soon"
        case e.GateOpened():
            return "gate.escalated" if fact.kind == "escalation" else "gate.opened"
        case e.StepSkipped():
            return "compensation.failed"
        case _:
            assert_never(fact)


def notification_view(
    state: State, fact: e.GateOpened | e.StepSkipped, *, is_warning: bool = False
) -> NotificationView:
    """Return the notification about a fact of a session."""
    start = state.start
    session, event = str(start.session), event_of(fact, is_warning=is_warning)
    match fact:
        case e.GateOpened():
            needs = [need_text(name, need.quorum, need.roles) for name, need in fact.needs.items()]
            tool = str(fact.shown.get("tool") or "")
            lines = (
                f"Question: {QUESTIONS[fact.kind]}",
                f"Tool: {tool}" if tool else "",
                f"Needs: {join_parts(needs, '; ')}" if needs else "",
                f"Expires: {utc_time(fact.expires)}" if fact.expires else "",
            )
            fields: dict[str, object] = {
                "gate": fact.gate,
                "kind": fact.kind,
                "tool": tool or None,
                "needs": {
                    name: {"roles": list(need.roles), "quorum": need.quorum}
                    for name, need in fact.needs.items()
                },
                "opened_at": timestamp(fact.at),
                "expires_at": timestamp(fact.expires) if fact.expires else None,
            }
            about, step = fact.gate, fact.step
            path, command = f"/console/gates/{_escape(about)}", f"tercet gates show {about}"
        case e.StepSkipped():
            about = step = compensated_step(fact.step) or fact.step
            lines, fields = (), dict[str, object](failed_at=timestamp(fact.at))
            path = f"/console/sessions/{_escape(session)}"
            command = f"tercet sessions show {session}"
        case _:
            assert_never(fact)
    return NotificationView(
        event=event,
        tenant=str(start.tenant),
        session=session,
        about=about,
        at=fact.at,
        path=path,
        command=command,
        lines=(
            *filter(None, lines),
            f"Step: {quoted(step)}" if step else "",
            f"Session: {session} of {quoted(str(start.pack))}, started by {quoted(str(start.actor['id']))}",
        ),
        fields={
            "session": session,
            "tenant": str(start.tenant),
            "step": step[:MOST_QUOTED] or None,
            **fields,
        },
    )


def sample_view(at: int) -> NotificationView:
    """Return a notification with which operators try a target."""
    session = "ses_0000000000000000"
    gate = f"{session}.g1"
    return NotificationView(
        event="gate.opened",
        tenant="default",
        session=session,
        about=gate,
        at=at,
        path=f"/console/gates/{gate}",
        command=f"tercet gates show {gate}",
        lines=("This is a sample: there is no such gate.",),
        fields={"session": session, "tenant": "default", "gate": gate, "is_sample": True},
    )
