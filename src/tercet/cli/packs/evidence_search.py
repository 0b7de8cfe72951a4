"""`tercet evidence list`, `diff`, `show` and `search`: reading the evidence store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.journals import TENANT, StoreUrl, use_store
from tercet.cli.options import AsJson, argument, option
from tercet.cli.packs.evidence import DRAFT, head_json
from tercet.cli.screen import Screen, print_json, respond
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.shape import as_object
from tercet.evidence.store import Difference, EvidenceStore, Fact, Hit, SnapshotHead
from tercet.executor.clock import SystemClock
from tercet.view.terminal.text import ago, ahead, count, printable, utc_time, value_text

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
