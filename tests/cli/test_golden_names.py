"""Golden runs from elsewhere: the name of a session in a bundle is somebody's word, and no path."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from engine.workshop import ADA, ASK, Workshop, plan, step
from tercet.core import codec
from tercet.core import events as e
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Append
from tercet.replay.bundle.exporting import export_run

from .harness import Tercet


def exported(workshop: Workshop, session: str, path: Path, *, keeps_pack: bool = True) -> None:
    """A bundle of a run that has just begun, under any name."""
    journal, other = MemoryJournal(), MemoryJournal()
    workshop.tool("do.it")
    pack = workshop.pack()
    blobs = (pack.content,) if keeps_pack else ()

    async def main() -> None:
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(ASK, plan=plan(step("a")), actor=ADA)
        [first] = await journal.read("default", result.session_id, limit=1)
        start = codec.decode(first.data)
        assert isinstance(start, e.SessionStarted)
        event = codec.encode(msgspec.structs.replace(start, session=session))
        await other.append(Append(tenant="default", stream=session, expected=0, events=(event,), blobs=blobs))
        await export_run(other, "default", session, path)

    workshop.run(main())


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/b", ".hidden", "a\nb", "-"])  # noqa: S108 - a name
def test_a_bundle_names_no_path(tercet: Tercet, tmp_path: Path, name: str) -> None:
    """A run whose session is called like a path is not kept, and nothing is written anywhere."""
    bundle = tmp_path / "from-elsewhere.tercet"
    exported(Workshop(), name, bundle)
    assert tercet("replay", str(bundle)).code == 0
    answer = tercet("golden", "add", str(bundle), "--to", str(tmp_path / "set" / "golden"), "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "wrong_name")
    assert [each.name for each in tmp_path.rglob("*.tercet")] == [bundle.name]


def test_a_run_is_named_once(tercet: Tercet, tmp_path: Path) -> None:
    """Two files of one session would be one in the set, so neither is kept."""
    for name in ("a", "b"):
        exported(Workshop(), "ses_1", tmp_path / f"{name}.tercet")
    files = [str(tmp_path / f"{name}.tercet") for name in "ab"]
    answer = tercet("golden", "add", *files, "--to", str(tmp_path / "golden"), "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "named_twice")
    assert tercet("golden", "add", files[0], "--to", str(tmp_path / "golden")).code == 0


def test_a_run_that_cannot_be_judged_does_not_keep_the_others_from_it(tercet: Tercet, tmp_path: Path) -> None:
    """A bundle from before packs were kept is told with its reason, and the rest of the set is checked all the same."""
    exported(Workshop(), "ses_1", tmp_path / "ses_1.tercet", keeps_pack=False)
    exported(Workshop(), "ses_2", tmp_path / "ses_2.tercet")
    answer = tercet("golden", "check", str(tmp_path), "--json")
    assert answer.code == 3
    assert [run["outcome"] for run in answer.json["runs"]] == ["unreadable", "same"]
    assert "has no stored pack" in answer.json["runs"][0]["error"]
