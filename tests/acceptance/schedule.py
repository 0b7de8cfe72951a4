"""Which trials a campaign consists of: what is run, and which of its processes die where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from tercet.testing.crash_points import POINTS

from .sagas import ENDINGS
from .trial import RANDOM, Trial, death

SCENES = (
    "twelve:read_only",
    "twelve:idempotent",
    "twelve:reconcile",
    "twelve:nothing",
    "refunds:idempotent",
    "refunds:reconcile",
    "refunds:nothing",
    "lanes:idempotent",
    "lanes:reconcile",
    "lanes:nothing",
)
HANGS = {"twelve": "s06", "refunds": "s3", "lanes": "s9"}
"""In each pack the step that is made to outlive its time."""
HAUNTED = ("twelve:idempotent", "twelve:fenced", "twelve:reconcile", "twelve:nothing", "refunds:nothing")
SAGAS = (
    *(f"{ending}:{way}" for ending in ENDINGS for way in ("read_only", "idempotent", "reconcile", "nothing")),
    "denied:broken",
)

WHILE_A_GATE_OPENS = (
    ("before_append:2", "inside_commit:2"),
    ("after_append:2", "inside_checkpoint:1"),
    ("after_commit:2", "before_append:1"),
    ("after_effect:1", "after_append:1"),
    (RANDOM, RANDOM),
)
"""The second append of the first worker, and the first of one that comes after it, hold the opening of a gate."""
WHILE_IT_IS_ANSWERED = (
    ("before_post:1", "inside_commit:1", "after_append:1"),
    ("after_post:1", "before_append:1", "inside_commit:3"),
    ("before_append:1", "inside_commit:2", "after_post:1"),
    ("after_commit:1", "after_append:1", "after_commit:2"),
    (RANDOM, RANDOM, RANDOM),
)
"""Around the message in the inbox, and around the event that it becomes, or that says that the gate has expired."""
WHILE_EFFECTS_ARE_TAKEN_BACK = (
    ("before_append:1", "inside_commit:2", "after_append:1"),
    ("inside_checkpoint:1", "after_commit:2", "before_call:1"),
    ("before_effect:1", "after_effect:1", "after_answer:1"),
    ("before_append:2", "after_effect:2", "before_append:3"),
    (RANDOM, RANDOM, RANDOM),
)
"""Between INTENT and call, effect and answer, answer and COMPLETE, inside the commit, and between two ways back."""

DEATHS = tuple(
    sorted(
        {
            death(doing, kill)
            for doing, plans in (
                ("acting", WHILE_A_GATE_OPENS),
                ("answering", WHILE_IT_IS_ANSWERED),
                ("undoing", WHILE_EFFECTS_ARE_TAKEN_BACK),
            )
            for kills in plans
            for kill in kills
        }
    )
)
"""What somebody must have died of on each journal, or the campaign has shown less than it says."""


def trials(journal: str, folder: Path, rounds: int) -> Iterator[Trial]:
    """The trials on one journal: every point, four times in a row; random instants; calls that outlive their time."""
    for scene in SCENES:
        pack = scene.partition(":")[0]
        later = 3 if pack == "twelve" else 1
        for turn in range(rounds):
            for point in POINTS:
                kills = (f"{point}:{1 + turn}", f"{point}:{later + turn}", f"{point}:1", f"{point}:1")
                yield trial(journal, folder, scene, kills)
            for number in range(5):
                yield trial(journal, folder, scene, (RANDOM,) * 3, seed=turn * 5 + number)
        for number, kill in enumerate(("", "after_effect:2", "after_answer:2", "before_append:4", RANDOM)):
            kills = (kill,) if kill else ()
            yield trial(journal, folder, scene, kills, hang=HANGS[pack], seed=number)


def sagas(journal: str, folder: Path, rounds: int) -> Iterator[Trial]:
    """The trials in which people answer and effects are taken back: workers and approvers are killed in each."""
    plans = (WHILE_A_GATE_OPENS, WHILE_IT_IS_ANSWERED, WHILE_EFFECTS_ARE_TAKEN_BACK)
    seeds = count()
    for scene in SAGAS:
        for _ in range(rounds):
            for opening, answering, undoing in zip(*plans, strict=True):
                seed = next(seeds)  # an odd one leaves a gate that is to expire alone
                yield trial(journal, folder, scene, opening, undo=undoing, spoken=answering, seed=seed)


def trial(
    journal: str,
    folder: Path,
    scene: str,
    kills: Sequence[str] = (),
    *,
    undo: Sequence[str] = (),
    spoken: Sequence[str] = (),
    hang: str = "",
    seed: int = 0,
) -> Trial:
    """A trial, named after what is done in it."""
    words = [journal.partition(":")[0], scene, *kills, hang, str(seed)]
    name = "-".join(filter(None, words)).replace(":", "_")
    return Trial(
        name=name,
        journal=journal.format(name=name),
        scene=scene,
        kills=kills,
        undo_kills=undo,
        spoken_kills=spoken,
        hang=hang,
        folder=folder,
        seed=seed,
    )
