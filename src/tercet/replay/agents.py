"""Agents with pure critics, whose verdicts a replay derives again: passed by the caller, or installed.

Code comes from what is installed here, never from a journal or a bundle. A distribution names an agent under the entry
points `tercet.agents`, by the name of its class; what stands there is an `Engine`, or a function that makes one:

    [project.entry-points."tercet.agents"]
    Clerk = "my_agents:clerk"
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, runtime_checkable

from tercet.contracts.errors import UsageError
from tercet.core import codec
from tercet.core import events as e
from tercet.core.codec import CodecError
from tercet.engine.planning import RecalledStepper
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
        """The agent at the beginning of a run that is judged again; None unless all its critics are pure."""
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
        """The agent that a session was recorded with, if it is here, its pack is the same, and its critics are pure."""
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
