"""Runs of the lamp shop whose letters are judged and mended, and of the people who accept them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tercet.cli.sessions import people

from .harness import Answer, Tercet

LETTERS = Path(__file__).parent / "letters"


@dataclass(frozen=True)
class Studio:
    """A writer's desk, at which anybody may sit down."""

    tercet: Tercet
    monkeypatch: pytest.MonkeyPatch
    pack: Path = LETTERS

    def be(self, user: str) -> None:
        """Somebody sits down at the machine."""
        self.monkeypatch.setattr(people, "login_name", lambda: user)

    def write(self, intent: str, kind: str, *words: str) -> Answer:
        """A letter of this kind, asked for by rosa."""
        self.be("rosa")
        given = ("--intent", intent, "--input", json.dumps({"kind": kind}))
        return self.tercet("run", self.pack, *given, *words)

    def waiting(self, kind: str, intent: str = "signed") -> str:
        """The gate at which a letter of this kind waits to be accepted, by an editor unless it is asked for otherwise."""
        return self.write(intent, kind, "--json").json["gates"][0]["id"]

    def say(self, user: str, *words: str | Path) -> Answer:
        """What somebody says, and what comes back."""
        self.be(user)
        return self.tercet(*words, "--actors", self.pack)

    def resume(self, gate: str, *words: str) -> Answer:
        """The session of a gate goes on."""
        return self.tercet("sessions", "resume", gate.partition(".")[0], "--pack", self.pack, *words)
