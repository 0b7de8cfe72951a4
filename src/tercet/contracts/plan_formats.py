"""The two published JSON shapes of a plan: each loads into the one `Plan`, and prints back as it came.

*Indexed*: `{"steps": [{"kind", "adapter_id", "capability_id", "args", …}], "declared_outputs": […]}`.
Steps are known by their position, counted from 0; they run in the order they stand in, so a step that says nothing
about `depends_on` depends on the one before it. A step without an id gets `s<index>`.

*Named*: `{"plan_id", "intent", "steps": [{"id", "tool", "params", "depends_on", "requires", …}]}`.
Steps are known by their ids, and run as early as `depends_on` and their references allow.

Both accept every field of `Plan` and `Step` beside their own spelling. A document that does not parse raises
`PlanError` with all of its problems, each at its place in the document as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, cast

import orjson
from pydantic import ValidationError

from tercet.contracts import pointer
from tercet.contracts.errors import PlanError
from tercet.contracts.plan import Plan, Step, duplicate_ids, malformed
from tercet.contracts.problem import Problem
from tercet.contracts.shape import as_list, as_object

MAX_BYTES = 16 * 2**20
"""A plan document of more bytes is refused unread: pass large data as evidence or through a tool."""
MAX_PROBLEMS = 100


class PlanFormat(StrEnum):
    """Which of the two published shapes a plan is written in."""

    INDEXED = "indexed"
    NAMED = "named"


_SPELLING: dict[PlanFormat, dict[str, str]] = {
    PlanFormat.INDEXED: {"args": "params", "requires": "gates"},
    PlanFormat.NAMED: {"requires": "gates"},
}


def load_plan(source: str | bytes | Mapping[str, Any], format: PlanFormat | None = None) -> Plan:  # noqa: A002
    """The plan in a JSON text or document; without a format, the one that it is written in."""
    document = _document(source)
    return _Loader(document, format or detect_format(document)).load()


def detect_format(document: Mapping[str, Any]) -> PlanFormat:
    """The shape a document is written in: indexed if a step has its spelling, or if no step has an id."""
    steps = [fields for step in _listed(document.get("steps")) if (fields := as_object(step)) is not None]
    own = {"adapter_id", "capability_id", "args"}
    if any(own & set(step) for step in steps):
        return PlanFormat.INDEXED
    if any("id" in step for step in steps):
        return PlanFormat.NAMED
    return PlanFormat.INDEXED if steps or "declared_outputs" in document else PlanFormat.NAMED


def print_plan(plan: Plan, format: PlanFormat) -> dict[str, Any]:  # noqa: A002
    """The plan as a JSON document in one of the two shapes, without what a reader would assume anyway."""
    document = plan.model_dump(mode="json", exclude_defaults=True, exclude={"steps"})
    printed = [_print_step(plan, index, format) for index in range(len(plan.steps))]
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


def _document(source: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON object that a source holds."""
    if isinstance(source, Mapping):
        return source
    if len(source) > MAX_BYTES:
        raise PlanError(
            [
                _problem(
                    "plan_too_large",
                    "",
                    f"the plan has {len(source):,} bytes, over {MAX_BYTES:,}",
                    "pass large data as evidence, or let a tool fetch it",
                )
            ]
        )
    try:
        document: Any = orjson.loads(source)
    except orjson.JSONDecodeError as error:
        raise PlanError(
            [
                _problem(
                    "not_json",
                    "",
                    f"not JSON: {error}",
                    "a plan is one JSON object; NaN, comments and unpaired surrogates are not JSON",
                )
            ]
        ) from error
    if not isinstance(document, dict):
        raise PlanError(
            [
                _problem(
                    "not_an_object",
                    "",
                    f"a plan is a JSON object, not {_kind(document)}",
                    'begin with {"steps": […]}',
                )
            ]
        )
    return cast("dict[str, Any]", document)


class _Loader:
    """Turns one document into the superset, remembering how its fields were spelt."""

    def __init__(self, document: Mapping[str, Any], format: PlanFormat) -> None:  # noqa: A002
        self.source = document
        self.format = format
        self.problems: list[Problem] = []

    def load(self) -> Plan:
        document = self._normalised()
        try:
            plan = Plan.model_validate(document)
        except ValidationError as error:
            self.problems += [self._from_pydantic(detail) for detail in error.errors(include_url=False)]
            self.problems += self._beyond_types(document)
        except PlanError as error:
            self.problems += [self._respelt(problem) for problem in error.problems]
        else:
            if not self.problems:
                return plan
        raise PlanError(self.problems[:MAX_PROBLEMS])

    def _normalised(self) -> dict[str, Any]:
        document = dict(self.source)
        steps = document.get("steps")
        if isinstance(steps, list):
            document["steps"] = list(self._steps(cast("list[Any]", steps)))
        if isinstance(document.get("outputs"), list):
            # Published plans list outputs by name; the superset maps a name to where its value comes from.
            document["declared_outputs"] = [
                *_listed(document.get("declared_outputs")),
                *document.pop("outputs"),
            ]
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
            elif isinstance(adapter, str) and isinstance(capability, str):
                step["tool"] = f"{adapter}.{capability}"
            else:
                missing = "adapter_id" if not isinstance(adapter, str) else "capability_id"
                self.problems.append(
                    _problem(
                        "missing_field",
                        f"/steps/{index}/{missing}",
                        f"step {index} needs both adapter_id and capability_id as strings",
                        "name the tool by both",
                    )
                )
                step["tool"] = "adapter.capability"
        return step

    def _twice(self, index: int, spelt: str, name: str) -> None:
        self.problems.append(
            _problem(
                "duplicate_field",
                f"/steps/{index}/{name}",
                f"step {index} has both {spelt} and {name}",
                f"keep {spelt}",
            )
        )

    def _beyond_types(self, document: dict[str, Any]) -> Iterator[Problem]:
        """What the superset would also have objected to, had the types been right."""
        steps = [as_object(step) or {} for step in _listed(document.get("steps"))]
        ids = [str(step.get("id", f"\0{index}")) for index, step in enumerate(steps)]
        yield from map(self._respelt, duplicate_ids(ids))
        for index, step in enumerate(steps):
            yield from map(self._respelt, malformed(step.get("params"), ("steps", index, "params")))
        yield from map(self._respelt, malformed(document.get("outputs"), ("outputs",)))

    def _from_pydantic(self, detail: Any) -> Problem:
        location = list(detail["loc"])
        message, remedy = _explain(detail, location)
        return self._respelt(
            _problem(_CODES.get(detail["type"], "wrong_value"), pointer.join(location), message, remedy)
        )

    def _respelt(self, problem: Problem) -> Problem:
        """The problem at the place where the author wrote the field."""
        tokens = list(pointer.parts(problem.place))
        if len(tokens) > 2 and tokens[0] == "steps":
            raw = as_object(self.source["steps"][int(tokens[1])]) if tokens[1].isdecimal() else None
            for spelt, name in _SPELLING[self.format].items():
                if tokens[2] == name and raw is not None and spelt in raw:
                    tokens[2] = spelt
        return problem.model_copy(update={"place": pointer.join(tokens)})


def _ids(value: Any, steps: list[Any]) -> Any:
    """The dependencies of an indexed step, with positions turned into ids."""
    if not isinstance(value, list | tuple):
        return value
    return [_id_at(item, steps) if type(item) is int else item for item in cast("list[Any]", value)]


def _id_at(index: int, steps: list[Any]) -> str:
    fields = as_object(steps[index]) if 0 <= index < len(steps) else None
    return str((fields or {}).get("id", f"s{index}"))


_CODES = {"extra_forbidden": "unknown_field", "missing": "missing_field"}


def _explain(detail: Any, location: list[str | int]) -> tuple[str, str]:
    """A sentence for a person or a planner, and what to do about it."""
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
        case _:
            given = repr(detail.get("input"))
            return (
                f"{message[:1].lower()}{message[1:]} (here: {given[:60]}{'…' if len(given) > 60 else ''})",
                "",
            )


def _problem(code: str, place: str, message: str, remedy: str) -> Problem:
    return Problem(code=code, place=place, message=message, remedy=remedy)


def _listed(value: Any) -> list[Any]:
    return as_list(value) or []


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
        case _:
            return "a number"
