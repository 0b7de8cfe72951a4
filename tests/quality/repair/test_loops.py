"""Going round in circles: how it is noticed, and what is done about it, one thing after the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.evidence import Evidence
from tercet.contracts.outputs.quality import CritiqueDiagnosis, Defect, DefectSeverity, RepairLog
from tercet.contracts.outputs.repair import LoopBreak, LoopMemory, RepairResult, RepairRules
from tercet.contracts.question import Question, Reply
from tercet.quality.repair.escalation import Resources, impression_of, is_like, notice, similarity
from tercet.quality.repair.phase import OTHER_MODEL, RepairCase, repair_output

RULES = RepairRules(loop_window=3)
WORDS = " ".join(f"word{number}" for number in range(200))


def defect(description: str, dimension: str = "coherence") -> Defect:
    return Defect(
        dimension=dimension, severity=DefectSeverity.LOW, description=description, location="/t@0-4"
    )


VAGUE, UGLY = defect("it is vague"), defect("quite another thing", "style")


@pytest.mark.req("R226")
@pytest.mark.parametrize(
    ("text", "diagnosis", "is_so"),
    [
        (WORDS, VAGUE, True),
        (WORDS + " more", VAGUE, True),
        (WORDS, UGLY, False),
        (" ".join(reversed(WORDS.split())), VAGUE, False),
        (" ".join(reversed(WORDS.split())), UGLY, False),
    ],
)
def test_a_loop_is_a_similar_output_with_a_similar_diagnosis(
    text: str, diagnosis: Defect, *, is_so: bool
) -> None:
    """Both at once, and not one of them; nearly the same is the same."""
    before = impression_of({"t": WORDS}, [VAGUE])
    assert is_like(before, impression_of({"t": text}, [diagnosis]), 0.9) is is_so


@pytest.mark.req("R226")
def test_nearly_the_same_diagnosis_is_the_same() -> None:
    """One word more in a long description changes nothing."""
    one, other = (impression_of({"t": "x"}, [defect(WORDS + more)]) for more in ("", " more"))
    assert one.diagnosis != other.diagnosis
    assert is_like(one, other, 0.9)
    assert not is_like(one, other, 1.0)


@pytest.mark.req("R227")
@pytest.mark.parametrize(("loops", "temperature"), [(0, 0.0), (1, 0.0), (2, 0.7), (3, 0.7)])
def test_from_the_second_loop_on_a_model_is_asked_in_another_way(loops: int, temperature: float) -> None:
    """The rung that was reached stays in force in the phases that follow."""
    _, asked = phase(LoopMemory(loops=loops), RepairLog(), Resources())
    assert isinstance(asked[0], Question)
    assert asked[0].temperature == temperature


@pytest.mark.req("R226")
def test_only_so_many_outputs_are_remembered() -> None:
    """What is further back than the window is forgotten."""
    seen = [impression_of({"t": f"{number} of a kind"}, [VAGUE]) for number in range(5)]
    memory = LoopMemory()
    for each in seen[:4]:
        memory, rung = notice(memory, each, RULES)
        assert rung is None
    assert memory.impressions == tuple(seen[1:4])
    assert notice(memory, seen[0], RULES)[1] is None
    assert notice(memory, seen[1], RULES)[1] is LoopBreak.SWITCH_STRATEGY


@given(st.lists(st.integers(0, 2), max_size=12), st.integers(1, 4))
def test_the_memory_is_bounded_and_the_ladder_only_goes_up(outputs: list[int], size: int) -> None:
    """Each loop is answered by the next rung, the last one again and again."""
    rules = RepairRules(loop_window=size)
    memory, rungs = LoopMemory(), list[LoopBreak]()
    for number, output in enumerate(outputs):
        is_known = output in outputs[max(0, number - size) : number]
        memory, rung = notice(memory, impression_of({"n": f"{output} apples"}, []), rules)
        assert len(memory.impressions) <= size
        assert (rung is not None) == is_known
        rungs += [rung] if rung else []
    ladder = list(LoopBreak)
    assert rungs == [ladder[min(at, 3)] for at in range(len(rungs))]


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_similarity_is_symmetric_and_bounded(one: list[int], other: list[int]) -> None:
    """1 for the same, 0 for nothing in common, and the same from both sides."""
    assert similarity(one, other) == similarity(other, one)
    assert 0.0 <= similarity(one, other) <= 1.0
    assert similarity(one, list(reversed(one))) == 1.0


def phase(
    memory: LoopMemory, history: RepairLog, resources: Resources
) -> tuple[RepairResult, list[Question | Defect]]:
    """A phase whose model always says the same, and whose defect never goes away: its questions and look-ups."""
    case = RepairCase(
        output={"t": "four words of text"},
        diagnosis=CritiqueDiagnosis(scores={}, defects=(VAGUE,)),
        rules=RepairRules(max_attempts=2),
        resources=resources,
        memory=memory,
        history=history,
    )
    asked: list[Question | Defect] = []

    def fetch(defect: Defect) -> list[Evidence]:
        asked.append(defect)
        return [Evidence(id=f"kg:new:{len(asked)}#snapshot_s", content="something new")]

    inquiry = repair_output(case, lambda _, __: False, fetch=fetch)
    try:
        question = next(inquiry)
        while True:
            asked.append(question)
            question = inquiry.send(
                Reply(text='{"replacement": "four words of text"}', model="m", tokens_out=1)
            )
    except StopIteration as end:
        return end.value, asked


@pytest.mark.req("R227")
def test_the_ladder_that_breaks_a_loop() -> None:
    """Another strategy, another temperature and prompt, fresh evidence, another model: in this order, phase by phase."""
    resources = Resources(can_fetch=True, has_other_model=True)
    memory, history = LoopMemory(), RepairLog()
    breaks: list[LoopBreak] = []
    asked: list[Question | Defect] = []
    strategies: list[str] = []
    for _ in range(4):
        result, commands = phase(memory, history, resources)
        memory = result.memory
        history = RepairLog(entries=(*history.entries, *result.log.entries))
        breaks += result.breaks
        asked += commands
        strategies += [entry.strategy for entry in result.log.entries]
    assert breaks[:4] == list(LoopBreak)
    asks = [each for each in asked if isinstance(each, Question)]
    assert len(set(strategies[:3])) > 1  # another strategy than the one that did not help
    assert asks[0].temperature == 0.0
    warm = next(each for each in asks if each.temperature > 0)
    assert "Take another way" in warm.messages[0].text
    fetched = next(at for at, each in enumerate(asked) if isinstance(each, Defect))
    assert asked.index(warm) < fetched
    assert any("something new" in each.messages[0].text for each in asks)
    other = next(
        at for at, each in enumerate(asked) if isinstance(each, Question) and each.purpose == OTHER_MODEL
    )
    assert fetched < other


@pytest.mark.req("R227")
def test_without_another_model_a_loop_ends_with_a_person() -> None:
    """Nothing is asked any more; what goes round in circles is handed over as that."""
    seen = impression_of({"t": "four words of text"}, [VAGUE])
    result, asked = phase(LoopMemory(impressions=(seen,), loops=3), RepairLog(), Resources(has_human=True))
    assert asked == []
    assert result.outcome == "escalated"
    assert result.breaks == (LoopBreak.OTHER_MODEL_OR_HUMAN,)
    assert result.escalation is not None
    assert "it goes round in circles" in result.escalation.reason
