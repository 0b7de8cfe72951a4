"""Ed25519 signatures under bundles, the keys for them, and the errors of bundles."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tercet.contracts.errors import UsageError, extra_missing
from tercet.journal.errors import JournalCorrupt
from tercet.replay.bundle.layout import Seal, is_hex, signed_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ed25519


Damage = Literal["changed", "removed", "reordered", "inserted", "inconsistent"]
"""`inconsistent`: every hash matches, but the records contradict each other."""


class BundleDamaged(JournalCorrupt):
    """A damaged bundle; `record`, `name` and `damage` say where the damage begins and what it is."""

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


# --- signing ---


PREFIX = "ed25519:"
"""The prefix of a public key wherever people see it."""


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


# --- keys ---
# A key NAME is `NAME.key`, a private key in PKCS 8 as OpenSSL writes it, and `NAME.pub`, one line with the public
# key. The public key of another person may be stored beside them: then their signature is shown with that name.


VARIABLE = "TERCET_KEYS"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MAX_BYTES = 4096


def usual_folder(environment: Mapping[str, str]) -> Path:
    """Return where keys are kept: TERCET_KEYS, else `tercet/keys` in the user's folder for configuration."""
    if named := environment.get(VARIABLE):
        return Path(named)
    configuration = environment.get("XDG_CONFIG_HOME")
    return (Path(configuration) if configuration else Path.home() / ".config") / "tercet" / "keys"


class KeyRing:
    """The keys in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, name: str) -> str:
        """Create a key, and return its public half; raises `UsageError` if there is one of this name."""
        demand_cryptography()
        from cryptography.hazmat.primitives import serialization as forms  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - an extra
            Ed25519PrivateKey,
        )

        _demand_name(name)
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
        public = PREFIX + PrivateKey(key).key
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._public(name).exists():
            raise _taken(name)
        _create(self._private(name), private, 0o600, name)
        _create(self._public(name), f"{public}\n".encode(), 0o644, name)
        return public

    def names(self) -> dict[str, str]:
        """Return the public keys by name; those that nothing can be signed with as well."""
        if not self.folder.is_dir():
            return {}
        found = sorted(path.stem for path in self.folder.glob("*.pub") if _NAME.fullmatch(path.stem))
        return {name: self.public(name) for name in found}

    def can_sign(self, name: str) -> bool:
        """Return whether the private half is here."""
        return self._private(name).is_file()

    def public(self, name: str) -> str:
        """Return the public half of a key; raises `UsageError`."""
        _demand_name(name)
        return PREFIX + parse_key(_read(self._public(name), name).decode("ascii", "replace"))

    def private(self, name: str) -> PrivateKey:
        """Return a key to sign with; raises `UsageError` if it is not there, is none, or others may read it."""
        demand_cryptography()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - an extra
            Ed25519PrivateKey,
        )
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an extra
            load_pem_private_key,
        )

        _demand_name(name)
        path = self._private(name)
        data = _read(path, name)
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise UsageError(
                f"others may read the signing key {name}",
                code="key_exposed",
                remedy=f"chmod 600 {path}; if it was so for long, make another key",
            )
        try:
            key = load_pem_private_key(data, password=None)
        except (ValueError, TypeError) as error:
            raise _unusable(path, str(error)) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise _unusable(path, "it is of another kind")
        return PrivateKey(key)

    def _private(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def _public(self, name: str) -> Path:
        return self.folder / f"{name}.pub"


def _create(path: Path, data: bytes, mode: int, name: str) -> None:
    """Make a file that was not there, with these permissions from the first moment on."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise _taken(name) from None
    with os.fdopen(number, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES)
    except FileNotFoundError:
        raise UsageError(
            f"there is no signing key {name} in {path.parent}",
            code="unknown_key",
            remedy=f"tercet signing-keys list shows those that are there; tercet signing-keys new {name} makes one",
        ) from None
    except PermissionError as error:
        raise UsageError(
            f"the signing key {path} may not be read by this user",
            code="key_unreadable",
            remedy=f"chmod 600 {path} as its owner, or sign as the user whom it belongs to",
        ) from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error


def _demand_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"invalid key name {name[:80]!r}",
            code="wrong_name",
            remedy="use lowercase letters, digits, '-' and '_', for example release",
        )


def _taken(name: str) -> UsageError:
    return UsageError(
        f"there is a signing key {name} already",
        code="key_exists",
        remedy="choose another name: a key that is gone can never be made again",
    )


def _unusable(path: Path, reason: str) -> UsageError:
    return UsageError(
        f"{path} is not a signing key: {reason}",
        code="key_unreadable",
        remedy="restore it, or make another key",
    )
