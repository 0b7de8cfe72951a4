"""The `tercet` command: one module per command, grouped in folders, and what commands share.

This package may import every other one, and none imports it. It reads the clock, files and the environment, so that the
packages below need not.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes that commands promise."""

    ACCEPTED = 0
    BROKEN = 1
    """A bug in Tercet, or an output that could not be written."""
    WRONG_USE = 2
    REFUSED = 3
    """Refused by the critic; or a replay, golden run or bundle differs from what was recorded."""
    WAITING = 4
    """The session waits at a gate, or is paused and can be resumed."""
    FAILED = 5
    """The session failed, was escalated, rejected or cancelled, or expired; or its journal failed."""
    INTERRUPTED = 130
