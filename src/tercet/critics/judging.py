"""The outcome of a turn: asks the critics, allows a retry if the runtime does, and checks the stop criteria.

| the critics say | and then                                                                                    |
|-----------------|---------------------------------------------------------------------------------------------|
| continue        | an answer is final, anything else continues                                                 |
| retry           | the state before the step, with their metadata and patches; after an effect, the patched    |
|                 | state after it; if no retry is left, a person                                               |
| stop            | the run is paused for a person, or ends, as the Engine is set                               |
| (one raises)    | the run is escalated to a person, with the name of the critic                               |
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.plain import not_plain, storable
from tercet.core.events.plan import TurnAction
from tercet.core.turns import Reflection, Sofar
from tercet.critic.pluggable.chain import ChainVerdict, CriticChain, Judgement
from tercet.critic.pluggable.patches import (
    apply_patches,
    copy_state,
    detached,
    metadata_of,
    read_metadata,
    restore,
)
from tercet.critic.pluggable.result import CriticResult, Escalation
from tercet.critic.pluggable.stop import Progress, StopCriterion, StopReason, critic_stop
from tercet.critics.agent import Agent, prompted
from tercet.critics.hooks import Hooks, Moment

OnCriticStop: TypeAlias = Literal["pause", "end"]
"""What a critic's `stop` leads to: a person is asked, or the run ends as failed."""
_ON_STOP: dict[OnCriticStop, TurnAction] = {"pause": "stop", "end": "end"}


def recordable(found: Mapping[Any, Any], what: str) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the entries that are plain data, and the names of the others."""
    kept: JsonObject = {}
    left_out: list[str] = []
    for key, value in found.items():
        if not_plain({key: value}) is None:
            kept[key] = detached(value, of=value)
        else:
            left_out.append(f"{what}.{str(key).encode('utf-8', 'replace').decode()}")
    return kept, tuple(left_out)


def recall_metadata(state: object, recorded: JsonObject) -> None:
    """Set the metadata of a state to what was recorded."""
    if not recorded and not read_metadata(state):
        return
    metadata = metadata_of(state)
    metadata.clear()
    metadata.update(detached(recorded, of=state))


def changed_fields(before: object, after: object) -> tuple[str, ...]:
    """Return the attributes of a state that have changed, as far as that can be determined."""
    if before is after:
        return ()
    old, new = _fields(before), _fields(after)
    return tuple(f"state.{name}" for name in (*new, *(set(old) - set(new))) if not _same(name, old, new))


def mark_stopped(state: object, reason: object) -> None:
    """Set the stop reason on the state, if it accepts one."""
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        setattr(state, "stop_reason", reason)  # noqa: B010 - `state` may have any type


def _fields(state: object) -> dict[str, Any]:
    if isinstance(state, dict):
        return cast("dict[str, Any]", state)
    if is_dataclass(state):
        return {each.name: getattr(state, each.name, None) for each in fields(state)}
    return getattr(state, "__dict__", {})


def _same(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if name not in old or name not in new:
        return False
    try:
        if bool(old[name] == new[name]):
            return True
        # Objects without __eq__ differ from their own copies, so nothing can be determined.
        return not bool(copy.deepcopy(old[name]) == old[name])
    except Exception:  # noqa: BLE001 - == and copying are user code
        return True


@dataclass(frozen=True, kw_only=True)
class Turned:
    """A turn whose results were applied."""

    state: Any
    before: Any
    """The state before the decision."""
    shown: Any
    """The decision as critics see it."""
    results: list[dict[str, Any]]
    is_final: bool
    """Whether it ends with an answer that passed review."""
    states: tuple[Any, ...]
    """The states after the latest steps, as many as the criteria look back on, this one excluded."""
    signatures: tuple[str, ...]
    """One string for each step, this one included."""


@dataclass(frozen=True, kw_only=True)
class Judges:
    """Who judges the turns of a run."""

    chain: CriticChain
    criteria: tuple[StopCriterion, ...]
    on_stop: OnCriticStop = "pause"


@dataclass(frozen=True, kw_only=True)
class Taken:
    """The outcome of a turn: the next state, and what is recorded."""

    state: Any
    reflection: Reflection


class Judging:
    """The judgement of one turn."""

    def __init__(self, agent: Agent, judges: Judges, hooks: Hooks) -> None:
        self._agent = agent
        self._judges = judges
        self._hooks = hooks

    def unreduced(self, state: Any, error: Exception) -> Taken:
        """Return the outcome of a turn on which the agent's `reduce` failed: the state is the one before it."""
        reason = f"reduce raised {type(error).__name__}: {error}"
        return self._finish(state, Reflection(action="escalate", reason=reason, stop=StopReason.AGENT_RAISED))

    async def judge(self, turned: Turned, sofar: Sofar, seen: Moment, prompt: str | None) -> Taken:
        """Ask the critics, then the criteria. `prompt` is the patch that critics have asked for."""
        met = copy_state(turned.state)
        await self._hooks.tell("before", "critic", seen)
        verdict = await self._judges.chain.judge(turned.state, turned.shown, turned.results)
        seen = replace(seen, verdict=verdict)
        await self._hooks.tell("after", "critic", seen)
        touched = tuple(name for name in changed_fields(met, turned.state) if name != "state.metadata")
        taken = self._after_critics(turned, dict(read_metadata(met)), verdict, sofar, prompt)
        await self._hooks.tell("before", "check_stop", seen)
        taken = self._after_criteria(taken, turned, sofar)
        reason = StopReason(taken.reflection.stop) if taken.reflection.stop else None
        await self._hooks.tell("after", "check_stop", replace(seen, stop_reason=reason))
        return taken if taken.reflection.action == "retry" else _without(taken, touched)

    def _after_critics(
        self, turned: Turned, met: dict[str, Any], verdict: ChainVerdict, sofar: Sofar, prompt: str | None
    ) -> Taken:
        result = verdict.result
        said = Reflection(
            action="continue",
            critic=verdict.critic,
            score=result.score,
            trace=tuple(_traced(each) for each in verdict.trace),
        )
        if result.action == "continue":
            ending = {"action": "final", "stop": StopReason.FINAL} if turned.is_final else {}
            return self._finish(turned.state, replace(said, **ending))
        said = replace(said, reason=result.reason)
        if isinstance(result, Escalation) or result.action == "stop":
            action = "escalate" if isinstance(result, Escalation) else _ON_STOP[self._judges.on_stop]
            stop = critic_stop(result.action)
            return self._finish(turned.state, replace(said, action=action, stop=stop))
        try:
            return self._again(turned, met, result, said, sofar, prompt)
        except UsageError as error:
            reason = f"what {verdict.critic} asks for cannot be done: {error}"
            stop = StopReason.CRITIC_ESCALATE
            return self._finish(turned.state, replace(said, action="escalate", reason=reason, stop=stop))

    def _again(
        self,
        turned: Turned,
        met: dict[str, Any],
        result: CriticResult,
        said: Reflection,
        sofar: Sofar,
        prompt: str | None,
    ) -> Taken:
        """Return the outcome of a retry; raise `UsageError` for a patch that cannot be applied."""
        if sofar.on_retry not in ("retry", "replan"):
            reason = f"{result.reason}; and no retry is left"
            stop = StopReason.RETRIES_EXHAUSTED
            return self._finish(turned.state, replace(said, action="escalate", reason=reason, stop=stop))
        undone = restore(turned.before, met, turned.state) if sofar.on_retry == "retry" else turned.state
        state, patched = apply_patches(undone, self._agent.system_prompt, result)
        if result.modified_prompt is not None or result.instruction_patch is not None:
            prompt = patched
        with prompted(self._agent, prompt):
            pass  # a prompt that cannot be set is the critic's fault, not the next decision's
        patch = {key: value for key, value in (result.state_patch or {}).items() if key != "metadata"}
        kept, left_out = recordable(patch, "patch")
        again = replace(said, action=sofar.on_retry, prompt=prompt, patch=kept, left_out=left_out)
        return self._finish(state, again)

    def _finish(self, state: Any, said: Reflection) -> Taken:
        metadata, left_out = recordable(read_metadata(state), "metadata")
        whole = replace(said, metadata=metadata, left_out=(*said.left_out, *left_out))
        if said.stop:
            mark_stopped(state, StopReason(said.stop))
        return Taken(state=state, reflection=whole)

    # --- check_stop ---

    def _after_criteria(self, taken: Taken, turned: Turned, sofar: Sofar) -> Taken:
        """Apply the stop criteria: a limit ends what would continue, but neither an answer nor a stop, and `final`
        completes only what would continue. A retry that is not made undoes nothing.
        """
        if taken.reflection.stop:
            return taken
        can_complete = sofar.can_complete and taken.reflection.action == "continue"
        action, reason, stop = self._limit(sofar, turned, taken.state, can_complete=can_complete)
        if stop is None:
            return taken
        ended = replace(
            taken.reflection, action=action, reason=reason, stop=stop, prompt=None, patch={}, left_out=()
        )
        return self._finish(turned.state, ended)

    def _limit(
        self, sofar: Sofar, turned: Turned, state: Any, *, can_complete: bool
    ) -> tuple[TurnAction, str, StopReason | None]:
        progress = Progress(
            steps=sofar.steps,
            elapsed_ms=sofar.elapsed_ms,
            tokens=sofar.tokens,
            signatures=turned.signatures,
            states=(*turned.states, state),
        )
        for criterion in self._judges.criteria:
            try:
                said = criterion.check(progress)
                stop = None if said is None else StopReason(said)
            except Exception as error:  # noqa: BLE001 - a criterion is user code
                broken = (
                    f"the stop criterion {type(criterion).__name__} raised {type(error).__name__}: {error}"
                )
                return "escalate", broken, StopReason.ESCALATED
            if stop is StopReason.FINAL:
                if can_complete:
                    return "final", f"completed by {type(criterion).__name__}", stop
            elif stop is not None:
                return "limit", f"stopped by {stop} after {sofar.steps} steps", stop
        return "continue", "", None


def _without(taken: Taken, touched: tuple[str, ...]) -> Taken:
    """Return the outcome if critics have changed more of the state than its metadata, which no event records."""
    left_out = (*taken.reflection.left_out, *touched)
    return replace(taken, reflection=replace(taken.reflection, left_out=left_out))


def _traced(judgement: Judgement) -> JsonObject:
    """Return one critic's answer as it is recorded."""
    result = judgement.result
    trace: JsonObject = {
        "critic": storable(judgement.critic),
        "action": result.action,
        "score": result.score,
        "reason": storable(result.reason),
    }
    if isinstance(result, CriticResult) and result.details and not_plain(result.details) is None:
        trace["details"] = result.details
    return trace
