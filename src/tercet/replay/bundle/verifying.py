"""Verification of bundles: their contents and signature, in one pass over the file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from tercet.replay.bundle.errors import BundleDamaged, BundleForged
from tercet.replay.bundle.layout import Seal, decode_signature
from tercet.replay.bundle.manifest import Manifest
from tercet.replay.bundle.reading import open_file, refuse_unreadable
from tercet.replay.bundle.scanning import Scan
from tercet.replay.bundle.signing import check_signature, demand_cryptography

Answer = Literal["intact", "damaged", "forged", "unsigned", "wrong_signer"]
"""`unsigned` and `wrong_signer` are said where a certain key was asked for."""
_SIGNATURE_BYTES = 512
"""The last line of a signed bundle is shorter."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of verifying a bundle."""

    answer: Answer
    manifest: Manifest | None = None
    seal: Seal | None = None
    damage: BundleDamaged | None = None


def verify_bundle(path: Path, key: str | None = None) -> Finding:
    """Look at every byte of a bundle; `key` is the public key that it should be signed with.

    Raises `UsageError` for a file that is not a bundle, and for a signed one where no signature can be checked.
    """
    with open_file(path) as file, refuse_unreadable(path):
        return verify_stream(file, str(path), key)


def verify_stream(file: BinaryIO, name: str, key: str | None = None) -> Finding:
    """The same of a file that is open; `name` is what it is called in messages."""
    if _is_signed(file):
        demand_cryptography()
    scan = Scan(file, name)
    try:
        for _ in scan.records():
            pass
        manifest, seal = scan.result()
        check_signature(seal)
    except BundleForged as error:
        return Finding(answer="forged", damage=error)
    except BundleDamaged as error:
        return Finding(answer="damaged", damage=error)
    return Finding(answer=_answer(seal, key), manifest=manifest, seal=seal)


def _answer(seal: Seal, key: str | None) -> Answer:
    if key is None or seal.signer == key:
        return "intact"
    return "wrong_signer" if seal.signer else "unsigned"


def _is_signed(file: BinaryIO) -> bool:
    """Return whether the last line looks like a signature, asked before the long look."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _SIGNATURE_BYTES))
    last = file.read(_SIGNATURE_BYTES).splitlines(keepends=True)[-1:]
    file.seek(0)
    return bool(last) and decode_signature(last[0]) is not None
