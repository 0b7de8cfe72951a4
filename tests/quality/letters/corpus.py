"""Reads `letters.txt`: records with their values and labels, and letters about them, right (`++`) and wrong (`--`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

Case = dict[str, Any]

_MARK = re.compile(r"⟦([^⟧]+)⟧")
_VALUE = re.compile(r'(\S+) (\w+)(?::(\S+))? ("[^"]*"|[\d.]+) ?(.*)')
_OTHER = re.compile(r'([~?])(\w+)\.(\w+) ("[^"]*"|[\d.]+)')
UNITS = {
    "times_per_day": {
        "en": {"one": "once a day", "other": "{} times a day"},
        "de": {"one": "einmal täglich", "other": "{}-mal täglich"},
        "fr": {"one": "une fois par jour", "other": "{} fois par jour"},
    },
    "kilopascal": {"es": {"one": "{} kPa", "other": "{} kPa"}},
}


class Record(NamedTuple):
    """What the letters of one block are about."""

    locale: str
    name: str
    values: list[Case]
    evidence: list[Case]


def read_letters() -> list[Case]:
    """Return every letter in the form of the sealed corpus."""
    text = (Path(__file__).parent / "letters.txt").read_text(encoding="utf-8")
    return [case for block in re.split(r"^@@ ", text, flags=re.MULTILINE)[1:] for case in _letters(block)]


def _letters(block: str) -> Iterator[Case]:
    head, *letters = re.split(r"^(\+\+|--)\n", block, flags=re.MULTILINE)
    record = _record(head)
    for number, (sign, marked) in enumerate(zip(letters[::2], letters[1::2], strict=True), 1):
        language = record.locale.partition("_")[0]
        yield {
            "id": f"{record.locale}-{record.name}-{number}",
            "language": language,
            "locale": record.locale,
            "kind": "right" if sign == "++" else "wrong",
            "built": "free",
            "attack": None,
            "fault": None,
            "evidence": record.evidence,
            "values": record.values,
            "units": {name: forms for name, forms in UNITS.items() if language in forms},
            "text": _MARK.sub(r"\1", marked.strip()),
            "wrong": [{"token": match[1]} for match in _MARK.finditer(marked)],
        }


def _record(head: str) -> Record:
    first, *lines = head.strip().splitlines()
    locale, name = first.split()
    values: list[Case] = []
    content: Case = {}
    others: dict[tuple[str, str], Case] = {}
    for line in lines:
        if match := _OTHER.fullmatch(line):
            others.setdefault((match[1], match[2]), {})[match[3]] = json.loads(match[4])
            continue
        match = _VALUE.fullmatch(line)
        assert match is not None, line
        content[match[1]] = json.loads(match[4])
        role = {"currency" if match[2] == "money" else "unit": match[3]} if match[3] else {}
        labels = [label for label in match[5].split("; ") if label]
        named = {"labels": {locale.partition("_")[0]: labels}} if labels else {}
        ascii_name = f"v{len(values)}_{re.sub(r'[^a-z_]', '', match[1])}"
        values.append({"name": ascii_name, "from": f"record#/{match[1]}", "type": match[2], **role, **named})
    evidence: list[Case] = [{"class": "record", "id": "r1", "trust": "trusted", "content": content}]
    evidence += [
        {"class": f"other{at}", "id": "r2", "trust": "trusted" if mark == "~" else "untrusted", "content": held}
        for at, ((mark, _), held) in enumerate(others.items())
    ]  # fmt: skip
    return Record(locale, name, values, evidence)
