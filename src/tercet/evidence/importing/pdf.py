"""The text of a PDF, page by page, with pypdf, which comes with the extra `tercet[documents]`."""

from __future__ import annotations

import io
import logging
import warnings

from tercet.contracts.errors import extra_missing
from tercet.evidence.importing.texts import Unreadable


def page_texts(data: bytes) -> list[str]:
    """The texts of the pages; raises `Unreadable` for a file that is no PDF, is encrypted, or holds no text."""
    try:
        import pypdf  # noqa: PLC0415 - an optional dependency
        from pypdf.errors import FileNotDecryptedError  # noqa: PLC0415 - an optional dependency
    except ModuleNotFoundError as error:
        raise extra_missing("reading PDF", "pypdf", "documents") from error
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it has to say, it raises
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader = pypdf.PdfReader(io.BytesIO(data))
            is_closed = reader.is_encrypted and not reader.decrypt("")
            texts = [] if is_closed else [_storable(page.extract_text()) for page in reader.pages]
    except FileNotDecryptedError:
        is_closed, texts = True, []
    except Exception as error:
        raise Unreadable(
            f"it is no PDF that can be read ({f'{type(error).__name__}: {error}'[:200]})",
            code="pdf_unreadable",
            remedy="open it in a viewer and save it anew",
        ) from error
    if is_closed:
        raise Unreadable(
            "it is encrypted", code="pdf_encrypted", remedy="save a copy without a password, and import that"
        )
    if not any(text.strip() for text in texts):
        raise Unreadable(
            "it holds no text, only pictures of it",
            code="pdf_without_text",
            remedy="run it through text recognition first",
        )
    return texts


def _storable(text: str) -> str:
    """A text without what no store keeps: fonts may map to lone surrogates and to NUL."""
    return "".join(
        "\ufffd" if "\ud800" <= letter <= "\udfff" or letter == "\0" else letter for letter in text
    )
