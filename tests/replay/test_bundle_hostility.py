"""Files that pretend to be bundles: each gets a typed answer, quickly, and nothing is written or run."""

from __future__ import annotations

import json
import random
import zlib
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.workshop import Workshop
from tercet.contracts.errors import TercetError, UsageError
from tercet.engine.session_reader import restore
from tercet.replay.bundle.exporting import BundleWriter
from tercet.replay.bundle.layout import FIRST_LINE, MAX_LINE, START, is_path
from tercet.replay.bundle.reading import Finding, open_bundle, verify_bundle, verify_stream
from tercet.replay.bundle.signing import BundleDamaged

from .archive import make

MANIFEST: dict[str, Any] = {
    "tenant": "t", "session": "s", "run": "r", "status": "completed", "is_over": True, "intent": "i",
    "decision": "d", "started_at": 1, "updated_at": 2,
    "packs": [{"ref": "p@1.0.0", "hash": "sha256:" + "0" * 64, "included": False}],
    "streams": [{"name": "s", "events": 0, "chain": "0" * 64}],
}  # fmt: skip


def line(**members: Any) -> bytes:
    """A header with a link that holds."""
    usual = {"kind": "manifest", "n": 1, "previous": START, "sha256": sha256(b"").hexdigest(), "size": 0}
    text = json.dumps({**usual, **members}, sort_keys=True, separators=(",", ":")).encode()
    return sha256(text).hexdigest().encode() + b" " + text + b"\n"


def look(data: bytes) -> Finding:
    """What is found in these bytes."""
    return verify_stream(BytesIO(data), "it")


NONSENSE = [
    b"",
    b"\n",
    b"PK\x03\x04",
    b"SQLite format 3\x00",
    b"tercet-bundle",
    b"{}",
    bytes(5000),
    b"\xff" * 99,
]


@pytest.mark.parametrize("data", [*NONSENSE, b"tercet-bundle 2\n", b"tercet-bundle 1\r\n"])
def test_what_is_no_bundle_is_wrong_use(data: bytes, tmp_path: Path) -> None:
    """Whatever it is, it is told that it is none, or of another version."""
    path = tmp_path / "it"
    path.write_bytes(data)
    for act in (verify_bundle, open_bundle):
        with pytest.raises(UsageError) as caught:
            act(path)
        assert caught.value.code == (
            "newer_bundle" if data.startswith(b"tercet-bundle 2") else "not_a_bundle"
        )
        assert caught.value.remedy


@pytest.mark.parametrize("name", ["", "nothing", "."])
def test_a_file_that_is_not_there_is_wrong_use(name: str, tmp_path: Path) -> None:
    """Also a folder."""
    with pytest.raises(UsageError) as caught:
        verify_bundle(tmp_path / name)
    assert caught.value.code == "bundle_not_found"


@pytest.mark.parametrize(
    "rest",
    [
        *NONSENSE[1:],
        b"a" * 10 * MAX_LINE,
        line(size=2**53 - 1),
        line(size=2**62),
        line(size=10**400),
        line(size=-1),
        line(size=1.0),
        line(n=0),
        line(n=True),
        line(kind="zip"),
        line(kind=None),
        line(extra=1),
        line(stream="s"),
        line(previous="A" * 64),
        line(sha256=""),
        line(kind="event", stream="s", seq=0),
        line(kind="file", pack="0" * 64, path="../../etc/passwd"),
        line(kind="end", signer=""),
        line(kind="end", signer="x"),
        line().replace(b'"n":1', b'"n":1,"n":1'),
        line(path="x" * MAX_LINE, kind="file", pack="0" * 64),
        b"[" * 8000 + b"\n",
        sha256(b"[" * 8000).hexdigest().encode() + b" " + b"[" * 8000 + b"\n",
        line() + b"\n",
        line(size=2, sha256=sha256(b"{}").hexdigest()) + b"{}\n",
        line(size=5_000, sha256=sha256(b"[" * 5_000).hexdigest()) + b"[" * 5_000 + b"\n",
    ],
    ids=range(len(NONSENSE) - 1 + 25),
)
def test_what_only_begins_as_a_bundle_is_damaged(rest: bytes) -> None:
    """Sizes that nobody has, members that nobody wrote, lines without an end: the first record is named."""
    finding = look(FIRST_LINE + rest)
    assert finding.answer == "damaged"
    assert finding.damage is not None
    assert finding.damage.record == 1


def written(manifest: dict[str, Any]) -> bytes:
    """A manifest as it should be written."""
    return json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()


def crafted(path: Path, manifest: dict[str, Any], *records: tuple[Any, bytes, dict[str, Any]]) -> None:
    """A bundle whose hashes all hold, with whatever somebody put into it."""
    with path.open("wb") as file:
        writer = BundleWriter(file)
        writer.add("manifest", written(manifest))
        for kind, payload, members in records:
            writer.add(kind, payload, **members)
        writer.finish()


ZERO = "0" * 64
INCLUDED = {**MANIFEST, "packs": [{"ref": "p@1.0.0", "hash": f"sha256:{ZERO}", "included": True}]}


MISFITS: list[tuple[dict[str, Any], list[Any]]] = [
    ({**MANIFEST, "streams": []}, []),
    ({**MANIFEST, "packs": []}, []),
    ({**MANIFEST, "streams": [*MANIFEST["streams"], *MANIFEST["streams"]]}, []),
    ({**MANIFEST, "format": 2}, []),
    ({"session": "s"}, []),
    ({**MANIFEST, "streams": [{"name": "s", "events": 1, "chain": ZERO}]}, []),
    ({**MANIFEST, "streams": [{"name": "s", "events": -1, "chain": ZERO}]}, []),
    (MANIFEST, [("event", b"1{}", {"stream": "s", "seq": 1})]),
    (MANIFEST, [("blob", b"x", {}), ("event", b"1{}", {"stream": "s", "seq": 1})]),
    (MANIFEST, [("blob", b"x", {}), ("blob", b"x", {})]),
    (MANIFEST, [("checkpoint", b"x", {"stream": "other", "seq": 1, "checkpoint": "point"})]),
    (MANIFEST, [("manifest", written(MANIFEST), {})]),
    (MANIFEST, [("pack", b"{}", {})]),
    (INCLUDED, []),
    (MANIFEST, [("file", b"x", {"pack": ZERO, "path": "a"})]),
    (
        INCLUDED,
        [("file", b"x", {"pack": ZERO, "path": "b"}), ("file", b"x", {"pack": ZERO, "path": "a"})],
    ),
]


@pytest.mark.parametrize(("manifest", "records"), MISFITS, ids=range(len(MISFITS)))
def test_records_that_do_not_fit_together_are_inconsistent(
    manifest: dict[str, Any], records: list[Any], tmp_path: Path
) -> None:
    """Every hash holds, and it is refused all the same."""
    crafted(tmp_path / "it", manifest, *records)
    finding = verify_bundle(tmp_path / "it")
    assert finding.damage is not None
    assert finding.damage.damage == "inconsistent"
    with pytest.raises(BundleDamaged, match="inconsistent"):
        open_bundle(tmp_path / "it")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../b",
        "a//b",
        "./a",
        "a/.",
        "a\\b",
        "C:x",
        "a\nb",
        "a\0b",
        "a/",
        "a\x7f",
        "..",
    ],
)
def test_a_path_that_leads_elsewhere_is_none(path: str) -> None:
    """A reader that unpacks a bundle writes nowhere but where it means to."""
    assert not is_path(path)
    rest = line() if not path.isprintable() else line(kind="file", pack=ZERO, path=path)
    assert look(FIRST_LINE + rest).answer == "damaged"


@pytest.mark.parametrize("path", ["a", "tools.py", "templates/refund.json", "ä/ö.toml", ".hidden", "a b"])
def test_a_plain_path_is_one(path: str) -> None:
    """Also with other letters and spaces."""
    assert is_path(path)


def test_a_fold_from_elsewhere_is_never_unpacked(workshop: Workshop, tmp_path: Path) -> None:
    """A checkpoint that would unpack to a gigabyte is a record like any other, and whoever folds the run does not look."""
    bomb = zlib.compress(bytes(2**24), 9)
    crafted(tmp_path / "it", MANIFEST, ("checkpoint", bomb, {"stream": "s", "seq": 1, "checkpoint": "fold"}))

    async def main() -> None:
        with open_bundle(tmp_path / "it") as bundle:
            journal = bundle.journal()
            assert await journal.newest("t", "s", "fold") is None
            assert len(await journal.checkpoints("t", "s")) == 1
            with pytest.raises(UsageError, match="no session"):
                await restore(journal, "t", "s")

    workshop.run(main())


def test_events_that_are_none_are_told(workshop: Workshop, tmp_path: Path) -> None:
    """A bundle that holds together and tells no story gets a typed error where somebody reads the story."""
    data = b"1{}"
    chain = sha256(bytes(32) + data).hexdigest()
    crafted(
        tmp_path / "it",
        {**MANIFEST, "streams": [{"name": "s", "events": 1, "chain": chain}]},
        ("event", data, {"stream": "s", "seq": 1}),
    )

    async def main() -> None:
        with open_bundle(tmp_path / "it") as bundle:
            with pytest.raises(TercetError):
                await restore(bundle.journal(), "t", "s")
            with pytest.raises(TercetError):
                await bundle.journal().sessions("t")

    workshop.run(main())


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_whatever_follows_the_first_line_is_answered(data: bytes) -> None:
    """Never with anything but a finding."""
    assert look(FIRST_LINE + data).answer == "damaged"


def test_whatever_is_cut_and_pasted_is_answered(workshop: Workshop, tmp_path: Path) -> None:
    """Pieces of a true bundle in any order are answered, and never as intact unless they are the bundle."""
    make(workshop, tmp_path / "it")
    data = (tmp_path / "it").read_bytes()
    draw = random.Random(7)  # noqa: S311 - places, not secrets
    for _ in range(300):
        edges = sorted(draw.randrange(len(data)) for _ in range(4))
        pieces = [data[a:b] for a, b in zip([0, *edges], [*edges, None], strict=True)]
        shuffled = FIRST_LINE + b"".join(draw.sample(pieces, len(pieces)))
        assert look(shuffled).answer == "damaged"


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(MANIFEST).encode(),
        written(MANIFEST)[:-1] + b',"tenant":"other"}',
        b"[" * 100_000,
        b"\xff",
        written({**MANIFEST, "more": 0}).replace(b'"more":0', b'"more":0.0'),
    ],
    ids=range(5),
)
def test_a_manifest_that_two_programs_could_read_differently_is_none(data: bytes, tmp_path: Path) -> None:
    """Members in any order, or twice, and numbers in other words."""
    with (tmp_path / "it").open("wb") as file:
        writer = BundleWriter(file)
        writer.add("manifest", data)
        writer.finish()
    finding = verify_bundle(tmp_path / "it")
    assert finding.damage is not None
    assert (finding.damage.damage, finding.damage.record) == ("inconsistent", 1)


def test_a_manifest_may_say_more_than_is_known(tmp_path: Path) -> None:
    """A newer Tercet may add to it."""
    crafted(tmp_path / "it", {**MANIFEST, "zebra": [1]})
    assert verify_bundle(tmp_path / "it").answer == "intact"
