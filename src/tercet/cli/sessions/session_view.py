"""A session on the screen."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.text import Text

from tercet.cli.journals import RecordedSession
from tercet.cli.run.case_view import outline, refusal_text, show_decisive
from tercet.cli.run.review import verdict_for_input
from tercet.cli.screen import Screen
from tercet.cli.sessions.next_commands import Commands, is_ending_after_answer, unserved_text, unsettled_steps
from tercet.cli.sessions.session_json import show_revisions, timing_rows
from tercet.contracts.control import StopReason
from tercet.contracts.plan import Plan, Step
from tercet.contracts.request import SIMULATED
from tercet.contracts.runs.saga import RollbackResult
from tercet.contracts.shape import as_object
from tercet.contracts.steps import graph
from tercet.contracts.values.references import LITERAL
from tercet.contracts.verdict import Verdict
from tercet.core import events as e
from tercet.core.plans import read_plan
from tercet.core.state import State, StepState
from tercet.core.transcript import timestamp
from tercet.view.events import describe_turn, scores
from tercet.view.plan import compensation_status, progress_text
from tercet.view.questions import AskedName, asked_names, consequences
from tercet.view.session import CallRefusal, answer_lines, budget_use, compensated_steps, count_run
from tercet.view.terminal.gate import QUOTE, show_consequences, show_gate, undo_text
from tercet.view.terminal.outputs import STYLES, Columns, line_text, show_quality
from tercet.view.terminal.text import ago, count, duration_text, json_text, listed, printable
from tercet.view.text import reasons_text
from tercet.view.vocabulary import MARKS, STANDINGS, STEPS, Standing, login_words, standing, step_text


def standing_style(where: Standing) -> str:
    """Return the style of a status."""
    return f"bold {STYLES[STANDINGS[where][0]]}"


def show_rows(screen: Screen, rows: Mapping[str, str]) -> None:
    """Print labelled rows one below the other."""
    for label, text in rows.items():
        begin = f"{label:<10}"
        for line in text.split("\n"):
            if line.startswith("sha256:"):
                screen.print(Text.assemble((begin, "dim"), line), soft_wrap=True)  # whole, to be copied
            else:
                screen.put(line, first=begin)
            begin = " " * 10


def show_start(screen: Screen, event: e.SessionStarted) -> None:
    """Print the start of a session, its id first."""
    show_rows(
        screen,
        {
            "session": printable(event.session),
            "pack": f"{printable(event.pack, 120)}{_snapshot(event.snapshot, event.library)}",
            "decision": f"{printable(event.decision, 120)}, safety mode {event.safety_mode}",
        },
    )


def show_resumed(screen: Screen, state: State) -> None:
    """Print the session that is resumed, and its progress."""
    show_rows(screen, {"session": f"{printable(state.start.session)}, {count_run(state, ()).steps_text}"})


def show_session(
    screen: Screen, recorded: RecordedSession, commands: Commands, *, now: int, record: Any, holder: str
) -> None:
    """Print a session: its request, plan, steps, verdicts, answers, and the next commands."""
    state = recorded.state
    start = state.start
    owner = printable(start.actor["id"], 80)
    rows = {
        "session": f"{printable(start.session)}, {standing(state)}",
        "intent": f"{printable(start.request['intent'], 200)}, for {owner}",
        "pack": f"{printable(start.pack, 120)}{_snapshot(start.snapshot, start.library)}, safety mode {start.safety_mode}",
        "started": f"{timestamp(start.at)}, last event {ago(now - state.at)}",
        "used": _used(state),
    }
    if start.lane:
        rows["lane"] = (
            f"{printable(start.lane['name'])}, started by step {printable(start.lane['step'])} of {start.lane['parent']}"
        )
    if start.dev:
        acting = login_words("", start.actor.get("os_user", "") if start.actor["auth"] == SIMULATED else "")
        rows["people"] = f"simulated: a development session, started by {owner}{printable(acting, 120)}"
    show_rows(screen, rows)
    if state.plan:
        screen.say()
        if state.is_stepwise:
            show_turns(screen, recorded)
        else:
            _show_steps(screen, recorded)
            show_revisions(screen, recorded)
        show_quality(screen, recorded.events, state)
    rows = timing_rows(recorded) | {label: text for label, text in _verdict_rows(recorded, record) if text}
    if rows:
        screen.say()
        show_rows(screen, rows)
    screen.say()
    show_ending(
        screen,
        state,
        commands,
        now=now,
        rollback=recorded.rollback,
        refusal=recorded.refusal,
        is_shown=True,
        holder=holder,
        asked=recorded.asked,
    )


def _snapshot(snapshot: str, library: str) -> str:
    """Return the evidence snapshots of a session: the pack's and a store's."""
    own = f", snapshot {printable(snapshot, 80)}" if snapshot else ""
    stored = f", store at {printable(library, 80)}" if library else ""
    return f"{own}{stored}" or ", no evidence"


_USED = ("tool_calls", "wall_clock_ms", "tokens", "retries", "replans", "repairs")
"""The dimensions of the budget that are shown, in one line."""


def _used(state: State) -> str:
    uses = {use.name: use for use in budget_use(state)}
    shown = [uses[name] for name in _USED if name in uses]
    return ", ".join(use.text for use in shown if use.name != "tokens" or use.used or use.limit)


def _show_steps(screen: Screen, recorded: RecordedSession) -> None:
    state = recorded.state
    plan = Plan.model_validate(state.plan)
    tools, latencies = Columns.of(state.plan).tools, recorded.latencies
    for entry in outline(graph.build(plan), None):
        if entry.step is None:
            screen.put(Text(f"… {count(entry.skipped, 'more step')}", style="dim"))
            continue
        planned = plan.steps[entry.step]
        name = planned.id
        step = state.steps[name]
        mark, tone, _ = STEPS[step.status]
        style = STYLES[tone]
        line = Text.assemble((f"{mark} ", style), (f"{printable(name)}  ", "bold"), tools[name])
        progress = progress_text(step, latencies.get(name), is_over=state.is_over, when=planned.when)
        line.append(f"  {printable(progress, 400)}", style="dim" if style != "red" else "red")
        screen.put(line, first=entry.first, rest=f"{entry.rest}  ")
    for undo in state.undo:
        _show_undo(screen, undo, state.steps.get(undo.name))


def _show_undo(screen: Screen, undo: e.Undo, step: StepState | None) -> None:
    """Print the compensation of a step, and its progress."""
    if step is None:
        screen.put(undo_text(msgspec.to_builtins(undo)), rest="  ")
        return
    mark, tone, _ = compensation_status(step)
    name, tool = printable(step_text(undo.name)), printable(undo.tool, 80)
    progress = "compensated" if step.status == "done" else progress_text(step, None, is_over=False)
    screen.put(
        Text.assemble(
            (f"{mark} ", STYLES[tone]),
            (f"{name}  ", "bold"),
            tool,
            (f"  {printable(progress, 400)}", "red" if tone == "bad" else "dim"),
        ),
        rest="  ",
    )


def _verdict_rows(recorded: RecordedSession, record: Any) -> Iterator[tuple[str, str]]:
    """Yield the verdicts and answers about a session, and the numbers of its record."""
    state, verdict = recorded.state, recorded.state.verdict
    yield "review", f"{verdict['outcome']}: {_reasons(verdict)}" if verdict else ""
    yield (
        "shadow",
        "no tool is called: the run ends after the review of its plan" if state.start.shadow else "",
    )
    yield "answers", listed([line.text for line in answer_lines(state)], most=20)
    yield "critic", f"{printable(state.report['rationale'])} ({scores(state.report)})" if state.report else ""
    if record is not None:
        yield "record", f"{state.record}\n{count_run(state, recorded.events).record_text}"


def _reasons(verdict: Mapping[str, Any]) -> str:
    return printable(reasons_text(verdict.get("reasons", ())))


def show_ending(
    screen: Screen,
    state: State,
    commands: Commands,
    *,
    now: int,
    rollback: RollbackResult | None = None,
    refusal: CallRefusal | None = None,
    is_shown: bool = False,
    holder: str = "a process may be running it; if not, resume it",
    evidence: Sequence[str] = (),
    asked: Mapping[str, Sequence[AskedName]] | None = None,
) -> None:
    """Print the status of a session with its reason, and the next commands.

    `is_shown`: the session is printed above, so the command that shows it is left out.
    `holder`: the process that runs it, while it is in progress.
    `refusal`: the call that was refused at dispatch, with the remedy of its policy.
    `evidence`: the ids of the evidence that the input could have named.
    `asked`: why people are asked, by gate.
    """
    where = standing(state)
    style = standing_style(where)
    reason = printable(refusal.text if refusal else state.reason)
    match where:
        case "completed":
            partial = " as partial" if state.partial else ""
            shadow = ": rehearsed, no tool was called" if state.start.shadow else ""
            work = (
                shadow
                or f" in {duration_text(state.used.wall_clock)} of work: {count_run(state, ()).steps_text}"
            )
            screen.say(Text.assemble((f"✓ completed{partial}", style), work))
            _show_outputs(screen, state)
        case "refused":
            _show_refusal(screen, state, evidence)
        case "failed" | "rejected" | "expired" | "cancelled":
            screen.say(Text.assemble((f"✗ {where}", style), f": {reason}" if reason else ""))
        case "escalated":
            screen.say(
                Text.assemble(
                    ("✗ escalated: ", style), printable(refusal.text if refusal else state.escalation or "")
                )
            )
            for gate in state.gates.values():
                show_consequences(screen, consequences(gate, state))
        case "paused":
            screen.say(Text.assemble(("· paused: ", style), reason))
        case "ending":
            screen.say(Text.assemble((f"· ending {state.ending}: ", style), reason))
        case "waiting":
            _show_gates(screen, state, style, now, asked or {})
        case "in progress":
            screen.say(Text.assemble(("▸ in progress: ", style), holder))
    if remedy := refusal.remedy if refusal else _remedy(state):
        screen.put(printable(remedy, 600), first="  → ")
    _show_rollback(screen, state, rollback)
    if unsettled_steps(rollback) or not (is_shown and state.is_over):
        _show_next(screen, state, commands, rollback)


def _show_gates(
    screen: Screen, state: State, style: str, now: int, asked: Mapping[str, Sequence[AskedName]]
) -> None:
    """Print the gates that a session waits at, after the decision about its end if there is one already."""
    if is_ending_after_answer(state):
        left = f"{printable(state.reason)}; it ends once {listed(list(state.gates))} is answered"
        screen.put(Text.assemble((f"· ending {state.ending}: ", style), left))
    for gate in state.gates.values():
        why = asked[gate.id] if gate.id in asked else asked_names(gate, state)
        show_gate(screen, gate, state, asked=why, now=now)


def _remedy(state: State) -> str:
    """Return what to do about a run that went through all of its phases; empty for any other."""
    if state.reason != StopReason.ITERATIONS:
        return ""
    phases = count(state.iterations, "phase")
    return f"it went through {phases}: raise budget.max_iterations in pack.toml, or ask for less in one run"


def _show_rollback(screen: Screen, state: State, rollback: RollbackResult | None) -> None:
    """Print whether the effects of an unsuccessful run were compensated."""
    if not state.is_over:
        return
    is_decided = state.start.on_failure == "keep" or any(a.answer == "keep" for a in state.answers)
    if state.saga == "kept" and is_decided:  # without effects there was nothing to decide
        screen.say("  Its effects were kept.")
    for each in compensated_steps(rollback):
        mark = (f"  {MARKS[each.tone]} ", STYLES[each.tone])
        note = f": {printable(each.note)}" if each.note or each.tone != "good" else ""
        screen.say(Text.assemble(mark, f"{printable(each.step, 80)} was {printable(each.text, 120)}{note}"))


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
        verdict = verdict_for_input(verdict, evidence)
    for refusal in verdict.refusals[:1]:
        show_decisive(screen, refusal, "  ")
    screen.say(Text.assemble(("✗ refused by the critic: ", "bold red"), printable(refusal_text(verdict))))
    if not state.done:
        screen.say(Text("  Nothing was run.", style="dim"))


_MOST_LINES = 60
_INVITATIONS: dict[Standing, str] = {
    "waiting": "Show the gate, answer it, then resume:",
    "paused": "Continue with:",
    "escalated": "Show the gate and decide; to try again unchanged, resume:",
    "ending": "It ends once it is resumed:",
    "in progress": "Continue with:",
}
_REMOTE_INVITATIONS: dict[Standing, str] = {
    "waiting": "Show the gate, answer it, and follow the run:",
    "ending": "The service ends it. Follow it with:",
    "in progress": "The service runs it. Follow it with:",
}


def _show_next(screen: Screen, state: State, commands: Commands, rollback: RollbackResult | None) -> None:
    lines = commands.after(state, rollback)
    if not lines:
        screen.say(Text("  The journal was in memory, so the session is gone.", style="dim"))
        return
    where = standing(state)
    invitation = _INVITATIONS.get(where, "Show it with:")
    if any(gate.kind == "reconcile" for gate in state.gates.values()):
        invitation = "Find out in the system that the call went to, report it, then resume:"
    if commands.is_remote:
        invitation = _REMOTE_INVITATIONS.get(where, invitation)
    if commands.unserved and not state.is_over:
        invitation = unserved_text(commands.unserved)
    if state.is_over and unsettled_steps(rollback):
        invitation = "When you have dealt with the remaining effects, record that:"
    screen.offer(f"  {invitation}", *lines)


# --- turns of an agent ---


_MOST_TURNS = 40
"""The number of last turns that are shown; `--json` has all of them."""


def show_turns(screen: Screen, recorded: RecordedSession) -> None:
    """Print the agent's decision of each turn, and the verdicts of its critics."""
    lines = [line for event in recorded.events for line in _turn_lines(event)]
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
            return [Text("  ") + line_text(describe_turn(event))]
        case _:
            return []


def _decided(step: Step) -> str:
    said = {name: _literal(value) for name, value in step.params.items()}
    what, value = ("answers", said.get("final_answer")) if step.tool is None else (step.tool, said)
    return f"{step.id}  {printable(what, 120)} {printable(json_text(value, indent=None), 300)}"


def _literal(value: Any) -> Any:
    fields = as_object(value)
    return value if fields is None else fields.get(LITERAL, value)
