"""Runs that wait for a person, and runs that another process takes up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from engine.workshop import Held
from tercet.contracts.errors import UsageError
from tercet.critics import (
    CriticResult,
    Decision,
    Engine,
    EngineResult,
    MaxSteps,
    SelfReflectionCritic,
    StopReason,
    critic,
)
from tercet.journal.memory import MemoryJournal
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal
from tercet.testing.clock import VirtualClock

from .bench import ADA, BOB, Scripted, State, act, actions, broken, counted, last, play

DONE = Decision.final("done")


def answer(engine: Engine, gate: str, word: str, **more: Any) -> Any:
    """Somebody's answer to a gate of an engine's run."""

    async def said() -> Any:
        async with engine.runtime() as runtime:
            if word in ("replan", "accept_partial"):
                return await runtime.decide(gate, word, actor=BOB, **more)
            return await getattr(runtime, word)(gate, actor=BOB, **more)

    return said()


class Desk:
    """One agent after the other on one journal, each in an engine of its own, as processes would be."""

    def __init__(self, url: str) -> None:
        self.clock = VirtualClock()
        self._url = url
        self._opened: Any = None
        self.journal = cast("Journal", _Opened(self))

    @property
    def opened(self) -> Any:
        """The journal, while something is played."""
        return self._opened

    def engine(self, agent: Any, critics: Any = (), **more: Any) -> Engine:
        """An engine that knows nothing of the others."""
        return Engine(agent, critics, clock=self.clock, journal=self.journal, actor=ADA, **more)

    def play(self, main: Any) -> Any:
        """In virtual time, which stands still while threads write the file."""
        return play(self._on_file(main), self.clock)

    async def _on_file(self, main: Any) -> Any:
        with self.clock.hold():
            opening = open_journal(self._url)
            self._opened = Held(await opening.__aenter__(), self.clock)
        try:
            return await main
        finally:
            with self.clock.hold():
                await opening.__aexit__(None, None, None)


class _Opened:
    """The journal that a desk has opened for what is played."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._desk.opened, name)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk on a file."""
    return Desk(f"sqlite:///{tmp_path / 'runs.db'}")


def gate_of(result: EngineResult) -> str:
    """The gate at which a run waits."""
    assert result.gate is not None
    return result.gate.id


@pytest.mark.parametrize("mode", ["network", "delegated", "destructive"])
def test_a_grave_call_waits_for_a_person_and_happens_once(mode: str) -> None:
    """The run stands still at the call, goes on after the approval, and nothing before it is done again."""
    clock = VirtualClock()
    say, said = counted("desk.say")
    send, sent = counted("desk.send", mode=mode)
    agent = Scripted([act("a"), act("b", "desk.send"), DONE], [say, send])
    engine = Engine(agent, clock=clock, actor=ADA)
    waiting = play(engine.run("t"), clock)
    assert (waiting.stop_reason, waiting.status) == (StopReason.WAITING, "awaiting_gate")
    assert (sent, last(waiting).action, last(waiting).results) == ([], "open", ())
    assert waiting.gate is not None
    assert (waiting.gate.kind, waiting.gate.shown["params"]) == ("approval", {"word": "b"})
    play(answer(engine, gate_of(waiting), "approve"), clock)
    result = play(engine.resume(waiting.session_id), clock)
    assert (result.final_answer, said, sent) == ("done", ["a"], ["b"])
    assert len(agent.met) == 3  # the decision that waited was not taken again


def test_a_run_can_be_moved_to_the_tools_that_the_agent_has_now() -> None:
    """Where a tool is declared otherwise by now, resuming is refused with the remedy; moved, the gate opens again."""
    clock, journal = VirtualClock(), MemoryJournal()
    say, said = counted("desk.say")
    send, sent = counted("desk.send", mode="network")
    script = [act("a"), act("b", "desk.send"), DONE]
    waiting = play(
        Engine(Scripted(script, [say, send]), clock=clock, actor=ADA, journal=journal).run("t"), clock
    )
    changed, resent = counted("desk.send", mode="network", description="Send it by post.")
    engine = Engine(Scripted(script, [say, changed]), clock=clock, actor=ADA, journal=journal)
    with pytest.raises(UsageError) as caught:
        play(engine.resume(waiting.session_id), clock)
    assert caught.value.code == "pack_version_mismatch"
    assert "engine.migrate" in (caught.value.remedy or "")
    moved = play(engine.migrate(waiting.session_id), clock)
    assert (moved.status, gate_of(moved) == gate_of(waiting)) == ("awaiting_gate", False)
    play(answer(engine, gate_of(moved), "approve"), clock)
    result = play(engine.resume(waiting.session_id), clock)
    assert (result.final_answer, said, sent, resent) == ("done", ["a"], [], ["b"])


def test_an_irreversible_call_waits_whatever_its_mode() -> None:
    """What cannot be taken back is not done unasked."""
    clock = VirtualClock()
    burn, burnt = counted("desk.burn", mode="local_write", reversibility="irreversible")
    engine = Engine(Scripted([act("a", "desk.burn"), DONE], [burn]), clock=clock)
    assert (play(engine.run("t"), clock).stop_reason, burnt) == (StopReason.WAITING, [])


def test_who_started_a_run_cannot_approve_it() -> None:
    """The owner's word is none, also in a pack that the Engine made."""
    clock = VirtualClock()
    engine = Engine(
        Scripted([act("a", "desk.send")], [counted("desk.send", mode="network")[0]]), clock=clock, actor=BOB
    )
    waiting = play(engine.run("t"), clock)
    with pytest.raises(UsageError):
        play(answer(engine, gate_of(waiting), "approve"), clock)


def test_a_denied_call_ends_the_run() -> None:
    """A person's no is the end, and is told as such."""
    clock = VirtualClock()
    send, sent = counted("desk.send", mode="network")
    engine = Engine(Scripted([act("a", "desk.send"), DONE], [send]), clock=clock)
    waiting = play(engine.run("t"), clock)
    play(answer(engine, gate_of(waiting), "deny", note="not today"), clock)
    result = play(engine.resume(waiting.session_id), clock)
    assert (result.stop_reason, result.status, result.final_answer) == (StopReason.REJECTED, "rejected", None)
    assert sent == []


def test_a_change_that_a_person_asks_for_is_told_to_the_agent() -> None:
    """Modify comes back as a result, and the agent decides otherwise."""
    clock = VirtualClock()
    send, sent = counted("desk.send", mode="network")
    agent = Scripted([act("loud", "desk.send"), DONE], [send])
    engine = Engine(agent, clock=clock)
    waiting = play(engine.run("t"), clock)
    play(answer(engine, gate_of(waiting), "modify", note="say it softly"), clock)
    result = play(engine.resume(waiting.session_id), clock)
    (told,) = result.steps[0].results
    assert (told["error_type"], told["error"]) == ("modified", "a person asks for a change: say it softly")
    assert (result.final_answer, sent) == ("done", [])


def test_an_effect_that_may_have_happened_is_asked_about() -> None:
    """A writing tool that raises leaves it open whether it wrote: a person says so, and the agent goes on with that."""
    clock = VirtualClock()
    write, calls = counted("desk.write", broken, mode="local_write")
    agent = Scripted([act("a", "desk.write"), DONE], [write])
    engine = Engine(agent, [SelfReflectionCritic()], clock=clock)
    waiting = play(engine.run("t"), clock)
    assert (waiting.stop_reason, waiting.gate and waiting.gate.kind) == (StopReason.WAITING, "reconcile")
    play(answer(engine, gate_of(waiting), "settle", happened=True, value={"page": 3}), clock)
    result = play(engine.resume(waiting.session_id), clock)
    assert (result.final_answer, calls, result.state.seen[0]) == ("done", ["a"], [{"page": 3}])


def test_a_value_that_a_person_typed_is_not_trusted_in_later_turns() -> None:
    """An agent's pack names no role whose word counts: what was typed waits for an approval before it decides anything."""
    clock = VirtualClock()
    write, _ = counted("desk.write", broken, mode="local_write", authority=[])
    send, sent = counted("desk.send", mode="network")
    agent = Scripted([act("t", "desk.write"), act("typed", "desk.send"), DONE], [write, send])
    engine = Engine(agent, clock=clock)
    waiting = play(engine.run("t"), clock)
    play(answer(engine, gate_of(waiting), "settle", happened=True, value={"word": "typed"}), clock)
    waiting = play(engine.resume(waiting.session_id), clock)

    async def state() -> Any:
        async with engine.runtime() as runtime:
            return await runtime.state(waiting.session_id)

    assert play(state(), clock).learned == ()
    assert waiting.gate is not None
    assert "equals nothing in the trusted" in waiting.gate.shown["sources"]["word"]
    assert sent == []


def test_a_stopped_run_goes_on_where_a_person_lets_it() -> None:
    """After a critic's stop, a person may ask for another decision: the agent hears it in its prompt."""
    clock = VirtualClock()

    @critic
    def wary(state: Any, decision: Any, results: Any) -> Any:
        return ("stop", "is this right?") if decision.final_answer == "maybe" else "continue"

    agent = Scripted([Decision.final("maybe"), DONE])
    engine = Engine(agent, [wary], clock=clock)
    stopped = play(engine.run("t"), clock)
    assert (stopped.stop_reason, stopped.final_answer) == (StopReason.CRITIC_STOP, None)
    play(answer(engine, gate_of(stopped), "replan", note="be sure of it"), clock)
    result = play(engine.resume(stopped.session_id), clock)
    assert (result.final_answer, result.stop_reason) == ("done", StopReason.FINAL)
    assert agent.prompts[1].endswith("be sure of it")
    assert result.state.stop_reason is StopReason.FINAL


def test_what_is_accepted_as_partial_has_no_answer() -> None:
    """A person may close a run that a critic stopped; the answer that the critic rejected is not returned for that."""
    clock = VirtualClock()

    @critic
    def wary(state: Any, decision: Any, results: Any) -> Any:
        return "stop", "no"

    engine = Engine(Scripted([Decision.final("maybe")]), [wary], clock=clock)
    stopped = play(engine.run("t"), clock)
    play(answer(engine, gate_of(stopped), "accept_partial"), clock)
    result = play(engine.resume(stopped.session_id), clock)
    assert (result.status, result.stop_reason) == ("completed", StopReason.PARTIAL)
    assert (result.final_answer, result.outputs) == (None, {})


def test_another_engine_rebuilds_the_state(desk: Desk) -> None:
    """A process that never saw the run comes to the same state, prompt and metadata, and decides nothing anew."""
    patches: list[Any] = [
        CriticResult("retry", "again", instruction_patch="Softly.", state_patch={"task": "patched"}),
        "continue",
        CriticResult("retry", "once more", modified_prompt="Loudly."),
    ]

    @critic
    def listed(state: Any, decision: Any, results: Any) -> Any:
        state.metadata["n"] = state.metadata.get("n", 0) + 1
        return patches[state.metadata["n"] - 1] if state.metadata["n"] <= len(patches) else "continue"

    def line(state: State) -> Any:
        n = state.metadata.get("n", 0)
        return act(str(n)) if n < 3 else act("go", "desk.send") if n == 3 else DONE

    def agent() -> Scripted:
        return Scripted([line], [counted("desk.say")[0], counted("desk.send", mode="network")[0]])

    first, second = agent(), agent()
    waiting = desk.play(desk.engine(first, [listed]).run("t"))
    assert (actions(waiting), first.prompts[-1]) == (["retry", "continue", "retry", "open"], "Loudly.")
    other = desk.engine(second, [listed])
    desk.play(answer(other, gate_of(waiting), "approve"))
    result = desk.play(other.resume(waiting.session_id))
    assert (result.final_answer, len(second.met)) == ("done", 1)
    assert second.met[0].metadata == {"n": 4}
    assert second.met[0].task == "patched"
    assert second.met[0].seen == [[{"word": "1"}], [{"word": "go"}]]
    assert second.prompts == ["You are a clerk."]
    assert actions(result) == ["retry", "continue", "retry", "continue", "final"]


def test_dicts_come_back_as_they_were(desk: Desk) -> None:
    """A dict that an agent decided with reaches the reducer of another process with all its fields."""
    taken: list[Any] = []

    @dataclass
    class Keen(Scripted):
        def reduce(self, state: State, decision: Any, results: Any) -> None:
            taken.append(decision)
            super().reduce(state, decision, results)

    said = {"tool": "desk.say", "args": {"word": "a"}, "thought": "why", "confidence": 0.4}
    script = [said, {"tool": "desk.send", "args": {"word": "b"}}, DONE]
    tools = [counted("desk.say")[0], counted("desk.send", mode="network")[0]]
    waiting = desk.play(desk.engine(Keen(script, tools)).run("t"))
    taken.clear()
    other = desk.engine(Keen(script, tools))
    desk.play(answer(other, gate_of(waiting), "approve"))
    assert desk.play(other.resume(waiting.session_id)).final_answer == "done"
    assert taken == script


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        ("metadata", "metadata.client"),
        ("patch", "patch.hint"),
        ("decide", "state.seen"),
        ("critic", "state.seen"),
    ],
)
def test_what_the_journal_does_not_hold_is_not_made_up(desk: Desk, spoil: str, told: str) -> None:
    """The process that has the state goes on; another one refuses, says what is missing, and records nothing."""

    @critic
    def careless(state: Any, decision: Any, results: Any) -> Any:
        n = state.metadata["n"] = state.metadata.get("n", 0) + 1
        if spoil == "metadata":
            state.metadata["client"] = careless
        if spoil == "critic":
            state.seen.append("a remark")
        if spoil == "patch" and n == 1:
            return CriticResult("retry", "take this", state_patch={"hint": careless})
        return "continue"

    def line(state: State) -> Any:
        if spoil == "decide":
            state.seen.append("a thought")
        return act("a") if state.at == 0 else act("b", "desk.send") if state.at == 1 else DONE

    tools = [counted("desk.say")[0], counted("desk.send", mode="network")[0]]
    engine = desk.engine(Scripted([line], tools), [careless])
    waiting = desk.play(engine.run("t"))
    desk.play(answer(engine, gate_of(waiting), "approve"))
    with pytest.raises(UsageError) as error:
        desk.play(desk.engine(Scripted([line], tools), [careless]).resume(waiting.session_id))
    assert error.value.code == "state_lost"
    assert told in error.value.message
    assert desk.play(engine.resume(waiting.session_id)).final_answer == "done"


def test_a_state_whose_parts_cannot_be_compared_can_be_rebuilt(desk: Desk) -> None:
    """Objects that equal only themselves do not pass for changes of decide."""

    class Thing:
        pass

    @dataclass
    class Collecting(Scripted):
        def reduce(self, state: State, decision: Any, results: Any) -> None:
            state.seen.append([Thing()])
            state.at += 1

    def agent() -> Scripted:
        tools = [counted("desk.say")[0], counted("desk.send", mode="network")[0]]
        return Collecting([act("a"), act("b", "desk.send"), DONE], tools)

    waiting = desk.play(desk.engine(agent()).run("t"))
    other = desk.engine(agent())
    desk.play(answer(other, gate_of(waiting), "approve"))
    assert desk.play(other.resume(waiting.session_id)).final_answer == "done"


def test_an_agent_that_cannot_follow_its_own_steps_is_told(desk: Desk) -> None:
    """A reducer that raises on what was recorded cannot be brought to where the run stands."""

    @dataclass
    class Changed(Scripted):
        def reduce(self, state: State, decision: Any, results: Any) -> None:
            raise TypeError("another version")

    tools = [counted("desk.say")[0], counted("desk.send", mode="network")[0]]
    script = [act("a"), act("b", "desk.send"), DONE]
    waiting = desk.play(desk.engine(Scripted(script, tools)).run("t"))
    changed = Changed(script, tools)
    changed.__class__.__name__ = "Scripted"  # the same agent, by its name and its tools, with other code
    with pytest.raises(UsageError, match="at step 1: reduce raised TypeError: another version"):
        desk.play(desk.engine(changed).resume(waiting.session_id))


def test_only_the_agent_that_began_a_run_carries_it_on(desk: Desk) -> None:
    """Another kind of agent, or a session that is not there, is refused."""

    class Stranger(Scripted):
        pass

    send = counted("desk.send", mode="network")[0]
    waiting = desk.play(desk.engine(Scripted([act("a", "desk.send")], [send])).run("t"))
    with pytest.raises(UsageError) as error:
        desk.play(desk.engine(Stranger([DONE], [send])).resume(waiting.session_id))
    assert error.value.code == "wrong_agent"
    with pytest.raises(UsageError) as error:
        desk.play(desk.engine(Scripted([DONE], [send])).resume("ses_nowhere"))
    assert error.value.code == "unknown_session"


def test_a_run_that_is_over_can_be_looked_at_again(desk: Desk) -> None:
    """Resuming what is over calls nothing, and tells state, answer and steps."""
    say, calls = counted("desk.say")
    first = desk.play(desk.engine(Scripted([act("a"), DONE], [say])).run("t"))
    again = desk.play(desk.engine(Scripted([act("a"), DONE], [say])).resume(first.session_id))
    assert (again.final_answer, again.stop_reason, calls) == ("done", StopReason.FINAL, ["a"])
    assert (again.state.at, again.steps) == (2, first.steps)


def test_retries_are_counted_across_processes(desk: Desk) -> None:
    """A critic's count is in the journal: a new process does not begin to count anew."""
    say, calls = counted("desk.say", broken)
    send, _ = counted("desk.send", mode="network")

    def line(state: State) -> Any:
        return act("a") if state.metadata.get("self_reflection_retries", 0) != 2 else act("b", "desk.send")

    critics = [SelfReflectionCritic(max_retries=2)]
    waiting = desk.play(desk.engine(Scripted([line], [say, send]), critics).run("t"))
    assert (waiting.stop_reason, len(calls)) == (StopReason.WAITING, 2)
    other = desk.engine(Scripted([line], [say, send]), critics, stop=[MaxSteps(3)])
    desk.play(answer(other, gate_of(waiting), "approve"))
    assert desk.play(other.resume(waiting.session_id)).stop_reason is StopReason.MAX_STEPS


def test_a_turn_that_is_cut_off_while_it_is_judged_is_taken_in_once() -> None:
    """Whoever gives up waiting for a critic and resumes with the same Engine finds the state of the turn before."""
    clock = VirtualClock()
    send, sent = counted("desk.send", mode="network")
    is_slow = [True]

    @critic
    async def slow(state: Any, decision: Any, results: Any) -> CriticResult:
        if is_slow and decision.mode == "act":
            is_slow.clear()
            await asyncio.Event().wait()
        return CriticResult(action="continue")

    engine = Engine(Scripted([act("a", "desk.send"), DONE], [send]), [slow], clock=clock, actor=ADA)

    async def main() -> EngineResult:
        waiting = await engine.run("a")
        await answer(engine, gate_of(waiting), "approve")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(engine.resume(waiting.session_id), 1)
        return await engine.resume(waiting.session_id)

    result = play(main(), clock)
    assert (result.status, sent) == ("completed", ["a"])
    assert result.state.seen == [[{"word": "a"}], []]


def test_a_runtime_without_the_agent_does_not_judge_its_turn() -> None:
    """It makes the call that was approved and pauses; the Engine goes on from there."""
    clock = VirtualClock()
    send, sent = counted("desk.send", mode="network")
    engine = Engine(Scripted([act("a", "desk.send"), DONE], [send]), clock=clock, actor=ADA)

    async def main() -> EngineResult:
        waiting = await engine.run("a")
        await answer(engine, gate_of(waiting), "approve")
        async with engine.runtime() as runtime:
            paused = await runtime.resume(waiting.session_id)
        assert (paused.status, "agent:Scripted" in paused.reason) == ("paused", True)
        return await engine.resume(waiting.session_id)

    result = play(main(), clock)
    assert (result.status, result.final_answer, sent) == ("completed", "done", ["a"])
