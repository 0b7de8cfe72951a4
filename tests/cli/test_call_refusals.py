"""A policy that can only be decided once a value was looked up: what people and programs read of its refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import Tercet

PACK = {
    "pack.toml": 'name = "till"\nversion = "1.0.0"\nsafety_mode = "destructive"\n',
    "tools.py": """
from tercet import tool

@tool("till.count", mode="read_only", trust="trusted")
def count() -> int:
    return 7

@tool("till.pay", mode="destructive", trust="trusted", authority=["cents"], gates=["BOSS"], no_compensation="gone")
def pay(cents: int) -> str:
    raise AssertionError("it is refused before")
""",
    "decisions.toml": '[[decision]]\nid = "pay"\n',
    "gates.toml": '[[gate]]\nname = "BOSS"\nroles = ["boss"]\n',
    "actors.toml": '[[actor]]\nid = "ann"\n[[actor]]\nid = "bea"\nroles = ["boss"]\n',
    "policies.toml": """
[[policy]]
name = "small_sums"
scope = "step"
expression = 'step.tool != "till.pay" || step.params.cents < 5'
message = "the sum is too large"
remedy = "pay it at the bank"
""",
    "templates/pay.json": """{"intent": "pay", "steps": [
        {"id": "counted", "tool": "till.count"},
        {"id": "paid", "tool": "till.pay", "params": {"cents": {"$from": "counted#"}}}]}""",
    "scenarios/one.toml": """
[[scenario]]
name = "a large sum is refused"
actor = "ann"
results = [{ tool = "till.count", value = 7 }]
expect = { status = "failed", code = "policy_invariant", calls = ["till.count"] }
""",
}
REASON = "step 1 violates policy small_sums: the sum is too large"
ENDING = f"✗ failed: paid was refused before its call (policy_invariant): {REASON} → pay it at the bank"


@pytest.fixture
def _till(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in PACK.items():
        path = tmp_path / "till" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)


@pytest.mark.usefixtures("_till")
def test_a_call_refused_at_dispatch_shows_the_code_and_the_remedy_of_its_policy(
    tercet: Tercet, tmp_path: Path
) -> None:
    """In the run, the session, its JSON and the report; and nobody is invited to plan around the policy."""
    ran = tercet("run", "till", "--dev", "--as", "ann")
    assert ran.code == 5
    assert ENDING in ran.text
    assert ran.text.count(REASON) == 2  # where it happened, and at the end
    assert "no retries left" not in ran.text
    (session,) = {word for word in ran.text.split() if word.startswith("ses_")}
    shown = tercet("sessions", "show", session)
    assert ENDING in shown.text
    assert f"(policy_invariant): {REASON}" in tercet("sessions", "watch", session).text
    assert tercet("sessions", "show", session, "--json").json["refusal"] == {
        "step": "paid",
        "code": "policy_invariant",
        "reason": REASON,
        "remedy": "pay it at the bank",
    }
    tercet("report", session, "-o", "report.html")
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"(policy_invariant): {REASON}<br>→ pay it at the bank</p>" in report
    for page in (ran.text, shown.text):
        assert "run a plan of your own" not in page


@pytest.mark.usefixtures("_till")
def test_a_scenario_expects_the_code_of_a_call_refused_at_dispatch(tercet: Tercet) -> None:
    """As it expects the code of a plan that was refused."""
    assert "1 scenario passed" in tercet("test", "till").text


SETS = "Or set another value"


@pytest.mark.usefixtures("_till")
@pytest.mark.parametrize("bosses", [1, 2])
def test_a_change_is_offered_only_if_another_person_could_approve_it(
    tercet: Tercet, tmp_path: Path, bosses: int
) -> None:
    """Whoever sets a value cannot approve it, so one approver alone could only fail."""
    (tmp_path / "till/policies.toml").unlink()
    people = tmp_path / "till/actors.toml"
    more = '[[actor]]\nid = "cy"\nroles = ["boss"]\n' if bosses > 1 else ""
    people.write_text(people.read_text(encoding="utf-8") + more, encoding="utf-8")
    asked = tercet("run", "till", "--dev", "--as", "ann")
    session = next(word for word in asked.text.split() if word.startswith("ses_"))
    shown = tercet("gates", "show", f"{session}.g1").text
    assert "tercet gates approve" in shown
    assert (SETS in shown) == (bosses > 1)


@pytest.mark.usefixtures("_till")
def test_a_gate_calls_nothing_compensable_that_has_no_compensation(tercet: Tercet, tmp_path: Path) -> None:
    """A tool that states why there is none is not called compensable two lines above."""
    (tmp_path / "till/policies.toml").unlink()
    tools = tmp_path / "till/tools.py"
    changed = tools.read_text(encoding="utf-8").replace('mode="destructive"', 'mode="network"')
    tools.write_text(changed, encoding="utf-8")
    asked = tercet("run", "till", "--dev", "--as", "ann")
    session = next(word for word in asked.text.split() if word.startswith("ses_"))
    shown = tercet("gates", "show", f"{session}.g1").text
    assert "it cannot be compensated: gone" in shown
    assert "compensable" not in shown


@pytest.mark.usefixtures("_till")
def test_a_gate_of_several_people_speaks_of_people(tercet: Tercet, tmp_path: Path) -> None:
    """Two are asked, and neither is the one who started the run."""
    (tmp_path / "till/policies.toml").unlink()
    (tmp_path / "till/gates.toml").write_text(
        '[[gate]]\nname = "BOSS"\nroles = ["boss"]\nquorum = 2\n', encoding="utf-8"
    )
    people = tmp_path / "till/actors.toml"
    more = '[[actor]]\nid = "cy"\nroles = ["boss"]\n'
    people.write_text(people.read_text(encoding="utf-8") + more, encoding="utf-8")
    asked = tercet("run", "till", "--dev", "--as", "ann").text
    assert "BOSS: 2 people with the role boss people other than ann, who started the run" in asked
