"""References: how a plan says that a value comes from elsewhere instead of writing it down.

    {"$from": "s1#/total"}              a part of the result of step s1 ("s1" alone is the whole result)
    {"$from": "request#/order_id"}      a part of the request's input
    {"$from": "outputs#/letter"}        a part of the run's outputs, once they are accepted (in a plan without a step of that id)
    {"$evidence": "<ref>#/field"}       a part of a pinned piece of evidence
    {"$cel": "s1.total - s2.fee"}       computed by CEL over steps, `request` and `evidence["<ref>"]`
    {"$select": {"from": "s1#/rows", …}} one item of a list, or a field of it (see `Selection`)
    {"$literal": …}                     the value itself, for data whose own keys begin with "$"

Inside a compensation, `self` is the result of the step and `params` are the parameters it ran with.

Keys that begin with "$" are reserved, so that a misspelt reference is an error and never a literal that is sent to a
tool. Which names an expression mentions is read here by a scanner, since a dependency is a property of the plan;
whether the expression compiles is the business of the policy room.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from tercet.contracts import pointer

REQUEST = "request"
EVIDENCE = "evidence"
SELF = "self"
PARAMS = "params"
OUTPUTS = "outputs"
"""The outputs of the run. Not reserved as an id: plans of older sessions may have such a step, which is then meant."""
OWN_STEP = frozenset({SELF, PARAMS})
"""What only a compensation may refer to: the result and the parameters of the step that it compensates."""
RESERVED_IDS = frozenset({REQUEST, EVIDENCE}) | OWN_STEP

Place: TypeAlias = tuple[str | int, ...]
Kind: TypeAlias = Literal["from", "evidence", "cel", "select"]
_KEYS: dict[str, Kind] = {"$from": "from", "$evidence": "evidence", "$cel": "cel", "$select": "select"}
LITERAL = "$literal"
SELECT = "$select"

MAX_DEPTH = 64
"""How deep a parameter may nest. Deeper values break tools, schemas and recursion limits."""
TOO_DEEP = f"nests deeper than {MAX_DEPTH} levels"
NO_KEYS = "the keys of an object are strings without unpaired surrogates"


class Reference(NamedTuple):
    """One reference, with the place where it stands in the value that holds it."""

    kind: Kind
    text: str
    """What was written: `s1#/total`, an evidence id with its pointer, the expression, or the selection in words."""
    place: Place
    target: str
    """The step, `request` or evidence id that it points at; empty for an expression and a selection."""
    pointer: str
    names: tuple[str, ...]
    """The steps that it needs: for an expression or a selection, every root name that it mentions."""
    selection: Selection | None = None
    """What is selected, for the kind `select`."""


Order: TypeAlias = Literal["first", "last", "largest", "smallest"]
ORDERS: tuple[Order, ...] = get_args(Order)


class Condition(NamedTuple):
    """An equality that a selected item satisfies: what it has at a place equals a scalar."""

    place: Place
    reference: Reference | None
    """Where the scalar comes from; None if the plan writes it down."""
    value: Any = None
    """The scalar that the plan writes down."""


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
    """The field that items are compared by; empty compares the items themselves."""
    field: Place
    """The field that is yielded; empty yields the item."""

    @property
    def references(self) -> tuple[Reference, ...]:
        """The list, and the values that items are compared with, as far as they are references."""
        return (self.source, *(each.reference for each in self.where if each.reference is not None))


MAX_CONDITIONS = 4
"""How many conditions one selection may have."""
ANY_ITEM = "*"
"""What stands for any item of a list in a place."""


class Malformed(NamedTuple):
    """A dict that looks like a reference and is none, or a container that no parameter may be."""

    place: Place
    message: str
    is_reference: bool = True


class Leaf(NamedTuple):
    """A scalar, or an empty list or object, that the plan writes down itself."""

    value: Any
    place: Place


Found: TypeAlias = Reference | Malformed | Leaf


def scan(value: Any, place: Place = ()) -> list[Found]:
    """Every reference, malformed reference and literal scalar in a JSON value, in document order."""
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
        elif place:  # having no parameters at all is no value
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
    """Whether a value is a string that can be encoded; most are ASCII, and need no trial."""
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
    """The reference that a JSON object spells, or None if it is plain data."""
    if len(members) != 1:
        return None
    ((key, body),) = members.items()
    if key == SELECT:
        parsed = _parse_selection(body, ())
    else:
        parsed = parse(_KEYS[key], body) if key in _KEYS and isinstance(body, str) else None
    return parsed if isinstance(parsed, Reference) else None


def parse(kind: Kind, text: str, place: Place = ()) -> Reference | Malformed:
    """The reference that a text of this kind spells."""
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
    """The selection that an object spells."""
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
    """The list that is selected from."""
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
    """The condition that a field equals a scalar, which is written down or referred to."""
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


# The lexical grammar of CEL. It must agree with the evaluator to the letter: a read that hides from this scanner would
# be worth nothing to anybody and still decide. Strings and comments come first, so that what they hold is never taken
# for a name; raw ones have no escapes. Then numbers, so that 1e5 is no name and `1in.s1` is three tokens. A field in
# backquotes may hold the marks of a comment. A quote that is never closed takes the rest along: such an expression
# does not compile, and trying every later quote for its end would take the square of its length.
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
"""An expression of more characters is not scanned: it is refused for its length, and reads nothing that is trusted."""

CONSTANT_WORDS = {"true": True, "false": False, "null": None}
RESERVED_WORDS = frozenset({*CONSTANT_WORDS, "in"})


class Token(NamedTuple):
    """A name, a literal or a mark of an expression; `is_member` tells a name that follows a dot."""

    text: str
    kind: Literal["name", "literal", "mark"]
    is_member: bool

    @property
    def is_name(self) -> bool:
        """Whether this is a name, and no literal or mark."""
        return self.kind == "name"


def tokens(expression: str) -> tuple[Token, ...]:
    """The names, literals and marks of an expression, without comments and space."""
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
    """Whether a dot after this token selects a field. Elsewhere it is the dot of a root name: `.s1` is `s1`."""
    return token.kind == "literal" or token.text in (")", "]", "}") or (token.is_name and token.text != "in")


def rewrite(expression: str, replacements: Mapping[str, str]) -> str:
    """The expression with other texts in place of root names; a key such as `args.host` stands for that field alone.

    What follows a name, strings and comments are left as they are.
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
    """The root names an expression mentions, each once, without functions and words of the language."""
    found = tokens(expression)
    roots = [token.text for position, token in enumerate(found) if _is_root(found, position)]
    return tuple(dict.fromkeys(roots))


class Opaque(NamedTuple):
    """A literal whose value this scanner does not work out, such as a string with escapes. It equals no value."""

    text: str


def constants(expression: str) -> list[Any]:
    """The values that an expression writes down itself; the key in `s1["total"]` selects a field and is none."""
    found = tokens(expression)
    values: list[Any] = []
    for position, token in enumerate(found):
        if token.kind == "literal" and not _is_index(found, position):
            values.append(constant_value(token.text))
        elif token.text in CONSTANT_WORDS and not token.is_member:
            values.append(CONSTANT_WORDS[token.text])
    return values


class Read(NamedTuple):
    """A root name that an expression reads, and the way inside it, as far as names and plain keys tell it."""

    name: str
    place: Place


def reads(expression: str) -> list[Read]:
    """Every read of an expression: `s1.lines[0]["sku"]` reads /lines/0/sku of s1, `s1[s2.n]` reads s1 and /n of s2."""
    found = tokens(expression)
    return [
        Read(token.text, selected(found, position + 1))
        for position, token in enumerate(found)
        if _is_root(found, position)
    ]


def reads_of(reference: Reference) -> list[Read]:
    """Every read of a reference of any kind; evidence is read as /<ref>/… of `evidence`."""
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
    """What a selection yields, first; then what decides which item that is."""
    (items,) = reads_of(selection.source)
    places = [selection.field, *(each.place for each in selection.where)]
    if selection.order in ("largest", "smallest"):
        places.append(selection.by)
    fields = [Read(items.name, (*items.place, ANY_ITEM, *place)) for place in places]
    compared = [read for each in selection.references[1:] for read in reads_of(each)]
    return [*dict.fromkeys((*fields, *compared))]


def constants_of(reference: Reference) -> list[Any]:
    """The values that a reference writes down itself: constants of an expression, scalars that a selection compares with."""
    if reference.kind == "cel":
        return constants(reference.text)
    where = reference.selection.where if reference.selection else ()
    return [each.value for each in where if each.reference is None]


def evidence_of(reference: Reference) -> tuple[str, ...]:
    """The evidence ids that a reference reads, as far as an expression tells them."""
    if reference.kind == "cel":
        return evidence_read(reference.text) or ()
    if reference.kind == "evidence":
        return (reference.target,)
    inner = reference.selection.references if reference.selection else ()
    return tuple(each.target for each in inner if each.kind == "evidence")


def selected(found: tuple[Token, ...], at: int) -> Place:
    """The fields that are selected from here on."""
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
    """Whether an expression may yield more than one of the values that it reads: it adds, or builds a list or object."""
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
    """The evidence ids read as `evidence["<ref>"]`; None if evidence is used in a way that cannot be told."""
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
    """Return the value of a literal token; `Opaque` for a spelling whose value is not worked out here."""
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
