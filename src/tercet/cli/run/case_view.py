"""A reviewed plan on the screen: the plan as a tree, the verdict with its remedy at its step, and the rules that applied."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from rich.text import Text

from tercet.cli.inputs import STDIN
from tercet.cli.run.review import Case
from tercet.cli.screen import Screen
from tercet.contracts.context import CompiledContext
from tercet.contracts.evidence import meets, parse_ref
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Step
from tercet.contracts.shape import as_object
from tercet.contracts.steps import graph
from tercet.contracts.steps.effective import effective
from tercet.contracts.steps.graph import Graph
from tercet.contracts.values import references
from tercet.contracts.verdict import Code, Refusal, Verdict
from tercet.critic.reading import pinned
from tercet.critic.review import Review
from tercet.critic.rule_report import RuleAtStep, RuleReport, RuleUse, report_rules
from tercet.critic.waits import Wait
from tercet.packs.checks import did_you_mean
from tercet.view.terminal.text import count, listed, printable
from tercet.view.text import join_parts, reasons_text

MOST = 30
"""Plans with more steps are shortened."""
FIRST = 12
"""The number of first steps that are shown of such a plan."""
DEEPEST = 8
"""The largest depth of the tree; deeper steps are shown at this depth."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A step in the tree, or a number of omitted steps."""

    step: int | None
    """None for omitted steps."""
    skipped: int = 0
    first: str = ""
    """The prefix of its first line."""
    rest: str = ""
    """The prefix of its other lines."""
    beside: tuple[int, ...] = ()
    """Its dependencies besides its parent."""


def outline(graph: Graph, offending: int | None) -> Iterator[Entry]:
    """Return the entries of a plan's tree, from the top."""
    size = len(graph.predecessors)
    if size > MOST:
        yield from _flat(graph, size, offending)
        return
    parents = _parents(graph)
    children: dict[int | None, list[int]] = {}
    for step, parent in enumerate(parents):
        children.setdefault(parent, []).append(step)
    for root in children.get(None, []):
        yield from _branch(graph, children, root, "", "", None)


def _branch(
    graph: Graph, children: dict[int | None, list[int]], step: int, first: str, rest: str, parent: int | None
) -> Iterator[Entry]:
    own = children.get(step, [])
    stem = f"{rest}│  " if own else f"{rest}   "
    beside = tuple(p for p in graph.predecessors[step] if p != parent)
    yield Entry(step=step, first=first, rest=stem, beside=beside)
    for child in own:
        is_last = child == own[-1]
        yield from _branch(
            graph,
            children,
            child,
            f"{rest}{'└─ ' if is_last else '├─ '}",
            f"{rest}{'   ' if is_last else '│  '}",
            step,
        )


def _parents(graph: Graph) -> list[int | None]:
    """Return the parent of each step; None for roots."""
    depth = [0] * len(graph.predecessors)
    parents: list[int | None] = [None] * len(graph.predecessors)
    for step in graph.order:
        if not graph.predecessors[step]:
            continue
        last = max(graph.predecessors[step], key=lambda before: (depth[before], before))
        if depth[last] < DEEPEST:
            parents[step], depth[step] = last, depth[last] + 1
        else:
            parents[step], depth[step] = parents[last], depth[last]
    return parents


def _flat(graph: Graph, size: int, offending: int | None) -> Iterator[Entry]:
    shown = list(range(FIRST)) if offending is None else sorted({*range(FIRST), offending})
    for step, gap in _with_gaps(shown, size):
        yield Entry(step=step, rest="   ", beside=graph.predecessors[step])
        if gap:
            yield Entry(step=None, skipped=gap)


def _with_gaps(shown: list[int], size: int) -> Iterable[tuple[int, int]]:
    """Yield each shown step with the number of steps that are omitted after it."""
    return [(step, after - step - 1) for step, after in zip(shown, [*shown[1:], size], strict=True)]


# --- case view ---


MOST_FINDINGS = 6
"""The number of findings that are shown besides the decisive one."""


def show_case(screen: Screen, case: Case, *, name: str) -> None:
    """Print a reviewed plan; `name` is its file."""
    show_frame(screen, case, "stdin" if name == STDIN else PurePath(name).name)
    screen.say()
    _show_plan(screen, case)
    screen.say()
    show_verdict(screen, case)


def show_frame(screen: Screen, case: Case, name: str) -> None:
    """Print the pack, the decision and the name of a plan."""
    compiled, spec, plan = case.compiled, case.spec, case.plan
    snapshot = f", snapshot {printable(compiled.snapshot, 80)}" if compiled.snapshot else ", no evidence"
    rows = {
        "pack": f"{printable(compiled.pack, 120)}{snapshot}",
        "decision": f"{printable(spec.id, 120)}, risk {spec.risk_tier}, safety mode {case.context.safety_mode}",
        "plan": f"{printable(name, 80)}, {count(len(plan.steps), 'step')}",
    }
    for label, text in rows.items():
        screen.put(text, first=f"{label:<10}")


def _show_plan(screen: Screen, case: Case) -> None:
    """Print the tree, each finding at its step; then the findings about the whole plan, or about steps not shown."""
    first, others, following = _findings(case.verdict, case)
    at_step: dict[int | None, list[Refusal]] = defaultdict(list)
    for refusal in others[:MOST_FINDINGS]:
        at_step[refusal.step].append(refusal)
    for entry in outline(graph.build(case.plan), None if first is None else first.step):
        if entry.step is None:
            screen.put(Text(f"… {count(entry.skipped, 'more step')}", style="dim"))
        else:
            _show_step(screen, case, entry, entry.step, first, at_step.pop(entry.step, []))
    if first is not None and first.step is None:
        screen.say()
        show_decisive(screen, first, "")
    for refusal in (refusal for left in at_step.values() for refusal in left):
        _show_finding(screen, refusal, "")
    _show_rest(screen, others, following)


_BY_MISSING_EVIDENCE = (
    Code.EVIDENCE_UNRESOLVED,
    Code.UNRESOLVED_REFERENCE,
    Code.ARGUMENT_INVALID,
    Code.ARGUMENT_NOT_PERMITTED,
    Code.POLICY_INVARIANT,
    Code.UNBOUND_ARGUMENT,
)


def _follows(refusal: Refusal, first: Refusal, case: Case) -> bool:
    """Return whether a refusal is only due to the missing evidence of the first one."""
    if first.code is not Code.EVIDENCE_UNRESOLVED:
        return False
    cause = _missing_evidence(case, first.step)
    if refusal.step is None:
        classes = [ref.classification for ref in map(parse_ref, cause) if ref]
        is_pinned = all(any(meets(each, c) for c in classes) for each in case.spec.required_evidence)
        return refusal.code is Code.EVIDENCE_NOT_PINNED and is_pinned
    missing = _missing_evidence(case, refusal.step)
    return refusal.code in _BY_MISSING_EVIDENCE and bool(missing) and missing <= cause


def _missing_evidence(case: Case, step: int | None) -> frozenset[str]:
    """Return the evidence that a step pins or reads and that the context does not have."""
    if step is None:
        return frozenset()
    return frozenset(ref for ref in pinned(case.reviewed.steps[step]) if ref not in case.compiled.evidence)


def _unrelated_evidence(case: Case) -> Iterator[str]:
    """Yield why evidence that the plan pins does not relate to the request."""
    review = Review(case.context, case.compiled, case.spec, case.reviewed)
    for index in range(len(case.reviewed.steps)) if case.spec.bind else ():
        yield from filter(None, (review.why_unrelated(ref, index) for ref in review.pinned[index]))


def _findings(verdict: Verdict, case: Case | None = None) -> tuple[Refusal | None, list[Refusal], int]:
    """Return the decisive refusal, the others without repetitions, and the number of those that only follow from it.

    A shared cause is printed once.
    """
    if not verdict.refusals:
        return None, [], 0
    first, *found = verdict.refusals
    others = [other for other in found if case is None or not _follows(other, first, case)]
    details = [source.detail for each in verdict.refusals for source in each.sources if source.detail]
    details += _unrelated_evidence(case) if case is not None else ()
    said = {(first.step, first.reason)}
    left: list[Refusal] = []
    for other in others:
        is_same = other.step is None and (other.code, other.remedy) == (first.code, first.remedy)
        if is_same or (other.step, other.reason) in said:
            continue
        told = [reason for _, reason in said]
        known = next(
            (
                each
                for each in details
                if other.reason.endswith(each) and any(each in reason for reason in told)
            ),
            "",
        )
        said.add((other.step, other.reason))
        if not known:
            left.append(other)
        elif other.sources:
            short = f"{other.reason.removesuffix(f': {known}')}, for the same reason"
            left.append(other.model_copy(update={"reason": short}))
    return first, left, len(found) - len(others)


def _show_step(
    screen: Screen, case: Case, entry: Entry, index: int, first: Refusal | None, others: Sequence[Refusal]
) -> None:
    step = case.plan.steps[index]
    is_offending = first is not None and first.step == index
    mark = _mark(ok=case.verdict.ok, is_offending=is_offending)
    line = Text.assemble(mark, headline(index, step, case.compiled))
    screen.put(line, first=entry.first, rest=f"{entry.rest}  ")
    beside = [case.plan.steps[before].id for before in entry.beside]
    demanded = [d.gate for d in case.verdict.gates if d.step == index] if case.verdict.ok else None
    for word, text in details(index, step, case.compiled, beside=beside, gates=demanded):
        screen.put(Text(text, style="dim"), first=f"{entry.rest}{word:<8}", rest=f"{entry.rest}{'':<8}")
    if first is not None and is_offending:
        show_decisive(screen, _with_similar_tool(first, step, case.compiled), entry.rest)
    for refusal in others:
        _show_finding(screen, refusal, entry.rest)


def _with_similar_tool(refusal: Refusal, step: Step, compiled: CompiledContext) -> Refusal:
    """Return the refusal as the screen shows it: for an unknown tool, the remedy begins with the most similar one."""
    if refusal.code is not Code.TOOL_NOT_SURFACED or step.tool is None:
        return refusal
    is_known = any(entry.kind == "tool" and entry.name == step.tool for entry in compiled.ledger)
    similar = None if is_known else did_you_mean(step.tool, compiled.surface)
    if similar is None:
        return refusal
    return refusal.model_copy(update={"remedy": f"{similar} Or {refusal.remedy}"})


def _mark(*, ok: bool, is_offending: bool) -> tuple[str, str]:
    if ok:
        return "✓ ", "green"
    return ("✗ ", "bold red") if is_offending else ("· ", "dim")


def show_decisive(screen: Screen, refusal: Refusal, rest: str) -> None:
    """Print the decisive refusal, with the source of the value and the remedy."""
    reason = refusal.reason
    for source in refusal.sources:
        # The source has a line of its own on the screen; the published reason ends with it.
        reason = reason.removesuffix(f": {source.detail}") if source.detail else reason
    screen.put(Text(f"✗ {printable(reason)}", style="bold red"), first=rest, rest=f"{rest}  ")
    for source in refusal.sources:
        origin = printable(source.detail or f"{source.came_from} is {source.trust}")
        screen.put(Text(origin), first=f"{rest}  source  ", rest=f"{rest}          ")
    if refusal.remedy:
        screen.put(Text(printable(refusal.remedy)), first=f"{rest}  remedy  ", rest=f"{rest}          ")


def _show_finding(screen: Screen, refusal: Refusal, rest: str) -> None:
    screen.put(Text(f"✗ also: {printable(refusal.reason)}", style="dim"), first=rest, rest=f"{rest}  ")


def show_refusals(screen: Screen, verdict: Verdict, case: Case | None = None) -> None:
    """Print the decisive refusal, and the first of the others; those that follow from it only with their number."""
    first, others, following = _findings(verdict, case)
    if first is not None:
        show_decisive(screen, first, "")
    for refusal in others[:MOST_FINDINGS]:
        _show_finding(screen, refusal, "")
    _show_rest(screen, others, following)


def _show_rest(screen: Screen, others: Sequence[Refusal], following: int) -> None:
    if following:
        more = f"… {count(following, 'more finding')} that {'follows' if following == 1 else 'follow'} from it; --json lists them"
        screen.put(Text(more, style="dim"))
    if len(others) > MOST_FINDINGS:
        more = f"… {count(len(others) - MOST_FINDINGS, 'more finding')}; --json lists them"
        screen.put(Text(more, style="dim"))


def show_plain_verdict(screen: Screen, verdict: Verdict) -> None:
    """Print the verdict of a service on a plan, without the plan: only the service has the pack."""
    show_refusals(screen, verdict)
    _show_verdict(screen, verdict, ())


def show_verdict(screen: Screen, case: Case) -> None:
    """Print whether a plan may run, and the gates that it waits for."""
    _show_verdict(screen, case.verdict, case.waits if case.verdict.ok else ())


def _show_verdict(screen: Screen, verdict: Verdict, waits: Sequence[Wait]) -> None:
    if verdict.ok:
        line = Text.assemble(("✓ verified: ", "bold green"), printable(reasons_text(verdict.reasons)))
        if verdict.gates:
            gates = listed([f"{demand.gate} at step {demand.step}" for demand in verdict.gates])
            line.append(f"; waits for {gates}")
        screen.say(line)
        if verdict.deferred:
            later = Text(f"decided at dispatch: {listed(verdict.deferred)}", style="dim")
            screen.put(later, first="  ", rest="    ")
        if verdict.unchecked:
            text = f"not checked without a request (--input): {listed(verdict.unchecked)}"
            screen.put(Text(text, style="yellow"), first="  ", rest="    ")
        for wait in waits:
            _show_wait(screen, wait)
    else:
        screen.say(Text.assemble(("✗ refused: ", "bold red"), printable(refusal_text(verdict))))
    screen.say(Text("  Nothing was run.", style="dim"))


def refusal_text(verdict: Verdict) -> str:
    """Return the kind of a refusal with its code and step; its reasons if it has no code, since no refusal was shown then."""
    if verdict.code is None:
        return join_parts((verdict.kind or "", reasons_text(verdict.reasons)), ": ")
    where = "" if verdict.offending_step is None else f" at step {verdict.offending_step}"
    return f"{verdict.kind} ({verdict.code}){where}"


def _show_wait(screen: Screen, wait: Wait) -> None:
    """Print one line for an approval: whether it is certain, the step, the gate and the reason."""
    word = "waits" if wait.is_certain else "may wait"
    where = "outputs" if wait.step is None else f"step {wait.step}"
    gate = printable(wait.gate, 120) if wait.gate else "anyone but the owner"
    line = Text(f"{where}, {gate}: {printable(wait.reason)}", style="dim")
    screen.put(line, first=f"  {word:<10}", rest="            ")


# --- one step ---


MODE_STYLES = {
    ApprovalMode.READ_ONLY: "green",
    ApprovalMode.LOCAL_WRITE: "cyan",
    ApprovalMode.NETWORK: "yellow",
    ApprovalMode.DELEGATED: "yellow",
    ApprovalMode.DESTRUCTIVE: "red",
}
LONGEST_VALUE = 72
ONE_LINE = 56
"""If the parameters are longer together, each gets its own line."""
MOST_PARAMETERS = 6


def headline(index: int, step: Step, compiled: CompiledContext) -> Text:
    """Return position, id (unless it repeats the position), tool and effective mode."""
    line = Text.assemble((f"{index}  ", "dim"), ("" if step.id == f"s{index}" else f"{step.id}  ", "bold"))
    if step.tool is None:
        return line.append(step.kind, style="dim")
    line.append(printable(step.tool, 80), style="bold")
    spec = compiled.surface.get(step.tool)
    if spec is None:
        return line.append("  not on the surface", style="red")
    mode = effective(index, step, spec).mode
    return line.append(f"  {mode}", style=MODE_STYLES[mode])


def details(
    index: int, step: Step, compiled: CompiledContext, *, beside: Sequence[str], gates: Sequence[str] | None
) -> Iterator[tuple[str, str]]:
    """Yield details of a step as pairs of a label and a text.

    `beside` are the steps it also waits for; `gates` are those that the critic demands, None if it did not get so far.
    """
    spec = compiled.surface.get(step.tool or "")
    call = effective(index, step, spec) if spec is not None else None
    params = step.params if call is None else call.params
    if params:
        yield "with", _parameters(params)
    if step.when is not None:
        yield "when", printable(step.when, 200)
    if beside:
        yield "after", listed(beside)
    if gates is None:
        gates = (step.gates or ()) if call is None else call.gates
    if gates:
        yield "gate", listed(gates)
    if step.evidence_refs:
        yield "pinned", listed(step.evidence_refs)


def _parameters(params: dict[str, Any]) -> str:
    pairs = [_parameter(name, value) for name, value in list(params.items())[:MOST_PARAMETERS]]
    if len(params) > MOST_PARAMETERS:
        pairs.append(f"… {len(params) - MOST_PARAMETERS} more")
    line = ", ".join(pairs)
    return line if len(line) <= ONE_LINE else "\n".join(pairs)


def _parameter(name: str, value: Any) -> str:
    shown = printable(name, 40)
    reference = references.as_reference(members) if (members := as_object(value)) else None
    if reference is None:
        return f"{shown} = {printable(json.dumps(value, ensure_ascii=False), LONGEST_VALUE)}"
    if reference.kind == "evidence" and (ref := parse_ref(reference.target)):
        return f"{shown} ← {printable(f'{ref.classification}:{ref.key}#{reference.pointer}', LONGEST_VALUE)}"
    return f"{shown} ← {printable(reference.text, LONGEST_VALUE)}"


# --- rules ---


MOST_RULES = 30
"""The number of rules that are shown; JSON has them all."""

_PHRASES = {
    "holds": "holds for {}",
    "refuses": "refuses {}",
    "waits": "{} waits",
    "grants": "approves {}",
    "later": "decided when {} runs",
    "applies": "checked for {}",
    "undecided": "not decided for {}",
}


def applied_rules(case: Case) -> RuleReport:
    """Return which rules apply to a reviewed plan."""
    return report_rules(case.context, case.compiled, case.spec, case.reviewed)


def rules_json(report: RuleReport) -> dict[str, Any]:
    """Return the rules and the warnings as JSON."""
    return {
        "rules": [use.model_dump(mode="json") for use in report.rules],
        "warnings": [
            {"code": "irreversible_before_gate", "step": e.step, "message": e.message, "remedy": e.remedy}
            for e in report.early_effects
        ],
    }


def show_rules(screen: Screen, report: RuleReport) -> None:
    """Print each rule with the steps that it applied to, or why it applied to none; rules that applied come first."""
    if not report.rules:
        return
    screen.say()
    screen.say(Text("rules", style="dim"))
    for use in sorted(report.rules, key=lambda use: not use.applied)[:MOST_RULES]:
        line = Text.assemble(_rule_mark(use), f"{use.kind} {printable(use.name, 80)}: {_rule_summary(use)}")
        screen.put(line, first="  ", rest="      ")
    if len(report.rules) > MOST_RULES:
        more = f"… {count(len(report.rules) - MOST_RULES, 'more rule')}; --json lists them"
        screen.put(Text(more, style="dim"), first="  ")


def show_warnings(screen: Screen, report: RuleReport) -> None:
    """Print the warnings about a plan that may run."""
    for early in report.early_effects:
        screen.put(Text(f"! {printable(early.message)}", style="yellow"), rest="  ")
        screen.put(Text(f"→ {printable(early.remedy)}", style="dim"), first="  ", rest="    ")


def _rule_mark(use: RuleUse) -> tuple[str, str]:
    if any(each.outcome == "refuses" for each in use.applied):
        return "✗ ", "bold red"
    if any(each.outcome == "undecided" for each in use.applied):
        return "? ", "yellow"
    return ("✓ ", "green") if use.applied else ("· ", "dim")


def _rule_summary(use: RuleUse) -> str:
    if not use.applied:
        return f"did not apply: {printable(use.not_applied)}"
    shown = "; ".join(map(_at_step, use.applied[:3]))
    more = len(use.applied) - 3
    return f"{shown}; and {count(more, 'more step')}" if more > 0 else shown


def _at_step(each: RuleAtStep) -> str:
    who = printable(each.step, 64) if each.step else "the plan"
    detail = f" ({printable(each.detail, 120)})" if each.detail and each.outcome != "holds" else ""
    return f"{_PHRASES[each.outcome].format(who)}{detail}"
