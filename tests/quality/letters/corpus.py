"""Reads the files of letters: records with their values and labels, and letters about them.

A letter begins with `++` (right) or `--` (wrong), with `{}` behind it if the pack's author wrote it (a template). In a
wrong one the wrong tokens stand in ⟦ ⟧, or its first line names the fault: `% empty_section`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Case = dict[str, Any]

FILES = ("letters.txt", "ordinary.txt", "varied.txt", "forms.txt", "mixed.txt")
_MARK = re.compile(r"⟦([^⟧]+)⟧")
_SLOT = re.compile(r"(?<=\{\{ )\w+")
_VALUE = re.compile(r'(\S+) (\w+)(?::(\S+))? ("[^"]*"|-?[\d.]+) ?(.*)')
_OTHER = re.compile(r'([~?])(\w+)\.(\w+) ("[^"]*"|[\d.]+)')
_REQUIRED = re.compile(r"! (values|sections) (.+)")
UNITS = {
    "times_per_day": {
        "en": {"one": "once a day", "other": "{} times a day"},
        "de": {"one": "einmal täglich", "other": "{}-mal täglich"},
        "fr": {"one": "une fois par jour", "other": "{} fois par jour"},
        "es": {"one": "una vez al día", "other": "{} veces al día"},
        "ru": {"one": "{} раз в день", "few": "{} раза в день", "many": "{} раз в день", "other": "{} раза в день"},
    },
    "kilopascal": {"es": {"one": "{} kPa", "other": "{} kPa"}},
    "bar": {"en": {"one": "{} bar", "other": "{} bar"}, "de": {"one": "{} bar", "other": "{} bar"}},
}  # fmt: skip


@dataclass
class Record:
    """What the letters of one block are about."""

    locale: str
    name: str
    values: list[Case] = field(default_factory=list[Case])
    content: Case = field(default_factory=dict[str, Any])
    others: dict[tuple[str, str], Case] = field(default_factory=dict[tuple[str, str], Case])
    required: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    slots: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def evidence(self) -> list[Case]:
        """The record itself, and what is known besides, trusted or not."""
        own: Case = {"class": "record", "id": "r1", "trust": "trusted", "content": self.content}
        return [own] + [
            {"class": f"other{at}", "id": "r2", "trust": "trusted" if mark == "~" else "untrusted", "content": held}
            for at, ((mark, _), held) in enumerate(self.others.items())
        ]  # fmt: skip

    def slot(self, name: str) -> str:
        """The name of the slot of a value: names of values may be in any script."""
        return self.slots.get(name, name)


def read_letters() -> list[Case]:
    """Return every letter in the form of the sealed corpus."""
    texts = [(Path(__file__).parent / name).read_text(encoding="utf-8") for name in FILES]
    blocks = [block for text in texts for block in re.split(r"^@@ ", text, flags=re.MULTILINE)[1:]]
    return [case for block in blocks for case in _letters(block)]


def _letters(block: str) -> Iterator[Case]:
    head, *letters = re.split(r"^(\+\+|--)(\{\})?\n", block, flags=re.MULTILINE)
    record = _record(head)
    language = record.locale.partition("_")[0]
    for number, at in enumerate(range(0, len(letters), 3), 1):
        sign, template, marked = letters[at : at + 3]
        fault = re.match(r"% (\w+)\n", marked)
        marked = _SLOT.sub(lambda match: record.slot(match[0]), marked[fault.end() if fault else 0 :].strip())
        written = _MARK.sub(r"\1", marked)
        yield {
            "id": f"{record.locale}-{record.name}-{number}",
            "language": language,
            "locale": record.locale,
            "kind": "right" if sign == "++" else "wrong",
            "built": "slots" if template else "free",
            "attack": None,
            "fault": fault[1] if fault else None,
            "evidence": record.evidence,
            "values": record.values,
            "units": {name: forms for name, forms in UNITS.items() if language in forms},
            "required_values": [record.slot(name) for name in record.required.get("values", ())],
            "required_sections": record.required.get("sections", []),
            "template": written if template else None,
            "text": None if template else written,
            "wrong": [{"token": match[1]} for match in _MARK.finditer(marked)],
        }


def _record(head: str) -> Record:
    first, *lines = head.strip().splitlines()
    locale, name = first.split()
    record = Record(locale, name)
    for line in lines:
        if match := _OTHER.fullmatch(line):
            record.others.setdefault((match[1], match[2]), {})[match[3]] = json.loads(match[4])
        elif match := _REQUIRED.fullmatch(line):
            record.required[match[1]] = match[2].split("; ")
        elif line.startswith("= "):  # members of the record that no line of its own names
            record.content |= json.loads(line[2:])
        elif line.startswith("{"):  # a value that is a table, or computed
            record.values.append(json.loads(line))
        else:
            _add_value(record, line)
    return record


def _add_value(record: Record, line: str) -> None:
    match = _VALUE.fullmatch(line)
    assert match is not None, line
    name, kind, role = match[1], match[2], match[3]
    record.content[name] = json.loads(match[4])
    unit: Case = {"currency" if kind == "money" else "unit": role} if role else {}
    labels = [label for label in match[5].split("; ") if label]
    named: Case = {"labels": {record.locale.partition("_")[0]: labels}} if labels else {}
    record.slots[name] = f"v{len(record.values)}_{re.sub(r'[^a-z_]', '', name)}"
    record.values.append(
        {"name": record.slots[name], "from": f"record#/{name}", "type": kind, **unit, **named}
    )
