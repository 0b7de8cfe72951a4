"""Whoever watches runs: they are told what is durable already, they may fail, and the run does not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

Signal: TypeAlias = Callable[[str, dict[str, Any]], None]
"""Is given named measurements."""


def unmeasured(_: str, __: dict[str, Any]) -> None:
    """Nobody wants measurements."""


def contained(signal: Signal) -> Signal:
    """The same, and whatever it raises goes no further: there is nobody left who could be told."""
    if signal is unmeasured:
        return signal

    def quiet(name: str, told: dict[str, Any]) -> None:
        with suppress(Exception):
            signal(name, told)

    return quiet


def spectate(signal: Signal, name: str, run: str, watch: Callable[[], object]) -> None:
    """Let somebody watch a run; that they failed is told as the signal `name`."""
    try:
        watch()
    except Exception as error:  # noqa: BLE001 - somebody else's code, and only a spectator's
        signal(name, {"loop_id": run, "error": f"{type(error).__name__}: {error}"})
