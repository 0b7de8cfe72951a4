"""The budget of a run: one table of its dimensions, used by reserve, settle, remaining, shortage and extend.

A row names the fields of a dimension in other structs: its limit in `RunBudget`, its total in `Used`, and the amount of
one call in an INTENT, a COMPLETE and a step. Before a call its amounts are reserved, and the cost of its compensation is
held back; once its outcome is known, the reservation is settled with the actual amounts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from tercet.contracts.context import RunContext
from tercet.contracts.lane import LaneUse
from tercet.contracts.mode import Reversibility
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.budget import BudgetUse, RunBudget
from tercet.contracts.runs.session import RoleName
from tercet.contracts.shape import unchecked
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.tool import ToolSpec
from tercet.core import events as e
from tercet.core.state import Asked, State, StepState, Used

Amounts: TypeAlias = Mapping[str, int]
"""Amounts by the names of dimensions."""
Fields: TypeAlias = dict[str, Any]
"""Amounts by the names of the struct fields that hold them."""
NOTHING: Amounts = {}


class Dimension(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of a run, and the fields that hold its amounts."""

    name: str
    """The published name, also used by extensions."""
    unit: str
    """The unit in refusals."""
    one: str = ""
    """The unit of a single one, where it differs."""
    limit: str = ""
    """The field of `RunBudget` with its limit; empty for the share of a role, which the pack limits."""
    label: str = ""
    """The label in reports."""
    used: str
    """The field of `Used` with the used amount."""
    reserved: str = ""
    """The field of `Used` with the amount that is reserved for calls in flight."""
    held: str = ""
    """The field of `Used` with the amount that is held back for compensations."""
    less: str = ""
    """The field of `Used` with the amount that does not count against the limit."""
    amount: str = ""
    """The field of an INTENT, a COMPLETE and a step with the amount of its call."""
    hold: str = ""
    """The field of an INTENT and a step with the amount that is held back for its compensation."""
    lane: str = ""
    """The field of an INTENT, a COMPLETE and a step with the amount of a lane, where `amount` does not hold it."""
    of_call: Callable[[EffectiveStep], int] | None = None
    """Returns the amount that a call needs; None if calls are not checked against this dimension."""
    of_tool: Callable[[ToolSpec | None], int] | None = None
    """Returns the amount that a call outside of the plan needs; the tool of a compensation may be unknown."""

    def spent(self, used: Used) -> int:
        """Return the amount that counts against the limit: used, reserved and held back."""
        spent = getattr(used, self.used)
        spent += getattr(used, self.reserved) if self.reserved else 0
        spent += getattr(used, self.held) if self.held else 0
        return spent - (getattr(used, self.less) if self.less else 0)

    def own(self, step: StepState) -> int:
        """Return the amount that is reserved and held back for one step."""
        reserved = getattr(step, self.amount) if self.amount and step.is_reserving else 0
        if self.lane and step.is_reserving:
            reserved += getattr(step, self.lane)
        return reserved + (getattr(step, self.hold) if self.hold else 0)


def _calls_of(call: EffectiveStep) -> int:
    return 1 if (lane := call.tool.reserves) is None else lane.tool_calls


def _tokens_of(call: EffectiveStep) -> int:
    return call.step.estimated_tokens if (lane := call.tool.reserves) is None else lane.tokens


def _cost_of(call: EffectiveStep) -> int:
    return call.tool.cost_microcents if (lane := call.tool.reserves) is None else lane.cost_microcents


DIMENSIONS = (
    Dimension(
        name="tool_calls",
        unit="tool calls",
        one="tool call",
        limit="tool_calls",
        label="tool calls",
        used="tool_calls",
        reserved="reserved_calls",
        held="held_calls",
        hold="hold_calls",
        lane="lane_calls",
        of_call=_calls_of,
        of_tool=lambda _: 1,
    ),
    Dimension(
        name="tokens",
        unit="tokens",
        one="token",
        limit="tokens",
        label="tokens",
        used="tokens",
        reserved="reserved_tokens",
        amount="tokens",
        of_call=_tokens_of,
    ),
    Dimension(
        name="executor",
        unit="tokens of the executor",
        one="token of the executor",
        used="tokens",
        reserved="reserved_tokens",
        less="model_tokens",
        amount="tokens",
        of_call=_tokens_of,
    ),
    Dimension(
        name="planner",
        unit="tokens of the planner",
        one="token of the planner",
        used="model_tokens",
        less="critic_tokens",
    ),
    Dimension(name="critic", unit="tokens of the critic", one="token of the critic", used="critic_tokens"),
    Dimension(
        name="cost_microcents",
        unit="micro-cents",
        one="micro-cent",
        limit="cost_microcents",
        label="cost",
        used="cost",
        reserved="reserved_cost",
        held="held_cost",
        amount="cost",
        hold="hold_cost",
        of_call=_cost_of,
        of_tool=lambda tool: 0 if tool is None else tool.cost_microcents,
    ),
    Dimension(
        name="wall_clock_ms",
        unit="ms of wall clock",
        limit="wall_clock_ms",
        label="time at work",
        used="wall_clock",
        of_call=lambda _: 1,
    ),
    Dimension(name="steps", unit="steps", limit="max_steps", label="steps", used="steps"),
    Dimension(name="retries", unit="retries", limit="max_retries", label="retries", used="retries"),
    Dimension(name="replans", unit="re-plans", limit="max_replans", label="re-plans", used="replans"),
    Dimension(name="repairs", unit="repairs", limit="max_repairs", label="repairs", used="repairs"),
)
"""In the order in which shortages are checked."""

BY_NAME = {each.name: each for each in DIMENSIONS}
EXTENSIBLE = tuple(name for name in RunBudget.model_fields if name in BY_NAME)
"""The dimensions that an operator may add to, in the order of the budget's fields."""

_OF_CALLS = tuple((each.name, each.of_call) for each in DIMENSIONS if each.of_call is not None)
_OF_TOOLS = tuple((each.name, each.of_tool) for each in DIMENSIONS if each.of_tool is not None)
# The fields of the budget's own dimensions in the structs of a run, for `reserve` and `settle`, which run for every call.
_TAKEN = tuple((each.used, each.reserved, each.amount) for each in DIMENSIONS if each.limit and each.amount)
_RESERVED = tuple(field for each in DIMENSIONS if each.limit for field in (each.amount, each.hold) if field)
_reserved_in: Callable[[e.Intent | StepState], tuple[int, ...]] = attrgetter(*_RESERVED)
_TAKEN_FIELDS = tuple(amount for _, _, amount in _TAKEN)
_taken_in: Callable[[e.Complete | StepState], tuple[int, ...]] = attrgetter(*_TAKEN_FIELDS)
_AMOUNTS = tuple(
    (each.amount, each.of_call) for each in DIMENSIONS if each.limit and each.of_call and each.amount
)
_HOLDS = tuple((each.name, each.hold) for each in DIMENSIONS if each.hold)
_USED = tuple((each.name, each.used) for each in DIMENSIONS if each.limit)
_HELD = tuple((each.held, each.hold) for each in DIMENSIONS if each.held)


# --- limits ---


def limits_of(budget: RunBudget, shares: Mapping[RoleName, int | None] | None = None) -> dict[str, int]:
    """Return the limit of each dimension that has one; `shares` are the tokens of roles."""
    limits = {name: getattr(budget, name) for name in EXTENSIBLE} | dict(shares or {})
    return {each.name: limit for each in DIMENSIONS if (limit := limits.get(each.name)) is not None}


def budget_of(state: State) -> RunBudget:
    """Return the budget that a run was started with, with what operators have added."""
    return extend(RunBudget.model_validate(state.start.budget), state.extended)


def extend(budget: RunBudget, more: Amounts) -> RunBudget:
    """Return a budget with raised limits; a dimension without a limit stays unlimited."""
    limits = {name: getattr(budget, name) for name in more}
    added = {name: limit + more[name] for name, limit in limits.items() if limit is not None}
    return budget.model_copy(update=added)


_MOST_MORE = 2**50
"""The maximum that one extension adds: sums stay within the numbers that every JSON reader supports, after any number
of extensions."""


def is_extension(amounts: Mapping[str, Any]) -> bool:
    """Return whether amounts extend a budget. They may be any values: an answer to a gate carries the input of a
    person."""
    is_more = all(
        name in EXTENSIBLE and type(n) is int and 0 < n <= _MOST_MORE for name, n in amounts.items()
    )
    return is_more and bool(amounts)


def remaining(used: Used, limits: Amounts) -> dict[str, int]:
    """Return the remaining amount of each dimension that has a limit."""
    return {name: max(0, limits[name] - BY_NAME[name].spent(used)) for name in EXTENSIBLE if name in limits}


def budget_use(used: Used) -> BudgetUse:
    """Return the used amounts in their published shape."""
    return unchecked(BudgetUse, {name: getattr(used, field) for name, field in _USED})


# --- shortages ---


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension of which too little is left."""

    dimension: str
    needed: int
    left: int

    def __str__(self) -> str:
        """Return the text for people, such as `2 tool calls are needed, 1 is left`."""
        unit, one = BY_NAME[self.dimension].unit, BY_NAME[self.dimension].one
        needed = f"{one or unit} is" if self.needed == 1 else f"{unit} are"
        return f"{self.needed:,} {needed} needed, {self.left:,} {'is' if self.left == 1 else 'are'} left"

    def reason(self, ctx: RunContext) -> str:
        """Return the reason of a recorded refusal, by the rules of its run."""
        if ctx.goes_by(Behaviour.PLAIN_REFUSALS):
            return str(self)
        return f"{self.needed:,} {BY_NAME[self.dimension].unit} are needed, {self.left:,} are left"


def find_shortage(
    used: Used, limits: Amounts, needs: Amounts, *, own: StepState | None = None, also: Amounts = NOTHING
) -> Shortage | None:
    """Return the first dimension with too little left for these needs; None if there is enough.

    What is reserved and held back for the step itself (`own`) is free for it. What was spent and is not in `used` yet
    (`also`) counts.
    """
    for name, limit in limits.items():
        if name not in needs:
            continue
        dimension = BY_NAME[name]
        spent = dimension.spent(used) + also.get(name, 0)
        if own is not None:
            spent -= dimension.own(own)
        if spent + needs[name] > limit:
            return Shortage(dimension=name, needed=needs[name], left=max(0, limit - spent))
    return None


# --- amounts of a call ---


def needs_of_call(call: EffectiveStep, hold: Amounts) -> dict[str, int]:
    """Return the amounts that a call needs, including those to hold back for its compensation."""
    return {name: amount(call) + hold.get(name, 0) for name, amount in _OF_CALLS}


def needs_of_look_up(tool: ToolSpec) -> dict[str, int]:
    """Return the amounts that a call outside of the plan needs: one that looks up evidence, tests outputs or attacks
    them."""
    return {**needs_of_tools([tool]), "wall_clock_ms": 1}


def needs_of_tools(tools: Iterable[ToolSpec | None]) -> dict[str, int]:
    """Return the amounts that one call of each of these tools needs together; None stands for an unknown tool."""
    made = tuple(tools)
    return {name: sum(map(amount, made)) for name, amount in _OF_TOOLS}


def hold_of(call: EffectiveStep, tools: Mapping[str, ToolSpec]) -> Amounts:
    """Return the amounts to hold back for the compensation of a call."""
    if call.compensate is None or call.reversibility is Reversibility.PURE:
        return NOTHING
    return needs_of_tools([tools.get(call.compensate.tool)])


def reservation_of(call: EffectiveStep, hold: Amounts) -> Fields:
    """Return the fields of an INTENT that reserve a call and hold back its compensation; mostly none."""
    fields: Fields = {}
    for field, amount in _AMOUNTS:
        if n := amount(call):
            fields[field] = n
    if hold:
        fields |= {field: hold[name] for name, field in _HOLDS if name in hold}
    if call.tool.reserves is not None:
        fields["lane_calls"] = call.tool.reserves.tool_calls
    return fields


def reserved_for(step: StepState, event: e.Intent) -> Fields:
    """Return the fields of a step that its INTENT changes with reserved and held amounts; mostly none."""
    amounts = _reserved_in(event)
    return {} if amounts == _reserved_in(step) else dict(zip(_RESERVED, amounts, strict=True))


def amounts_of(step: StepState) -> Fields:
    """Return the fields of a COMPLETE with the amounts of a step's last call; mostly none."""
    amounts = _taken_in(step)
    return dict(zip(_TAKEN_FIELDS, amounts, strict=True)) if any(amounts) else {}


def amounts_of_lane(used: LaneUse) -> Fields:
    """Return the fields of a lane's COMPLETE with the amounts that its run used."""
    return {"tokens": used.tokens, "cost": used.cost_microcents, "lane_calls": used.tool_calls}


# --- how `Used` changes ---


def add(used: Used, **amounts: int) -> Used:
    """Return the usage with these amounts added to fields of `Used`."""
    return msgspec.structs.replace(used, **{name: getattr(used, name) + n for name, n in amounts.items()})


def reserve(used: Used, step: StepState, event: e.Intent) -> Used:
    """Return the usage when a call begins: its amounts are reserved, and those of its compensation are held back.

    Where an attempt before this one may have happened, the same reservation is kept for both.
    """
    changes: dict[str, int] = {}
    if event.lane_calls:
        kept = step.lane_calls if step.is_reserving else 0
        changes["reserved_calls"] = used.reserved_calls + event.lane_calls - kept
    elif event.tool:  # a note calls nothing
        changes["reserved_calls"] = used.reserved_calls + 1
    if not step.attempt and not any(_reserved_in(event)):
        return msgspec.structs.replace(used, **changes)
    is_kept = step.is_reserving
    for _, reserved, amount in _TAKEN:
        if more := getattr(event, amount) - (getattr(step, amount) if is_kept else 0):
            changes[reserved] = getattr(used, reserved) + more
    for held, hold in _HELD:
        if more := getattr(event, hold) - getattr(step, hold):
            changes[held] = getattr(used, held) + more
    return msgspec.structs.replace(used, **changes) if changes else used


def settle(used: Used, step: StepState, taken: e.Complete | None) -> Used:
    """Return the usage when the outcome of a call is known: its reservation is released, and the actual amounts are
    booked.

    Without `taken` it did not happen, and nothing is held back for it. A call whose outcome was unknown until now was
    counted when it became unknown; its amounts were kept.
    """
    changes: dict[str, int] = {}
    if taken is not None:
        changes["steps"] = used.steps + 1
    if step.calls and step.status == "in_flight":
        changes["tool_calls"] = used.tool_calls + step.calls
        changes["reserved_calls"] = used.reserved_calls - step.calls
    if step.is_lane:
        if taken is not None:
            changes["tool_calls"] = used.tool_calls + taken.lane_calls
        if step.is_reserving:
            changes["reserved_calls"] = used.reserved_calls - step.lane_calls
    if any(_reserved_in(step)) or (taken is not None and any(_taken_in(taken))):
        is_kept = step.is_reserving
        for field, reserved, amount in _TAKEN:
            if taken is not None:
                changes[field] = getattr(used, field) + getattr(taken, amount)
            if is_kept:
                changes[reserved] = getattr(used, reserved) - getattr(step, amount)
        if taken is None:
            for held, hold in _HELD:
                changes[held] = getattr(used, held) - getattr(step, hold)
    return msgspec.structs.replace(used, **changes) if changes else used


def count_call(used: Used, step: StepState) -> Used:
    """Return the usage when a call may have happened: it counts as made, and its amounts stay reserved."""
    return add(used, tool_calls=step.calls, reserved_calls=-step.calls)


def count_interrupted(used: Used, of_lanes: int = 0) -> Used:
    """Return the usage when a process has stopped: its calls count as made, and their amounts stay reserved.

    So do the calls that are reserved for lanes: their runs go on, and say at their end how many they made.
    """
    made = used.reserved_calls - of_lanes
    return add(used, tool_calls=made, reserved_calls=-made)


def release_holds(used: Used) -> Used:
    """Return the usage when compensations begin: nothing is held back for them any more."""
    return msgspec.structs.replace(used, **{held: 0 for held, _ in _HELD})


NO_HOLD: Fields = {hold: 0 for _, hold in _HELD}
"""The fields of a step for which nothing is held back."""


def reserve_for_model(used: Used, event: e.ModelAsked) -> Used:
    """Return the usage when a model is asked; asking again is a retry."""
    retries = int(event.attempt > 1)
    return add(used, reserved_tokens=event.tokens, reserved_cost=event.cost, retries=retries)


def settle_model(used: Used, asked: Asked, tokens: int, cost: int, role: RoleName) -> Used:
    """Return the usage when a model has answered: its reservation is released, and the actual amounts are booked."""
    return add(
        used,
        tokens=tokens,
        model_tokens=tokens,
        critic_tokens=tokens if role == "critic" else 0,
        cost=cost,
        reserved_tokens=-asked.tokens,
        reserved_cost=-asked.cost,
    )
