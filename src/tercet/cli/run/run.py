"""`tercet run`, `tercet sessions resume` and `migrate`: running a session in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec

from tercet.cli import ExitCode
from tercet.cli.inputs import (
    load_checked_pack,
    load_pack,
    read_amounts,
    read_duration,
    read_input,
    read_plan,
    reject_template,
)
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, SessionId, StoreUrl, use_journal
from tercet.cli.options import (
    AsJson,
    Intent,
    PackFolder,
    RequestInput,
    SafetyMode,
    SnapshotName,
    flag,
    option,
    takes,
)
from tercet.cli.remote import acting_as, demand_intent, pack_name, refuse_options
from tercet.cli.run.progress import NoProgress, Progress
from tercet.cli.run.runner import (
    Call,
    Foreground,
    SampleRate,
    TelemetryWords,
    run_at_service,
    settings_of,
    show_result,
)
from tercet.cli.screen import Screen, print_json
from tercet.cli.server_option import is_service
from tercet.cli.sessions.next_commands import EXIT_CODES, Commands, recorded_folder
from tercet.cli.sessions.people import (
    ActAs,
    Dev,
    actors_of,
    local_actor,
    require_local_journal,
    starting_actor,
)
from tercet.cli.sessions.session_json import as_json as session_json
from tercet.contracts.errors import UsageError
from tercet.contracts.request import Request
from tercet.contracts.runs.trace_context import read_traceparent
from tercet.core.plans import dump_plan
from tercet.engine.models.planners import PlannerName
from tercet.engine.session_reader import load_state
from tercet.executor.clock import SystemClock
from tercet.observe.settings import DEFAULT_RATE
from tercet.packs import Pack
from tercet.runtime import RunResult, Runtime
from tercet.view.terminal.text import printable
from tercet.view.vocabulary import standing

if TYPE_CHECKING:
    from tercet.service.client import AsyncClient

_SET_THERE = "the service was started with its own"


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a command that runs a session: its observers, and the places of its facts and events."""

    telemetry: TelemetryWords = None
    sample: SampleRate = DEFAULT_RATE
    store: StoreUrl = ""
    journal: JournalUrl = DEFAULT
    as_json: AsJson = False

    def run_at_service(
        self, call: Call, *, refused: Mapping[str, object], act_as: str = "", resumed: str = ""
    ) -> ExitCode:
        """Let a service run the session; raises `UsageError` for an option that only this machine could use."""
        here = {**refused, "--telemetry": self.telemetry, "--store": self.store}
        refuse_options(self.journal, here, _SET_THERE)
        return run_at_service(self.journal, call, as_json=self.as_json, act_as=act_as, resumed=resumed)

    def run(
        self,
        loaded: Pack,
        folder: Path,
        act: Callable[[Runtime], Awaitable[RunResult]],
        *,
        is_new: bool = False,
        evidence: Sequence[str] = (),
    ) -> ExitCode:
        """Run a session in this process and show the result; `evidence` are ids that the input could have named."""
        observed = settings_of(self.telemetry, self.sample)
        commands = Commands(journal=self.journal, pack=str(folder), actors=actors_of(folder))
        screen = Screen()
        progress = NoProgress() if self.as_json else Progress(screen, SystemClock())
        foreground = Foreground(loaded, progress, commands, store=self.store, telemetry=observed)
        recorded = foreground.run(act, is_new=is_new)
        if self.as_json:
            print_json(session_json(recorded, commands) | foreground.telemetry_json)
        else:
            session = printable(recorded.state.start.session)
            sent = f"this request was sent before, as session {session}"
            unchanged = sent if is_new else f"session {session} is over: nothing was done"
            show_result(screen, recorded, commands, progress, unchanged=unchanged, evidence=evidence)
        return EXIT_CODES[standing(recorded.state)]


RESUME_EXAMPLES = """\
tercet sessions resume ses_0123456789abcdef
tercet sessions resume ses_0123456789abcdef --pack examples/refunds
tercet sessions resume ses_0123456789abcdef --pack examples/refunds --extend tool_calls=10
"""
MIGRATE_EXAMPLES = "tercet sessions migrate ses_0123456789abcdef --pack examples/refunds\n"


@takes(SessionOptions)
def resume(
    session: SessionId,
    *,
    pack: Annotated[
        Path | None,
        option("PACK", "The folder of the session's pack: by default the one from which it was started."),
    ] = None,
    extend: Annotated[
        list[str] | None,
        option(
            "NAME=N",
            "First add to its budget: tokens, tool_calls, cost_microcents or wall_clock_ms; may be given several times.",
        ),
    ] = None,
    options: SessionOptions,
) -> ExitCode:
    """Continue a session that was paused, answered or interrupted.

    Completed steps are not repeated. If a dead process still holds the lease on the session, this waits until the
    lease expires, and says for how long; a process that is alive is left alone. A session that is over is shown
    unchanged. A session that is pinned to another pack or snapshot is refused: move it with `tercet sessions
    migrate`, or end it with `tercet sessions cancel`. Exits as `tercet run` does.
    """
    more = read_amounts(extend) if extend else None
    if is_service(options.journal):

        async def call(client: AsyncClient) -> str:
            if more:
                await client.call("extendBudget", {"session_id": session, "more": more})
            return (await client.resume(session)).id

        return options.run_at_service(call, refused={"--pack": pack}, resumed=session)
    folder = pack if pack is not None else _pack_of(session, options.journal)
    loaded = load_pack(folder)
    actor = local_actor(loaded)
    return options.run(loaded, folder, lambda runtime: runtime.resume(session, extend=more, actor=actor))


def _pack_of(session: str, url: str) -> Path:
    """Return the recorded folder of a session's pack; raises `UsageError` if it is unknown."""
    state = use_journal(url, lambda journal: load_state(journal, TENANT, session))
    if folder := recorded_folder(state):
        return Path(folder)
    if state.is_stepwise:
        raise UsageError(
            f"session {session} belongs to the agent {state.start.planner}, which decides step by step",
            code="agent_session",
            remedy=f"resume it in Python: await engine.resume({session!r})",
        )
    raise UsageError(
        f"the folder of {state.start.pack}, the pack of session {session}, is not recorded or no longer exists",
        code="pack_unknown",
        remedy="name the folder with --pack",
    )


@takes(SessionOptions)
def migrate(
    session: SessionId,
    *,
    pack: Annotated[
        Path | None,
        option(
            "PACK",
            "The folder of the pack to move it to; not with --server, which uses the pack that it serves.",
        ),
    ] = None,
    options: SessionOptions,
) -> ExitCode:
    """Move a session to this pack and the current rules.

    The session continues with the pack's newest snapshot. Its plan is reviewed again, earlier approvals are void, and
    completed steps are not repeated. Exits as `tercet run` does.
    """
    if is_service(options.journal):

        async def call(client: AsyncClient) -> str:
            await client.call("migrateSession", {"session_id": session})
            return session

        return options.run_at_service(call, refused={"--pack": pack}, resumed=session)
    if pack is None:
        raise UsageError("migrate needs --pack", remedy="name the folder of the pack to move it to")
    loaded = load_checked_pack(pack)
    actor = local_actor(loaded)
    return options.run(loaded, pack, lambda runtime: runtime.migrate(session, actor=actor))


RUN_EXAMPLES = """\
tercet run examples/refunds --intent support.refund --input '{"order_id": "ord_881", "window_id": "rw_881"}'  # waits at a gate: exit 4
tercet run examples/refunds --plan examples/refunds/plans/plan_a.json  # refused: exit 3
tercet run examples/refunds --plan examples/refunds/plans/plan_b.json --input '{"order_id": "ord_881"}' --shadow
tercet run examples/refunds --input '{"order_id": "ord_881", "window_id": "rw_881"}' --dev --as agt_support  # one person tries all of it: exit 4
"""

Planner: TypeAlias = Annotated[
    PlannerName | None,
    option(
        "PLANNER",
        "The planner, one of template, htn, model and local: by default the pack's template for the intent, else its methods, else its models.",
    ),
]
Models: TypeAlias = Annotated[
    list[str] | None,
    option(
        "MODEL",
        "The language model that plans, such as openai:gpt-5 or local; further ones are asked if the first does not answer. By default the pack's.",
    ),
]


PlanFile: TypeAlias = Annotated[
    str | None,
    option(
        "PLAN", "A plan's JSON file, or - for stdin: by default the one that the pack's planner proposes."
    ),
]
Shadow: TypeAlias = Annotated[
    bool, flag("Only rehearse: the plan is reviewed and recorded, and no tool is called.", "--shadow")
]
RequestKey: TypeAlias = Annotated[
    str | None,
    option(
        "KEY",
        "Idempotency key of this request, per actor and pack: the same request with the same key continues its session; another request with the same key is refused.",
    ),
]
TimeToLive: TypeAlias = Annotated[
    str | None,
    option(
        "DURATION",
        "The time to live of the session, waiting included, such as 90d, 12h or 30m: by default the pack's.",
    ),
]
TraceParent: TypeAlias = Annotated[
    str,
    option("HEADER", "A W3C traceparent header: the run becomes part of that trace.", show_default=False),
]


@takes(SessionOptions)
def run(
    pack: PackFolder,
    *,
    intent: Intent = None,
    input_: RequestInput = None,
    plan: PlanFile = None,
    planner: Planner = None,
    model: Models = None,
    snapshot: SnapshotName = None,
    safety_mode: SafetyMode = None,
    shadow: Shadow = False,
    request_key: RequestKey = None,
    ttl: TimeToLive = None,
    traceparent: TraceParent = "",
    as_: ActAs = "",
    dev: Dev = False,
    options: SessionOptions,
) -> ExitCode:
    """Run a request: plan it, review the plan, call its tools.

    The critic reviews the plan before any tool is called, and the results afterwards. Every step is written to the
    journal before and after it happens, so a run that stops for any reason continues where it was with `tercet
    sessions resume`. A pack with errors that `tercet check` finds is not run. A call that needs an approval opens a gate; the run then exits with 4 and waits for an answer by
    `tercet gates`. Ctrl-C and SIGTERM pause the run; a second one ends the process at once.

    Exits with 0 if the run completed, 3 if the critic refused its plan, 4 if it waits at a gate or was paused, and 5
    if it failed, was escalated, rejected, cancelled or expired, or if the journal could not be written.
    """
    ttl_ms = None if ttl is None else read_duration(ttl)
    given = None if plan is None else read_plan(plan)
    if plan is not None and given is not None:
        reject_template(given, plan, "run", pack)
    asked = intent or (given.intent if given else None)
    if asked is None and is_service(options.journal) and (pack / "pack.toml").is_file():
        asked = _only_intent(load_pack(pack))
    request = Request(intent=asked or "", input=read_input(input_), request_key=request_key)
    if is_service(options.journal):
        sent = {
            "pack": pack_name(pack),
            "plan": None if given is None else dump_plan(given),
            "planner": planner,
            "runtime": None if ttl_ms is None else {"max_session_duration_ms": ttl_ms},
            "safety_mode": safety_mode,
            "shadow": shadow or None,
        }
        refused = {"--model": model, "--snapshot": snapshot, "--traceparent": traceparent}
        return _invoke(request, sent, options, refused=refused, act_as=as_, is_dev=dev)
    require_local_journal(options.journal, is_dev=dev)
    caller = str(read_traceparent(traceparent)) if traceparent else ""
    loaded = load_checked_pack(pack)
    loaded.decision_for(asked)
    actor = starting_actor(loaded, as_, is_dev=dev)
    request = request.model_copy(update={"intent": asked or _only_intent(loaded)})
    has_template = any(each.intent == request.intent for each in loaded.templates)
    is_filled = given is None and has_template and not model and planner in (None, "template")
    return options.run(
        loaded,
        pack,
        lambda runtime: runtime.run(
            request,
            plan=given,
            planner=planner,
            models=tuple(model or ()),
            safety_mode=safety_mode,
            snapshot=snapshot,
            actor=actor,
            ttl_ms=ttl_ms,
            shadow=shadow,
            traceparent=caller,
            dev=dev,
            folder=str(pack),
        ),
        is_new=True,
        evidence=[fact.id for fact in loaded.evidence] if is_filled else (),
    )


def _only_intent(pack: Pack) -> str:
    """Return the first intent of a pack's only decision; raises `UsageError` if it has several."""
    spec = pack.decision_for(None)
    return (*spec.intents, spec.id)[0]


def _invoke(
    request: Request,
    sent: Mapping[str, Any],
    options: SessionOptions,
    *,
    refused: Mapping[str, object],
    act_as: str,
    is_dev: bool,
) -> ExitCode:
    """Send a request to a service, and follow its session."""
    demand_intent(request.intent)
    params = {name: value for name, value in sent.items() if value is not None}

    async def call(client: AsyncClient) -> str:
        asked = {"request": request.model_dump(mode="json"), **params, "mode": "stream"}
        return str((await client.call("invokeAgent", asked))["session"]["session_id"])

    actor = acting_as(options.journal, act_as, is_dev=is_dev)
    return options.run_at_service(call, refused=refused, act_as=actor)
