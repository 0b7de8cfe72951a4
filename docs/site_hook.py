"""Fits pages of the repository that lie outside of `docs/` into the site; MkDocs loads this file as a hook."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs"
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md", "examples/*/README.md")
_LINK = re.compile(r"(?P<text>\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^)\s:#]+)(?P<anchor>#[^)\s]*)?\)")


def outside_pages() -> list[str]:
    """Return the pages of the repository that the site shows although they are not in `docs/`."""
    found = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    return [path.relative_to(ROOT).as_posix() for path in found]


def on_files(files: Any, config: Any) -> Any:
    """Add the pages outside of `docs/`, under the paths that they have in the repository."""
    for name in outside_pages():
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Lead links to where a page is on the site; a link to any other file of the repository becomes plain text."""
    source = page.file.src_uri
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]  # its sidebar would hold nothing but itself
    here = source if source in outside_pages() else f"{DOCS}/{source}"
    known = {file.src_uri for file in files}

    def follow(match: re.Match[str]) -> str:
        target = normpath((PurePosixPath(here).parent / match["target"]).as_posix())
        if target.rstrip("/").endswith("examples") or (ROOT / target).is_dir():
            target = f"{target}/README.md"
        place = target.removeprefix(f"{DOCS}/")
        if place in known:
            link = relpath(place, PurePosixPath(source).parent.as_posix() or ".")
            return f"{match['text']}({link}{match['anchor'] or ''})"
        return match["text"][1:-1] if (ROOT / target).exists() else match[0]

    parts = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if index % 2 else _LINK.sub(follow, part) for index, part in enumerate(parts))
