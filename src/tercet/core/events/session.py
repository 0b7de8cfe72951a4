"""The life of a session."""

from __future__ import annotations

from typing import Any

from tercet.contracts.decision import OnFailure
from tercet.core.events.fact import Fact


class SessionStarted(Fact, frozen=True, kw_only=True, tag="session_started"):
    """A session was started: the request, the run context, and the versions it is pinned to."""

    session: str
    run: str
    trace: str
    tenant: str
    actor: dict[str, Any]
    request: dict[str, Any]
    decision: str
    safety_mode: str
    budget: dict[str, Any]
    pack: str
    pack_hash: str
    snapshot: str
    context: str
    """The hash of the compiled context: replay compiles it again and compares."""
    evidence: str = ""
    """The digest of the snapshot, frozen whole with the events; empty if the pack has none."""
    library: str = ""
    """The snapshot of the library that plans may ask; empty if there is none."""
    library_hash: str = ""
    """The hash of that snapshot: another store may have one of the same name."""
    left_out: dict[str, int] = {}
    """How many facts of each class of the library are not among those that it began with."""
    planner: str = ""
    """The planner that makes the plans; empty if the caller brought one."""
    models: tuple[str, ...] = ()
    """The language models that it asks, by their names: the one to ask, and those that take its place."""
    fallible: bool = False
    """Whether that planner may fail where another try succeeds: then a person takes over when no try is left."""
    stepwise: bool = False
    """Whether an agent decides one turn at a time, each of them a plan of its own."""
    expires: int = 0
    """When the session's time to live ends."""
    heartbeat: int = 30_000
    """The heartbeat interval in milliseconds."""
    on_failure: OnFailure = "ask"
    """What happens to effects if the run fails."""
    shadow: bool = False
    """A shadow run: it ends after the review, without calls."""
    root: str = ""
    """The session that led to this one through a tool; empty if no one did."""
    depth: int = 0
    parent_owners: tuple[dict[str, Any], ...] = ()
    """The owners of the runs that it is nested in, from the inside out: none of them approves its gates."""
    body: str = ""
    """The hash of the request, if it has a key."""
    risk_tier: str = ""
    """The risk tier of the decision."""
    traceparent: str = ""
    """The caller's W3C traceparent; empty if there is none."""
    people: dict[str, Any] = {}
    """The pack's list of people: login and roles by name. It is not part of the pack's hash."""
    dev: bool = False
    """Whether it is a development session, in which one person may act as any actor of the pack."""
    folder: str = ""
    """The pack's folder as the command line named it; empty if a program started the session."""
    lane: dict[str, Any] = {}
    """For a lane: its name, the session and the step that started it, and the tools that its parent's run has."""
    personal: str = ""
    """The id of the key of its subject, whose personal values it has as tokens; empty if it has none."""
    behaviour: tuple[int, ...] = ()
    """The numbers of the rule changes that the session follows: a replay uses the same ones, whatever the current
    rules are."""


class SessionResumed(Fact, frozen=True, kw_only=True, tag="session_resumed"):
    """A process took the session over; calls that were in flight when the previous one stopped are settled from
    here."""

    owner: str
    epoch: int
    in_flight: tuple[str, ...] = ()
    people: dict[str, Any] | None = None
    """The current list of people, if it has changed."""


class SessionPaused(Fact, frozen=True, kw_only=True, tag="session_paused"):
    """The session was paused, and can be resumed (HALT)."""

    reason: str
    code: str = ""
    """The code of the obstacle to continuing, such as `model_unavailable`; empty if there is none."""
    by: str = ""
    """Who asked for it; empty if the runtime did."""
    simulated_by: str = ""
    """The login of the person who acted as them in a development session."""
    inbox: int = 0
    outside: bool = False
    """Whether a process that does not run the session appended it."""


class SessionCancelled(Fact, frozen=True, kw_only=True, tag="session_cancelled"):
    """A person cancelled the run."""

    by: str
    simulated_by: str = ""
    """The login of the person who acted as them in a development session."""
    reason: str = ""
    inbox: int = 0
    outside: bool = False
    """Whether a process that does not run the session appended it."""


class SessionExpired(Fact, frozen=True, kw_only=True, tag="session_expired"):
    """The time to live of the session, or of a gate that it waits at, is over."""

    reason: str
    gate: str = ""
    outside: bool = False
    """Whether a process that does not run the session appended it."""


class SessionMigrated(Fact, frozen=True, kw_only=True, tag="session_migrated"):
    """The session was moved to another version of its pack, its evidence or its rules: its plan is reviewed again."""

    pack: str
    pack_hash: str
    snapshot: str
    context: str
    by: str
    """The operator; empty if the runtime did it, because the session's rules were outdated."""
    library: str = ""
    library_hash: str = ""
    left_out: dict[str, int] = {}
    """How many facts of each class of the library are not among those that it began with."""
    evidence: str = ""
    """The digest of the snapshot, which the session keeps from now on."""
    behaviour: tuple[int, ...] = ()
    """The rules that the session follows from now on; empty in older journals, where a migration did not change
    them."""


class BudgetExtended(Fact, frozen=True, kw_only=True, tag="budget_extended"):
    """An operator lets the run use more than it was started with."""

    by: str
    simulated_by: str = ""
    """The login of the person who acted as them in a development session."""
    more: dict[str, int]
    inbox: int = 0
    outside: bool = False
    """Whether a process that does not run the session appended it."""


class GivenUp(Fact, frozen=True, kw_only=True, tag="given_up"):
    """The run exceeded its maximum number of phases."""

    reason: str
    iterations: int
    restored: dict[str, Any] = {}
    """The round whose outputs are left because they were judged better than the last; empty if the last are the best."""


class SessionEnded(Fact, frozen=True, kw_only=True, tag="session_ended"):
    """Nothing more will happen: how the session ended, with the hash of the record that is left."""

    status: str
    reason: str
    record: str = ""
    """The hash of the decision record."""
    kept: str = ""
    """The digest of the record without its transcript, which is in these events."""
    outputs: dict[str, Any] = {}
