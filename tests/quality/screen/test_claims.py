"""Texts in five languages, each with the verdict that every token in it has to get."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .scenarios import screened

_MARK = re.compile(r"⟦([^⟧|]+)(?:\|([ue]))?⟧")
_STATUS = {None: "found", "u": "unknown", "e": "elsewhere"}
CLAIMS = [
    line
    for line in (Path(__file__).parent / "claims.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_every_token_gets_its_verdict(claim: str) -> None:
    head, _, marked = claim.partition(" | ")
    language, scenario = head.split()
    marked = marked.replace("⏎", "\n").replace("\\|", "|")
    wanted = [(match[1], _STATUS[match[2]]) for match in _MARK.finditer(marked)]

    found = screened(_MARK.sub(r"\1", marked), language, scenario)

    assert [(verdict.token.text, verdict.status) for verdict in found] == wanted
