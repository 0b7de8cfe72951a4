"""Ed25519 signatures under bundles. `cryptography` is imported only to sign or to verify."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from tercet.contracts.errors import UsageError, extra_missing
from tercet.replay.bundle.errors import BundleForged
from tercet.replay.bundle.layout import Seal, is_hex, signed_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ed25519

PREFIX = "ed25519:"
"""Stands before a public key wherever people see it."""


def demand_cryptography() -> None:
    """Raise `UsageError` if signatures can be neither made nor checked here."""
    if find_spec("cryptography") is None:
        raise extra_missing("a signature", "cryptography", "signing")


class PrivateKey:
    """A key that signs."""

    def __init__(self, key: ed25519.Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def key(self) -> str:
        """The public key, in hexadecimal digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, data: bytes) -> bytes:
        """Return the signature under some bytes."""
        return self._key.sign(data)


def check_signature(seal: Seal) -> None:
    """Raise `BundleForged` if a bundle is signed and the signature does not match it."""
    if not seal.signer:
        return
    demand_cryptography()
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 - an extra

    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(seal.signer))
    try:
        key.verify(seal.proof, signed_bytes(seal.hash, seal.signer))
    except InvalidSignature:
        raise BundleForged(
            f"it is not one of {PREFIX}{seal.signer} under these bytes", record=seal.records + 1
        ) from None


def parse_key(text: str) -> str:
    """Return the hexadecimal digits of a public key that a person wrote; raises `UsageError`."""
    digits = text.strip().removeprefix(PREFIX).lower()
    if not is_hex(digits):
        raise UsageError(
            f"{text[:80]!r} is not a public key",
            code="wrong_key",
            remedy=f"a public key reads {PREFIX} and 64 hexadecimal digits: tercet signing-keys show NAME prints it",
        )
    return digits
