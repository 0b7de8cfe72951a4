"""What is advised at the gate of a run that was handed over: what that gate takes, and what would help."""

from __future__ import annotations

import pytest

from tercet.cli.sessions.next_commands import Commands
from tercet.core.state import OpenGate, State

COMMANDS = Commands(journal="sqlite:///tercet.db", pack="my-pack")
ALL = ("extend", "replan", "accept_partial", "abandon")


def advised(reason: str, *, step: str = "", options: tuple[str, ...] = ALL) -> list[str]:
    """The commands for the gate of a run that was handed over for this reason, without what all of them begin with."""
    gate = OpenGate(
        id="ses_1.g1", kind="escalation", step=step, shown={"reason": reason, "options": list(options)}
    )
    return [line.removeprefix("tercet gates decide ses_1.g1 ") for line in COMMANDS.answers(gate, State())]


SHORT = {
    "1 tool calls are needed, 0 are left": "extend --tool-calls 10",
    "a language model cannot be asked: 25,000 tokens are needed, 1,200 are left": "extend --tokens 23800",
    "500 tokens of the executor are needed, 20 are left": "extend --tokens 1000",
    "1 ms of wall clock are needed, 0 are left": "extend --wall-clock-ms 60000",
    "plan needs 9,000,000 micro-cents, 10 are left": "extend --cost-microcents 8999990",
    "the critical path takes 90,000 ms, 1,000 ms are left": "extend --wall-clock-ms 89000",
    "cost: tokens: 95 of 100 tokens; cost: tool calls: 21 of 10 calls": "extend --tool-calls 11",
}


@pytest.mark.req("R113")
@pytest.mark.parametrize("reason", SHORT)
def test_more_of_a_budget_is_advised_where_it_was_short(reason: str) -> None:
    """Of the dimension that was short, and at least as much as was missing."""
    first, *others = advised(reason)
    assert first == SHORT[reason]
    assert others == ["replan --note 'what to do otherwise'", "accept-partial", "abandon"]


NOT_SHORT = (
    "test_pass_rate is 0.5, below 1.0, the test shop.test_total fails; no repair is left",
    "a language model cannot be asked: 500 tokens of the critic are needed, 20 are left",
    "the plan has 12 steps, and at most 4 are left",
    "cost: tokens: 95 of 100 tokens",
    "the file has 20 of 10 ms",
)


@pytest.mark.parametrize("reason", NOT_SHORT)
def test_more_of_a_budget_is_not_advised_where_it_does_not_help(reason: str) -> None:
    """No repair, no test and no limit of a role is bought by it; nor can outputs be sent back once they were handed over."""
    told = advised(reason, options=("extend", "accept_partial", "abandon"))
    assert told == ["accept-partial", "abandon"]


def test_a_step_that_failed_can_be_tried_again() -> None:
    """Its tool may be back: then nothing else needs to be decided."""
    *_, again = advised("pay.it failed: the bank is closed", step="pay")
    assert again == "tercet sessions resume ses_1 --pack my-pack"
