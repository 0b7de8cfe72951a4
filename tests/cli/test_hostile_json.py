"""JSON on the command line that no reader can take at its word: exit code 2, a clear message, and never a bug."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .harness import PLANS, REFUNDS, Answer, Tercet
from .runs import Kitchen

HOSTILE = {
    "beyond 2^53": '{"amount": 9007199254740993}',
    "beyond any float": '{"amount": 1e999}',
    "5,000 digits": '{"amount": ' + "9" * 5_000 + "}",
    "nested 65 deep": '{"amount": ' + "[" * 65 + "]" * 65 + "}",
    "nested 100,000 deep": '{"amount": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "NaN": '{"amount": NaN}',
    "Infinity": '{"amount": -Infinity}',
    "a key twice": '{"amount": 1, "amount": 2}',
    "lone surrogate": '{"amount": "\\ud800"}',
    "lone surrogate in a key": '{"\\ud800": 1}',
    "not JSON": '{"amount": }',
    "empty": "",
}

Ask = Callable[[Tercet, str, Path], Answer]


def by_file(tmp_path: Path, text: str, name: str = "it.json") -> Path:
    """A file that holds a text."""
    path = tmp_path / name
    path.write_text(text)
    return path


def plan_with(text: str) -> str:
    """A plan whose only step has these parameters."""
    return f'{{"steps": [{{"id": "a", "tool": "orders.lookup", "params": {text or "{"}}}]}}'


COMMANDS: dict[str, Ask] = {
    "run --input": lambda tercet, text, _: tercet("run", REFUNDS, "--input", text),
    "run --input @file": lambda tercet, text, tmp: tercet(
        "run", REFUNDS, "--input", f"@{by_file(tmp, text)}"
    ),
    "plan --input": lambda tercet, text, _: tercet("plan", REFUNDS, "--input", text),
    "verify --input": lambda tercet, text, _: tercet(
        "verify", REFUNDS, PLANS / "plan_b.json", "--input", text
    ),
    "context --input": lambda tercet, text, _: tercet("context", REFUNDS, "--input", text),
    "feedback add --expected": lambda tercet, text, _: tercet(
        "feedback", "add", "ses_0000000000000000", "--note", "n", "--expected", text
    ),
    "gates settle --value": lambda tercet, text, _: tercet(
        "gates", "settle", "ses_0000000000000000.g1", "--happened", "--value", text
    ),
    "verify PLAN": lambda tercet, text, tmp: tercet("verify", REFUNDS, by_file(tmp, plan_with(text))),
    "run --plan": lambda tercet, text, tmp: tercet(
        "run", REFUNDS, "--plan", by_file(tmp, plan_with(text)), "--input", "{}"
    ),
    "evidence add": lambda tercet, text, tmp: tercet(
        "evidence", "add", by_file(tmp, text or "{", "it.jsonl"), "--class", "note"
    ),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("command", COMMANDS)
def test_hostile_json_is_wrong_use_in_every_command(
    tercet: Tercet, kitchen: Kitchen, tmp_path: Path, command: str, text: str
) -> None:
    """Not a bug of Tercet's, and not a session that was begun."""
    del kitchen  # a working folder of its own
    answer = COMMANDS[command](tercet, text, tmp_path)
    assert "this is a bug" not in answer.text
    assert answer.code == 2, answer.text
    assert "✗" in answer.text
