"""Draws docs/images/control.svg: what the controller was foreseen to do on random plants, and what it did.

The numbers come from the campaigns that the tests assert, so this runs with `tests` on the path: `make pictures`.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

from chart import Band, Dots, Line, Mark, Panel, draw

from quality.repair.plants import (
    PLANTS,
    Floor,
    Trial,
    growth,
    lots,
    noise_campaign,
    proportional_campaign,
    record,
)
from tercet.contracts.control import ControlSpec
from tercet.quality.control import predict

PICTURE = Path(__file__).resolve().parent / "images" / "control.svg"
BLUE, ORANGE, RED, GREY = "#0b7285", "#e67700", "#c92a2a", "#868e96"


def repairs_panel() -> Panel:
    """Repairs by the formula against repairs that were made."""
    seen = list(proportional_campaign())
    exact = sum(each.expected == each.happened for each in seen)
    pairs = Counter((each.expected or 0, each.happened) for each in seen)
    top = 60
    marks: list[Mark] = [Line(points=[(0, 0), (top, top)], colour=GREY, width=1, is_dashed=True)]
    sizes = {1: 1.6, 10: 2.6, 100: 3.8, 1_000: 5.4}
    for (least, radius), (most, _) in pairwise([*sizes.items(), (10**9, 0.0)]):
        points = [pair for pair, count in pairs.items() if least <= count < most and max(pair) <= top]
        marks.append(Dots(points=points, colour=BLUE, radius=radius, name=f"{least:,} or more plants"))
    return Panel(
        title="Repairs, without noise",
        note=f"Kp alone, no clamp: the formula is exact on {exact:,} of {len(seen):,} plants",
        x_label="foreseen by the formula",
        y_label="made",
        x_range=(0, top),
        y_range=(0, top),
        x_ticks={n: str(n) for n in range(0, top + 1, 10)},
        y_ticks={n: str(n) for n in range(0, top + 1, 10)},
        marks=marks,
    )


def noise_panel() -> Panel:
    """The mean square error against the one that was foreseen."""
    single = list(noise_campaign(25, 40_000))
    many = sorted(noise_campaign(PLANTS, 60), key=lambda floor: floor.reach)
    size = PLANTS // 10
    tenths = [_mean(many[start : start + size]) for start in range(0, PLANTS, size)]
    low, high = [(0.4, 0.95), (1.6, 0.95)], [(0.4, 1.05), (1.6, 1.05)]
    return Panel(
        title="Noise floor",
        note="what was measured, as a part of what was foreseen",
        x_label="G·Kp",
        y_label="measured / foreseen",
        x_range=(0.4, 1.6),
        y_range=(0.8, 1.2),
        x_ticks={n / 10: f"{n / 10:.1f}" for n in range(4, 17, 2)},
        y_ticks={n / 100: f"{n / 100:.2f}" for n in range(80, 121, 10)},
        marks=[
            Band(lower=low, upper=high, colour=GREY, name="within five per cent"),
            Line(points=tenths, colour=BLUE, name="10,000 plants of 60 repairs, by tenths"),
            Dots(
                points=[(each.reach, each.measured / each.expected) for each in single],
                colour=ORANGE,
                name="single plants of 40,000 repairs",
            ),
        ],
    )


def _mean(floors: list[Floor]) -> tuple[float, float]:
    count = len(floors)
    return sum(each.reach for each in floors) / count, sum(e.measured / e.expected for e in floors) / count


def stability_panel() -> Panel:
    """Which gains a long run shows to be stable, and the bound."""
    random, stable, unstable = lots(), list[tuple[float, float]](), list[tuple[float, float]]()
    for _ in range(700):
        p, i = random.uniform(0.01, 2.4), random.uniform(0.01, 4.0)
        grown = growth(ControlSpec(gain=0.5, kp=p / 0.5, ki=i / 0.5))
        (stable if grown < 0 else unstable).append((p, i))
    return Panel(
        title="Stability, with an integral term",
        note="each dot is a loop that was run for 1,000 repairs",
        is_named_on_top=True,
        x_label="G·Kp",
        y_label="G·Ki",
        x_range=(0, 2.4),
        y_range=(0, 4),
        x_ticks={n / 10: f"{n / 10:.1f}" for n in range(0, 25, 4)},
        y_ticks={n: str(n) for n in range(5)},
        marks=[
            Dots(points=stable, colour=BLUE, radius=2.2, name="the error dies away"),
            Dots(points=unstable, colour=RED, radius=2.2, name="the error grows"),
            Line(points=[(0, 4), (2, 0)], colour="#1f2933", name="the bound that a pack must keep"),
        ],
    )


def convergence_panel() -> Panel:
    """One controller, foreseen and seen."""
    spec = ControlSpec(
        setpoint=0.95, epsilon=0.05, gain=0.4, kp=1.5, u_max=0.8, sigma=0.03, k_max=9, delta_min=0
    )
    trial, noise = Trial(spec=spec, quality=0.1), lots()
    foreseen = [(number, 0.95 - error) for number, error in enumerate(predict(spec, 0.1).errors)]
    marks: list[Mark] = []
    for number in range(40):
        rows = record(trial, str(number), noise)
        points = [(0, 0.1), *((row.iteration + 1, row.after) for row in rows)]
        name = "40 runs with noise" if not number else ""
        marks.append(Line(points=points, colour=ORANGE, width=1, opacity=0.35, name=name))
    marks.append(Line(points=foreseen, colour=BLUE, width=3, name="foreseen, without noise"))
    marks.append(
        Line(points=[(0, 0.9), (7, 0.9)], colour=RED, width=1.5, is_dashed=True, name="accepted from")
    )
    return Panel(
        title="A loop, with clamp and noise",
        note="G 0.4, Kp 1.5, intensity at most 0.8, noise 0.03",
        x_label="repairs",
        y_label="quality",
        x_range=(0, 7),
        y_range=(0, 1.1),
        x_ticks={n: str(n) for n in range(8)},
        y_ticks={n / 10: f"{n / 10:.1f}" for n in range(0, 12, 2)},
        marks=marks,
    )


def main() -> None:
    """Writes the picture."""
    panels = [repairs_panel(), noise_panel(), stability_panel(), convergence_panel()]
    PICTURE.write_text(draw(panels, columns=2, size=(470, 350)), encoding="utf-8")


if __name__ == "__main__":
    main()
