"""Every judgement is replayable: the same facts give the same scores, in any process, to the last byte."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from critic.test_purity import lock
from tercet.quality.rubric.adversarial import PROBES, judge_probes
from tercet.quality.rubric.critique import critique, weigh
from tercet.quality.verification.consistency import vote_by_similarity, vote_exactly
from tercet.quality.verification.traces import analyse
from tercet.quality.verification.verification import verify_output

from .test_critique import LETTER, given_letter
from .test_test_reports import PYTHON
from .test_verification import BAD, GOOD, KNOWN, read, spec

TESTS = Path(__file__).resolve().parents[2]
SOURCE = given_letter()
READ = [read(f"{GOOD} {BAD} Paragraph {number}.") for number in range(40)]
"""Texts as they were read: a fact, which is judged without the library that reads them."""


def judgements() -> Iterator[BaseModel]:
    """One of each kind of judgement."""
    source = SOURCE
    diagnosis = critique(source, besides=judge_probes(PROBES, {"letter": PROBES[0].canary}))
    yield diagnosis
    yield weigh(source.rubric, diagnosis.scores)
    for each in READ:
        yield verify_output(spec(), {"letter": each.text}, [each], KNOWN)
    yield verify_output(spec(), {"letter": 3}, [], KNOWN)
    yield vote_by_similarity([LETTER, LETTER.replace("25", "26"), "No."])
    yield vote_exactly([1, 2, 2])
    if (analysis := analyse(PYTHON)) is not None:
        yield analysis


def everything() -> str:
    """All judgements, as text."""
    return "\n".join(item.model_dump_json() for item in judgements())


def answer() -> None:
    """What a process prints when it is asked."""
    sys.stdout.write(everything())


def answer_locked() -> None:
    """What the guarded process does: warm up, lock the doors, judge again, compare."""
    before = everything()
    write, flush, leave = sys.stdout.write, sys.stdout.flush, os._exit  # pyright: ignore[reportPrivateUsage] - leaving must not run hooks
    lock()
    write("same" if everything() == before else "another answer")
    flush()
    leave(0)


def asked(function: str, **environment: str) -> str:
    """What a fresh process says."""
    code = f"from quality.outputs.test_outputs_replay import {function}; {function}()"
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code],
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_same_facts_give_the_same_bytes_in_any_process() -> None:
    """Hash seed, time zone and language change nothing."""
    here = asked("answer", PYTHONHASHSEED="0", TZ="UTC", LANG="C")
    assert here == asked(
        "answer", PYTHONHASHSEED="4242", TZ="Asia/Kolkata", LANG="tr_TR.UTF-8", LC_ALL="tr_TR.UTF-8"
    )
    assert here.count("\n") > 40


@pytest.mark.slow
@pytest.mark.req("R81")
def test_judging_touches_nothing_outside() -> None:
    """With clock, lots, environment, files, sockets and imports locked away, every judgement is the same as before."""
    assert asked("answer_locked") == "same"
