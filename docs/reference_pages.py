"""Writes the generated pages in docs/reference: refusal codes, events and the fields of pack files. `make api` runs it."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.lane import Lane
from tercet.contracts.loop import Phase
from tercet.contracts.packs.scenario import Answer, Expectation, Scenario, ToolResult
from tercet.contracts.packs.tuning import TuningRules
from tercet.contracts.plan import Plan, Step
from tercet.contracts.policy import Policy
from tercet.contracts.request import Actor
from tercet.contracts.tasks import Fact, Goal, Method, Task
from tercet.contracts.tool import ToolSpec
from tercet.contracts.verdict import KIND_OF, Code
from tercet.core.table import TABLE
from tercet.packs.declarations import ServerTable
from tercet.packs.parts import PackFile
from tercet.policy.expressions import CALL, PLAN, STEP, Scope, planning_scope
from tercet.tools.commands.command import Command
from tercet.tools.http.service import Operation, Service

FOLDER = Path(__file__).resolve().parent / "reference"
_TEXTS = runpy.run_path(str(Path(__file__).with_name("field_meanings.py")))
MEANINGS: dict[str, dict[str, str]] = _TEXTS["MEANINGS"]
VARIABLES: dict[str, str] = _TEXTS["VARIABLES"]
GENERATED = "<!-- `make api` writes this page; a test fails when it is out of date. -->"

REFUSALS: dict[Code, tuple[str, str]] = {
    Code.OUTPUT_NOT_DECLARED: ("the plan lacks an output that its decision requires", "add the output, by reference to a step"),
    Code.TOOL_NOT_SURFACED: ("the run does not see the tool: it does not exist, or roles, tenant, the decision or the safety mode withhold it", "`tercet context` says which; use another tool, or start the run with that role"),
    Code.MODE_EXCEEDED: ("a step goes further than the safety mode of the run", "raise `safety_mode`, or take a milder tool"),
    Code.EVIDENCE_NOT_PINNED: ("a step or the decision requires evidence of a class, and none is pinned", "pin it in `evidence_refs`, or declare a query"),
    Code.EVIDENCE_UNRESOLVED: ("a pinned fact is not in the snapshot", "correct its id, or name another snapshot"),
    Code.TOO_MANY_STEPS: ("the plan has more steps than `max_steps`", "split the request, or raise the budget"),
    Code.TOKENS_EXCEEDED: ("the estimated tokens exceed what is left", "use cheaper steps, or raise the budget"),
    Code.EMPTY_PLAN: ("the plan has no step", "propose a step, or refuse the request"),
    Code.KIND_UNAVAILABLE: ("a step is of a kind that cannot run here, such as a lane inside a lane", "use a tool step"),
    Code.CYCLIC_DEPENDENCY: ("steps wait for each other; the circle is named", "remove one dependency"),
    Code.UNRESOLVED_REFERENCE: ("a reference points at a step or field that does not exist", "correct the path after `#`"),
    Code.EXPRESSION_INVALID: ("a `when` or a `$cel` does not compile, or is not boolean", "correct the expression"),
    Code.ARGUMENT_INVALID: ("a parameter is missing, unknown or of another type", "follow the tool's schema: `tercet tools list`"),
    Code.ARGUMENT_NOT_PERMITTED: ("a parameter breaks a limit of its tool", "choose a value within the limit"),
    Code.MODE_UNDERSTATED: ("the step declares a milder mode than its tool has", "leave `approval_mode` out, or write the tool's"),
    Code.GATE_MISSING: ("a destructive or irreversible step has no unconditional gate", "name a gate in the tool"),
    Code.GATE_UNKNOWN: ("a step names a gate that the pack does not have", "correct the name"),
    Code.UNBOUND_ARGUMENT: ("a parameter with authority has a value without a permitted source", "the remedy of the refusal fits its cause: take the value from the request, pin the evidence that holds it, refer to a field that is trusted, or make a request that gives it"),
    Code.COMPENSATION_MISSING: ("a step with an effect says neither how to undo it nor that this is impossible", "declare `compensate` or `no_compensation`"),
    Code.UNMET_PRECONDITION: ("nothing before the step brings about what it presupposes", "add the step that does"),
    Code.THREATENED_CONDITION: ("a step that may run in between undoes a condition", "order the steps with `depends_on`"),
    Code.LATENCY_EXCEEDED: ("the longest path takes more time than is left", "run steps side by side, or raise `wall_clock_ms`"),
    Code.CONCURRENCY_EXCEEDED: ("more steps would run at once than allowed", "let some wait for others"),
    Code.BRANCHES_EXCEEDED: ("conditions nest deeper than `max_branch_depth`", "flatten the plan"),
    Code.TOOL_CALLS_EXCEEDED: ("the plan makes more calls than are left", "make fewer, or raise `tool_calls`"),
    Code.COST_EXCEEDED: ("the plan costs more than is left", "use cheaper tools, or raise the budget"),
    Code.POLICY_INVARIANT: ("a policy does not hold; the reason names it", "follow the policy's remedy"),
    Code.CHECKPOINT_UNBOUND: ("a decision checkpoint names a step or decision that is not there", "correct the checkpoint"),
    Code.DUPLICATE_ACTION: ("the same tool is called twice with the same identity", "remove one call, or list the tool in `repeatable`"),
    Code.AUTHORIZATION_REQUIRED: ("the owner of the run lacks a role that the tool asks for", "let someone with that role start the run"),
    Code.TOOL_DEFINITION_CHANGED: ("an MCP server offers another definition than the pinned one", "read the difference, then `tercet tools pin`"),
    Code.LANE_NOT_ELIGIBLE: ("a step cannot be a lane as it is declared", "follow the reason: [lanes](../lanes.md)"),
    Code.FAN_OUT_EXCEEDED: ("the plan starts more lanes than allowed", "start fewer"),
    Code.DEPTH_EXCEEDED: ("runs inside of runs nest too deep", "do it in the parent"),
}  # fmt: skip
"""Cause and remedy of each refusal code."""

CALLS: dict[str, tuple[str, str]] = {
    "repeated_call": ("another run has made this call, and its tool allows it once in a period (`once_per`); the reason names that run", "do not call it again; or let `then = \"ask\"` ask a person"),
    "budget_exceeded": ("what is left of the budget does not cover the call", "`tercet sessions extend`, or raise the budget of the pack"),
    "evidence_expired": ("a fact that the call is based on has expired", "start the run again on fresh evidence"),
    "approver_lost_role": ("a person who approved the call no longer holds the role", "let another person approve it"),
    "circuit_open": ("the tool failed so often that it is not called for a while", "look at what it calls, then ask again"),
    "retries_exhausted": ("the call did not happen, and no retry is left", "look at what it calls, then ask again"),
    "unresolved": ("a reference leads to nothing in a result, or an expression fails", "compare the reference with what the tool returned: `tercet sessions show`"),
    "nothing_selected": ("no item matches a `$select`", "select less narrowly, or make the step optional"),
    "not_comparable": ("the items of a `$select` cannot be ordered by that field", "choose a field that every item has, all numbers or all texts"),
    "value_too_large": ("what is referred to, computed or noted exceeds its limit", "refer to the parts that are needed"),
    "personal_token": ("the token of a [personal value](../erasure.md) that is not of this session's subject or evidence, or that an expression puts together", "pass the value itself, by a reference to the field that holds it"),
    "not_proposable": ("a note or an expression of a lane needs the result of a step that the lane only proposes", "let the parent compute it: [lanes](../lanes.md)"),
    "lane_needs_person": ("a call of a lane waits for a person, in a session of an earlier version", "make the call in the parent"),
}  # fmt: skip
"""Cause and remedy of the codes that only a call can get, when it is due."""

ANSWERS: dict[str, tuple[str, str]] = {
    "own_gate": ("the person started the run", "let another person answer"),
    "already_approved": ("the person, or their login, has approved this gate", "let another person approve it as well"),
    "own_change": ("the person has set a value in the call", "let another person approve it"),
    "role_missing": ("the person holds no role that the gate asks for", "let a person with that role answer"),
    "wrong_login": ("the list of people gives the name to another login", "answer from that login"),
    "reserved_name": ("the name is that of a policy", "use the name of a person"),
    "simulation_refused": ("`--dev` in a session that was not started with it", "answer from the person's own login or key"),
    "gate_not_open": ("the gate was answered, or its call has changed", "`tercet gates list` shows the open ones"),
    "gate_expired": ("the gate has expired, and its session with it", "start the run again"),
    "evidence_expired": ("a fact that the call is based on has expired", "deny it, and start the run again"),
    "wrong_answer": ("the gate asks for another kind of answer", "`tercet gates show` lists the options"),
    "wrong_digest": ("the call is not the one with that digest", "look at the gate again"),
    "wrong_value": ("a value does not fit what the gate asks for", "follow the reason"),
    "unsettled": ("a call of the run may or may not have happened", "resume the session, so that it is settled"),
    "note_missing": ("a change has no words", "add a note"),
    "nothing_changed": ("the gate shows these values already", "approve it, or set another value"),
    "unknown_parameter": ("the call has no such parameter", "use a name that the gate shows"),
    "not_settable": ("no value can be set there", "follow the remedy, or deny the call"),
    "no_other_approver": ("without the person who sets a value too few could approve", "add an actor with the role, or deny the call"),
    "change_pending": ("another call of the run is being changed", "resume the session, then answer its next gate"),
    "compensation_fixed": ("a compensation cannot be changed", "approve or deny it"),
    "callers_plan": ("the caller gave the plan, so no planner can change it", "deny it, and run a changed plan"),
    "template_plan": ("a template made the plan, and knows no other", "deny it, and ask again with another request"),
    "outputs_accepted": ("the outputs were accepted, and no other plan is made for them", "approve or deny the delivery"),
    "not_approved": ("there is no approval of this person to withdraw", "each person withdraws their own"),
    "too_late": ("the call has begun, so the approval cannot be withdrawn", "wait for its outcome"),
    "outdated_rules": ("an earlier version started the session", "resume it first, then answer its new gate"),
    "lane_gate": ("the gate belongs to a lane", "answer it at the run that started the lane"),
    "lane_budget": ("a lane has the budget that was reserved for it", "extend the run that started it"),
    "not_running": ("there is nothing to pause", "answer its gate, resume it, or cancel it"),
    "session_ending": ("the end of the run is decided", "`tercet sessions resume` brings it to its end"),
    "session_over": ("the run is over", "start another"),
    "usage": ("values were given with an answer that sets none", "answer with `modify`"),
}  # fmt: skip
"""Cause and remedy of the codes with which an answer to a gate, or another message to a run, is refused."""

FILES: dict[str, tuple[tuple[str, type[BaseModel]], ...]] = {
    "pack.toml": (("the file", PackFile),),
    "tools.py": (("@tool", ToolSpec),),
    "decisions.toml": (("[[decision]]", DecisionSpec),),
    "gates.toml": (("[[gate]]", Gate),),
    "policies.toml": (("[[policy]]", Policy),),
    "actors.toml": (("[[actor]]", Actor),),
    "evidence/*.json": (("a fact", Evidence),),
    "templates/*.json, plans/*.json": (("the plan", Plan), ("steps", Step)),
    "methods.toml": (("[[goal]]", Goal), ("[[task]]", Task), ("[[method]]", Method), ("[[fact]]", Fact)),
    "lanes.toml": (("[[lane]]", Lane),),
    "mcp.toml": (("[[server]]", ServerTable),),
    "http.toml": (("[[service]]", Service), ("[[service.tool]]", Operation)),
    "commands.toml": (("[[command]]", Command),),
    "tuning.toml": (("the file", TuningRules),),
    "scenarios/*.toml": (("[[scenario]]", Scenario), ("results", ToolResult), ("answers", Answer), ("expect", Expectation)),
}  # fmt: skip
"""The models behind each file of a pack."""

NOTES = {
    "http.toml": "`[service.defaults]` gives what `[[service.tool]]` declares about the tool for all operations of a service.",
}
"""What is said about a file besides its fields."""

_NO_FACTS: tuple[tuple[str, str], ...] = ()
_RESULTS = (
    'the ids of steps, each as its result; `request`; `evidence["ID"]`; `outputs`, once they are accepted'
)
EXPRESSIONS: tuple[tuple[str, str, Scope | str, str, str], ...] = (
    ("policy over the plan", "`policies.toml`: `expression` with `scope = \"plan\"`", PLAN, "boolean", "at review; again before each effect, on all values known by then"),
    ("policy over each step", "`policies.toml`: `expression` with `scope = \"step\"`", STEP, "boolean", "at review; again on the resolved call, just before it is made"),
    ("limit of a tool", "`limits` of a tool", CALL, "boolean", "at review; again on the resolved call, just before it is made"),
    ("condition of a gate", "`gates.toml`: `when`", CALL, "boolean", "at review where all arguments are known; on the resolved call, when the step is ready"),
    ("choice of a method", "`methods.toml`: `applies` and `cost` of a method", planning_scope(_NO_FACTS), "boolean; for `cost` a number", "while the plan is made"),
    ("condition of a step, method or subtask", "plan, template or `methods.toml`: `when`", _RESULTS, "boolean", "when the steps that it reads have ended; false skips the step"),
    ("computed value", "plan or template: `{\"$cel\": \"…\"}`", _RESULTS + "; in a compensation `self`, the result of its step, and `params`", "any JSON value", "at review if everything that it reads is known, else when the step is called"),
    ("computed value of a document", "`[[decision.quality.values]]`: `cel`", "`request`, the ids of steps, and the classes of evidence, each by its name", "the `type` of the value", "before outputs are rendered and verified"),
)  # fmt: skip
"""Each expression of a pack: where it is written, what it reads, what it yields, and when it is evaluated."""


def expressions() -> str:
    """Return the part about CEL: where expressions are, and which variables each may read."""
    rows: list[str] = []
    for title, place, scope, yields, when in EXPRESSIONS:
        reads = scope if isinstance(scope, str) else ", ".join(f"`{name}`" for name in _groups(scope))
        rows.append(f"| {title} | {place} | {reads} | {yields} | {when} |\n")
    names = {name: kind for _, _, scope, _, _ in EXPRESSIONS if isinstance(scope, Scope) for name, kind in scope.variables.items()}  # fmt: skip
    variables = "".join(
        f"| `{name}` | {_cel_type(kind)} | {VARIABLES[name]} |\n" for name, kind in sorted(names.items())
    )
    return f"""Expressions are written in [CEL](https://cel.dev).

| expression | written in | variables | yields | evaluated |
|---|---|---|---|---|
{"".join(rows)}| | | `state.NAME` in `applies` and `cost`: a `[[fact]]` with its declared type | | |

| variable | type | meaning |
|---|---|---|
{variables}
- **Typed.** Rules of a pack are compiled when it is loaded: an unknown name or a wrong type is an error of `tercet check`.
- **Fail closed.** A rule that cannot be evaluated does not hold. `has(args.note)` asks whether an optional argument is there.
- **Bounded.** Rules: 4,000 characters, and `all`, `exists`, `exists_one`, `map` and `filter` nested at most two deep. `when` and `$cel`, which planners write: 1,000 characters, and none of these.
- **No clock.** There is no current time, and time zones are offsets such as `"+02:00"`.
"""


def _groups(scope: Scope) -> list[str]:
    """Return the variables of a scope, shortened to `step.*` where all of a group are there."""
    names = dict.fromkeys(
        name.partition(".")[0] + ".*" if "." in name and name != "plan.intent" else name for name in scope.variables
    )  # fmt: skip
    return [name for name in names if name != "plan.intent" or "plan.*" not in names]


def _cel_type(kind: Any) -> str:
    words = {"STRING": "text", "INT": "integer", "BOOL": "boolean"}
    text = str(kind).upper()
    if text.startswith("LIST"):
        return "list of texts" if "STRING" in text and "MAP" not in text else "list of objects"
    return words.get(text, "object")


def refusals() -> str:
    """Return the page of refusal codes."""
    rows = "".join(
        f"| `{code}` | {REFUSALS[code][0]} | {REFUSALS[code][1]} | `{KIND_OF[code]}` |\n" for code in Code
    )
    return f"""# Refusal codes

{GENERATED}

Why a plan, a call or an answer is refused, and what to do, for each code.

## Plans

The critic refuses a plan before anything happens.
The order of the checks, and what a refusal leads to, is on the page about [the critic](../critic.md).
`expect.code` of a [scenario](../how-to/test-a-pack.md) is the code, not the kind.

| code | cause | remedy | kind |
|---|---|---|---|
{rows}
## Calls

A call is reviewed again with its resolved values, just before it is made.
It can get any code above, and these:

{_code_table(CALLS)}
## Answers

These codes are for `refused` in the `answers` of a scenario, and in `error.code` of `--json`:

{_code_table(ANSWERS)}"""


def _code_table(codes: dict[str, tuple[str, str]]) -> str:
    rows = "".join(f"| `{code}` | {cause} | {remedy} |\n" for code, (cause, remedy) in codes.items())
    return f"| code | cause | remedy |\n|---|---|---|\n{rows}"


def events() -> str:
    """Return the page of journal events."""
    rows: list[str] = []
    for kind, row in TABLE.items():
        tag = str(kind.__struct_config__.tag)
        phases = "any" if len(row.phases) == len(Phase) else ", ".join(p for p in Phase if p in row.phases)
        what = "verdict" if row.is_verdict else "fact" if row.fact else ""
        rows.append(f"| `{tag}` | {_first(inspect.getdoc(kind) or '')} | {phases} | {what} |\n")
    return f"""# Events

{GENERATED}

Every event that the journal of a run may hold, in which phases, and whether it is a verdict.
A *fact* is an event that only the outside world can make, and a replay takes it from the record.
The bytes of recorded events never change: [compatibility](../explanation/compatibility.md).

| event | meaning | phases | |
|---|---|---|---|
{"".join(rows)}"""


def pack_fields() -> str:
    """Return the page of the fields of pack files."""
    parts: list[str] = []
    for file, models in FILES.items():
        parts.append(f"\n## {file.replace('*', chr(92) + '*')}\n")
        if file in NOTES:
            parts.append(f"\n{NOTES[file]}\n")
        for title, model in models:
            parts.append(f"\n`{title}`: {_first(inspect.getdoc(model) or '')}\n\n")
            parts.append("| field | type | default | meaning |\n|---|---|---|---|\n")
            parts += [f"| {' | '.join(row)} |\n" for row in _fields(model)]
    listed = {model for models in FILES.values() for _, model in models}
    parts.append("\n## Tables inside of these\n")
    for model in sorted(_nested(listed), key=lambda kind: kind.__name__):
        parts.append(f"\n### {model.__name__}\n\n{_first(inspect.getdoc(model) or '')}\n\n")
        parts.append("| field | type | default | meaning |\n|---|---|---|---|\n")
        parts += [f"| {' | '.join(row)} |\n" for row in _fields(model)]
    return f"""# Fields of pack files

{GENERATED}

Every key of every file, with its type and default.
[Packs](../packs.md) explains them with examples; this page is complete.
A key that is not listed is an error.

## Expressions

{expressions()}{"".join(parts)}"""


def _nested(listed: set[type[BaseModel]]) -> set[type[BaseModel]]:
    """Return the models that the fields of others hold, however deep, without those that are listed already."""
    found: set[type[BaseModel]] = set()
    waiting: list[Any] = [info.annotation for model in listed for info in model.model_fields.values()]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in found | listed:
            found.add(kind)
            waiting += [info.annotation for info in kind.model_fields.values()]
    return found


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    texts = _declared(model)
    for name, info in model.model_fields.items():
        kind, text = texts.get(name, ("", ""))
        alias = info.alias or name
        default = "" if info.is_required() else _default(info.default)
        meaning = _first(info.description or text or MEANINGS.get(model.__name__, {}).get(name, ""))
        if (
            "Literal" not in kind
            and "dict" not in kind
            and (options := list(dict.fromkeys(_options(info.annotation))))
        ):
            meaning = f"{meaning} One of {', '.join(f'`{each}`' for each in options)}.".strip()
        yield f"`{alias}`", f"`{_cell(kind)}`" if kind else "", default, meaning


def _options(annotation: Any) -> Iterator[str]:
    """Yield the words that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (str(each.value) for each in annotation)
    elif get_origin(annotation) is Literal:
        yield from (str(each) for each in get_args(annotation))
    else:
        for part in get_args(annotation):
            if not isinstance(part, type) or not issubclass(part, BaseModel):
                yield from _options(part)


def _default(value: Any) -> str:
    if value is PydanticUndefined or isinstance(value, BaseModel):
        return "as declared"
    if value in ((), {}, "", None):
        return "none"
    if isinstance(value, tuple):
        words: list[Any] = list(cast("tuple[Any, ...]", value))
        return ", ".join(f"`{getattr(each, 'value', each)}`" for each in words)
    return f"`{_cell(str(getattr(value, 'value', value)).lower() if isinstance(value, bool) else str(getattr(value, 'value', value)))}`"


def _declared(model: type[BaseModel]) -> dict[str, tuple[str, str]]:
    """Return the annotation of each field and the text below it, also of fields that are inherited."""
    found: dict[str, tuple[str, str]] = {}
    for kind in reversed(model.__mro__):
        if not issubclass(kind, BaseModel) or kind is BaseModel:
            continue
        body = ast.parse(inspect.getsource(inspect.getmodule(kind) or kind)).body
        lines = next(
            line.body for line in body if isinstance(line, ast.ClassDef) and line.name == kind.__name__
        )
        for line, after in zip(lines, [*lines[1:], ast.Pass()], strict=True):
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                text = after.value if isinstance(after, ast.Expr) else None
                said = text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""
                found[line.target.id] = (_shorten(ast.unparse(line.annotation)), said)
    return found


def _shorten(annotation: str) -> str:
    """Return an annotation without what only Pydantic reads."""
    tree = ast.parse(annotation, mode="eval").body
    if isinstance(tree, ast.Subscript) and ast.unparse(tree.value) == "Annotated":
        assert isinstance(tree.slice, ast.Tuple)  # noqa: S101 - Annotated has two parts or more
        annotation = ast.unparse(tree.slice.elts[0])
    return (
        re.sub(r"tuple\[(.+?), \.\.\.\]", r"list of \1", annotation)
        .replace("JsonObject", "object")
        .replace("PlainObject", "object")
    )


def _first(text: str) -> str:
    """Return the first sentence of a text, for a cell of a table."""
    return _cell(re.split(r"(?<=\.) ", " ".join(text.split("\n\n", maxsplit=1)[0].split()))[0])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {"refusals.md": refusals, "events.md": events, "pack-fields.md": pack_fields}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
