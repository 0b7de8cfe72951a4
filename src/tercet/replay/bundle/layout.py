"""How a bundle is written down: a first line, records, the end, and a signature where there is one.

    tercet-bundle 1
    <SHA-256 of the header> <header>
    <payload>
    …
    <SHA-256 of the header> <header of the end>
    <Ed25519 signature> <who signed>

A header is canonical JSON on one line. It names the hash of its payload and the hash of the header before it, so each
record can be checked by itself, and all of them hang together. There is one way to write a header: another is refused,
since two programs could read it differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.values.canonical import canonical
from tercet.core.state import State

SUFFIX = ".tercet"
"""Ends the name of a bundle's file."""
FIRST_LINE = b"tercet-bundle 1\n"
START = sha256(FIRST_LINE).hexdigest()
"""The previous hash of the first record."""
MAX_LINE = 8192
"""A longer header is none."""
SIGNED = b"tercet-bundle-signature 1\n"
"""The prefix of the signed data, so that no signature of other data can be taken for one."""

Kind = Literal["manifest", "event", "checkpoint", "blob", "pack", "file", "end"]
ORDER: tuple[Kind, ...] = ("manifest", "event", "checkpoint", "blob", "pack", "file", "end")
"""The order of the kinds in a bundle."""
_MORE: dict[Kind, frozenset[str]] = {
    "event": frozenset({"stream", "seq"}),
    "checkpoint": frozenset({"stream", "seq", "checkpoint"}),
    "file": frozenset({"pack", "path"}),
    "end": frozenset({"signer"}),
}
"""The members that the header of a kind has beside those that all have."""
_SOME = ("stream", "seq", "checkpoint", "pack", "path", "signer")
_MOST = 2**53 - 1
"""The largest number: every language reads it exactly."""
_NOT_IN_PATHS = "\\:\x7f"
_HEX = frozenset("0123456789abcdef")


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The header of a record. `sha256` and `size` are those of its payload; in the last record, those of all records
    before."""

    kind: Kind
    n: int
    previous: str
    sha256: str
    size: int
    stream: str | None = None
    seq: int | None = None
    checkpoint: Literal["point", "fold"] | None = None
    pack: str | None = None
    path: str | None = None
    signer: str | None = None
    """The public key of the signer; empty without a signature."""

    @property
    def name(self) -> str:
        """The name of the record for people."""
        match self.kind:
            case "event":
                return f"event {self.seq} of {self.stream}"
            case "checkpoint":
                return f"the {self.checkpoint} after event {self.seq} of {self.stream}"
            case "blob":
                return f"blob sha256:{self.sha256}"
            case "file":
                return f"the pack's file {self.path}"
            case "pack":
                return "the declarations of the pack"
            case _:
                return f"the {self.kind}"


class Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who signed."""

    algorithm: Literal["ed25519"]
    key: str
    kind: Literal["signature"]


_header = msgspec.json.Decoder(Header)
_signature = msgspec.json.Decoder(Signature)
_encoder = msgspec.json.Encoder(order="sorted")


def encode_header(header: Header) -> tuple[str, bytes]:
    """Return the hash of a header, by which the next one names it, and its line."""
    text = _encoder.encode(header)
    found = sha256(text).hexdigest()
    return found, b"%b %b\n" % (found.encode(), text)


def decode_header(line: bytes) -> tuple[str, Header] | None:
    """Return the hash and the header in a line; None if the line was not written in this form."""
    found, space, text = line[:64], line[64:65], line[65:-1]
    if space != b" " or line[-1:] != b"\n" or found != sha256(text).hexdigest().encode():
        return None
    try:
        header = _header.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    is_written_so = _encoder.encode(header) == text and _is_sound(header)
    return (found.decode(), header) if is_written_so else None


def _is_sound(header: Header) -> bool:
    given = {name for name in _SOME if getattr(header, name) is not None}
    if given != set(_MORE.get(header.kind, ())):
        return False
    digests = [header.previous, header.sha256, *([header.signer] if header.signer else [])]
    numbers = (header.n, header.seq if header.seq is not None else 1, header.size + 1)
    return (
        all(map(is_hex, digests))
        and min(numbers) >= 1
        and max(numbers) <= _MOST
        and (header.pack is None or is_hex(header.pack))
        and (header.path is None or is_path(header.path))
    )


def is_hex(text: str) -> bool:
    """Return whether a text is 32 bytes in lowercase hexadecimal digits."""
    return len(text) == 64 and _HEX.issuperset(text)


def is_path(text: str) -> bool:
    """Return whether a path names a file inside a folder, in one way only."""
    is_plain = all(letter >= " " and letter not in _NOT_IN_PATHS for letter in text)
    return is_plain and not {"", ".", ".."} & set(text.split("/"))


def encode_signature(key: str) -> bytes:
    """Return the signer, as the last line names it."""
    return _encoder.encode(Signature(algorithm="ed25519", key=key, kind="signature"))


def decode_signature(line: bytes) -> tuple[bytes, str] | None:
    """Return the signature and the key in a last line; None if it is none."""
    proof, space, text = line[:128], line[128:129], line[129:-1]
    try:
        signature = _signature.decode(text)
        found = bytes.fromhex(proof.decode("ascii"))
    except (msgspec.DecodeError, ValueError):
        return None
    is_written_so = (
        space == b" "
        and line[-1:] == b"\n"
        and found.hex().encode() == proof
        and is_hex(signature.key)
        and encode_signature(signature.key) == text
    )
    return (found, signature.key) if is_written_so else None


def signed_bytes(end: str, key: str) -> bytes:
    """Return the bytes that are signed: the hash of the end's header, and the signer."""
    return SIGNED + end.encode() + b"\n" + encode_signature(key)


class Record(NamedTuple):
    """A record whose bytes were checked, and where its payload begins in the file."""

    header: Header
    link: str
    """The hash of its header."""
    offset: int


@dataclass(frozen=True, kw_only=True)
class Seal:
    """The end of a bundle: the hash over all records, and the signer."""

    hash: str
    records: int
    size: int
    sha256: str
    """Of all bytes before the end's line."""
    signer: str = ""
    proof: bytes = b""


# --- manifest ---


MAX_BYTES = 2**20
"""A larger manifest is refused."""


class StreamEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of the journal: the number of its events in the bundle, and its chain at the last one."""

    name: str
    events: int
    chain: str


class PackEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A pack that the run was pinned to, and whether the bundle holds it."""

    ref: str
    hash: str
    included: bool


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The run of the bundle, its status, and the contents of the bundle."""

    format: Literal[1] = 1
    tenant: str
    session: str
    run: str
    status: str
    is_over: bool
    """Whether nothing more could happen when it was exported."""
    intent: str
    decision: str
    started_at: int
    updated_at: int
    """Milliseconds since 1970: of the first and the last event."""
    snapshot: str = ""
    library: str = ""
    planner: str = ""
    models: tuple[str, ...] = ()
    plan_hash: str = ""
    record: str = ""
    """The hash of the decision record, where there is one."""
    packs: tuple[PackEntry, ...] = ()
    streams: tuple[StreamEntry, ...] = ()
    versions: dict[str, str] = {}
    """Of Tercet, of the events, of the public types."""


def facts_of(state: State) -> dict[str, Any]:
    """Return the fields of a manifest that follow from the events of a run."""
    start = state.start
    return {
        "tenant": start.tenant,
        "session": start.session,
        "run": start.run,
        "status": state.status,
        "is_over": state.is_over,
        "intent": start.request["intent"],
        "decision": start.decision,
        "started_at": start.at,
        "updated_at": state.at,
        "snapshot": start.snapshot,
        "library": start.library,
        "planner": start.planner,
        "models": tuple(start.models),
        "plan_hash": state.plan_hash,
        "record": state.record,
    }


_decoder = msgspec.json.Decoder(Manifest)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest in its written form."""
    return canonical(msgspec.to_builtins(manifest))


def decode_manifest(data: bytes) -> Manifest | None:
    """Return the manifest that bytes hold; None if they hold none, or are not in the one way to write it."""
    try:
        manifest = _decoder.decode(data)
        is_written_so = canonical(msgspec.json.decode(data)) == data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError):
        return None
    return manifest if is_written_so else None
