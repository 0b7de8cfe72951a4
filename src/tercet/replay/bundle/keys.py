"""The signing keys of a user: one file each, which no other user may read.

A key NAME is `NAME.key`, a private key in PKCS 8 as OpenSSL writes it, and `NAME.pub`, one line with the public key. The
public key of another person may be stored beside them: then their signature is shown with that name.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from tercet.contracts.errors import UsageError
from tercet.replay.bundle.signing import PREFIX, PrivateKey, demand_cryptography, parse_key

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
        """Make a key, and say its public half; raises `UsageError` if there is one of this name."""
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
