"""Run every letter of the corpus as a session, screen every claim, and print the figures.

Nothing here decides whether tests pass: the figures are for the page on quality.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tercet import DecisionSpec, Evidence, Pack, Plan, Request, Runtime, Tool
from tercet.contracts.documents import DocumentValue
from tercet.contracts.loop import VerificationVerdict
from tercet.core import events as e
from tercet.engine.session_reader import load_history
from tercet.locales import read_text
from tercet.models.model import Model
from tercet.quality.screen import screen
from tercet.quality.values import known_values
from tercet.view.gate import gate_view

HERE = Path(__file__).parent
STATUSES = ("bound", "found", "elsewhere", "unknown")
DEFECTS = ("elsewhere", "unknown")
Case = dict[str, Any]


def load(path: Path) -> list[Case]:
    """Return the cases of one file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def evidence_of(case: Case) -> list[Evidence]:
    """Return the facts that the plan of a letter pins."""
    return [
        Evidence(id=f"kg:{fact['class']}:{fact['id']}#snapshot_sealed", content=fact["content"], trust=fact["trust"])
        for fact in case["evidence"]
    ]  # fmt: skip


# ---- letters ----


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one letter: how its session ended or waits, and what was said of it first."""

    case: Case
    status: str
    draft: str
    final: str
    verdict: VerificationVerdict | None
    is_lossless: bool
    """Whether every value that was right in the draft is in the final text."""
    undone: Sequence[str] = ()
    """The right values that a repair lost before it was undone."""
    gate: str = ""
    """The kind of the gate at which a person is asked: `output` or `escalation`."""
    shown: str = ""
    """The letter as that person sees it."""

    @property
    def flagged(self) -> list[str]:
        """The tokens of the draft that were found wanting."""
        tokens = self.verdict.tokens if self.verdict else ()
        return [each.token.text for each in tokens if each.status in DEFECTS]

    @property
    def is_alarmed(self) -> bool:
        """Whether anything was said against the letter."""
        said = self.verdict
        return said is None or bool(said.schema_faults or said.missing or said.failures or self.flagged)

    @property
    def is_committed(self) -> bool:
        """Whether nobody was asked."""
        return self.status == "completed"

    @property
    def is_unchanged(self) -> bool:
        """Whether no repair has changed the text."""
        return self.final == self.draft

    def is_sent(self, *gates: str) -> bool:
        """Whether nobody was asked, or a person at a gate of one of these kinds, who sees the draft unchanged."""
        return self.is_committed or (self.gate in gates and self.shown == self.draft)

    def finds(self, token: str) -> bool:
        """Whether a token was flagged, alone or as a part of a longer one."""
        wanted = _folded(token)
        return any(_folded(each) in wanted or wanted in _folded(each) for each in self.flagged) or any(
            token in fault for fault in (self.verdict.failures if self.verdict else ())
        )


def _folded(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def session_of(case: Case) -> tuple[Pack, Plan, Request]:
    """Return the pack, the plan and the request that bring a letter."""
    facts = evidence_of(case)
    template = case.get("template")

    async def draft() -> dict[str, str]:
        return {"text": case["text"] or ""}

    tool = Tool(
        name="desk.draft",
        call=draft,
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
        mode="read_only",  # pyright: ignore[reportArgumentType] - parsed as every border parses it
        untrusted=("/text",),
    )
    quality: Case = {
        "locale": case["locale"],
        "values": case["values"],
        "units": case.get("units") or {},
        "required_values": case.get("required_values") or [],
        "required_sections": case.get("required_sections") or [],
        "documents": [] if template is None else [{"output": "letter", "template": template}],
    }
    spec = DecisionSpec.model_validate({"id": "letter", "required_outputs": ["letter"], "quality": quality})
    pack = Pack(name="sealed", version="1.0.0", tools=[tool], decisions=[spec], evidence=facts)
    step: Case = {
        "id": "draft",
        "tool": "desk.draft",
        "params": {},
        "evidence_refs": [fact.id for fact in facts],
    }
    outputs = {"letter": {"$from": "draft#/text"}} if template is None else {}
    plan = Plan.model_validate({"intent": "letter", "steps": [step], "outputs": outputs})
    return pack, plan, Request(intent="letter", input=case.get("request") or {})


async def run_letter(case: Case, repairers: Sequence[Model] = ()) -> Outcome:
    """Run the session of one letter until it ends or waits for a person."""
    pack, plan, request = session_of(case)
    async with Runtime(pack, "memory:", repairers=repairers) as runtime:
        result = await runtime.run(request, plan=plan)
        state = await runtime.state(result.session_id)
        history = await load_history(runtime.journal, state.start.tenant, result.session_id)
    gate = next(iter(state.gates.values()), None)
    produced = gate_view(gate, state, is_open=True).produced if gate else None
    reads = [each for each in history.events if isinstance(each, e.OutputsRead)]
    said = [each for each in history.events if isinstance(each, e.OutputsVerified)]
    verdicts = [VerificationVerdict.model_validate(each.verdict) for each in said]
    right = [
        Counter(token.token.value for token in each.tokens if token.status in ("bound", "found"))
        for each in verdicts
    ]
    return Outcome(
        case=case,
        status=result.status,
        draft=_text(reads[0]) if reads else "",
        final=str(state.outputs.get("letter", "")),
        verdict=verdicts[0] if verdicts else None,
        undone=[each.undone for each in reads if each.undone],
        is_lossless=all(not before - after for before, after in pairwise(right)),
        gate=gate.kind if gate else "",
        shown=str(produced.outputs.get("letter", "")) if produced else "",
    )


def _text(event: e.OutputsRead) -> str:
    # A short text is read behind its name.
    text = next((each["text"] for each in event.texts if each["pointer"] == "/letter"), "")
    return text.removeprefix("letter: ")


def report_letters(found: Sequence[Outcome]) -> None:
    """Print what became of the letters."""
    right = [each for each in found if each.case["kind"] == "right"]
    wrong = [each for each in found if each.case["kind"] == "wrong"]
    slots = [each for each in right if each.case["built"] == "slots"]
    planted = [(each, item["token"]) for each in wrong for item in each.case["wrong"]]
    faults = [each for each in wrong if each.case["fault"] not in (None, "meaning")]
    count_and_list("wrong outputs committed automatically", wrong, lambda each: each.is_committed, "0")
    share(
        "planted wrong values flagged with their token",
        [each.finds(token) for each, token in planted],
        ">= 0.95",
    )
    share("faults without a token that were noticed", [each.is_alarmed for each in faults])
    share("false alarms on right letters", [each.is_alarmed for each in right], "<= 0.05")
    share(
        "right outputs committed, or sent to a person unchanged",
        [each.is_sent("output", "escalation") for each in right],
        ">= 0.98",
    )
    share("the same, at the gate for outputs alone", [each.is_sent("output") for each in right])
    share(
        "right outputs built from slots committed automatically",
        [each.is_committed for each in slots],
        ">= 0.95",
    )
    count_and_list("repairs that lost a right value", found, lambda each: not each.is_lossless, "0")
    share("letters sent to a person at the gate for outputs", [each.gate == "output" for each in found])
    share("letters escalated to a person", [each.gate == "escalation" for each in found])
    print("how sessions stand:", dict(Counter((each.case["kind"], each.status) for each in found)))
    if "--details" in sys.argv:
        for each in found:
            missed = [item["token"] for item in each.case["wrong"] if not each.finds(item["token"])]
            if missed or (each.case["kind"] == "right" and each.is_alarmed):
                said = each.verdict.failures if each.verdict else ()
                print(
                    each.case["id"],
                    each.case["language"],
                    each.case["attack"],
                    "missed",
                    missed,
                    "said",
                    said,
                )


def share(name: str, held: Sequence[bool], goal: str = "") -> None:
    """Print a share with its goal."""
    value = sum(held) / len(held) if held else 0.0
    print(f"{name:<62} {value:6.3f}  ({sum(held)} of {len(held)})  {goal}")


def count_and_list(name: str, among: Sequence[Outcome], is_bad: Callable[[Outcome], bool], goal: str) -> None:
    """Print how often something happened, and to which letters."""
    bad = [each.case["id"] for each in among if is_bad(each)]
    print(f"{name:<62} {len(bad):6}  (of {len(among)})  {goal}  {' '.join(bad[:12])}")


# ---- claims ----


def status_of(case: Case) -> str:
    """Return what the screen says of the token of a claim; `none` where it saw no token."""
    rules = [DocumentValue.model_validate(each) for each in case["values"]]
    language = case["locale"].partition("_")[0]
    known = known_values(rules, evidence_of(case), case.get("request") or {}, (), language)
    read = read_text("/text", case["text"], known, case["locale"], case.get("units") or {}, "agent")
    if "{{" in case["token"]:
        name = case["token"].strip("{} ").partition("|")[0].strip()
        return "bound" if any(piece.slot == name for piece in read.pieces) else "none"
    start = read.text.find(case["token"])
    end = start + len(case["token"])
    touching = [
        each.status for each in screen(read, known) if each.token.start < end and each.token.end > start
    ]
    return max(touching, key=STATUSES.index, default="none")


def report_claims(cases: Sequence[Case]) -> None:
    """Print precision and recall of each status."""
    pairs = Counter((case["expected"], status_of(case)) for case in cases)
    print(f"\n{len(cases)} claims")
    for status in STATUSES:
        hit = pairs[status, status]
        said = sum(count for (_, found), count in pairs.items() if found == status)
        meant = sum(count for (expected, _), count in pairs.items() if expected == status)
        print(
            f"{status:<10} precision {hit / said if said else 0:.3f}  recall {hit / meant if meant else 0:.3f}"
        )
    print("expected, found:", {f"{a}/{b}": n for (a, b), n in sorted(pairs.items()) if a != b})


async def main() -> None:
    """Measure the letters and claims of both sets."""
    for folder in (HERE, HERE / "second"):
        letters = load(folder / "letters.jsonl")
        print(f"\n{folder.name}: {len(letters)} letters")
        report_letters([await run_letter(case) for case in letters])
        report_claims(load(folder / "claims.jsonl"))


if __name__ == "__main__":
    asyncio.run(main())
