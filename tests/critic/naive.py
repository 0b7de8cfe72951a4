"""A second critic, written from docs/critic.md and docs/authority.md alone: slow, plain, and without a line of the first.

It answers one question: what is the first refusal? Each check is a generator of (code, step) in the order of the page,
and the first thing that any of them yields is the answer. Paths are found by repeated passes, values by recursion, and
everything is worked out again whenever it is needed. It shares with the first critic the contracts' data types and the
two engines (CEL and JSON Schema), and nothing else: it scans references and expressions itself.

It stays one file of more than the usual length because it is read beside one page; kinds of values are in `naive_kinds`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, cast
from uuid import UUID

from critic import naive_kinds as kinds
from critic.naive_kinds import Kind
from tercet.contracts.context import CompiledContext, EvidenceManifestEntry, KnownResult, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.plan import EvidenceQuery, Plan, Step
from tercet.contracts.policy import Policy
from tercet.contracts.relations import Relation
from tercet.contracts.text.entities import Entity, find_entities
from tercet.contracts.text.words import terms_of, words_of
from tercet.contracts.tool import ToolSpec
from tercet.policy import expressions, schemas

Place: TypeAlias = tuple[str | int, ...]
Finding: TypeAlias = tuple[str, int | None]
Doc: TypeAlias = dict[str, Any]

MODES = ["read_only", "local_write", "network", "delegated", "destructive"]
REVERSIBILITIES = ["pure", "reversible", "compensable", "irreversible"]
NO_STEPS = {"request", "evidence", "self", "params", "outputs"}

KINDS = {
    "approval_mode_mismatch": "mode_exceeded mode_understated authorization_required gate_unknown gate_missing",
    "missing_evidence": "evidence_not_pinned evidence_unresolved",
    "loop_guard": "too_many_steps duplicate_action",
    "budget_exceeded": "tokens_exceeded tool_calls_exceeded cost_exceeded latency_exceeded concurrency_exceeded"
    " branches_exceeded",
    "violates_decision_spec": (
        "output_not_declared tool_not_surfaced empty_plan kind_unavailable cyclic_dependency unresolved_reference"
        " expression_invalid argument_invalid argument_not_permitted unbound_argument compensation_missing"
        " unmet_precondition threatened_condition policy_invariant checkpoint_unbound"
    ),
}


class Refused(NamedTuple):
    """The published kind, the finer code, and the step."""

    kind: str
    code: str
    step: int | None


class Case(NamedTuple):
    """What a plan is reviewed against."""

    ctx: RunContext
    compiled: CompiledContext
    spec: DecisionSpec
    plan: Plan

    def __repr__(self) -> str:
        """The case without what is at its default, for the report of a failure."""
        return "\n".join(part.model_dump_json(exclude_defaults=True) for part in self)


def first_refusal(
    ctx: RunContext, compiled: CompiledContext, spec: DecisionSpec, plan: Plan
) -> Refused | None:
    """The first refusal of the page's checks in their order, or None."""
    case = Case(ctx, compiled, spec, plan)
    for check, option in CHECKS:
        if option and option not in optional_checks(case):
            continue
        for code, step in check(case):
            return Refused(kind_of(code), code, step)
    return None


def kind_of(code: str) -> str:
    """The published kind of a code, by the page's table."""
    return next(kind for kind, codes in KINDS.items() if code in codes.split())


def optional_checks(case: Case) -> list[str]:
    """The optional checks of the decision's risk tier; a tier that the table does not name gets them all."""
    everything = ["preconditions", "compensation", "latency", "concurrency", "checkpoints", "duplicates"]
    return list(case.compiled.risk_tiers.get(case.spec.risk_tier, everything))


# ---- the effective step -------------------------------------------------------------------------------------------


def tool_named(case: Case, name: str | None) -> ToolSpec | None:
    """The surfaced tool of this name; of several entries the last counts."""
    found = None
    for entry in case.compiled.manifests.tool_manifest:
        if f"{entry.adapter_id}.{entry.capability_id}" == name:
            found = entry.declaration or ToolSpec(name=str(name), mode=entry.approval_mode)
    return found


def calls(case: Case) -> list[tuple[int, Step, ToolSpec]]:
    """Every step that calls a surfaced tool."""
    steps = [(index, step, tool_named(case, step.tool)) for index, step in enumerate(case.plan.steps)]
    return [(index, step, tool) for index, step, tool in steps if tool is not None]


def mode_of(case: Case, step: Step) -> str:
    """The higher of the step's and the tool's mode; a step without a tool does nothing above read_only."""
    tool = tool_named(case, step.tool)
    if tool is None:
        return "read_only"
    return MODES[max(MODES.index(tool.mode), MODES.index(step.approval_mode or tool.mode))]


def reversibility_of(case: Case, step: Step) -> str:
    """The harder of the step's and the tool's reversibility; a step without a tool does nothing to be undone."""
    tool = tool_named(case, step.tool)
    if tool is None:
        return "pure"
    declared = declared_reversibility(tool)
    ranks = [REVERSIBILITIES.index(declared), REVERSIBILITIES.index(step.reversibility or declared)]
    return REVERSIBILITIES[max(ranks)]


def declared_reversibility(tool: ToolSpec) -> str:
    """What a tool says, or the careful assumption."""
    usual = {"read_only": "pure", "destructive": "irreversible"}.get(tool.mode, "compensable")
    return tool.reversibility or usual


def own_gates(case: Case, step: Step) -> list[str]:
    """The gates of the tool and of the step."""
    tool = tool_named(case, step.tool)
    return list(dict.fromkeys([*(tool.gates if tool else ()), *(step.gates or ())]))


def named(params: Doc, tool: ToolSpec) -> Doc:
    """The parameters under their own names."""
    return {tool.aliases.get(name, name): value for name, value in params.items()}


def params_of(case: Case, step: Step) -> Doc:
    """A step's parameters under their own names."""
    tool = tool_named(case, step.tool)
    return named(step.params, tool) if tool else step.params


def is_above_read_only(case: Case, step: Step) -> bool:
    """Whether a step may change anything."""
    return mode_of(case, step) != "read_only"


# ---- values: what a plan writes, and what it refers to ------------------------------------------------------------


class Part(NamedTuple):
    """One thing that a value is made of: a literal, an object's key, or a reference with its text."""

    kind: str
    value: Any
    place: Place


def parts(value: Any, place: Place = (), *, plain: bool = False) -> Iterator[Part]:
    """Every literal scalar, key and reference of a value; plain data holds no references."""
    if isinstance(value, dict):
        members = cast("Doc", value)
        reference = None if plain else as_reference(members)
        if reference is None:
            for key, member in members.items():
                yield Part("key", key, (*place, key))
                yield from parts(member, (*place, key), plain=plain)
        elif reference[0] == "literal":
            yield from parts(reference[1], place, plain=True)
        else:
            yield Part(reference[0], reference[1], place)
    elif isinstance(value, list):
        for index, member in enumerate(cast("list[Any]", value)):
            yield from parts(member, (*place, index), plain=plain)
    else:
        yield Part("literal", value, place)


def empties(value: Any, place: Place = (), *, plain: bool = False) -> Iterator[Part]:
    """Every empty list and object of a value."""
    if isinstance(value, dict) and value:
        members = cast("Doc", value)
        reference = None if plain else as_reference(members)
        if reference is None:
            for key, member in members.items():
                yield from empties(member, (*place, key), plain=plain)
        elif reference[0] == "literal":
            yield from empties(reference[1], place, plain=True)
    elif isinstance(value, list) and value:
        for index, member in enumerate(cast("list[Any]", value)):
            yield from empties(member, (*place, index), plain=plain)
    elif isinstance(value, dict | list):
        yield Part("empty", value, place)


def as_reference(members: Doc) -> tuple[str, Any] | None:
    """The kind and the body of a reference, or None for an ordinary object."""
    if len(members) != 1:
        return None
    ((key, body),) = members.items()
    return (key[1:], body) if key in ("$from", "$evidence", "$cel", "$literal") else None


def is_open(part: Part) -> bool:
    """Whether a value is known only at dispatch."""
    return part.kind == "cel" or (part.kind == "from" and target_of(part)[0] != "request")


def target_of(part: Part) -> tuple[str, list[str]]:
    """What a `$from` or `$evidence` points at, and the way inside it."""
    separator = "#" if part.kind == "from" else "#/"
    target, _, rest = part.value.partition(separator)
    pointer = rest if part.kind == "from" else "/" + rest
    return target, (way_of(pointer) if separator in part.value else [])


def way_of(pointer: str) -> list[str]:
    """The tokens of a JSON Pointer."""
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


class NowhereError(Exception):
    """A pointer leads to nothing."""


def follow(value: Any, way: list[str]) -> Any:
    """The value at the end of a way."""
    for token in way:
        if isinstance(value, dict) and token in value:
            value = cast("Doc", value)[token]
        elif isinstance(value, list) and token in [str(n) for n in range(len(cast("list[Any]", value)))]:
            value = cast("list[Any]", value)[int(token)]
        else:
            raise NowhereError
    return value


def known(case: Case, part: Part) -> Any:
    """The value that a reference to the request or to evidence leads to."""
    target, way = target_of(part)
    if part.kind == "from":
        return follow(case.compiled.input(), way)
    entry = evidence_named(case, target)
    if entry is None:
        raise NowhereError
    return follow(entry.content, way)


def resolved(case: Case, value: Any) -> Any:
    """A value with everything known filled in; what is open is null."""
    if isinstance(value, dict):
        reference = as_reference(cast("Doc", value))
        if reference is None:
            return {key: resolved(case, member) for key, member in cast("Doc", value).items()}
        if reference[0] == "literal":
            return reference[1]
        part = Part(*reference, ())
        return None if is_open(part) else known(case, part)
    if isinstance(value, list):
        return [resolved(case, member) for member in cast("list[Any]", value)]
    return value


def open_places(value: Any) -> list[Place]:
    """The places of a value that are known only at dispatch."""
    return [part.place for part in parts(value) if is_open(part)]


# ---- expressions, scanned by the grammar of CEL -------------------------------------------------------------------

_QUOTES = "|".join(
    [
        r"[bB]?[rR]\"\"\".*?\"\"\"",
        r"[bB]?[rR]'''.*?'''",
        r"[bB]?[rR]\"[^\"\n]*\"",
        r"[bB]?[rR]'[^'\n]*'",
        r"[bB]?\"\"\"(?:\\.|[^\\])*?\"\"\"",
        r"[bB]?'''(?:\\.|[^\\])*?'''",
        r"[bB]?\"(?:\\.|[^\"\\\n])*\"",
        r"[bB]?'(?:\\.|[^'\\\n])*'",
    ]
)
_NUMBERS = r"0[xX][0-9a-fA-F]+[uU]?|[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+[uU]?"
_LEXEME = re.compile(
    rf"(?P<space>\s+|//[^\n]*)|(?P<text>{_QUOTES})|(?P<number>{_NUMBERS})"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|`(?P<field>[^`\n]*)`"
    r"|(?P<rest>[\"'].*)|(?P<mark>.)",
    re.DOTALL,
)
_STRANGE = object()
"""The value of a constant in an unusual spelling: it equals nothing."""


class Lexeme(NamedTuple):
    """A word, constant or mark of an expression."""

    kind: str
    text: str


def lexemes(expression: str) -> list[Lexeme]:
    """The words, constants and marks of an expression."""
    found = [
        Lexeme(str(match.lastgroup), match[str(match.lastgroup)]) for match in _LEXEME.finditer(expression)
    ]
    return [lexeme for lexeme in found if lexeme.kind != "space"]


def constant(lexeme: Lexeme) -> Any:
    """The value of a constant that is spelt plainly."""
    text = lexeme.text
    if lexeme.kind == "text":
        is_plain = text[0] in "\"'" and "\\" not in text and text[:3] not in ('"""', "'''")
        return text[1:-1] if is_plain else _STRANGE
    if text[-1] in "uU" or text[:2] in ("0x", "0X"):
        return _STRANGE
    return float(text) if re.search("[.eE]", text) else int(text)


class Read(NamedTuple):
    """A root name of an expression, and the fields that it selects by names and plain keys."""

    root: str
    way: tuple[str | int, ...]
    rest: tuple[str | int, ...] = ()
    """Behind a key that is computed: what is selected there, with `*` for that key."""


class Scanned(NamedTuple):
    """What an expression reads, and what it writes down itself."""

    reads: list[Read]
    constants: list[Any]


def scan(expression: str) -> Scanned:
    """The reads and the constants of an expression."""
    found = [*lexemes(expression), Lexeme("end", ""), Lexeme("end", ""), Lexeme("end", "")]
    reads: list[Read] = []
    selected: set[int] = set()
    for position, lexeme in enumerate(found):
        if is_root(found, position):
            way, used = selection(found, position + 1)
            reads.append(Read(lexeme.text, way))
            selected |= used
        elif ends_operand(found, position):
            selected |= selection(found, position + 1)[1]
    written = [
        constant(lexeme) if lexeme.kind != "name" else {"true": True, "false": False}.get(lexeme.text)
        for position, lexeme in enumerate(found)
        if position not in selected and (lexeme.kind in ("text", "number") or lexeme.text in WORDS)
    ]
    return Scanned(reads, written)


WORDS = ("true", "false", "null")


def is_root(found: list[Lexeme], position: int) -> bool:
    """Whether a name is a variable: no word of the language, no function, and no member of something."""
    kind, text = found[position]
    is_name = kind == "field" or (kind == "name" and text not in (*WORDS, "in"))
    if not is_name or found[position + 1].text == "(":
        return False
    is_dotted = position > 0 and found[position - 1] == Lexeme("mark", ".")
    return not is_dotted or not ends_operand(found, position - 2)


def ends_operand(found: list[Lexeme], position: int) -> bool:
    """Whether something stands here that a field can be selected from."""
    if position < 0:
        return False
    kind, text = found[position]
    return kind in ("text", "number", "field") or (kind == "name" and text != "in") or text in (")", "]", "}")


def selection(found: list[Lexeme], position: int) -> tuple[tuple[str | int, ...], set[int]]:
    """The fields selected from here on by names and plain keys, and where those keys stand."""
    way: list[str | int] = []
    used: set[int] = set()
    while True:
        first, second, third = (
            found[position : position + 3] if position + 3 <= len(found) else [Lexeme("end", "")] * 3
        )
        if first.text == "." and second.kind in ("name", "field") and third.text != "(":
            way.append(second.text)
            position += 2
        elif first.text == "[" and third.text == "]" and isinstance(key := key_of(second), str | int):
            way.append(key)
            used.add(position + 1)
            position += 3
        else:
            return tuple(way), used


def key_of(lexeme: Lexeme) -> Any:
    """The field that a plain string or integer selects."""
    return constant(lexeme) if lexeme.kind in ("text", "number") else _STRANGE


def has_comprehension(expression: str) -> bool:
    """Whether an expression uses one of CEL's loops."""
    found = lexemes(expression)
    loops = ("all", "exists", "exists_one", "map", "filter")
    return any(
        dot.text == "." and name.text in loops and bracket.text == "("
        for dot, name, bracket in zip(found, found[1:], found[2:], strict=False)
    )


def compiles(expression: str, *, condition: bool) -> bool:
    """Whether an expression compiles over the names that it reads."""
    try:
        names = frozenset(read.root for read in scan(expression).reads)
        program = expressions.compile_planner(expression, names)
    except expressions.ExpressionError:
        return False
    return expressions.yields_boolean(program) if condition else True


# ---- the graph ----------------------------------------------------------------------------------------------------


def index_of(case: Case, step_id: str) -> int | None:
    """The position of the step with this id."""
    ids = [step.id for step in case.plan.steps]
    return ids.index(step_id) if step_id in ids else None


def names_in(part: Part) -> list[str]:
    """The names that a reference or expression mentions."""
    if part.kind == "cel":
        return [read.root for read in scan(part.value).reads]
    return [target_of(part)[0]] if part.kind == "from" else []


def parts_of(step: Step) -> list[Part]:
    """The parts of a step's parameters, and its condition."""
    condition = [] if step.when is None else [Part("cel", step.when, ("when",))]
    return [*parts(step.params), *condition]


def waits_for(case: Case) -> list[set[int]]:
    """For each step, every step that must complete before it: edges, then repeated passes until nothing is added."""
    before: list[set[int]] = []
    for step in case.plan.steps:
        names = [name for part in parts_of(step) for name in names_in(part) if name not in NO_STEPS]
        found = [index_of(case, name) for name in [*step.depends_on, *names]]
        before.append({index for index in found if index is not None})
    while True:
        after = [direct.union(*(before[index] for index in direct)) for direct in before]
        if after == before:
            return behind_the_outputs(case, before)
        before = after


def takes_output(step: Step) -> bool:
    """Whether a step refers to an output of the run."""
    return any("outputs" in names_in(part) for part in parts_of(step))


def delivering(case: Case, before: list[set[int]]) -> set[int]:
    """The steps that take an output, or wait for one that does."""
    takers = {index for index, step in enumerate(case.plan.steps) if takes_output(step)}
    return {index for index, earlier in enumerate(before) if index in takers or earlier & takers}


def behind_the_outputs(case: Case, before: list[set[int]]) -> list[set[int]]:
    """The same, where what delivers outputs waits for all that does not."""
    late = delivering(case, before)
    rest = set(range(len(before))) - late
    return [earlier | rest if index in late else earlier for index, earlier in enumerate(before)]


# ---- checks 1 to 8 ------------------------------------------------------------------------------------------------


def outputs_are_declared(case: Case) -> Iterator[Finding]:
    """Check 1."""
    for name in case.spec.required_outputs:
        if name not in case.plan.outputs and name not in case.plan.declared_outputs:
            yield "output_not_declared", None


def tools_are_surfaced(case: Case) -> Iterator[Finding]:
    """Check 2."""
    for index, step in enumerate(case.plan.steps):
        if step.kind == "tool" and tool_named(case, step.tool) is None:
            yield "tool_not_surfaced", index


def modes_are_allowed(case: Case) -> Iterator[Finding]:
    """Check 3."""
    for index, step, _ in calls(case):
        if MODES.index(mode_of(case, step)) > MODES.index(case.ctx.safety_mode):
            yield "mode_exceeded", index


def pins(step: Step) -> list[str]:
    """The evidence that a step pins."""
    return [
        *step.evidence_refs,
        *(target_of(part)[0] for part in parts(step.params) if part.kind == "evidence"),
    ]


def evidence_named(case: Case, ref: str | int) -> EvidenceManifestEntry | None:
    """The evidence of this id; of several entries the last counts."""
    found = [entry for entry in case.compiled.manifests.evidence_manifest if entry.id == ref]
    return found[-1] if found else None


def class_of(case: Case, ref: str | int) -> str | None:
    """The class that the manifest gives a piece of evidence; None if it is not there."""
    entry = evidence_named(case, ref)
    return entry.classification if entry else None


def fits(requirement: str, classification: str | None) -> bool:
    """Whether a class meets a requirement."""
    return classification is not None and requirement in (classification, f"{classification}_evidence")


def is_met_by(case: Case, requirement: str, ref: str, accepted: tuple[str, ...], pinned: list[str]) -> bool:
    """Whether a piece of evidence is of the class, related as the decision says, and trusted unless its class need not be."""
    is_accepted = any(fits(each, class_of(case, ref)) for each in accepted)
    return (
        fits(requirement, class_of(case, ref))
        and (is_accepted or is_trusted_evidence(case, ref))
        and is_related(case, ref, pinned)
    )


def unmet(
    case: Case, requirement: str, pinned: list[list[str]], decision: DecisionSpec | None = None
) -> str | None:
    """The code for a requirement that the evidence of none of these steps meets; None if it is met."""
    accepted = (decision or case.spec).untrusted_evidence
    if any(is_met_by(case, requirement, ref, accepted, refs) for refs in pinned for ref in refs):
        return None
    refs = [ref for each in pinned for ref in each]
    absent = [ref for ref in refs if class_of(case, ref) is None]
    matches = [re.fullmatch(r"kg:([^:#\s]+):[^#\s]+#snapshot_[^#\s]+", ref) for ref in absent]
    in_text = any(fits(requirement, match.group(1)) for match in matches if match)
    return "evidence_unresolved" if in_text else "evidence_not_pinned"


def evidence_is_pinned(case: Case) -> Iterator[Finding]:
    """Check 4."""
    for index, step in enumerate(case.plan.steps):
        tool = tool_named(case, step.tool)
        for requirement in [*step.requires_evidence, *(tool.requires_evidence if tool else ())]:
            if code := unmet(case, requirement, [pins(step)]):
                yield code, index
        if any(class_of(case, ref) is None for ref in pins(step)):
            yield "evidence_unresolved", index
    everything = [pins(step) for step in case.plan.steps]
    for requirement in case.spec.required_evidence:
        if code := unmet(case, requirement, everything):
            yield code, None


def plan_is_short(case: Case) -> Iterator[Finding]:
    """Check 5a."""
    if len(case.plan.steps) > case.ctx.run_budget.max_steps:
        yield "too_many_steps", None


def plan_fits_bucket(case: Case) -> Iterator[Finding]:
    """Check 5b."""
    if sum(step.estimated_tokens for step in case.plan.steps) > case.ctx.run_budget.bucket_tokens:
        yield "tokens_exceeded", None


def plan_has_a_step(case: Case) -> Iterator[Finding]:
    """Check 6."""
    if not case.plan.steps:
        yield "empty_plan", None


def no_step_is_a_lane(case: Case) -> Iterator[Finding]:
    """Check 7."""
    for index, step in enumerate(case.plan.steps):
        if step.kind == "lane":
            yield "kind_unavailable", index


def no_step_waits_for_itself(case: Case) -> Iterator[Finding]:
    """Check 8."""
    for index in on_a_cycle(case):
        yield "cyclic_dependency", index


def on_a_cycle(case: Case) -> list[int]:
    """The steps that wait for themselves."""
    return [index for index, before in enumerate(waits_for(case)) if index in before]


# ---- check 9: references and expressions --------------------------------------------------------------------------


def references_lead_somewhere(case: Case) -> Iterator[Finding]:
    """Check 9: names that no step has, then parameters, conditions, compensations and outputs."""
    for index, step in enumerate(case.plan.steps):
        mentioned = [name for part in parts_of(step) for name in names_in(part) if name not in NO_STEPS]
        for name in [*step.depends_on, *mentioned]:
            if index_of(case, name) is None:
                yield "unresolved_reference", index
    for index, step in enumerate(case.plan.steps):
        for part in parts(step.params):
            yield from ((code, index) for code in reference_faults(case, part, own=False))
    for index, step in enumerate(case.plan.steps):
        if step.when is not None:
            yield from (
                (code, index) for code in expression_faults(case, step.when, own=False, condition=True)
            )
    for index, step in enumerate(case.plan.steps):
        said = list(parts(step.compensate.params if step.compensate else {}))
        for part in said:
            yield from ((code, index) for code in reference_faults(case, part, own=True))
        for part in said:
            yield from ((code, index) for code in binding_faults(case, part, index))
    for part in parts(case.plan.outputs):
        yield from ((code, None) for code in reference_faults(case, part, own=False))


def reference_faults(case: Case, part: Part, *, own: bool) -> list[str]:
    """What is wrong with one reference; `own` is for compensations, which may use the step's own result."""
    if part.kind in ("literal", "key"):
        return []
    if part.kind == "cel":
        return expression_faults(case, part.value, own=own, condition=False)
    target, way = target_of(part)
    if part.kind == "from" and target == "outputs":
        return []  # looked at in check 9b
    if part.kind == "evidence" or target == "request":
        try:
            known(case, part)
        except NowhereError:
            return ["unresolved_reference"]
        return []
    if target in ("self", "params") and own:
        return []
    index = index_of(case, target)
    is_lost = index is None or lacks_field(case, case.plan.steps[index], way)
    return ["unresolved_reference"] if is_lost else []


def binding_faults(case: Case, part: Part, index: int) -> list[str]:
    """What keeps a reference of a compensation from being resolved when its step is dispatched."""
    mentioned = names_in(part)
    steps = [index_of(case, name) for name in mentioned if name not in NO_STEPS]
    if any(step is not None and step not in waits_for(case)[index] for step in steps):
        return ["unresolved_reference"]
    is_mixed = "self" in mentioned and (bool(steps) or "evidence" in mentioned or "outputs" in mentioned)
    return ["expression_invalid"] if is_mixed else []


def lacks_field(case: Case, step: Step, way: list[str]) -> bool:
    """Whether the tool's result schema lists its properties, allows no others, and this field is not among them."""
    tool = tool_named(case, step.tool)
    schema: Any = tool.result if tool else None
    for token in way:
        listed = member(schema, "properties")
        allows_others = member(schema, "additionalProperties") not in (None, False)
        if not isinstance(listed, dict) or allows_others or OTHER_FIELDS & set(cast("Doc", schema)):
            return False
        if token not in listed:
            return True
        schema = member(listed, token)
    return False


OTHER_FIELDS = {"anyOf", "oneOf", "allOf", "patternProperties", "if", "$ref"}


def expression_faults(case: Case, text: str, *, own: bool, condition: bool) -> list[str]:
    """What is wrong with one expression."""
    reads = scan(text).reads
    evidence = [read.way[:1] for read in reads if read.root == "evidence"]
    if not all(way and isinstance(way[0], str) for way in evidence):
        return ["expression_invalid"]
    allowed = NO_STEPS if own else {"request", "evidence", "outputs"}
    lost = [read.root for read in reads if read.root not in allowed and index_of(case, read.root) is None]
    if lost or any(class_of(case, way[0]) is None for way in evidence):
        return ["unresolved_reference"]
    is_valid = len(text) <= 1_000 and not has_comprehension(text) and compiles(text, condition=condition)
    return [] if is_valid else ["expression_invalid"]


def outputs_can_be_delivered(case: Case) -> Iterator[Finding]:
    """Check 9b: what is taken exists, compensations take it no earlier, and no output waits for its own delivery."""
    late = delivering(case, waits_for(case))
    rendered = [each.output for each in case.spec.quality.documents] if case.spec.quality else []
    there = {*case.plan.outputs, *case.plan.declared_outputs, *case.spec.required_outputs, *rendered}
    for index in sorted(late):
        step = case.plan.steps[index]
        for part in [*parts_of(step), *parts(step.compensate.params if step.compensate else {})]:
            if any(not way or way[0] not in there for way in outputs_read(part)):
                yield "unresolved_reference", index
    for index, step in enumerate(case.plan.steps):
        taken = [*parts(step.compensate.params if step.compensate else {})]
        if index not in late and any("outputs" in names_in(part) for part in taken):
            yield "unresolved_reference", index
    for part in [*parts(case.plan.outputs), *parts(case.plan.memory)]:
        if any(name == "outputs" or index_of(case, name) in late for name in names_in(part)):
            yield "cyclic_dependency", None


def outputs_read(part: Part) -> list[Place]:
    """The places of the outputs that a part reads."""
    if part.kind == "cel":
        return [read.way for read in scan(part.value).reads if read.root == "outputs"]
    target, way = target_of(part) if part.kind == "from" else ("", [])
    return [tuple(way)] if target == "outputs" else []


# ---- checks 10 to 12: arguments, modes and roles --------------------------------------------------------------------

ABOUT_MEMBERS = {
    "required",
    "dependentRequired",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "minItems",
    "maxItems",
}


def breaks_schema(case: Case, params: Doc, tool: ToolSpec) -> bool:
    """Whether arguments are given twice or break the schema, as far as they are known."""
    proper = [tool.aliases.get(name, name) for name in params]
    if len(proper) != len(set(proper)):
        return True
    arguments = named(params, tool)
    try:
        faults = schemas.faults(tool.parameters_text, resolved(case, arguments))
    except UsageError:
        return True
    opened = open_places(arguments)
    return any(counts(fault, opened) for fault in faults)


def counts(fault: schemas.Fault, opened: list[Place]) -> bool:
    """Whether a fault stands whatever the open values turn out to be."""
    if any(fault.place[: len(place)] == place for place in opened):
        return False
    contains_open = any(place[: len(fault.place)] == fault.place for place in opened)
    return not contains_open or fault.keyword in ABOUT_MEMBERS


def arguments_fit(case: Case) -> Iterator[Finding]:
    """Check 10."""
    for index, step, tool in calls(case):
        if breaks_schema(case, step.params, tool):
            yield "argument_invalid", index


def arguments_are_within_limits(case: Case) -> Iterator[Finding]:
    """Check 11."""
    for index, step, tool in calls(case):
        for limit in tool.limits:
            args = with_defaults(tool.parameters, resolved(case, params_of(case, step)))
            values = {**frame(case), "args": args}
            if holds(limit.expression, expressions.CALL, values, [params_of(case, step)]) is False:
                yield "argument_not_permitted", index


def holds(text: str, scope: expressions.Scope, values: Doc, params: list[Doc]) -> bool | None:
    """Whether a rule holds; None if it reads a parameter that is open."""
    if not is_rule(text, scope):
        return False
    rule = expressions.compile_rule(text, scope)
    opened = {place[0] for given in params for place in open_places(given)}
    if opened and (rule.reads is None or opened & rule.reads):
        return None
    return rule.evaluate(scope.activation(values)).holds


def is_rule(text: str, scope: expressions.Scope) -> bool:
    """Whether a rule of the pack compiles."""
    try:
        expressions.compile_rule(text, scope)
    except expressions.ExpressionError:
        return False
    return True


def frame(case: Case) -> Doc:
    """The variables that every rule may read."""
    return {
        "request": case.compiled.input(),
        "context.tenant": case.ctx.tenant,
        "context.actor": case.ctx.actor.id,
        "context.roles": list(case.ctx.actor.roles),
        "context.safety_mode": str(case.ctx.safety_mode),
        "decision.id": case.spec.id,
        "decision.risk_tier": str(case.spec.risk_tier),
    }


def modes_are_stated(case: Case) -> Iterator[Finding]:
    """Check 12a."""
    for index, step, tool in calls(case):
        if step.approval_mode and MODES.index(step.approval_mode) < MODES.index(tool.mode):
            yield "mode_understated", index


def may_use(case: Case, tool: ToolSpec) -> bool:
    """Whether the owner of the run holds one of a tool's roles; a tool without roles is for anybody."""
    return len(tool.roles) == 0 or any(role in case.ctx.actor.roles for role in tool.roles)


def owner_is_authorised(case: Case) -> Iterator[Finding]:
    """Check 12b."""
    for index, _, tool in calls(case):
        if not may_use(case, tool):
            yield "authorization_required", index


# ---- check 13: information flow -----------------------------------------------------------------------------------


def is_same(first: Any, second: Any) -> bool:
    """Whether two scalars are equal: numbers by value, booleans never to numbers."""
    return isinstance(first, bool) == isinstance(second, bool) and first == second


def is_bound(case: Case, value: Any, within: Within) -> bool:
    """Whether exactly one permitted source of its kind holds a literal."""
    return len(sources_of(case, value, within)) == 1


def sources_of(case: Case, value: Any, within: Within) -> list[str]:
    """The permitted sources that hold a literal, by name: the request alone if it does, else what was approved, else
    all evidence that is related to the request as one, every other fact, and all results of one tool as one."""
    if request_holds(case, value, within):
        return ["request"]
    if approved_holds(case, value, within):
        return ["approved"]
    if is_the_unknown_requests(case, within):
        return ["request"]
    together: list[str] = []
    found: list[str] = []
    for ref in dict.fromkeys(within.pins):
        if vouches(case, ref, list(within.pins)) and evidence_holds(case, ref, value, within):
            (together if is_of_the_request(case, ref) else found).append(ref)
    holding = [result.tool for result in case.compiled.results if result_holds(case, result, value, within)]
    return [*together[:1], *found, *dict.fromkeys(f"results of {tool}" for tool in holding)]


def is_the_unknown_requests(case: Case, within: Within) -> bool:
    """Whether there is no request, and a relation ties the parameter that a literal stands in to it."""
    return case.compiled.request is None and any(
        within.tool is not None
        and relation.tool == within.tool.name
        and within.place == (relation.param,)
        and kinds.split_path(relation.equals or ".")[0] == "request"
        for relation in case.spec.bind
    )


def request_holds(case: Case, value: Any, within: Within) -> bool:
    """Whether a trusted field of the request holds a literal: itself, or as an entity that it names."""
    for part in parts(case.compiled.input(), plain=True):
        if part.kind != "literal" or not is_unmarked(input_marks(case), part.place):
            continue
        kind = kinds.field_kind(case.spec, "request", part.place)
        if kind is not None and kind.name == kinds.SENTENCE and isinstance(part.value, str):
            if names_entity(case, part, value, within):
                return True
        elif is_same(value, part.value) and kinds.fits(within.wanted, kind):
            return True
    return False


def names_entity(case: Case, sentence: Part, value: Any, within: Within) -> bool:
    """Whether a sentence names this value, and no other that fits the same parameter."""
    fields = [
        field
        for field in case.spec.fields
        if field.kind == kinds.SENTENCE
        and kinds.split_path(field.of)[0] == "request"
        and kinds.leads_to(kinds.split_path(field.of)[1], sentence.place)
    ]
    found = find_entities(sentence.value, fields[0].patterns, pasted=fields[0].pasted)
    parameter = str(within.place[0]) if within.place else ""
    captured = [e for e in found if e.is_captured and (e.kind == parameter or is_kind(within.wanted, e.kind))]
    plain = [e for e in found if not e.is_captured and kinds.entity_fits(within.wanted, e.kind, e.value)]
    if within.wanted is None:
        plain = [entity for entity in plain if entity.kind in confusable_kinds(value)]
    meant = captured or plain
    equal = [entity for entity in meant if is_entity(entity, value)]
    differ = [e for e in meant if not any(is_one_thing(e, other) for other in equal)]
    return bool(equal) and (bool(captured) or not differ)


def confusable_kinds(value: Any) -> set[str]:
    """The kinds of entities that a value of an unknown kind could be meant as."""
    figures, dates = {"amount", "number"}, {"date"}
    if not isinstance(value, str):
        return figures
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        return dates
    return kinds.ENTITIES if value.isdigit() else kinds.ENTITIES - figures - dates


def is_kind(wanted: Kind | None, name: str) -> bool:
    """Whether a kind has this name."""
    return wanted is not None and wanted.name == name


def is_entity(entity: Entity, value: Any) -> bool:
    """Whether a literal is an entity: as text, or as its number."""
    if isinstance(value, bool):
        return False
    return value == entity.value or (entity.number is not None and value == entity.number)


def is_one_thing(first: Entity, second: Entity) -> bool:
    """Whether two entities have equal values, or stand in the same place."""
    return first.value == second.value or (first.start < second.end and second.start < first.end)


def approved_holds(case: Case, value: Any, within: Within) -> bool:
    """Whether the same parameter of the same tool had this literal in the plan approved before."""
    for step in case.compiled.approved_plan.steps if case.compiled.approved_plan else ():
        tool = tool_named(case, step.tool)
        if tool is None or within.tool is None or tool.name != within.tool.name or not within.place:
            continue
        for part in parts(named(step.params, tool).get(str(within.place[0]))):
            if part.kind == "literal" and is_same(part.value, value):
                return True
    return False


def evidence_holds(case: Case, ref: str, value: Any, within: Within) -> bool:
    """Whether a piece of evidence holds a literal of the right kind."""
    entry = evidence_named(case, ref)
    return entry is not None and any(
        part.kind == "literal"
        and is_same(part.value, value)
        and kinds.fits(within.wanted, kinds.field_kind(case.spec, entry.classification, part.place))
        for part in parts(entry.content, plain=True)
    )


def result_holds(case: Case, result: KnownResult, value: Any, within: Within) -> bool:
    """Whether a result of an earlier plan may vouch for a literal and holds it in an unmarked field of the right kind."""
    tool = tool_named(case, result.tool)
    index = index_of(case, result.step_id)
    if result.trust != "trusted" or (index is not None and index not in within.before):
        return False
    for relation in case.spec.bind:
        if relation.tool == result.tool and relation.field:
            actual = at_field(result.value, relation.field)
            if not meets(case, relation, actual, list(within.pins), ()):
                return False
    return any(
        part.kind == "literal"
        and is_same(part.value, value)
        and is_unmarked(tool.untrusted if tool else (), part.place)
        and kinds.fits(
            within.wanted, kinds.result_kind(tool, part.place) if tool else kinds.suggested(part.place)
        )
        for part in parts(result.value, plain=True)
    )


# ---- relations ------------------------------------------------------------------------------------------------------

NOTHING = object()
"""The value of a field that is not there: it equals nothing."""


def at_field(value: Any, field: str) -> Any:
    """The value of a field, or NOTHING."""
    try:
        return follow(value, kinds.field_way(field))
    except NowhereError:
        return NOTHING


def relations_of(case: Case, ref: str) -> list[Relation]:
    """The relations that the decision declares for the class of a piece of evidence."""
    owner = class_of(case, ref)
    return [
        relation
        for relation in case.spec.bind
        if relation.evidence and owner is not None and kinds.is_class(relation.evidence, owner)
    ]


def is_related(case: Case, ref: str, pinned: list[str], seen: tuple[str, ...] = ()) -> bool:
    """Whether a piece of evidence satisfies every relation of its class, for a step that pins these."""
    entry = evidence_named(case, ref)
    return entry is not None and all(
        meets(case, relation, at_field(entry.content, relation.field or ""), pinned, (*seen, ref))
        for relation in relations_of(case, ref)
    )


def is_of_the_request(case: Case, ref: str) -> bool:
    """Whether a relation ties the class of a piece of evidence to the request."""
    return any(
        kinds.split_path(relation.equals or ".")[0] == "request" for relation in relations_of(case, ref)
    )


def vouches(case: Case, ref: str, pinned: list[str], seen: tuple[str, ...] = ()) -> bool:
    """Whether a piece of evidence is trusted, and related as the decision says, for a step that pins these."""
    return is_trusted_evidence(case, ref) and is_related(case, ref, pinned, seen)


def meets(case: Case, relation: Relation, actual: Any, pinned: list[str], seen: tuple[str, ...]) -> bool:
    """Whether a value is one that a relation asks for; what cannot be checked without a request is met."""
    owner, way = kinds.split_path(relation.equals or "")
    if owner == "request" and case.compiled.request is None:
        return True
    sources: list[Any] = []
    if owner == "request" and is_unmarked(input_marks(case), tuple(way)):
        sources = [case.compiled.input()]
    for ref in pinned if owner != "request" else ():
        entry = evidence_named(case, ref)
        if entry and ref not in seen and kinds.is_class(owner, entry.classification):
            sources += [entry.content] if vouches(case, ref, pinned, seen) else []
    for source in sources:
        with suppress(NowhereError):
            target = follow(source, way)
            for wanted in cast("list[Any]", target) if isinstance(target, list) else [target]:
                if is_scalar(actual) and is_scalar(wanted) and is_same(actual, wanted):
                    return True
    return False


def is_scalar(value: Any) -> bool:
    """Whether a value is a text, a number, a boolean or null."""
    return value is None or isinstance(value, str | int | float)


def breaks_relation(case: Case, params: Doc, tool: ToolSpec, within: Within) -> bool:
    """Whether a call breaks a relation of its tool, as far as its parameters are known."""
    arguments = named(params, tool)
    for relation in case.spec.bind:
        if relation.tool != tool.name:
            continue
        if relation.param:
            value = arguments.get(relation.param, NOTHING)
            if open_places(value):
                continue
            with suppress(NowhereError):
                value = resolved(case, value)
            if not meets(case, relation, value, list(within.pins), ()):
                return True
        if relation.one_source:
            given = {name: arguments[name] for name in relation.one_source if name in arguments}
            found = [records(case, part, within_place(within, part)) for part in call_values(given)]
            if (
                any(each is None for each in found)
                or len({name for each in found for name in each or ()}) > 1
            ):
                return True
    return False


def pins_of_another_request(case: Case, step: Step, within: Within) -> bool:
    """Whether a step above read_only pins evidence of another request, or reads some in a formula or in its condition."""
    read = read_in_formulas({**step.params, "when": {"$cel": step.when or ""}})
    return is_above_read_only(case, step) and is_of_another_request(case, [*within.pins, *read], within)


def is_of_another_request(case: Case, refs: list[str], within: Within) -> bool:
    """Whether some of these pieces of evidence do not satisfy the relations of their classes."""
    known = [ref for ref in refs if evidence_named(case, ref) is not None]
    return not all(is_related(case, ref, list(within.pins)) for ref in known)


def call_values(params: Doc) -> list[Part]:
    """The literals and references of parameters, without names and keys."""
    return [part for name, value in params.items() for part in parts(value, (name,)) if part.kind != "key"]


def records(case: Case, part: Part, within: Within) -> set[str] | None:
    """The records that a value comes from; None if it has none."""
    if part.kind == "literal":
        found = sources_of(case, part.value, within)
        return {found[0]} if len(found) == 1 else None
    if part.kind == "evidence":
        return {target_of(part)[0]}
    if part.kind == "from":
        target, way = target_of(part)
        return records_read(case, target, tuple(way), within)
    found = shape(paired(lexemes(part.value)))
    every: set[str] = set()
    for made in found.made_of if found else scan(part.value).reads:
        if not isinstance(made, Read):
            one = records(case, Part("literal", made, part.place), within)
        elif made.root == "evidence":
            one = {str(made.way[0])} if made.way else None
        else:
            one = records_read(case, made.root, made.way, within)
        if one is None:
            return None
        every |= one
    return every


def records_read(case: Case, target: str, way: Place, within: Within) -> set[str] | None:
    """The records that a reference leads to: through notes to what was written there."""
    if target == "request":
        return {"request"}
    if target == "outputs":
        if not way or way[0] not in case.plan.outputs:
            return set()
        return records_of(case, case.plan.outputs[str(way[0])], way[1:], within, within)
    host = within.step if target in ("self", "params") else None
    index = index_of(case, host.id if host else target)
    if index is None:
        return None
    step = case.plan.steps[index]
    if target != "params" and step.kind != "note":
        return {f"step {step.id}"}
    return records_of(case, params_of(case, step), way, site(case, step), within)


def records_of(case: Case, value: Any, way: Place, inside: Within, within: Within) -> set[str] | None:
    """The records that a written value comes from, at a place of it."""
    for position, token in enumerate(way):
        reference = as_reference(cast("Doc", value)) if isinstance(value, dict) else None
        if reference is not None and reference[0] != "literal":
            part = Part(*reference, ())
            if part.kind != "from":
                return records(case, part, inside)
            onward, begun = target_of(part)
            return records_read(case, onward, (*begun, *way[position:]), inside)
        try:
            value = follow(value if reference is None else reference[1], [str(token)])
        except NowhereError:
            return None
    every: set[str] = set()
    for part in parts(value):
        one = set[str]() if part.kind == "key" else records(case, part, inside._replace(wanted=within.wanted))
        if one is None:
            return None
        every |= one
    return every


def trusted_input(case: Case) -> list[Any]:
    """The scalars of the trusted request fields."""
    return unmarked_scalars(case.compiled.input(), input_marks(case))


def input_marks(case: Case) -> tuple[str, ...]:
    """The marked request fields; a name with dots marks the field of that name, and the field at that path."""
    names = case.spec.untrusted_inputs
    return (*names, *("/" + name.replace(".", "/") for name in names if "." in name and name[0] != "/"))


def is_picked(case: Case, ref: str) -> bool:
    """Whether an untrusted field of the request chose this evidence, and nothing trusted names it."""
    if is_listed(case, ref):
        return True
    given = [part.value for part in parts(case.compiled.input(), plain=True) if part.kind == "literal"]
    trusted = {str(value) for value in trusted_input(case)}
    untrusted = {str(value) for value in given if value not in (None, "")} - trusted
    if not holds_one(ref, untrusted):
        return False
    for entry in case.compiled.manifests.evidence_manifest:
        if entry.trust == "trusted" and not (holds_one(entry.id, untrusted) or is_listed(case, entry.id)):
            trusted |= {str(value) for value in unmarked_scalars(entry.content, ())}
    if ref in trusted or key_part(ref) in trusted:
        return False
    return holds_one(ref, untrusted - trusted)


def key_part(ref: str) -> str:
    """The variable part of an evidence id."""
    match = re.fullmatch(r"kg:[^:#\s]+:([^#\s]+)#snapshot_[^#\s]+", ref)
    return match.group(1) if match else ref


def holds_one(ref: str, texts: set[str]) -> bool:
    """Whether an id is one of these texts, or has one in its variable part."""
    return ref in texts or any(text == key_part(ref) or holds_text(key_part(ref), text) for text in texts)


def holds_text(key: str, text: str) -> bool:
    """Whether a text stands in a key, and neither begins nor ends between two letters or between two digits."""
    starts = [start for start in range(len(key)) if text and key.startswith(text, start)]
    return any(not (is_inside(key, start) or is_inside(key, start + len(text))) for start in starts)


def is_inside(key: str, position: int) -> bool:
    """Whether a position is between two letters or between two digits."""
    pair = key[position - 1 : position + 1] if 0 < position < len(key) else ""
    return pair.isalpha() or pair.isdecimal()


def is_listed(case: Case, ref: str) -> bool:
    """Whether the plan says that untrusted fields made this id, or a step pins it that searches for untrusted words."""
    searches = [
        query for step in case.plan.steps if ref in step.evidence_refs for query in step.evidence_queries
    ]
    return ref in case.plan.untrusted_refs or any(
        query.tool is None and is_foreign(case, query) for query in searches
    )


def is_foreign(case: Case, query: EvidenceQuery) -> bool:
    """Whether a search has a word of an untrusted field that stands in no trusted one, nor in its class or the intent."""
    given = [part.value for part in parts(case.compiled.input(), plain=True) if part.kind == "literal"]
    trusted = [str(value) for value in trusted_input(case)]
    untrusted = [str(value) for value in given if value is not None and str(value) not in trusted]
    intent = case.compiled.request.intent if case.compiled.request else ""
    own = [*trusted, query.classification, intent]
    return any(
        any(word in words_of(text) for text in untrusted) and not any(word in words_of(text) for text in own)
        for word in terms_of(query.query)
    )


def unmarked_scalars(value: Any, marks: tuple[str, ...]) -> list[Any]:
    """The scalars of plain data, but for those in marked fields."""
    found = parts(value, plain=True)
    return [part.value for part in found if part.kind == "literal" and is_unmarked(marks, part.place)]


def is_unmarked(marks: tuple[str, ...], place: Place) -> bool:
    """Whether a place neither lies in a marked field, nor holds one, nor is one."""
    return not any(overlaps(mark, place) for mark in marks)


def overlaps(mark: str, place: Place) -> bool:
    """Whether a marked field and a place have anything in common."""
    if mark == "*":
        return True
    way = way_of(mark if mark.startswith("/") else f"/{mark}")
    return meet(way, place) or covers(way, place)


def meet(way: list[str], place: Place) -> bool:
    """Whether a way and a place meet, where either may leave out items that the other does not name."""
    if not way or not place:
        return True
    if are_alike(way[0], place[0]) and meet(way[1:], place[1:]):
        return True
    if is_item(place[0]):
        return not is_item(way[0]) and meet(way, place[1:])
    return is_item(way[0]) and len(way) > 1 and meet(way[1:], place)


def covers(way: list[str], place: Place) -> bool:
    """Whether a place lies in a way, and any item may be left out where the way does not name one by its number."""
    if not way or not place:
        return not way
    if are_alike(way[0], place[0]) and covers(way[1:], place[1:]):
        return True
    return is_item(place[0]) and not way[0].isdigit() and covers(way, place[1:])


def are_alike(one: str, other: str | int) -> bool:
    """Whether two tokens may be the same."""
    return "*" in (one, other) or one == str(other)


def is_item(part: str | int) -> bool:
    """Whether a token may be the place of an item in a list."""
    return part == "*" or str(part).isdigit()


class Within(NamedTuple):
    """Where a value stands: the object keys that are named there, the step that a compensation takes back, the schema of
    the parameters, and whether it is a number or is refused; the evidence that is pinned there and the steps before it;
    the tool, the place in its parameters, and the kind of value that is wanted."""

    keys: frozenset[str] = frozenset()
    step: Step | None = None
    schema: Any = None
    number: bool = False
    pins: tuple[str, ...] = ()
    before: frozenset[int] = frozenset()
    tool: ToolSpec | None = None
    place: Place = ()
    wanted: Kind | None = None


def site(case: Case, step: Step) -> Within:
    """What a value that is written in a step may come from."""
    index = index_of(case, step.id)
    before = frozenset(waits_for(case)[index]) if index is not None else frozenset[int]()
    return Within(pins=tuple(pins(step)), before=before)


def read_in_formulas(params: Doc) -> list[str]:
    """The evidence that formulas of parameters read."""
    reads = [read for part in parts(params) if part.kind == "cel" for read in scan(part.value).reads]
    return [str(read.way[0]) for read in reads if read.root == "evidence" and read.way]


def call_site(case: Case, step: Step, tool: ToolSpec) -> Within:
    """What the parameters of a call may come from."""
    return site(case, step)._replace(keys=schema_keys(tool.parameters), schema=tool.parameters, tool=tool)


def undo_site(case: Case, step: Step, undo: ToolSpec, params: Doc) -> Within:
    """What the parameters of a proposed compensation may come from: what its step may, and what it reads itself."""
    read = [target_of(part)[0] for part in parts(params) if part.kind == "evidence"]
    inside = call_site(case, step, undo)
    return inside._replace(step=step, pins=(*inside.pins, *read))


def within_place(within: Within, part: Part) -> Within:
    """The same at the place of one part, with the kind that its parameter has there."""
    if within.tool is None:
        return within
    wanted = None if part.kind == "key" else kinds.parameter_kind(within.tool, part.place)
    return within._replace(place=part.place, wanted=wanted)


def is_trusted(case: Case, part: Part, within: Within) -> bool:
    """Whether one part of a value comes from a permitted source."""
    within = within_place(within, part)
    if part.kind == "literal":
        is_left_out = within.tool is not None and is_default(part, within.tool)
        return is_left_out or is_bound(case, part.value, within)
    if part.kind == "key":
        return part.value in within.keys or is_bound(case, part.value, within)
    if part.kind == "evidence":
        ref, way = target_of(part)
        return is_permitted_evidence(case, ref, tuple(way), within)
    if within.schema is not None:
        within = within._replace(number=says_number(within.schema, part.place))
    if part.kind == "from":
        target, way = target_of(part)
        return is_trusted_read(case, target, tuple(way), within)
    return is_trusted_formula(case, part.value, within)


def is_trusted_formula(case: Case, expression: str, within: Within) -> bool:
    """Whether an expression is a formula all of whose reads and constants are permitted; the kind that is wanted is asked
    of what the value is made of, and not of what only decides or selects."""
    scanned = scan(expression)
    found = shape(paired(lexemes(expression)))
    if found is None or not scanned.reads or not is_simple(case, expression, within):
        return False
    anything = within._replace(wanted=None)
    made_of = [made for made in found.made_of if isinstance(made, Read)]
    constants = [made for made in found.made_of if not isinstance(made, Read)]
    whole = [] if found.kind == "sum" else [made[:2] for made in made_of]
    others = list(scanned.constants)
    for value in constants:
        others.remove(next(other for other in others if other is value or is_same(other, value)))
    return (
        all(
            is_trusted_expression_read(
                case, read, anything._replace(number=within.number and read[:2] in whole)
            )
            for read in scanned.reads
        )
        and all(
            is_trusted_expression_read(
                case, read, within._replace(number=within.number and read[:2] in whole)
            )
            for read in made_of
        )
        and all(is_bound(case, value, within) for value in constants)
        and all(is_bound(case, value, anything) for value in others)
    )


def is_permitted_evidence(case: Case, ref: str, way: Place, within: Within) -> bool:
    """Whether this step may take a value of the wanted kind from a place in a piece of evidence."""
    kind = kinds.field_kind(case.spec, class_of(case, ref) or "", way)
    return vouches(case, ref, list(within.pins)) and kinds.fits(within.wanted, kind)


class Shape(NamedTuple):
    """What an expression comes to: a value, a sum or a flag, what it is made of, and the operands of each sum in it."""

    kind: str
    made_of: list[Any]
    sums: list[list[list[Any]]]


def shape(found: list[Lexeme]) -> Shape | None:
    """The shape of a selection, choice, sum or difference; None of anything else. Split at what binds least."""
    outer = [mark if depth == 0 else "" for mark, depth in with_depth(found)]
    if "?" in outer:
        middle = outer.index("?")
        end = matching_colon(outer, middle)
        branches = [shape(found[:middle]), shape(found[middle + 1 : end]), shape(found[end + 1 :])]
        return None if not end else chosen(branches)
    for marks in (("&&", "||"), ("==", "!=", "<", "<=", ">", ">=")):
        split = pieces(found, outer, marks)
        if len(split) > 1:
            shapes = [shape(piece) for piece in split]
            is_compared = marks[0] == "=="
            if None in shapes or (
                is_compared and (len(split) > 2 or any(s.kind == "flag" for s in shapes if s))
            ):
                return None
            return merged("flag", [s for s in shapes if s])
    split = pieces(found, outer, ("+", "-"))
    if len(split) > 1:
        shapes = [shape(piece) for piece in split]
        if any(s is None or s.kind == "flag" for s in shapes):
            return None
        whole = merged("sum", [s for s in shapes if s])
        return whole._replace(sums=[*whole.sums, [s.made_of for s in shapes if s]])
    if found[:1] == [Lexeme("mark", "!")]:
        inner = shape(found[1:])
        return None if inner is None else inner._replace(kind="flag")
    if outer[:1] == ["("] and outer.index(")") == len(found) - 1:
        return shape(found[1:-1])
    return atom(found)


def with_depth(found: list[Lexeme]) -> Iterator[tuple[str, int]]:
    """The marks of an expression, each with how deep it stands in brackets; opening and closing ones stand outside."""
    depth = 0
    for kind, text in found:
        is_mark = kind == "mark"
        depth -= is_mark and text in (")", "]", "}")
        yield text if is_mark else "", depth
        depth += is_mark and text in ("(", "[", "{")


def matching_colon(outer: list[str], question: int) -> int:
    """Where the second half of a choice begins; 0 if it has none."""
    waiting = 0
    for position in range(question, len(outer)):
        waiting += {"?": 1, ":": -1}.get(outer[position], 0)
        if waiting == 0:
            return position
    return 0


def chosen(branches: list[Shape | None]) -> Shape | None:
    """The shape of a choice between two values."""
    condition, *values = branches
    if condition is None or any(value is None or value.kind == "flag" for value in values):
        return None
    there = [value for value in values if value]
    both = merged("sum" if any(value.kind == "sum" for value in there) else "value", there)
    return both._replace(sums=[*both.sums, *condition.sums])


def merged(kind: str, shapes: list[Shape]) -> Shape:
    """The shape of something that is made of others."""
    return Shape(kind, [m for s in shapes for m in s.made_of], [each for s in shapes for each in s.sums])


def pieces(found: list[Lexeme], outer: list[str], marks: tuple[str, ...]) -> list[list[Lexeme]]:
    """An expression split at marks that stand in no brackets."""
    split: list[list[Lexeme]] = [[]]
    for lexeme, mark in zip(found, outer, strict=True):
        if mark in marks:
            split.append([])
        else:
            split[-1].append(lexeme)
    return split


def atom(found: list[Lexeme]) -> Shape | None:
    """A constant, or a selection by names and keys; a key may be a selection itself."""
    if len(found) == 1 and (found[0].kind in ("text", "number") or found[0].text in WORDS):
        kind, text = found[0]
        value = {"true": True, "false": False, "null": None}[text] if kind == "name" else constant(found[0])
        return Shape("value", [value], [])
    if not found or found[0].kind not in ("name", "field") or found[0].text in (*WORDS, "in"):
        return None
    rest, is_plain = found[1:], True
    way: list[Any] = []
    beyond: list[Any] = []
    while rest:
        if len(rest) > 1 and rest[0].text == "." and rest[1].kind in ("name", "field"):
            key, rest = rest[1].text, rest[2:]
        elif rest[0].text == "[":
            end = next(
                (i for i, (mark, depth) in enumerate(with_depth(rest)) if i and mark == "]" and not depth), 0
            )
            inner, rest = rest[1:end], rest[end + 1 :]
            key = key_of(inner[0]) if len(inner) == 1 else None
            is_known = isinstance(key, str | int)
            if (
                not end
                or not inner
                or (not is_known and (inner[0].kind in ("text", "number") or atom(inner) is None))
            ):
                return None
            is_plain = is_plain and is_known
        else:
            return None
        if is_plain:
            way.append(key)
        else:
            beyond.append(key if isinstance(key, str | int) else "*")
    return Shape("value", [Read(found[0].text, tuple(way), tuple(beyond))], [])


_DOUBLES = re.compile(r"==|!=|<=|>=|&&|\|\|")


def paired(found: list[Lexeme]) -> list[Lexeme]:
    """Lexemes in which a mark of two characters is one."""
    for position in range(len(found) - 1):
        first, second = found[position : position + 2]
        if first.kind == second.kind == "mark" and _DOUBLES.fullmatch(first.text + second.text):
            both = Lexeme("mark", first.text + second.text)
            return [*found[:position], both, *paired(found[position + 2 :])]
    return found


def is_simple(case: Case, expression: str, within: Within) -> bool:
    """Whether an expression only selects, chooses, adds and subtracts, no source twice, and is a number if it adds."""
    found = shape(paired(lexemes(expression)))
    if found is None or found.kind == "flag" or (found.kind == "sum" and not within.number):
        return False
    return not any(adds_twice(case, operands, within) for operands in found.sums)


def adds_twice(case: Case, operands: list[list[Any]], within: Within) -> bool:
    """Whether two operands may be the same thing, or one is of a kind that may be anything or repeat another."""
    sources = [[source_of(case, made, within) for made in operand] for operand in operands]
    if any(source is None for operand in sources for source in operand):
        return True
    return any(
        first[:2] == second[:2] and all(a == b for a, b in zip(first[2], second[2], strict=False))
        for position, operand in enumerate(sources)
        for other in sources[position + 1 :]
        for first in operand
        for second in other
        if first is not None and second is not None
    )


def source_of(case: Case, made: Any, within: Within) -> tuple[str, Any, Place] | None:
    """What an operand of a sum is taken from; None for a constant, a note, what a step was called with, and the result of
    a call that something computed went into."""
    if not isinstance(made, Read):
        return None
    if made.root == "request":
        return ("request", "", made.way)
    if made.root == "evidence":
        entry = evidence_named(case, made.way[0]) if made.way else None
        return ("evidence", entry.hash or entry.id, made.way[1:]) if entry else None
    index = index_of(case, within.step.id if made.root == "self" and within.step else made.root)
    if index is None or is_computed(case, index, []):
        return None
    tool = tool_named(case, case.plan.steps[index].tool)
    return ("tool", tool.name, made.way) if tool else None


def is_computed(case: Case, index: int, seen: list[int]) -> bool:
    """Whether a sum, or an expression that could be anything, went into a step or into a step that it reads."""
    if index in seen:
        return False
    seen.append(index)
    for part in parts(case.plan.steps[index].params):
        found = shape(paired(lexemes(part.value))) if part.kind == "cel" else None
        if part.kind == "cel" and (found is None or found.kind == "flag" or found.sums):
            return True
        if "outputs" in names_in(part):
            return True
        targets = [index_of(case, name) for name in names_in(part)]
        if any(target is not None and is_computed(case, target, seen) for target in targets):
            return True
    return False


def says_number(schema: Any, place: Place) -> bool:
    """Whether a schema lets only numbers stand at a place."""
    for token in place:
        if member(schema, "prefixItems") is not None:
            return False
        inner = member(schema, "properties" if isinstance(token, str) else "items")
        schema = member(inner, token) if isinstance(token, str) else inner
    kinds = member(schema, "type")
    kinds = cast("list[Any]", kinds) if isinstance(kinds, list) else [kinds]
    numbers = [kind for kind in kinds if kind in ("number", "integer")]
    return bool(numbers) and all(kind in ("number", "integer", "null") for kind in kinds)


def is_trusted_evidence(case: Case, ref: str | int) -> bool:
    """Whether evidence of this id is in the manifest and trusted."""
    entry = evidence_named(case, ref)
    return entry is not None and entry.trust == "trusted" and not is_picked(case, entry.id)


def is_trusted_expression_read(case: Case, read: Read, within: Within) -> bool:
    """Whether what an expression reads under one name is permitted."""
    if read.root == "evidence":
        way = (*read.way[1:], *read.rest)
        return bool(read.way) and is_permitted_evidence(case, str(read.way[0]), way, within)
    return is_trusted_read(case, read.root, read.way, within, read.rest)


def is_trusted_read(case: Case, target: str, way: Place, within: Within, rest: Place = ()) -> bool:
    """Whether a part of the request, of a result or of the parameters taken back is permitted; `rest` is where the way
    goes on behind a computed key, which matters for the kind alone."""
    if target == "request":
        kind = kinds.field_kind(case.spec, "request", (*way, *rest))
        if holds_sentence(case, (*way, *rest)):
            return False
        return is_unmarked(input_marks(case), way) and kinds.fits(within.wanted, kind)
    if target == "outputs":
        return is_trusted_output(case, way, within, rest)
    if target == "params":
        return within.step is not None and is_trusted_where_written(case, within.step, way, within, rest)
    index = index_of(case, within.step.id if target == "self" and within.step else target)
    return index is not None and is_trusted_result(case, case.plan.steps[index], way, within, rest)


def holds_sentence(case: Case, way: Place) -> bool:
    """Whether a place of the request is a sentence, lies in one or holds one."""
    sentences = [field for field in case.spec.fields if field.kind == kinds.SENTENCE]
    paths = [kinds.split_path(field.of) for field in sentences]
    return any(
        owner == "request" and all(a in ("*", str(b)) for a, b in zip(path, way, strict=False))
        for owner, path in paths
    )


def is_trusted_result(case: Case, step: Step, way: Place, within: Within, rest: Place = ()) -> bool:
    """Whether a part of a step's result is trusted, and of the kind that is wanted."""
    if step.kind == "note":
        return is_trusted_where_written(case, step, way, within, rest)
    tool = tool_named(case, step.tool)
    if tool is None:
        return False
    for entered in case.compiled.entered:
        if entered.step_id == step.id and entered.trust != "trusted":
            return False
    declared = tool.trust or ("trusted" if tool.adapter == "python" else "untrusted")
    if declared != "trusted" or not is_unmarked(tool.untrusted, way):
        return False
    if not kinds.fits(within.wanted, kinds.result_kind(tool, (*way, *rest))):
        return False
    return tool.endorses or not is_tainted(case, step, tool)


def is_tainted(case: Case, step: Step, tool: ToolSpec) -> bool:
    """Whether an input of a call is untrusted and could carry somebody's words."""
    arguments = without_set_values(case, step, named(step.params, tool))
    return any(
        not is_trusted(case, part, call_site(case, step, tool)) and not is_harmless(part, tool)
        for part in call_parts(arguments, tool)
    )


def is_harmless(part: Part, tool: ToolSpec) -> bool:
    """Whether an input is a literal boolean, null, or one of the values that the schema enumerates at its place."""
    if part.kind != "literal":
        return False
    if part.value is None or isinstance(part.value, bool):
        return True
    schema: Any = tool.parameters
    for token in part.place:
        inner = member(schema, "properties" if isinstance(token, str) else "items")
        schema = member(inner, token) if isinstance(token, str) else inner
    words = member(schema, "enum") or [member(schema, "const")]
    return any(is_same(part.value, word) for word in words)


def member(value: Any, key: str) -> Any:
    """A member of an object, and None of anything else."""
    return cast("Doc", value).get(key) if isinstance(value, dict) else None


def call_parts(params: Doc, tool: ToolSpec) -> list[Part]:
    """The parts of a call's parameters; where the schema says nothing about names, a parameter's own name is none."""
    about_names = {"properties", "patternProperties", "additionalProperties", "propertyNames"}
    found = [part for name, value in params.items() for part in parts(value, (name,))]
    if schema_keys(tool.parameters) or about_names & set(tool.parameters):
        found += [Part("key", name, (name,)) for name in params]
    return found


def schema_keys(schema: Any) -> frozenset[str]:
    """Every property that a schema names, at any depth."""
    if isinstance(schema, list):
        return frozenset[str]().union(*(schema_keys(item) for item in cast("list[Any]", schema)))
    if not isinstance(schema, dict):
        return frozenset()
    members = cast("Doc", schema)
    named_here = members.get("properties")
    own = frozenset(cast("Doc", named_here)) if isinstance(named_here, dict) else frozenset[str]()
    return own.union(*(schema_keys(member) for member in members.values()))


def is_trusted_where_written(case: Case, step: Step, way: Place, reader: Within, rest: Place = ()) -> bool:
    """Whether what a step's parameters have at a place is permitted there, keys included, and of the kind that the reader
    wants."""
    tool = tool_named(case, step.tool)
    within = site(case, step)._replace(
        keys=schema_keys(tool.parameters) if tool else frozenset(), wanted=reader.wanted
    )
    return is_trusted_value(case, params_of(case, step), way, within, rest, reader, step)


def is_trusted_output(case: Case, way: Place, reader: Within, rest: Place = ()) -> bool:
    """Whether an output is permitted where a step takes it: as if the step had written the same itself."""
    if not way or way[0] not in case.plan.outputs or case.spec.quality is not None:
        return False
    if any("outputs" in names_in(part) for part in parts(case.plan.outputs)):
        return False
    within = reader._replace(keys=frozenset())
    return is_trusted_value(case, case.plan.outputs[str(way[0])], way[1:], within, rest, reader, None)


def is_trusted_value(
    case: Case, value: Any, way: Place, within: Within, rest: Place, reader: Within, step: Step | None
) -> bool:
    """Whether what a written value has at a place is permitted; `step` is the one whose parameters it is."""
    plain = False
    for position, token in enumerate(way):
        reference = as_reference(cast("Doc", value)) if isinstance(value, dict) and not plain else None
        if reference is not None and reference[0] != "literal":
            return is_trusted_beyond(case, Part(*reference, ()), way[position:], within, rest)
        plain = plain or reference is not None
        try:
            value = follow(value if reference is None else reference[1], [str(token)])
        except NowhereError:
            return False
    value = value if step is None else unset(case, step, value, way, plain=plain)
    if value is GONE:
        return True
    is_nothing = value == {} and not plain
    if any(not is_nothing for _ in empties(value, plain=plain)):
        return False
    return all(
        is_trusted(
            case,
            part,
            within._replace(
                number=reader.number and not part.place, wanted=None if part.kind == "key" else within.wanted
            ),
        )
        for part in parts(value, plain=plain)
    )


def is_trusted_beyond(case: Case, part: Part, way: Place, within: Within, rest: Place) -> bool:
    """Whether a part of what a reference leads to is permitted."""
    target, begun = target_of(part) if part.kind != "cel" else ("", [])
    if part.kind == "evidence":
        return is_permitted_evidence(case, target, (*begun, *way, *rest), within)
    if part.kind != "from":
        return is_trusted(case, part, within)
    return is_trusted_read(case, target, (*begun, *way), within, rest)


def has_authority(tool: ToolSpec, name: str) -> bool:
    """Whether a parameter carries authority."""
    if tool.authority is not None:
        return name in tool.authority
    return MODES.index(tool.mode) > MODES.index("local_write")


def unbound(case: Case, params: Doc, tool: ToolSpec, within: Within) -> list[str]:
    """The authority parameters that hold a value without a permitted source."""
    found: list[str] = []
    for name, value in named(params, tool).items():
        if not has_authority(tool, name):
            continue
        is_empty = any(not is_default(empty, tool) for empty in empties(value, (name,)))
        if is_empty or not all(is_trusted(case, part, within) for part in call_parts({name: value}, tool)):
            found.append(name)
    return found


def outcome(case: Case, tool: ToolSpec, name: str) -> str:
    """What an unbound value in a parameter leads to: refuse, ask or allow."""
    unconditional = [gate.name for gate in case.compiled.gates if gate.when is None]
    usual = "ask" if case.spec.unbound_gate in unconditional else "refuse"
    declared = tool.unbound.get(name, usual)
    return usual if declared == "ask" else declared


def without_set_values(case: Case, step: Step, params: Any, place: Place = ()) -> Any:
    """A step's parameters without the literals that an approver has set, and without what held nothing else."""
    left = unset(case, step, params, place, plain=False)
    return {} if left is GONE else left


GONE = object()


def unset(case: Case, step: Step, value: Any, place: Place, *, plain: bool) -> Any:
    """What is left of a value without the literals that an approver has set; GONE if that is nothing."""
    if isinstance(value, dict) and value:
        members = cast("Doc", value)
        reference = None if plain else as_reference(members)
        if reference is not None and reference[0] != "literal":
            return members
        if reference is not None:
            left = unset(case, step, reference[1], place, plain=True)
            return left if left is GONE else {"$literal": left}
        kept = {key: unset(case, step, each, (*place, key), plain=plain) for key, each in members.items()}
        kept = {key: each for key, each in kept.items() if each is not GONE}
        return kept or GONE
    if isinstance(value, list) and value:
        items = cast("list[Any]", value)
        left = [unset(case, step, each, (*place, index), plain=plain) for index, each in enumerate(items)]
        return [each for each in left if each is not GONE] or GONE
    return GONE if is_set(case, step, value, place) else cast("Any", value)


def is_set(case: Case, step: Step, value: Any, place: Place) -> bool:
    """Whether an approver has set this value in the call of this step, alone or as a part of a larger one."""
    way = [str(token) for token in place]
    for each in case.compiled.changed:
        if (each.step_id, each.tool) != (step.id, step.tool):
            continue
        at = way_of(each.place)
        if way[: len(at)] != at:
            continue
        try:
            wanted = follow(each.value, way[len(at) :])
        except NowhereError:
            continue
        if isinstance(wanted, dict | list) or isinstance(value, dict | list):
            if wanted == value:
                return True
        elif is_same(wanted, value):
            return True
    return False


def is_default(part: Part, tool: ToolSpec) -> bool:
    """Whether a literal, or an empty list or object, is what the schema has as default at its place."""
    schema: Any = tool.parameters
    for token in part.place:
        if member(schema, "prefixItems") is not None:
            return False
        inner = member(schema, "properties" if isinstance(token, str) else "items")
        schema = member(inner, token) if isinstance(token, str) else inner
    has_default = isinstance(schema, dict) and "default" in schema
    return has_default and is_equal(member(schema, "default"), part.value)


def flow_outcomes(case: Case) -> list[tuple[int, set[str]]]:
    """The steps in which something has no permitted source, and what that leads to."""
    found: list[tuple[int, set[str]]] = []
    before = waits_for(case)
    for index, step, tool in calls(case):
        within = call_site(case, step, tool)
        leads_to = {
            outcome(case, tool, name)
            for name in unbound(case, without_set_values(case, step, params_of(case, step)), tool, within)
        }
        conditions = [case.plan.steps[i] for i in {index, *before[index]}]
        if is_above_read_only(case, step) and any(has_untrusted_condition(case, each) for each in conditions):
            leads_to.add(outcome(case, tool, ""))
        undo = tool_named(case, step.compensate.tool) if step.compensate else None
        if step.compensate and undo:
            within = undo_site(case, step, undo, step.compensate.params)
            names = unbound(case, step.compensate.params, undo, within)
            leads_to |= {outcome(case, undo, name) for name in names}
        if leads_to:
            found.append((index, leads_to))
    return found


def unrelated_steps(case: Case) -> list[int]:
    """The steps that break a relation of the decision."""
    found: list[int] = []
    for index, step, tool in calls(case):
        within = call_site(case, step, tool)
        is_broken = breaks_relation(case, step.params, tool, within) or pins_of_another_request(
            case, step, within
        )
        undo = tool_named(case, step.compensate.tool) if step.compensate else None
        if step.compensate and undo:
            params = cast("Doc", with_params(step.compensate.params, params_of(case, step)))
            within = undo_site(case, step, undo, step.compensate.params)
            is_broken = is_broken or breaks_relation(case, params, undo, within)
            read = [*within.pins, *read_in_formulas(step.compensate.params)]
            is_broken = is_broken or (undo.mode != "read_only" and is_of_another_request(case, read, within))
        if is_broken:
            found.append(index)
    return found


def flow_violations(case: Case) -> list[int]:
    """The steps in which something untrusted decides, and is refused or asked about."""
    return [index for index, leads_to in flow_outcomes(case) if leads_to != {"allow"}]


def has_untrusted_condition(case: Case, step: Step) -> bool:
    """Whether something untrusted decides if a step runs."""
    reads = [] if step.when is None else scan(step.when).reads
    within = site(case, step)._replace(number=True)
    return not all(is_trusted_in_condition(case, read, within) for read in reads)


def is_trusted_in_condition(case: Case, read: Read, within: Within) -> bool:
    """Whether a condition may read something: evidence need not be pinned for that."""
    if read.root == "evidence":
        return bool(read.way) and vouches(case, str(read.way[0]), list(within.pins))
    return is_trusted_expression_read(case, read, within)


def gate_names(case: Case) -> list[str]:
    """The gates that exist."""
    return [gate.name for gate in case.compiled.gates]


def authority_is_bound(case: Case) -> Iterator[Finding]:
    """Check 13a."""
    for index, leads_to in flow_outcomes(case):
        if "refuse" in leads_to:
            yield "unbound_argument", index


def calls_are_related(case: Case) -> Iterator[Finding]:
    """Check 13b."""
    for index in unrelated_steps(case):
        yield "unbound_argument", index


def optional_effects_are_certain(case: Case) -> Iterator[Finding]:
    """Check 13c."""
    for index, step, _ in calls(case):
        if is_above_read_only(case, step) and may_be_left_out_by_words(case, step, frozenset()):
            yield "unbound_argument", index


def may_be_left_out_by_words(case: Case, step: Step, asked: frozenset[str]) -> bool:
    """Whether something untrusted may decide if a step, which is optional or reads such a step, is skipped."""
    reads = list(scan(step.when).reads) if step.when is not None else []
    if step.optional:
        undo = step.compensate.params if step.compensate else {}
        of_undo = [read for read in reads_to_resolve(undo) if read.root not in ("self", "params")]
        own = [*reads_to_resolve(step.params), *of_undo]
        within = site(case, step)._replace(number=True)
        if not all(is_trusted_in_condition(case, read, within) for read in own):
            return True
        reads += own
    names = {read.root for read in reads} - asked
    return any(
        each.id in names and may_be_left_out_by_words(case, each, asked | names) for each in case.plan.steps
    )


def reads_to_resolve(params: Any) -> list[Read]:
    """What parameters read that is not known before their step is due."""
    found: list[Read] = []
    for part in parts(params):
        if part.kind == "cel":
            found += scan(part.value).reads
        elif part.kind == "from" and target_of(part)[0] not in ("request", "outputs"):
            target, way = target_of(part)
            found.append(Read(target, tuple(way)))
    return found


# ---- checks 14 to 16: gates and compensations ---------------------------------------------------------------------


def waits_for_a_person(case: Case, step: Step) -> bool:
    """Whether step, tool or decision ask for a gate that no condition can lift."""
    unconditional = [gate.name for gate in case.compiled.gates if gate.when is None]
    return any(gate in unconditional for gate in gates_of(case, step))


def gates_of(case: Case, step: Step) -> list[str]:
    """The gates of step, tool and decision."""
    return [*own_gates(case, step), *(case.spec.gates if is_above_read_only(case, step) else ())]


def is_grave(mode: str, reversibility: str) -> bool:
    """Whether a person must approve a call."""
    return mode == "destructive" or reversibility == "irreversible"


def gates_are_there(case: Case) -> Iterator[Finding]:
    """Check 14."""
    for index, step, _ in calls(case):
        if any(gate not in gate_names(case) for gate in gates_of(case, step)):
            yield "gate_unknown", index
        if is_grave(mode_of(case, step), reversibility_of(case, step)) and not waits_for_a_person(case, step):
            yield "gate_missing", index


def compensations_are_recorded(case: Case) -> Iterator[Finding]:
    """Check 15."""
    for index, step, tool in calls(case):
        is_undone = reversibility_of(case, step) in ("reversible", "compensable")
        if is_undone and not step.compensate and not tool.compensate and not tool.no_compensation:
            yield "compensation_missing", index


def changes_something(mode: str, reversibility: str) -> bool:
    """Whether a call has an effect that could be undone, or that could undo another."""
    return mode != "read_only" and reversibility != "pure"


def compensations_fit(case: Case) -> Iterator[Finding]:
    """Check 16."""
    for index, step, _ in calls(case):
        if step.compensate is None:
            continue
        tool = tool_named(case, step.compensate.tool)
        if tool is None:
            yield "compensation_missing", index
            continue
        has_effect = changes_something(mode_of(case, step), reversibility_of(case, step))
        if has_effect and not changes_something(tool.mode, declared_reversibility(tool)):
            yield "compensation_missing", index
        if MODES.index(tool.mode) > MODES.index(case.ctx.safety_mode):
            yield "mode_exceeded", index
        elif not may_use(case, tool):
            yield "authorization_required", index
        elif breaks_schema(case, step.compensate.params, tool):
            yield "argument_invalid", index


# ---- checks 17 to 20: what must hold, and what is left ------------------------------------------------------------


def preconditions_hold(case: Case) -> Iterator[Finding]:
    """Check 17a."""
    before = waits_for(case)
    for index, step in enumerate(case.plan.steps):
        tools = [tool_named(case, case.plan.steps[earlier].tool) for earlier in before[index]]
        held = [*at_start(case), *(name for tool in tools if tool for name in tool.establishes)]
        own = tool_named(case, step.tool)
        if any(name not in held for name in [*step.preconditions, *(own.preconditions if own else ())]):
            yield "unmet_precondition", index


def at_start(case: Case) -> list[str]:
    """The conditions that hold when the plan starts, after every call that the run has made before it."""
    held = list(case.spec.conditions)
    for call in case.ctx.earlier:
        tool = tool_named(case, call.step.tool)
        if tool is not None and call.place is not None:
            held = [*(name for name in held if name not in tool.revokes), *tool.establishes]
    unsure = [tool_named(case, call.step.tool) for call in case.ctx.earlier if call.place is None]
    return [name for name in held if not any(tool and name in tool.revokes for tool in unsure)]


def threats_are_kept_away(case: Case) -> Iterator[Finding]:
    """Check 17b."""
    before = waits_for(case)
    steps = range(len(case.plan.steps))
    tools = {index: tool for index, _, tool in calls(case)}
    for threat in (index for index in tools if tools[index].revokes):
        for other in (index for index in steps if index != threat and index not in before[threat]):
            own = tools[other].preconditions if other in tools else ()
            for name in [*case.plan.steps[other].preconditions, *own]:
                makers = [i for i in before[other] if i in tools and name in tools[i].establishes]
                is_met = name in at_start(case) or bool(makers)
                is_mended = any(threat in (maker, *before[maker]) for maker in makers)
                if name in tools[threat].revokes and is_met and not is_mended:
                    yield "threatened_condition", threat


def tokens_of(case: Case, step: Step) -> int:
    """What a step is estimated at, and at least what its tool is."""
    tool = tool_named(case, step.tool)
    return max(step.estimated_tokens, tool.estimated_tokens if tool else 0)


def calls_needed(case: Case) -> int:
    """How many calls a plan makes, and one more for each of them that a call could take back."""
    return sum(1 if way_back(case, step, tool) is None else 2 for _, step, tool in calls(case))


def cost_needed(case: Case) -> int:
    """What those calls cost; a compensation by a tool that is not on the surface has no known cost."""
    total = 0
    for _, step, tool in calls(case):
        total += tool.cost_microcents
        undoing = tool_named(case, way_back(case, step, tool))
        total += undoing.cost_microcents if undoing else 0
    return total


def way_back(case: Case, step: Step, tool: ToolSpec) -> str | None:
    """The tool that takes a step back: the one that it names itself, else its tool's; a pure step needs none."""
    named_here = step.compensate or tool.compensate
    return named_here.tool if named_here and reversibility_of(case, step) != "pure" else None


def budget_is_left(case: Case) -> Iterator[Finding]:
    """Check 18."""
    budget, used = case.ctx.run_budget, case.ctx.used
    if budget.tool_calls is not None and calls_needed(case) > budget.tool_calls - used.tool_calls:
        yield "tool_calls_exceeded", None
    tokens = sum(tokens_of(case, step) for step in case.plan.steps)
    if budget.tokens is not None and tokens > budget.tokens - used.tokens:
        yield "tokens_exceeded", None
    if (
        budget.cost_microcents is not None
        and cost_needed(case) > budget.cost_microcents - used.cost_microcents
    ):
        yield "cost_exceeded", None


def spans(case: Case, least: int) -> list[tuple[int, int]]:
    """When each step starts and ends if it starts as soon as it can and takes at least so long."""
    before = waits_for(case)
    durations = [max(least, duration(case, step)) for step in case.plan.steps]

    def end(index: int) -> int:
        return durations[index] + max((end(earlier) for earlier in before[index]), default=0)

    return [(end(index) - durations[index], end(index)) for index in range(len(durations))]


def duration(case: Case, step: Step) -> int:
    """How long a step is expected to take."""
    tool = tool_named(case, step.tool)
    inherited = tool.estimated_ms if tool else 0
    return inherited if step.estimated_ms is None else step.estimated_ms


def time_is_left(case: Case) -> Iterator[Finding]:
    """Check 19."""
    limit = case.ctx.run_budget.wall_clock_ms
    longest = max(end for _, end in spans(case, 0))
    if limit is not None and longest > limit - case.ctx.used.wall_clock_ms:
        yield "latency_exceeded", None


def width(case: Case) -> int:
    """How many steps run at once if each starts as soon as it can and takes at least a moment."""
    found = spans(case, 1)
    return max(sum(start <= moment < end for start, end in found) for moment, _ in found)


def steps_run_within_the_slots(case: Case) -> Iterator[Finding]:
    """Check 20a."""
    limit = case.ctx.run_budget.max_parallel
    if limit is not None and width(case) > limit:
        yield "concurrency_exceeded", None


def branches_are_shallow(case: Case) -> Iterator[Finding]:
    """Check 20b."""
    for index, step in enumerate(case.plan.steps):
        if depth_of(case, step) > case.ctx.run_budget.max_branch_depth:
            yield "branches_exceeded", index


def depth_of(case: Case, step: Step) -> int:
    """How deep a step hangs in conditions: as deep as what it refers to, and deeper by its own."""
    names = {name for part in parts_of(step) for name in names_in(part) if name not in NO_STEPS}
    found = [index for name in names if (index := index_of(case, name)) is not None]
    return max([0, *(depth_of(case, case.plan.steps[index]) for index in found)]) + (step.when is not None)


# ---- checks 21 to 23: policies, compensations as calls, checkpoints, duplicates -----------------------------------


def step_values(case: Case, index: int, absent: set[int] | None = None) -> Doc:
    """What a policy may read of a step while some steps are absent; a note has no parameters there."""
    step = case.plan.steps[index]
    is_call = tool_named(case, step.tool) is not None
    return {
        "id": step.id,
        "index": index,
        "kind": step.kind,
        "tool": step.tool or "",
        "mode": mode_of(case, step) if is_call else str(step.approval_mode or "read_only"),
        "reversibility": reversibility_of(case, step) if is_call else str(step.reversibility or "pure"),
        "gates": own_gates(case, step),
        "evidence": pins(step),
        "params": ruled(case, step),
        "when": step.when or "",
        "optional": step.optional,
        **order_values(case, index, absent or set()),
    }


def order_values(case: Case, index: int, absent: set[int]) -> Doc:
    """What a policy may read of the order around a step, or around the earlier call with a negative index."""
    waits, earlier = waits_for(case), case.ctx.earlier

    def is_before(first: int, second: int) -> bool:
        if first < 0:
            return earlier[first].place is not None and first < second
        return second >= 0 and first in waits[second]

    present = [each for each in range(-len(earlier), len(case.plan.steps)) if each not in absent]
    sides = {
        "before": [each for each in present if is_before(each, index)],
        "after": [each for each in present if is_before(index, each)],
    }
    ids = {
        each: case.plan.steps[each].id if each >= 0 else f"{earlier[each].step.id}@{each}" for each in present
    }
    tools = {each: case.plan.steps[each].tool if each >= 0 else earlier[each].step.tool for each in present}
    named = {side: sorted(ids[each] for each in each_side) for side, each_side in sides.items()}
    called = {
        f"{side}_tools": sorted({tool for each in each_side if (tool := tools[each])})
        for side, each_side in sides.items()
    }
    return {**named, **called}


def earlier_values(case: Case, absent: set[int]) -> list[Doc]:
    """What a policy over the plan may read of the calls that the run made before: steps with negative indexes."""
    count = len(case.ctx.earlier)
    found: list[Doc] = []
    for index, call in enumerate(case.ctx.earlier):
        alone = case._replace(plan=Plan(steps=(call.step,)))
        place = index - count
        own = {"index": place, "id": f"{call.step.id}@{place}"}
        seen = {**step_values(alone, 0), **own, **order_values(case, place, absent)}
        if tool_named(case, call.step.tool) is None:
            seen |= {"mode": "destructive", "reversibility": "irreversible"}
        found.append(seen)
    return found


def ruled(case: Case, step: Step) -> Doc:
    """The parameters of a call as a policy reads them."""
    tool, params = tool_named(case, step.tool), resolved(case, call_params(case, step))
    return with_defaults(tool.parameters, params) if tool and step.kind == "tool" else params


def with_defaults(declared: Doc, value: Any) -> Any:
    """A value with the defaults of a schema, at every level; a default of null adds nothing."""
    if isinstance(value, list):
        return [with_defaults(declared.get("items", {}), each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    properties, others = declared.get("properties", {}), declared.get("additionalProperties", {})
    found = {name: kind["default"] for name, kind in properties.items() if kind.get("default") is not None}
    found |= cast("Doc", value)
    for name in found:
        kind = properties.get(name, others)
        found[name] = with_defaults(cast("Doc", kind), found[name]) if isinstance(kind, dict) else found[name]
    return found


def call_params(case: Case, step: Step) -> Doc:
    """The parameters of a call; a note makes none."""
    return params_of(case, step) if step.kind == "tool" else {}


def broken_by(case: Case, policy: Policy) -> list[int | None]:
    """The steps that break a policy; None is the plan itself, and a policy that does not compile breaks that."""
    scope = expressions.PLAN if policy.scope == "plan" else expressions.STEP
    if not is_rule(policy.expression, scope):
        return [None]
    if policy.scope == "plan":
        return [None] if holds_without(case, policy, set()) is False else []
    common = {**frame(case), "plan.intent": case.plan.intent or ""}
    params = [call_params(case, step) for step in case.plan.steps]
    everything = [step_values(case, index) for index in range(len(params))]
    found: list[int | None] = []
    for index, step in enumerate(everything):
        values = {**common, **{f"step.{name}": value for name, value in step.items()}}
        if holds(policy.expression, scope, values, [params[index]]) is False:
            found.append(index)
    return found


def holds_without(case: Case, policy: Policy, absent: set[int]) -> bool | None:
    """Whether a policy holds for the plan without some of its steps; None if it reads a parameter that is open."""
    present = [index for index in range(len(case.plan.steps)) if index not in absent]
    values = {
        **frame(case),
        "plan.intent": case.plan.intent or "",
        "plan.outputs": list(dict.fromkeys([*case.plan.outputs, *case.plan.declared_outputs])),
        "plan.steps": [
            *(step_values(case, index, absent) for index in present),
            *earlier_values(case, absent),
        ],
    }
    params = [call_params(case, case.plan.steps[index]) for index in present]
    return holds(policy.expression, expressions.PLAN, values, params)


def refers_to(case: Case, index: int) -> set[int]:
    """The steps that a step's parameters and condition mention."""
    names = [name for part in parts_of(case.plan.steps[index]) for name in names_in(part)]
    if "outputs" in names:
        names += [name for part in parts(case.plan.outputs) for name in names_in(part)]
    found = [index_of(case, name) for name in names if name not in NO_STEPS]
    return {before for before in found if before is not None}


def may_not_run(case: Case) -> set[int]:
    """The steps that may not run: repeated passes until none is added."""
    unsure: set[int] = set()
    while True:
        added = set(unsure)
        for index, step in enumerate(case.plan.steps):
            tool = tool_named(case, step.tool)
            needs = {*step.preconditions, *(tool.preconditions if tool else ())}
            before = [tool_named(case, case.plan.steps[b].tool) for b in waits_for(case)[index] & unsure]
            is_founded = not any(needs & set(maker.establishes) for maker in before if maker)
            if step.optional or step.when is not None or refers_to(case, index) & unsure or not is_founded:
                added.add(index)
        if added == unsure:
            return unsure
        unsure = added


def policies_left_open(case: Case) -> set[str]:
    """The policies over the plan that are decided at dispatch: an open value, or a step that may not run, decides them."""
    unsure = may_not_run(case)
    subsets = [
        {i for n, i in enumerate(sorted(unsure)) if bits >> n & 1} for bits in range(2 ** min(len(unsure), 4))
    ]
    if len(unsure) > 4:
        subsets = [unsure]
    absences = [
        absent
        for absent in subsets
        if not any(refers_to(case, index) & absent for index in unsure if index not in absent)
    ]
    found: set[str] = set()
    for policy in case.compiled.policies:
        if (
            policy.effect == "grant"
            or policy.scope != "plan"
            or not is_rule(policy.expression, expressions.PLAN)
        ):
            continue
        known = holds_without(case, policy, set())
        if known is None or (known and any(not holds_without(case, policy, absent) for absent in absences)):
            found.add(policy.name)
    return found


def policies_hold(case: Case) -> Iterator[Finding]:
    """Check 21; one that asks for a gate refuses only if there is no such gate, or does not compile; a grant never."""
    for policy in case.compiled.policies:
        if policy.effect == "grant":
            continue
        scope = expressions.PLAN if policy.scope == "plan" else expressions.STEP
        is_gated = policy.effect == "gate" and policy.gate in gate_names(case)
        if not is_gated or not is_rule(policy.expression, scope):
            for step in broken_by(case, policy):
                yield "policy_invariant", step


def first_grant(case: Case, step_id: str, params: Doc) -> str | None:
    """The first policy that grants a step with these parameters; see "Grants" on the page."""
    literal = {name: {"$literal": value} for name, value in params.items()}
    steps = [
        step.model_copy(update={"params": literal, "evidence_refs": pins(step)})
        if step.id == step_id
        else step
        for step in case.plan.steps
    ]
    called = case._replace(plan=case.plan.model_copy(update={"steps": steps}))
    index = index_of(called, step_id)
    if index is None or mode_of(called, steps[index]) not in ("network", "delegated"):
        return None
    if reversibility_of(called, steps[index]) == "irreversible":
        return None
    for policy in called.compiled.policies:
        is_grant = policy.effect == "grant" and policy.scope == "step" and policy.gate is None
        views = [
            # The order is that of the plan as it was proposed: a resolved step no longer refers to others.
            {**step_values(called, index), **order_values(case, index, absent)}
            for absent in (set[int](), may_not_run(case) - {index})
        ]
        common = {**frame(called), "plan.intent": called.plan.intent or ""}
        if is_grant and all(
            holds(
                policy.expression,
                expressions.STEP,
                {**common, **{f"step.{name}": value for name, value in view.items()}},
                [],
            )
            for view in views
        ):
            return policy.name
    return None


def compensations_are_calls(case: Case) -> Iterator[Finding]:
    """Check 21b: what is asked of calls, of a plan that is longer by a step for each compensation that it proposes."""
    hosts: list[int] = []
    added: list[Step] = []
    for index, step, _ in calls(case):
        tool = tool_named(case, step.compensate.tool) if step.compensate else None
        if step.compensate is None or tool is None:
            continue
        params = cast("Doc", with_params(step.compensate.params, params_of(case, step)))
        hosts.append(index)
        added.append(
            Step.model_construct(
                id=f"~{step.id}",
                tool=tool.name,
                params=params,
                depends_on=(step.id,),
                evidence_refs=tuple(pins(step)),
            )
        )
    own = len(case.plan.steps)
    fields = {name: getattr(case.plan, name) for name in Plan.model_fields}
    longer = case._replace(plan=Plan.model_construct(None, **{**fields, "steps": (*case.plan.steps, *added)}))
    plain = {step for _, step in policies_hold(case)}
    asked = [
        (evidence_is_pinned, ""),
        (arguments_are_within_limits, ""),
        (gates_are_there, ""),
        (preconditions_hold, "preconditions"),
        (policies_hold, ""),
        (effects_are_single, "duplicates"),
    ]
    for check, option in asked if added else []:
        if option and option not in optional_checks(case):
            continue
        for code, step in check(longer):
            if step is not None and step >= own:
                yield code, hosts[step - own]
            elif step is None and check is policies_hold and None not in plain:
                yield code, None


def with_params(value: Any, params: Doc) -> Any:
    """A value of a compensation with what its step writes down in place of `params`."""
    if isinstance(value, list):
        return [with_params(member, params) for member in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    members = cast("Doc", value)
    reference = as_reference(members)
    if reference is None:
        return {key: with_params(member, params) for key, member in members.items()}
    target, way = target_of(Part(*reference, ())) if reference[0] == "from" else ("", [])
    if target != "params" or any("$" in token for token in way):
        return members
    try:
        return follow(params, way)
    except NowhereError:
        return members


def checkpoints_are_bound(case: Case) -> Iterator[Finding]:
    """Check 22; the decision itself belongs to the catalogue."""
    catalogue = {decision.id: decision for decision in [*case.compiled.decisions, case.spec]}
    for checkpoint in case.plan.decision_checkpoints:
        index = index_of(case, checkpoint.after_step)
        decision = catalogue.get(checkpoint.decision_id)
        if decision is None or index is None:
            yield "checkpoint_unbound", None
            continue
        by_then = [case.plan.steps[earlier] for earlier in [*waits_for(case)[index], index]]
        pinned = [pins(step) for step in by_then]
        for requirement in decision.required_evidence:
            if code := unmet(case, requirement, pinned, decision):
                yield code, index


def effects_are_single(case: Case) -> Iterator[Finding]:
    """Check 23."""
    seen: list[tuple[str, Any]] = []
    for index, step, tool in calls(case):
        if not is_above_read_only(case, step) or tool.name in case.spec.repeatable:
            continue
        params = named(step.params, tool)
        names = tool.identity or None
        if names is None and any(is_number(tool.parameters, name) for name in tool.authority or ()):
            names = tool.authority
        received = as_received(tool.parameters, params)
        identity = params if names is None else {name: params.get(name) for name in names}
        compared = received if names is None else {name: received.get(name) for name in names}
        if step.id.startswith("~") and any(
            name in ("self", "params") for part in parts(identity) for name in names_in(part)
        ):
            continue
        if any(name == tool.name and is_equal(compared, other) for name, other in seen):
            yield "duplicate_action", index
        seen.append((tool.name, compared))


def is_number(schema: Doc, name: str) -> bool:
    """Whether a parameter may be a number, by the types that its schema and its alternatives name; without any, it may."""
    declared = schema.get("properties", {}).get(name, {})
    found: list[Any] = []
    for kind in (declared, *declared.get("anyOf", ())):
        types = kind.get("type", [])
        found += types if isinstance(types, list) else [types]
    return not found or "number" in found or "integer" in found


def as_received(schema: Doc, params: Doc) -> Doc:
    """The parameters with the defaults of a schema, and texts with a format or beside numbers as what they mean."""
    found = dict(params)
    properties = schema.get("properties", {})
    for name, declared in properties.items():
        if name not in found and "default" in declared:
            found[name] = declared["default"]
    others = schema.get("additionalProperties")
    for name, value in found.items():
        declared = properties.get(name, others)
        if isinstance(declared, dict):
            found[name] = one_received(cast("Doc", declared), value)
    return found


def one_received(declared: Doc, value: Any) -> Any:
    """A value as it is received by what its schema declares."""
    if isinstance(value, dict):
        given = cast("Doc", value)
        if "properties" in declared and not {"additionalProperties", "patternProperties"} & set(declared):
            given = {name: each for name, each in given.items() if name in declared["properties"]}
        return as_received(declared, given)
    if isinstance(value, list):
        members, first = cast("list[Any]", value), declared.get("prefixItems", [])
        kinds = [first[n] if n < len(first) else declared.get("items", {}) for n in range(len(members))]
        found = [one_received(kind, member) for kind, member in zip(kinds, members, strict=True)]
        return sorted(found, key=repr) if declared.get("uniqueItems") else found
    return as_meant([declared, *declared.get("anyOf", [])], value) if isinstance(value, str) else value


def as_meant(kinds: list[Doc], text: str) -> Any:
    """What a text stands for where a schema allows these kinds."""
    with suppress(ValueError):
        if {"number", "string"} <= {kind.get("type") for kind in kinds}:
            return float(text)
    for kind in kinds:
        with suppress(ValueError):
            match kind.get("format"):
                case "uuid":
                    return UUID(text).hex
                case "date":
                    return datetime.fromisoformat(text).date().isoformat()
                case "date-time":
                    read = datetime.fromisoformat(text)
                    return read.timestamp() if read.tzinfo else read.isoformat()
                case "time":
                    read = datetime.fromisoformat(f"2000-01-02T{text}")
                    return read.timestamp() % 86_400 if read.tzinfo else read.isoformat()
                case _:
                    pass
    return text


def is_equal(first: Any, second: Any) -> bool:
    """Whether two JSON values are equal."""
    if isinstance(first, dict) and isinstance(second, dict):
        one, other = cast("Doc", first), cast("Doc", second)
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    if isinstance(first, list) and isinstance(second, list):
        ones, others = cast("list[Any]", first), cast("list[Any]", second)
        return len(ones) == len(others) and all(map(is_equal, ones, others))
    return is_same(first, second)


CHECKS: list[tuple[Callable[[Case], Iterator[Finding]], str]] = [
    (outputs_are_declared, ""),
    (tools_are_surfaced, ""),
    (modes_are_allowed, ""),
    (evidence_is_pinned, ""),
    (plan_is_short, ""),
    (plan_fits_bucket, ""),
    (plan_has_a_step, ""),
    (no_step_is_a_lane, ""),
    (no_step_waits_for_itself, ""),
    (references_lead_somewhere, ""),
    (outputs_can_be_delivered, ""),
    (arguments_fit, ""),
    (arguments_are_within_limits, ""),
    (modes_are_stated, ""),
    (owner_is_authorised, ""),
    (authority_is_bound, ""),
    (calls_are_related, ""),
    (optional_effects_are_certain, ""),
    (gates_are_there, ""),
    (compensations_are_recorded, "compensation"),
    (compensations_fit, ""),
    (preconditions_hold, "preconditions"),
    (threats_are_kept_away, "preconditions"),
    (budget_is_left, ""),
    (time_is_left, "latency"),
    (steps_run_within_the_slots, "concurrency"),
    (branches_are_shallow, ""),
    (policies_hold, ""),
    (compensations_are_calls, ""),
    (checkpoints_are_bound, "checkpoints"),
    (effects_are_single, "duplicates"),
]
