"""The `Runtime` of the front page: one that can also look back. What carries runs forward knows nothing of that."""

from __future__ import annotations

from collections.abc import Iterable

from tercet.engine import runtime
from tercet.replay.agents import Agents, Recalls
from tercet.replay.outcome import ReplayReport
from tercet.replay.replay import replay_recording
from tercet.replay.rules import RuleSource
from tercet.replay.sources import load_run


class Runtime(runtime.Runtime):
    """Runs a pack's decisions on a journal, and judges past runs again."""

    async def replay(self, run_id: str, *, agents: Iterable[Recalls] = ()) -> ReplayReport:
        """Judge a run of this journal again, by its session or run id. Nothing is called, and nothing written.

        `agents` are the Engines of runs that an agent decided in: critics that are pure are asked again.
        """
        recording = await load_run(self.journal, self.tenant, run_id)
        rules = RuleSource((self.pack,), agents=Agents(agents, has_installed=True))
        return replay_recording(recording, rules)
