"""How a command ends, for the shell that called it."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes that commands promise."""

    ACCEPTED = 0
    BROKEN = 1
    """A bug in Tercet, or an output that could not be written."""
    WRONG_USE = 2
    REFUSED = 3
    """Refused by the critic; or what was recorded comes out otherwise, or is not what was recorded."""
    WAITING = 4
    """The session waits at a gate, or is paused and can be resumed."""
    FAILED = 5
    """The session failed, was escalated, rejected or cancelled, or expired; or the journal could not go on."""
    INTERRUPTED = 130
