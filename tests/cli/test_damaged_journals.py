"""What commands say about a journal that was damaged or changed: a typed error, and everything that is still whole."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from journal.tampering import split_rows
from tercet.core import codec
from tercet.core import events as e
from tercet.journal.chain import ZERO, extend_chain
from tercet.replay.bundle.exporting import BundleWriter
from tercet.replay.bundle.layout import StreamEntry, encode_manifest
from tercet.replay.bundle.reading import open_bundle

from .harness import Answer, Tercet
from .runs import BAKERY, LOOK, ORDER_881, REFUND, Kitchen


def change(statement: str, *parameters: Any) -> None:
    """Change the journal's rows with another program."""
    with closing(sqlite3.connect("tercet.db", isolation_level=None)) as database:
        database.execute(statement, parameters)


def started(answer: Answer) -> str:
    """The session that a run told first."""
    return answer.out.split()[1]


_MADE: dict[str, bytes] = {}
"""The files of the journal that every test begins with, once they were made."""


@pytest.fixture
def sessions(tercet: Tercet, kitchen: Kitchen) -> tuple[str, str, str]:
    """A journal with two sessions that are over, and one that waits at a gate."""
    if not _MADE:
        for _ in range(2):
            tercet("run", BAKERY, "--plan", kitchen.plan(LOOK))
        tercet(*REFUND, ORDER_881)
        _MADE.update({path.name: path.read_bytes() for path in kitchen.folder.glob("tercet.db*")})
    for name, content in _MADE.items():
        (kitchen.folder / name).write_bytes(content)
    with closing(sqlite3.connect("tercet.db")) as database:
        found = database.execute("SELECT session_id FROM sessions ORDER BY started_at").fetchall()
    first, second, waiting = (row[0] for row in found)
    return first, second, waiting


def test_a_journal_that_is_whole_passes(tercet: Tercet, sessions: tuple[str, str, str]) -> None:
    """Every stream, session, claim and blob is counted, and nothing is written."""
    before = Path("tercet.db").read_bytes()
    found = tercet("journal", "check", "--json")
    assert (found.code, found.json["is_intact"], found.json["problems"]) == (0, True, [])
    assert found.json["sessions"] == 3
    assert found.json["streams"] >= 3
    assert found.json["blobs"] > 0
    shown = tercet("journal", "check")
    assert shown.out.startswith("✓ ")
    assert "3 sessions" in shown.out
    assert Path("tercet.db").read_bytes() == before


DAMAGE: dict[str, tuple[str, str]] = {
    "a changed event": (
        "UPDATE events SET data = x'3131' WHERE seq = 2 AND stream_id = (SELECT id FROM streams WHERE stream = ?)",
        "event 2",
    ),
    "a cut tail": (
        "DELETE FROM events WHERE seq > 3 AND stream_id = (SELECT id FROM streams WHERE stream = ?)",
        "event 4",
    ),
    "a changed point": (
        "UPDATE checkpoints SET data = x'00' WHERE stream_id = (SELECT id FROM streams WHERE stream = ?)",
        "checkpoint",
    ),
    "another status": ("UPDATE sessions SET status = 'failed' WHERE session_id = ?", "its row"),
    "an unknown status": ("UPDATE sessions SET status = 'happy' WHERE session_id = ?", "its row"),
    "a missing row": ("DELETE FROM sessions WHERE session_id = ?", "its row"),
    "damaged details": ("UPDATE sessions SET details = x'ff00' WHERE session_id = ?", "its row"),
    "a renamed stream": ("UPDATE streams SET stream = 'ses_x' WHERE stream = ?", "stream ses_x"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_of_one_session_is_found_and_the_others_are_checked(
    tercet: Tercet, sessions: tuple[str, str, str], damage: str
) -> None:
    """The problem names the stream, the place and a remedy; the others are looked at all the same."""
    statement, place = DAMAGE[damage]
    split_rows("tercet.db")
    change(statement, sessions[0])
    found = tercet("journal", "check", "--json")
    assert found.code == 5
    report = found.json
    assert any(place in problem["place"] for problem in report["problems"])
    assert all(problem["remedy"] and problem["what"] for problem in report["problems"])
    assert {problem["stream"] for problem in report["problems"]} <= {sessions[0], "ses_x"}
    assert report["streams"] >= 3
    shown = tercet("journal", "check")
    assert (shown.code, "✗" in shown.out) == (5, True)


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE blobs SET data = x'00'", "blob sha256:"),
        ("DELETE FROM blobs", "blob sha256:"),
        ("UPDATE claims SET stream_id = 99", "the claim on"),
        ("UPDATE claims SET seq = 10000", "the claim on"),
    ],
)
def test_damaged_blobs_and_claims_are_found(
    tercet: Tercet, sessions: tuple[str, str, str], statement: str, place: str
) -> None:
    """Bytes with another digest, bytes that are missing, and claims of streams that are not there are problems."""
    tercet(*REFUND, ORDER_881, "--request-key", "k1")
    change(statement)
    found = tercet("journal", "check", "--json")
    assert found.code == 5
    assert all(problem["place"].startswith(place) for problem in found.json["problems"])


def test_a_damaged_claim_starts_no_second_session(tercet: Tercet, kitchen: Kitchen) -> None:
    """A request key whose holder cannot be found is not given to somebody else."""
    words = ("run", BAKERY, "--plan", kitchen.plan(LOOK), "--request-key", "k1")
    tercet(*words)
    change("UPDATE claims SET stream_id = 99")
    again = tercet(*words, "--json")
    assert (again.code, again.json["error"]["code"]) == (5, "journal_corrupt")
    assert len(tercet("sessions", "list", "--json").json["sessions"]) == 1


@pytest.mark.parametrize("statement", [
    "UPDATE sessions SET status = 'happy' WHERE session_id = ?",
    "UPDATE sessions SET details = x'ff00' WHERE session_id = ?",
    "UPDATE sessions SET started_at = -1 WHERE session_id = ?",
    "UPDATE sessions SET updated_at = 9000000000000000000 WHERE session_id = ?",
    "UPDATE sessions SET intent = CAST(x'ff61' AS TEXT) WHERE session_id = ?",
])  # fmt: skip
def test_one_damaged_row_hides_no_other(
    tercet: Tercet, sessions: tuple[str, str, str], statement: str
) -> None:
    """It is listed as damaged with its id and the command that says more; the others are listed as ever."""
    first, second, waiting = sessions
    change(statement, first)
    for command in (("sessions", "list"), ("stats",)):
        shown = tercet(*command)
        assert shown.code == 5
        assert f"{first}  damaged: " in shown.out
        assert "tercet journal check" in shown.out
    listed = tercet("sessions", "list", "--json").json
    assert [row["session_id"] for row in listed["sessions"]] == [waiting, second]
    assert [row["session_id"] for row in listed["damaged"]] == [first]
    figures = tercet("stats", "--json").json
    assert figures["figures"]["runs"] == 2
    assert [row["session_id"] for row in figures["damaged"]] == [first]
    assert tercet("gates", "list", "--json").json["gates"][0]["session_id"] == waiting


def test_one_damaged_stream_hides_no_other_gate(tercet: Tercet, sessions: tuple[str, str, str]) -> None:
    """A session that cannot be folded is named in the list of gates and in the figures; the others are shown."""
    other = started(tercet(*REFUND, ORDER_881))
    split_rows("tercet.db")
    change(
        "DELETE FROM events WHERE seq = 3 AND stream_id = (SELECT id FROM streams WHERE stream = ?)",
        sessions[2],
    )
    found = tercet("gates", "list", "--json")
    assert found.code == 5
    assert [gate["session_id"] for gate in found.json["gates"]] == [other]
    assert [each["session_id"] for each in found.json["damaged"]] == [sessions[2]]
    assert [each["session_id"] for each in tercet("stats", "--json").json["damaged"]] == [sessions[2]]
    shown = tercet("gates", "list")
    assert f"{sessions[2]}  damaged: " in shown.out


@pytest.mark.parametrize("command", [
    ("replay",), ("report", "--force"), ("provenance",), ("sessions", "show"), ("sessions", "watch"), ("export",),
])  # fmt: skip
def test_a_cut_tail_is_reported_by_every_command(
    tercet: Tercet, sessions: tuple[str, str, str], command: tuple[str, ...]
) -> None:
    """No command answers for a run whose last events are gone."""
    split_rows("tercet.db")
    change(
        "DELETE FROM events WHERE seq > 4 AND stream_id = (SELECT id FROM streams WHERE stream = ?)",
        sessions[0],
    )
    words = (*command, sessions[0], *(("-o", "x.out") if command[0] in ("report", "export") else ()))
    found = tercet(*words)
    assert found.code == 5
    assert f"event 5 of stream {sessions[0]}: it is missing" in found.text


def test_a_journal_that_lost_commits_is_refused_until_an_operator_accepts_it(
    tercet: Tercet, kitchen: Kitchen
) -> None:
    """Its sessions cannot be resumed into calls that they made already; the others can be used."""
    done = started(tercet("run", BAKERY, "--plan", kitchen.plan(LOOK)))
    waiting = started(tercet(*REFUND, ORDER_881))
    shutil.copy("tercet.db", "older.db")
    tercet("gates", "approve", f"{waiting}.g1", "--actors", REFUND[1])
    tercet("sessions", "resume", waiting, "--pack", REFUND[1])
    calls = kitchen.count("calls")
    shutil.copy("older.db", "tercet.db")
    for command in (("sessions", "list"), ("run", BAKERY, "--plan", kitchen.plan(LOOK))):
        refused = tercet(*command, "--json")
        assert (refused.code, refused.json["error"]["code"]) == (5, "journal_damaged")
        assert waiting in refused.json["error"]["message"]
        assert "tercet journal accept" in refused.json["error"]["remedy"]
    checked = tercet("journal", "check", "--json")
    assert checked.code == 5
    assert waiting in {problem["stream"] for problem in checked.json["problems"]}
    assert tercet("journal", "accept").code == 2
    accepted = tercet("journal", "accept", "--yes", "--json")
    assert (accepted.code, accepted.json["is_changed"]) == (0, True)
    assert [each["session_id"] for each in accepted.json["sessions"]] == [waiting]
    assert tercet("sessions", "show", done).code == 0
    resumed = tercet("sessions", "resume", waiting, "--pack", REFUND[1], "--json")
    assert (resumed.code, resumed.json["error"]["code"]) == (2, "history_lost")
    assert kitchen.count("calls") == calls
    assert tercet("journal", "check").code == 0
    assert "nothing was changed" in tercet("journal", "accept", "--yes").out


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("sessions", "list"),
    ("gates", "list"),
    ("stats",),
    ("journal", "check"),
)


@pytest.mark.parametrize("seed", range(12))
def test_damage_anywhere_in_the_file_is_never_called_a_bug(
    tercet: Tercet, sessions: tuple[str, str, str], seed: int
) -> None:
    """Bits are damaged in the schema and anywhere else; every command answers, and never as a bug of Tercet."""
    draw = random.Random(seed)  # noqa: S311 - places, not secrets
    content = bytearray(Path("tercet.db").read_bytes())
    text = content.index(b"CREATE TABLE")
    for _ in range(4):
        place = draw.randrange(100, 4096) if seed % 3 == 0 else draw.randrange(text, len(content))
        content[place] ^= 1 << draw.randrange(8)
    Path("tercet.db").write_bytes(content)
    for command in (*COMMANDS, ("sessions", "show", sessions[0]), ("replay", sessions[1])):
        found = tercet(*command)
        assert found.code in (0, 2, 3, 5), found
        assert "this is a bug" not in found.text


@pytest.mark.parametrize("command", [
    ("sessions", "list"), ("run", BAKERY), ("sessions", "show", "ses_1"), ("journal", "check"),
])  # fmt: skip
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"CREATE TABLE sessions", b"CREATE TABLE sessionz"),
        (b"CREATE TABLE events", b"CREATE TXBLE events"),
        (b"stream_id INTEGER NOT NULL,\n    seq", b"stream_ix INTEGER NOT NULL,\n    seq"),
        (b"version INTEGER", b"versxon INTEGER"),
    ],
)
def test_a_damaged_schema_is_reported_as_damage(
    tercet: Tercet,
    sessions: tuple[str, str, str],
    kitchen: Kitchen,
    old: bytes,
    new: bytes,
    command: tuple[Any, ...],
) -> None:
    """A text of the schema that was changed leaves a journal that cannot be used, and says so."""
    path = Path("tercet.db")
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    words = (*command, "--plan", kitchen.plan(LOOK)) if command[0] == "run" else command
    found = tercet(*words)
    assert found.code in (2, 5)
    assert "this is a bug" not in found.text


def test_an_error_message_that_quotes_damaged_text_is_reported_as_damage(
    tercet: Tercet, sessions: tuple[str, str, str]
) -> None:
    """SQLite names the broken table in its message, in bytes that are not text."""
    content = Path("tercet.db").read_bytes()
    damaged = content.replace(b"CREATE TABLE events", b"CREATE TAB\xff\xfe events")
    Path("tercet.db").write_bytes(damaged.replace(b"tableeventsevents", b"tableev\xffntsev\xffnts"))
    found = tercet("sessions", "list", "--json")
    assert (found.code, found.json["error"]["code"]) == (2, "journal_corrupt")


def forge(
    source: Path,
    target: Path,
    change: Callable[[e.Event], e.Event],
    encode: Callable[[e.Event], bytes] = codec.encode,
) -> None:
    """Write a bundle with other events and without checkpoints, in which every hash holds."""
    with open_bundle(source) as bundle, target.open("wb") as file:
        events = [encode(change(codec.decode(stored.data))) for stored in bundle.events()]
        entry = StreamEntry(
            name=bundle.manifest.session, events=len(events), chain=extend_chain(ZERO, events)[-1].hex()
        )
        writer = BundleWriter(file)
        writer.add("manifest", encode_manifest(msgspec.structs.replace(bundle.manifest, streams=(entry,))))
        for seq, data in enumerate(events, start=1):
            writer.add("event", data, stream=entry.name, seq=seq)
        for digest in bundle.blobs:
            writer.add("blob", bundle.blob(digest))
        writer.finish()


def _another(kind: type[e.Event], **fields: Any) -> Callable[[e.Event], e.Event]:
    """Replace fields of every event of a kind."""

    def change(event: e.Event) -> e.Event:
        return msgspec.structs.replace(event, **fields) if isinstance(event, kind) else event

    return change


FORGERIES: dict[str, Callable[[e.Event], e.Event]] = {
    "a session without an actor": _another(e.SessionStarted, actor={}),
    "a request without an intent": _another(e.SessionStarted, request={}),
    "another session": _another(e.SessionStarted, session="ses_other"),
    "evidence that is a pack": _another(e.SessionStarted, evidence="PACK"),
    "a plan that is none": _another(e.PlanProposed, plan={"steps": 7}),
    "a plan without steps": _another(e.PlanProposed, plan={}),
    "a call of nothing": _another(e.Intent, tool="", params={"a": []}),
    "a report that is none": _another(e.RunReported, report={"score": 3}),
    "a step that is not there": _another(e.Complete, step="zebra"),
    "a time before all times": _another(e.Complete, at=-(10**17)),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_bundle_gets_a_typed_answer(
    tercet: Tercet, sessions: tuple[str, str, str], forgery: str
) -> None:
    """Every hash holds, and the events say what nobody could have recorded: refused, and never called a bug."""
    tercet("export", sessions[0], "-o", "run.tercet")
    change = FORGERIES[forgery]
    if "pack" in forgery:
        with open_bundle("run.tercet") as bundle:
            change = _another(e.SessionStarted, evidence=bundle.blobs[0])
    forge(Path("run.tercet"), Path("forged.tercet"), change)
    for command in (("provenance",), ("report", "-o", "x.html", "--force"), ("replay",), ("verify-bundle",)):
        found = tercet(*command, "forged.tercet")
        assert found.code in (0, 2, 3), found
        assert "this is a bug" not in found.text


def _spoil_verdicts(event: e.Event) -> bytes:
    """Encode an event so that verdicts on steps cannot be decoded."""
    return b'1{"type":"unheard_of"}' if isinstance(event, e.StepJudged) else codec.encode(event)


def _leave(event: e.Event) -> e.Event:
    return event


@pytest.mark.parametrize(
    ("change", "encode"),
    [
        (_leave, _spoil_verdicts),
        (_another(e.Complete, value=None, blob=f"sha256:{'0' * 64}"), codec.encode),
    ],
    ids=["an event that cannot be decoded", "a blob that is missing"],
)
def test_a_bundle_that_cannot_be_decoded_is_refused_by_replay_and_golden(
    tercet: Tercet,
    sessions: tuple[str, str, str],
    change: Callable[[e.Event], e.Event],
    encode: Callable[[e.Event], bytes],
) -> None:
    """Every hash holds, so the file is not what a run recorded: exit code 3, as from report and provenance."""
    tercet("export", sessions[0], "-o", "run.tercet")
    forge(Path("run.tercet"), Path("forged.tercet"), change, encode)
    for command in (("replay",), ("golden", "add", "--to", "golden")):
        found = tercet(*command, "forged.tercet", "--json")
        assert (found.code, found.json["error"]["code"]) == (3, "bundle_damaged"), found


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="only Linux has a file that fails when read")
@pytest.mark.parametrize("command", ["verify-bundle", "replay"])
def test_a_bundle_that_fails_while_it_is_read_is_called_unreadable(tercet: Tercet, command: str) -> None:
    """The file can be opened and not read: wrong use, and not a failed output."""
    found = tercet(command, "/proc/self/mem", "--json")
    assert (found.code, found.json["error"]["code"]) == (2, "unreadable")
