"""Runs of the post office: letters that wait for two clerks, and for people who never come in time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tercet.cli.sessions import people

from .harness import Answer, Tercet
from .runs import Kitchen

POST = Path(__file__).parent / "post"
FACT = "kg:form:f1#snapshot_s1"

READ = {"id": "read", "tool": "post.read", "params": {"box": "box 7"}}
SEND = {
    "id": "send",
    "tool": "post.send",
    "params": {
        "to": {"$evidence": f"{FACT}#/to"},
        "text": {"$from": "read#/note"},
        "price_eur_cents": 1_250_000,
    },
    "evidence_refs": [FACT],
}
RUSH = {"id": "rush", "tool": "post.rush", "params": {"to": {"$evidence": f"{FACT}#/to"}}}


@dataclass(frozen=True)
class Office:
    """A post office that people come to, one after the other."""

    tercet: Tercet
    kitchen: Kitchen
    monkeypatch: pytest.MonkeyPatch
    pack: Path = POST

    def be(self, user: str) -> None:
        """Somebody sits down at the machine."""
        self.monkeypatch.setattr(people, "login_name", lambda: user)

    def run(self, *steps: dict[str, Any], words: tuple[str, ...] = ()) -> str:
        """A run of these steps by rosa; its session."""
        self.be("rosa")
        plan = self.kitchen.plan(*steps)
        plan.write_text(plan.read_text().replace('"bake"', '"post"'))
        return self.tercet("run", self.pack, "--plan", plan, "--json", *words).json["session_id"]

    def say(self, user: str, *words: str | Path) -> Answer:
        """What somebody says, and what comes back as JSON."""
        self.be(user)
        return self.tercet(*words, "--actors", self.pack, "--json")

    def sent(self) -> list[str]:
        """What the office has done."""
        log = self.kitchen.folder / "post.log"
        return log.read_text().splitlines() if log.exists() else []


def code_of(answer: Answer) -> tuple[int, str]:
    """The exit code and the word for what was wrong; every mistake says what to do."""
    error = answer.json["error"]
    assert error["remedy"]
    return answer.code, error["code"]
