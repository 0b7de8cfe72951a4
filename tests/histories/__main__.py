"""Records runs of this version.

    python -m histories FOLDER     the stories of `stories.py`, each as a bundle in a folder
    python -m histories --seeded   the seeded runs, as the two archives that `seeded.py` names
    python -m histories --count    how often each type of event occurs in the archive of seeded runs

`tests` must be on the path. What is recorded already is never changed: a story that is in the folder stays as it is, and an
archive that exists is left alone, since it is what old journals look like. Only new rules get a new folder or archive.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import get_args

from engine.workshop import Workshop
from histories import seeded
from histories.stories import STORIES
from tercet.core import events as e
from tercet.journal.memory import MemoryJournal
from tercet.replay.bundle.exporting import export_run
from tercet.replay.recording import load_bundle


def record(name: str, folder: Path) -> Path:
    """Play a story in virtual time, and keep it as a bundle."""
    workshop, journal, file = Workshop(), MemoryJournal(), folder / f"{name}.tercet"

    async def main() -> None:
        session = await STORIES[name](workshop, journal)
        await export_run(journal, "default", session, file)

    workshop.run(main())
    return file


def record_stories(folder: Path) -> None:
    """Record every story that is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in STORIES:
        if not (folder / f"{name}.tercet").exists():
            record(name, folder)


def record_seeded() -> None:
    """Record the seeded runs, unless they are there."""
    if seeded.RUNS.exists() or seeded.WAITING.exists():
        sys.exit(f"{seeded.RUNS.name} is there already: recorded runs are never changed")
    seeded.record_runs(seeded.RUNS, seeded.WAITING)


def count_events() -> None:
    """Print how often each type of event occurs in the archive, and how the sessions ended."""
    ends = [end for run in seeded.recorded_runs().values() for end in run.sessions]
    with tempfile.TemporaryDirectory() as name:
        histories = [asyncio.run(load_bundle(seeded.recorded_bundle(end, Path(name)))).events for end in ends]
    found = seeded.count_events(histories)
    for kind in get_args(e.Event):
        tag = str(kind.__struct_config__.tag)
        sys.stdout.write(f"{tag:22}{found[tag]:6}\n")
    waiting = sum(bool(end.waiting) for end in ends)
    sys.stdout.write(f"{len(ends)} bundles of {len(seeded.recorded_runs())} seeds, {waiting} waiting\n")


def main() -> None:
    """Do what the command line asks for."""
    match sys.argv[1:]:
        case ["--seeded"]:
            record_seeded()
        case ["--count"]:
            count_events()
        case [folder]:
            record_stories(Path(folder))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
