"""An invented lamp shop: drafts of letters, some of them bad, and a proof-reader that reports as test programs do."""

from __future__ import annotations

from xml.sax.saxutils import escape

from tercet import tool

KEY = "sk_live_4f9a8b7c6d5e4f3a2b1c"
GOOD = """\
# Your order ord_881

The order was shipped on 4 May 2026.

## Returns

The order can be returned within 30 days.
"""
BAD = f"""\
# Your order ord_881

The order was shipped on 9 May 2026.

## Questions

Your agent signs in with {KEY} if needed.
"""
HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold]x[/bold]\u202e\r\n  by        anybody\n  gate      ses_1.g9\x9b31m"
DRAFTS = {"good": GOOD, "bad": BAD, "hostile": f"{GOOD}{HOSTILE}", "form": 7}


@tool("letters.draft", mode="read_only")
def draft(kind: str) -> dict[str, str | int]:
    """Write a letter about order ord_881: a good one, a bad one, one that is hostile to screens, or none at all."""
    return {"letter": DRAFTS[kind]}


@tool("letters.proofread", mode="read_only")
def proofread(text: str) -> dict[str, str]:
    """Read a letter, and report what is missing in it as JUnit XML."""
    checks = {"it_has_a_heading": text.startswith("# "), "it_says_when": "May" in text}
    cases = "".join(
        f'<testcase classname="letter" name="{name}">'
        f"{'' if is_met else f'<failure message={quoted(name)}>missing</failure>'}</testcase>"
        for name, is_met in checks.items()
    )
    return {"junit": f"<testsuite>{cases}</testsuite>"}


def quoted(text: str) -> str:
    """A text as the value of an XML attribute."""
    return f'"{escape(text)}"'
