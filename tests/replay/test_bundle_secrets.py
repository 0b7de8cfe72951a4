"""A secret of the environment is in no bundle, whatever a service does with it."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from acceptance.test_secrets import EACH, PLANTED, build, echo, run_once
from tercet.journal.opening import open_journal
from tercet.replay.bundle.exporting import PackContent, export_run
from tercet.runtime import Runtime
from tools.loopback import serving


def test_a_planted_secret_is_in_no_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service tells it in ten ways; the bundles of these runs, with the pack and its tools, hold none of them."""
    monkeypatch.setenv("THINGS_TOKEN", PLANTED)
    url = f"sqlite:///{tmp_path / 'journal.db'}"

    async def main() -> int:
        async with serving(echo) as service:
            pack = build(service)
            async with Runtime(pack, url) as runtime:
                await asyncio.gather(*(run_once(runtime, number) for number in range(10 * EACH)))
        async with open_journal(url) as journal:
            rows = await journal.sessions("default")
            for row in rows:
                path = tmp_path / f"{row.session_id}.tercet"
                await export_run(journal, "default", row.session_id, path, packs=(PackContent(pack=pack),))
            return len(rows)

    assert asyncio.run(main()) == 10 * EACH
    made = b"".join(path.read_bytes() for path in tmp_path.glob("*.tercet"))
    assert b"[redacted]" in made
    for spelling in (PLANTED, PLANTED.upper(), base64.b64encode(PLANTED.encode()).decode()[:-3]):
        assert spelling.encode() not in made
