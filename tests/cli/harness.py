"""How tests talk to the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REFUNDS = ROOT / "examples" / "refunds"
PLANS = REFUNDS / "plans"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on stdout; nothing else may stand there, and nothing on stderr."""
        assert not self.err
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """Everything that was said, on one line."""
        return " ".join(f"{self.out} {self.err}".split())


Tercet = Callable[..., Answer]
