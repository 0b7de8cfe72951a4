"""Makes grounding checks, and reads each fact once for all of them.

One phase of a run holds outputs against the same evidence many times: all of it, its trusted part, with the task beside it,
and again after each repair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import orjson

from tercet.contracts.evidence import Evidence
from tercet.quality.grounding.check import EDITION, GroundingCheck, Said, read_fact
from tercet.quality.rubric.credentials import FindsSecrets, find_any_secrets

MAX_READ = 100_000
"""More statements of all evidence together are not read: the finding then is that there is too much of it."""


class Judges:
    """Makes the judges of one phase. `most` is how many statements they read; None reads all.

    `edition` is that of the rules, also of those that the scorers go by: runs are judged by the one they began with.
    `secrets` finds what must not stand in outputs.
    """

    def __init__(
        self,
        *,
        most: int | None = MAX_READ,
        edition: int = EDITION,
        secrets: FindsSecrets = find_any_secrets,
    ) -> None:
        self.secrets = secrets
        self.most = most
        self.edition = edition
        self._prints: dict[int, tuple[Evidence, bytes]] = {}
        self._said: dict[bytes, tuple[int, Said]] = {}
        self._made: dict[tuple[bytes, ...], GroundingCheck] = {}

    def __call__(self, evidence: Sequence[Evidence]) -> GroundingCheck:
        """The judge for this evidence: the same one where it was asked for before."""
        key = tuple(map(self._print, evidence))
        if key not in self._made:
            self._made[key] = GroundingCheck(
                evidence, reader=self._read, most=self.most, edition=self.edition
            )
        return self._made[key]

    def _read(self, fact: Evidence, number: int) -> Said:
        key = self._print(fact)
        if key not in self._said:
            self._said[key] = number, read_fact(fact, number)
        source, said = self._said[key]
        if source == number:
            return said
        return said._replace(statements=[replace(each, source=number) for each in said.statements])

    def _print(self, fact: Evidence) -> bytes:
        """What tells facts apart: everything that is read of them, in its order. Equal numbers may be written differently."""
        known = self._prints.get(id(fact))
        if known is None:
            told = orjson.dumps([fact.id, fact.classification, fact.trust, fact.content])
            known = self._prints[id(fact)] = fact, sha256(told).digest()
        return known[1]
