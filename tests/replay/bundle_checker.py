"""Checks a bundle, written from docs/bundles.md alone: it imports nothing of Tercet.

`check(data)` answers `intact`, or what happened to the first record that is wrong, and which one that is.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FIRST = b"tercet-bundle 1\n"
KINDS = ["manifest", "event", "checkpoint", "blob", "pack", "file", "end"]
ALL = {"kind", "n", "previous", "sha256", "size"}
MORE = {
    "event": {"stream", "seq"},
    "checkpoint": {"stream", "seq", "checkpoint"},
    "file": {"pack", "path"},
    "end": {"signer"},
}
Json = dict[str, Any]


class Wrong(Exception):  # noqa: N818 - it is what the checker says
    """What happened, and to which record."""

    def __init__(self, what: str, record: int) -> None:
        super().__init__(what, record)
        self.what, self.record = what, record


def sha(data: bytes) -> str:
    """SHA-256 in small hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def is_digest(text: Any) -> bool:
    """64 small hexadecimal digits."""
    return isinstance(text, str) and len(text) == 64 and set(text) <= set("0123456789abcdef")


def plain(text: bytes) -> Json | None:
    """A JSON object, if this is the one way to write it."""
    try:
        value: Any = json.loads(text)
        again = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return cast("Json", value) if again.encode() == text and isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def header_at(data: bytes, at: int) -> tuple[str, Json, int] | None:
    """The link and the header at a place, and where the line ends; None if no header is there."""
    end = data.find(b"\n", at, at + 8192)
    line = data[at:end]
    link, text = line[:64].decode("latin-1"), line[65:]
    header = plain(text)
    if end < 0 or line[64:65] != b" " or header is None or sha(text) != link:
        return None
    kind = header.get("kind")
    numbers = [header.get("n"), header.get("seq", 1), header.get("size")]
    is_sound = (
        kind in KINDS
        and set(header) == ALL | MORE.get(str(kind), set())
        and all(type(number) is int and number < 2**53 for number in numbers)
        and header["n"] >= 1
        and header.get("seq", 1) >= 1
        and header["size"] >= 0
        and is_digest(header["previous"])
        and is_digest(header["sha256"])
        and (not header.get("signer") or is_digest(header["signer"]))
        and ("pack" not in header or is_digest(header["pack"]))
        and header.get("checkpoint", "fold") in ("fold", "point")
        and is_path(header.get("path", "x"))
    )
    return (link, header, end + 1) if is_sound else None


def is_path(path: Any) -> bool:
    """A relative path, written in one way."""
    is_clean = isinstance(path, str) and all(letter >= " " and letter not in "\\:\x7f" for letter in path)
    return is_clean and not {"", ".", ".."} & set(path.split("/"))


class Checker:
    """One pass over a bundle."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = len(FIRST)
        self.n = 1
        self.previous = sha(FIRST)
        self.headers: list[Json] = []
        self.manifest: Json = {}
        self.streams: dict[str, tuple[int, bytes]] = {}

    def run(self) -> None:
        """Raises `Wrong` unless the bundle is intact."""
        if not self.data.startswith(FIRST):
            raise Wrong("no bundle", 0)
        while True:
            found = header_at(self.data, self.at)
            if found is None or (found[1]["n"], found[1]["previous"]) != (self.n, self.previous):
                raise self.misplaced(found)
            start, (link, header, self.at) = self.at, found
            self.order(header)
            if header["kind"] == "end":
                return self.finish(link, header, start)
            self.payload(header)
            self.headers.append(header)
            self.previous, self.n = link, self.n + 1

    def payload(self, header: Json) -> None:
        """The payload has the hash that its header names."""
        end = self.at + header["size"]
        payload = self.data[self.at : end]
        if sha(payload) != header["sha256"] or self.data[end : end + 1] != b"\n":
            raise Wrong("changed", self.n)
        self.at = end + 1
        if header["kind"] == "manifest":
            self.manifest = plain(payload) or {}
            if len(payload) > 2**20 or not self.manifest:
                raise Wrong("inconsistent", self.n)
        if header["kind"] == "event":
            count, chain = self.streams.get(header["stream"], (0, bytes(32)))
            self.streams[header["stream"]] = (count + 1, hashlib.sha256(chain + payload).digest())

    def order(self, header: Json) -> None:
        """The kinds stand in order, each in its own, and the streams are those of the manifest."""
        kind, before = header["kind"], self.headers[-1] if self.headers else None
        is_in_order = (kind == "manifest") == (before is None)
        if before is not None:
            is_in_order &= KINDS.index(kind) >= KINDS.index(before["kind"])
            if kind == before["kind"] and kind in ("checkpoint", "blob", "pack", "file"):
                names = {"checkpoint": ("seq", "checkpoint"), "file": ("pack", "path")}.get(kind, ("sha256",))
                is_in_order &= [before[name] for name in names] < [header[name] for name in names]
        if kind == "event":
            is_in_order &= header["seq"] == self.streams.get(header["stream"], (0,))[0] + 1
        before_this = [each for each in self.manifest.get("streams", []) if each["name"] in self.streams]
        for entry in before_this:
            if entry["name"] == header.get("stream") and kind == "event":
                continue
            count, chain = self.streams[entry["name"]]
            is_in_order &= (count, chain.hex()) == (entry["events"], entry["chain"])
        if kind not in ("manifest", "event"):
            is_in_order &= len(before_this) == len(self.streams) == len(self.manifest["streams"])
        packs = {each["hash"][7:] for each in self.manifest.get("packs", []) if each["included"]}
        if kind in ("file", "end"):
            is_in_order &= packs == {each["sha256"] for each in self.headers if each["kind"] == "pack"}
        is_in_order &= header.get("pack") in (None, *packs)
        if not is_in_order:
            raise Wrong("inconsistent", self.n)

    def finish(self, link: str, end: Json, start: int) -> None:
        """The end names all bytes before it, and the signature holds."""
        if (end["size"], end["sha256"]) != (start, sha(self.data[:start])):
            raise Wrong("changed", self.n)
        if end["signer"]:
            self.signature(link, end["signer"])
        if self.data[self.at :]:
            raise Wrong("inserted", self.n + (2 if end["signer"] else 1))

    def signature(self, link: str, signer: str) -> None:
        """The line behind the end is the signer's signature under it."""
        line = self.data[self.at : self.data.find(b"\n", self.at) + 1]
        if not self.data[self.at :]:
            raise Wrong("removed", self.n + 1)
        proof, who = line[:128], line[129:-1]
        wanted = {"algorithm": "ed25519", "key": signer, "kind": "signature"}
        try:
            found = bytes.fromhex(proof.decode("latin-1"))
        except ValueError:
            found = b""
        if plain(who) != wanted or found.hex().encode() != proof or line[128:129] != b" ":
            raise Wrong("changed", self.n + 1)
        message = b"tercet-bundle-signature 1\n" + link.encode() + b"\n" + who
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer)).verify(found, message)
        except InvalidSignature:
            raise Wrong("changed", self.n + 1) from None
        self.at += len(line)

    def misplaced(self, found: tuple[str, Json, int] | None) -> Wrong:
        """What happened where not the record stands that should."""
        if found is None:
            rest = self.data[self.at :]
            is_signature = rest[128:129] == b" " and b'"kind":"signature"' in rest[:400]
            return Wrong("removed" if not rest or is_signature else "changed", self.n)
        stranger, later = found[1], self.ahead(found)
        comes = any(each["previous"] == self.previous for each in later)
        again = any(each["n"] == stranger["n"] for each in later)
        if comes:
            return Wrong("inserted" if again or stranger["n"] <= self.n else "reordered", self.n)
        return Wrong("removed" if stranger["n"] > self.n else "changed", self.n)

    def ahead(self, found: tuple[str, Json, int]) -> list[Json]:
        """The headers behind a record."""
        later: list[Json] = []
        current: tuple[str, Json, int] | None = found
        while current is not None and current[1]["kind"] != "end":
            current = header_at(self.data, current[2] + current[1]["size"] + 1)
            later += [current[1]] if current else []
        return later


def check(data: bytes) -> tuple[str, int]:
    """`intact` and 0, or what happened to which record."""
    try:
        Checker(data).run()
    except Wrong as wrong:
        return wrong.what, wrong.record
    return "intact", 0


if __name__ == "__main__":
    answer, record = check(Path(sys.argv[1]).read_bytes())
    print(answer, record or "")  # noqa: T201 - what a script is for
    sys.exit(answer != "intact")
