"""The people of a pack without its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tercet.contracts.errors import PackError, UsageError
from tercet.contracts.request import Actor
from tercet.packs.people import actor_for, load_people, people_of

ACTORS = '[[actor]]\nid = "ada"\nroles = ["boss"]\n\n[[actor]]\nid = "bob"\nos_user = "ada"\n'


def test_only_the_file_of_people_is_read(tmp_path: Path) -> None:
    """Neither broken code nor a broken header of the pack keeps somebody from answering a gate."""
    (tmp_path / "tools.py").write_text("raise SystemExit('this must not run')")
    (tmp_path / "pack.toml").write_text("name = ")
    (tmp_path / "actors.toml").write_text(ACTORS)
    by_folder, by_file = load_people(tmp_path), load_people(tmp_path / "actors.toml")
    assert [actor.id for actor in by_folder] == ["ada", "bob"]
    assert by_folder == by_file


def test_a_login_is_mapped_before_a_name_is_taken(tmp_path: Path) -> None:
    """The user ada is bob here, since the file says so; a stranger holds no role."""
    (tmp_path / "people.toml").write_text(ACTORS)
    people = load_people(tmp_path / "people.toml")
    assert actor_for(people, "ada").id == "bob"
    assert actor_for(people, "bob").id == "bob"
    assert actor_for(people, "eve").roles == ()


def test_a_name_with_a_login_of_its_own_is_no_login() -> None:
    """Whoever logs in as bob is not the bob whose login is ada, and holds none of his roles."""
    people = (Actor(id="ada"), Actor(id="bob", roles=("boss",), os_user="ada"), Actor(id="eve"))
    assert actor_for(people, "bob") == Actor(id="bob")
    assert people_of(people) == {
        "ada": {"login": "", "roles": []},
        "bob": {"login": "ada", "roles": ["boss"]},
        "eve": {"login": "eve", "roles": []},
    }


def test_a_pack_without_people_has_none(tmp_path: Path) -> None:
    """A folder that is a pack may do without the file; any other place is a mistake."""
    (tmp_path / "pack.toml").write_text('name = "p"\nversion = "1.0.0"\n')
    assert load_people(tmp_path) == ()
    for wrong in (tmp_path / "actors.toml", tmp_path / "nowhere"):
        with pytest.raises(UsageError) as caught:
            load_people(wrong)
        assert caught.value.code == "actors_not_found"


def test_every_problem_of_the_file_is_told(tmp_path: Path) -> None:
    """A misspelt field and a login that stands twice are both named."""
    text = ACTORS + '\n[[actor]]\nid = "cleo"\nos_user = "ada"\n\n[[actor]]\nid = "dora"\nrolls = []\n'
    (tmp_path / "actors.toml").write_text(text)
    with pytest.raises(PackError) as caught:
        load_people(tmp_path / "actors.toml")
    assert {problem.code for problem in caught.value.problems} >= {"duplicate_os_user"}
    assert len(caught.value.problems) == 2
