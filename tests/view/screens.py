"""Screens of the command line, kept for comparison: what each command prints about recorded stories.

    python -m view.screens --diff      print how the terminal screens differ from the kept ones
    python -m view.screens --record    keep the terminal screens as they are now
    python -m view.screens --stories   build the journal of stories again, out of the recorded histories

`tests` must be on the path. `stories.db.xz` is a journal with sessions out of `tests/histories`, each of its own tenant.
`terminal.json.xz` holds what a person sees and is recorded again after a deliberate change. `programs.json.xz` holds the
answers to `--json` of the version that introduced these screens: `--record` adds those of new commands and changes none.
"""

from __future__ import annotations

import asyncio
import difflib
import gzip
import json
import lzma
import os
import re
import shlex
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from histories import seeded
from tercet.cli.main import COMMANDS, app
from tercet.engine.rows import row_of
from tercet.engine.session_reader import load_state
from tercet.executor.clock import SystemClock
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, Journal, NewCheckpoint
from tercet.replay.bundle.reading import open_bundle

HERE = Path(__file__).parent
STORIES = HERE / "stories.db.xz"
TERMINAL = HERE / "terminal.json.xz"
PROGRAMS = HERE / "programs.json.xz"
EXAMPLES = HERE.parents[1] / "examples"
OLDER = HERE.parent / "upgrade" / "0.1.0-rules-4.db.gz"
"""A journal of an earlier version, with six sessions of one tenant."""

NOW = 1_768_957_200_000
"""The wall clock of every screen: shortly after the last event of the stories."""

WAITING = (
    *(4, 200, 400, 600, 800, 901, 1000, 1100, 1200, 1400, 1502, 2105, 2400, 2401, 2501, 2702, 2902, 2904),
    *(3600, 3700, 3903, 4004, 4005, 4204, 4300, 4900, 5200, 5606, 5900, 6807, 7100, 7500),
)
"""Seeds whose session is shown as it waited."""
ENDED = (
    *(
        1,
        101,
        302,
        701,
        1301,
        1401,
        1601,
        1701,
        1801,
        1901,
        2001,
        2102,
        2201,
        2402,
        2601,
        2903,
        3101,
        3201,
        3301,
    ),
    *(3401, 3601, 3801, 4001, 4101, 4201, 4301, 4501, 4601, 4801, 5001, 5101, 5501, 6001, 6201, 6901),
)
"""Seeds whose session is shown as it ended."""
PACKS = (
    'run examples/refunds --input \'{"order_id": "ord_881", "window_id": "rw_881"}\'',
    "run examples/refunds --plan examples/refunds/plans/plan_a.json",
    'run examples/refunds --plan examples/refunds/plans/plan_b.json --input \'{"order_id": "ord_881"}\' --shadow',
    'run examples/runbook --input \'{"service": "cart"}\'',
    'plan examples/runbook --input \'{"service": "cart"}\'',
    "verify examples/refunds examples/refunds/plans/plan_b.json",
    "verify examples/refunds examples/refunds/plans/plan_hijacked.json",
)
"""Commands on example packs."""

_VARYING = (
    (re.compile(r"ses_[0-9a-f]{16}"), "ses_0123456789abcdef"),
    (re.compile(r"\b(trace|run)_[0-9a-f]{16,32}"), r"\1_…"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "0" * 64),
    (re.compile(r"\b[0-9a-f]{8,40}…"), "0…"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "2026-01-02T03:04:05Z"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "0 ms"),
    (re.compile(r'"(\w*_ms|latency|at|wall_clock|executor|model_ms)": \d+'), r'"\1": 0'),
)
"""What differs from run to run, and what stands for it; only for commands that run something."""


# --- the journal of stories ---


def build_stories(file: Path) -> None:
    """Copy the chosen sessions into one journal, and compress it into a file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(_copy_all(folder))
        file.write_bytes(lzma.compress((folder / "stories.db").read_bytes(), preset=9))


async def _copy_all(folder: Path) -> None:
    runs = seeded.recorded_runs()
    (folder / "older.db").write_bytes(gzip.decompress(OLDER.read_bytes()))
    stories = await open_journal(f"sqlite:///{folder / 'stories.db'}")
    waiting = await open_journal(f"sqlite:///{seeded.unpack_waiting(folder)}")
    older = await open_journal(f"sqlite:///{folder / 'older.db'}")
    for end in (end for seed in WAITING for end in runs[seed].sessions if end.waiting):
        with open_bundle(seeded.recorded_bundle(end, folder)) as bundle:
            await _copy(waiting, end.tenant, bundle.streams, tuple(map(bundle.blob, bundle.blobs)), stories)
    for end in (end for seed in ENDED for end in runs[seed].sessions):
        with open_bundle(seeded.recorded_bundle(end, folder)) as bundle:
            blobs = tuple(map(bundle.blob, bundle.blobs))
            await _copy(bundle.journal(), end.tenant, bundle.streams, blobs, stories)
    for row in await older.sessions("default"):
        await _copy(older, "default", (row.session_id,), (), stories)
    for journal in (stories, waiting, older):
        await journal.close()


async def _copy(
    source: Journal, tenant: str, streams: Sequence[str], blobs: tuple[bytes, ...], target: Journal
) -> None:
    """Copy a session, whose stream is the first, and those that go with it."""
    session, *others = streams
    points = await source.checkpoints(tenant, session, limit=100_000)
    unit = Append(
        tenant=tenant,
        stream=session,
        expected=0,
        events=tuple(each.data for each in await source.read(tenant, session, limit=100_000)),
        checkpoints=tuple(NewCheckpoint(kind=each.kind, seq=each.seq, data=each.data) for each in points),
        blobs=blobs,
        row=row_of(await load_state(source, tenant, session)),
    )
    await target.append(unit)
    for stream in others:
        events = tuple(each.data for each in await source.read(tenant, stream, limit=100_000))
        head = (await target.head(tenant, stream)).seq
        await target.append(Append(tenant=tenant, stream=stream, expected=head, events=events[head:]))


# --- taking the screens ---


def _user(_: int) -> SimpleNamespace:
    return SimpleNamespace(pw_name="agt_support")


def _now(_: SystemClock) -> int:
    return NOW


def _started(_: SystemClock) -> int:
    return 0


@contextmanager
def stage() -> Generator[Path]:
    """A folder with the journal of stories and the example packs, at a fixed time, for a fixed user."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name).resolve()
        (folder / "stories.db").write_bytes(lzma.decompress(STORIES.read_bytes()))
        shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("*.db", "__pycache__"))
        patch.setenv("TZ", "UTC")
        time.tzset()
        patch.setenv("COLUMNS", "100")
        patch.setenv("TERCET_REFUNDS_DB", str(folder / "refunds.db"))
        for variable in ("FORCE_COLOR", "TERCET_JOURNAL", "TERCET_ACTORS", "TERCET_EVIDENCE"):
            patch.delenv(variable, raising=False)
        patch.setattr("pwd.getpwuid", _user)
        patch.setattr(SystemClock, "now", _now)
        patch.setattr(SystemClock, "monotonic", _started)
        patch.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)
    time.tzset()


class Screen(NamedTuple):
    """A command on the stage, and the tenant whose sessions it sees."""

    tenant: str
    words: str

    @property
    def name(self) -> str:
        """The name under which the screen is kept."""
        return f"{self.words}  # {self.tenant}" if self.tenant else self.words

    def take(self) -> str:
        """What a person sees."""
        text = self._steady(self._call(self.words))
        return _without_tags(text) if self.words.startswith("report") else text

    def take_json(self) -> Any:
        """What a program reads."""
        return json.loads(self._steady(self._call(f"{self.words} --json")))

    def _call(self, words: str) -> str:
        with as_tenant(self.tenant or "default"):
            result = CliRunner().invoke(app, shlex.split(words))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result.output if " --json" in words else f"{result.output}[exit {result.exit_code}]\n"

    def _steady(self, text: str) -> str:
        if self.tenant:
            return text
        for pattern, instead in _VARYING:
            text = pattern.sub(instead, text)
        return text.replace(str(Path.cwd()), "/here")


@contextmanager
def as_tenant(tenant: str) -> Generator[None]:
    """Let the command line, which knows one tenant, look at the sessions of another."""
    for entry in COMMANDS.values():
        entry.load()  # a command that is imported later would have the usual tenant
    found = [module for name, module in list(sys.modules.items()) if name.startswith("tercet.cli")]
    with pytest.MonkeyPatch.context() as patch:
        for module in found:
            if hasattr(module, "TENANT"):
                patch.setattr(module, "TENANT", tenant)
        yield


def screens(folder: Path) -> Iterator[Screen]:
    """Every screen that is kept: of what takes long, a part."""
    with closing(sqlite3.connect(folder / "stories.db")) as journal:
        rows = journal.execute(
            "SELECT tenant, session_id FROM sessions ORDER BY tenant, session_id"
        ).fetchall()
        waiting = journal.execute("SELECT tenant FROM sessions WHERE status != 'completed'").fetchall()
    at = "--journal sqlite:///stories.db"
    for number, (tenant, session) in enumerate(rows):
        yield Screen(tenant, f"sessions show {session} {at}")
        if number % 2 == 0:
            yield Screen(tenant, f"replay {session} {at}")
        if number % 8 == 0:
            yield Screen(tenant, f"report {session} -o - {at}")
    for (tenant,) in dict.fromkeys(waiting):
        listing = Screen(tenant, f"gates list {at}")
        yield listing
        yield from (Screen(tenant, f"gates show {gate['id']} {at}") for gate in listing.take_json()["gates"])
    for tenant in list(dict.fromkeys(tenant for tenant, _ in rows))[::4]:
        yield Screen(tenant, f"sessions list {at}")
    yield from (Screen(tenant, f"stats {at}") for tenant in ("default", "tenant-2400", "tenant-4001"))
    yield from (Screen("", words) for words in PACKS)


def take_terminal() -> dict[str, str]:
    """What a person sees, by command."""
    with stage() as folder:
        return {each.name: each.take() for each in screens(folder)}


def take_programs() -> dict[str, Any]:
    """What a program reads, by command; none of a report, which has no data of its own."""
    with stage() as folder:
        chosen = [each for each in screens(folder) if not each.words.startswith("report")]
        return {each.name: each.take_json() for each in chosen}


def _without_tags(page: str) -> str:
    """The text of a page, a line for each element."""
    body = re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)
    lines = (" ".join(line.split()) for line in re.sub(r"<[^>]*>", "\n", body).splitlines())
    return "\n".join(filter(None, lines)) + "\n"


# --- what is kept ---


def load(file: Path) -> dict[str, Any]:
    """The kept screens in a file, by command."""
    return json.loads(lzma.decompress(file.read_bytes()))


def keep(file: Path, screens: dict[str, Any]) -> None:
    """Write screens into a file."""
    data = json.dumps(screens, indent=0, ensure_ascii=False, sort_keys=True).encode()
    file.write_bytes(lzma.compress(data, preset=9))


def difference(kept: dict[str, str], now: dict[str, str]) -> str:
    """A unified diff of all screens; empty where they are equal."""
    parts: list[str] = []
    for words in sorted({*kept, *now}):
        before, after = kept.get(words, "").splitlines(), now.get(words, "").splitlines()
        name = f"tercet {words}"
        parts += difflib.unified_diff(before, after, name, name, n=1, lineterm="")
    return "\n".join(parts)


def main() -> None:
    """Do what the option says."""
    match sys.argv[1:]:
        case ["--stories"]:
            build_stories(STORIES)
        case ["--diff"]:
            sys.stdout.write(difference(load(TERMINAL), take_terminal()) + "\n")
        case ["--record"]:
            keep(TERMINAL, take_terminal())
            keep(PROGRAMS, {**take_programs(), **(load(PROGRAMS) if PROGRAMS.exists() else {})})
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
