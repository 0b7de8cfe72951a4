"""`tercet evidence`: adding facts to the draft, freezing it, and reading the store."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import read_duration
from tercet.cli.journals import TENANT, StoreUrl, store_at, use_store
from tercet.cli.options import AsJson, argument, flag, option
from tercet.cli.screen import Screen, print_json, respond, show_problems
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.shape import as_object
from tercet.core.transcript import timestamp
from tercet.evidence.errors import SnapshotUnknown
from tercet.evidence.importing.files import demand_some, find_files, read_changes
from tercet.evidence.importing.records import Labels, Report
from tercet.evidence.store import Added, Difference, EvidenceStore, Fact, Hit, SnapshotHead
from tercet.executor.clock import SystemClock
from tercet.view.terminal.text import ago, ahead, count, listed, printable, utc_time, value_text

DRAFT = "draft"

ADD_EXAMPLES = """\
tercet evidence add handbook/ --class policy
tercet evidence add orders.csv --class order --id-field order_no --expires 30d
tercet evidence add rules.md --class policy --trust trusted --source "legal, 2026-05"
"""
SNAPSHOT_EXAMPLES = """\
tercet evidence snapshot
tercet evidence snapshot 2026-05
"""


def add(
    files: Annotated[
        list[Path],
        argument("FILES...", "Files, and folders, whose files are read in the order of their names."),
    ],
    *,
    classification: Annotated[str, option("CLASS", "The class of the facts, such as policy.", "--class")],
    trust: Annotated[
        str, option("TRUST", "trusted or untrusted: whether plans may rely on what the files say.")
    ] = Trust.UNTRUSTED.value,
    expires: Annotated[
        str, option("WHEN", "When the facts expire: 30d from now, or at a time such as 2027-01-31T00:00:00Z.")
    ] = "",
    source: Annotated[str, option("TEXT", "The source of the files; by default their names.")] = "",
    id_field: Annotated[str, option("NAME", "The column or key with the id of a fact.")] = "id",
    class_field: Annotated[str, option("NAME", "The column or key with the class of a fact.")] = "",
    trust_field: Annotated[
        str, option("NAME", "The column or key with the trust of a fact; it can only lower --trust.")
    ] = "",
    expires_field: Annotated[
        str, option("NAME", "The column or key with the time at which a fact expires.")
    ] = "",
    skip_bad: Annotated[
        bool, flag("Leave out lines and files that cannot be read, and list them.", "--skip-bad")
    ] = False,
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> ExitCode:
    """Add files to the draft of the next snapshot. They are Markdown, text, HTML, PDF, CSV and JSON lines.

    Texts are cut into chunks by headings and paragraphs; each row of a table and each line of JSON is a fact. A file that was
    added before is replaced. If a line is bad, it is reported and no file is added. Runs see the facts only after
    tercet evidence snapshot has frozen the draft.
    """
    labels = Labels(
        classification=classification,
        trust=_trust(trust),
        source=source,
        expires_at=read_expiry(expires) if expires else None,
        id_field=id_field,
        class_field=class_field,
        trust_field=trust_field,
        expires_field=expires_field,
    )
    with _importing(is_quiet=as_json) as progress:
        report = Report(skips_bad=skip_bad, on_bytes=progress.read)
        added, draft = asyncio.run(_add(files, labels, report, progress, store))
    return respond(
        lambda: {
            "facts": added.facts,
            "documents": added.documents,
            "draft": {"name": draft.name, "changes": draft.facts},
            "skipped": [problem.model_dump(mode="json") for problem in report.problems],
            "ignored": report.ignored,
        },
        lambda screen: _show_added(screen, added, draft, report),
        as_json=as_json,
    )


@contextmanager
def _importing(*, is_quiet: bool) -> Generator[ImportProgress]:
    """Show the progress of an import, and report an interruption."""
    try:
        with ImportProgress(Screen(stderr=True), is_shown=not is_quiet) as progress:
            yield progress
    except KeyboardInterrupt:
        if not is_quiet:
            Screen(stderr=True).say("· interrupted: nothing was added, and no snapshot was changed")
        raise


def _trust(text: str) -> Trust:
    try:
        return Trust(text)
    except ValueError as error:
        raise UsageError(
            f"unknown trust label '{text}'",
            code="bad_trust",
            remedy="write --trust trusted or --trust untrusted",
        ) from error


def read_expiry(text: str) -> datetime:
    """Return the time that a text names: a duration from now, or a time with its zone."""
    try:
        utc_time = datetime.fromisoformat(text)
    except ValueError:
        now = SystemClock().now()
        try:
            return datetime.fromtimestamp((now + read_duration(text)) / 1000, UTC)
        except (OverflowError, ValueError) as error:
            raise UsageError(
                f"'{text}' is too far in the future", code="bad_expiry", remedy="write 90d or a time"
            ) from error
    if utc_time.tzinfo is None:
        raise UsageError(
            f"'{text}' has no time zone",
            code="bad_expiry",
            remedy="write a time as 2027-01-31T00:00:00Z, or 90d",
        )
    return utc_time


async def _add(
    paths: list[Path], labels: Labels, report: Report, progress: ImportProgress, url: str
) -> tuple[Added, SnapshotHead]:
    files = find_files(paths, report)
    demand_some(files, report)
    async with store_at(url, is_new=True) as store:
        await _begin_draft(store)
        progress.begin_reading(sum(file.size for file in files))
        added = await store.put(TENANT, DRAFT, read_changes(files, labels, report), progress=progress.count)
        return added, await store.head(TENANT, DRAFT)


async def _begin_draft(store: EvidenceStore) -> None:
    try:
        await store.head(TENANT, DRAFT)
    except SnapshotUnknown:
        await store.create(TENANT, DRAFT, now_ms=SystemClock().now())


def _show_added(screen: Screen, added: Added, draft: SnapshotHead, report: Report) -> None:
    said = f"{count(added.facts, 'fact')} from {count(added.documents, 'document')}"
    screen.say(Text.assemble(("✓ ", "green"), f"added {said}; the draft has {count(draft.facts, 'change')}"))
    if report.problems:
        screen.say(Text.assemble(("! ", "yellow"), f"left out {count(len(report.problems), 'bad part')}:"))
        show_problems(screen, report.problems)
    if report.ignored:
        screen.say(f"· not read: {listed(report.ignored)}")
    screen.say("Runs see it once it is frozen:")
    screen.show_command("tercet evidence snapshot")


def snapshot(
    name: Annotated[
        str | None, argument("NAME", "The snapshot's name; by default the time, such as 20260509-143000.")
    ] = None,
    *,
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> ExitCode:
    """Freeze the draft into a snapshot, which never changes again.

    It holds the facts of the previous snapshot, with the changes of the draft.
    """
    with _importing(is_quiet=as_json) as progress:
        head, counts = asyncio.run(_freeze(name, progress, store))
    return respond(
        lambda: {"snapshot": head_json(head), "changes": counts},
        lambda screen: _show_frozen(screen, head, counts),
        as_json=as_json,
    )


def _show_frozen(screen: Screen, head: SnapshotHead, counts: dict[str, int]) -> None:
    changes = ", ".join(f"{number:,} {kind}" for kind, number in counts.items()) or "nothing changed"
    told = f" has {count(head.facts, 'fact')}: {changes}"
    screen.say(Text.assemble(("✓ ", "green"), "snapshot ", (printable(head.name), "bold"), told))
    screen.say(Text(head.hash, style="dim"))


async def _freeze(
    name: str | None, progress: ImportProgress, url: str
) -> tuple[SnapshotHead, dict[str, int]]:
    now = SystemClock().now()
    async with store_at(url) as store:
        draft = await _require_draft(store)
        before = await store.newest(TENANT)
        chosen = name or f"{datetime.fromtimestamp(now / 1000, UTC):%Y%m%d-%H%M%S}"
        progress.begin_freezing(draft.facts)
        head = await store.freeze(TENANT, DRAFT, now_ms=now, name=chosen, progress=progress.freeze)
        if before is None:
            return head, {"added": head.facts} if head.facts else {}
        kinds = [each.kind for each in await store.diff(TENANT, before.name, head.name)]
        return head, {kind: kinds.count(kind) for kind in ("added", "changed", "removed") if kind in kinds}


async def _require_draft(store: EvidenceStore) -> SnapshotHead:
    try:
        draft = await store.head(TENANT, DRAFT)
    except SnapshotUnknown:
        draft = None
    if draft is None or not draft.facts:
        raise UsageError(
            "nothing has been added since the last snapshot",
            code="nothing_added",
            remedy="add files first: tercet evidence add FILES --class CLASS",
        )
    return draft


def head_json(head: SnapshotHead) -> dict[str, Any]:
    """Return a snapshot or a draft as JSON."""
    return {
        "name": head.name,
        "state": "frozen" if head.is_frozen else "draft",
        "number": head.number,
        "created_at": timestamp(head.created_at),
        "frozen_at": timestamp(head.frozen_at) if head.frozen_at is not None else None,
        "hash": head.hash,
        "facts" if head.is_frozen else "changes": head.facts,
        "pins": head.pins,
    }


# --- progress ---


class ImportProgress:
    """Progress bars: over bytes while files are read, over facts while they are indexed."""

    def __init__(self, screen: Screen, *, is_shown: bool) -> None:
        self._screen = screen
        self._is_off = not (is_shown and screen.is_terminal)
        self._bar = Progress(disable=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin_reading(self, size: int) -> None:
        """Show a bar over a number of bytes."""
        facts = TextColumn("{task.fields[facts]}")
        self._begin(size, TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn(), facts)

    def read(self, count: int) -> None:
        """Advance the bar by the bytes that were read."""
        self._bar.advance(self._bar.task_ids[0], count)

    def count(self, facts: int) -> None:
        """Show the number of facts that were found."""
        self._bar.update(self._bar.task_ids[0], facts=count(facts, "fact"))

    def begin_freezing(self, facts: int) -> None:
        """Show a bar over a number of facts."""
        columns = TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._begin(max(1, facts), *columns)

    def freeze(self, facts: int) -> None:
        """Set the bar to the number of facts that were indexed."""
        self._bar.update(self._bar.task_ids[0], completed=facts)

    def _begin(self, total: int, *columns: ProgressColumn) -> None:
        self._bar.stop()
        self._bar = Progress(*columns, console=self._screen, transient=True, disable=self._is_off)
        self._bar.add_task("", total=total, facts="")
        self._bar.start()


# --- search ---


LIST_SNAPSHOTS_EXAMPLES = "tercet evidence list\n"
DIFF_EXAMPLES = "tercet evidence diff 2026-04 2026-05\n"
SHOW_EXAMPLES = """\
tercet evidence show 2026-05
tercet evidence show "kg:policy:handbook/refunds.md/0#snapshot_2026-05"
"""
SEARCH_EXAMPLES = """\
tercet evidence search "refund limit"
tercet evidence search "refund limit" --class policy --snapshot 2026-05 --limit 3
"""

MOST = 200
SNIPPET = 300
_STYLES = {"added": "green", "changed": "yellow", "removed": "red"}
_MARKS = {"added": "+", "changed": "~", "removed": "-"}

Limit = Annotated[int, option("N", "The largest number of facts to show.", min=1, max=1_000)]


def list_snapshots(*, store: StoreUrl = "", as_json: AsJson = False) -> None:
    """List the draft and up to 200 snapshots, newest first."""
    heads = use_store(store, lambda opened: opened.heads(TENANT, limit=MOST))
    if as_json:
        print_json({"snapshots": [head_json(head) for head in heads]})
        return
    screen, now = Screen(), SystemClock().now()
    if not heads:
        screen.say("There is no snapshot yet.")
    table = [_cells(head, now) for head in heads]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for head, cells in zip(heads, table, strict=True):
        name, *others = (f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True))
        screen.say(Text.assemble((name, "bold" if head.is_frozen else "yellow"), "".join(others).rstrip()))


def _cells(head: SnapshotHead, now: int) -> tuple[str, ...]:
    if head.frozen_at is None:
        return printable(head.name, 60), "draft", count(head.facts, "change"), ago(now - head.created_at), ""
    pins = count(head.pins, "pin") if head.pins else ""
    return (
        printable(head.name, 60),
        head.hash[7:19],
        count(head.facts, "fact"),
        ago(now - head.frozen_at),
        pins,
    )


def diff(
    before: Annotated[str, argument("A", "The older snapshot.")],
    after: Annotated[str, argument("B", "The newer snapshot.")],
    *,
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Compare the facts of two snapshots.

    Shown is what was added, changed and removed from A to B.
    """
    found = use_store(store, lambda opened: opened.diff(TENANT, before, after))
    if as_json:
        print_json(
            {"before": before, "after": after, "differences": [_difference_json(each) for each in found]}
        )
        return
    screen = Screen()
    if not found:
        screen.say("They hold the same facts.")
    for each in found[:MOST]:
        mark = (f"{_MARKS[each.kind]} ", _STYLES[each.kind])
        screen.say(Text.assemble(mark, printable(f"{each.classification}:{each.key}", 300)))
    if len(found) > MOST:
        screen.say(f"… {len(found) - MOST:,} more; --json lists them all")


def _difference_json(each: Difference) -> dict[str, Any]:
    return {
        "class": each.classification,
        "id": each.key,
        "kind": each.kind,
        "before": each.before,
        "after": each.after,
    }


def show(
    what: Annotated[
        str, argument("REF|SNAPSHOT", "A fact by its id kg:CLASS:ID#snapshot_NAME, or a snapshot.")
    ],
    *,
    limit: Limit = 50,
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> ExitCode:
    """Show a fact with its source, or a snapshot with its first facts."""
    if parse_ref(what) is not None:
        fact = use_store(store, lambda opened: opened.fact(TENANT, what))
        return respond(lambda: fact_json(fact), lambda screen: _show_fact(screen, fact), as_json=as_json)
    head, facts = use_store(store, lambda opened: _snapshot(opened, what, limit))
    return respond(
        lambda: {"snapshot": head_json(head), "facts": [fact_json(fact) for fact in facts]},
        lambda screen: _show_snapshot(screen, head, facts),
        as_json=as_json,
    )


async def _snapshot(store: EvidenceStore, name: str, limit: int) -> tuple[SnapshotHead, list[Fact]]:
    head = await store.head(TENANT, name)
    return head, await store.facts(TENANT, name, limit=limit) if head.is_frozen else []


def fact_json(fact: Fact) -> dict[str, Any]:
    """Return a fact and its source as JSON."""
    return {
        **fact.evidence.model_dump(mode="json"),
        "hash": fact.evidence.hash,
        "citation": fact.citation.model_dump(mode="json", exclude_none=True),
    }


def _show_snapshot(screen: Screen, head: SnapshotHead, facts: list[Fact]) -> None:
    if head.frozen_at is None:
        screen.say(
            f"{printable(head.name)} is a draft with {count(head.facts, 'change')}; to see it, freeze it:"
        )
        screen.show_command("tercet evidence snapshot")
        return
    screen.say(Text.assemble("snapshot  ", (printable(head.name), "bold"), f", {count(head.facts, 'fact')}"))
    screen.say(f"frozen    {utc_time(head.frozen_at)}")
    screen.say(f"hash      {head.hash}")
    if head.pins:
        screen.say(f"pinned    by {count(head.pins, 'session')}")
    screen.say()
    for fact in facts:
        _show_line(screen, fact)
    if head.facts > len(facts):
        screen.say(
            f"… {head.facts - len(facts):,} more; tercet evidence search finds them, --limit shows more"
        )


def _show_line(screen: Screen, fact: Fact, score: float | None = None) -> None:
    evidence = fact.evidence
    ranked = "" if score is None else f"{score:>8.3f}  "
    labels = _labels(fact)
    screen.say(Text.assemble((ranked, "cyan"), (printable(evidence.id, 300), "bold"), (f"  {labels}", "dim")))
    screen.put(printable(_gist(evidence.content), SNIPPET), first=" " * (len(ranked) or 2))


def _labels(fact: Fact) -> str:
    """Return trust, expiry, and the place in the document."""
    evidence, citation = fact.evidence, fact.citation
    parts = [str(evidence.trust)]
    if evidence.expires_at is not None:
        left = int((evidence.expires_at - datetime.now(UTC)).total_seconds() * 1000)
        parts.append(f"expires {ahead(left)}" if left > 0 else f"EXPIRED {ago(-left)}")
    if citation.document:
        parts.append(f"bytes {citation.start:,}–{citation.end:,}")
    return ", ".join(parts)


def _gist(content: Any) -> str:
    """Return the content of a fact on one line."""
    fields = as_object(content)
    text = fields.get("text") if fields is not None else None
    return " ".join(text.split()) if isinstance(text, str) else value_text(content)


def _show_fact(screen: Screen, fact: Fact) -> None:
    evidence, citation = fact.evidence, fact.citation
    screen.say(Text.assemble("fact      ", (printable(evidence.id, 1_000), "bold")))
    trust_style = "green" if evidence.trust is Trust.TRUSTED else "yellow"
    screen.say(Text.assemble("trust     ", (str(evidence.trust), trust_style)))
    screen.say(f"source    {printable(evidence.source) or 'not given'}")
    if citation.document:
        screen.say(
            f"document  {printable(citation.document)}, chunk {citation.chunk}, bytes {citation.start:,}–{citation.end:,}"
        )
    if evidence.expires_at is not None:
        expiry = int(evidence.expires_at.timestamp() * 1000)
        left = expiry - SystemClock().now()
        word = ahead(left) if left > 0 else f"EXPIRED {ago(-left)}"
        screen.say(f"expires   {utc_time(expiry)} ({word})")
    screen.say(f"hash      {evidence.hash}")
    screen.say()
    fields = as_object(evidence.content)
    text = fields.get("text") if fields is not None else None
    lines = text.splitlines() if isinstance(text, str) else [value_text(evidence.content)]
    for line in lines:
        screen.put(printable(line, 100_000), first="  ")


def search(
    query: Annotated[str, argument("QUERY", "Words to search for; there is no query syntax.")],
    *,
    classes: Annotated[
        list[str] | None, option("CLASS", "Only facts of this class; may be given several times.", "--class")
    ] = None,
    snapshot: Annotated[str | None, option("NAME", "The snapshot to search; by default the newest.")] = None,
    limit: Limit = 10,
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Search a snapshot by words, best first. The same snapshot always gives the same answer."""
    chosen, hits = use_store(store, lambda opened: _search(opened, query, classes, snapshot, limit))
    if as_json:
        found = [{"score": hit.score, **fact_json(hit.fact)} for hit in hits]
        print_json({"snapshot": chosen, "query": query, "hits": found})
        return
    screen = Screen()
    if not hits:
        screen.say(f"Nothing in snapshot {printable(chosen)} has these words.")
    for hit in hits:
        _show_line(screen, hit.fact, hit.score)


async def _search(
    store: EvidenceStore, query: str, classes: list[str] | None, snapshot: str | None, limit: int
) -> tuple[str, list[Hit]]:
    chosen = snapshot or await _newest(store)
    return chosen, await store.search(TENANT, chosen, query, classes=classes or None, limit=limit)


async def _newest(store: EvidenceStore) -> str:
    head = await store.newest(TENANT)
    if head is None:
        raise UsageError(
            "there is no snapshot yet",
            code="no_snapshot",
            remedy=f"freeze the {DRAFT} first: tercet evidence snapshot",
        )
    return head.name
