"""The answers of a look-up (`reconcile=`): whether a call of unknown outcome happened.

A look-up is called with the parameters of the call and its `ToolContext`, and returns one of three answers. Anything
else, None included, counts as unknown: a forgotten `return` must not mean "it did not happen" and repeat a payment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Happened:
    """The call happened, and this is its result."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Absent:
    """The call did not happen and cannot happen any more, so it may be made again."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The look-up does not know: it is repeated later, and then a person is asked."""

    reason: str = ""
