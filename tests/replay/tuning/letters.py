"""Recorded letters that say so many things twice, each judged by a rubric, and a pack that takes too many of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.workshop import ADA, Workshop, plan, step
from tercet.contracts.evidence import Evidence
from tercet.contracts.request import Request
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording, load
from tercet.tools import ToolContext

THINGS = ("chair", "table", "lamp", "sofa", "shelf", "desk", "stool", "bench", "couch", "mirror")
PRICES = Evidence.model_validate(
    {
        "id": "kg:prices:all#snapshot_s1",
        "content": {
            "text": " ".join(f"The {each} costs {n * 7 + 13} rupees." for n, each in enumerate(THINGS))
        },
        "source": "test",
        "trust": "trusted",
    }
)
LIMIT = "rubric work threshold correctness"
LEAK = 100
"""So many repetitions stand for none, and a password."""
RUBRIC: dict[str, Any] = {
    "threshold": 0.3,
    "dimensions": [
        {"name": "correctness", "weight": 0.5, "minimum": 0.1, "scorer": "coherent"},
        {"name": "coherence", "weight": 0.2, "minimum": 0.1, "scorer": "coherent"},
        {"name": "safety", "weight": 0.3, "minimum": 0.95, "scorer": "safe"},
    ],
}
DECISION: dict[str, Any] = {
    "required_outputs": ["letter"],
    "quality": {
        "rubric": RUBRIC,
        "verification": {"threshold": 0.3},
        "tests": [
            {
                "tool": "letter.check",
                "output": "/letter",
                "params": {"letter": {"$output": "/letter"}},
                "vouches": True,
            }
        ],
    },
    "thresholds": [
        {"name": "schema"},
        {"name": "policy"},
        {"name": "safety", "minimum": 0.98},
        {"name": "correctness", "minimum": 0.5},
    ],
}
SURFACES: list[dict[str, Any]] = [
    {"decision": "work", "value": "threshold", "name": "correctness", "low": 0.1, "high": 1.0, "step": 0.1},
    {"decision": "work", "value": "minimum", "name": "correctness", "low": 0.1, "high": 0.9, "step": 0.2},
    {"decision": "work", "value": "weight", "name": "correctness", "low": 0.1, "high": 0.6, "step": 0.1},
]


async def write(_: ToolContext, params: dict[str, Any]) -> Any:
    """A letter of ten paragraphs, so many of which say the first one again."""
    wrong = params["wrong"]
    told = [f"The {each} stands in the window of our shop." for each in THINGS]
    told = [told[0] if 0 < n <= wrong % LEAK else each for n, each in enumerate(told)]
    secret = " The password is: AKIAIOSFODNN7EXAMPLE." if wrong == LEAK else ""
    return {"letter": "\n\n".join(told) + secret}


async def check(_: ToolContext, __: dict[str, Any]) -> Any:
    """The tests that vouch for a letter, so that its scores alone decide."""
    return {"junit": '<testsuite><testcase classname="letter" name="it_reads"/></testsuite>'}


def writers(workshop: Workshop, surfaces: Iterable[dict[str, Any]] = SURFACES) -> Pack:
    """The pack; nothing is repaired, so that what is judged is what was written."""
    if not workshop.tools:
        workshop.tool("letter.write", write, mode="read_only")
        workshop.tool("letter.check", check, mode="read_only")
    return workshop.pack(
        evidence=(PRICES,),
        budget={"max_repairs": 0},
        decision=DECISION,
        tuning={"min_runs": 3, "rubric": list(surfaces)},
    )


def record(workshop: Workshop, pack: Pack, wrong: Iterable[int]) -> list[Recording]:
    """One recorded run for each number of repetitions."""

    async def main() -> list[Recording]:
        found: list[Recording] = []
        for number, repeats in enumerate(wrong):
            journal = MemoryJournal()
            written = plan(
                step("write", "letter.write", params={"wrong": repeats}, evidence_refs=(PRICES.id,)),
                outputs={"letter": {"$from": "write#/letter"}},
            )
            async with workshop.runtime(pack, journal) as runtime:
                request = Request(intent="work", input={"number": number})
                result = await runtime.run(request, plan=written, actor=ADA)
            found.append(await load(journal, "default", result.session_id))
        return found

    return workshop.run(main())
