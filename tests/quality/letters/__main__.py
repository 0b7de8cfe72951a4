"""Run every letter as a session, and print the figures and each letter that is judged wrongly."""

from __future__ import annotations

import asyncio

from quality.letters.corpus import read_letters
from quality.sealed.__main__ import Outcome, report_letters, run_letter


async def main() -> None:
    """Measure the letters."""
    found = [await run_letter(case) for case in read_letters()]
    report_letters(found)
    for each in found:
        print_mistake(each)


def print_mistake(outcome: Outcome) -> None:
    """Print what was missed in a wrong letter, and what was said against a right one."""
    missed = [item["token"] for item in outcome.case["wrong"] if not outcome.finds(item["token"])]
    planted = [item["token"] for item in outcome.case["wrong"]]
    flagged = [
        each for each in outcome.flagged if not any(each in token or token in each for token in planted)
    ]
    if (
        missed
        or flagged
        or not outcome.is_lossless
        or (not planted and not (outcome.is_unchanged and outcome.status == "awaiting_gate"))
    ):
        print(
            "\n" + outcome.case["id"], outcome.status, "MISSED", missed, "FALSE", flagged, outcome.is_lossless
        )
        print(outcome.case["text"])
        for each in outcome.verdict.tokens if outcome.verdict else ():
            print(
                "   ", each.status, each.token.kind, repr(each.token.text), each.token.unit, each.sources[:2]
            )


if __name__ == "__main__":
    asyncio.run(main())
