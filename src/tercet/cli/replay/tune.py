"""`tercet tune`: searching better values for a pack by replay; a person accepts them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, is_bundle, use_journal
from tercet.cli.options import AsJson, Force, PackFolder, argument, option
from tercet.cli.replay.replay import progress_over
from tercet.cli.replay.runs import Everything, Intent, Status, read_runs, require_runs
from tercet.cli.screen import Screen, print_json, respond
from tercet.cli.sessions.people import ActorsPath, local_user_from
from tercet.contracts.errors import UsageError
from tercet.engine.streams.experience import read_feedback
from tercet.journal.protocol import Journal
from tercet.replay.recording import Recording
from tercet.replay.tuning.acceptance import accept as accept_proposal
from tercet.replay.tuning.evaluation import Evaluation, Expectation
from tercet.replay.tuning.proposal import Proposal, demand_folder, propose, read_proposal, write_proposal
from tercet.replay.tuning.scoring import Interval, Score
from tercet.replay.tuning.search import Found, demand_libraries
from tercet.replay.tuning.search import search as look
from tercet.view.terminal.text import count, printable

SEARCH_EXAMPLES = """\
tercet tune examples/letters --all
tercet tune search examples/letters --all --intent letters.write --trials 200 --seed 7 --out proposal
tercet tune examples/letters --runs ses_0123456789abcdef --runs run.tercet --json
"""
SHOW_EXAMPLES = """\
tercet tune show letters-proposal
tercet tune show letters-proposal --json
"""
ACCEPT_EXAMPLES = "tercet tune accept letters-proposal --pack examples/letters\n"

ProposalPath = Annotated[
    Path, argument("PROPOSAL", "The folder that tercet tune search wrote, or its proposal.json.")
]


def search(
    pack: PackFolder,
    *,
    runs: Annotated[
        list[str] | None,
        option(
            "RUN",
            "A session id, or a bundle that tercet export wrote; may be given several times.",
        ),
    ] = None,
    everything: Everything = False,
    intent: Intent = None,
    status: Status = None,
    trials: Annotated[int, option("N", "The largest number of candidates to try.", min=1, max=100_000)] = 100,
    seed: Annotated[int, option("N", "The same seed finds the same candidate.", min=0, max=2**32 - 1)] = 0,
    workers: Annotated[
        int | None, option("N", "The number of processes that judge each candidate.", min=1)
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "FOLDER", "The folder for the proposal: by default the pack's name and -proposal, in this folder."
        ),
    ] = None,
    force: Force = False,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Search better values and write a proposal. tuning.toml says what may be tuned; no pack is changed.

    Candidates are scored by judging recorded runs again: nothing is called. Policy and safety are floors, and each surface
    has a guardrail. Exits with 0 if there is a proposal, and with 3 if nothing better was found.
    """
    require_runs(runs or (), is_all=everything, intent=intent, status=status)
    demand_libraries()
    loaded = load_pack(pack)
    folder = out or Path(f"{loaded.name}-proposal")
    demand_folder(folder, is_forced=force)
    found = read_runs(journal, runs or (), is_all=everything, intent=intent, status=status)
    has_journal = everything or not all(map(is_bundle, runs or ()))
    corrected = (
        use_journal(journal, lambda opened: _corrected(opened, found)) if has_journal else frozenset[str]()
    )
    evaluation = Evaluation(loaded, found, corrected=corrected, workers=workers)
    with progress_over(trials, "trying", is_shown=not as_json) as told:
        result = look(evaluation, trials=trials, seed=seed, progress=told)
    proposal = propose(pack, evaluation, result, trials=trials, seed=seed)
    if proposal is None:
        if as_json:
            print_json({"proposal": None, "tried": result.tried, "refused": result.refused})
        else:
            show_nothing(Screen(), result)
        return ExitCode.REFUSED
    file = write_proposal(proposal, folder, is_forced=force)
    if as_json:
        print_json({"proposal": proposal.model_dump(mode="json"), "file": str(file)})
    else:
        show_proposal(Screen(), proposal, str(folder), str(pack))
    return ExitCode.ACCEPTED


async def _corrected(journal: Journal, found: list[Recording]) -> frozenset[str]:
    """Return the runs that people have corrected; corrections are not part of bundles."""
    return frozenset([each.session for each in found if await read_feedback(journal, TENANT, each.session)])


def show(proposal: ProposalPath, *, as_json: AsJson = False) -> ExitCode:
    """Show a proposal: its changes, scores, guardrails and effects."""
    found = read_proposal(proposal)
    document = found.model_dump(mode="json")
    return respond(
        lambda: document, lambda screen: show_proposal(screen, found, str(proposal)), as_json=as_json
    )


def accept(
    proposal: ProposalPath,
    *,
    pack: Annotated[Path, option("PACK", "The folder of the pack that the proposal is for; it is changed.")],
    actors: ActorsPath = None,
    as_json: AsJson = False,
) -> None:
    """Apply a proposal to the pack's folder, in your name. The pack gets a new version.

    The proposal is refused if the pack has changed since. The changed pack is checked as by `tercet check`. Existing
    sessions stay pinned to the old pack. What was accepted, by whom and when is added to tuning.accepted.jsonl in the
    folder.
    """
    found = read_proposal(proposal)
    load_pack(pack)  # raises if the folder is not a pack
    try:
        done = accept_proposal(pack, found, by=local_user_from(actors).actor.id, at=datetime.now(UTC))
    except OSError as error:
        raise UsageError(
            f"cannot change {pack}: {error.strerror or error}",
            code="file_unwritable",
            remedy="make its files writable",
        ) from error
    if as_json:
        print_json(done.model_dump(mode="json"))
        return
    screen = Screen()
    told = f"{done.pack} is now {done.new_version}, accepted by {done.by}"
    screen.conclude(printable(told, 300))
    for change in done.changes:
        screen.put(printable(f"{change.id}: {change.old} → {change.new}"), first="  · ")


# --- on the screen ---


MOST = 5
"""The number of runs that are shown."""
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_ROWS = {
    "pass rate": ("pass_rate", 1.0, ".1%"),
    "utility": ("utility", 1.0, ".3f"),
    "escalations": ("escalations", 1.0, ".1%"),
    "loop-guard trips": ("trips", 1.0, ".3f"),
    "cost, cents": ("cost_microcents", 1e-6, ",.6g"),
    "open, seconds": ("held_ms", 1e-3, ",.1f"),
    "risky calls": ("risky_calls", 1.0, ".2f"),
}


def show_nothing(screen: Screen, found: Found) -> None:
    """Show that nothing better was found."""
    tried = f"{count(found.tried, 'candidate')} tried of {found.space:,}, {found.refused:,} of them refused"
    screen.say(Text.assemble(("✗ ", "bold red"), "found nothing better within the guardrails"))
    screen.put(tried, first="  · ")


def show_proposal(screen: Screen, proposal: Proposal, where: str, pack: str = "") -> None:
    """Show the changes, the runs that they are based on, and how to accept them."""
    headline = f"{proposal.id} for {proposal.pack} → {proposal.new_version}"
    screen.conclude(printable(headline, 200))
    for change in proposal.changes:
        told = f"{change.id}: {change.old} → {change.new}"
        screen.put(printable(f"{told}  ({change.surface})"), first="  · ")
    screen.say()
    _show_diff(screen, proposal.diff)
    _show_scores(screen, proposal)
    _show_basis(screen, proposal)
    _show_guardrails(screen, proposal)
    _show_runs(screen, proposal)
    screen.say()
    if pack:
        screen.offer(
            "Nothing is applied until a person accepts it:", f"tercet tune accept {where} --pack {pack}"
        )
    else:
        accept = f"tercet tune accept {where} --pack, with the pack's folder, applies it."
        screen.put(Text(f"Nothing is applied until a person accepts it: {accept}", style="dim"))


def _show_diff(screen: Screen, diff: str) -> None:
    for line in diff.splitlines():
        colour = "bold" if line.startswith(("---", "+++")) else _COLOURS.get(line[:1], "")
        screen.print(
            screen.escape_undecodable(Text(f"    {printable(line, 400)}", style=colour)), soft_wrap=True
        )
    screen.say()


def _show_scores(screen: Screen, proposal: Proposal) -> None:
    screen.say(Text(f"  {'':18}{'now':>24}  {'proposed':>24}", style="dim"))
    for name, (field, factor, form) in _ROWS.items():
        cells = [_cell(_interval(side, field), factor, form) for side in (proposal.before, proposal.after)]
        style = "bold" if cells[0] != cells[1] else ""
        screen.say(Text(f"  {name:18}{cells[0]:>24}  {cells[1]:>24}", style=style))
    gain = _cell(proposal.gain, 1.0, "+.4f")
    sure = "" if proposal.is_sure else ", which may be due to chance"
    screen.say(f"  better by {gain}{sure}; in brackets, the 95 % interval")


def _interval(score: Score, field: str) -> Interval:
    return Interval.model_validate(getattr(score, field))


def _cell(interval: Interval, factor: float, form: str) -> str:
    value, low, high = (format(each * factor, form) for each in (interval.value, interval.low, interval.high))
    return value if low == high else f"{value} [{low}, {high}]"


def _show_basis(screen: Screen, proposal: Proposal) -> None:
    basis = proposal.basis
    told = f"based on {basis.told:,} of {count(basis.given, 'run')}, {count(proposal.after.cases, 'case')}"
    corrected = f"; people have corrected {basis.corrected:,} of them" if basis.corrected else ""
    screen.put(f"{told}{corrected}", first="  · ")
    for why, number in basis.untold.items():
        screen.put(printable(f"{number:,} not used: {why}"), first="    ")
    tried = f"{count(proposal.tried, 'candidate')} tried, {proposal.refused:,} refused, seed {proposal.seed}"
    screen.put(tried, first="  · ")


def _show_guardrails(screen: Screen, proposal: Proposal) -> None:
    kept = [each.name for each in proposal.guardrails if each.passed]
    screen.put(f"keeps {', '.join(kept)}", first="  · ")


def _show_runs(screen: Screen, proposal: Proposal) -> None:
    for each in proposal.expectations[:MOST]:
        _show_run(screen, each)
    more = proposal.changed_runs - min(MOST, len(proposal.expectations))
    if more > 0:
        screen.put(f"and {count(more, 'run')} more: --json shows them", first="  · ")


def _show_run(screen: Screen, run: Expectation) -> None:
    cost = f", {run.old_cost_microcents:,} → {run.new_cost_microcents:,} micro-cents"
    is_cheaper = run.old_cost_microcents != run.new_cost_microcents
    told = f"{run.session_id}: {run.old_status} → {run.new_status}{cost if is_cheaper else ''}"
    screen.put(printable(told), first="  · ")
    if run.why:
        screen.put(printable(run.why), first="    ")
