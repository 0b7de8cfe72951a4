"""`tercet sessions resume` and `migrate`: going on with a session in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated

from tercet.cli.amounts import read_amounts
from tercet.cli.case import local_actor
from tercet.cli.documents import load_pack
from tercet.cli.exit_code import ExitCode
from tercet.cli.foreground import Foreground
from tercet.cli.journals import DEFAULT, JournalUrl
from tercet.cli.options import AsJson, SessionId, option
from tercet.cli.people import actors_of
from tercet.cli.progress import Progress, Silence
from tercet.cli.screen import Screen, print_json
from tercet.cli.session_json import as_json as session_json
from tercet.cli.session_view import show_ending
from tercet.cli.standing import EXIT_CODES, Commands
from tercet.cli.stores import StoreUrl
from tercet.cli.telemetry import SampleRate, TelemetryWords, settings_of
from tercet.cli.text import printable
from tercet.executor.clock import SystemClock
from tercet.observe.settings import DEFAULT_RATE, TelemetrySettings
from tercet.packs import Pack
from tercet.runtime import RunResult, Runtime
from tercet.view.vocabulary import standing

RESUME_EXAMPLES = """\
tercet sessions resume ses_0123456789abcdef --pack examples/refunds
tercet sessions resume ses_0123456789abcdef --pack examples/refunds --extend tool_calls=10
"""
MIGRATE_EXAMPLES = "tercet sessions migrate ses_0123456789abcdef --pack examples/refunds\n"


def resume(
    session: SessionId,
    *,
    pack: Annotated[Path, option("PACK", "The folder of the pack that the session was started with.")],
    extend: Annotated[
        list[str] | None,
        option(
            "NAME=N",
            "Let it use more first: tokens, tool_calls, cost_microcents or wall_clock_ms; may be given several times.",
        ),
    ] = None,
    telemetry: TelemetryWords = None,
    sample: SampleRate = DEFAULT_RATE,
    store: StoreUrl = "",
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Go on with a session that was paused, answered, or interrupted.

    What had been done stays done. If a dead process still has the lease on the session, this waits until it runs out,
    and says for how long; if that process turns out to be alive, it is left alone. A session that is over is shown, and
    nothing is done. One that is pinned to another pack or snapshot is refused: move it with `tercet sessions migrate`,
    or end it with `tercet sessions cancel`. Exits as `tercet run` does.
    """
    observed = settings_of(telemetry, sample)
    more = read_amounts(extend) if extend else None
    loaded = load_pack(pack)
    actor = local_actor(loaded)
    return carry(
        loaded,
        pack,
        journal,
        lambda runtime: runtime.resume(session, extend=more, actor=actor),
        store=store,
        telemetry=observed,
        as_json=as_json,
    )


def migrate(
    session: SessionId,
    *,
    pack: Annotated[Path, option("PACK", "The folder of the pack to move it to.")],
    telemetry: TelemetryWords = None,
    sample: SampleRate = DEFAULT_RATE,
    store: StoreUrl = "",
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Move a session to this pack and the current rules.

    It goes on there with the pack's newest snapshot. Its plan is reviewed again, and nothing that was approved before counts any more. What had been done stays done.
    Exits as `tercet run` does.
    """
    observed = settings_of(telemetry, sample)
    loaded = load_pack(pack)
    actor = local_actor(loaded)
    return carry(
        loaded,
        pack,
        journal,
        lambda runtime: runtime.migrate(session, actor=actor),
        store=store,
        telemetry=observed,
        as_json=as_json,
    )


def carry(
    loaded: Pack,
    folder: Path,
    journal: str,
    act: Callable[[Runtime], Awaitable[RunResult]],
    *,
    store: str,
    telemetry: TelemetrySettings,
    as_json: bool,
    is_new: bool = False,
    evidence: Sequence[str] = (),
) -> ExitCode:
    """Carry a session in this process, and tell how it stands then; `evidence` is what a request could have asked for."""
    commands = Commands(journal=journal, pack=str(folder), actors=actors_of(folder))
    screen = Screen()
    progress = Silence() if as_json else Progress(screen, SystemClock())
    foreground = Foreground(loaded, progress, commands, store=store, telemetry=telemetry)
    story = foreground.carry(act, is_new=is_new)
    state = story.state
    if as_json:
        print_json(session_json(story, commands) | foreground.telemetry_json)
    else:
        if not progress.has_told:
            sent, session = "this request was sent before, and is session", printable(state.start.session)
            screen.say(f"· {sent} {session}" if is_new else f"· session {session} is over: nothing was done")
        screen.say()
        now = SystemClock().now()
        show_ending(screen, state, commands, now=now, rollback=story.rollback, evidence=evidence)
    return EXIT_CODES[standing(state)]
