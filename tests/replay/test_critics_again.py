"""Critics that are Python: asked again where all of them are pure and their agent is at hand, and else taken at their word."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from critics.bench import Scripted, act, broken, counted, play
from tercet.cli.main import app
from tercet.contracts.errors import UsageError
from tercet.core import codec
from tercet.core import events as e
from tercet.critic.pluggable.critic import is_pure
from tercet.critics import Critic, CriticResult, Decision, Engine, SelfReflectionCritic, critic
from tercet.replay.recorded_run import IoRefused
from tercet.replay.recording import Recording, load
from tercet.replay.replay import replay_recording
from tercet.replay.rules import Agents, RuleSource
from tercet.testing.clock import VirtualClock
from tercet.tools import Tool
from tercet.view.run import ReplayReport

FINAL = Decision.final({"said": "done"})


@critic(pure=True)
def wordy(state: Any, _: object, results: Any) -> CriticResult:
    """Sends the first short word back, and counts in the metadata how often it was asked."""
    asked = state.metadata["asked"] = state.metadata.get("asked", 0) + 1
    is_short = any(len(result.get("word", "long enough")) < 6 for result in results)
    if is_short and asked == 1:
        return CriticResult("retry", "say more", 0.4, instruction_patch="Be wordy.")
    return CriticResult("continue", f"asked {asked} times", 0.9)


@critic
def undeclared(_: object, __: object, ___: object) -> str:
    """Lets everything pass, and does not say that it is pure."""
    return "continue"


def engine_of(
    critics: Sequence[Any] = (wordy,),
    script: Sequence[Any] = (act("hi"), act("good day"), FINAL),
    *,
    tools: Sequence[Tool] = (),
    **more: Any,
) -> Engine:
    """An agent that says two words, in virtual time."""
    said = tools or (counted("desk.say")[0],)
    return Engine(Scripted(script, tools=said), critics, clock=VirtualClock(), **more)


def recorded(engine: Engine, task: Any = "greet") -> Recording:
    """One run of an agent, as it was recorded."""

    async def main() -> Recording:
        result = await engine.run(task)
        async with engine.runtime() as runtime:
            return await load(runtime.journal, "default", result.session_id)

    return play(main(), engine._clock)  # pyright: ignore[reportPrivateUsage, reportArgumentType]


def again(recording: Recording, *engines: Engine) -> ReplayReport:
    """What replay says with these agents at hand."""
    return replay_recording(recording, RuleSource(agents=Agents(engines)))


def turns(report: ReplayReport) -> tuple[int, int]:
    """How many turns were judged again, and how many taken as facts."""
    assert report.difference is None, report.difference
    found = [{each.event: each.count for each in counts} for counts in (report.rederived, report.facts)]
    return found[0].get("turn_judged", 0), found[1].get("turn_judged", 0)


@pytest.mark.req("R272", "R273")
def test_pure_critics_are_asked_again() -> None:
    """With the agent at hand every word of its critics is derived again; without it, each is a fact, and the counts say so."""
    recording = recorded(engine_of())
    report = again(recording, engine_of())
    assert turns(report) == (4, 0)
    assert report.verdicts_as_facts == 0
    alone = replay_recording(recording)
    assert turns(alone) == (0, 4)
    assert alone.verdicts_as_facts == 4
    assert alone.verdicts_rederived + 4 == report.verdicts_rederived


@pytest.mark.req("R272", "R276")
@pytest.mark.parametrize("field", ["reason", "score", "action", "metadata", "prompt"])
def test_a_word_that_the_critics_did_not_say_is_named(field: str) -> None:
    """Whatever somebody changes of what the critics said afterwards, replay names it; as a fact it would pass."""
    recording = recorded(engine_of())
    other: dict[str, Any] = {
        "reason": "fine", "score": 1.0, "action": "continue", "metadata": {"asked": 7}, "prompt": "Be rude."
    }  # fmt: skip
    position, judged = next(
        (index, event)
        for index, event in enumerate(map(codec.decode, recording.events))
        if isinstance(event, e.TurnJudged)
    )
    events = list(recording.events)
    events[position] = codec.encode(msgspec.structs.replace(judged, **{field: other[field]}))
    found = again(msgspec.structs.replace(recording, events=tuple(events)), engine_of()).difference
    assert found is not None
    assert (found.event, found.position, found.field.partition(".")[0]) == (
        "turn_judged",
        position + 1,
        field,
    )


def test_critics_that_say_something_else_now_are_a_difference() -> None:
    """An agent with the same pack and stricter critics is another one: its first other word is named."""

    @critic(name="wordy", pure=True)
    def stricter(_: object, __: object, ___: object) -> CriticResult:
        return CriticResult("stop", "never good enough", 0.0)

    found = again(recorded(engine_of()), engine_of([stricter])).difference
    assert found is not None
    assert (found.event, found.field, found.recorded, found.expected) == (
        "turn_judged",
        "action",
        "retry",
        "stop",
    )


@pytest.mark.parametrize("critics", [(undeclared,), (wordy, undeclared), (undeclared, wordy)])
def test_one_that_is_not_declared_pure_makes_all_of_them_facts(critics: tuple[Any, ...]) -> None:
    """It may have written what the next one reads, so nobody is asked."""
    engine = engine_of(critics)
    assert turns(again(recorded(engine), engine))[0] == 0


def test_an_agent_with_another_pack_or_another_name_is_not_asked() -> None:
    """The pack has to have the recorded hash, and the agent the recorded name."""
    recording = recorded(engine_of())

    class Other(Scripted):
        """The same agent under another name."""

    other_pack = engine_of(tools=(counted("desk.say")[0], counted("desk.shout")[0]))
    renamed = Engine(Other((FINAL,), tools=[counted("desk.say")[0]]), [wordy])
    assert turns(again(recording, other_pack, renamed)) == (0, 4)


def test_the_critics_of_the_house_are_pure() -> None:
    """Retries with their counts and notes, and a run that they end, come out the same."""
    failing = counted("desk.say", broken)[0]
    for critics in ((), (SelfReflectionCritic(1),), (SelfReflectionCritic(0),)):
        engine = engine_of(critics, tools=(failing,))
        rederived, facts = turns(again(recorded(engine), engine))
        assert rederived > 0
        assert facts == 0


def test_purity_is_declared_by_whoever_writes_the_evaluate() -> None:
    """A subclass that judges otherwise has to say for itself that it is pure."""

    class Nosy(SelfReflectionCritic):
        """Looks at more than it is given."""

        def evaluate(self, state: Any, decision: Any, results: Any) -> CriticResult:
            """Whatever it finds."""
            return super().evaluate(state, decision, results)

    class Named(SelfReflectionCritic):
        """Only has another name."""

        name = "named"

    class Bare:
        """No Critic, and says nothing."""

        def evaluate(self, _: Any, __: Any, ___: Any, /) -> str:
            """Let pass."""
            return "continue"

    own = Bare()
    own.__dict__["pure"] = True
    told = [
        is_pure(each) for each in (SelfReflectionCritic(), Nosy(), Named(), Bare(), own, wordy, undeclared)
    ]
    assert told == [True, False, True, False, True, True, False]
    assert not is_pure(SimpleNamespace(evaluate=print, pure="yes"))
    assert not Critic.pure


@pytest.mark.req("R272")
def test_a_critic_that_is_not_as_pure_as_it_says_is_told(tmp_path: Path) -> None:
    """One that reads a file, or waits, ends the replay with an error, and not with a difference."""
    (tmp_path / "limit").write_text("3")

    @critic(name="wordy", pure=True)
    def reading(_: object, __: object, ___: object) -> str:
        (tmp_path / "limit").read_text()
        return "continue"

    @critic(name="wordy", pure=True)
    async def waiting(_: object, __: object, ___: object) -> str:
        await asyncio.sleep(0)
        return "continue"

    for impure, told in ((reading, "must not touch the world"), (waiting, "waits for something")):
        engine = engine_of([impure])
        with pytest.raises(IoRefused, match=told):
            again(recorded(engine), engine)


def test_async_critics_that_wait_for_nothing_are_asked_again() -> None:
    """An `async def` alone does not make a critic impure."""

    @critic(pure=True)
    async def calm(_: object, __: object, ___: object) -> str:
        return "continue"

    engine = engine_of([calm])
    assert turns(again(recorded(engine), engine))[1] == 0


def changing(state: Any) -> Decision:
    """A decision that changes the state by the way, which no event holds."""
    state.seen.append("aside")
    return act("again")


def test_from_a_decision_that_no_event_holds_whole_on_critics_are_taken_at_their_word() -> None:
    """What deciding did to the state is lost, and so is an object of the agent's own: the turns before are judged again."""
    own = SimpleNamespace(mode="final", final_answer={"said": "done"}, actions=[], rationale="")
    engine = engine_of([], (act("first"), changing, act("third"), FINAL))
    assert turns(again(recorded(engine), engine)) == (1, 3)
    engine = engine_of([], (act("first"), own))
    assert turns(again(recorded(engine), engine)) == (1, 1)


# --- agents that are installed ---

CLERKS = '''
from critics.bench import Scripted, act, counted
from replay.test_critics_again import FINAL, wordy
from tercet.critics import Engine

class Clerk(Scripted):
    """An agent that a distribution brings."""

def clerk(**more):
    script = (act("hi"), act("good day"), FINAL)
    return Engine(Clerk(script, tools=[counted("desk.say")[0]]), [wordy], **more)
'''


def install(folder: Path, code: str = CLERKS) -> None:
    """A distribution with an agent, as an installer leaves it."""
    (folder / "clerks.py").write_text(code)
    info = folder / "clerks-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: clerks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tercet.agents]\nClerk = clerks:clerk\n")


def command(*words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer of a command."""
    result = CliRunner().invoke(app, [*words, "--json"])
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python finds what is installed in."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, "clerks", raising=False)
    importlib.invalidate_caches()
    return folder


@pytest.mark.req("R272", "R273")
def test_an_installed_agent_is_found_by_the_command(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tercet replay` asks the critics of an agent that a distribution brings, also for a bundle; without it they are facts:
    no code comes out of the file."""
    url = f"sqlite:///{tmp_path}/runs.db"
    bundle = str(tmp_path / "run.tercet")
    install(site)
    made: Any = importlib.import_module("clerks")
    session = asyncio.run(made.clerk(journal=url).run("greet")).session_id
    assert command("export", session, "-o", bundle, "--journal", url)[0] == 0
    for source in ((session, "--journal", url), (bundle,)):
        code, told = command("replay", *source)
        assert (code, told["runs"][0]["verdicts_as_facts"]) == (0, 0)
    monkeypatch.setattr(sys, "path", sys.path[1:])
    code, told = command("replay", bundle)
    assert (code, told["runs"][0]["verdicts_as_facts"]) == (0, 4)


@pytest.mark.parametrize("code", ["raise RuntimeError('half installed')", "clerk = 5", "clerk = dict"])
def test_an_installed_agent_that_cannot_be_used_is_told(site: Path, code: str) -> None:
    """Whatever is wrong with it, the answer is typed and names what is installed."""
    install(site, code)

    class Clerk(Scripted):
        """An agent of that name."""

    recording = recorded(Engine(Clerk((FINAL,), tools=[counted("desk.say")[0]]), clock=VirtualClock()))
    with pytest.raises(UsageError, match="installed as clerks:clerk cannot be used") as told:
        replay_recording(recording, RuleSource(agents=Agents(has_installed=True)))
    assert told.value.code == "agent_unusable"
    assert replay_recording(recording).is_equal
