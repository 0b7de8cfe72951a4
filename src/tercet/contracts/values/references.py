"""References: how a plan takes a value from elsewhere instead of spelling it out.

    {"$from": "s1#/total"}              a part of the result of step s1 ("s1" alone is the whole result)
    {"$from": "request#/order_id"}      a part of the request's input
    {"$from": "outputs#/letter"}        a part of the run's outputs, once they are accepted (in a plan without a step of that id)
    {"$evidence": "<ref>#/field"}       a part of a pinned piece of evidence
    {"$cel": "s1.total - s2.fee"}       computed by CEL over steps, `request` and `evidence["<ref>"]`
    {"$select": {"from": "s1#/rows", …}} one item of a list, or a field of it (see `Selection`)
    {"$literal": …}                     the value itself, for data whose own keys begin with "$"

Inside a compensation, `self` is the result of the step and `params` are its parameters.

Keys that begin with "$" are reserved, so that a misspelt reference is an error and never a literal that is sent to a
tool. A scanner here finds the names that an expression mentions, since dependencies are a property of the plan; the
`policy` package compiles the expression.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from tercet.contracts.values import pointer

REQUEST = "request"
EVIDENCE = "evidence"
SELF = "self"
PARAMS = "params"
OUTPUTS = "outputs"
"""The outputs of the run. Not reserved as an id: plans of older sessions may have such a step, which then takes precedence."""
OWN_STEP = frozenset({SELF, PARAMS})
"""Names for compensations only: the result and the parameters of the compensated step."""
RESERVED_IDS = frozenset({REQUEST, EVIDENCE}) | OWN_STEP

Place: TypeAlias = tuple[str | int, ...]
Kind: TypeAlias = Literal["from", "evidence", "cel", "select"]
_KEYS: dict[str, Kind] = {"$from": "from", "$evidence": "evidence", "$cel": "cel", "$select": "select"}
LITERAL = "$literal"
SELECT = "$select"

MAX_DEPTH = 64
"""The maximum nesting of a parameter. Deeper values break tools, schemas and recursion limits."""
TOO_DEEP = f"nests deeper than {MAX_DEPTH} levels"
NO_KEYS = "the keys of an object are strings without unpaired surrogates"


class Reference(NamedTuple):
    """One reference, with its place in the value that contains it."""

    kind: Kind
    text: str
    """The source text: `s1#/total`, an evidence id with its pointer, the expression, or the selection in words."""
    place: Place
    target: str
    """The step, `request` or evidence id that it points to; empty for an expression and a selection."""
    pointer: str
    names: tuple[str, ...]
    """The names that it needs: for an expression or a selection, every root name that it mentions."""
    selection: Selection | None = None
    """The selection, for the kind `select`."""


Order: TypeAlias = Literal["first", "last", "largest", "smallest"]
ORDERS: tuple[Order, ...] = get_args(Order)


class Condition(NamedTuple):
    """A condition of a selection: the item's value at a place equals a scalar."""

    place: Place
    reference: Reference | None
    """The source of the scalar; None if the plan spells it out."""
    value: Any = None
    """The scalar that the plan spells out."""


class Selection(NamedTuple):
    """One item of a list, or a field of it.

        {"from": "s1#/transactions", "where": {"payee": {"$from": "request#/payee"}},
         "order": "largest", "by": "amount", "field": "id"}

    `from` is written like `$from`, or is a `$from` or `$evidence` reference. A field is a name, or a JSON Pointer that
    begins with "/". Only items that satisfy every condition count; `order` picks one of them.
    """

    source: Reference
    where: tuple[Condition, ...]
    order: Order
    by: Place
    """The field that items are ordered by; empty orders by the items themselves."""
    field: Place
    """The field to return; empty returns the item."""

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references of the list and of the conditions."""
        return (self.source, *(each.reference for each in self.where if each.reference is not None))


MAX_CONDITIONS = 4
"""The maximum number of conditions of a selection."""
ANY_ITEM = "*"
"""The wildcard for any item of a list in a place."""


class Malformed(NamedTuple):
    """An object that looks like a reference but is not one, or an invalid container."""

    place: Place
    message: str
    is_reference: bool = True


class Leaf(NamedTuple):
    """A scalar, or an empty list or object, that the plan spells out."""

    value: Any
    place: Place


Found: TypeAlias = Reference | Malformed | Leaf


def scan(value: Any, place: Place = ()) -> list[Found]:
    """Return every reference, malformed reference and literal scalar in a JSON value, in document order."""
    found: list[Found] = []
    _collect(value, place, found, is_literal=False)
    return found


def _collect(value: Any, place: Place, found: list[Found], *, is_literal: bool) -> None:
    # Appends to one list rather than yielding: this runs for every parameter of every plan.
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if len(place) > MAX_DEPTH:
            found.append(Malformed(place, TOO_DEEP, is_reference=False))
        elif not all(map(is_text, members)):
            found.append(Malformed(place, NO_KEYS, is_reference=False))
        elif not is_literal and "$" in "".join(members) and any(key[:1] == "$" for key in members):
            _collect_reserved(members, place, found)
        elif members:
            _collect_members(members, place, found, is_literal=is_literal)
        elif place:  # an empty set of parameters is not a value
            found.append(Leaf(members, place))
    elif isinstance(value, list):
        if len(place) > MAX_DEPTH:
            found.append(Malformed(place, TOO_DEEP, is_reference=False))
            return
        if not value:
            found.append(Leaf(value, place))
        for index, member in enumerate(cast("list[Any]", value)):
            _collect(member, (*place, index), found, is_literal=is_literal)
    else:
        found.append(Leaf(value, place))


def _collect_members(members: dict[str, Any], place: Place, found: list[Found], *, is_literal: bool) -> None:
    for key, member in members.items():
        if type(member) in _SCALARS:
            found.append(Leaf(member, (*place, key)))
        else:
            _collect(member, (*place, key), found, is_literal=is_literal)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _collect_reserved(members: dict[str, Any], place: Place, found: list[Found]) -> None:
    key, body = next(iter(members.items()))
    if len(members) > 1:
        keys = ", ".join(sorted(members)[:5])
        found.append(Malformed(place, f"a reference has exactly one key, this one has {keys}"))
    elif key == LITERAL:
        _collect(body, (*place, key), found, is_literal=True)
    elif key not in _KEYS:
        found.append(
            Malformed(place, f"{key!r} is no reference: $from, $evidence, $cel, $select and $literal are")
        )
    elif key == SELECT:
        found.append(_parse_selection(body, place))
    elif not is_text(body):
        found.append(Malformed(place, f"{key} takes a string without unpaired surrogates"))
    else:
        found.append(parse(_KEYS[key], body, place))


def is_text(value: object) -> bool:
    """Return whether a value is a string that can be encoded; ASCII strings skip the attempt."""
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_reference(members: dict[str, Any]) -> Reference | None:
    """Return the reference in a JSON object, or None if it is plain data."""
    if len(members) != 1:
        return None
    ((key, body),) = members.items()
    if key == SELECT:
        parsed = _parse_selection(body, ())
    else:
        parsed = parse(_KEYS[key], body) if key in _KEYS and isinstance(body, str) else None
    return parsed if isinstance(parsed, Reference) else None


def parse(kind: Kind, text: str, place: Place = ()) -> Reference | Malformed:
    """Return the reference of this kind in a text or object."""
    match kind:
        case "select":
            return Malformed(place, "$select takes an object")
        case "cel":
            return Reference(kind, text, place, "", "", names(text))
        case "evidence":
            target, _, pointer = text.partition("#/")
            pointer = f"/{pointer}" if "#/" in text else ""
        case "from":
            target, _, pointer = text.partition("#")
            if pointer and not pointer.startswith("/"):
                return Malformed(place, f"write the part after '#' as a JSON Pointer: {target}#/{pointer}")
    if not target:
        return Malformed(place, f"${kind} names nothing")
    return Reference(kind, text, place, target, pointer, (target,) if kind == "from" else ())


_SELECT_KEYS = frozenset({"from", "where", "order", "by", "field"})


class _SelectionError(ValueError):
    """Why an object is not a selection."""


def _parse_selection(body: Any, place: Place) -> Reference | Malformed:
    """Return the selection in an object."""
    try:
        selection = _selection(body)
    except _SelectionError as error:
        return Malformed(place, f"$select {error}")
    names = dict.fromkeys(name for each in selection.references for name in each.names or (EVIDENCE,))
    return Reference("select", describe_selection(selection), place, "", "", tuple(names), selection)


def _selection(body: Any) -> Selection:
    if not isinstance(body, dict) or not all(map(is_text, cast("dict[Any, Any]", body))):
        raise _SelectionError('takes an object such as {"from": "s1#/rows", "order": "first", "field": "id"}')
    members = cast("dict[str, Any]", body)
    if unknown := sorted(members.keys() - _SELECT_KEYS):
        raise _SelectionError(f"has no {unknown[0]!r}: it has {', '.join(sorted(_SELECT_KEYS))}")
    order: Any = members.get("order", "first")
    if order not in ORDERS:
        raise _SelectionError(f"has no order {str(order)[:40]!r}: write {', '.join(ORDERS)}")
    if "by" in members and order in ("first", "last"):
        raise _SelectionError(f"compares nothing for the order {order!r}: drop 'by'")
    where = members.get("where", {})
    if not isinstance(where, dict) or not all(map(is_text, cast("dict[Any, Any]", where))):
        raise _SelectionError("takes as 'where' an object of fields and values")
    conditions = cast("dict[str, Any]", where)
    if len(conditions) > MAX_CONDITIONS:
        raise _SelectionError(f"has {len(conditions)} conditions: at most {MAX_CONDITIONS} are allowed")
    return Selection(
        source=_list_of(members.get("from")),
        where=tuple(_condition(_field(name), value) for name, value in conditions.items()),
        order=order,
        by=_field(members.get("by", "")),
        field=_field(members.get("field", "")),
    )


def _list_of(value: Any) -> Reference:
    """Return the reference to the list that is selected from."""
    if is_text(value):
        found: Found = parse("from", value)
    else:
        found = next(iter(scan(value)), Malformed((), ""))
    if type(found) is not Reference or found.place or found.kind not in ("from", "evidence"):
        raise _SelectionError(
            'needs as \'from\' a list: "s1#/rows", "request#/rows" or {"$evidence": "<ref>#/rows"}'
        )
    return found


def _condition(place: Place, value: Any) -> Condition:
    """Return the condition that a field equals a scalar, literal or referenced."""
    found = scan(value)
    only = found[0] if len(found) == 1 else None
    if type(only) is Reference and not only.place and only.kind in ("from", "evidence"):
        return Condition(place, only)
    if type(only) is Leaf and only.place in ((), (LITERAL,)) and not isinstance(only.value, dict | list):
        return Condition(place, None, only.value)
    raise _SelectionError("compares with a scalar, a $from or an $evidence reference")


def _field(text: Any) -> Place:
    if not is_text(text):
        raise _SelectionError("names a field as text, or as a JSON Pointer that begins with '/'")
    if text.startswith("/"):
        return pointer.parts(text)
    return (text,) if text else ()


def describe_selection(selection: Selection) -> str:
    """Return a selection in words: `largest amount of s1#/rows where payee is request#/payee, its id`."""
    compared = f" {_named(selection.by)}" if selection.by else " item" if not selection.field else ""
    where = " and ".join(f"{_named(each.place)} is {_shown(each)}" for each in selection.where)
    yielded = f", its {_named(selection.field)}" if selection.field else ""
    return (
        f"{selection.order}{compared} of {selection.source.text}{f' where {where}' if where else ''}{yielded}"
    )


def _named(place: Place) -> str:
    return ".".join(map(str, place)) or "item"


def _shown(condition: Condition) -> str:
    return repr(condition.value) if condition.reference is None else condition.reference.text


# The lexical grammar of CEL. It must agree exactly with the evaluator: a read that this scanner misses would escape the
# trust checks and still affect the result. Strings and comments come first, so that their contents are never taken for
# names; raw strings have no escapes. Then numbers, so that 1e5 is not a name and `1in.s1` is three tokens. A field in
# backquotes may contain comment marks. An unclosed quote consumes the rest: such an expression does not compile, and
# trying every later quote as its end would take quadratic time.
_TOKEN = re.compile(
    r"""
    (?P<skip> //[^\n]* | \s+ )
  | (?P<literal>
        [bB]?[rR](?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*')
      | [bB]?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | 0x[0-9a-fA-F]+[uU]?
      | (?:[0-9]+\.[0-9]+|\.[0-9]+)(?:[eE][+-]?[0-9]+)?
      | [0-9]+[eE][+-]?[0-9]+
      | [0-9]+[uU]?
    )
  | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<quoted> `[^`\n]*` )
  | (?P<mark> ["'].* | . )
    """,
    re.VERBOSE | re.DOTALL,
)
MAX_SCANNED = 10_000
"""Longer expressions are not scanned: they are refused for their length and have no trusted source."""

CONSTANT_WORDS = {"true": True, "false": False, "null": None}
RESERVED_WORDS = frozenset({*CONSTANT_WORDS, "in"})


class Token(NamedTuple):
    """A name, literal or mark of an expression; `is_member` is set for a name after a dot."""

    text: str
    kind: Literal["name", "literal", "mark"]
    is_member: bool

    @property
    def is_name(self) -> bool:
        """Whether this is a name rather than a literal or a mark."""
        return self.kind == "name"


def tokens(expression: str) -> tuple[Token, ...]:
    """Return the names, literals and marks of an expression, without comments and whitespace."""
    found: list[Token] = []
    if len(expression) > MAX_SCANNED:
        return ()
    for match in _TOKEN.finditer(expression):
        kind = match.lastgroup
        is_member = len(found) > 1 and found[-1].text == "." and _ends_operand(found[-2])
        if kind == "quoted":
            found.append(Token(match.group()[1:-1], "name", is_member))
        elif kind == "name" or kind == "literal" or kind == "mark":
            found.append(Token(match.group(), kind, is_member))
    return tuple(found)


def _ends_operand(token: Token) -> bool:
    """Return whether a dot after this token selects a field. Elsewhere it prefixes a root name: `.s1` is `s1`."""
    return token.kind == "literal" or token.text in (")", "]", "}") or (token.is_name and token.text != "in")


def rewrite(expression: str, replacements: Mapping[str, str]) -> str:
    """Return the expression with its root names replaced; a key such as `args.host` replaces only that field.

    Member names, strings and comments are unchanged.
    """
    found = [match for match in _TOKEN.finditer(expression) if match.lastgroup != "skip"]
    spoken = tokens(expression)
    written: list[str] = []
    end = 0
    for position, match in enumerate(found[: len(spoken)]):
        if match.start() < end or not _is_root(spoken, position):
            continue
        name, last = spoken[position].text, position
        if name not in replacements and position + 2 < len(spoken) and spoken[position + 1].text == ".":
            name, last = f"{name}.{spoken[position + 2].text}", position + 2
        if name in replacements:
            written += [expression[end : match.start()], replacements[name]]
            end = found[last].end()
    return "".join((*written, expression[end:]))


def names(expression: str) -> tuple[str, ...]:
    """Return the root names in an expression, each once, without functions and keywords."""
    found = tokens(expression)
    roots = [token.text for position, token in enumerate(found) if _is_root(found, position)]
    return tuple(dict.fromkeys(roots))


class Opaque(NamedTuple):
    """A literal that this scanner does not evaluate, such as a string with escapes. It equals no value."""

    text: str


def constants(expression: str) -> list[Any]:
    """Return the values that an expression spells out; the key in `s1["total"]` selects a field and does not count."""
    found = tokens(expression)
    values: list[Any] = []
    for position, token in enumerate(found):
        if token.kind == "literal" and not _is_index(found, position):
            values.append(constant_value(token.text))
        elif token.text in CONSTANT_WORDS and not token.is_member:
            values.append(CONSTANT_WORDS[token.text])
    return values


class Read(NamedTuple):
    """A root name that an expression reads, and the path inside it as far as names and literal keys determine it."""

    name: str
    place: Place


def reads(expression: str) -> list[Read]:
    """Return every read of an expression: `s1.lines[0]["sku"]` reads /lines/0/sku of s1, `s1[s2.n]` reads s1 and /n of
    s2.
    """
    found = tokens(expression)
    return [
        Read(token.text, selected(found, position + 1))
        for position, token in enumerate(found)
        if _is_root(found, position)
    ]


def reads_of(reference: Reference) -> list[Read]:
    """Return every read of a reference of any kind; evidence is read as /<ref>/… of `evidence`."""
    match reference.kind:
        case "cel":
            return reads(reference.text)
        case "from":
            return [Read(reference.target, pointer.parts(reference.pointer))]
        case "evidence":
            return [Read(EVIDENCE, (reference.target, *pointer.parts(reference.pointer)))]
        case "select":
            return _reads_of_selection(reference.selection) if reference.selection else []


def _reads_of_selection(selection: Selection) -> list[Read]:
    """Return what a selection returns first, then the reads that decide which item it is."""
    (items,) = reads_of(selection.source)
    places = [selection.field, *(each.place for each in selection.where)]
    if selection.order in ("largest", "smallest"):
        places.append(selection.by)
    fields = [Read(items.name, (*items.place, ANY_ITEM, *place)) for place in places]
    compared = [read for each in selection.references[1:] for read in reads_of(each)]
    return [*dict.fromkeys((*fields, *compared))]


def constants_of(reference: Reference) -> list[Any]:
    """Return the values that a reference spells out: constants of an expression, scalars in conditions of a selection."""
    if reference.kind == "cel":
        return constants(reference.text)
    where = reference.selection.where if reference.selection else ()
    return [each.value for each in where if each.reference is None]


def evidence_of(reference: Reference) -> tuple[str, ...]:
    """Return the evidence ids that a reference reads, as far as an expression determines them."""
    if reference.kind == "cel":
        return evidence_read(reference.text) or ()
    if reference.kind == "evidence":
        return (reference.target,)
    inner = reference.selection.references if reference.selection else ()
    return tuple(each.target for each in inner if each.kind == "evidence")


def selected(found: tuple[Token, ...], at: int) -> Place:
    """Return the fields that are selected from this position on."""
    place: list[str | int] = []
    while at + 2 <= len(found):
        if found[at].text == "." and found[at + 1].is_name and not _is_call(found, at + 1):
            place.append(found[at + 1].text)
            at += 2
        elif found[at].text == "[" and _is_index(found, at + 1):
            key = constant_value(found[at + 1].text)
            if type(key) is not str and type(key) is not int:
                break
            place.append(key)
            at += 3
        else:
            break
    return tuple(place)


def can_grow(expression: str) -> bool:
    """Return whether an expression may yield more than one of the values that it reads: it adds, or builds a list or
    object.
    """
    found = tokens(expression)
    return any(
        token.kind == "mark"
        and (
            token.text in ("+", "{")
            or (token.text == "[" and not (position and _ends_operand(found[position - 1])))
        )
        for position, token in enumerate(found)
    )


def _is_root(found: tuple[Token, ...], position: int) -> bool:
    token = found[position]
    return (
        token.is_name
        and not token.is_member
        and token.text not in RESERVED_WORDS
        and not _is_call(found, position)
    )


def _is_call(found: tuple[Token, ...], position: int) -> bool:
    return position + 1 < len(found) and found[position + 1].text == "("


def evidence_read(expression: str) -> tuple[str, ...] | None:
    """Return the evidence ids read as `evidence["<ref>"]`; None if evidence is used in any other way."""
    found = tokens(expression)
    refs: list[str] = []
    for position, token in enumerate(found):
        if token.text == EVIDENCE and token.is_name and not token.is_member:
            index = position + 2
            value = (
                constant_value(found[index].text) if index < len(found) and _is_index(found, index) else None
            )
            if not isinstance(value, str):
                return None
            refs.append(value)
    return tuple(refs)


def _is_index(found: tuple[Token, ...], position: int) -> bool:
    if position < 2 or position + 1 >= len(found):
        return False
    holder, opening, closing = found[position - 2], found[position - 1], found[position + 1]
    is_key = opening.text == "[" and closing.text == "]" and found[position].kind == "literal"
    return is_key and _ends_operand(holder)


def constant_value(text: str) -> Any:
    """Return the value of a literal token; `Opaque` for a spelling that is not evaluated here."""
    if text[0] in "\"'":
        is_plain = "\\" not in text and not text.startswith(('"""', "'''"))
        return text[1:-1] if is_plain else Opaque(text)
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return Opaque(text)
