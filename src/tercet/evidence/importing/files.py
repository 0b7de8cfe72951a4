"""Reads files and folders as changes of a draft.

A document is named by its path as given, so that importing it again replaces its facts. Folders are read in order of
file names; hidden files and links to folders are skipped, and a link to a file outside the folder is refused: write
access to a folder must not decide which other files are read.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

from tercet.contracts.errors import UsageError
from tercet.contracts.values.plain import storable
from tercet.evidence.importing import texts
from tercet.evidence.importing.records import Labels, Report, read_json_lines, read_table
from tercet.evidence.importing.texts import Unreadable, decode, html_text, page_texts
from tercet.evidence.store import Change, NewDocument, NewFact

MAX_DOCUMENT = 64_000_000
"""The largest text document; a table or a file of lines may be of any size."""

_TEXTS = {".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".html": "text/html",
          ".htm": "text/html", ".pdf": "application/pdf"}  # fmt: skip
_RECORDS = {".csv": "text/csv", ".tsv": "text/tab-separated-values", ".jsonl": "application/jsonl",
            ".ndjson": "application/jsonl"}  # fmt: skip
KINDS = {**_TEXTS, **_RECORDS}
_UNFIT = re.compile(r"[#\s%\x00-\x1f]")


class File(NamedTuple):
    """A file to import, and its name in the store."""

    path: Path
    name: str
    size: int


def find_files(paths: Sequence[Path], report: Report) -> list[File]:
    """Return all named files, and those in named folders, each once. Problems go to the report."""
    found: dict[str, File] = {}
    for path in paths:
        for each in _expand(path, report):
            name = document_name(each)
            if name not in found and (file := _file(each, name, report)) is not None:
                found[name] = file
    return list(found.values())


def document_name(path: Path) -> str:
    """Return the name of a file: its path as given, with characters that an id cannot have written as %20."""
    given = os.path.normpath(storable(str(path))).replace(os.sep, "/").lstrip("/")
    return _UNFIT.sub(lambda match: quote(match.group()), given)


def _expand(path: Path, report: Report) -> Iterator[Path]:
    """Yield the files below a folder, or the file itself."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path, onerror=lambda error: _note_error(path, error, report)):
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        report.ignored += [str(Path(folder) / name) for name in sorted(links)]
        folders[:] = sorted(name for name in folders if name not in links and not name.startswith("."))
        for name in sorted(names):
            if name.startswith("."):
                continue
            if Path(name).suffix.lower() in KINDS:
                if not _leads_outside(path, Path(folder) / name, report):
                    yield Path(folder) / name
            else:
                report.ignored.append(str(Path(folder) / name))


def _leads_outside(root: Path, path: Path, report: Report) -> bool:
    """Return whether a file of a folder is a link to a place outside, which is noted."""
    if not path.is_symlink() or path.resolve().is_relative_to(root.resolve()):
        return False
    report.note(
        "link_outside",
        "it is a link to a file outside of the folder",
        "copy the file into the folder, or name the file itself",
        file=storable(str(path)),
    )
    return True


def _file(path: Path, name: str, report: Report) -> File | None:
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        _note_error(path, error, report)
        return None
    if not stat.S_ISREG(found.st_mode):
        report.note("not_a_file", "it is not a file", "name a file or a folder", file=storable(str(path)))
    elif path.suffix.lower() not in KINDS:
        report.note(
            "unknown_kind",
            f"{path.suffix or 'a name without a suffix'} is not a supported kind of document",
            f"use one of {', '.join(sorted(KINDS))}",
            file=storable(str(path)),
        )
    else:
        return File(path, name, found.st_size)
    return None


def _note_error(path: Path, error: OSError | ValueError, report: Report) -> None:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    report.note(
        "unreadable",
        f"cannot be read: {reason}",
        "check the name and the permissions",
        file=storable(str(path)),
    )


def read_changes(files: Sequence[File], labels: Labels, report: Report) -> Iterator[Change]:
    """Yield the changes that the files make; raise `BadFiles` at the end if some are bad and must not be skipped."""
    for file in files:
        try:
            yield from _read(file, labels, report)
            report.files += 1
        except OSError as error:
            _note_error(file.path, error, report)
        except Unreadable as error:
            report.note_fault(error, file=file.name)
    report.settle()


def _read(file: File, labels: Labels, report: Report) -> Iterator[Change]:
    if file.size == 0:
        raise Unreadable("it is empty", code="empty_file", remedy="leave it out")
    suffix = file.path.suffix.lower()
    with file.path.open("rb") as stream:
        if suffix in _TEXTS:
            yield from _read_text(stream, file, suffix, labels, report)
        else:
            yield from _read_records(stream, file, suffix, labels, report)


def _read_text(stream: BinaryIO, file: File, suffix: str, labels: Labels, report: Report) -> Iterator[Change]:
    data = stream.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise Unreadable(
            f"it has more than {MAX_DOCUMENT:,} bytes",
            code="document_too_large",
            remedy="split it into parts",
        )
    report.on_bytes(len(data))
    found = list(_READERS[suffix](data))
    if not found:
        raise Unreadable("it holds no text", code="empty_file", remedy="leave it out")
    keys = [(labels.classification, f"{file.name}/{number}") for number in range(len(found))]
    if taken := report.ids.intersection(keys):
        raise Unreadable(
            f"there is another {':'.join(min(taken))[:100]} in this import",
            code="duplicate_fact",
            remedy="give each fact an id of its own, or import the files one after the other",
        )
    report.ids.update(keys)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    yield NewDocument(name=file.name, hash=digest, media_type=KINDS[suffix], size=len(data))
    for number, chunk in enumerate(found):
        content = {"text": chunk.text, **({"heading": chunk.heading} if chunk.heading else {})}
        yield NewFact(
            classification=labels.classification,
            key=f"{file.name}/{number}",
            content=content,
            trust=labels.trust,
            source=labels.source or file.name,
            expires_at=labels.expires_at,
            document=file.name,
            chunk=number,
            start=chunk.start,
            end=chunk.end,
        )


def _read_records(
    stream: BinaryIO, file: File, suffix: str, labels: Labels, report: Report
) -> Iterator[Change]:
    whole = hashlib.sha256()
    while block := stream.read(1_000_000):
        whole.update(block)
    digest, size = whole.hexdigest(), stream.tell()
    stream.seek(0)
    yield NewDocument(name=file.name, hash=f"sha256:{digest}", media_type=KINDS[suffix], size=size)
    if suffix in (".csv", ".tsv"):
        yield from read_table(stream, file.name, labels, report, delimiter="\t" if suffix == ".tsv" else ",")
    else:
        yield from read_json_lines(stream, file.name, labels, report)


def _plain(data: bytes) -> Iterator[texts.Chunk]:
    text = decode(data)
    mark = "\ufeff"
    if not text.startswith(mark):
        yield from texts.split(text)
        return
    skipped = len(mark.encode())
    for chunk in texts.split(text.removeprefix(mark)):
        yield chunk._replace(start=chunk.start + skipped, end=chunk.end + skipped)


def _html(data: bytes) -> Iterator[texts.Chunk]:
    yield from texts.split(html_text(decode(data)))


def _pdf(data: bytes) -> Iterator[texts.Chunk]:
    """Yield the chunks of a PDF, which end with their page and are labelled with its number. Their byte ranges count
    over all pages.
    """
    before = 0
    for number, text in enumerate(page_texts(data), start=1):
        for chunk in texts.split(text):
            yield chunk._replace(heading=f"page {number}", start=chunk.start + before, end=chunk.end + before)
        before += len(text.encode())


_READERS: dict[str, Callable[[bytes], Iterator[texts.Chunk]]] = {
    ".md": _plain,
    ".markdown": _plain,
    ".txt": _plain,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
}


def demand_some(files: Sequence[File], report: Report) -> None:
    """Raise if there is nothing to import: `BadFiles` with the problems, or `UsageError`."""
    report.settle()
    if not files:
        raise UsageError(
            "there is no document here",
            code="nothing_to_import",
            remedy=f"name files that end in {', '.join(sorted(KINDS))}, or folders with some",
        )
