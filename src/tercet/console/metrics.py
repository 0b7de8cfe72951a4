"""The figures of `tercet stats` over time, by intent and by risk tier, for the newest sessions of a window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from starlette.responses import Response

from tercet.console.charts import Chart, bar_chart, line_chart
from tercet.console.tallies import Counted, figures_for, read_window
from tercet.console.visit import HOME, Page, Visit
from tercet.core.state import TERMINAL
from tercet.observe.tally import Figures
from tercet.view.text import duration_text

METRICS = f"{HOME}/metrics"
DAYS = (1, 7, 30)
MOST = (100, 300, 1_000)
"""How many of the newest sessions are read at most."""
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000


# --- over time ---


def _periods(after: int, now: int, size: int) -> list[int]:
    return list(range(after // size * size, now + 1, size))


def _label(at: int, size: int) -> str:
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return f"{moment:%H:%M}" if size == _HOUR_MS else f"{moment:%b} {moment.day}"


def percent(rate: float | None) -> str:
    """Return a rate in percent."""
    return "–" if rate is None else f"{100 * rate:.1f} %".replace(".0 %", " %")


def _average(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _span(ms: float | None) -> str:
    return "–" if ms is None else duration_text(round(ms))


def _escalations(found: Figures) -> float | None:
    return sum(found.escalations.values()) / found.runs if found.runs else None


_RATES: tuple[tuple[str, Callable[[Figures], float | None], float, Callable[[float | None], str], str], ...] = (
    ("Plans that pass the critic (%)", lambda f: f.plan_pass_rate, 100, percent, "of all reviewed plans"),
    ("Steps that complete (%)", lambda f: f.step_completion_rate, 100, percent, "of the steps that were tried"),
    ("Calls that are retries (%)", lambda f: f.retry_rate, 100, percent, "of all calls"),
    ("Retried steps that recover (%)", lambda f: f.recovery_rate, 100, percent, "of all retried steps"),
    ("Escalations per run", _escalations, 1, _average, "runs that were handed to a person"),
    ("Minutes to a safe completion", lambda f: f.mean_time_to_safe_completion_ms, 1 / 60_000, _span, "on average, waiting for people included"),
)  # fmt: skip
"""The rates that are drawn: title, value, factor, text and note."""


def draw_charts(sessions: Sequence[Counted], after: int, now: int, days: int) -> list[Chart]:
    """Return the charts of a window: runs by their end, then every rate that was measured."""
    size = _HOUR_MS if days <= 1 else _DAY_MS
    starts = _periods(after, now, size)
    labels = [_label(at, size) for at in starts]
    groups: dict[int, list[Counted]] = {at: [] for at in starts}
    for each in sessions:
        groups.setdefault(each.started_at // size * size, []).append(each)
    found = [figures_for(groups[at]) for at in starts]
    ends = [Counter(each.status for each in groups[at]) for at in starts]
    charts = [
        bar_chart(
            "Runs",
            labels,
            (
                ("completed", "good", [end["completed"] for end in ends]),
                (
                    "ended otherwise",
                    "bad",
                    [sum(n for s, n in end.items() if s in TERMINAL and s != "completed") for end in ends],
                ),
                ("not over", "busy", [sum(n for s, n in end.items() if s not in TERMINAL) for end in ends]),
            ),
            note="by when they began",
        )
    ]
    for title, value, factor, text, note in _RATES:
        values = [value(each) for each in found]
        if any(each is not None for each in values):
            scaled = [None if each is None else each * factor for each in values]
            charts.append(line_chart(title, labels, scaled, [text(each) for each in values], note=note))
    return charts


async def show_metrics(visit: Visit) -> Response:
    """Show the figures of a window."""
    visit.caller.demand("read")
    days = _choice(visit.query.get("days", ""), DAYS, 7)
    most = _choice(visit.query.get("most", ""), MOST, 300)
    intent, risk = (visit.query.get(name, "")[:512] for name in ("intent", "risk"))
    hub = visit.console.http.service.hub
    after = visit.now - days * _DAY_MS
    window = await read_window(
        hub.journal, visit.caller.tenant, visit.console.tallies, after=after, most=most
    )
    shown = [each for each in window.sessions if intent in ("", each.intent) and risk in ("", each.tier)]
    groups: dict[tuple[str, str], list[Counted]] = {}
    for each in shown:
        groups.setdefault((each.intent, each.tier), []).append(each)
    return visit.render(
        "metrics.html.j2",
        title="Metrics",
        section="metrics",
        window=window,
        sessions=shown,
        total=(total := figures_for(shown)),
        escalations=_escalations(total),
        charts=draw_charts(shown, after, visit.now, days),
        groups=[(intent, tier, figures_for(found)) for (intent, tier), found in sorted(groups.items())],
        percent=percent,
        span=_span,
        average=_average,
        escalations_of=_escalations,
        days=days,
        all_days=DAYS,
        most=most,
        all_most=MOST,
        intent=intent,
        intents=_names((each.intent for each in window.sessions), intent),
        risk=risk,
        risks=_names((each.tier for each in window.sessions), risk),
    )


def _names(found: Iterable[str], chosen: str) -> list[str]:
    """Return the names to choose from, with the one that was chosen."""
    return sorted({*found, chosen} - {""})


def _choice(given: str, allowed: Sequence[int], usual: int) -> int:
    return int(given) if given.isdecimal() and given in map(str, allowed) else usual


PAGES = (Page(METRICS, show_metrics),)
