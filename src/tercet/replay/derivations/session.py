"""How a session began, was resumed, moved, given up, expired and ended."""

from __future__ import annotations

import msgspec

from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.expiry import overdue
from tercet.core.table import fold_event
from tercet.replay.derivations.derived import Derived
from tercet.replay.scene import ReplayState


def session_started(scene: ReplayState, event: e.SessionStarted) -> Derived | None:
    """The context is compiled again, and must come to the same hash."""
    setting = scene.pin(event, fold_event(scene.state, event))
    pack, spec = scene.pack, setting.spec
    return Derived(
        event=msgspec.structs.replace(
            event,
            session=scene.recording.session,
            tenant=scene.recording.tenant,
            decision=spec.id,
            pack=pack.ref,
            pack_hash=pack.hash,
            snapshot=setting.compiled.snapshot,
            context=setting.compiled.hash,
            left_out=setting.compiled.left_out,
            on_failure=spec.on_failure or pack.on_failure,
            heartbeat=pack.session.heartbeat_interval_ms,
            dev=event.dev and pack.session.simulated_people,
            risk_tier=event.risk_tier and str(spec.risk_tier),  # the first journals do not tell it
        )
    )


def session_migrated(scene: ReplayState, event: e.SessionMigrated) -> Derived | None:
    """The context under the other pack is compiled again, and must come to the same hash."""
    setting = scene.pin(event, fold_event(scene.state, event))
    pack = scene.pack
    return Derived(
        event=msgspec.structs.replace(
            event,
            pack=pack.ref,
            pack_hash=pack.hash,
            snapshot=setting.compiled.snapshot,
            context=setting.compiled.hash,
            left_out=setting.compiled.left_out,
        )
    )


def session_resumed(scene: ReplayState, event: e.SessionResumed) -> Derived:
    """Which calls were in flight follows from the events; who took over, and when, does not."""
    return Derived(event=msgspec.structs.replace(event, in_flight=scene.state.in_flight))


def session_expired(scene: ReplayState, event: e.SessionExpired) -> Derived | None:
    """A time to live was over."""
    late = overdue(scene.state, event.at, outside=event.outside)
    return None if late is None else Derived(event=late)


def given_up(scene: ReplayState, event: e.GivenUp) -> Derived | None:
    """The run had gone through more phases than it may."""
    command = scene.due(c.StopExhausted, at=event.at)
    if command is None:
        return None
    return Derived(event=scene.work.give_up(scene.state, scene.setting, command, event.at))


def session_ended(scene: ReplayState, event: e.SessionEnded) -> Derived | None:
    """The record is made again, and must come to the same hash."""
    command = scene.due(c.End, at=event.at)
    if command is None:
        return None
    ended, _ = scene.work.end(
        scene.state, scene.setting, scene.course, scene.events, scene.blobs, command.status, event.at
    )
    return Derived(event=ended)
