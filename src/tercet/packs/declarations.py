"""The tables of a pack's TOML files, read and converted into contracts one by one."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.gate import Gate
from tercet.contracts.lane import Lane
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.packs.scenario import Scenario
from tercet.contracts.packs.tuning import TuningRules
from tercet.contracts.policy import Policy
from tercet.contracts.problem import words_for
from tercet.contracts.request import Actor
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tasks import Fact, Goal, Method, Task, TaskLibrary
from tercet.packs.folder import MAX_TOML_BYTES, Draft
from tercet.packs.parts import PACK, TUNING, Kind, PackFile, Spot
from tercet.tools.mcp.server import ServerSpec
from tercet.tools.tool import Terms


class ToolTable(Terms):
    """The pack's declarations about one tool of a server, with the defaults of `ToolSpec`; a description replaces the
    server's.
    """

    name: str = Field(min_length=1, max_length=200)
    """The tool's name on the server."""
    mode: ApprovalMode | None = None
    """None means destructive. A hint of the server can raise it."""
    error_means: Literal["unknown", "not_done"] = "unknown"
    """The meaning of an error answer: `not_done` states that the effect did not happen."""


class ServerTable(ServerSpec):
    """A server, with the pack's declarations about its tools."""

    tools: tuple[str, ...] | None = None
    """The tools that the pack uses, by their names on the server; None means all."""
    tool: tuple[ToolTable, ...] = ()

    @property
    def spec(self) -> ServerSpec:
        """The server without its tools."""
        own = {
            field: getattr(self, field) for field in self.model_fields_set if field in ServerSpec.model_fields
        }
        return ServerSpec(**own)

    def takes(self, name: str) -> bool:
        """Return whether the pack uses this tool of the server."""
        return self.tools is None or name in self.tools


# --- declarations ---


_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)")
_HEADER = re.compile(r"\s*(?P<open>\[\[?)\s*(?P<name>[\w.\-]+)\s*\]")
_KEY = re.compile(r"\s*(?P<name>[\w\-]+)\s*[=.]")
_NAME = r"""(?:[\w\-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONGEST_KEY = 16
"""The maximum number of dots in a key: the parser's time grows with its square."""
_LONG_KEY = re.compile(rf"(?<![\w\-]){_NAME}(?:[ \t]*+\.[ \t]*+{_NAME}){{{_LONGEST_KEY + 1}}}")
_MOST_TABLES = 5_000
"""The maximum number of tables: checking a pack takes time for each of them."""
_TABLE_LINE = re.compile(r"^[ \t]*+\[", re.MULTILINE)
_FENCES = ('"""', "'''")


@dataclass(frozen=True)
class TomlFile:
    """The values of a file, and the rows of its keys by dotted path: `budget.max_steps`, `gate.0.quorum`."""

    values: Mapping[str, Any]
    rows: Mapping[str, int]

    def row(self, path: Sequence[str | int]) -> int | None:
        """Return the line of a key, or of the nearest enclosing one."""
        for length in range(len(path), 0, -1):
            found = self.rows.get(".".join(map(str, path[:length])))
            if found is not None:
                return found
        return None

    def rows_in(self, kind: str, number: int) -> Mapping[str, int]:
        """Return the rows of the keys in one table of a kind, by their paths in it."""
        return self._rows_by_table.get(f"{kind}.{number}", {})

    @cached_property
    def _rows_by_table(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for path, row in self.rows.items():
            kind, _, rest = path.partition(".")
            number, dot, key = rest.partition(".")
            if dot:
                found.setdefault(f"{kind}.{number}", {})[key] = row
        return found


def read_toml(draft: Draft, name: str) -> TomlFile | None:
    """Return a TOML file of the folder; None, with a problem noted, if it cannot be read."""
    text = draft.read_text(name, MAX_TOML_BYTES)
    if text is None or _note_too_much(draft, name, text):
        return None
    try:
        toml = TomlFile(tomllib.loads(text), _rows(text))
        return None if _note_too_many(draft, name, toml) else toml
    except tomllib.TOMLDecodeError as error:
        position = _POSITION.search(str(error))
        draft.note(
            "toml_syntax",
            f"not TOML: {error}",
            "correct the line; strings are written in quotes, lists in square brackets",
            file=name,
            row=int(position.group(1)) if position else None,
        )
    except (
        RecursionError,
        ValueError,
    ) as error:  # nested too deep, or an integer of thousands of digits
        draft.note("toml_syntax", f"not TOML that can be read: {error}", "write it simpler", file=name)
    return None


def _note_too_much(draft: Draft, name: str, text: str) -> bool:
    """Note content that would take the parser too long; return whether there is any."""
    if key := _LONG_KEY.search(text):
        draft.note(
            "key_too_long",
            f"a key has more than {_LONGEST_KEY} dots",
            "use fewer nested tables; in a text, put a space between the words",
            file=name,
            row=text.count("\n", 0, key.start()) + 1,
        )
        return True
    for count, line in enumerate(_TABLE_LINE.finditer(text)):
        if count == _MOST_TABLES:
            _note_tables(draft, name, text.count("\n", 0, line.start()) + 1)
            return True
    return False


def _note_too_many(draft: Draft, name: str, toml: TomlFile) -> bool:
    """Note a list of too many tables that was written without headers; return whether there is one."""
    for key, value in (("", toml.values), *toml.values.items()):
        if len(as_list(value) or as_object(value) or ()) > _MOST_TABLES:
            _note_tables(draft, name, toml.row((key,)))
            return True
    return False


def _note_tables(draft: Draft, name: str, row: int | None) -> None:
    message = f"it has more than {_MOST_TABLES:,} tables or keys"
    draft.note("too_many_tables", message, "split the pack, or declare less", file=name, row=row)


def _rows(text: str) -> dict[str, int]:
    rows: dict[str, int] = {}
    count: Counter[str] = Counter()
    table = ""
    inside = False
    for row, line in enumerate(text.split("\n"), start=1):
        was_inside, inside = inside, inside ^ (sum(line.count(fence) for fence in _FENCES) % 2 == 1)
        if was_inside:
            continue
        if header := _HEADER.match(line):
            root, dot, rest = header["name"].partition(".")
            if header["open"] == "[[" and not dot:
                count[root] += 1
            numbered = f"{root}.{count[root] - 1}" if root in count else root
            table = f"{numbered}{dot}{rest}"
            rows.setdefault(table, row)
            if header["open"] == "[[" and dot:
                count[table] += 1
                table = f"{table}.{count[table] - 1}"
                rows.setdefault(table, row)
        elif key := _KEY.match(line):
            rows.setdefault(f"{table}.{key['name']}" if table else key["name"], row)
    return rows


# --- declarations ---


ModelT = TypeVar("ModelT", bound=BaseModel)

_MOST_PROBLEMS = 1_000
"""The limit on listed problems: explaining one takes time, and a file may have a hundred thousand."""

PACK_FILE = "pack.toml"
TUNING_FILE = "tuning.toml"


class Declared(NamedTuple, Generic[ModelT]):
    """The file of a kind of declaration, its contract, and the field that names each."""

    kind: Kind
    file: str
    model: type[ModelT]
    name_field: str = "name"
    beside: tuple[Kind, ...] = ()
    """Other kinds in the same file."""
    may_be_one: bool = False
    """Whether a single table counts as a list of one."""


DECISIONS = Declared("decision", "decisions.toml", DecisionSpec, "id")
GATES = Declared("gate", "gates.toml", Gate)
POLICIES = Declared("policy", "policies.toml", Policy)
ACTORS = Declared("actor", "actors.toml", Actor, "id")
METHODS = Declared("method", "methods.toml", Method, beside=("goal", "task", "fact"))
GOALS = Declared("goal", METHODS.file, Goal, "intent")
TASKS = Declared("task", METHODS.file, Task)
FACTS = Declared("fact", METHODS.file, Fact)
LANES = Declared("lane", "lanes.toml", Lane)
SERVERS = Declared("server", "mcp.toml", ServerTable)
SCENARIOS = Declared("scenario", "scenarios", Scenario)
"""Each of its files is named when it is read."""
ALL_DECLARED = (DECISIONS, GATES, POLICIES, ACTORS, METHODS, LANES, SERVERS)

_REMEDIES = {
    (PACK, "name"): "use lower-case letters, digits, '-' and '_', for example refunds",
    (PACK, "version"): "write three numbers, for example 1.0.0",
    (PACK, "notify"): 'give command = ["…"] or webhook = "https://…"',
    (PACK, "notify.webhook"): "give a URL that begins with http:// or https://",
}


def nameless(values: Mapping[str, Any] | None = None) -> PackFile:
    """Return a placeholder for a `pack.toml` that cannot be read, so that the rest can be checked; it is never loaded."""
    return PackFile.model_validate({"name": "unnamed", "version": "0.0.0", **(values or {})})


def read_pack_file(draft: Draft) -> PackFile:
    """Return `pack.toml` as far as it can be read; problems are noted and their fields omitted."""
    toml = read_toml(draft, PACK_FILE) if draft.has(PACK_FILE) else None
    if toml is None:
        draft.unread.add("tool")
        draft.broken.add(f"{PACK}, safety_mode")
        return nameless()
    draft.spots |= {f"{PACK}, {path}": Spot(PACK_FILE, row) for path, row in toml.rows.items()}
    try:
        return PackFile.model_validate(toml.values)
    except ValidationError as error:
        note_all(draft, error, PackFile, PACK, Spot(PACK_FILE), toml, ())
        wrong = {str(detail["loc"][0]) for detail in error.errors(include_url=False)}
        draft.broken |= {f"{PACK}, {key}" for key in wrong}
        if "tools" in wrong:
            draft.unread.add("tool")
        return nameless({key: value for key, value in toml.values.items() if key not in wrong})


def _with_templates(draft: Draft, table: Any) -> Any:
    """Return a decision with the text of each template in place of its path."""
    decision = as_object(table) or {}
    quality = as_object(decision.get("quality")) or {}
    documents = [as_object(each) for each in as_list(quality.get("documents")) or ()]
    if not documents or not all(each and isinstance(each.get("template"), str) for each in documents):
        return table
    read = [{**each, "template": draft.read_text(each["template"]) or ""} for each in documents if each]
    return {**decision, "quality": {**quality, "documents": read}}


def read_methods(draft: Draft) -> TaskLibrary:
    """Return the facts, tasks, methods and goals of `methods.toml`."""
    toml = read_toml(draft, METHODS.file) if draft.has(METHODS.file) else None
    if toml is None:
        if draft.has(METHODS.file):
            draft.unread |= {METHODS.kind, *METHODS.beside}
        return TaskLibrary()
    note_unknown_keys(draft, METHODS.file, toml, METHODS.kind, *METHODS.beside)
    return TaskLibrary(
        facts=read_tables(draft, FACTS, toml),
        tasks=read_tables(draft, TASKS, toml),
        methods=read_tables(draft, METHODS, toml),
        goals=read_tables(draft, GOALS, toml),
    )


def read_tuning(draft: Draft) -> TuningRules:
    """Return the tuning rules of `tuning.toml`; None if it cannot be read."""
    toml = read_toml(draft, TUNING_FILE) if draft.has(TUNING_FILE) else None
    if toml is None:
        return TuningRules()
    draft.spots[TUNING] = Spot(TUNING_FILE)
    try:
        return TuningRules.model_validate(toml.values)
    except ValidationError as error:
        note_all(draft, error, TuningRules, TUNING, Spot(TUNING_FILE), toml, ())
        return TuningRules()


def read_declared(draft: Draft, declared: Declared[ModelT]) -> tuple[ModelT, ...]:
    """Return the declarations of a file with only one kind."""
    toml = read_declaring(draft, declared)
    return () if toml is None else read_tables(draft, declared, toml)


def read_declaring(draft: Draft, declared: Declared[Any]) -> TomlFile | None:
    """Return a file with only one kind of declarations; None if there is none, or it cannot be read."""
    kind, file = declared.kind, declared.file
    if not draft.has(file):
        return None
    toml = read_toml(draft, file)
    if toml is None:
        draft.unread.add(kind)
        return None
    note_unknown_keys(draft, file, toml, kind)
    if toml.values and kind not in toml.values:
        draft.unread.add(kind)
    return toml


def read_tables(draft: Draft, declared: Declared[ModelT], toml: TomlFile) -> tuple[ModelT, ...]:
    """Return the declarations of one kind in a file."""
    kind, file, model = declared.kind, declared.file, declared.model
    found: list[ModelT] = []
    seen: dict[str, Spot] = {}
    for number, table in enumerate(_tables(draft, declared, toml)):
        path = (kind, number)
        name = (as_object(table) or {}).get(declared.name_field)
        place = f"{kind} {name}" if isinstance(name, str) and name else f"{kind} number {number + 1}"
        spot = Spot(file, toml.row(path))
        if place in seen:
            note_duplicate(draft, place, seen[place], spot)
            continue
        draft.spots[place] = seen[place] = spot
        draft.spots |= {f"{place}, {key}": Spot(file, row) for key, row in toml.rows_in(kind, number).items()}
        try:
            found.append(model.model_validate(_with_templates(draft, table) if kind == "decision" else table))
        except ValidationError as error:
            draft.broken.add(place)
            note_all(draft, error, model, place, spot, toml, path)
    return tuple(found)


def note_unknown_keys(draft: Draft, file: str, toml: TomlFile, *kinds: str) -> None:
    """Note the top-level keys of a file that are none of the kinds of tables in it."""
    for key in toml.values:
        if key not in kinds:
            draft.note(
                "unknown_key",
                f"unknown key {key!r}",
                "; ".join(f"write each {kind} as [[{kind}]]" for kind in kinds),
                file=file,
                row=toml.row((key, 0)),
            )


def _tables(draft: Draft, declared: Declared[Any], toml: TomlFile) -> list[Any]:
    """Return the tables of one kind."""
    kind, file = declared.kind, declared.file
    tables = toml.values.get(kind, [])
    listed = [tables] if declared.may_be_one and as_object(tables) is not None else as_list(tables)
    if listed is None:
        draft.unread.add(kind)
        draft.note(
            "wrong_value", f"{kind} is not a list of tables", f"write [[{kind}]], with two brackets", file=file,
            row=toml.row((kind,)),
        )  # fmt: skip
    return listed or []


def note_duplicate(draft: Draft, place: str, first: Spot, second: Spot) -> None:
    """Note that two declarations have the same name."""
    row = f", line {first.row}" if first.row else ""
    draft.note(
        "duplicate_name",
        f"there are two of this name: the first is in {first.file}{row}",
        "rename one of them, or remove it",
        file=second.file,
        place=place,
        row=second.row,
    )


def note_all(
    draft: Draft,
    error: ValidationError,
    model: type[BaseModel],
    place: str,
    spot: Spot,
    toml: TomlFile,
    path: Sequence[str | int],
) -> None:
    """Note every problem that a contract found in a table."""
    for detail in _list_faults(draft, error, spot):
        location = detail["loc"]
        code, message, remedy = explain(detail, model)
        field = ".".join(map(str, location))
        if code != "unknown_key":
            remedy = _REMEDIES.get((place, field), remedy)
        draft.note(
            code,
            message,
            remedy,
            file=spot.file,
            place=f"{place}, {field}" if field else place,
            row=toml.row((*path, *location)) or spot.row,
        )


def _list_faults(draft: Draft, error: ValidationError, spot: Spot) -> Iterator[Any]:
    """Yield the problems that Pydantic found, up to a limit."""
    for detail in error.errors(include_url=False):
        if len(draft.problems) >= _MOST_PROBLEMS:
            message = f"more than {_MOST_PROBLEMS:,} problems: those after this line are not listed"
            draft.note("too_many_problems", message, "correct the others first", file=spot.file, row=spot.row)
            return
        yield detail


_EXAMPLES = {
    "egress": 'add the addresses that it may call, such as egress = ["api.example.com:443"]',
    "roles": 'add the roles that may approve, such as roles = ["manager"]',
}
"""What to write for keys whose name does not say it."""
_RENAMED = {"required_facts": "required_values"}
"""Keys of earlier versions, with their replacements."""


def explain(detail: Any, model: type[BaseModel]) -> tuple[str, str, str]:
    """Return the code, the message and the remedy for one of Pydantic's errors."""
    location: Sequence[str | int] = detail["loc"]
    key = str(location[-1]) if location else ""
    match detail["type"]:
        case "extra_forbidden":
            known = _fields_at(model, location)
            near = get_close_matches(_RENAMED.get(key, key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
            return "unknown_key", f"unknown key {key!r}", hint if known else "remove it"
        case (
            "template_invalid" | "placeholder_unknown" | "parameter_unused" as own
        ):  # the message is complete already
            what, _, remedy = str(detail["msg"]).partition(": ")
            return own, what, remedy or "correct the template"
        case "missing":
            return "missing_key", f"{key!r} is missing", _EXAMPLES.get(key, f"add {key!r}")
        case _:
            given = repr(detail.get("input"))
            shown = f"{given[:60]}{'…' * (len(given) > 60)}"
            return "wrong_value", *_wrong(detail, shown)


def _fields_at(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """Return the valid keys of the table in which a problem was found; empty if no contract describes it."""
    inside: type[BaseModel] | None = model
    is_name = False
    for part in location[:-1]:
        if isinstance(part, int) or is_name:  # the number of a table, or a name chosen by the author
            is_name = False
            continue
        field = inside.model_fields.get(part) if inside is not None else None
        is_name = field is not None and get_origin(field.annotation) is dict
        inside = _contract_in(field.annotation) if field is not None else None
    return list(inside.model_fields) if inside is not None else []


def _contract_in(annotation: Any) -> type[BaseModel] | None:
    """Return the contract of a field: its type, or one inside a list or an optional type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _contract_in(each)) is not None), None)


def _wrong(detail: Any, shown: str) -> tuple[str, str]:
    expected = (as_object(detail.get("ctx")) or {}).get("expected")
    if expected is not None:
        return f"it cannot be {shown}", f"choose {expected}"
    if detail["type"] == "string_pattern_mismatch":
        return f"{shown} has the wrong form", "correct the value"
    if (words := words_for(detail)) is not None:
        return f"{words.fault} (here: {shown})", words.remedy
    message = str(detail["msg"]).removeprefix("Value error, ")
    said = f"{message[:1].lower()}{message[1:]}"
    if isinstance(detail.get("input"), dict | list | tuple):  # the whole table is not printed
        return said, "correct the values"
    return f"{said} (here: {shown})", "correct the value"
