"""What is advised at the gate of an escalated run: more of the budget that was short, and nothing where none was."""

from __future__ import annotations

import asyncio
import lzma
from pathlib import Path

import msgspec
import pytest

from tercet.cli.sessions.next_commands import Commands, advised_extension
from tercet.contracts.loop import Phase
from tercet.contracts.verdict import Code
from tercet.core.state import OpenGate, State
from tercet.engine.session_reader import load_state
from tercet.journal.opening import open_journal
from view.screens import STORIES

COMMANDS = Commands(journal="sqlite:///tercet.db", pack="my-pack")
OUT_OF_CALLS, FAILED_STEP, FAILED_OUTPUTS = 7500, 200, 4005
"""Seeds of recorded runs: a step for which no calls were left, one that failed, outputs that stayed below a limit."""


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[int, State]:
    """The recorded runs as they escalated, by their seeds."""
    file: Path = tmp_path_factory.mktemp("stories") / "stories.db"
    file.write_bytes(lzma.decompress(STORIES.read_bytes()))

    async def load() -> dict[int, State]:
        journal = await open_journal(f"sqlite:///{file}")
        seeds = (OUT_OF_CALLS, FAILED_STEP, FAILED_OUTPUTS)
        found = {seed: await load_state(journal, f"tenant-{seed}", f"ses_{seed:05}001") for seed in seeds}
        await journal.close()
        return found

    return asyncio.run(load())


def gate_of(state: State) -> OpenGate:
    """The gate at which a run was escalated."""
    (gate,) = (each for each in state.gates.values() if each.kind == "escalation")
    return gate


def advised(state: State) -> list[str]:
    """The commands for that gate, without what all of them begin with."""
    gate = gate_of(state)
    lines = COMMANDS.answers(gate, state)
    return [line.removeprefix(f"tercet gates decide {gate.id} ") for line in lines]


def with_budget(state: State, code: str = "", **limits: int) -> State:
    """A run that was planned with other limits, and refused with a code."""
    start = msgspec.structs.replace(state.start, budget={**state.start.budget, **limits})
    verdict = {"outcome": "replan", "refusals": [{"code": code}]} if code else {}
    halted = Phase.PLAN if code else state.halted_from
    return msgspec.structs.replace(state, start=start, verdict=verdict, halted_from=halted)


@pytest.mark.req("R113")
def test_more_of_a_budget_is_advised_where_a_step_was_short_of_it(states: dict[int, State]) -> None:
    """Of the dimension of which the least is left; to resume as it stands would not help."""
    first, *others = advised(states[OUT_OF_CALLS])
    assert first == "extend --tool-calls 10"
    assert not any("resume" in line for line in others)


@pytest.mark.parametrize(
    ("code", "limit", "option"),
    [
        (Code.TOKENS_EXCEEDED, "tokens", "--tokens"),
        (Code.TOOL_CALLS_EXCEEDED, "tool_calls", "--tool-calls"),
        (Code.COST_EXCEEDED, "cost_microcents", "--cost-microcents"),
        (Code.LATENCY_EXCEEDED, "wall_clock_ms", "--wall-clock-ms"),
    ],
)
def test_a_plan_that_was_refused_for_its_budget_is_advised_more(
    states: dict[int, State], code: Code, limit: str, option: str
) -> None:
    """The code of the refusal says of what."""
    state = with_budget(states[FAILED_STEP], code, **{limit: 5})
    found = advised_extension(state, gate_of(state))
    assert (found[0], int(found[1]) > 0) == (option, True)
    assert advised_extension(with_budget(state, Code.POLICY_INVARIANT), gate_of(state)) == ()


def test_as_much_as_is_missing_is_advised(states: dict[int, State]) -> None:
    """A run that used 25 calls more than it may is given at least these."""
    state = with_budget(states[FAILED_OUTPUTS], tool_calls=5)
    state = msgspec.structs.replace(state, used=msgspec.structs.replace(state.used, tool_calls=30))
    assert advised_extension(state, gate_of(state)) == ("--tool-calls", "25")


@pytest.mark.parametrize("seed", [FAILED_STEP, FAILED_OUTPUTS])
def test_more_of_a_budget_is_not_advised_where_it_does_not_help(states: dict[int, State], seed: int) -> None:
    """No repair and no limit of quality is bought by it."""
    assert not any(line.startswith("extend") for line in advised(states[seed]))


def test_a_step_that_failed_can_be_tried_again(states: dict[int, State]) -> None:
    """Its tool may be back: then nothing else needs to be decided."""
    *_, again = advised(states[FAILED_STEP])
    assert again == "tercet sessions resume ses_00200001 --pack my-pack"
