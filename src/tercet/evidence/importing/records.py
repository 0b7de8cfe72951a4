"""Reads files in which every row or line is a fact: CSV with a header, and JSON lines; with labels and a report.

Lines are read one by one with a limit, so that a file of one endless line is reported instead of loaded.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO, NamedTuple

from tercet.contracts.evidence import EvidenceRef, parse_ref
from tercet.contracts.mode import Trust
from tercet.contracts.problem import Problem
from tercet.contracts.shape import as_object
from tercet.evidence.errors import BadFiles
from tercet.evidence.importing.texts import Unreadable, decode
from tercet.evidence.rows import MAX_FACT_BYTES
from tercet.evidence.store import NewFact
from tercet.tools.strict_json import JsonFault, read_strictly

MOST_PROBLEMS = 100
"""The limit on listed problems: generated files often have the same problem in every line."""


def _unheard(count: int) -> None:
    del count


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels of imported facts, and the record fields that override them."""

    classification: str
    trust: Trust = Trust.UNTRUSTED
    source: str = ""
    """The source of the files; the file name if empty."""
    expires_at: datetime | None = None
    id_field: str = "id"
    class_field: str = ""
    trust_field: str = ""
    """The field with a record's trust, which can lower that of its file but never raise it."""
    expires_field: str = ""


@dataclass(kw_only=True)
class Report:
    """The progress and problems of an import. `on_bytes` is called with the number of bytes read, perhaps in another
    thread.
    """

    skips_bad: bool = False
    on_bytes: Callable[[int], None] = _unheard
    problems: list[Problem] = field(default_factory=list[Problem])
    files: int = 0
    ignored: list[str] = field(default_factory=list[str])
    """Files of unknown kinds, and links that are not followed."""
    ids: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def note(self, code: str, message: str, remedy: str, *, file: str, row: int | None = None) -> None:
        """Record a problem; raise `BadFiles` once there are too many to continue."""
        severity = "warning" if self.skips_bad else "error"
        self.problems.append(
            Problem(code=code, message=message, remedy=remedy, file=file, row=row, severity=severity)
        )
        if not self.skips_bad and len(self.problems) >= MOST_PROBLEMS:
            raise BadFiles(self.problems)

    def note_fault(self, fault: Unreadable, *, file: str, row: int | None = None) -> None:
        """Record why a file or a part of it cannot be read."""
        self.note(fault.code, fault.message, fault.remedy or "", file=file, row=row)

    def settle(self) -> None:
        """Raise `BadFiles` if there were problems and bad files must not be skipped."""
        if self.problems and not self.skips_bad:
            raise BadFiles(self.problems)


MAX_LINE = MAX_FACT_BYTES


class _Line(NamedTuple):
    """A line of a file, with its number from 1 and its byte length; `fault` is the reason why its text cannot be
    read."""

    number: int
    text: str
    start: int
    end: int
    fault: Unreadable | None = None


class _Record(NamedTuple):
    """A row of fields, with its first line and its byte range."""

    fields: dict[str, Any]
    line: int
    start: int
    end: int


def read_json_lines(stream: BinaryIO, name: str, labels: Labels, report: Report) -> Iterator[NewFact]:
    """Yield the facts of a file with one JSON object per line."""
    for line in _lines(stream, report):
        if line.fault is not None:
            report.note_fault(line.fault, file=name, row=line.number)
        elif line.text.strip():
            record = _object(line, name, report)
            if record is not None:
                yield from _facts(record, name, labels, report)


def _object(line: _Line, name: str, report: Report) -> _Record | None:
    try:
        value = read_strictly(line.text)
    except JsonFault as fault:
        report.note(
            "json_syntax", f"not JSON: {fault.quoted}", "correct the line", file=name, row=line.number
        )
        return None
    fields = as_object(value)
    if fields is None:
        report.note(
            "not_an_object",
            "the line is JSON, but not an object",
            'write {"field": …}',
            file=name,
            row=line.number,
        )
        return None
    return _Record(fields, line.number, line.start, line.end)


def read_table(
    stream: BinaryIO, name: str, labels: Labels, report: Report, *, delimiter: str
) -> Iterator[NewFact]:
    """Yield the facts of a table whose first row names the columns."""
    header: list[str] | None = None
    for row, first, start, end in _rows(stream, name, report, delimiter):
        if header is None:
            header = row
            if not _is_header(row, name, report):
                return
        elif len(row) != len(header):
            report.note(
                "uneven_row",
                f"the row has {len(row)} fields, and the header {len(header)}",
                "give every row a field for every column",
                file=name,
                row=first,
            )
        else:
            record = _Record(dict(zip(header, row, strict=True)), first, start, end)
            yield from _facts(record, name, labels, report)


def _is_header(row: list[str], name: str, report: Report) -> bool:
    if all(column.strip() for column in row) and len(set(row)) == len(row):
        return True
    report.note(
        "bad_header",
        "the first row must name every column, each differently",
        "write a row of names above the data",
        file=name,
        row=1,
    )
    return False


def _rows(
    stream: BinaryIO, name: str, report: Report, delimiter: str
) -> Iterator[tuple[list[str], int, int, int]]:
    """Yield the rows with their first line and byte range; a row may span several lines."""
    taken: list[_Line] = []

    def texts() -> Iterator[str]:
        for line in _lines(stream, report):
            taken.append(line)
            if line.fault is not None:
                raise line.fault
            yield line.text

    csv.field_size_limit(MAX_LINE)
    feed = texts()
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    while True:
        taken.clear()
        try:
            row = next(reader)
        except StopIteration:
            return
        except Unreadable as error:
            report.note_fault(error, file=name, row=taken[0].number if taken else None)
            return  # the end of the file
        except csv.Error as error:
            remedy, row = "close the quotes, and double those inside", taken[0].number if taken else None
            report.note("csv_syntax", f"not CSV: {error}", remedy, file=name, row=row)
            continue
        if row:
            yield row, taken[0].number, taken[0].start, taken[-1].end


def _lines(stream: BinaryIO, report: Report) -> Iterator[_Line]:
    position = number = 0
    while data := stream.readline(MAX_LINE + 1):
        number += 1
        start, position = position, position + len(data)
        report.on_bytes(len(data))
        if len(data) > MAX_LINE and not data.endswith(b"\n"):
            yield _Line(number, "", start, position, _too_long())
            position += _skip_line(stream, report)
            continue
        try:
            text = decode(data)
        except Unreadable as error:
            yield _Line(number, "", start, position, error)
        else:
            yield _Line(number, text.removeprefix("\ufeff") if number == 1 else text, start, position)


def _too_long() -> Unreadable:
    return Unreadable(
        f"the line has more than {MAX_LINE:,} bytes",
        code="line_too_long",
        remedy="a fact is one line of at most so many bytes; import long texts as documents",
    )


def _skip_line(stream: BinaryIO, report: Report) -> int:
    """Read to the end of a line without keeping it; return the number of bytes."""
    skipped = 0
    while data := stream.readline(MAX_LINE):
        skipped += len(data)
        report.on_bytes(len(data))
        if data.endswith(b"\n"):
            break
    return skipped


def _facts(record: _Record, name: str, labels: Labels, report: Report) -> Iterator[NewFact]:
    """Yield the fact of a record, or note why there is none."""
    try:
        fact = _fact(record, name, labels)
    except Unreadable as error:
        report.note_fault(error, file=name, row=record.line)
        return
    ref = (fact.classification, fact.key)
    if ref in report.ids:
        report.note(
            "duplicate_fact",
            f"there is another {fact.classification}:{fact.key[:100]} in this import",
            "give each fact an id of its own, or name the field that has it with --id-field",
            file=name,
            row=record.line,
        )
        return
    report.ids.add(ref)
    yield fact


def _fact(record: _Record, name: str, labels: Labels) -> NewFact:
    fields = record.fields
    classification = _text(fields, labels.class_field) or labels.classification
    key = _text(fields, labels.id_field) or f"{name}/{record.line}"
    if parse_ref(str(EvidenceRef(classification, key, "s"))) != (classification, key, "s"):
        raise Unreadable(
            f"{classification[:60]!r} and {key[:60]!r} make no id",
            code="bad_id",
            remedy="a class has no ':', '#' or space, an id no '#' or space; --id-field and --class-field name the fields",
        )
    said = _label(fields, labels.trust_field, "bad_trust", "write trusted or untrusted")
    ends = _label(fields, labels.expires_field, "bad_expiry", "write it as 2027-01-31T00:00:00Z")
    return NewFact(
        classification=classification,
        key=key,
        content=fields,
        trust=_lower(labels.trust, said) if said else labels.trust,
        source=labels.source or name,
        expires_at=_moment(ends) or labels.expires_at,
        document=name,
        chunk=record.line,
        start=record.start,
        end=record.end,
    )


def _text(fields: dict[str, Any], name: str) -> str:
    """Return a field as text; empty if it is absent."""
    value = fields.get(name) if name else None
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _label(fields: dict[str, Any], name: str, code: str, remedy: str) -> str:
    """Return the text of a field that lowers a fact's standing; an unreadable value is an error, never ignored."""
    value = fields.get(name) if name else None
    if value is not None and not isinstance(value, str):
        raise Unreadable(
            f"{name[:60]!r} holds {str(value)[:60]!r}, which is not text", code=code, remedy=remedy
        )
    return _text(fields, name)


def _lower(trust: Trust, said: str) -> Trust:
    """Return the lower of two trusts: a record cannot raise its own."""
    try:
        return min(trust, Trust(said), key=list(Trust).index)
    except ValueError as error:
        raise Unreadable(
            f"unknown trust label {said[:60]!r}", code="bad_trust", remedy="write trusted or untrusted"
        ) from error


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        is_usable = moment.tzinfo is not None and bool(moment.astimezone(UTC))
    except (ValueError, OverflowError):  # OverflowError: out of range in UTC
        moment, is_usable = None, False
    if not is_usable:
        raise Unreadable(
            f"{text[:60]!r} is not a time with a zone",
            code="bad_expiry",
            remedy="write it as 2027-01-31T00:00:00Z",
        )
    return moment
