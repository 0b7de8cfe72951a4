"""The billing desk: a real service and a real program, run by the command on the page."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tercet.packs import Pack, check_folder

ROOT = Path(__file__).parents[2]
HTTP = ROOT / "examples" / "http"


def run(tmp_path: Path, *words: str) -> tuple[int, str, list[dict[str, str]]]:
    """The exit code, what was shown, and what the service has sent."""
    environment = {**os.environ, "TERCET_JOURNAL": f"sqlite:///{tmp_path}/tercet.db"}
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    shown, _, sent = ran.stdout.partition("the service has sent: ")
    assert sent, ran.stderr
    return ran.returncode, shown, json.loads(sent)


def test_the_command_on_the_page_reminds_of_an_invoice(tmp_path: Path) -> None:
    """It reads the invoice, writes the letter, sends it once, and takes the service down again."""
    page = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    [line] = [line for line in page.splitlines() if line.startswith("$ python examples/http/")]
    code, shown, sent = run(tmp_path, *shlex.split(line)[2:])
    assert code == 0, shown
    text = "Dear Ada Example, your invoice over 42.50 was due on 2026-10-01. Lantern Books\n"
    assert sent == [{"reminder_id": "rem_1", "invoice_id": "inv_7", "text": text}]


@pytest.mark.parametrize(("invoice", "code", "count"), [("inv_8", 0, 1), ("inv_9", 5, 0)])
def test_a_name_is_no_order_and_a_refusal_sends_nothing(
    tmp_path: Path, invoice: str, code: int, count: int
) -> None:
    """The customer's odd name arrives as it is; an invoice that is not there ends the run before anything is sent."""
    ended, shown, sent = run(tmp_path, "examples/http/run.py", invoice)
    assert (ended, len(sent)) == (code, count), shown
    if sent:
        assert sent[0]["text"].startswith("Dear --help; rm -rf / $(whoami), your invoice")
    else:
        assert "404" in shown


def test_only_what_is_listed_is_a_tool() -> None:
    """The description tells of more than the pack may do."""
    pack = Pack.load(HTTP)
    assert {tool.name for tool in pack.tools} == {
        "billing.getInvoice",
        "billing.sendReminder",
        "office.write_letter",
    }
    assert {problem.code for problem in check_folder(HTTP)} <= {"variable_missing", "program_not_hashed"}
