"""Rules that have changed: each has a number, for life.

A session writes down the numbers that it goes by when it starts. Whoever judges it again, or carries it on, goes by the
same: a rule that is not among them is applied as it was before its number was given. So a change of a rule changes no
past verdict. A number is never used again, and never taken away while a journal may hold it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from tercet.contracts.errors import UsageError


class Behaviour(IntEnum):
    """A rule that has changed."""

    PARAMETERS_BY_NAME = 1
    """A refusal lists what a tool takes in the order of the names. Before, it was the order in which the pack's author had
    written them, which the hash of a pack does not know: two packs with one hash gave two verdicts."""

    BEST_HANDED_OVER = 2
    """A quality loop that ends without a commit hands over the outputs that were judged best. Before, it was the last
    ones, also where a repair had left them worse."""

    EVIDENCE_READ_IN_ORDER = 3
    """Outputs are held against evidence in the order of the names of its members, and against so much of it as can be read
    in reasonable time; more is a finding. Before, it was the order in which they were written, which what a session keeps
    does not know: of two members that bear a claim out alike, a replay named the other. And all of it was read, however
    long the event loop was held."""

    OUTPUTS_SAY_ENOUGH = 4
    """Outputs are judged by the third edition of the rules. An empty text is a grave defect, to which no rule adds
    sections; a greeting must name somebody who is known; `[amount]` is a placeholder and no claim; what is contradicted
    is told together with what the evidence says, and is grave if that is trusted; each claim that a rule took out counts
    as a repair. Before, letters that nobody should send were committed: of nothing but an added section, or to another
    customer."""

    STRICT_CALLS = 5
    """Approvals and sources cover everything that a call depends on. A proposed compensation is checked like any call, and
    is resolved and bound when its step is dispatched; a value computed by a planner counts as trusted only where it selects,
    adds or subtracts trusted values; a policy that cannot be decided refuses; a precondition needs a completed step; policies
    see what the run has already done; values settled by the run's owner are untrusted; only trusted evidence meets a
    requirement; a step that may not run satisfies no policy; an action is all that its tool
    receives, unless an identity is declared or an authority parameter is a number; and a value
    with authority comes from the request, from evidence that its step pins and that relates to the request, or from a result
    that the step depends on, and is of the kind that its parameter takes. Before, each of these checks could be bypassed."""

    OUTPUTS_SCREENED = 6
    """Outputs are rendered and read, and a deterministic check may refuse a value in them; it never calls a text right.
    Words that neither the pack's author, nor a bound value, nor declared tests, nor a model with a measured error rate
    vouch for go to a person. So do outputs of runs with effects that cannot be undone. Before, a hand-written check called
    sentences supported, and wrong letters were committed. Judgements by the earlier rules are facts in a replay: how
    outputs were verified, criticised and repaired, what samples agreed on, and how the run was to end by that."""

    DELIVERY = 7
    """A step may take an accepted output, `outputs#/letter`, and no step has the id `outputs`. Before, such a reference
    led to no step and was refused."""

    FAILED_TOOLS_RETRIED = 8
    """Before outputs are repaired, read_only calls that failed for good are made again. What is missing because a call
    failed is a failure of its tool, and one that stays leads to another plan where there is a planner. Before, no tool was
    called again in REPAIR."""

    OUTPUTS_READ_CLOSELY = 9
    """A label may have another value between its words (`order A-7 of 3 May`); a time of day that evidence holds as a text is
    named by labels as any other value; Arabic labels are found with their article and prefixes; and a text in a script
    without spaces is a text. A repair redacts no value that is bound or found, and keeps each of these as often as it was
    stated; bound values stay bound. A call that failed is made again once in a run, and only where a defect is due to it. A word of a schema's list
    counts as found where its decision lists it. Before, right letters were refused, and repairs lost right values."""


REQUIRED_TO_RESUME: frozenset[int] = frozenset({Behaviour.STRICT_CALLS})
"""Rules whose absence was a security hole: a session without them can be replayed, but not resumed."""

CURRENT: tuple[int, ...] = tuple(sorted(Behaviour))
"""What a session that starts now goes by."""


def is_outdated(numbers: Iterable[int]) -> bool:
    """Return whether these rules lack one that a session needs in order to be resumed."""
    return not REQUIRED_TO_RESUME.issubset(numbers)


def demand_known(numbers: Iterable[int], session: str) -> tuple[int, ...]:
    """The numbers, if this version knows all of them; raises `UsageError` for one from a later version."""
    given = tuple(numbers)
    if strange := sorted(set(given) - set(CURRENT)):
        raise UsageError(
            f"session {session} goes by rule {strange[0]}, which this version of Tercet does not know",
            code="newer_rules",
            remedy="use the version of Tercet that started it, or a later one",
        )
    return given
