"""`resolve`: makes events from a command and its answer. All events of a running session are made here.

It is pure: the answer holds everything that comes from the outside world, so a replay with the recorded answers makes the
same events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tercet.core import commands as c
from tercet.core.answers import Answer, Made
from tercet.core.resolve import calls, ending, gates, planning, sessions
from tercet.core.run import Run

RESOLVERS: dict[type[c.Command], Callable[[Run, Any, Any], Made]] = {
    c.Propose: planning.propose,
    c.Decompose: planning.decompose,
    c.Retrieve: planning.retrieve,
    c.Review: planning.review,
    c.Reflect: planning.reflect,
    c.AskModel: calls.ask_model,
    c.AwaitModel: calls.end_model_call,
    c.CheckRepeats: calls.check_repeats,
    c.Dispatch: calls.dispatch,
    c.Await: calls.end_call,
    c.Note: calls.take_note,
    c.Skip: calls.skip,
    c.Fault: calls.refuse,
    c.ProposeStep: planning.propose_step,
    c.ReviewProposals: planning.review_proposals,
    c.Judge: calls.judge,
    c.Settle: calls.settle,
    c.Ask: gates.ask,
    c.AskForLane: gates.ask_for_lane,
    c.Grant: gates.grant,
    c.Escalate: gates.escalate,
    c.Compensate: gates.compensate,
    c.Receive: sessions.receive,
    c.Resume: sessions.resume,
    c.Pause: sessions.pause,
    c.Expire: sessions.expire,
    **dict.fromkeys(c.OUTPUT_COMMANDS, ending.record_quality),
    c.Finish: ending.finish,
    c.Score: ending.score_run,
    c.StopExhausted: ending.stop,
    c.AcceptOutputs: ending.accept_outputs,
    c.End: ending.end,
}


def resolve(run: Run, command: c.Command, answer: Answer) -> Made:
    """Return the events that follow from a command and the answer to it, with the bytes stored beside them."""
    return RESOLVERS[type(command)](run, command, answer)
