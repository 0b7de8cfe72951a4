"""What a retry undoes, keeps and patches."""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tercet.critic.pluggable.critic import ToolResults
from tercet.critic.pluggable.shorthand import CriticReturn
from tercet.critics import (
    CriticResult,
    CriticStateError,
    PatchError,
    SelfReflectionCritic,
    apply_patches,
    copy_metadata,
    copy_state,
    critic,
    restore,
)

PROMPT = "You are a clerk."


@dataclass
class State:
    """A run's state."""

    notes: list[str] = field(default_factory=list[str])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Frozen:
    """A state that cannot be assigned to."""

    total: int = 0
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Slotted:
    """A state with fixed attributes."""

    total: int = 0


class Model(BaseModel):
    """A state with declared fields."""

    total: int = 0


@critic(name="format_enforcer")
def enforce_json(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
    """Ask for JSON with one more instruction."""
    if decision.mode == "final" and not (decision.final_answer or "").strip().startswith("{"):
        return CriticResult("retry", "not JSON", 0.2, instruction_patch="Answer in JSON only.")
    return "continue"


@critic
def be_concise(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
    """Ask for a shorter answer."""
    if decision.mode == "final" and len(decision.final_answer or "") > 2000:
        return "retry", "too long", "Stay under 2000 characters."
    return "continue"


def test_format_enforcer() -> None:
    """An answer that is not JSON is retried with an instruction, and JSON passes."""
    result = enforce_json.evaluate(None, SimpleNamespace(mode="final", final_answer="yes"), [])
    assert (result.action, result.score) == ("retry", 0.2)
    assert apply_patches(State(), PROMPT, result).prompt == "You are a clerk.\n\nAnswer in JSON only."
    assert (
        enforce_json.evaluate(None, SimpleNamespace(mode="final", final_answer=' {"a": 1}'), []).action
        == "continue"
    )


def test_be_concise() -> None:
    """A long answer is retried with the instruction from the tuple."""
    result = be_concise.evaluate(None, SimpleNamespace(mode="final", final_answer="x" * 2001), [])
    assert apply_patches(State(), PROMPT, result).prompt == "You are a clerk.\n\nStay under 2000 characters."
    assert (
        be_concise.evaluate(None, SimpleNamespace(mode="final", final_answer=None), []).action == "continue"
    )


@pytest.mark.parametrize(
    ("result", "prompt"),
    [
        (CriticResult("retry"), PROMPT),
        (CriticResult("retry", instruction_patch=""), PROMPT),
        (CriticResult("retry", instruction_patch="Be brief."), "You are a clerk.\n\nBe brief."),
        (CriticResult("retry", modified_prompt="You are a judge."), "You are a judge."),
        (CriticResult("retry", modified_prompt=""), ""),
        (
            CriticResult("retry", instruction_patch="Be brief.", modified_prompt="You are a judge."),
            "You are a judge.\n\nBe brief.",
        ),
        (CriticResult("retry", instruction_patch="Be brief.", modified_prompt=""), "Be brief."),
    ],
)
def test_prompt_patches(result: CriticResult, prompt: str) -> None:
    """A modified prompt replaces, an instruction is appended, and both do so in this order."""
    assert apply_patches(State(), PROMPT, result).prompt == prompt


@pytest.mark.parametrize("action", ["continue", "stop"])
def test_patches_need_a_retry(action: Any) -> None:
    """With another action the patches have no effect."""
    state = State()
    result = CriticResult(action, instruction_patch="a", state_patch={"notes": ["x"]}, modified_prompt="b")
    patched, prompt = apply_patches(state, PROMPT, result)
    assert patched is state
    assert (state, prompt) == (State(), PROMPT)


def test_state_patch_sets_attributes() -> None:
    """Each key becomes an attribute, known or new, of a copy."""
    state = State(notes=["old"])
    patched = apply_patches(
        state, PROMPT, CriticResult("retry", state_patch={"notes": ["new"], "last_error": "x"})
    ).state
    assert (patched.notes, patched.last_error) == (["new"], "x")
    assert state == State(notes=["old"])
    assert not hasattr(state, "last_error")


def test_state_patch_merges_metadata() -> None:
    """A patch for the metadata is merged key by key, so that no count of a critic is lost."""
    state = State(metadata={"count": 2, "tone": "old"})
    patched = apply_patches(
        state, PROMPT, CriticResult("retry", state_patch={"metadata": {"tone": "new"}})
    ).state
    assert patched.metadata == {"count": 2, "tone": "new"}
    assert state.metadata == {"count": 2, "tone": "old"}


@pytest.mark.parametrize(
    "patch", [{"": 1}, {"two words": 1}, {"class": 1}, {"__class__": int}, {3: 1}, {"metadata": [1]}]
)
def test_patches_that_are_refused(patch: Any) -> None:
    """A key that is no attribute's name, or that belongs to Python, is refused, and metadata takes a dict only."""
    state = State()
    with pytest.raises(PatchError, match="state_patch has"):
        apply_patches(state, PROMPT, CriticResult("retry", state_patch={"notes": ["x"], **patch}))
    assert state == State()


@pytest.mark.parametrize(
    ("state", "key"), [(Frozen(), "total"), (Slotted(), "colour"), (Model(), "colour"), (3, "colour")]
)
def test_states_that_cannot_take_a_patch(state: object, key: str) -> None:
    """A state that refuses the attribute is an error that names the key and the state's type."""
    with pytest.raises(PatchError, match=f"cannot set '{key}' on {type(state).__name__}"):
        apply_patches(state, PROMPT, CriticResult("retry", state_patch={key: 1}))


def test_restore_undoes_the_step_and_keeps_the_critics_words() -> None:
    """What the step did to state and metadata is gone, and what critics wrote into the metadata is there."""
    state = State(notes=["first"], metadata={"phase": 1, "dropped": True, "list": [1]})
    before = copy_state(state)
    state.notes.append("second")
    state.metadata["phase"] = 2
    state.metadata["by_step"] = "x"
    state.metadata["list"].append(2)
    reduced = copy_metadata(state)
    state.notes.append("a critic may not write here")
    state.metadata["count"] = 1
    state.metadata["seen"] = ["y"]
    del state.metadata["dropped"]
    restored = restore(before, reduced, state)
    assert restored == State(notes=["first"], metadata={"phase": 1, "list": [1], "count": 1, "seen": ["y"]})


def test_restore_detaches() -> None:
    """The restored state shares nothing with the one before or after, so the next attempt can be undone too."""
    state = State(notes=["first"])
    before, reduced = copy_state(state), copy_metadata(state)
    state.metadata["seen"] = ["y"]
    restored = restore(before, reduced, state)
    restored.notes.append("x")
    restored.metadata["seen"].append("z")
    assert before == State(notes=["first"])
    assert state.metadata == {"seen": ["y"]}


def test_restore_sees_changes_in_place_and_new_dicts() -> None:
    """A value changed in place counts as written, and so does a metadata dict put in another's place."""
    state = State(metadata={"seen": ["x"]})
    before, reduced = copy_state(state), copy_metadata(state)
    state.metadata["seen"].append("y")
    assert restore(before, reduced, state).metadata == {"seen": ["x", "y"]}
    state.metadata = {"other": 1}
    assert restore(before, reduced, state).metadata == {"other": 1}


def test_restore_of_frozen_and_bare_states() -> None:
    """A frozen state keeps its critics' words in the dict it has, and a bare one gets a dict only for words."""
    frozen = Frozen(total=1)
    before, reduced = copy_state(frozen), copy_metadata(frozen)
    frozen.metadata["count"] = 1
    assert restore(before, reduced, frozen) == Frozen(total=1, metadata={"count": 1})
    bare = SimpleNamespace(total=1)
    assert restore(copy_state(bare), copy_metadata(bare), bare) == SimpleNamespace(total=1)
    assert restore(bare, {}, SimpleNamespace(metadata={"count": 1})).metadata == {"count": 1}


def test_values_that_cannot_be_compared_count_as_written() -> None:
    """A value whose comparison fails is kept rather than lost."""

    class Stubborn:
        def __eq__(self, other: object) -> bool:
            raise TypeError

        __hash__ = object.__hash__

    state = State(metadata={"odd": Stubborn()})
    restored = restore(State(), copy_metadata(state), state)
    assert isinstance(restored.metadata["odd"], Stubborn)


def test_states_that_cannot_be_copied() -> None:
    """A state with a lock in it is refused with the advice to keep such things elsewhere."""
    for copy_it in (copy_state, copy_metadata):
        with pytest.raises(CriticStateError, match="keep clients, locks and open files on the agent"):
            copy_it(State(metadata={"lock": threading.Lock()}))


plain_metadata = st.dictionaries(
    st.sampled_from("abcd"), st.one_of(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=2))
)


@given(start=plain_metadata, by_step=plain_metadata, by_critics=plain_metadata)
def test_critics_words_always_stay(
    start: dict[str, Any], by_step: dict[str, Any], by_critics: dict[str, Any]
) -> None:
    """Whatever step and critics write, a restored key holds the critics' value where they changed it, else the old one."""
    state = State(metadata=copy.deepcopy(start))
    before = copy_state(state)
    state.metadata.update(by_step)
    reduced = copy_metadata(state)
    state.metadata.update(by_critics)
    changed = {key: value for key, value in by_critics.items() if reduced.get(key) != value}
    assert restore(before, reduced, state).metadata == {**start, **changed}


def test_a_whole_retry() -> None:
    """Step, critic, restore and patches together: the count stays, the step is gone, the patch is there."""
    state = State()
    for attempt in (1, 2):
        before = copy_state(state)
        state.notes.append(f"attempt {attempt}")
        reduced = copy_metadata(state)
        result = SelfReflectionCritic(max_retries=2).evaluate(state, None, [{"error": "no stock"}])
        patch = CriticResult(result.action, result.reason, result.score, state_patch={"hint": attempt})
        state = apply_patches(restore(before, reduced, state), PROMPT, patch).state
        assert state.notes == []
        assert state.metadata == {"self_reflection_retries": attempt}
        assert state.hint == attempt
