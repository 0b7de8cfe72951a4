"""What happened to a bundle at the first place where not the record stands that should."""

from __future__ import annotations

import os
from typing import BinaryIO

from tercet.replay.bundle.errors import BundleDamaged, Damage
from tercet.replay.bundle.layout import MAX_LINE, START, Header, decode_header, decode_signature
from tercet.replay.bundle.records import Record


class Diagnosis:
    """What happened at a place where not the record stands that should: one look ahead, and nothing is believed.

    The record that should come names the last good one as the one before it. If that one comes later, what stands here
    was inserted, or moved to the front; if it does not come, it was removed, or changed.
    """

    def __init__(self, file: BinaryIO, start: int, before: Record | None) -> None:
        self._file = file
        self._start = start
        self._before = before
        self._number = before.header.n + 1 if before else 1
        self._previous = before.link if before else START

    def damage(self) -> BundleDamaged:
        """The damage, as far as it can be told from what is there."""
        self._file.seek(self._start)
        line = self._file.readline(MAX_LINE)
        found = decode_header(line)
        if not line:
            return self._say("removed", "the file ends before it")
        if found is None and decode_signature(line) is not None:
            return self._say("removed", "the signature stands in its place")
        if found is None:
            whole = line.endswith(b"\n") or len(line) == MAX_LINE
            return self._say(
                "changed",
                "its line is not what was written" if whole else "the file ends in the middle of its line",
            )
        return self._misplaced(found[1])

    def _misplaced(self, stranger: Header) -> BundleDamaged:
        has_successor, is_there_again = self._look_ahead(stranger)
        if has_successor and (is_there_again or stranger.n <= self._number):
            return self._say("inserted", "it does not follow the record before it", stranger.name)
        if has_successor:
            return self._say("reordered", f"it is record {stranger.n}, and comes too early", stranger.name)
        if stranger.n > self._number:
            return self._say("removed", f"record {stranger.n} ({stranger.name}) stands in its place")
        if self._before is not None and stranger.previous == self._before.header.previous:
            return self._say_before("inserted", "the record behind it stands for the same place")
        if self._before is not None and stranger.n == self._number:
            return self._say_before("changed", "the record behind it was made after another one")
        return self._say("changed", f"record {stranger.n} ({stranger.name}) stands in its place")

    def _look_ahead(self, stranger: Header) -> tuple[bool, bool]:
        """Whether the record that should stand here comes later, and whether the stranger's number does."""
        has_successor = is_there_again = False
        self._file.seek(stranger.size + 1 if stranger.kind != "end" else 0, os.SEEK_CUR)
        while (found := decode_header(self._file.readline(MAX_LINE))) is not None:
            header = found[1]
            has_successor |= header.previous == self._previous
            is_there_again |= header.n == stranger.n
            if header.kind == "end":
                break
            self._file.seek(header.size + 1, os.SEEK_CUR)
        return has_successor, is_there_again

    def _say(self, damage: Damage, reason: str, name: str = "") -> BundleDamaged:
        shown = name or (f"the one behind {self._before.header.name}" if self._before else "the first")
        return BundleDamaged(record=self._number, name=shown, damage=damage, reason=reason)

    def _say_before(self, damage: Damage, reason: str) -> BundleDamaged:
        name = self._before.header.name if self._before else ""
        return BundleDamaged(record=self._number - 1, name=name, damage=damage, reason=reason)
