"""Files that importers are tried with."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pypdf
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from tercet.evidence.importing.files import find_files, read_changes
from tercet.evidence.importing.records import Labels, Report
from tercet.evidence.store import Change, NewDocument, NewFact


def pdf_bytes(pages: Sequence[str], password: str = "") -> bytes:
    """A real PDF with a line of text on each page."""
    writer = pypdf.PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(width=300, height=300)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = stream
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def read(*paths: Path, report: Report | None = None, **labels: Any) -> list[Change]:
    """The changes that files make."""
    known = report or Report()
    told: dict[str, Any] = {"classification": "policy", **labels}
    return list(read_changes(find_files(paths, known), Labels(**told), known))


def facts(changes: Iterable[Change]) -> list[NewFact]:
    """The facts among changes."""
    return [each for each in changes if isinstance(each, NewFact)]


def documents(changes: Iterable[Change]) -> list[NewDocument]:
    """The documents among changes."""
    return [each for each in changes if isinstance(each, NewDocument)]
