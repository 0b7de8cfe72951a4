"""Driving what is written as a coroutine and waits for nothing: planners and critics that are pure."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from tercet.replay.guard import IoRefused

_ResultT = TypeVar("_ResultT")


def drive(coroutine: Coroutine[Any, Any, _ResultT]) -> _ResultT:
    """What a coroutine comes to, without an event loop; raises what it raises, and `IoRefused` if it waits."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    finally:
        coroutine.close()
    raise IoRefused(
        "what is judged again waits for something, so it is not pure",
        remedy="declare only those critics pure that look at nothing but what they are given",
    )
