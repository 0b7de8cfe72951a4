"""Whatever is done to a bundle is found, and the first record that it was done to is named; an independent checker agrees."""

from __future__ import annotations

import json
import random
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from engine.workshop import Workshop
from tercet.contracts.errors import UsageError
from tercet.replay.bundle.reading import open_bundle, verify_bundle, verify_stream
from tercet.replay.bundle.signing import BundleDamaged, PrivateKey

from .archive import make, make_small, split
from .bundle_checker import check

KEY = PrivateKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


class Desk:
    """A bundle, its records, and both checkers."""

    def __init__(self, folder: Path, *, size: str = "usual", signer: PrivateKey | None = None) -> None:
        self.path = folder / f"{size}-{'signed' if signer else 'unsigned'}.tercet"
        if size == "small":
            make_small(Workshop(), self.path, signer=signer)
        else:
            make(Workshop(), self.path, is_large=size == "large", signer=signer)
        self.data = self.path.read_bytes()
        self.parts = split(self.data)
        assert b"".join(self.parts) == self.data

    def verdict(self, data: bytes) -> tuple[str, int]:
        """What `verify-bundle` says of these bytes, and of which record; the checker must find it wrong as well."""
        try:
            finding = verify_stream(BytesIO(data), "it")
        except UsageError:
            found = ("no bundle", 0)
        else:
            damage = finding.damage
            found = ("intact", 0) if damage is None else (damage.damage, damage.record)
        assert (check(data)[0] == "intact") == (found[0] == "intact")
        return found

    def agreed(self, *parts: bytes) -> tuple[str, int]:
        """What both checkers say, in the same words."""
        data = b"".join(parts)
        found = self.verdict(data)
        assert check(data) == found
        return found


@pytest.fixture(scope="module", params=["unsigned", "signed"])
def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A usual bundle, without a signature and with one."""
    return Desk(tmp_path_factory.mktemp("desk"), signer=KEY if request.param == "signed" else None)


def flip(data: bytes, place: int, bit: int) -> bytes:
    """The same bytes with one bit turned over."""
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def test_an_untouched_bundle_is_intact(desk: Desk) -> None:
    """Both say so."""
    assert desk.agreed(desk.data) == ("intact", 0)


@pytest.mark.slow
def test_every_single_byte_counts(tmp_path: Path) -> None:
    """A flipped bit in any place of a small, signed bundle is found, and the record that it is in is named."""
    desk = Desk(tmp_path, size="small", signer=KEY)
    place = 0
    for record, part in enumerate(desk.parts):
        for _ in part:
            damage, named = desk.verdict(flip(desk.data, place, place % 8))
            assert (damage != "intact", named) == (True, record), (place, damage)
            place += 1
    assert place == len(desk.data)


def test_every_case_of_a_letter_counts(desk: Desk) -> None:
    """Hexadecimal digits in capitals are a change too."""
    for part in range(1, len(desk.parts)):
        line = desk.parts[part]
        place = next(at for at, digit in enumerate(line) if digit in b"abcdef")
        changed = line[:place] + line[place : place + 1].upper() + line[place + 1 :]
        assert desk.verdict(b"".join([*desk.parts[:part], changed, *desk.parts[part + 1 :]])) == (
            "changed",
            part,
        )


def test_every_record_that_is_removed_is_missed(desk: Desk) -> None:
    """The number of the first one that is gone is named, also at the end."""
    for record in range(1, len(desk.parts)):
        rest = [*desk.parts[:record], *desk.parts[record + 1 :]]
        assert desk.agreed(*rest) == ("removed", record)


def test_every_tail_that_is_cut_off_is_missed(desk: Desk) -> None:
    """After any record, and in the middle of it."""
    for record in range(1, len(desk.parts)):
        kept = desk.parts[:record]
        assert desk.agreed(*kept) == ("removed", record)
        for half in (desk.parts[record][: len(desk.parts[record]) // 2], desk.parts[record][:-1]):
            assert desk.agreed(*kept, half) == ("changed", record)


def test_every_two_records_that_changed_places_are_told(desk: Desk) -> None:
    """The first place at which another record stands is named."""
    records = len(desk.parts) - 1
    for first in range(1, records - 2):
        for second in range(first + 1, min(records - 1, first + 6)):
            swapped = list(desk.parts)
            swapped[first], swapped[second] = swapped[second], swapped[first]
            assert desk.agreed(*swapped) == ("reordered", first), (first, second)


def test_every_record_that_is_inserted_is_told(desk: Desk) -> None:
    """A copy of any record, anywhere before the end."""
    records = range(1, len(desk.parts) - (2 if b'"kind":"signature"' in desk.parts[-1] else 1))
    for copied in records:
        # Beside itself it is the second one that is too many.
        for place in {1, 2, 12, copied - 2, copied - 1, copied + 2, records[-1]} - {copied, copied + 1}:
            if place not in records:
                continue
            more = [*desk.parts[:place], desk.parts[copied], *desk.parts[place:]]
            assert desk.agreed(*more) == ("inserted", place), (copied, place)
        twice = [*desk.parts[:copied], desk.parts[copied], *desk.parts[copied:]]
        assert desk.agreed(*twice) == ("inserted", copied + 1)


def test_what_stands_behind_the_end_is_told(desk: Desk) -> None:
    """A line feed, a record or a signature too many."""
    for more in (b"\n", desk.parts[2], desk.parts[-1], b"x"):
        damage, record = desk.agreed(desk.data, more)
        assert (damage, record) == ("inserted", len(desk.parts))


def rewrite(part: bytes, old: bytes, new: bytes) -> bytes:
    """A record with another payload, whose own header was made to fit it."""
    line, _, payload = part.partition(b"\n")
    payload = payload[:-1].replace(old, new)
    header = json.loads(line[65:])
    header |= {"size": len(payload), "sha256": sha256(payload).hexdigest()}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return sha256(text).hexdigest().encode() + b" " + text + b"\n" + payload + b"\n"


def test_a_record_with_new_hashes_is_told_by_the_one_behind_it(desk: Desk) -> None:
    """A forger who mends one header has to mend them all."""
    changed = rewrite(desk.parts[3], b"workshop", b"workshap") if b"workshop" in desk.parts[3] else b""
    changed = changed or rewrite(desk.parts[2], b"order", b"ordre")
    record = 3 if b"workshop" in desk.parts[3] else 2
    data = b"".join([*desk.parts[:record], changed, *desk.parts[record + 1 :]])
    assert desk.verdict(data) == ("changed", record)
    both = b"".join([*desk.parts[:record], changed, *desk.parts[record:]])
    assert desk.verdict(both) == ("inserted", record)


def forge(parts: list[bytes], record: int, old: bytes, new: bytes) -> bytes:
    """A bundle with another payload in it, and all hashes made anew."""
    made, previous = parts[0], sha256(parts[0]).hexdigest()
    for number, part in enumerate(parts[1:], start=1):
        line, _, payload = part.partition(b"\n")
        header = json.loads(line[line.index(b" ") :])
        if header["kind"] == "signature":
            made += part
            break
        payload = payload[:-1].replace(old, new) if number == record else payload[:-1]
        is_end = header["kind"] == "end"
        whole = made if is_end else payload
        header |= {"previous": previous, "size": len(whole), "sha256": sha256(whole).hexdigest()}
        text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
        previous = sha256(text).hexdigest()
        made += previous.encode() + b" " + text + b"\n" + (b"" if is_end else payload + b"\n")
    return made


def test_a_forger_without_the_key_is_found_out_by_the_signature_alone(tmp_path: Path) -> None:
    """With every hash made anew an unsigned bundle holds, and a signed one does not."""
    unsigned, signed = Desk(tmp_path), Desk(tmp_path, signer=KEY)
    last = len(unsigned.parts) - 2
    assert unsigned.agreed(forge(unsigned.parts, last, b"pass", b"past")) == ("intact", 0)
    assert signed.agreed(forge(signed.parts, last, b"pass", b"past")) == ("changed", len(signed.parts) - 1)
    signed.path.write_bytes(forge(signed.parts, last, b"pass", b"past"))
    finding = verify_bundle(signed.path)
    assert finding.answer == "forged"


def test_who_signed_is_asked_for(tmp_path: Path) -> None:
    """An intact bundle without the signature that was asked for, or with another, is not accepted."""
    unsigned, signed = Desk(tmp_path), Desk(tmp_path, signer=KEY)
    assert verify_bundle(signed.path, KEY.key).answer == "intact"
    assert verify_bundle(signed.path, "0" * 64).answer == "wrong_signer"
    assert verify_bundle(unsigned.path, KEY.key).answer == "unsigned"
    assert verify_bundle(unsigned.path).answer == "intact"


def test_hashes_do_not_make_a_story(tmp_path: Path) -> None:
    """Records that hang together and do not fit are refused: an event changed with every hash, and not the stream's chain."""
    desk = Desk(tmp_path)
    damage, record = desk.agreed(forge(desk.parts, 2, b'"at"', b'"AT"'))
    assert damage == "inconsistent"
    assert record > 2


@pytest.mark.slow
def test_random_places_of_a_large_bundle_count(tmp_path: Path) -> None:
    """With a blob of many pages, also in the middle of it."""
    desk = Desk(tmp_path, size="large")
    assert len(desk.data) > 70_000
    draw = random.Random(8)  # noqa: S311 - places, not secrets
    for _ in range(300):
        changed = flip(desk.data, draw.randrange(len(desk.data)), draw.randrange(8))
        assert desk.verdict(changed)[0] != "intact"


def test_a_damaged_bundle_is_not_opened(desk: Desk) -> None:
    """Whoever reads a run from a bundle gets it whole or not at all."""
    desk.path.write_bytes(desk.data.replace(b"workshop", b"workshap", 1))
    with pytest.raises(BundleDamaged) as caught:
        open_bundle(desk.path)
    assert (caught.value.damage, caught.value.code) == ("changed", "bundle_damaged")
    assert caught.value.remedy
