"""Which records values that came by reference were read from: a name of one row beside the price of another is wrong.

A record is the object that holds a scalar, in evidence, in a result or in the request. What stands together in the
outputs comes from one record, from records that the source holds in the same way, or from records with a common
identifier; and where records disagree, something has to say which of them is meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations, starmap
from typing import NamedTuple

from tercet.contracts.documents import KnownValue, ReadText, ValueType
from tercet.contracts.mode import Trust
from tercet.contracts.text.words import to_decimal
from tercet.contracts.values import pointer
from tercet.quality.verification.results import result_refs
from tercet.quality.verification.roles import names_of, owner_of, words_in

Parts = tuple[str, ...]
_MOST_COMPARED, _MOST_MEMBERS = 200_000, 500
"""Comparisons of records; with more, a person looks at all of them."""
_NAMING: frozenset[ValueType] = frozenset({"name", "text"})
"""What says which row is meant, beside identifiers."""


class Record(NamedTuple):
    """An object that holds scalars: the evidence, result or request, and the place in it."""

    origin: str
    place: Parts


class _Fact(NamedTuple):
    value: str
    type: ValueType


class _Scalar(NamedTuple):
    """A value that came by reference: where it stands, and where it was read."""

    place: Parts
    shown: str
    origin: str
    source: Parts

    @property
    def record(self) -> Record:
        return _record(self.origin, self.source)

    @property
    def name(self) -> str:
        return _member(self.source)

    @property
    def base(self) -> tuple[Parts, Record]:
        """Where outputs and source begin to have the same structure; the same for all values that were taken over with it."""
        same = 0
        for ours, theirs in zip(reversed(self.place), reversed(self.source), strict=False):
            if ours != theirs:
                break
            same += 1
        end = len(self.place) - same, len(self.source) - same
        return self.place[: end[0]], Record(self.origin, self.source[: end[1]])


def find_misplaced(references: Iterable[ReadText], known: Sequence[KnownValue]) -> frozenset[str]:
    """Return the places of those values that came by reference and do not show which record they belong to.

    A declared value belongs to the run: which record it is read from the pack's author has said.
    """
    trusted = [each for each in known if each.trust is Trust.TRUSTED]
    facts = _Facts(trusted)
    scalars = [facts.trace(each) for each in references]
    found = {pointer.join(each.place) for each in scalars if facts.is_in_other(each)}
    free = [each for each in scalars if not facts.is_declared(each)]
    unknown = {pointer.join(each.place) for each in free if not each.origin or not _keeps_index(each)}
    rest = [each for each in free if pointer.join(each.place) not in unknown]
    mixed = set(facts.find_mixed(rest))
    partial = set(facts.find_partial(scalars))
    return frozenset(found | unknown | mixed | partial | set(facts.find_ambiguous(rest)))


_Origin = tuple[tuple[Parts, Record], Record]
"""Where outputs and source begin to have the same structure, and the record."""


class _Facts:
    """The trusted records, by their members."""

    def __init__(self, trusted: Sequence[KnownValue]) -> None:
        self._listed = [each for each in trusted if each.name and each.value is not None]
        self._members: dict[Record, dict[str, _Fact]] = {}
        self._holders: dict[str, list[tuple[Record, str]]] = {}
        self._places: dict[tuple[str, str], list[tuple[Record, str]]] = {}
        self._items: dict[Record, set[str]] = {}
        self._containers: set[str] = set()
        for each in trusted:
            origin, _, place = each.pointer.rpartition("#")
            if not place.startswith("/") or each.value is None or isinstance(each.value, list | dict):
                continue
            source = pointer.parts(place)
            for end in (at for at, part in enumerate(source) if part.isdigit()):
                self._items.setdefault(Record(origin, source[:end]), set()).add(source[end])
            record, name = _record(origin, source), _member(source)
            fact, key = _Fact(_plain(str(each.value)), each.type), _key(source)
            self._members.setdefault(record, {})[key] = fact
            self._holders.setdefault(name, []).append((record, fact.value))
            self._places.setdefault((words_in(name), fact.value), []).append((record, key))
            self._containers |= {words_in(part) for part in source if not part.isdigit()}
            self._containers.add(words_in(owner_of(each.pointer)))
        self._scalar_names = {name for each in self._listed for name in names_of(each)}
        self._origins = {record.origin for record in self._members}
        self.are_joined = cache(self._compare)
        self._others = cache(self._find_others)
        self._kinds = cache(self._find_kinds)
        self._compared = 0

    def trace(self, read: ReadText) -> _Scalar:
        """Return where a value was read: behind a note or an expression, the only record that has it."""
        piece, where = read.pieces[-1], pointer.parts(read.pointer)
        shown = _plain(read.text[piece.start : piece.end])
        origin, _, place = piece.pointer.rpartition("#")
        origin = next((each for each in (origin, result_refs(origin)[0]) if each in self._origins), "")
        if origin and place.startswith("/"):
            return _Scalar(where, shown, origin, pointer.parts(place))
        holders = sorted(self._places.get((words_in(_member(where)), shown), ()))
        if not holders or not all(self.are_joined(holders[0][0], record) for record, _ in holders):
            return _Scalar(where, shown, "", ())
        record, key = holders[0]
        return _Scalar(where, shown, record.origin, (*record.place, *key.split("/")))

    def is_declared(self, scalar: _Scalar) -> bool:
        """Return whether a value is a declared one, under its name; cells of rows are their row's."""
        name = words_in(_member(scalar.place))
        is_cell = any(part.isdigit() for part in scalar.place)
        named = [each for each in self._listed if name in names_of(each)]
        return not is_cell and any(_plain(str(each.value)) == scalar.shown for each in named)

    def is_in_other(self, scalar: _Scalar) -> bool:
        """Return whether a value stands inside of something that has the name of another value or record."""
        place = f"{scalar.origin}#{pointer.join(scalar.source)}"
        own = {words_in(part) for part in scalar.source}
        holding = (each for each in self._listed if place.startswith(f"{each.pointer}/"))
        own |= {name for each in holding for name in names_of(each)}
        top, *inner = [words_in(part) for part in scalar.place[:-1] if not part.isdigit()] or [""]
        known = self._scalar_names | self._containers
        strange = {each for each in inner if each in known - own} | ({top} & self._scalar_names - own)
        return bool(strange) and not strange <= self._kinds(scalar.record)

    def _find_kinds(self, record: Record) -> frozenset[str]:
        """Return the names of the kinds of evidence that a thing is known from."""
        joined = (each for each in self._members if self.are_joined(record, each))
        return frozenset(words_in(owner_of(f"{each.origin}#")) for each in (record, *joined))

    def _compare(self, first: Record, second: Record) -> bool:
        """Return whether two records are about one thing: other kinds with a common identifier that contradict in nothing."""
        if first == second:
            return True
        one, other = self._members.get(first, {}), self._members.get(second, {})
        common = one.keys() & other.keys()
        if any(one[key].value != other[key].value for key in common):
            return False
        if one and common == one.keys() == other.keys():
            return True
        is_other_kind = owner_of(f"{first.origin}#") != owner_of(f"{second.origin}#")
        return is_other_kind and any(one[key].type == other[key].type == "identifier" for key in common)

    def find_ambiguous(self, scalars: Sequence[_Scalar]) -> Iterator[str]:
        """Yield where a value stands that another record has otherwise, and nothing beside it says whose it is."""
        beside: dict[tuple[Record, Parts], list[_Scalar]] = {}
        taken: dict[tuple[Record, tuple[Parts, Record]], list[_Scalar]] = {}
        for each in scalars:
            beside.setdefault((each.record, each.place[:-1]), []).append(each)
            taken.setdefault((each.record, each.base), []).append(each)
        records, bases = Counter(each.record for each in scalars), Counter(each.base for each in scalars)
        for each in scalars:
            holders = (Record(each.origin, each.record.place[:end]) for end in range(len(each.record.place)))
            near = [*beside[each.record, each.place[:-1]], *taken[each.record, each.base]]
            near += [other for holder in holders for other in taken.get((holder, each.base), ())]
            is_alone = records[each.record] == bases[each.base] == 1
            telling = [] if is_alone else [other for other in dict.fromkeys(near) if self._is_telling(other)]
            rivals = list(self._rivals(each))
            self._compared += len(rivals) * max(len(telling), 1)
            if self._compared > _MOST_COMPARED or not all(
                any(self._differs(rival, each, other) for other in telling) for rival in rivals
            ):
                yield pointer.join(each.place)

    def find_partial(self, scalars: Iterable[_Scalar]) -> Iterator[str]:
        """Yield where a list has the name of one in the source, and only some of its items, or one of them more than once."""
        taken: dict[tuple[Parts, Record], dict[str, list[_Scalar]]] = {}
        for each in scalars:
            if (found := self._item(each)) is not None:
                place, items, index = found
                taken.setdefault((place, items), {}).setdefault(index, []).append(each)
        for (place, items), rows in taken.items():
            is_repeated = any(len({each.place[len(place)] for each in row}) > 1 for row in rows.values())
            if is_repeated or rows.keys() < self._items.get(items, set()):
                yield from (pointer.join(each.place) for row in rows.values() for each in row)

    def _item(self, scalar: _Scalar) -> tuple[Parts, Record, str] | None:
        """Return the list that a value stands in, the list of its record under the same name, and which item that is."""
        end = len(scalar.source) - 1
        while end >= 0 and not scalar.source[end].isdigit():
            end -= 1
        behind = len(scalar.source) - end
        at = len(scalar.place) - behind
        if end < 1 or at < 1 or not scalar.place[at].isdigit():
            return None
        items = Record(scalar.origin, scalar.source[:end])
        where = f"{scalar.origin}#{pointer.join(items.place)}"
        names = {words_in(items.place[-1])}
        names |= {name for each in self._listed if each.pointer == where for name in names_of(each)}
        return (
            (scalar.place[:at], items, scalar.source[end])
            if words_in(scalar.place[at - 1]) in names
            else None
        )

    def _is_telling(self, scalar: _Scalar) -> bool:
        """Return whether a value says which record is meant: an identifier, or the name of a row."""
        fact = self._members.get(scalar.record, {}).get(_key(scalar.source))
        is_row = scalar.record.place[-1:] and scalar.record.place[-1].isdigit()
        return fact is not None and (fact.type == "identifier" or bool(is_row and fact.type in _NAMING))

    def _differs(self, rival: Record, scalar: _Scalar, telling: _Scalar) -> bool:
        """Return whether a rival, or what holds it, is another one by a telling value of a scalar's record or its holder."""
        is_own = telling.record == scalar.record
        other = rival if is_own else Record(rival.origin, telling.record.place)
        key = _key(telling.source)
        theirs = self._members.get(other, {}).get(key)
        return theirs is None or theirs.value != self._members[telling.record][key].value

    def _rivals(self, scalar: _Scalar) -> Iterator[Record]:
        """Yield the records that have another value of a scalar's name, outside of what was taken over with its structure."""
        own = self._members.get(scalar.record, {}).get(_key(scalar.source))
        kind = owner_of(f"{scalar.origin}#")
        for record, value in self._others(scalar.name if own else "", kind, scalar.base[1]):
            if record != scalar.record and (own is None or value != own.value):
                yield record

    def _find_others(self, name: str, kind: str, base: Record) -> tuple[tuple[Record, str], ...]:
        """Return the records outside of a place that have a name; of truth values, which are not known, all of a kind."""
        found = self._holders.get(name, []) if name else [(each, "") for each in self._members]
        self._compared += len(found)
        return tuple(
            (record, value)
            for record, value in (found if self._compared <= _MOST_COMPARED else ())
            if (name or owner_of(f"{record.origin}#") == kind)
            and not (record.origin == base.origin and _begins(record.place, base.place))
        )

    def find_mixed(self, scalars: Sequence[_Scalar], depth: int = 0) -> Iterator[str]:
        """Yield the places of values in one object of the outputs, or in objects in it, whose records do not belong together."""
        if len({each.base for each in scalars}) < 2:
            return
        children: dict[str, list[_Scalar]] = {}
        for each in scalars:
            if len(each.place) > depth:
                children.setdefault(each.place[depth], []).append(each)
        is_list = all(part.isdigit() for part in children)
        shapes = {frozenset(_shape(each.place[depth + 1 :]) for each in items) for items in children.values()}
        if not is_list or len(shapes) > 1:
            groups = [{(each.base, each.record) for each in items} for items in children.values()]
            if len(groups) > _MOST_MEMBERS or not all(starmap(self._fit, combinations(groups, 2))):
                yield from (pointer.join(each.place) for each in scalars)
        for items in children.values():
            yield from self.find_mixed(items, depth + 1)

    def _fit(self, first: set[_Origin], second: set[_Origin]) -> bool:
        if len({base for base, _ in first | second}) == 1:
            return True
        self._compared += len(first) * len(second)
        return self._compared <= _MOST_COMPARED and all(
            base == other or _is_within(one, two) or self.are_joined(one, two)
            for base, one in first
            for other, two in second
        )


def _is_within(first: Record, second: Record) -> bool:
    """Return whether one record is a part of the other, or the same."""
    short, long = sorted((first, second), key=lambda each: len(each.place))
    return first.origin == second.origin and _begins(long.place, short.place)


def _begins(place: Parts, start: Parts) -> bool:
    return place[: len(start)] == start


def _shape(place: Parts) -> Parts:
    return tuple("0" if part.isdigit() else part for part in place)


def _split(source: Parts) -> int:
    """Return where the last name in a place is; behind it are positions in lists."""
    at = len(source)
    while at and source[at - 1].isdigit():
        at -= 1
    return max(at - 1, 0)


def _record(origin: str, source: Parts) -> Record:
    return Record(origin, source[: _split(source)])


def _member(source: Parts) -> str:
    return source[_split(source)] if source else ""


def _key(source: Parts) -> str:
    """Return the name of a member in its record, with its position where it is in a list."""
    return "/".join(source[_split(source) :])


def _keeps_index(scalar: _Scalar) -> bool:
    """Return whether an item of a list of scalars has kept its position."""
    index = scalar.source[_split(scalar.source) + 1 :]
    return not index or scalar.place[-len(index) :] == index


def _plain(text: str) -> str:
    number = to_decimal(text)
    return text.strip() if number is None else f"{number.normalize():f}"
