"""`tercet context`: what a run may see, on the screen and as JSON, for a question and for a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tercet.context import compile as compile_context
from tercet.packs import Pack

from .harness import REFUNDS, Answer, Tercet
from .runs import ORDER_881, REFUND, Kitchen

LIMITS = """
[context.tokens]
tools = 400
evidence = 200
"""


def limit(pack: Path, text: str = LIMITS) -> None:
    path = pack / "pack.toml"
    path.write_text(path.read_text() + text)


def guard(pack: Path, name: str, words: str) -> None:
    """Declares one more thing about a tool of the pack."""
    path = pack / "tools.py"
    before = path.read_text()
    after = before.replace(f'"{name}",', f'"{name}", {words},', 1)
    assert after != before
    path.write_text(after)


def ledger(answer: Answer) -> dict[str, tuple[bool, str]]:
    return {entry["name"]: (entry["admitted"], entry["reason"]) for entry in answer.json["ledger"]}


def error(answer: Answer) -> dict[str, Any]:
    assert answer.code == 2
    assert answer.json["error"]["remedy"]
    return answer.json["error"]


def test_a_context_is_told_with_its_reasons(tercet: Tercet) -> None:
    """The decision, the tools, the facts with what they are worth, the policies and the gates."""
    answer = tercet("context", REFUNDS)
    assert answer.code == 0
    for told in (
        "support.refund.execute, risk high, safety mode destructive",
        "it lists the intent support.refund",
        "tools 5 of 5",
        "decision support.refund.execute may use it",
        "evidence 3 of 4",
        "untrusted refund_form of snapshot kg_2026_05_09_T0930",
        "it is not of snapshot kg_2026_05_09_T0930",
        "wait for GATE_DIRECTOR_APPROVAL; every policy of the pack applies",
        "Nothing was run.",
    ):
        assert told in answer.text


def test_a_hash_stays_on_one_line(tercet: Tercet, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns it can still be copied."""
    monkeypatch.setenv("COLUMNS", "80")
    answer = tercet("context", REFUNDS, "--json").json
    assert answer["hash"] in tercet("context", REFUNDS).out


def test_json_holds_all_of_it(tercet: Tercet) -> None:
    """What is printed is what the compiler gives, down to the hash."""
    told = tercet("context", REFUNDS, "--intent", "support.refund", "--input", ORDER_881, "--json").json
    pack = Pack.load(REFUNDS)
    assert (told["pack_hash"], told["decision"]) == (pack.hash, "support.refund.execute")
    assert len(told["tools"]) == len(told["offered"]) == len(pack.tools)
    assert [use["bucket"] for use in told["buckets"]] == ["instructions", "tools", "evidence", "request"]
    assert {entry["kind"] for entry in told["ledger"]} == {"decision", "tool", "evidence", "gate", "policy"}
    assert (told["truncation"], told["recorded"]) == ([], False)


def test_roles_and_tenants_decide_what_is_seen(tercet: Tercet, pack: Path) -> None:
    """The roles are those of whoever asks, or those that are given; so is the tenant."""
    guard(pack, "adp_policy.eval", 'roles=["auditor"]')
    guard(pack, "adp_orders.lookup", 'tenants=["north"]')
    told = ledger(tercet("context", pack, "--json"))
    assert told["adp_policy.eval"] == (False, "the actor holds none of the roles auditor")
    assert told["adp_orders.lookup"] == (False, "it is not for the tenant of this run")
    words = ("--role", "cook", "--role", "auditor", "--tenant", "north")
    answer = tercet("context", pack, *words, "--json")
    assert {"adp_policy.eval", "adp_orders.lookup"} <= set(answer.json["tools"])
    assert answer.json["actor"]["roles"] == ["cook", "auditor"]


def test_what_is_above_the_safety_mode_is_not_offered(tercet: Tercet) -> None:
    """It is known to the critic, and marked as that."""
    told = tercet("context", REFUNDS, "--safety-mode", "read_only", "--json").json
    assert set(told["offered"]) == {"adp_orders.lookup", "adp_policy.eval"}
    assert len(told["tools"]) == 5
    assert "○ adp_payments.issue_refund" in tercet("context", REFUNDS, "--safety-mode", "read_only").text


def test_what_did_not_fit_is_reported(tercet: Tercet, pack: Path) -> None:
    """A bar for each bucket that has a limit, and what was left out of it."""
    limit(pack)
    answer = tercet("context", pack)
    assert answer.code == 0
    assert "of 400" in answer.text
    assert "■" in answer.text
    assert "evidence: 1 of 3 left out, all would need" in answer.text
    told = tercet("context", pack, "--json").json
    assert [entry["bucket"] for entry in told["truncation"]] == ["tools", "evidence"]
    for use in told["buckets"]:
        assert use["limit"] is None or use["used"] <= use["limit"]


def test_what_must_fit_and_does_not_is_wrong_use(tercet: Tercet, pack: Path) -> None:
    """Exit 2, with the bucket to enlarge; the critic and a run say the same."""
    limit(pack, "\n[context.tokens]\nrequest = 10\n")
    words = (pack, "--intent", "support.refund", "--input", '{"order_id": "' + "x" * 100 + '"}', "--json")
    for command in (("context", *words), ("run", *words)):
        found = error(tercet(*command))
        assert found["code"] == "context_overflow"
        assert "raise request in [context.tokens]" in found["remedy"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--intent", "x"), "unknown_intent"),
        (("--snapshot", "x"), "unknown_snapshot"),
        (("--input", "x"), "input_invalid"),
        (("--safety-mode", "x"), "usage"),
        (("--session", "ses_x", "--role", "r"), "usage"),
        (("--session", "ses_x"), "journal_not_found"),
    ],
)
def test_a_mistake_is_answered(tercet: Tercet, kitchen: Kitchen, words: tuple[str, ...], code: str) -> None:
    """Each with what to do about it."""
    del kitchen
    assert error(tercet("context", REFUNDS, *words, "--json"))["code"] == code


def test_a_session_shows_the_context_that_it_was_given(tercet: Tercet, kitchen: Kitchen, pack: Path) -> None:
    """It is compiled from the journal: from the evidence that the session has kept, whatever the files say now."""
    del kitchen
    limit(pack)
    words = [word if word != REFUNDS else pack for word in REFUND]
    session = tercet(*words, ORDER_881, "--json").json["session_id"]
    told = tercet("context", pack, "--session", session, "--json").json
    assert (told["recorded"], told["actor"]["id"]) == (True, "agt_support")
    assert [entry["bucket"] for entry in told["truncation"]] == ["tools", "evidence"]
    (facts,) = [path for path in (pack / "evidence").glob("*.json") if "rw_882" in path.read_text()]
    facts.write_text(facts.read_text().replace("rw_882", "rw_999"))
    again = tercet("context", pack, "--session", session, "--json").json
    assert (again["hash"], again["evidence"]) == (told["hash"], told["evidence"])
    assert "as the session has recorded it" in tercet("context", pack, "--session", session).text


def test_a_session_of_another_pack_is_not_explained_by_this_one(
    tercet: Tercet, kitchen: Kitchen, pack: Path
) -> None:
    """Rules that have changed since would tell another story."""
    del kitchen
    session = tercet(*REFUND, ORDER_881, "--json").json["session_id"]
    limit(pack)
    assert error(tercet("context", pack, "--session", session, "--json"))["code"] == "pack_version_mismatch"
    assert tercet("context", REFUNDS, "--session", session).code == 0


def test_a_context_that_compiles_differently_now_is_said_to(
    tercet: Tercet, kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded hash decides, not what another version makes of the same session."""
    del kitchen
    session = tercet(*REFUND, ORDER_881, "--json").json["session_id"]

    def other(*given: Any, **named: Any) -> Any:
        return compile_context(*given, **named).model_copy(update={"snapshot": "other"})

    monkeypatch.setattr("tercet.cli.packs.context.compile_context", other)
    assert error(tercet("context", REFUNDS, "--session", session, "--json"))["code"] == "context_mismatch"


def test_names_on_the_screen_are_harmless(tercet: Tercet, pack: Path) -> None:
    """A pack's words cannot move the cursor."""
    limit(pack, "\n[context.tokens]\nevidence = 10000\n")
    facts = pack / "evidence" / "zz.json"
    facts.write_text('{"snapshot": "zz", "facts": [{"class": "a\\u001b[2Jb", "id": "x", "content": 1}]}')
    answer = tercet("context", pack, "--snapshot", "zz")
    assert answer.code == 0
    assert "\x1b" not in answer.out
    assert r"kg:a\x1b[2Jb:x" in answer.out


def test_a_session_in_the_place_of_the_pack_says_where_it_belongs(tercet: Tercet) -> None:
    """The context is that of a pack; a session is an option."""
    error = tercet("context", "ses_0123456789abcdef", "--json").json["error"]
    assert error["remedy"].endswith("tercet context PACK --session ses_0123456789abcdef")
