"""The view of a gate: which values are trusted is data, not a word in a sentence."""

from __future__ import annotations

import msgspec
import pytest
from rich.text import Text

from tercet.contracts.mode import Trust
from tercet.contracts.verdict import Origin
from tercet.core.state import OpenGate, State
from tercet.critic.checks.flow import describe_origins, described_trust
from tercet.view.terminal.gate import GatePage, show_page
from tercet.view.terminal.screen import Screen

SUSPICIOUS = "kg:untrusted:untrusted_senders#snapshot_s1"


def origin(trust: Trust, came_from: str, detail: str = "", place: str = "/to") -> Origin:
    """Where a value came from."""
    return Origin(parameter=place, came_from=came_from, trust=trust, detail=detail)


def page_with(*origins: Origin) -> GatePage:
    """A gate that shows a call whose values, and those of its compensation, came from there."""
    sources = describe_origins(origins)
    params = dict.fromkeys(sources, "x")
    shown = {
        "tool": "mail.send",
        "params": params,
        "sources": sources,
        "compensation": {"tool": "mail.recall", "params": params, "sources": sources, "proposed": True},
    }
    gate = OpenGate(id="ses_0123456789abcdef.g1", kind="approval", step="send", names=("G",), shown=shown)
    start = msgspec.structs.replace(State().start, actor={"id": "ada"})
    return GatePage(gate=gate, state=State(start=start), is_open=True)


def is_marked(page: GatePage) -> bool:
    """Whether a terminal stresses the sources of the call and of its compensation; both are shown alike."""
    rows: list[Text | str] = []
    screen = Screen()

    def put(text: Text | str, **_: str | None) -> None:
        rows.append(text)

    vars(screen)["put"] = put
    show_page(screen, page, now=0)
    styles = {
        str(row.style)
        for row in rows
        if isinstance(row, Text) and row.plain.startswith("  ") and "←" in row.plain
    }
    (style,) = styles
    return style == "bold yellow"


@pytest.mark.parametrize(
    ("trust", "came_from", "detail"),
    [
        (Trust.TRUSTED, SUSPICIOUS, ""),
        (Trust.TRUSTED, "literal", f"equals /to of {SUSPICIOUS}"),
        (Trust.UNTRUSTED, "kg:form:f1#snapshot_s1", "evidence kg:form:f1 is not trusted"),
        (Trust.UNTRUSTED, "literal", ""),
    ],
)
def test_the_trust_of_a_value_does_not_depend_on_names(trust: Trust, came_from: str, detail: str) -> None:
    """Evidence whose name says untrusted is shown as what it is, and so is a value without a trusted source."""
    page = page_with(origin(trust, came_from, detail))
    (call,) = page.view.calls
    (shown,) = call.parameters
    assert (shown.trust, shown.is_trusted) == (trust, trust is Trust.TRUSTED)
    assert call.compensation is not None
    assert call.compensation.untrusted == (() if shown.is_trusted else ("to",))
    assert is_marked(page) is (trust is Trust.UNTRUSTED)


def test_one_untrusted_part_makes_a_value_untrusted() -> None:
    """Wherever it is in the list of parts."""
    parts = [origin(Trust.TRUSTED, "literal", "equals /a of kg:a", "/to/0"), origin(Trust.UNTRUSTED, "x#/b")]
    for given in (parts, parts[::-1]):
        (shown,) = page_with(*given).view.calls[0].parameters
        assert shown.trust is Trust.UNTRUSTED


def test_a_default_states_no_trust() -> None:
    """What the tool itself adds is no value of the plan."""
    assert described_trust("the tool's default") is None
    assert described_trust("") is None
    assert described_trust("changed by lead at /0; literal, untrusted: it equals nothing") is Trust.UNTRUSTED
