"""What people said to a session: their messages are facts. What each became, and whether it was allowed, is derived."""

from __future__ import annotations

from tercet.contracts.errors import UsageError
from tercet.core import events as e
from tercet.core import messages
from tercet.core.messages import Cancel, Extend, Reply, Said
from tercet.replay.derivations.derived import Derived
from tercet.replay.scene import ReplayState

PERSON = "what a person said"
NO_INBOX = "what a person said, by its event alone: the recording does not hold their message"


def gate_answered(scene: ReplayState, event: e.GateAnswered) -> Derived:
    """An answer that its giver may give: to a gate that is open, in time, in the role that it takes."""
    said = Reply(
        session=scene.recording.session,
        actor=event.actor,
        roles=event.roles,
        auth=event.auth,
        login=event.login,
        note=event.note,
        gate=event.gate,
        answer=event.answer,
        value=event.value,
        changes=event.changes,
        simulated_by=event.simulated_by,
        listed=event.listed,
    )
    return _said(scene, said, event)


def session_cancelled(scene: ReplayState, event: e.SessionCancelled) -> Derived:
    """A run that could still be cancelled."""
    said = Cancel(
        session=scene.recording.session,
        actor=event.by,
        simulated_by=event.simulated_by,
        note=event.reason,
    )
    return _said(scene, said, event)


def budget_extended(scene: ReplayState, event: e.BudgetExtended) -> Derived:
    """An extension that is one, of a run that could still use it."""
    said = Extend(
        session=scene.recording.session, actor=event.by, simulated_by=event.simulated_by, more=event.more
    )
    return _said(scene, said, event)


def _said(
    scene: ReplayState, said: Said, event: e.GateAnswered | e.SessionCancelled | e.BudgetExtended
) -> Derived:
    """Return what the message in the inbox becomes, or else `said`; a refusal is raised, and is a difference."""
    data = scene.recording.inbox.get(event.inbox)
    message = said if data is None else messages.decode(data)
    if message.session != scene.recording.session:
        raise UsageError(
            f"message {event.inbox} of the inbox was sent to session {message.session}", code="wrong_session"
        )
    made = messages.event_of(message, scene.state, event.at, inbox=event.inbox, outside=event.outside)
    return Derived(event=made, fact=NO_INBOX if data is None else PERSON)
