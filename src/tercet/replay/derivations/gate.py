"""Gates: which ones were opened, for whom and over which digest, is derived; what people answered is a fact."""

from __future__ import annotations

import msgspec

from tercet.core import commands as c
from tercet.core import effects as undoing
from tercet.core import events as e
from tercet.core.decide import Acting
from tercet.core.fold.gate import acceptances
from tercet.replay.derivations.derived import Derived
from tercet.replay.derivations.step import PEOPLE
from tercet.replay.scene import ReplayState

BREAKER = "the circuit of its tool was open"


def gate_opened(scene: ReplayState, event: e.GateOpened) -> Derived | None:
    """The question that was due, with all that its answer binds to."""
    match event.kind:
        case "escalation":
            return _handed_over(scene, event)
        case "compensation":
            return taken_back(scene, event)
        case "approval" | "reconcile" | "output":
            return _asked(scene, event)


def _asked(scene: ReplayState, event: e.GateOpened) -> Derived | None:
    command = scene.due(c.Ask, at=event.at, step=event.step)
    if command is not None:
        return Derived(event=scene.work.ask(scene.state, command, event.at))
    step = scene.state.steps.get(event.step)
    is_open = step is not None and step.is_unsettled
    if step is None or not is_open or scene.due(c.Dispatch, at=event.at, step=event.step) is None:
        return None
    # A call that may have happened cannot be refused because a circuit is open: a person is asked instead.
    acting = Acting(scene.state, scene.setting, scene.followed, scene.blobs)
    asked = scene.work.ask(scene.state, acting.ask_whether(event.step, step), event.at)
    return Derived(event=asked, fact=BREAKER)


def acceptance_lapsed(scene: ReplayState, event: e.AcceptanceLapsed) -> Derived | None:
    """That somebody lost a role is a fact; that the outputs were accepted by them, and not committed yet, is not."""
    given = acceptances(scene.state)
    if not given or scene.due(c.End, at=event.at) is None:
        return None
    return Derived(event=msgspec.structs.replace(event, gate=given[-1].gate), fact=PEOPLE)


def _handed_over(scene: ReplayState, event: e.GateOpened) -> Derived | None:
    if scene.due(c.Escalate, at=event.at) is None:
        return None
    opened, _ = scene.work.hand_over(scene.state, scene.setting, scene.events, event.at)
    return Derived(event=opened)


def taken_back(
    scene: ReplayState, event: e.GateOpened | e.CompensationBegun | e.EffectsKept
) -> Derived | None:
    """What becomes of the effects of a run that did not succeed: the ways back are worked out again."""
    command = scene.due(c.Compensate, at=event.at)
    if command is None:
        return None
    done = undoing.effects(scene.events)
    ways = undoing.ways_back(done, scene.setting, scene.tools, scene.blobs)
    if not ways or command.how == "keep":
        return Derived(event=e.EffectsKept(at=event.at))
    if command.how == "ask" and any(way.tool for way in ways):
        return Derived(event=scene.work.ask_back(scene.state, scene.setting, ways, event.at))
    return Derived(event=e.CompensationBegun(at=event.at, undo=ways))


def approval_granted(scene: ReplayState, event: e.ApprovalGranted) -> Derived | None:
    """The policy that gave the approval."""
    command = scene.due(c.Grant, at=event.at, step=event.step)
    if command is None:
        return None
    granted = e.ApprovalGranted(at=event.at, step=command.step, policy=command.policy, digest=command.digest)
    return Derived(event=granted)
