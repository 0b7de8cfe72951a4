"""Confidence against what happened, as SVG written by hand: it fetches nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.repair.calibration import Reliability

_WIDTH, _HEIGHT = 520, 420
_LEFT, _TOP, _RIGHT, _BOTTOM = 56, 40, 496, 330
_INK, _FAINT, _BEFORE, _AFTER = "#1f2933", "#d5dbe1", "#9aa5b1", "#0b7285"
_STYLE = (
    f"text{{font-family:system-ui,sans-serif;font-size:12px;fill:{_INK}}}"
    ".title{font-size:14px;font-weight:600}.small{font-size:11px}"
)


def draw_reliability(before: Reliability, after: Reliability) -> str:
    """The share that was right for each confidence, before and after; on the dashed line it keeps its word."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 22, f"Confidence and what happened: {after.count:,} outputs", kind="title"),
        *_grid(),
        f'<line x1="{_LEFT}" y1="{_BOTTOM}" x2="{_RIGHT}" y2="{_TOP}" stroke="{_INK}" stroke-dasharray="5 4"/>',
        *_curve(before, _BEFORE),
        *_curve(after, _AFTER),
        *_legend(before, after),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(value: float) -> float:
    return _LEFT + value * (_RIGHT - _LEFT)


def _y(value: float) -> float:
    return _BOTTOM - value * (_BOTTOM - _TOP)


def _grid() -> Iterator[str]:
    for step in range(6):
        value = step / 5
        x, y = _x(value), _y(value)
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_BOTTOM}" stroke="{_FAINT}"/>'
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_RIGHT}" y2="{y:.1f}" stroke="{_FAINT}"/>'
        yield _text(x, _BOTTOM + 16, f"{value:.1f}", anchor="middle")
        yield _text(_LEFT - 6, y + 4, f"{value:.1f}", anchor="end")
    yield _text((_LEFT + _RIGHT) / 2, _BOTTOM + 34, "confidence", anchor="middle")
    yield f'<g transform="translate(16,{(_TOP + _BOTTOM) / 2:.1f}) rotate(-90)">{_text(0, 0, "share that was right", anchor="middle")}</g>'


def _curve(found: Reliability, colour: str) -> Iterator[str]:
    points = " ".join(f"{_x(each.confidence):.1f},{_y(each.accuracy):.1f}" for each in found.bins)
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for each in found.bins:
        # The area of a dot grows with the outputs in its bin.
        radius = 2.5 + 9 * (each.count / found.count) ** 0.5
        yield (
            f'<circle cx="{_x(each.confidence):.1f}" cy="{_y(each.accuracy):.1f}" r="{radius:.1f}" fill="{colour}" '
            'fill-opacity="0.55"/>'
        )


def _legend(before: Reliability, after: Reliability) -> Iterator[str]:
    for row, (name, found, colour) in enumerate((("before", before, _BEFORE), ("fitted", after, _AFTER))):
        y = _HEIGHT - 30 + 18 * row
        yield f'<circle cx="{_LEFT + 6}" cy="{y - 4}" r="5" fill="{colour}"/>'
        told = f"{name}: Brier score {found.brier:.4f}, calibration error {found.ece:.4f}"
        yield _text(_LEFT + 18, y, told, kind="small")


def _text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{name}>{words}</text>'
