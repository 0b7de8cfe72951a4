"""The controllers that a pack declares: read, hashed, and refused where they could never settle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.control import ControlSpec
from tercet.contracts.errors import PackError
from tercet.contracts.problem import Problem
from tercet.packs import Pack, check, check_folder

WritePack = Callable[..., Path]

HEAD = 'name = "desk"\nversion = "1.2.3"\n'
LETTER = """
[control.letter]
setpoint = { correct = 0.95, safe = 1.0 }
epsilon = 0.05
gain = 0.4
kp = 1.5
c_max = 40_000

[control.default]
"""


def pack_file(text: str) -> dict[str, str]:
    return {"pack.toml": HEAD + text}


def build(**fields: Any) -> Pack:
    return Pack(name="desk", version="1.2.3", control={"letter": ControlSpec(**fields)})


def problems_of(folder: Path) -> tuple[Problem, ...]:
    with pytest.raises(PackError) as caught:
        Pack.load(folder)
    return caught.value.problems


def test_a_pack_declares_a_controller_for_each_task_class(write_pack: WritePack) -> None:
    """A class without one is served by the default; a pack without any has none."""
    pack = Pack.load(write_pack(pack_file(LETTER)))
    letter = pack.control_for("letter")
    assert letter is not None
    assert (letter.setpoint, letter.proportional) == ({"correct": 0.95, "safe": 1.0}, 1.5)
    assert pack.control_for("anything else") == ControlSpec()
    assert Pack.load(write_pack()).control_for("letter") is None


def test_a_controller_is_part_of_the_hash_and_its_absence_is_not() -> None:
    """Packs that were there before controllers keep their hash."""
    bare = Pack(name="desk", version="1.2.3")
    assert "control" not in bare.model_dump(exclude_defaults=True)
    assert len({bare.hash, build().hash, build(kp=1.0).hash}) == 3
    assert Pack(name="desk", version="1.2.3", control={}).hash == bare.hash


@pytest.mark.req("R309")
@pytest.mark.parametrize(
    ("keys", "bound"),
    [
        ("kp = 4.0", "it must be below 4 (2/gain)"),
        ("kp = 3.5\nki = 2.0", "it must be below 3 (2/gain - ki/2 - 2·kd)"),
        ("kp = 2.5\nkd = 1.0", "it must be below 2 (2/gain - ki/2 - 2·kd)"),
        ("kd = 2.0", "no kp is stable"),
        ("kp = 0.1\nki = 8.0", "no kp is stable"),
    ],
)
def test_an_unstable_gain_does_not_load(keys: str, bound: str, write_pack: WritePack) -> None:
    """The problem names the bound, and where the gain stands."""
    folder = write_pack(pack_file(f"\n[control.letter]\ngain = 0.5\n{keys}\n"))
    (problem,) = problems_of(folder)
    where = ("pack, control.letter.kp", 6) if "kp" in keys else ("pack, control.letter", 4)
    assert (problem.code, problem.file) == ("control_unstable", "pack.toml")
    assert (problem.place, problem.row) == where
    assert bound in problem.message
    assert problem.remedy
    assert [each.code for each in check_folder(folder) if each.severity == "error"][:1] == [
        "control_unstable"
    ]


@pytest.mark.req("R309")
def test_an_unstable_gain_cannot_be_built_in_python_either() -> None:
    """The same problem, without a file; just below the bound it is built."""
    with pytest.raises(PackError) as caught:
        build(gain=0.5, kp=4.0)
    assert [problem.code for problem in caught.value.problems] == ["control_unstable"]
    assert build(gain=0.5, kp=3.999).control_for("letter") is not None


@pytest.mark.parametrize(
    ("keys", "place", "said"),
    [
        ("alpha = 0.6", "pack, control.letter.alpha", "0.5"),
        ("gain = 0", "pack, control.letter.gain", "0.001"),
        ("gain = 1.5", "pack, control.letter.gain", "1"),
        ("kp = -1", "pack, control.letter.kp", "at least 0.000001"),
        ("kp = nan", "pack, control.letter.kp", "finite"),
        ("u_min = 0.5\nu_max = 0.4", "pack, control.letter", "u_min is above u_max"),
        ("u_min = -2.0", "pack, control.letter", "less than nothing"),
        ("section_from = 0.9", "pack, control.letter", "section_from is above"),
        ("setpoint = {}", "pack, control.letter", "at least one dimension"),
        ("kq = 1", "pack, control.letter.kq", "unknown key"),
        ('on_over_cost = "give_up"', "pack, control.letter.on_over_cost", "relax_epsilon"),
    ],
)
def test_what_makes_no_sense_is_told(keys: str, place: str, said: str, write_pack: WritePack) -> None:
    """With its place and the line that it stands on."""
    (problem,) = problems_of(write_pack(pack_file(f"\n[control.letter]\n{keys}\n")))
    assert problem.place == place
    assert said in problem.line()
    assert problem.row in (4, 5)


@pytest.mark.req("R331")
@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"gain": 0.5, "kp": 3.0}, "control_oscillates", "to and fro"),
        ({"gain": 0.5, "sigma": 0.2}, "control_in_noise", "below the 0.9"),
    ],
)
def test_a_poor_controller_is_warned_of(fields: dict[str, Any], code: str, said: str) -> None:
    """It loads: it may still do."""
    found = [problem for problem in check(build(**fields)) if problem.code.startswith("control")]
    assert [(problem.code, problem.severity) for problem in found] == [(code, "warning")]
    assert said in found[0].message


def test_a_sound_controller_is_left_alone() -> None:
    """The defaults are sound."""
    assert [problem for problem in check(build()) if problem.code.startswith("control")] == []
