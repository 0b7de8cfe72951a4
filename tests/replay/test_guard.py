"""The guard of replay bites: whatever touches the world inside of it raises, and nothing outside of it notices."""

from __future__ import annotations

import _thread
import importlib
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import requires
from pathlib import Path

import pytest

from engine.workshop import Workshop
from tercet.packs.pack import Pack
from tercet.replay import recorded_run
from tercet.replay.recorded_run import IoRefused, guarded
from tercet.replay.replay import replay_recording
from tercet.replay.what_if import what_if

from .office import LOOSE, record, refunds

ATTEMPTS: dict[str, Callable[[Path], object]] = {
    "read a file": lambda folder: (folder / "there").read_text(),
    "write a file": lambda folder: (folder / "new").write_text("x"),
    "open by descriptor": lambda folder: os.open(folder / "there", os.O_RDONLY),
    "list a folder": lambda folder: list(folder.iterdir()),
    "remove a file": lambda folder: (folder / "there").unlink(),
    "make a temporary file": lambda _: tempfile.NamedTemporaryFile(),  # noqa: SIM115 - it is never made
    "connect": lambda _: socket.create_connection(("127.0.0.1", 9)),
    "look a name up": lambda _: socket.getaddrinfo("localhost", 80),
    "start a process": lambda _: subprocess.run([sys.executable, "-c", ""], check=False),
    "open a database": lambda folder: sqlite3.connect(folder / "db"),
    "import something new": lambda _: importlib.import_module("antigravity"),
    "load a pack": lambda _: Pack.load(Path(__file__).parents[2] / "examples" / "refunds"),
}


@pytest.mark.req("R272")
@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(attempt, id=name, marks=[pytest.mark.slow] if name == "start a process" else [])
        for name, attempt in ATTEMPTS.items()
    ],
)
def test_io_is_refused_inside_and_left_alone_outside(
    attempt: Callable[[Path], object], tmp_path: Path
) -> None:
    """Each way to reach the world raises inside of a guarded section, and nothing has happened."""
    (tmp_path / "there").write_text("here")
    with pytest.raises(IoRefused, match="replay must not touch the world"), guarded():
        attempt(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there").read_text() == "here"


def in_a_pool(job: Callable[[], None]) -> None:
    """Do something in the thread of a pool."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(job).result()


STARTS: dict[str, Callable[[Callable[[], None]], object]] = {
    "a thread": lambda job: threading.Thread(target=job).start(),
    "a timer": lambda job: threading.Timer(0, job).start(),
    "a pool": in_a_pool,
    "by hand": lambda job: _thread.start_new_thread(job, ()),
}


@pytest.mark.req("R272")
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS.keys())
def test_a_guarded_section_starts_no_thread(start: Callable[[Callable[[], None]], object]) -> None:
    """A thread of its own would be a way around the guard; none of them runs, and outside each of them does."""
    ran = threading.Event()
    before = threading.active_count()
    with pytest.raises(IoRefused, match=r"start_\w+_thread"), guarded():
        start(ran.set)
    assert not ran.is_set()
    assert threading.active_count() == before
    start(ran.set)
    assert ran.wait(300)


def test_other_threads_start_threads_while_one_is_guarded() -> None:
    """Only who judges again is watched: a journal's writer may start beside it."""
    inside, ran = threading.Event(), threading.Event()

    def begin_another() -> None:
        inside.wait()
        threading.Thread(target=ran.set).start()

    other = threading.Thread(target=begin_another)
    other.start()
    with guarded():
        inside.set()
        assert ran.wait(300)
    other.join()


def test_sections_stand_in_one_another(tmp_path: Path) -> None:
    """The end of an inner section does not end the outer one."""

    def write_behind_an_inner_one() -> None:
        with guarded():
            with guarded():
                pass
            (tmp_path / "new").write_text("x")

    with pytest.raises(IoRefused):
        write_behind_an_inner_one()
    assert not (tmp_path / "new").exists()
    (tmp_path / "new").write_text("x")


@pytest.mark.req("R272")
def test_an_attempt_that_somebody_catches_is_told_all_the_same(tmp_path: Path) -> None:
    """A rule that fails closed hides no I/O: the end of the outer section tells, and the next section begins anew."""
    with pytest.raises(IoRefused, match="new"), guarded(), guarded(), suppress(Exception):
        (tmp_path / "new").write_text("x")
    with guarded():
        pass
    (tmp_path / "new").write_text("x")


def test_a_section_belongs_to_its_thread(tmp_path: Path) -> None:
    """What another thread does meanwhile is its own business."""
    inside, done = threading.Event(), threading.Event()

    def write() -> None:
        inside.wait()
        (tmp_path / "new").write_text("x")
        done.set()

    other = threading.Thread(target=write)
    other.start()
    with guarded():
        inside.set()
        assert done.wait(300)
    other.join()
    assert (tmp_path / "new").exists()


@pytest.mark.req("R272")
def test_a_rule_that_reads_a_file_cannot_hide_in_a_replay(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If judging began to read the world, replay and what-if would raise, and not call it a difference."""
    pack = refunds(workshop, LOOSE)
    [run] = record(workshop, pack, [5])
    pure = recorded_run.decide

    def curious(*args: object) -> object:
        (tmp_path / "config").exists()
        (tmp_path / "log").write_text("judged")
        return pure(*args)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(recorded_run, "decide", curious)
    with pytest.raises(IoRefused):
        replay_recording(run)
    with pytest.raises(IoRefused):
        what_if([run], pack, workers=1)


_EVALUATE_GUARDED = """
import sys
from tercet.policy.expressions import evaluate_planner
from tercet.replay.recorded_run import guarded

with guarded():
    print(evaluate_planner("a.b == 1", {"a": {"b": 1}}).value)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"google"}))
"""


@pytest.mark.slow
def test_expressions_are_evaluated_in_a_section_by_what_the_core_installs() -> None:
    """The CEL library looks for protobuf whenever it makes an environment: without it no replay could evaluate a rule."""
    found = subprocess.run(
        [sys.executable, "-c", _EVALUATE_GUARDED], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["True", "['google']"]
    core = [each for each in requires("tercet") or () if "extra ==" not in each]
    assert any(each.startswith("protobuf") for each in core)
