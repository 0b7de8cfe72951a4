"""The rules for judging recorded runs: packs as data, and the run configurations made from them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, runtime_checkable

from tercet.contracts.context import RunContext
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.runs.budget import RunBudget
from tercet.core import codec
from tercet.core import events as e
from tercet.core.codec import CodecError
from tercet.core.config import RunConfig
from tercet.core.state import State
from tercet.engine import sessions
from tercet.engine.planning import RecalledStepper
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording

GROUP = "tercet.agents"
PREFIX = "agent:"
"""The prefix of the planner's name in a session of an agent."""


@runtime_checkable
class Recalls(Protocol):
    """An agent with its critics, as an `Engine` is one."""

    @property
    def name(self) -> str:
        """The planner that its sessions are recorded with."""
        ...

    @property
    def pack_hash(self) -> str:
        """The hash of the pack that its sessions are recorded with."""
        ...

    def recall(self) -> RecalledStepper | None:
        """Return the agent at the beginning of a run that is judged again; None unless all its critics are pure."""
        ...


class Agents:
    """The available agents. An installed one is loaded when a run first needs it, before it is judged."""

    def __init__(self, given: Iterable[Recalls] = (), *, has_installed: bool = False) -> None:
        self._known: dict[str, list[Recalls]] = {}
        self._has_installed = has_installed
        self._looked_for: set[str] = set()
        for agent in given:
            self._known.setdefault(agent.name, []).append(agent)

    def prepare(self, recording: Recording) -> None:
        """Load the agent of a run, where one is installed; raises `UsageError` if that cannot be loaded."""
        name = _planner(recording)
        if not self._has_installed or not name.startswith(PREFIX) or name in self._looked_for:
            return
        self._looked_for.add(name)
        for found in entry_points(group=GROUP, name=name.removeprefix(PREFIX)):
            agent = _load(found)
            self._known.setdefault(agent.name, []).append(agent)

    def recall(self, planner: str, pack_hash: str) -> RecalledStepper | None:
        """Return the agent of a session, if it is installed, its pack is the same, and its critics are pure."""
        found = (agent for agent in self._known.get(planner, ()) if agent.pack_hash == pack_hash)
        return next((stepper for agent in found if (stepper := agent.recall()) is not None), None)


def _planner(recording: Recording) -> str:
    """Return the planner of a run; None if its first event does not name one."""
    try:
        started = codec.decode(recording.events[0])
    except (CodecError, IndexError):
        return ""
    return started.planner if isinstance(started, e.SessionStarted) else ""


def _load(found: EntryPoint) -> Recalls:
    try:
        loaded = found.load()
        agent = loaded if isinstance(loaded, Recalls) else loaded()
    except Exception as error:
        raise _unusable(found, f"{type(error).__name__}: {error}") from error
    if not isinstance(agent, Recalls):
        raise _unusable(found, f"it is a {type(agent).__name__}, and no Engine")
    return agent


def _unusable(found: EntryPoint, why: str) -> UsageError:
    return UsageError(
        f"the agent {found.name} that is installed as {found.value} cannot be used: {why[:300]}",
        code="agent_unusable",
        remedy="fix the installed package, or uninstall it: then the critics' recorded verdicts are used",
    )


# --- rules ---


MOST_KEPT = 64
"""How many packs with their evidence are kept: many runs are pinned to the same."""


class RuleSource:
    """Packs by their hash. One source serves any number of runs, and keeps the values that it has computed for them."""

    def __init__(
        self, packs: Iterable[Pack] = (), *, instead: Pack | None = None, agents: Agents | None = None
    ) -> None:
        """`packs` are installed ones, for journals that have not kept theirs; `instead` judges every run, whatever pack
        it was recorded with; `agents` are those whose critics are asked again where they are pure."""
        self.instead = instead
        self._agents = agents or Agents()
        self._installed = {pack.hash: pack for pack in packs}
        self._read: dict[str, Pack] = {}
        self._with_evidence: dict[tuple[str, str, str], Pack] = {}

    def prepare(self, recording: Recording) -> None:
        """Load the installed agent of a run; nothing is loaded any more while the run is judged."""
        if self.instead is None:
            self._agents.prepare(recording)

    def recall(self, state: State) -> RecalledStepper | None:
        """Return the agent of a session, to ask its critics again; None if they are not here, or not pure."""
        if self.instead is not None:
            return None
        return self._agents.recall(state.start.planner, state.start.pack_hash)

    def pack_for(self, recording: Recording, state: State) -> Pack:
        """Return the pack of a session with its stored evidence; raises `UsageError` if there is none."""
        start = state.start
        evidence, snapshot = start.evidence, start.snapshot
        wanted = start.pack_hash if self.instead is None else self.instead.hash
        key = (wanted, evidence, snapshot)
        if key not in self._with_evidence:
            pack = self._pack(recording, state)
            facts = sessions.decode_evidence(_frozen(recording, state), is_from_library=False)
            _make_room(self._with_evidence)
            self._with_evidence[key] = _with_evidence(pack, snapshot, facts)
        return self._with_evidence[key]

    def _pack(self, recording: Recording, state: State) -> Pack:
        if self.instead is not None:
            return self.instead
        pack = self.own(recording, state)
        if pack is None:
            raise UsageError(
                f"session {recording.session} has no stored pack, and no pack with hash {state.start.pack_hash[:20]}… was given",
                code="pack_not_recorded",
                remedy="give the folder of the pack that it was recorded with, by --installed",
            )
        return pack

    def own(self, recording: Recording, state: State) -> Pack | None:
        """Return the pack that a session was recorded with; None if it is not available."""
        wanted = state.start.pack_hash
        if wanted not in self._read and wanted in recording.blobs:
            _make_room(self._read)
            self._read[wanted] = read_declarations(recording.blobs[wanted])
        return self._read.get(wanted) or self._installed.get(wanted)

    def setting_for(self, recording: Recording, state: State) -> tuple[Pack, RunConfig]:
        """Return the rules of a run from its start, or from its move to another pack, on."""
        pack = self.pack_for(recording, state)
        ctx, request = sessions.frame_of(state)
        if self.instead is not None and (own := self.own(recording, state)) is not None:
            ctx = _rebase_context(ctx, own, self.instead)
        snapshot = state.start.snapshot or None
        library_evidence = sessions.library_evidence_of(state.start, _frozen(recording, state))
        return pack, sessions.build_run_config(pack, ctx, request, snapshot, library_evidence)


def _with_evidence(pack: Pack, snapshot: str, facts: tuple[Evidence, ...]) -> Pack:
    """Return a pack with the stored evidence of a session in place of its own; a snapshot may be empty."""
    times = {snapshot: _LONG_AGO} if snapshot else {}
    return pack.model_copy(update={"evidence": facts, "snapshot_times": times})


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def _rebase_context(ctx: RunContext, own: Pack, other: Pack) -> RunContext:
    """Return the frame of a run under another pack, which replaces the values from its own pack; those from its caller
    stay."""
    budget = ctx.run_budget
    given = {
        name: getattr(other.budget, name)
        for name in RunBudget.model_fields
        if getattr(budget, name) == getattr(own.budget, name)
    }
    mode = other.safety_mode if ctx.safety_mode == own.safety_mode else ctx.safety_mode
    return ctx.model_copy(update={"run_budget": budget.model_copy(update=given), "safety_mode": mode})


def _frozen(recording: Recording, state: State) -> bytes:
    """Return the evidence that was stored with the start of a session, as bytes."""
    return recording.blobs[state.start.evidence] if state.start.evidence else b""


def _make_room(kept: dict[str, Pack] | dict[tuple[str, str, str], Pack]) -> None:
    if len(kept) >= MOST_KEPT:
        kept.clear()
