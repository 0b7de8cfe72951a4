"""The quality loop on the screen: what was judged, what was mended, and what a person is asked about it."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from engine.test_quality_best import mend
from engine.workshop import Workshop
from tercet.cli.screen import Screen
from tercet.contracts.outputs.quality import CritiqueDiagnosis, Defect, DefectSeverity
from tercet.core import events as e
from tercet.quality.verification.consistency import vote_exactly
from tercet.view.terminal.outputs import MOST, details, headline, show_quality
from tercet.view.text import score

from .harness import Tercet
from .studio import Studio

FORGED = ("  by        anybody", "  gate      ses_1.g9")


def is_inert(text: str) -> bool:
    """Whether a text can neither steer a terminal nor reorder or hide what is on it."""
    letters = text.replace("\n", "")
    return not any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in letters)


@pytest.mark.req("R245")
def test_a_run_tells_every_phase(studio: Studio) -> None:
    """What was verified, each defect with its place, each attempt with its cause and success, and each limit."""
    answer = studio.write("letter", "bad")
    assert answer.code == 4
    lines = [line.strip() for line in answer.out.splitlines()]
    for told in (
        "· task class letter: no earlier runs to learn from",
        "· read 1 text in en",
        "critical safety: it holds something that must not go out: payment provider key  /letter#char=99,127",
        "critical correctness: '9 May 2026' is ungrounded: no known value equals it  /letter#char=47,57",
        "✓ repair: 2 of 3 attempts helped, 1 to be checked again",
        "✓ verified 1: 3 values: 2 bound, 1 found; 1 text unjudged",
        "? nothing vouches for these words  /letter",
        "? it has words that nothing and nobody vouches for",
    ):
        assert told in lines
    for told in (
        "✓ tests letters.proofread: 2 tests passed",
        "✗ critique 0.",
        "high completeness: the section 'Returns' is missing",
        "1 repair predicted for",
        "✓ MINIMAL_EDIT by rule, SAFETY_VIOLATION: safety: it holds something that must not go out",
        "redact: changed /letter#char=105,133",
        "✓ SECTION_REWRITE by rule, INCOMPLETENESS: completeness: the section 'Returns' is missing",
        "no defects",
        "✓ schema 1 ≥ 1, ✓ policy 1 ≥ 1, ✓ safety 1 ≥ 0.98, ✓ correctness ",
        "✓ test_pass_rate 1 ≥ 1",
        "[redacted]",
    ):
        assert told in answer.text
    assert answer.out.count("verified 0.") + answer.out.count("verified 1:") == 2
    assert "sk_live" not in answer.out


def test_only_what_failed_is_shown_as_failed(studio: Studio) -> None:
    """VERIFY fails by what it refuses, and a critique names the dimension that is too low, with its score."""
    answer = studio.write("letter", "bad")
    assert answer.text.count("✗ verified 0.33: 3 values: 1 found, 2 unknown; 1 missing") == 1
    assert answer.text.count("✓ verified 1: ") == 1
    assert "under their minimum: correctness 0.33, completeness 0.5, safety 0" in answer.text


def test_a_session_is_shown_with_what_became_of_its_outputs(studio: Studio) -> None:
    """By `show` and by `watch`, in the words of the run; JSON has every phase as it was recorded."""
    gate = studio.waiting("bad", "letter")
    assert studio.say("editor_1", "gates", "approve", gate).code == 0
    told = studio.resume(gate, "--json").json
    session = told["session_id"]
    shown = studio.tercet("sessions", "show", session)
    for line in (
        "1 repair of 3",
        "✓ repair: 2 of 3 attempts helped",
        "? exit ESCALATE: a person must say yes: unjudged",
        "✓ coherence 1 ≥ 0.8",
    ):
        assert line in shown.text
    watched = studio.tercet("sessions", "watch", session)
    assert "✓ repair: 2 of 3 attempts helped" in watched.text
    assert "critical safety: it holds something that must not go out" in watched.text
    quality = studio.tercet("sessions", "show", session, "--json").json["quality"]
    assert quality == told["quality"]
    assert [phase["type"] for phase in quality["phases"]] == [
        "experience_drawn",
        *("outputs_read", "tests_run", "outputs_verified", "outputs_critiqued"),
        "outputs_repaired",
        *("outputs_read", "tests_run", "outputs_verified", "outputs_critiqued"),
    ]
    assert (quality["repairs"], quality["exit"]["outcome"], quality["left"]) == (1, "ESCALATE", None)
    assert len(quality["course"]) == 2
    assert quality["phases"][5]["log"][1]["root_cause"] == "SAFETY_VIOLATION"


@pytest.mark.req("R165")
def test_a_broken_form_is_told_and_goes_to_repair(studio: Studio) -> None:
    """Each fault with its place; no critique stands between them."""
    answer = studio.write("letter", "form")
    lines = [line.strip() for line in answer.out.splitlines()]
    broken = lines.index("✗ verified 0: the schema is violated, so nothing else is checked")
    assert lines[broken + 1].startswith("✗ 7 is not of type")
    assert lines[broken + 1].endswith("/letter")
    assert lines[broken + 2] == "✓ repair: 1 of 1 attempt helped"


def test_failed_tests_are_told_one_by_one(studio: Studio) -> None:
    """The run goes to a person with the limit that was missed, and with what nobody could mend."""
    answer = studio.write("letter", "form")
    assert answer.code == 5
    for told in (
        "✗ tests letters.proofread: 2 of 2 tests failed",
        "✗ letter.it_has_a_heading",
        "what is left goes no further, with a diagnosis",
        "✗ left: tests: the test letter.it_says_when fails (",
        "✗ test_pass_rate 0 < 1",
        "✗ escalated: ",
        "test_pass_rate is 0.0, below 1.0",
    ):
        assert told in answer.text
    gate = studio.tercet("gates", "list", "--json").json["gates"][0]["id"]
    page = studio.tercet("gates", "show", gate)
    for told in (
        "critique: 3 defects",
        "✓ SECTION_REWRITE by rule, INCOMPLETENESS",
        "✗ test_pass_rate 0 < 1",
        "✗ tests: the test letter.it_has_a_heading fails (logic error; no repair was tried:",
        "gates decide",
    ):
        assert told in page.text


@pytest.mark.req("R245")
def test_an_editor_sees_outputs_limits_and_advice(studio: Studio) -> None:
    """All that was decided by, what is advised, who may answer, and the three answers."""
    gate = studio.waiting("bad")
    page = studio.say("editor_1", "gates", "show", gate)
    lines = [line.strip() for line in page.out.splitlines()]
    for line in (
        "? should the outputs of this run be accepted? (GATE_EDITOR)",
        "why       a person must say yes: low_confidence, required, novel, unjudged",
        "advice    compare them with the draft: a rule has replaced values",
        "limits    ✓ schema 1 ≥ 1",
        "✓ safety 1 ≥ 0.98",
        "asked     confidence is too low to commit without asking",
        "the decision wants a person to accept it",
        "nothing like it was run before",
        "repairs   1",
        "outputs   letter =",
        "│ # Your order ord_881",
        "by        GATE_EDITOR: 1 person with the role editor",
        "a person other than writer, who started the run",
        f"gate      {gate}",
        f"tercet gates approve {gate}",
        f"tercet gates deny {gate}",
        f"tercet gates modify {gate} --note 'what to change'",
    ):
        assert line in lines
    assert "confidence 0." in page.out
    told = studio.say("editor_1", "gates", "show", gate, "--json").json
    assert (told["kind"], told["shown"]["recommended"]) == ("output", "compare")
    assert [word.split()[2] for word in told["next"]] == ["approve", "deny", "modify"]
    assert "should the outputs of this run be accepted?" in studio.tercet("gates", "list").text


@pytest.mark.req("R142")
def test_an_approval_commits_and_a_denial_rejects(studio: Studio) -> None:
    """Not by the one who asked for it; what was said is in the session."""
    gate = studio.waiting("good")
    own = studio.say("rosa", "gates", "approve", gate, "--json")
    assert (own.code, own.json["error"]["code"]) == (2, "own_gate")
    assert studio.say("editor_1", "gates", "approve", gate).code == 0
    assert "✓ completed" in studio.resume(gate).text
    told = studio.tercet("sessions", "show", gate.partition(".")[0], "--json").json
    recorded = told["decision_record"]["approvals"]
    assert [(each["approver"], each["decision"], each["gate"]) for each in recorded] == [
        ("editor_1", "approve", "GATE_EDITOR")
    ]
    other = studio.waiting("good")
    assert studio.say("editor_1", "gates", "deny", other, "--note", "too dry").code == 0
    ended = studio.resume(other)
    assert (ended.code, "✗ rejected: editor_1 denied the outputs: too dry" in ended.text) == (5, True)


@pytest.mark.req("R145")
def test_outputs_that_are_sent_back_go_into_repair(studio: Studio) -> None:
    """With the words of the editor, which nobody here can follow; then they are judged and asked about again."""
    gate = studio.waiting("good")
    wordless = studio.say("editor_1", "gates", "modify", gate, "--json")
    assert (wordless.code, wordless.json["error"]["code"]) == (2, "note_missing")
    sent = studio.say("editor_1", "gates", "modify", gate, "--note", "say when it comes")
    assert f"{gate} is sent back by editor_1 (editor)" in sent.text
    again = studio.resume(gate)
    assert again.code == 4
    assert "✗ left: feedback: say when it comes (" in again.text
    second = gate.replace(".g1", ".g2")
    assert f"tercet gates approve {second}" in again.text
    assert "left ✗ feedback: say when it comes" in studio.tercet("gates", "show", second).text


def test_outputs_are_inert_on_every_page(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither codes for the terminal nor lines that look like rows of the page; not where lines are wrapped either."""
    gate = studio.waiting("hostile", "unread")
    session = gate.partition(".")[0]
    pages = [("gates", "show", gate), ("gates", "list"), ("sessions", "show", session)]
    for width in ("40", "100"):
        monkeypatch.setenv("COLUMNS", width)
        for words in pages:
            shown = studio.tercet(*words)
            assert is_inert(shown.out), words
            assert not any(line.startswith(FORGED) for line in shown.out.splitlines()), words
        page = studio.tercet("gates", "show", gate).out.splitlines()
        first = next(at for at, line in enumerate(page) if line.endswith("letter ="))
        quoted = [line for line in page[first + 1 :] if line.startswith(" " * 12)]
        last = next(at for at, line in enumerate(quoted) if "ses_1.g9" in line)
        assert any("anybody" in line for line in quoted[:last])
        assert all(line[12:].startswith("│") for line in quoted[: last + 1])


def test_many_defects_are_cut_short_on_the_screen() -> None:
    """The first dozen stand there, and how many more there are; their words are inert."""
    defects = tuple(
        Defect(
            dimension="tone\x1b[2J",
            severity=DefectSeverity.LOW,
            description=f"\u202eit is rude {number}",
            location=f"/letter#char={number},{number}",
        )
        for number in range(MOST + 5)
    )
    event = e.OutputsCritiqued(
        at=1,
        diagnosis=json.loads(CritiqueDiagnosis(scores={}, defects=defects).model_dump_json()),
        rubric={"weighted": 0.1, "threshold": 0.8, "passed": False, "below": ["tone\x07"]},
        confidence={"value": 0.2},
        exit={},
        next="exit",
    )
    lines = [line.plain for line in details(event)]
    assert len(lines) == MOST + 1
    assert lines[0].startswith("low tone\\x1b[2J: \\u202eit is rude 0  /letter")
    assert lines[-1] == "… 5 more; --json has them"
    assert all(map(is_inert, [*lines, headline(event).plain]))


def test_models_that_did_not_answer_are_told() -> None:
    """Each reason once, and inert."""
    event = e.OutputsRepaired(at=1, outputs={}, faults={"0": "down\x1b[2J", "1": "down\x1b[2J", "2": "late"})
    assert [line.plain for line in details(event)] == ["✗ no answer: down\\x1b[2J", "✗ no answer: late"]


def test_what_was_looked_for_before_a_repair_is_told() -> None:
    """How much was found, and what; its names are inert."""
    found = e.EvidenceFetched(at=1, refs=("kg:order:1#snapshot_s1", "kg:\x1b[2J"), facts="sha256:1")
    assert headline(found).plain == "· more evidence was requested: 2 facts found"
    assert [line.plain for line in details(found)] == ["kg:order:1#snapshot_s1", "kg:\\x1b[2J"]
    assert headline(e.EvidenceFetched(at=1)).plain.endswith("nothing new")


def test_tools_that_were_called_again_before_a_repair_are_told() -> None:
    """How many calls were made again and brought something, each with its step; why one did not is inert."""
    results = (
        e.ToolRetry(step="fee", tool="shop.fee", result={"fee": 7}),
        e.ToolRetry(step="tax", tool="shop.tax", error="closed\x1b[2J"),
    )
    event = e.EvidenceFetched(at=1, results=results, calls=2)
    assert headline(event).plain == "· 2 failed calls made again: 1 returned a result"
    assert [line.plain for line in details(event)] == [
        "✓ fee: shop.fee returned a result",
        "✗ tax: shop.tax failed: closed\\x1b[2J",
    ]
    both = e.EvidenceFetched(at=1, queries=({"query": "fee"},), results=results[:1], calls=1)
    assert headline(both).plain == (
        "· more evidence was requested: nothing new; 1 failed call made again: 1 returned a result"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.849999, "0.84"), (0.85, "0.85"), (1.0, "1"), (0.29, "0.29"), (None, "not measured")],
)
def test_a_score_below_a_limit_never_looks_like_it(value: float | None, shown: str) -> None:
    """It is cut off, not rounded."""
    assert score(value) == shown


def test_runs_without_the_loop_say_nothing_of_it(tercet: Tercet, studio: Studio) -> None:
    """No phase is shown, and JSON has null."""
    told = studio.write("letter", "good", "--shadow", "--json").json
    assert told["quality"] is None
    assert "verified 1" not in tercet("sessions", "show", told["session_id"]).text


def test_outputs_that_are_not_the_last_are_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """Below the exit stands which round it is about."""
    run = mend(Workshop(), "3 draft", "1 worse")
    show_quality(Screen(), run.found)
    text = " ".join(capsys.readouterr().out.split())
    assert "test_pass_rate is 0.75, below 1.0" in text
    assert "these are the outputs before the first of 1 repair: what came later was judged worse" in text


def test_an_attack_is_told_with_what_broke_the_outputs() -> None:
    """How many cases there were, each that broke something, why not all were tried, and that no model answered."""
    tried = (
        {"case": {"input": {"n": 0}}, "error": "boom\x1b[31m"},
        {"case": {"input": {"n": 1}}, "actual": {"value": 1}},
    )
    made = e.OutputsAttacked(at=0, number=0, tool="try.it", tried=tried, faults={"0": "nobody is there"})
    assert headline(made).plain == "✗ attack try.it: 1 of 2 edge cases broke it"
    told = [line.plain for line in details(made)]
    assert told[0].startswith('✗ a valid input fails: {"n":0} gives boom')
    assert told[1] == "✗ no answer: nobody is there"
    assert all(map(is_inert, told))
    stood = e.OutputsAttacked(at=0, number=0, tool="try.it", tried=tried[1:])
    assert headline(stood).plain == "✓ attack try.it: it withstood 1 edge case"
    short = e.OutputsAttacked(at=0, number=0, tool="try.it", error="no calls are left")
    assert headline(short).plain.endswith("not all was tried: no calls are left")


def test_drawn_samples_are_told_with_how_far_they_agree() -> None:
    """The share that agrees, whether that is enough, and which one is taken; or why there are not enough of them."""
    agreed = vote_exactly(["b", "a", "a"])
    made = e.SamplesDrawn(
        at=0, step="draft", samples=("b", "a", "a"), consistency=agreed.model_dump(mode="json")
    )
    assert headline(made).plain == "✗ 3 samples of draft agree at 0.66, too few; number 2 is taken"
    sure = vote_exactly(["a", "a", "a"]).model_dump(mode="json")
    told = headline(e.SamplesDrawn(at=0, step="draft", samples=("a", "a", "a"), consistency=sure)).plain
    assert told == "✓ 3 samples of draft agree at 1; number 1 is taken"
    none = e.SamplesDrawn(at=0, error="no step has brought letter")
    assert headline(none).plain == "✗ not enough samples: no step has brought letter"


def test_what_is_as_it_was_is_not_told_twice(studio: Studio) -> None:
    """Tests that fail as before are told in one line, and defects that are still the same are not listed again."""
    lines = studio.write("letter", "form").out.splitlines()
    assert sum("letter.it_has_a_heading" in line for line in lines if "critic" not in line) == 5
    assert sum(line.startswith("✗ tests letters.proofread: 2 of 2 tests failed") for line in lines) == 3
    assert sum(line.endswith(", as before") for line in lines) == 3
    again = next(number for number, line in enumerate(lines) if line == "    the same as before")
    assert lines[again - 1].startswith("✗ critique 0.")


def test_why_a_run_escalates_is_told_once(studio: Studio) -> None:
    """The reasons stand in the ending; the line of the verdict has its thresholds below it."""
    lines = studio.write("letter", "form").out.splitlines()
    verdict = lines.index("✗ the critic says escalate")
    assert "✗ test_pass_rate 0 < 1" in lines[verdict + 1]
    assert sum("test_pass_rate is 0.0, below 1.0" in line for line in lines) == 1


def test_an_output_of_several_lines_is_shown_as_lines(tercet: Tercet) -> None:
    """A letter can be read on the screen as it will be sent."""
    pack = Path(__file__).parents[2] / "examples" / "letters"
    answer = tercet("run", str(pack), "--intent", "letters.confirm", "--input", '{"order_id": "ord_4471"}')
    assert answer.code == 0
    shown = [line.strip() for line in f"{answer.out}\n{answer.err}".splitlines()]
    assert "│ # Your order ord_4471" in shown
    assert "│ Dear Asha Rao," in shown
