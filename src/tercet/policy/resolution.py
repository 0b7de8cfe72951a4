"""Replaces the references of a call by values, once the results that they point to are available.

A plan of a few lines can ask for gigabytes: each note adds the previous one to itself. So sizes are limited before
anything is assembled: what an expression adds or builds, and the sum of several references in one value. A single
reference needs no limit: it is as large as the result that it points to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tercet.contracts.errors import TercetError
from tercet.contracts.personal import find_tokens
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values import pointer, references
from tercet.contracts.values.references import Place, Reference, Selection
from tercet.contracts.values.trust import scalar
from tercet.policy.expressions import evaluate_planner

MAX_COMPUTED_BYTES = 2**18
"""The maximum size of all reads of an expression that adds or builds something, counted as often as they occur."""
MAX_RESOLVED_BYTES = 64 * 2**20
"""The maximum size of several references in one value together: twice that of a tool's result."""
VALUE_TOO_LARGE = "value_too_large"
MAX_SELECTED_FROM = 200_000
"""The maximum number of items that the selections of one value, or of one plan at review, read together, per condition."""
NOTHING_SELECTED = "nothing_selected"
NOT_COMPARABLE = "not_comparable"
PERSONAL_TOKEN = "personal_token"  # noqa: S105 - no password
_NODE_BYTES = 4
"""The size that a number, or a container without its members, counts as."""


class ResolutionError(TercetError):
    """A reference without a value, or an expression that fails."""

    default_code = "unresolved"


def resolve(
    value: Any, results: Mapping[str, Any], evidence: Mapping[str, Any], *, is_bounded: bool = True
) -> Any:
    """Return a JSON value with every reference replaced.

    `results` maps names to values: steps by id, `request`, and inside a compensation `self` and `params`; `evidence`
    maps ids to the content of pinned facts. Sessions from before the size limits have none.
    """
    return Resolver(results, evidence, is_bounded=is_bounded).resolve(value)


class Resolver:
    """Resolves one value, or several together, and adds up the sizes of their references."""

    def __init__(
        self, results: Mapping[str, Any], evidence: Mapping[str, Any], *, is_bounded: bool = True
    ) -> None:
        self._results = results
        self._evidence = evidence
        self._is_bounded = is_bounded
        self._left = MAX_RESOLVED_BYTES
        self._count = 0
        self._first: Any = None
        self._items = ItemBudget()

    def resolve(self, value: Any) -> Any:
        """Return a JSON value with every reference replaced."""
        members = as_object(value)
        if members is not None:
            reference = references.as_reference(members)
            if reference is not None:
                return self._add_to_total(self._look_up(reference))
            if len(members) == 1 and references.LITERAL in members:
                return members[references.LITERAL]
            return {key: self.resolve(member) for key, member in members.items()}
        items = as_list(value)
        return value if items is None else [self.resolve(item) for item in items]

    def _look_up(self, reference: references.Reference) -> Any:
        if reference.selection is not None:
            return select(reference.selection, self._look_up, self._items)
        match reference.kind:
            case "cel":
                return evaluate(reference.text, self._results, self._evidence, is_bounded=self._is_bounded)
            case "evidence":
                return _follow(self._evidence, reference)
            case _:
                return _follow(self._results, reference)

    def _add_to_total(self, found: Any) -> Any:
        if not self._is_bounded:
            return found
        self._count += 1
        if self._count == 1:
            self._first = found
            return found
        if self._count == 2:
            self._left -= measure(self._first, self._left)
        self._left -= measure(found, self._left)
        if self._left < 0:
            raise ResolutionError(
                f"what is referred to here comes to more than {MAX_RESOLVED_BYTES:,} bytes together",
                code=VALUE_TOO_LARGE,
                remedy="refer to the parts that are needed",
            )
        return found


def measure(value: Any, limit: int) -> int:
    """Return the approximate size of a JSON value in bytes; counting stops above the limit."""
    size = 0
    stack = [value]
    while stack and size <= limit:
        item = stack.pop()
        size += _NODE_BYTES
        if isinstance(item, str):
            size += len(item)
        elif (members := as_object(item)) is not None:
            size += sum(map(len, members)) + _NODE_BYTES * len(members)
            stack.extend(members.values())
        elif (items := as_list(item)) is not None:
            stack.extend(items)
    return size


def evaluate(
    expression: str, results: Mapping[str, Any], evidence: Mapping[str, Any], *, is_bounded: bool = True
) -> Any:
    """Return the value of a planner's expression over the names that it mentions."""
    values: dict[str, Any] = {}
    for name in references.names(expression):
        if name != references.EVIDENCE and name not in results:
            raise ResolutionError(f"{expression!r} needs {name}, which has no result")
        values[name] = dict(evidence) if name == references.EVIDENCE else results[name]
    if is_bounded:
        _demand_bounded(expression, values)
    outcome = evaluate_planner(expression, values)
    if outcome.error is not None:
        raise ResolutionError(f"{expression!r} fails: {outcome.error}")
    _demand_passed_on(expression, outcome.value, values)
    return outcome.value


def _demand_passed_on(expression: str, value: Any, values: Mapping[str, Any]) -> None:
    """Raise `ResolutionError` for a computed token of a personal value: it could be any subject's."""
    try:
        # Many times faster than walking through a large list.
        if b"[personal:" not in msgspec.json.encode(value):
            return
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError):
        pass  # a lone surrogate or a huge number, which the walk can do
    computed = set(find_tokens(value))
    if computed and not computed.issubset((*find_tokens(dict(values)), *find_tokens(expression))):
        raise ResolutionError(
            f"{expression[:80]!r} puts together the token of a personal value",
            code=PERSONAL_TOKEN,
            remedy="refer to the value itself",
        )


def _demand_bounded(expression: str, values: Mapping[str, Any]) -> None:
    """Raise `ResolutionError` for an expression whose value could exceed the size limit.

    An expression that adds nothing and builds nothing yields at most one of the values that it reads.
    """
    if not references.can_grow(expression):
        return
    left = MAX_COMPUTED_BYTES
    for name, place in references.reads(expression):
        left -= measure(_value_at(values[name], place), left)
        if left < 0:
            raise ResolutionError(
                f"{expression[:80]!r} is made of more than {MAX_COMPUTED_BYTES:,} bytes",
                code=VALUE_TOO_LARGE,
                remedy="compute with smaller parts, or let a tool put them together",
            )


def _value_at(value: Any, place: references.Place) -> Any:
    """Return the value at a place, or at the last part of it that exists."""
    for token in place:
        try:
            value = pointer.follow(value, pointer.join((token,)))
        except pointer.PointerError:
            break
    return value


def _follow(sources: Mapping[str, Any], reference: references.Reference) -> Any:
    if reference.target not in sources:
        raise ResolutionError(f"{reference.text} points at {reference.target}, which is not there")
    try:
        return pointer.follow(sources[reference.target], reference.pointer)
    except pointer.PointerError as error:
        raise ResolutionError(f"{reference.text} leads nowhere: {error}") from error


class ItemBudget:
    """The number of items that the selections of a value may still read."""

    def __init__(self) -> None:
        self._left = MAX_SELECTED_FROM

    def take(self, count: int) -> None:
        """Count items about to be read; raise `ResolutionError` if there are too many."""
        self._left -= count
        if self._left < 0:
            raise ResolutionError(
                f"the selections here read more than {MAX_SELECTED_FROM:,} items together",
                code=VALUE_TOO_LARGE,
                remedy="let the tool return shorter lists",
            )


def select(selection: Selection, look_up: Callable[[Reference], Any], budget: ItemBudget) -> Any:
    """Return the selected item, or its field; `look_up` returns the value of a reference.

    Raises `ResolutionError` if no item matches, if the items cannot be compared, and if the item lacks the field.
    """
    text = references.describe_selection(selection)
    items = as_list(look_up(selection.source))
    if items is None:
        raise ResolutionError(f"{selection.source.text} is not a list", code=NOT_COMPARABLE)
    budget.take(len(items) * (1 + len(selection.where)))
    for each in selection.where:
        value = each.value if each.reference is None else look_up(each.reference)
        items = [item for item in items if _equals(item, each.place, value)]
    if not items:
        raise ResolutionError(
            f"no item matches: {text}",
            code=NOTHING_SELECTED,
            remedy="make the step optional, or select less narrowly",
        )
    item = _pick(selection, items, text)
    try:
        return pointer.follow(item, pointer.join(selection.field))
    except pointer.PointerError as error:
        raise ResolutionError(f"the selected item has no such field: {text}", code=NOT_COMPARABLE) from error


def _pick(selection: Selection, items: list[Any], text: str) -> Any:
    """Return the item for the order; of equal ones, the first in the list."""
    if selection.order == "first":
        return items[0]
    if selection.order == "last":
        return items[-1]
    try:
        keys = [pointer.follow(item, pointer.join(selection.by)) for item in items]
    except pointer.PointerError as error:
        raise ResolutionError(
            f"an item lacks the field that it is compared by: {text}", code=NOT_COMPARABLE
        ) from error
    if not all(map(_is_number, keys)) and not all(isinstance(key, str) for key in keys):
        raise ResolutionError(
            f"items can be compared by numbers or by texts only: {text}", code=NOT_COMPARABLE
        )
    chosen = max(keys) if selection.order == "largest" else min(keys)
    return items[keys.index(chosen)]


def _equals(item: Any, place: Place, value: Any) -> bool:
    """Return whether an item has this scalar at a place; numbers compare by value, and a list or object equals nothing."""
    try:
        found = pointer.follow(item, pointer.join(place))
    except pointer.PointerError:
        return False
    is_scalar = not isinstance(found, dict | list) and not isinstance(value, dict | list)
    return is_scalar and scalar(found) == scalar(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
