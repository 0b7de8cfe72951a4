"""The documentation site builds without a warning, holds every page, and loads nothing from another host."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config  # pyright: ignore[reportUnknownVariableType] - it takes any option

ROOT = Path(__file__).parents[1]
FOREIGN = re.compile(r"(?:[a-z]+:)?//(?!www\.w3\.org/)[^\s\"')]+")


class Loads(HTMLParser):
    """The addresses that a browser loads by itself when it shows a page."""

    def __init__(self) -> None:
        """Begin without any."""
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what the tag loads; a link that a reader may follow does not count."""
        for name, value in attrs:
            follows = tag == "a" or (tag == "link" and ("rel", "canonical") in attrs)
            if name in {"src", "srcset", "href", "data", "poster"} and not follows:
                self.found.append(value or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; any warning fails, as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    config: Any = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    logging.getLogger("mkdocs").propagate = False
    build(config)
    return folder


@pytest.mark.slow
def test_the_site_loads_nothing_from_another_host(site: Path) -> None:
    """No page names a font, script, style or picture of another host, and no style sheet does."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    foreign: list[str] = []
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        foreign += [f"{page.name}: {address}" for address in loads.found if FOREIGN.match(address)]
    for sheet in site.rglob("*.css"):
        addresses = re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")]+)", sheet.read_text(encoding="utf-8"))
        foreign += [f"{sheet.name}: {address}" for address in addresses if FOREIGN.match(address)]
    assert not foreign


@pytest.mark.slow
@pytest.mark.parametrize("link", ["gone.md", "index.md#gone"])
def test_make_docs_fails_on_a_link_that_leads_nowhere(link: str, tmp_path: Path) -> None:
    """The command of the Makefile, on a small site with the validation of ours: a missing page or heading is an error."""
    [options] = re.findall(r"mkdocs build (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    [validation] = re.findall(r"^validation:\n(?:  .+\n)+", config, re.MULTILINE)
    (tmp_path / "mkdocs.yml").write_text(f"site_name: small\ntheme: mkdocs\n{validation}", encoding="utf-8")
    (tmp_path / "docs").mkdir()
    for target, code in ("index.md", 0), (link, 1):
        (tmp_path / "docs" / "index.md").write_text(f"[here]({target})\n", encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", *options.split()], cwd=tmp_path, check=False
        )
        assert done.returncode == code


@pytest.mark.slow
def test_the_search_of_the_site_knows_every_page(site: Path) -> None:
    """The index that the browser searches is a local file, and holds each page of `docs/`."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    expected = {page.as_posix().replace("README.html", "index.html") for page in pages}
    assert not expected - found


@pytest.mark.slow
def test_pages_outside_of_docs_are_on_the_site(site: Path) -> None:
    """Links to the changelog and to examples lead to pages of the site."""
    assert 'href="examples/agent/index.html"' in (site / "engine.html").read_text(encoding="utf-8")
    assert (site / "examples" / "agent" / "index.html").is_file()
    assert (site / "CHANGELOG.html").is_file()


@pytest.mark.slow
def test_every_link_within_the_site_leads_to_a_file_of_it(site: Path) -> None:
    """Links to pages, and to files such as the dashboard, which are shown in `docs/` by their path in the repository."""
    broken: list[str] = []
    for page in sorted(site.rglob("*.html")):
        base = site if page.name == "404.html" else page.parent
        for address in re.findall(r'<a [^>]*?href="([^"#?:]+)["#?]', page.read_text(encoding="utf-8")):
            target = (site / address.lstrip("/")) if address.startswith("/") else base / address
            if not (target.is_file() or (target / "index.html").is_file()):
                broken.append(f"{page.relative_to(site)}: {address}")
    assert not broken


def test_every_page_has_its_place_in_the_navigation() -> None:
    """A page in `docs/` is listed under `nav` in mkdocs.yml; design notes have an index of their own."""
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\s+- (?:[^:\n]+: )?(\S+\.md)$", config, re.MULTILINE))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    missing = sorted(page for page in pages - listed if not page.startswith("design/0"))
    assert not missing, f"add to nav in mkdocs.yml: {', '.join(missing)}"
