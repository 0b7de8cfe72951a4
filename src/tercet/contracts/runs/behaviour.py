"""Numbered rule changes.

A session records the numbers it follows when it starts. A replay or a resume follows the same ones: a change that is
not among them is not applied. So changing a rule never changes a past verdict. A number is never reused, and never
removed while a journal may hold it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from tercet.contracts.errors import UsageError


class Behaviour(IntEnum):
    """A numbered change of a rule."""

    PARAMETERS_BY_NAME = 1
    """A refusal lists a tool's parameters sorted by name. Before, they were in the order of the pack file,
    which is not part of the pack's hash: two packs with the same hash gave two verdicts."""

    BEST_HANDED_OVER = 2
    """A quality loop that ends without a commit returns its best-scoring outputs. Before, it returned the
    last ones, even where a repair had made them worse."""

    EVIDENCE_READ_IN_ORDER = 3
    """Outputs are compared with the members of evidence sorted by name, and only with as much of it as can be
    read in reasonable time; a larger amount is a finding. Before, members came in the order they were
    written, which a session does not record: where two members supported the same claim, a replay named the
    other one. And everything was read, however long that blocked the event loop."""

    OUTPUTS_SAY_ENOUGH = 4
    """Outputs are judged by the third edition of the rules. An empty text is a grave defect, and no rule adds
    sections to it; a greeting must name a known person; `[amount]` is a placeholder and not a claim; a
    contradicted claim is reported together with what the evidence says, and is grave if that evidence is
    trusted; each claim that a rule removes counts as a repair. Before, unfit letters were committed: some
    consisted of an added section only, some addressed another customer."""

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
    Words that are not covered by the pack's author, a bound value, declared tests or a model with a measured
    error rate are escalated to a person. So are outputs of runs with effects that cannot be undone. Before, a
    hand-written check declared sentences supported, and wrong letters were committed. A replay takes
    judgements by the earlier rules as recorded: verification, critique, repair, the agreement of samples, and
    the resulting end of the run."""

    DELIVERY = 7
    """A step may refer to an accepted output, as in `outputs#/letter`, and no step may have the id `outputs`.
    Before, such a reference matched no step and was refused."""

    FAILED_TOOLS_RETRIED = 8
    """Before outputs are repaired, read_only calls that failed permanently are retried. Data that is missing
    because a call failed counts as a tool failure; if it persists, the run is re-planned where there is a
    planner. Before, REPAIR retried no tool."""

    OUTPUTS_READ_CLOSELY = 9
    """A label may have another value between its words (`order A-7 of 3 May`); a time of day that evidence holds as a text is
    named by labels as any other value; Arabic labels are found with their article and prefixes; and a text in a script
    without spaces is a text. A repair redacts no value that is bound or found, and keeps each of these as often as it was
    stated; bound values stay bound. A call that failed is made again once in a run, and only where a defect is due to it. A word of a schema's list
    counts as found where its decision lists it. Before, right letters were refused, and repairs lost right values."""

    LONGER_RUNS = 10
    """A stop criterion that returns `final` completes the run of an agent, and the loop guard does not count reads of tools
    that their decision lists as repeatable. Before, such a criterion was ignored, and the third equal answer to a poll was
    an error."""

    DECISIONS_TAKEN = 11
    """A decision checkpoint is taken when its step has ended, and recorded with the evidence that it rests on; where that
    has expired, the step is not accepted. Before, a checkpoint was looked at in the review only."""

    RUN_VERDICT_RECORDED = 12
    """A decision record holds the verdict on the run and the scores of its steps. Before, it held the review only, and
    these were in the journal alone."""

    LANE_GATES = 13
    """A lane waits at the gates of its reads, and they are answered at the run that started it. Before, a read behind a gate
    was refused in a lane."""

    OUTPUTS_READ_WIDELY = 14
    """An amount in another unit of the same size is the same (`two weeks` are 14 days); each line `name: value` is read by
    itself; a wrong value in a column does not make the others wrong; a right value that no repair touched stays bound;
    a value is only replaced by one in the unit that is written with it. A replay takes judgements by the earlier rules as
    recorded. Before, right letters were refused, and values that were bound in the
    first reading were free text in the second."""

    COMPENSATIONS_PASS_CIRCUITS = 15
    """An open circuit does not withhold a compensation: leaving an effect in place is worse than one more failed call. Before,
    the compensation was given up, even where a person had just asked for another attempt."""

    REPAIRS_READ_AGAIN = 16
    """Repaired outputs are read before they count, and a repair after which a right value is not there any more is undone. A
    wrong value is not replaced where another one in its sentence is refused as well, and not by its negative. Ordinals and
    decimals in words, dates in any usual order, full names, signs of currencies and of amounts, and how often in a day are
    read; a part of a known account number is not taken for a card. A replay takes judgements by the earlier rules as
    recorded. Before, wrong values of these kinds passed, and repairs could hurt letters that held them rightly."""

    EVERY_TAG_MARKS = 17
    """In a sentence, tags with names in any script, with dots in them or behind a space mark pasted text, and so do comments,
    CDATA and long quotations between corner brackets. Before, what stood between such marks counted as the caller's words."""

    OUTPUTS_VOUCHED_FOR = 18
    """Outputs are judged by what is trusted in this run: evidence of another request, evidence that untrusted input has
    chosen, and results that do not relate to the request fill no slot and vouch for nothing, and no effect delivers a
    document that is made from them. A value that came by reference vouches for itself in its own role, words of the request
    vouch only one by one, names of members are read as values are, tests vouch for what they are given, and no marked field
    chooses the locale. A replay takes judgements by the earlier rules as recorded. Before, the trust that
    evidence was stored with counted, and letters with another customer's values were committed."""

    OUTPUTS_READ_IN_ORDER = 19
    """Labels that stand together name the values behind them in order; with another number of values they name none. A row
    of a table states the values of a listed row only under its name, and once; an amount by which something changes is not
    that thing's value. A replay takes judgements by the earlier rules as recorded. Before, swapped values, unlisted
    rows and differences passed."""

    OUTPUTS_PLACED = 20
    """Where a value stands is judged as well. A declared section is the author's only with its own slots, every sign of a
    free text is free text, and so is the order of several slots. A value is found only by itself, and not together with
    the one beside it. Values that came by reference vouch for themselves only with others of their record, and under
    names of words without other signs; a rule replaces a value only beside its label. A replay takes judgements by the
    earlier rules as recorded. Before, texts of symbols, exchanged slots, mixed records and values under crossed out or
    negated names were committed."""

    PLAIN_REFUSALS = 21
    """The amounts in a refusal agree with their nouns, a value without a permitted source is named by its step and its
    parameter, and remedies fit: evidence of another request is not to be retrieved again, and no command has placeholders
    for a pack and a file. A condition that yields no boolean is shown as JSON. Before, a refusal said `1 tool calls are
    needed` and `step 0 takes to from a literal of the plan`."""

    SCHEMAS_READ_WHOLE = 22
    """Calls are compared and shown by all of their tool's schema: members that `additionalProperties` or a pattern
    declares, items of tuples, and the one alternative that accepts a value. Items of a set compare in any order, and times
    and addresses by value. Before, the same action under another spelling there was another action, and an approver did
    not see the defaults of such values."""

    RULES_SEE_DEFAULTS = 23
    """Policies, grants, limits and conditions of gates read the parameters that a call leaves out as the defaults of its
    tool's schema, unless these are null. Before, a rule for calls without a parameter held for calls with its default."""

    WIDTHS_ARE_NO_KINDS = 24
    """Formats of OpenAPI such as `int64` and `byte` say how a value is stored, not which kind it is: the name of its field
    suggests that. Marks of untrusted fields go through lists of any depth. Before, an `int64` was the kind of every other
    `int64`, and of no amount that was none, and a marked field inside a list that its mark did not name was trusted."""

    CAUSES_NAMED = 25
    """The remedy for a value without a permitted source fits its cause, a call that breaks its tool's schema is refused in
    a sentence, and repairs that end say so in plain words. Before, one remedy served every cause, a refusal quoted the
    schema (`Additional properties are not allowed`), and it did not say that no other repair was possible."""

    OUTPUTS_REPAIRED_PLAINLY = 26
    """A repair takes out every secret that the check of safety finds, encoded ones included, and fills a missing member
    from its schema alone. The request vouches for no name of a member, and a row of a listed thing stands once. A replay
    takes judgements by the earlier rules as recorded. Before, a shorter list of its own decided what a secret is, a value
    could be copied from evidence without being bound, and a requester's sentence in the names of an object and rows that
    a plan repeated were committed."""

    OPTIONAL_EFFECTS_CERTAIN = 27
    """An optional step above read_only reads nothing untrusted, nor the result of a step that untrusted words may leave out:
    such a step is skipped where it cannot be called, so the words would decide whether its effect happens. Before, a
    parameter that fails to resolve unless a text fits chose between two optional payments."""


REQUIRED_TO_RESUME: frozenset[int] = frozenset({Behaviour.STRICT_CALLS})
"""Changes that closed a security hole: a session without them can be replayed, but not resumed."""

CURRENT: tuple[int, ...] = tuple(sorted(Behaviour))
"""The changes that a new session follows."""


def is_outdated(numbers: Iterable[int]) -> bool:
    """Return whether a session that follows these changes is too old to be resumed."""
    return not REQUIRED_TO_RESUME.issubset(numbers)


def demand_known(numbers: Iterable[int], session: str) -> tuple[int, ...]:
    """Return the numbers, or raise `UsageError` if one of them comes from a later version."""
    given = tuple(numbers)
    if strange := sorted(set(given) - set(CURRENT)):
        raise UsageError(
            f"session {session} goes by rule {strange[0]}, which this version of Tercet does not know",
            code="newer_rules",
            remedy="use the version of Tercet that started it, or a later one",
        )
    return given
