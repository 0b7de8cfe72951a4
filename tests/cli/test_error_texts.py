"""What people read when they typed something wrong: their own words, and what to write instead."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

import pytest

from tercet.cli.failure import describe_failure
from tercet.contracts.errors import UsageError
from tercet.packs import check_folder, scaffold
from tercet.replay.bundle.reading import open_file

from .harness import REFUNDS, Tercet

NOBODY = 65534


def test_a_plan_that_is_not_json_names_its_file(tercet: Tercet) -> None:
    """A pack's header, for example."""
    error = tercet("run", REFUNDS, "--plan", REFUNDS / "pack.toml", "--json").json["error"]
    assert (error["code"], str(REFUNDS / "pack.toml") in error["message"]) == ("plan_invalid", True)


def test_development_needs_an_address_of_a_journal_first(tercet: Tercet) -> None:
    """A file's name alone is not an address, with --dev as without."""
    for more in ((), ("--dev",)):
        error = tercet("run", REFUNDS, "--journal", "mine.db", *more, "--json").json["error"]
        assert "sqlite:///mine.db" in error["remedy"], more


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:mine.db", '"sqlite:///mine.db"'),
        ("sqlite://mine.db", '"sqlite:///mine.db"'),
        ("sqlite:/var/mine.db", '"sqlite:////var/mine.db"'),
    ],
)
def test_an_address_with_too_few_slashes_is_written_out(tercet: Tercet, url: str, said: str) -> None:
    """The right form is said with the file that was meant, for journals and for stores."""
    for words in (("sessions", "list", "--journal", url), ("evidence", "list", "--store", url)):
        error = tercet(*words, "--json").json["error"]
        assert "too few slashes" in error["message"]
        assert said in error["remedy"]


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("gates.toml", 'roles = ["head_gardener"]', 'roles = "Boss"', 'write a list: ["Boss"]'),
        ("gates.toml", "quorum = 1", 'quorum = "one"', "write a whole number without quotes"),
        ("gates.toml", "quorum = 1", "quorum = 1.5", "write a whole number without quotes"),
        ("gates.toml", "quorum = 1", "quorum = 0", "write a number that is at least 1"),
        ("gates.toml", "quorum = 1", "when = 5", 'write it in quotes: "5"'),
        ("pack.toml", "[budget]", "[budget]\nreplans_rationale = true", 'write text in quotes: "…"'),
        ("pack.toml", "[budget]\n", "session = 3\n[budget]\n", "write a table: { name = value }"),
        (
            "decisions.toml",
            'risk_tier = "medium"',
            'requires_human_approval = "maybe"',
            "write true or false without quotes",
        ),
        (
            "decisions.toml",
            "[decision.outputs_schema]",
            "[decision.quality]\nnovelty = 'much'\n[decision.outputs_schema]",
            "write a number without quotes",
        ),
    ],
)
def test_a_wrong_type_in_toml_says_what_to_write(
    tmp_path: Path, file: str, old: str, new: str, said: str
) -> None:
    """No word of the validator is shown: what was expected, what stands there, and what to write."""
    scaffold(tmp_path / "pack")
    path = tmp_path / "pack" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    problems = [each for each in check_folder(tmp_path / "pack") if each.code == "wrong_value"]
    assert [each.remedy for each in problems] == [said]
    assert problems[0].message.startswith("it should ")


def test_a_wrong_number_of_an_option_is_explained_plainly(tercet: Tercet) -> None:
    """No words of the validator."""
    error = tercet("serve", REFUNDS, "--port", "99999", "--json").json["error"]
    assert error["message"] == "invalid value for '--port': it must be less than or equal to 65535"


def test_a_misspelt_argument_of_a_tool_says_what_was_meant(tmp_path: Path) -> None:
    """Python says that there is no such argument, and the remedy which one there is."""
    scaffold(tmp_path / "pack")
    path = tmp_path / "pack" / "tools.py"
    path.write_text(path.read_text().replace("idempotent=True", "idempotant=True"))
    (problem,) = [each for each in check_folder(tmp_path / "pack") if each.file == "tools.py"]
    assert (problem.code, problem.remedy) == ("tools_failed", "did you mean idempotent?")


def test_an_input_that_is_no_utf8_names_the_byte(tercet: Tercet, tmp_path: Path) -> None:
    """As for the files of a pack."""
    (tmp_path / "bad.json").write_bytes(b'{"a":\n "\xff"}')
    error = tercet("plan", REFUNDS, "--input", f"@{tmp_path / 'bad.json'}", "--json").json["error"]
    assert (error["code"], error["remedy"]) == ("input_invalid", "save the file as UTF-8")
    assert "byte 8 of" in error["message"]
    assert "line 2" in error["message"]


def test_a_folder_is_no_bundle(tercet: Tercet) -> None:
    """It is told to be a folder, and not that there is nothing."""
    error = tercet("verify-bundle", REFUNDS, "--json").json["error"]
    assert error["message"] == f"{REFUNDS} is a folder"


@contextmanager
def forbidden() -> Generator[Path]:
    """A file that this process may not read; a superuser may read any, and becomes somebody else for the time."""
    folder = Path(tempfile.mkdtemp())  # the folders around tmp_path are closed to others
    folder.chmod(0o755)
    path = folder / "secret"
    path.write_text("{}")
    path.chmod(0)
    me = os.geteuid()
    if me == 0:
        os.seteuid(NOBODY)
    try:
        yield path
    finally:
        os.seteuid(me)
        rmtree(folder)


def test_a_file_that_may_not_be_read_speaks_of_permissions() -> None:
    """A bundle, and any file that somebody opens without asking first."""
    with forbidden() as path:
        with pytest.raises(UsageError) as refused:
            open_file(path)
        with pytest.raises(OSError, match="denied") as denied:
            path.read_bytes()
    assert refused.value.remedy == "check its permissions"
    failure = describe_failure(denied.value)
    assert (failure.code, failure.remedy) == ("unreadable", "check its permissions")
    assert str(path) in failure.message


def test_an_unknown_id_in_the_input_lists_the_known_ones(
    tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever typed it cannot pin evidence: they hear which ids there are, and the reason once above and once below."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    scaffold("pack")
    given = ("--input", '{"plant": "tomatoe"}')
    said = "there is no watering_plan for tomatoe; the snapshot has: tomato"
    for command in ("plan", "verify"):
        words = (
            ("verify", "pack", "pack/templates/water_bed.json") if command == "verify" else ("plan", "pack")
        )
        verdict = tercet(*words, *given, "--json").json["verdict"]
        assert (verdict["code"], verdict["remedy"]) == ("evidence_unresolved", said)
    shown = tercet("plan", "pack", *given).text
    assert "… 17 more findings that follow from it; --json lists them" in shown
    assert (
        "? limit garden_valves.water_bed: args.litres > 0 && args.litres <= 40: not decided for water"
        in shown
    )
    assert "✗ also" not in shown
    answer = tercet("run", "pack", *given)
    assert answer.code == 3
    assert said in answer.text
    assert answer.text.count("step 0 pins kg:watering_plan:tomatoe") == 2
    assert "no plan: the template knows no other plan" in answer.text


def test_an_input_that_is_no_json_names_no_field_of_another_pack(tercet: Tercet) -> None:
    """The example in the remedy is neutral: the pack may be anyone's."""
    error = tercet("plan", REFUNDS, "--input", "rental_id=r_17", "--json").json["error"]
    assert error["remedy"] == """write --input '{"NAME": "VALUE"}', or --input @file.json"""
