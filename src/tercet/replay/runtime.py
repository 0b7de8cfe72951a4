"""The `Runtime` of the front page: one that can also look back. What carries runs forward knows nothing of that."""

from __future__ import annotations

from tercet.replay.replaying import replay_recording
from tercet.replay.report import ReplayReport
from tercet.replay.rulebook import Rulebook
from tercet.replay.sources import load_run
from tercet.runtime import runtime


class Runtime(runtime.Runtime):
    """Runs a pack's decisions on a journal, and judges past runs again."""

    async def replay(self, run_id: str) -> ReplayReport:
        """Judge a run of this journal again, by its session or run id. Nothing is called, and nothing written."""
        return replay_recording(await load_run(self.journal, self.tenant, run_id), Rulebook((self.pack,)))
