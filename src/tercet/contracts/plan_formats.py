"""The two published JSON formats of a plan: each loads into the same `Plan` and prints back unchanged.

*Indexed*: `{"steps": [{"kind", "adapter_id", "capability_id", "args", …}], "declared_outputs": […]}`. Steps are
identified by position, counted from 0, and run in order: a step without `depends_on` depends on the one before it. A
step without an id gets `s<index>`.

*Named*: `{"plan_id", "intent", "steps": [{"id", "tool", "params", "depends_on", "requires", …}]}`. Steps are identified
by their ids, and run as early as `depends_on` and their references allow.

Both accept every field of `Plan` and `Step` besides their own spelling. A document that does not parse raises
`PlanError` with all of its problems, each at its place in the original document.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from reprlib import Repr
from typing import Any, cast, get_args

import orjson
from pydantic import ValidationError

from tercet.contracts.errors import PlanError
from tercet.contracts.plan import (
    Plan,
    Step,
    StepKind,
    duplicate_ids,
    malformed,
    named_problems,
    tool_fault,
)
from tercet.contracts.problem import Problem
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.references import MAX_DEPTH, Place, is_text


def problem(code: str, place: str, message: str, remedy: str) -> Problem:
    """Return a problem at a place of the document."""
    return Problem(code=code, place=place, message=message, remedy=remedy)


def explained(detail: Any, location: list[str | int]) -> Problem:
    """Return one of Pydantic's errors as a problem at this location."""
    message, remedy = _words(detail, location)
    return problem(_CODES.get(detail["type"], "wrong_value"), pointer.join(location), message, remedy)


_CODES = {"extra_forbidden": "unknown_field", "missing": "missing_field"}


def _words(detail: Any, location: list[str | int]) -> tuple[str, str]:
    """Return the message and the remedy for one of Pydantic's errors."""
    field = str(location[-1]) if location else "the plan"
    owner = Step if location[:1] == ["steps"] and len(location) <= 3 else Plan
    message = str(detail["msg"]).removeprefix("Value error, ")
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown field {field!r}", f"known here: {', '.join(owner.model_fields)}" if len(
                location
            ) in (1, 3) else "remove it"
        case "missing":
            return f"{field!r} is missing", f"add {field!r}"
        case "value_error":
            return message, ""
        case "too_long":
            return f"it has more than {detail['ctx']['max_length']:,} items", "split the plan"
        case kind:
            wanted = _WANTED.get(kind, f"{message[:1].lower()}{message[1:]}")
            return f"{wanted} (here: {_shown(detail.get('input'))})", ""


_WANTED = {
    "tuple_type": "it should be a list",
    "dict_type": "it should be an object",
    "model_type": "it should be an object",
    "string_unicode": "a string holds an unpaired surrogate",
}

_REPR = Repr()
_REPR.maxlevel, _REPR.maxdict, _REPR.maxlist, _REPR.maxstring = 2, 3, 3, 60


def _shown(value: Any) -> str:
    """Return the beginning of a value as text, however large or deep it is."""
    try:
        text = _REPR.repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a very long integer"
    return text if len(text) <= 60 else f"{text[:60]}…"


MAX_BYTES = 16 * 2**20
"""A larger plan document is rejected without parsing: pass large data as evidence or through a tool."""
MAX_PROBLEMS = 100


class PlanFormat(StrEnum):
    """One of the two published formats of a plan."""

    INDEXED = "indexed"
    NAMED = "named"


_SPELLING: dict[PlanFormat, dict[str, str]] = {
    PlanFormat.INDEXED: {"args": "params", "requires": "gates"},
    PlanFormat.NAMED: {"requires": "gates"},
}


def load_plan(source: str | bytes | Mapping[str, Any], format: PlanFormat | None = None) -> Plan:  # noqa: A002
    """Return the plan in a JSON text or document; without a format, the format is detected."""
    document = _document(source)
    return _Loader(document, format or detect_format(document)).load()


def detect_format(document: Mapping[str, Any]) -> PlanFormat:
    """Return the format of a document: indexed if a step uses its spelling, or if no step has an id."""
    steps = [fields for step in _listed(document.get("steps")) if (fields := as_object(step)) is not None]
    own = {"adapter_id", "capability_id", "args"}
    if any(own & set(step) for step in steps):
        return PlanFormat.INDEXED
    if any("id" in step for step in steps):
        return PlanFormat.NAMED
    return PlanFormat.INDEXED if steps or "declared_outputs" in document else PlanFormat.NAMED


def print_plan(plan: Plan, format: PlanFormat) -> dict[str, Any]:  # noqa: A002
    """Return the plan as a JSON document in one of the two formats, without default values."""
    document = plan.model_dump(mode="json", exclude_defaults=True, exclude={"steps"})
    printed = [_print_step(plan, index, format) for index in range(len(plan.steps))]
    if printed and detect_format({"steps": printed}) is not format:
        printed[0]["args"] = {}  # only notes with ids of their own: make the format detectable
    before = {
        name: document.pop(name) for name in ("plan_id", "revision", "parent", "intent") if name in document
    }
    return {**before, "steps": printed, **document}


def _print_step(plan: Plan, index: int, format: PlanFormat) -> dict[str, Any]:  # noqa: A002
    step = plan.steps[index]
    fields = step.model_dump(mode="json", exclude_defaults=True)
    if "gates" in fields:
        fields["requires"] = fields.pop("gates")
    if format is PlanFormat.NAMED:
        return fields
    own: dict[str, Any] = {"kind": step.kind}
    if step.tool is not None:
        own["adapter_id"], _, own["capability_id"] = fields.pop("tool").partition(".")
    if step.tool is not None or step.params:
        own["args"] = fields.pop("params", {})
    if step.id == f"s{index}":
        del fields["id"]
    if step.depends_on == _implied(plan.steps[index - 1].id if index else None):
        fields.pop("depends_on", None)
    elif not step.depends_on:
        fields["depends_on"] = []
    return {**own, **fields}


def _implied(previous: str | None) -> tuple[str, ...]:
    return () if previous is None else (previous,)


def _document(source: Any) -> Mapping[str, Any]:
    """Return the JSON object in a source."""
    is_text = isinstance(source, str | bytes | bytearray | memoryview)
    document = _parsed(cast("str | bytes", source)) if is_text else source
    if isinstance(document, Mapping):
        return cast("Mapping[str, Any]", document)
    raise _refused(
        "not_an_object", f"a plan is a JSON object, not {_kind(document)}", 'begin with {"steps": […]}'
    )


def _parsed(source: str | bytes) -> Any:
    size = len(source)
    if isinstance(source, str) and not source.isascii():
        size = len(source.encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        raise _refused(
            "plan_too_large",
            f"the plan has {size:,} bytes, over {MAX_BYTES:,}",
            "pass large data as evidence, or let a tool fetch it",
        )
    try:
        document = orjson.loads(source)
    except orjson.JSONDecodeError as error:
        raise _unread(source, str(error)) from error
    _demand_unique_keys(source)
    return document


def _demand_unique_keys(source: str | bytes) -> None:
    """Reject an object that contains a key twice: two readers could take it for two different plans."""
    try:
        text = source if isinstance(source, str) else bytes(source)
        json.loads(text, object_pairs_hook=_demand_unique)
    except _RepeatedKeyError as error:
        raise _refused(
            "not_json", f"the key {str(error)!r} occurs twice in one object", "keep one of them"
        ) from error
    except (ValueError, RecursionError):
        pass  # the first parser accepted it; if it is still wrong, the checks of the plan report it


class _RepeatedKeyError(Exception):
    pass


def _demand_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKeyError(next(key for key in keys if keys.count(key) > 1)[:100])
    return found


def _unread(source: str | bytes, why: str) -> PlanError:
    """Return the problem of a text that the parser rejected."""
    try:
        _ = source.encode() if isinstance(source, str) else bytes(source).decode()
    except UnicodeError:
        return _refused("not_json", "not UTF-8 text", "save the plan as UTF-8; a plan is one JSON object")
    if "depth" in why or "recursion" in why.lower():
        remedy = f"flatten it: parameters may nest {MAX_DEPTH} levels; pass deeper data as evidence"
        return _refused("not_json", f"nested too deep: {why}", remedy)
    remedy = "a plan is one JSON object; NaN, comments and unpaired surrogates are not JSON"
    return _refused("not_json", f"not JSON: {why}", remedy)


def _refused(code: str, message: str, remedy: str) -> PlanError:
    return PlanError([problem(code, "", message, remedy)])


class _Loader:
    """Converts one document into the superset model, and remembers how its fields were spelt."""

    def __init__(self, document: Mapping[str, Any], format: PlanFormat) -> None:  # noqa: A002
        self.source = document
        self.steps = _listed(document.get("steps"))
        self.declared = _listed(document.get("declared_outputs"))
        self.format = format
        self.problems: list[Problem] = []

    def load(self) -> Plan:
        document = self._normalised()
        try:
            plan = Plan.model_validate(document)
        except ValidationError as error:
            found = error.errors(include_url=False)[:MAX_PROBLEMS]
            self.problems += [self._from_pydantic(detail) for detail in found]
            self.problems += self._beyond_types(document)
        except PlanError as error:
            self.problems += [self._respelt(problem) for problem in error.problems]
        else:
            if not self.problems:
                return plan
        raise PlanError(self.problems[:MAX_PROBLEMS])

    def _normalised(self) -> dict[str, Any]:
        document = dict(self.source)
        if self.steps:
            document["steps"] = list(self._steps(self.steps))
        outputs = as_list(document.get("outputs"))
        if outputs is not None:
            # Published plans list outputs by name; the superset maps a name to where its value comes from.
            del document["outputs"]
            if isinstance(document.get("declared_outputs", []), list | tuple):
                document["declared_outputs"] = [*self.declared, *outputs]
        return document

    def _steps(self, steps: list[Any]) -> Iterator[Any]:
        previous: str | None = None
        for index, raw in enumerate(steps):
            fields = as_object(raw)
            if fields is None:
                yield raw
                continue
            step = self._renamed(index, dict(fields))
            if self.format is PlanFormat.INDEXED:
                step.setdefault("id", f"s{index}")
                step["depends_on"] = _ids(step.get("depends_on", _implied(previous)), steps)
                previous = step["id"] if isinstance(step["id"], str) else None
            yield step

    def _renamed(self, index: int, step: dict[str, Any]) -> dict[str, Any]:
        for spelt, name in _SPELLING[self.format].items():
            if spelt in step:
                if name in step:
                    self._twice(index, spelt, name)
                step[name] = step.pop(spelt)
        if self.format is PlanFormat.INDEXED and {"adapter_id", "capability_id"} & step.keys():
            adapter, capability = step.pop("adapter_id", None), step.pop("capability_id", None)
            if "tool" in step:
                self._twice(index, "capability_id", "tool")
            else:
                step["tool"] = self._tool(index, adapter, capability)
        return step

    def _tool(self, index: int, adapter: Any, capability: Any) -> str:
        if not isinstance(adapter, str) or not isinstance(capability, str):
            missing = "capability_id" if isinstance(adapter, str) else "adapter_id"
            message = f"step {index} needs both adapter_id and capability_id as strings"
            self._problem("missing_field", f"/steps/{index}/{missing}", message, "name the tool by both")
            return "adapter.capability"  # a placeholder, so that the same step is not reported twice
        if "." in adapter:
            message = f"the adapter of step {index} ends at the first dot"
            remedy = "write what follows the first dot into capability_id"
            self._problem("wrong_value", f"/steps/{index}/adapter_id", message, remedy)
        return f"{adapter}.{capability}"

    def _twice(self, index: int, spelt: str, name: str) -> None:
        message = f"step {index} has both {spelt} and {name}"
        self._problem("duplicate_field", f"/steps/{index}/{name}", message, f"keep {spelt}")

    def _problem(self, code: str, place: str, message: str, remedy: str) -> None:
        self.problems.append(problem(code, place, message, remedy))

    def _beyond_types(self, document: dict[str, Any]) -> Iterator[Problem]:
        """Report the problems that the model's own validators would have found if the types had been right."""
        steps = [as_object(step) or {} for step in _listed(document.get("steps"))]
        ids = [step.get("id") for step in steps]
        # A step whose id is missing or not a string gets a unique placeholder.
        named = [found if isinstance(found, str) else f"\0{index}" for index, found in enumerate(ids)]
        yield from map(self._respelt, duplicate_ids(named))
        reported = {problem.place for problem in self.problems}
        for index, step in enumerate(steps):
            if f"/steps/{index}" not in reported:
                yield from map(self._respelt, _misfit(index, step))
            yield from map(self._respelt, _malformed_step(index, step))
        yield from _malformed(document.get("outputs"), ("outputs",))

    def _from_pydantic(self, detail: Any) -> Problem:
        location = [part for part in detail["loc"] if part != "[key]"]
        return self._respelt(explained(detail, location))

    def _respelt(self, problem: Problem) -> Problem:
        """Return the problem at the place where the author wrote the field."""
        place = self._as_written(pointer.parts(problem.place))
        return problem.model_copy(update={"place": pointer.join(place)})

    def _as_written(self, place: tuple[str, ...]) -> Place:
        match place:
            case ("steps", index, name, *rest) if index.isdecimal() and int(index) < len(self.steps):
                raw = as_object(self.steps[int(index)]) or {}
                spelt = [
                    own for own, proper in _SPELLING[self.format].items() if proper == name and own in raw
                ]
                return ("steps", index, spelt[0] if spelt else name, *rest)
            case ("declared_outputs", index, *rest) if index.isdecimal() and int(index) >= len(self.declared):
                return ("outputs", int(index) - len(self.declared), *rest)
            case _:
                return place


def _ids(value: Any, steps: list[Any]) -> Any:
    """Return the dependencies of an indexed step, with positions turned into ids."""
    if not isinstance(value, list | tuple):
        return value
    return [_id_at(item, steps) if type(item) is int else item for item in cast("list[Any]", value)]


def _id_at(index: int, steps: list[Any]) -> Any:
    fields = as_object(steps[index]) if 0 <= index < len(steps) else None
    return (fields or {}).get("id", f"s{index}")


def _misfit(index: int, step: dict[str, Any]) -> Iterator[Problem]:
    kind, tool = step.get("kind", "tool"), step.get("tool")
    if kind in get_args(StepKind) and (tool is None or isinstance(tool, str)):
        fault = tool_fault(kind, tool)
        if fault is not None:
            yield problem("wrong_value", f"/steps/{index}", fault, "")


def _malformed_step(index: int, step: dict[str, Any]) -> list[Problem]:
    own = (as_object(step.get("compensate")) or {}).get("params")
    return [
        *_malformed(step.get("params"), ("steps", index, "params")),
        *_malformed(own, ("steps", index, "compensate", "params")),
    ]


def _malformed(value: Any, place: Place) -> list[Problem]:
    members = as_object(value)
    if members is not None and all(map(is_text, members)):
        return named_problems(members, place)
    return malformed(value, place)


def _listed(value: Any) -> list[Any]:
    return list(cast("list[Any]", value)) if isinstance(value, list | tuple) else []


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "a list"
        case str():
            return "a string"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case _:
            return f"a {type(value).__name__}"
