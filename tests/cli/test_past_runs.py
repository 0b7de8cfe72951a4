"""`tercet control` and `tercet calibrate` on what runs have left in the journal, and weights that are put into force."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tercet.contracts.outputs.exit import Weights
from tercet.engine.streams.experience import RECENT, Experience, Lesson, activate_weights, recall, teach
from tercet.journal.opening import open_journal
from tercet.quality.exit import DEFAULT_WEIGHTS

from .harness import REFUNDS, Tercet
from .runs import Kitchen
from .studio import Studio

TENANT = "default"


def url_of(kitchen: Kitchen) -> str:
    return f"sqlite:///{kitchen.folder}/tercet.db"


async def _teach(url: str, task_class: str, lessons: list[Lesson]) -> None:
    async with open_journal(url) as journal:
        for lesson in lessons:
            await teach(journal, TENANT, task_class, lesson)


def answered(kitchen: Kitchen, number: int, task_class: str = "letter") -> str:
    """A journal in which so many outputs were answered; those that verification likes were mostly taken."""
    draw = random.Random(7)  # noqa: S311 - a fixed sample, not a secret
    lessons: list[Lesson] = []
    for at in range(number):
        verify = draw.random()
        row = {"features": {"verify": verify, "critic": 0.9}, "is_correct": draw.random() < verify**2}
        lessons.append(Lesson(session=f"ses_{at:04}", outcomes=(row,)))
    asyncio.run(_teach(url_of(kitchen), task_class, lessons))
    return url_of(kitchen)


def repaired(kitchen: Kitchen, number: int, task_class: str = "letter") -> str:
    """A journal in which so many outputs were mended once."""
    row = {"task_class": task_class, "iteration": 0, "intensity": 0.5, "before": 0.4, "after": 0.6}
    lessons = [
        Lesson(session=f"ses_{at:04}", observations=({**row, "run": f"ses_{at:04}"},)) for at in range(number)
    ]
    asyncio.run(_teach(url_of(kitchen), task_class, lessons))
    return url_of(kitchen)


@pytest.mark.req("R307")
def test_control_reads_what_runs_have_recorded(studio: Studio) -> None:
    """A run that was steered leaves its repair in the journal of the folder, and its course is shown."""
    before = studio.tercet("control", studio.pack)
    assert "recorded nothing" in before.text
    gate = studio.waiting("bad", "letter")
    assert studio.say("editor_1", "gates", "approve", gate).code == 0
    assert studio.resume(gate).code == 0
    after = studio.tercet("control", studio.pack)
    assert "1 repair of 1 output; 8 repairs are needed" in after.text
    assert "on average" in after.text


@pytest.mark.req("R307")
def test_control_estimates_the_gain_of_each_class(studio: Studio, kitchen: Kitchen) -> None:
    """From the journal that is named; repairs of other classes are none of its own."""
    url = repaired(kitchen, 10)
    repaired(kitchen, 3, "poem")
    told = studio.tercet("control", studio.pack, "--journal", url, "--json").json["classes"]
    assert [(each["task_class"], each["estimate"]["gain"], each["recorded"]["repairs"]) for each in told] == [
        ("letter", 0.4, 10)
    ]


def test_a_file_stands_alone_unless_a_journal_is_named(studio: Studio, kitchen: Kitchen) -> None:
    """Then both count."""
    url = repaired(kitchen, 10)
    file = kitchen.folder / "repairs.jsonl"
    file.write_text(
        '{"task_class": "letter", "run": "x", "iteration": 0, "intensity": 0.5, "before": 0.4, "after": 0.6}\n'
    )

    def repairs(*words: str) -> int:
        told = studio.tercet("control", studio.pack, "--trajectories", file, *words, "--json").json
        return told["classes"][0]["recorded"]["repairs"]

    assert (repairs(), repairs("--journal", url)) == (1, 11)


def test_a_journal_that_is_named_must_be_there(studio: Studio) -> None:
    """Without a name, none is fine."""
    for words in (("control", studio.pack), ("calibrate", "--task-class", "letter")):
        answer = studio.tercet(*words, "--journal", "sqlite:///nowhere.db", "--json")
        assert (answer.code, answer.json["error"]["code"]) == (2, "journal_not_found")
    assert studio.tercet("control", studio.pack).code == 0
    assert not Path("nowhere.db").exists()


@pytest.mark.req("R242")
def test_calibrate_learns_from_what_people_answered(studio: Studio) -> None:
    """Each answer at a gate for outputs is an outcome of the task class, once its run is over."""
    for number, word in enumerate(("approve", "deny", "approve")):
        gate = studio.waiting("good")
        assert studio.say("editor_1", "gates", word, gate).code == 0
        assert studio.resume(gate).code == (5 if number == 1 else 0)
    answer = studio.tercet("calibrate", "--task-class", "letter", "--json")
    assert answer.json["error"]["message"] == "3 outcomes are too few to learn from"


@pytest.mark.req("R242")
def test_fitted_weights_come_into_force(studio: Studio, kitchen: Kitchen) -> None:
    """Only with --apply; the next run of the class goes by them, and says so."""
    answered(kitchen, 60)
    looked = studio.tercet("calibrate", "--task-class", "letter")
    for told in (
        "task class letter",
        "used the default weights",
        "outcomes 60 outputs",
        "Nothing was run, and no pack was changed.",
    ):
        assert told in looked.text
    assert "as calibrated" not in studio.write("letter", "good").text
    applied = studio.say("editor_1", "calibrate", "--task-class", "letter", "--apply")
    assert applied.code == 0
    assert "✓ the fitted weights now apply to letter, as calibration-" in applied.text
    assert "Nothing was run, and" not in applied.text
    run = studio.write("letter", "good", "--json").json
    drawn = run["quality"]["phases"][0]
    told = studio.tercet("calibrate", "--task-class", "letter", "--json").json
    assert (drawn["weights"], told["applied"]) == (told["in_force"], None)
    assert drawn["weights"]["sample"] == 60
    assert drawn["weights"]["weights"]["verify"] != DEFAULT_WEIGHTS.weights["verify"]
    assert "confidence as calibrated on 60 outcomes" in studio.write("letter", "good").text
    assert "used weights fitted to 60 outcomes" in studio.tercet("calibrate", "--task-class", "letter").text


def test_a_file_of_outcomes_can_come_into_force_too(studio: Studio, kitchen: Kitchen) -> None:
    """For the class that is named; what the journal holds is left out unless it is named."""
    answered(kitchen, 30)
    file = kitchen.folder / "outcomes.jsonl"
    file.write_text('{"features": {"verify": 1.0}, "is_correct": true}\n' * 25)
    told = studio.tercet("calibrate", "--outcomes", file, "--task-class", "letter", "--apply", "--json").json
    assert (told["weights"]["sample"], told["task_class"]) == (25, "letter")
    assert told["applied"].startswith("calibration-")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), "usage"),
        (("--apply", "--outcomes", "-"), "usage"),
        (("PACK",), "task_class_unclear"),
        ((str(REFUNDS),), "task_class_unclear"),
        (("--task-class", "letter"), "journal_not_found"),
        (("--task-class", "letter", "--outcomes", "-", "--apply"), "journal_not_found"),
    ],
)
def test_what_is_not_said_is_asked_for(
    tercet: Tercet, studio: Studio, words: tuple[str, ...], code: str
) -> None:
    """Exit 2, with what to say."""
    given = [str(studio.pack) if word == "PACK" else word for word in words]
    answer = tercet("calibrate", *given, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, code)
    assert answer.json["error"]["remedy"]


def test_weights_stay_in_force_however_many_runs_follow() -> None:
    """A run looks so many lessons back; weights are looked up apart from them, and the last ones count."""

    async def main() -> Experience:
        async with open_journal("memory:") as journal:
            for number, sample in enumerate((30, 40)):
                weights = Weights(bias=1.0, weights={}, centers={}, sample=sample)
                await activate_weights(journal, TENANT, "letter", weights, by="ada", now=1_000 + number)
            for number in range(RECENT + 1):
                await teach(journal, TENANT, "letter", Lesson(session=f"ses_{number}", pattern={"a": 1.0}))
            return await recall(journal, TENANT, "letter")

    known = asyncio.run(main())
    assert known.weights is not None
    assert known.weights.sample == 40
    assert [lesson.by for lesson in known.lessons if lesson.weights] == ["ada"]
