"""Errors about bundles.

    JournalCorrupt
    └── BundleDamaged     a record was changed, removed, reordered or inserted; names the first
        └── BundleForged  the signature does not match these bytes, or is of another key

A file of another kind is a mistake of the caller: `UsageError`.
"""

from __future__ import annotations

from typing import Literal

from tercet.journal.errors import JournalCorrupt

Damage = Literal["changed", "removed", "reordered", "inserted", "inconsistent"]
"""`inconsistent`: every hash holds, and what the records say does not fit together."""


class BundleDamaged(JournalCorrupt):
    """A bundle that is not as it was written; `record`, `name` and `damage` say where it begins and how."""

    default_code = "bundle_damaged"

    def __init__(self, *, record: int, name: str, damage: Damage, reason: str) -> None:
        super().__init__(name, reason)
        self.message = f"the bundle is damaged: record {record} ({name}) was {damage}: {reason}"
        if damage == "inconsistent":
            self.message = f"the bundle is inconsistent: record {record} ({name}): {reason}"
        self.remedy = "ask for another copy, or export the run again from its journal"
        self.record = record
        self.name = name
        self.damage: Damage = damage
        self.reason = reason


class BundleForged(BundleDamaged):
    """A signature that is invalid, or of another key than expected."""

    default_code = "bundle_forged"

    def __init__(self, reason: str, *, record: int) -> None:
        super().__init__(record=record, name="the signature", damage="changed", reason=reason)
        self.message = f"the signature of the bundle does not hold: {reason}"
        self.remedy = "do not rely on it: ask the expected signer for another copy"
