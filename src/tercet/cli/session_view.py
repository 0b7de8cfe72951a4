"""A session on the screen, from its frame to the next command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.text import Text

from tercet.cli.case import addressed
from tercet.cli.case_view import show_decisive
from tercet.cli.event_view import STYLES, Columns, view_line
from tercet.cli.gate_view import QUOTE, show_gate, undo_text
from tercet.cli.journals import Story
from tercet.cli.outline import outline
from tercet.cli.quality_view import show_quality
from tercet.cli.revision_view import show_revisions, timing_rows
from tercet.cli.screen import Screen
from tercet.cli.standing import Commands, left_over
from tercet.cli.text import ago, count, json_text, listed, printable, took
from tercet.contracts.plan import Plan, Step
from tercet.contracts.request import SIMULATED
from tercet.contracts.runs.record import RollbackResult, RollbackStatus
from tercet.contracts.shape import as_object
from tercet.contracts.steps import graph
from tercet.contracts.values.references import LITERAL
from tercet.contracts.verdict import Verdict
from tercet.core import events as e
from tercet.core.budget import budget_of
from tercet.core.plans import read_plan
from tercet.core.state import State, StepState
from tercet.core.transcript import timestamp
from tercet.view.events import describe_turn, scores
from tercet.view.words import (
    SKIPPED,
    STANDINGS,
    STEPS,
    Standing,
    answer_word,
    login_words,
    standing,
    step_text,
)


def standing_style(where: Standing) -> str:
    """Return how the word for where a session stands is printed."""
    return f"bold {STYLES[STANDINGS[where][0]]}"


def show_rows(screen: Screen, rows: Mapping[str, str]) -> None:
    """Prints labelled rows one below the other."""
    for label, text in rows.items():
        screen.put(text, first=f"{label:<10}")


def show_start(screen: Screen, event: e.SessionStarted) -> None:
    """Prints what a session was started with, its id first."""
    show_rows(
        screen,
        {
            "session": printable(event.session),
            "pack": f"{printable(event.pack, 120)}{_snapshot(event.snapshot, event.library)}",
            "decision": f"{printable(event.decision, 120)}, safety mode {event.safety_mode}",
        },
    )


def show_return(screen: Screen, state: State) -> None:
    """Prints which session is gone on with, and how far it is."""
    done = f"{len(state.done)} of {count(len(state.steps), 'step')} done"
    show_rows(screen, {"session": f"{printable(state.start.session)}, {done}"})


def show_session(
    screen: Screen, story: Story, commands: Commands, *, now: int, record: Any, carrier: str
) -> None:
    """Prints a session whole: its frame, its plan with how far each step is, what was said of it, and what to do."""
    state = story.state
    start = state.start
    owner = printable(start.actor["id"], 80)
    rows = {
        "session": f"{printable(start.session)}, {standing(state)}",
        "intent": f"{printable(start.request['intent'], 200)}, for {owner}",
        "pack": f"{printable(start.pack, 120)}{_snapshot(start.snapshot, start.library)}, safety mode {start.safety_mode}",
        "started": f"{timestamp(start.at)}, last event {ago(now - state.at)}",
        "used": _used(state),
    }
    if start.dev:
        acting = login_words("", start.actor.get("os_user", "") if start.actor["auth"] == SIMULATED else "")
        rows["people"] = f"simulated: a development session, started by {owner}{printable(acting, 120)}"
    show_rows(screen, rows)
    if state.plan:
        screen.say()
        if state.is_stepwise:
            show_turns(screen, story)
        else:
            _show_steps(screen, story)
            show_revisions(screen, story)
        show_quality(screen, story.events)
    told = timing_rows(story) | {label: text for label, text in _told(state, record) if text}
    if told:
        screen.say()
        show_rows(screen, told)
    screen.say()
    show_ending(screen, state, commands, now=now, rollback=story.rollback, is_shown=True, carrier=carrier)


def _snapshot(snapshot: str, library: str) -> str:
    """The evidence of a session: the pack's own, and that of a store."""
    own = f", snapshot {printable(snapshot, 80)}" if snapshot else ""
    stored = f", store at {printable(library, 80)}" if library else ""
    return f"{own}{stored}" or ", no evidence"


def _used(state: State) -> str:
    budget, used = budget_of(state), state.used
    parts = [
        f"{count(used.tool_calls, 'call')}{_of(budget.tool_calls)}",
        f"{took(used.wall_clock)}{'' if budget.wall_clock_ms is None else f' of {took(budget.wall_clock_ms)}'}",
        f"{count(used.tokens, 'token')}{_of(budget.tokens)}" if used.tokens or budget.tokens else "",
        f"{used.retries:,} {'retry' if used.retries == 1 else 'retries'}{_of(budget.max_retries)}",
        f"{count(used.replans, 're-plan')}{_of(budget.max_replans)}",
        f"{count(used.repairs, 'repair')}{_of(budget.max_repairs)}" if state.quality.drawn else "",
    ]
    return ", ".join(filter(None, parts))


def _of(limit: int | None) -> str:
    return "" if limit is None else f" of {limit:,}"


def _show_steps(screen: Screen, story: Story) -> None:
    state = story.state
    plan = Plan.model_validate(state.plan)
    tools, latencies = Columns.of(state.plan).tools, story.latencies
    for entry in outline(graph.build(plan), None):
        if entry.step is None:
            screen.put(Text(f"… {count(entry.skipped, 'more step')}", style="dim"))
            continue
        name = plan.steps[entry.step].id
        step = state.steps[name]
        mark, tone, _ = STEPS[step.status]
        style = STYLES[tone]
        line = Text.assemble((f"{mark} ", style), (f"{printable(name)}  ", "bold"), tools[name])
        told = (
            "never called"
            if state.is_over and step.status == "gated"
            else _progress(step, latencies.get(name))
        )
        line.append(f"  {told}", style="dim" if style != "red" else "red")
        screen.put(line, first=entry.first, rest=f"{entry.rest}  ")
    for undo in state.undo:
        _show_undo(screen, undo, state.steps.get(undo.name))


def _show_undo(screen: Screen, undo: e.Undo, step: StepState | None) -> None:
    """Prints the way back from a step, and how far it is."""
    if step is None:
        screen.put(undo_text(msgspec.to_builtins(undo)), rest="  ")
        return
    mark, tone, _ = STEPS[step.status]
    name, tool = printable(step_text(undo.name)), printable(undo.tool, 80)
    told = {"done": "taken back", "pending": ""}.get(step.status, _progress(step, None))
    screen.put(
        Text.assemble((f"{mark} ", STYLES[tone]), (f"{name}  ", "bold"), tool, (f"  {told}", "dim")),
        rest="  ",
    )


def _progress(step: StepState, latency: int | None) -> str:
    again = f", attempt {step.attempt}" if step.attempt > 1 else ""
    match step.status:
        case "done":
            return f"{'' if latency is None else took(latency)}{again}".lstrip(", ")
        case "failed":
            return f"failed{again}: {printable(step.error, 300)}"
        case "unknown":
            return f"outcome unknown{again}: {printable(step.error, 300)}"
        case "gated":
            return f"waits at gate {step.gate.rpartition('.')[2]}"
        case "in_flight":
            return f"under way{again}"
        case "skipped":
            return f"skipped: {SKIPPED[step.error]}" if step.error in SKIPPED else "skipped"
        case "pending":
            return ""


def _told(state: State, record: Any) -> Iterator[tuple[str, str]]:
    """What was said about a session, by whom."""
    verdict = state.verdict
    yield "review", f"{verdict['outcome']}: {_reasons(verdict)}" if verdict else ""
    yield (
        "shadow",
        "nothing is called: the run ends once its plan was reviewed" if state.start.shadow else "",
    )
    answers = [
        f"{a.gate.rpartition('.')[2] or a.step} {answer_word(a)} by {a.actor}{login_words(a.login, a.simulated_by)}{f' ({a.note})' if a.note else ''}"
        for a in state.answers
    ]
    yield "answers", listed(answers, most=20)
    yield "critic", f"{printable(state.report['rationale'])} ({scores(state.report)})" if state.report else ""
    if record is not None:
        parts = [
            count(len(record["transcript"]), "call"),
            count(len(_approved(record["approvals"])), "approval"),
            count(len(record["evidence_refs"]), "fact") + " pinned",
        ]
        yield "record", f"{state.record}\n{', '.join(parts)}"


def _reasons(verdict: Mapping[str, Any]) -> str:
    return printable("; ".join(verdict.get("reasons", ())))


def show_ending(
    screen: Screen,
    state: State,
    commands: Commands,
    *,
    now: int,
    rollback: RollbackResult | None = None,
    is_shown: bool = False,
    carrier: str = "a process has it, or none: then resume it",
    evidence: Sequence[str] = (),
) -> None:
    """Prints where a session stands and why, and the commands that may come next.

    `is_shown` says that the whole session stands above, so that nobody need be told how to look at it.
    `carrier` says which process has it, while it is in progress.
    `evidence` is what whoever typed the input could have asked for, by its ids.
    """
    where = standing(state)
    style = standing_style(where)
    reason = printable(state.reason)
    match where:
        case "completed":
            partial = " as partial" if state.partial else ""
            shadow = ": only rehearsed, nothing was called" if state.start.shadow else ""
            work = shadow or f" in {took(state.used.wall_clock)}: {count(len(state.done), 'step')} done"
            screen.say(Text.assemble((f"✓ completed{partial}", style), work))
            _show_outputs(screen, state)
        case "refused":
            _show_refusal(screen, state, evidence)
        case "failed" | "rejected" | "expired" | "cancelled":
            screen.say(Text.assemble((f"✗ {where}", style), f": {reason}" if reason else ""))
        case "escalated":
            screen.say(Text.assemble(("✗ escalated: ", style), printable(state.escalation or "")))
        case "paused":
            screen.say(Text.assemble(("· paused: ", style), reason))
        case "ending":
            screen.say(Text.assemble((f"· ending {state.ending}: ", style), reason))
        case "waiting":
            for gate in state.gates.values():
                show_gate(screen, gate, owner=state.start.actor["id"], now=now)
        case "in progress":
            screen.say(Text.assemble(("▸ in progress: ", style), carrier))
    _show_rollback(screen, state, rollback)
    if left_over(rollback) or not (is_shown and state.is_over):
        _show_next(screen, state, commands, rollback)


def _show_rollback(screen: Screen, state: State, rollback: RollbackResult | None) -> None:
    """Prints what became of the effects of a run that is over without success."""
    if not state.is_over:
        return
    is_decided = state.start.on_failure == "keep" or any(a.answer == "keep" for a in state.answers)
    if state.saga == "kept" and is_decided:  # without an effect, nothing was to be decided
        screen.say("  What it did was kept.")
    for entry in rollback.log if rollback is not None else ():
        name = printable(entry.step_id, 80)
        if entry.status is RollbackStatus.COMPENSATED:
            screen.say(Text.assemble(("  ✓ ", "green"), f"{name} was taken back"))
        else:
            why = printable("; ".join(filter(None, [entry.error, entry.note])))
            settled = f", settled by {printable(entry.settled_by, 80)}" if entry.settled_by else ""
            mark = ("  · ", "dim") if settled else ("  ✗ ", "red")
            screen.say(Text.assemble(mark, f"{name} was not taken back{settled}: {why}"))


def _show_outputs(screen: Screen, state: State) -> None:
    width = max(map(len, state.outputs), default=0)
    for name, value in state.outputs.items():
        title = f"  {printable(name, 80):<{width}}  "
        if isinstance(value, str) and "\n" in value.strip():
            screen.say(title.rstrip())
            lines = value.strip().split("\n")
            for line in lines[:_MOST_LINES]:
                screen.put(printable(line, 400), first=f"    {QUOTE}")
            if len(lines) > _MOST_LINES:
                screen.say(f"    … {count(len(lines) - _MOST_LINES, 'line')} more")
        else:
            screen.put(printable(json.dumps(value, ensure_ascii=False), 400), first=title)


def _show_refusal(screen: Screen, state: State, evidence: Sequence[str]) -> None:
    verdict = Verdict.model_validate(state.verdict)
    if evidence:
        verdict = addressed(verdict, evidence)
    for refusal in verdict.refusals[:1]:
        show_decisive(screen, refusal, "  ")
    where = "" if verdict.offending_step is None else f" at step {verdict.offending_step}"
    why = f"{verdict.kind} ({verdict.code}){where}" if verdict.kind else _reasons(state.verdict)
    screen.say(Text.assemble(("✗ refused by the critic: ", "bold red"), why))
    if not state.done:
        screen.say(Text("  Nothing was run.", style="dim"))


_MOST_LINES = 60
_INVITATIONS: dict[Standing, str] = {
    "waiting": "Look, answer, and then resume:",
    "paused": "Go on with:",
    "escalated": "Look, and decide how it goes on; to try again as it stands, resume:",
    "ending": "It comes to its end when somebody resumes it:",
    "in progress": "Go on with:",
}


def _show_next(screen: Screen, state: State, commands: Commands, rollback: RollbackResult | None) -> None:
    lines = commands.after(state, rollback)
    if not lines:
        screen.say(Text("  The journal was in memory: nothing is left of this session.", style="dim"))
        return
    invitation = _INVITATIONS.get(standing(state), "Look at it with:")
    if left_over(rollback):
        invitation = "When you have dealt with what is left, say so:"
    screen.offer(f"  {invitation}", *lines)


def _approved(answers: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Who approved which step: a record also holds what people denied or took back, and one answer for each gate."""
    return {(a["approver"], a["step_id"]) for a in answers if a["decision"] in ("approve", "grant")}


# --- turns of an agent ---


_MOST_TURNS = 40
"""How many turns are shown, the last ones; `--json` has all of them."""


def show_turns(screen: Screen, story: Story) -> None:
    """Prints what the agent decided in each turn, and what its critics made of that."""
    lines = [line for event in story.events for line in _turn_lines(event)]
    hidden = max(0, len(lines) - 2 * _MOST_TURNS)
    if hidden:
        screen.say(f"· {hidden} earlier lines are left out")
    for line in lines[hidden:]:
        screen.put(line, first="")


def _turn_lines(event: e.Event) -> list[Text]:
    match event:
        case e.PlanProposed():
            return [Text(f"▸ {_decided(step)}") for step in read_plan(event.plan).steps]
        case e.PlanReviewed() if event.verdict.get("outcome") != "ok":
            return [Text(f"  ✗ refused: {_reasons(event.verdict)}", style="red")]
        case e.TurnJudged():
            return [Text("  ") + view_line(describe_turn(event))]
        case _:
            return []


def _decided(step: Step) -> str:
    said = {name: _literal(value) for name, value in step.params.items()}
    what, value = ("answers", said.get("final_answer")) if step.tool is None else (step.tool, said)
    return f"{step.id}  {printable(what, 120)} {printable(json_text(value, indent=None), 300)}"


def _literal(value: Any) -> Any:
    fields = as_object(value)
    return value if fields is None else fields.get(LITERAL, value)
