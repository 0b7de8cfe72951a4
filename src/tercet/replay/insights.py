"""Insights: corrections that are about the same thing, put together.

They are about the same thing if they blame the same place of the same decision, and say much the same. The place is read
from the record: what the critic refused, or the outputs that should have been others and the step that they came from.
Nothing is guessed, no model is asked, and the same corrections always come to the same insights.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, NamedTuple

from tercet.contracts.shape import Absent, JsonObject, Published, as_object
from tercet.contracts.values.references import Reference, scan
from tercet.core.state import State
from tercet.engine.session_reader import list_rows, load_state, read_record
from tercet.engine.streams.experience import Feedback, read_feedback
from tercet.journal.protocol import Journal
from tercet.quality.verification.similarity import token_similarity

ALIKE = 0.35
"""The least similarity of two corrections of one place that count as the same."""
MOST_EXAMPLES = 3


class Blame(NamedTuple):
    """The place that a correction is about."""

    decision: str
    kind: str = ""
    code: str = ""
    step: str = ""
    tool: str = ""
    outputs: tuple[str, ...] = ()


class Placed(NamedTuple):
    """A correction with the place that it is about."""

    feedback: Feedback
    pack: str
    blame: Blame
    status: str


class Insight(Published):
    """Corrections that are about the same thing."""

    decision: str
    pack: str
    """The newest version among them."""
    kind: Absent[str] = None
    """Why the critic refused the runs, where it did."""
    code: Absent[str] = None
    step: Absent[str] = None
    tool: Absent[str] = None
    outputs: tuple[str, ...] = ()
    """The outputs that should have been others."""
    count: int
    sessions: tuple[str, ...]
    feedback: tuple[str, ...]
    examples: tuple[str, ...]


async def placed_feedback(journal: Journal, tenant: str, *, pack: str | None = None) -> AsyncIterator[Placed]:
    """Yield every correction of a tenant with its place, or those of one pack by its name, whatever its version."""
    async for row in list_rows(journal, tenant):
        if pack is not None and row.pack.partition("@")[0] != pack.partition("@")[0]:
            continue
        found = await read_feedback(journal, tenant, row.session_id)
        if not found:
            continue
        state = await load_state(journal, tenant, row.session_id)
        record = await read_record(journal, tenant, state)
        for each in found:
            yield Placed(each, row.pack, blame_of(each, state, record), row.status)


def blame_of(feedback: Feedback, state: State, record: JsonObject) -> Blame:
    """Return the subject of a correction."""
    decision = str(record["decision_id"])
    refused = next((each for each in reversed(record["verdicts"]) if each.get("kind")), None)
    if refused is not None:
        step = str(refused.get("step_id") or "")
        return Blame(decision, refused["kind"], str(refused.get("code") or ""), step, _tool(state, step))
    wrong = tuple(sorted(_wrong(feedback.entry.expected, record["outputs"])))
    step = next((found for name in wrong for found in _sources(state, name)), "")
    return Blame(decision, step=step, tool=_tool(state, step), outputs=wrong)


def _wrong(expected: JsonObject, outputs: JsonObject) -> Iterable[str]:
    return (name for name, value in expected.items() if name not in outputs or outputs[name] != value)


def _sources(state: State, output: str) -> Iterable[str]:
    """The steps that an output was taken from."""
    said = (as_object(state.plan.get("outputs")) or {}).get(output)
    return (name for found in scan(said) if isinstance(found, Reference) for name in found.names)


def _tool(state: State, step: str) -> str:
    steps: Sequence[Any] = state.plan.get("steps", ())
    return next((str(each.get("tool") or "") for each in steps if each.get("id") == step), "")


def cluster(placed: Iterable[Placed]) -> tuple[Insight, ...]:
    """Return a summary of corrections, the most frequent first."""
    groups: dict[Blame, list[list[Placed]]] = {}
    for each in sorted(placed, key=_age):
        clusters = groups.setdefault(each.blame, [])
        near = [group for group in clusters if _is_alike(each, group)]
        if near:
            near[0].append(each)
            for other in near[1:]:  # it says what both say, so both say the same
                near[0].extend(other)
                clusters.remove(other)
        else:
            clusters.append([each])
    found = [_insight(blame, group) for blame, clusters in groups.items() for group in clusters]
    return tuple(sorted(found, key=lambda each: (-each.count, each.decision, each.feedback)))


def _age(placed: Placed) -> tuple[Any, str]:
    return placed.feedback.entry.given_at, placed.feedback.id


def _is_alike(one: Placed, group: Sequence[Placed]) -> bool:
    said = one.feedback.entry.correction
    return any(token_similarity(said, each.feedback.entry.correction) >= ALIKE for each in group)


def _insight(blame: Blame, group: list[Placed]) -> Insight:
    ordered = sorted(group, key=_age)
    said = list(dict.fromkeys(each.feedback.entry.correction for each in ordered))
    return Insight(
        decision=blame.decision,
        pack=ordered[-1].pack,
        kind=blame.kind or None,
        code=blame.code or None,
        step=blame.step or None,
        tool=blame.tool or None,
        outputs=blame.outputs,
        count=len(ordered),
        sessions=tuple(dict.fromkeys(each.feedback.session_id for each in ordered)),
        feedback=tuple(each.feedback.id for each in ordered),
        examples=tuple(said[:MOST_EXAMPLES]),
    )
