"""The delivery of one act to the server, as a small state machine.

    state      event                                            next state
    NOT_SENT   its statement or its COMMIT goes out             IN_DOUBT
    NOT_SENT   the rules refuse it on what the server holds     REFUSED
    NOT_SENT   patience ends                                    REFUSED   (JournalUnavailable)
    IN_DOUBT   the server answers: stored                       STORED
    IN_DOUBT   the server answers: not stored                   NOT_SENT, unless an earlier send is still unanswered
    IN_DOUBT   it is sent again over a new connection           IN_DOUBT
    IN_DOUBT   looked up and found, by the link of this unit    STORED
    IN_DOUBT   looked up and not found, and the rules refuse it REFUSED
    IN_DOUBT   patience ends                                    UNKNOWN   (AppendUnknown)

Doubt belongs to the act and comes from its own send alone. A connection that cannot be opened therefore changes
nothing: whatever another act, or an earlier batch, was doing is not recorded here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from tercet.contracts.errors import InternalError, TercetError
from tercet.journal.errors import AppendUnknown, JournalError
from tercet.journal.protocol import Lease, Position
from tercet.journal.stream import Act

Outcome: TypeAlias = Position | Lease | TercetError


class State(StrEnum):
    """What is known about an act."""

    NOT_SENT = "not sent"
    IN_DOUBT = "in doubt"
    STORED = "stored"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Sent(msgspec.Struct, frozen=True, gc=False):
    """How to recognise an act that was sent: the number of its stream, and the link that its last event would have.

    A lease act, and a unit without events, leave no link. A first lease is sent before its stream has a number.
    """

    stream_id: int | None = None
    link: Position | None = None


class Delivery:
    """One act, what was sent for it without an answer, and in the end its outcome."""

    __slots__ = ("act", "outcome", "state", "unanswered")

    def __init__(self, act: Act) -> None:
        self.act = act
        self.state = State.NOT_SENT
        self.unanswered: tuple[Sent, ...] = ()
        """What was sent and may or may not have been carried out, oldest first."""
        self.outcome: Outcome | None = None
        """What the caller gets, once the state is STORED, REFUSED or UNKNOWN."""

    def send(self, sent: Sent) -> None:
        """The statement or the COMMIT that stores the act is about to go out."""
        self._demand_open()
        self.unanswered += (sent,)
        self.state = State.IN_DOUBT

    def confirm(self, outcome: Position | Lease) -> None:
        """The server has stored the act: by its answer, or found by a look-up."""
        self._demand(State.IN_DOUBT)
        self._end(State.STORED, outcome)

    def reject(self) -> None:
        """The server has answered that the latest send stored nothing. An earlier one may still be unanswered."""
        self._demand(State.IN_DOUBT)
        self.unanswered = self.unanswered[:-1]
        self.state = State.IN_DOUBT if self.unanswered else State.NOT_SENT

    def refuse(self, error: JournalError) -> None:
        """The rules refuse the act on what the server holds; the caller has ruled out that it was stored."""
        self._demand_open()
        self._end(State.REFUSED, error)

    def give_up(self, fault: TercetError, place: str) -> None:
        """Nothing more is tried: unknown if anything was sent without an answer, else the fault."""
        self._demand_open()
        if self.unanswered:
            self._end(State.UNKNOWN, AppendUnknown(place, fault.message))
        else:
            self._end(State.REFUSED, fault)

    def _end(self, state: State, outcome: Outcome) -> None:
        self.state, self.outcome = state, outcome

    def _demand_open(self) -> None:
        self._demand(State.NOT_SENT, State.IN_DOUBT)

    def _demand(self, *allowed: State) -> None:
        if self.state not in allowed:
            raise InternalError(f"an act that is {self.state} cannot change its state in this way")
