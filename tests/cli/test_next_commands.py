"""The commands that are printed as next can be pasted into a shell as they are."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from view import screens

from .harness import REFUNDS, Tercet
from .office import POST, READ, RUSH, SEND
from .runs import BAKERY, LOOK, ORDER, ORDER_881, REFUND, Kitchen, knead
from .studio import LETTERS

PLACEHOLDERS = ("PACK", "FOLDER", "ID", "VALUE")


def waiting(tercet: Tercet, _: Kitchen) -> str:
    """A refund that waits for an approval."""
    return tercet(*REFUND, ORDER_881, "--dev").out


def paused(tercet: Tercet, kitchen: Kitchen) -> str:
    """A run that came to a tool which is stopped."""
    waiting(tercet, kitchen)
    assert tercet("stop", "tool", "bakery.look").code == 0
    return tercet("run", BAKERY, "--plan", kitchen.plan(LOOK), "--dev").out


def escalated(tercet: Tercet, kitchen: Kitchen) -> str:
    """A step that failed more often than it may."""
    return tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, knead(9)), "--dev").out


def unknown_outcome(tercet: Tercet, kitchen: Kitchen) -> str:
    """An order of which only a person can say whether it went through."""
    return tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, ORDER), "--dev").out


def outputs(tercet: Tercet, _: Kitchen) -> str:
    """A letter that an editor has to accept."""
    return tercet("run", LETTERS, "--intent", "signed", "--input", '{"kind": "good"}', "--dev").out


def compensation(tercet: Tercet, kitchen: Kitchen) -> str:
    """A cancelled run whose letter was sent."""
    plan = kitchen.plan(READ, SEND, {**RUSH, "depends_on": ["send"]})
    plan.write_text(plan.read_text().replace('"bake"', '"post"'))
    session = tercet("run", POST, "--plan", plan, "--dev").out.split()[1]
    for clerk in ("clerk_1", "clerk_2"):
        assert tercet("gates", "approve", f"{session}.g1", "--dev", "--as", clerk).code == 0
    tercet("sessions", "resume", session)
    tercet("sessions", "cancel", session)
    return tercet("sessions", "resume", session).out


def commands_in(text: str) -> list[str]:
    """The commands that a screen offers."""
    return [line.strip() for line in text.splitlines() if line.startswith(("    tercet ", "    # "))]


@pytest.mark.parametrize("story", [waiting, paused, escalated, unknown_outcome, outputs, compensation])
def test_every_next_command_is_accepted(
    tercet: Tercet, kitchen: Kitchen, story: Callable[[Tercet, Kitchen], str]
) -> None:
    """None is refused as wrong use, each tried on the session as it was; and a session is shown with the same ones."""
    printed = commands_in(story(tercet, kitchen))
    session = next(word for word in shlex.split(printed[0]) if word.startswith("ses_")).partition(".")[0]
    shown = commands_in(tercet("sessions", "show", session).out)
    before = {file: file.read_bytes() for file in kitchen.folder.glob("*.db*")}
    assert any("sessions resume" in line for line in shown)
    for line in dict.fromkeys((*printed, *shown)):
        assert not set(shlex.split(line)) & set(PLACEHOLDERS)
        for file in kitchen.folder.glob("*.db*"):
            file.unlink()
        for file, data in before.items():
            file.write_bytes(data)
        answer = tercet(*shlex.split(line)[1:])
        assert answer.code != 2, (line, answer.err)


def test_next_commands_run_in_a_shell(tercet: Tercet, kitchen: Kitchen, tmp_path: Path) -> None:
    """Typed into a real shell one after the other, they lead a refund to its end."""
    (tmp_path / "tercet").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tercet "$@"\n')
    (tmp_path / "tercet").chmod(0o755)
    show, approve, _deny, resume = commands_in(waiting(tercet, kitchen))
    done = subprocess.run(
        ["/bin/sh", "-c", f"{show} && {approve} && {resume}"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, cwd=kitchen.folder,
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "refund_amount_inr    24500" in done.stdout


def test_a_session_is_resumed_with_the_pack_that_it_names(tercet: Tercet, kitchen: Kitchen) -> None:
    """`--pack` is needed only where the folder is not where it was."""
    session = waiting(tercet, kitchen).split()[1]
    assert tercet("sessions", "resume", session).code == 4
    other = tercet("resume", session, "--pack", BAKERY, "--json")
    assert other.json["error"]["code"] == "pack_version_mismatch"


@pytest.mark.parametrize(
    ("seed", "hint"),
    [
        (
            901,
            "# the folder of {pack} is not recorded: add --pack and that folder to tercet sessions resume",
        ),
        (3903, "in Python: await engine.resume('ses_03903001')"),
    ],
)
def test_where_no_command_resumes_a_session_words_say_how(seed: int, hint: str) -> None:
    """A pack whose folder is unknown, and an agent, which resumes its sessions itself; programs get commands only."""
    screen = screens.Screen(
        f"tenant-{seed}", f"sessions show ses_{seed:05}001 --journal sqlite:///stories.db"
    )
    with screens.stage():
        text, document = screen.take(), screen.take_json()
    *_, last = commands_in(text)
    assert hint.format(pack=document["pack"]) in last
    assert all(line.startswith("tercet ") and "resume" not in line for line in document["next"])
    assert not any(word in shlex.split(line) for line in document["next"] for word in PLACEHOLDERS)


def test_resuming_without_a_known_pack_says_what_to_name(
    tercet: Tercet, kitchen: Kitchen, tmp_path: Path
) -> None:
    """The session was started with a folder that is gone."""
    pack = tmp_path / "gone"
    pack.symlink_to(REFUNDS)
    session = tercet("run", pack, "--input", ORDER_881).out.split()[1]
    pack.unlink()
    error = tercet("resume", session, "--json").json["error"]
    assert (error["code"], error["remedy"]) == ("pack_unknown", "name the folder with --pack")
