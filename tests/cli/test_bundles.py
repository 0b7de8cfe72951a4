"""`tercet export`, `verify-bundle`, `signing-keys` and `provenance`, as people type them."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from tercet.replay.bundle import signing

from .harness import REFUNDS, Answer, Tercet
from .runs import ORDER_881, REFUND, Kitchen


@pytest.fixture
def session(tercet: Tercet, kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch) -> str:
    """A refund that waits for its approval, and a folder of keys that is empty."""
    monkeypatch.setenv("TERCET_KEYS", str(kitchen.folder / "keys"))
    return tercet(*REFUND, ORDER_881, "--json").json["session_id"]


def code(answer: Answer) -> tuple[int, str]:
    """The exit code and the word for what was wrong; every mistake says what to do."""
    error = answer.json["error"]
    assert error["remedy"]
    return answer.code, error["code"]


def test_a_run_is_exported_and_found_intact(tercet: Tercet, session: str) -> None:
    """The file has the session's name, says what is missing in it, and shows accidents only."""
    made = tercet("export", session)
    assert made.code == 0
    assert f"✓ {session}.tercet: " in made.out
    assert "The run is not over" in made.out
    assert "The files of refunds@1.0.0 are not in it: --pack with the pack's folder adds them" in made.text
    assert f"tercet verify-bundle {session}.tercet" in made.out
    found = tercet("verify-bundle", f"{session}.tercet")
    assert found.code == 0
    assert f"✓ {session}.tercet is intact" in found.out
    assert "Not signed: this shows accidents, not forgery." in found.out


def test_a_bundle_holds_the_pack_as_data(tercet: Tercet, session: str) -> None:
    """With --pack the folder's files go along, by hash; the same command again makes the same bytes."""
    facts = tercet("export", session, "-o", "a.tercet", "--pack", REFUNDS, "--json").json
    assert (facts["file"], facts["signer"], facts["manifest"]["status"]) == (
        "a.tercet",
        None,
        "awaiting_gate",
    )
    assert [entry["included"] for entry in facts["manifest"]["packs"]] == [True]
    tercet("export", session, "-o", "b.tercet", "--pack", REFUNDS)
    data = Path("a.tercet").read_bytes()
    assert data == Path("b.tercet").read_bytes()
    assert b'"path":"tools.py"' in data
    assert b'"path":"actors.toml"' not in data


def test_a_changed_bundle_is_refused_with_the_first_record(tercet: Tercet, session: str) -> None:
    """Exit 3, by every command that reads it, and which record it was."""
    tercet("export", session, "-o", "a.tercet")
    path = Path("a.tercet")
    path.write_bytes(path.read_bytes().replace(b"ord_881", b"ord_882", 1))
    found = tercet("verify-bundle", "a.tercet")
    assert found.code == 3
    assert "✗ a.tercet is damaged" in found.out
    assert f"record 2 (event 1 of {session}) was changed" in found.text
    told = tercet("verify-bundle", "a.tercet", "--json")
    assert (told.code, told.json["answer"]) == (3, "damaged")
    assert (told.json["first"]["record"], told.json["first"]["damage"]) == (2, "changed")
    Path("golden").mkdir()
    path.rename("golden/a.tercet")
    for words in (
        ("provenance", "golden/a.tercet"),
        ("replay", "golden/a.tercet"),
        ("report", "golden/a.tercet"),
        ("golden", "add", "golden/a.tercet", "--to", "other"),
        ("golden", "check", "golden"),
        ("tune", REFUNDS, "--runs", "golden/a.tercet"),
    ):
        assert tercet(*words, "--json").code == 3, words


def test_a_signature_is_made_checked_and_asked_for(tercet: Tercet, session: str) -> None:
    """A key that only its owner can read signs; another key, and no signature, are not the one that was asked for."""
    assert "There is no key in" in tercet("signing-keys", "list").out
    public = tercet("signing-keys", "new", "release", "--json").json["public_key"]
    tercet("signing-keys", "new", "other")
    assert stat.S_IMODE(Path("keys/release.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(Path("keys").stat().st_mode) == 0o700
    assert tercet("signing-keys", "show", "release").out == f"{public}\n"
    listed = tercet("signing-keys", "list", "--json").json["keys"]
    assert [(each["name"], each["can_sign"]) for each in listed] == [("other", True), ("release", True)]
    made = tercet("export", session, "-o", "a.tercet", "--sign", "release", "--json").json
    assert made["signer"] == public
    found = tercet("verify-bundle", "a.tercet")
    assert f"signed  {public} (release)" in found.out
    assert "accidents" not in found.out
    for key in ("release", public, public.removeprefix("ed25519:")):
        assert tercet("verify-bundle", "a.tercet", "--key", key).code == 0
    wrong = tercet("verify-bundle", "a.tercet", "--key", "other", "--json")
    assert (wrong.code, wrong.json["answer"]) == (3, "wrong_signer")
    tercet("export", session, "-o", "b.tercet")
    bare = tercet("verify-bundle", "b.tercet", "--key", "release")
    assert (bare.code, "b.tercet is not signed" in bare.out) == (3, True)
    cut = Path("a.tercet").read_bytes()
    Path("a.tercet").write_bytes(cut[: cut[:-1].rindex(b"\n") + 1])
    assert "(the signature) was removed" in tercet("verify-bundle", "a.tercet").text


def test_a_key_that_others_can_read_does_not_sign(tercet: Tercet, session: str) -> None:
    """As a secret it is worth nothing; neither is one that is broken, or of another kind."""
    tercet("signing-keys", "new", "release")
    path = Path("keys/release.key")
    path.chmod(0o644)
    assert code(tercet("export", session, "--sign", "release", "--json")) == (2, "key_exposed")
    path.chmod(0o600)
    path.write_text("nonsense")
    assert code(tercet("export", session, "--sign", "release", "--json")) == (2, "key_unreadable")
    Path("keys/release.pub").write_text("nonsense")
    assert code(tercet("signing-keys", "show", "release", "--json")) == (2, "wrong_key")
    assert not Path(f"{session}.tercet").exists()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("export", "ses_none"), "unknown_session"),
        (("export", "SESSION", "-o", "there"), "file_exists"),
        (("export", "SESSION", "-o", "keys/x/y"), "missing_folder"),
        (("export", "SESSION", "--sign", "nobody"), "unknown_key"),
        (("export", "SESSION", "--sign", "../x"), "wrong_name"),
        (("verify-bundle", "nowhere.tercet"), "bundle_not_found"),
        (("verify-bundle", "there"), "not_a_bundle"),
        (("verify-bundle", "there", "--key", "nobody"), "unknown_key"),
        (("verify-bundle", "there", "--key", "ed25519:00"), "wrong_key"),
        (("signing-keys", "new", "No Name"), "wrong_name"),
        (("signing-keys", "show", "nobody"), "unknown_key"),
        (("provenance", "nowhere.tercet"), "bundle_not_found"),
        (("provenance", "there"), "not_a_bundle"),
        (("provenance", "ses_none"), "unknown_session"),
    ],
)
def test_a_mistake_is_answered(tercet: Tercet, session: str, words: tuple[str, ...], wanted: str) -> None:
    """With what is wrong and what to do, and nothing is made."""
    Path("there").write_text("mine")
    given = [session if word == "SESSION" else word for word in words]
    assert code(tercet(*given, "--json")) == (2, wanted)
    assert Path("there").read_text() == "mine"
    assert not list(Path().glob("*.tercet"))


def test_a_key_is_never_made_twice(tercet: Tercet, session: str) -> None:
    """Overwriting one would make every signature of it somebody else's."""
    tercet("signing-keys", "new", "release")
    before = Path("keys/release.key").read_bytes()
    assert code(tercet("signing-keys", "new", "release", "--json")) == (2, "key_exists")
    assert Path("keys/release.key").read_bytes() == before


def test_without_the_library_for_signatures_it_is_told_first(
    tercet: Tercet, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither made, nor signed, nor checked: the answer is what to install."""
    tercet("signing-keys", "new", "release")
    tercet("export", session, "-o", "a.tercet", "--sign", "release")
    tercet("export", session, "-o", "b.tercet")

    def find_nothing(name: str) -> Any:
        del name

    monkeypatch.setattr(signing, "find_spec", find_nothing)
    for words in (
        ("signing-keys", "new", "x"),
        ("export", session, "--sign", "release"),
        ("verify-bundle", "a.tercet"),
    ):
        answer = tercet(*words, "--json")
        assert code(answer) == (2, "extra_missing")
        assert (
            answer.json["error"]["remedy"]
            == "install the extra signing from where you have Tercet: pip install './tercet[signing]' beside a clone"
        )
    assert tercet("verify-bundle", "b.tercet").code == 0
    assert tercet("signing-keys", "list").code == 0


def test_a_pack_that_changed_is_not_put_in(tercet: Tercet, session: str, pack: Path) -> None:
    """A bundle holds the pack that the run was judged by, or none."""
    (pack / "policies.toml").write_text((pack / "policies.toml").read_text() + "\n# other\n")
    assert tercet("export", session, "-o", "a.tercet", "--pack", pack).code == 0
    (pack / "tools.py").write_text((pack / "tools.py").read_text() + "\n# other\n")
    assert code(tercet("export", session, "-o", "b.tercet", "--pack", pack, "--json")) == (
        2,
        "pack_version_mismatch",
    )


@pytest.mark.req("R210", "R214", "R321")
def test_provenance_is_told_from_the_journal_and_from_a_bundle(tercet: Tercet, session: str) -> None:
    """Plan, evidence, calls, phases, costs and checkpoints; both have the same hash."""
    tercet("export", session, "-o", "a.tercet")
    here = tercet("provenance", session, "--json").json
    assert here == tercet("provenance", "a.tercet", "--json").json
    assert here["provenance"]["evidence_refs"]
    assert here["audit"]["cost_by_phase"]["execution"]["tool_calls"] == 2
    shown = tercet("provenance", "a.tercet").out
    assert here["hash"] in shown
    assert here["provenance"]["plan_hash"] in shown
    for word in (
        "evidence     kg:refund_window:",
        "PLAN → DECOMPOSE",
        "adp_orders.lookup",
        "execution: 2 tool calls",
    ):
        assert word in shown
    assert f"checkpoints  {here['audit']['checkpoint_chain'][-1]['k']}" in shown
