"""Records the stories of this version into a folder."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.workshop import Workshop
from histories.stories import STORIES
from tercet.journal.memory import MemoryJournal
from tercet.replay.bundle.exporting import export_run


def record(name: str, folder: Path) -> Path:
    """Play a story in virtual time, and keep it as a bundle."""
    workshop, journal, file = Workshop(), MemoryJournal(), folder / f"{name}.tercet"

    async def main() -> None:
        session = await STORIES[name](workshop, journal)
        await export_run(journal, "default", session, file)

    workshop.run(main())
    return file


def main() -> None:
    """Record every story that is not there yet."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in STORIES:
        if not (folder / f"{name}.tercet").exists():
            record(name, folder)


if __name__ == "__main__":
    main()
