"""Events as bytes: nothing is written that could not be read again."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import InternalError
from tercet.core import codec
from tercet.core import events as e

ABORT: dict[str, Any] = {"at": 1, "step": "s1", "attempt": 1, "outcome": "not_done", "error": "busy"}


def test_an_event_is_read_as_it_was_written() -> None:
    abort = e.Abort(**ABORT)
    assert codec.decode(codec.encode(abort)) == abort


@pytest.mark.parametrize("wrong", [{"retry_after": 0.5}, {"retriable": "no"}, {"code": 5}])
def test_an_event_that_could_not_be_read_is_not_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(InternalError, match="could not be read"):
        codec.encode(e.Abort(**ABORT, **wrong))
