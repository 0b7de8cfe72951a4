"""Reports in a real browser: hostile text stays text, nothing is fetched, and the page can be read by everybody."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from engine.workshop import Workshop
from tercet.view.html.page import render
from tercet.view.run import RunView, run_view

from .browser import Scheme, visit
from .runs import eventful, filled, judged, letter

HOSTILE = (
    "</style></title></textarea></pre></code></text></svg>"
    "<script>window.pwned=1;alert(1)</script>"
    "<img src=x onerror='window.pwned=2'><img src=https://evil.example/a.png>"
    "<svg onload=window.pwned=3><iframe src=https://evil.example/></iframe>"
    '" onmouseover="window.pwned=4" style="background:url(https://evil.example/b)" autofocus onfocus="window.pwned=5" x="'
    "' onclick='window.pwned=6 javascript:alert(2) {{ 7*7 }} {% raw %} <!-- --> ]]> &lt;b&gt; &#60;i&#62; "
    "\x1b[31mred\x1b[0m \u202egnp.exe\u202c \u200b\x00 <link rel=stylesheet href=//evil.example> <base href=//evil.example>"
    "<meta http-equiv=refresh content='0;url=https://evil.example/'><a href='javascript:alert(3)'>x</a>"
)

SKELETON = """() => [...document.querySelectorAll('*')].map(
  e => e.tagName + ' ' + e.getAttributeNames().sort().join(','))"""

CONTRAST = """() => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return {rgb: n.slice(0, 3), a: n.length > 3 ? n[3] : 1}; };
  const light = rgb => rgb.map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a) return c.rgb; } return [255, 255, 255]; };
  const faint = [];
  for (const e of document.querySelectorAll('body *:not(svg *)')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color).rgb), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) faint.push(`${e.tagName}.${e.className} ${ratio.toFixed(2)} ${e.textContent.slice(0, 30)}`);
  }
  return faint;
}"""

STICKING_OUT = """() => [...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.wide, figure, .skip, svg *') && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => `${e.tagName}.${e.className} in ${e.parentElement.className}`).slice(0, 5)"""

OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true; })"


def written(folder: Path, page: RunView) -> Path:
    """A report in a file."""
    path = folder / "report.html"
    path.write_text(render(page), encoding="utf-8")
    return path


def letter_page(*faults: str) -> RunView:
    """The page of a letter that was judged, made in another thread."""
    with ThreadPoolExecutor(1) as thread:
        return run_view(thread.submit(letter, *faults).result())


def told(workshop: Workshop, secret: str = "") -> RunView:
    """The page of an eventful run, which is made in another thread: the browser has a loop of its own in this one."""
    with ThreadPoolExecutor(1) as thread:
        return run_view(thread.submit(eventful, workshop, secret).result())


def test_hostile_text_in_every_field_stays_text(browser: Browser, tmp_path: Path) -> None:
    """No script runs, nothing is asked for, and the page has exactly the elements and attributes of a harmless one."""
    harmless = "harmless " * (len(HOSTILE) // 9)  # as long, since a bar has a text only if it fits
    with visit(browser, written(tmp_path, filled(RunView, harmless))) as seen:
        seen.run(OPEN_ALL)
        skeleton = seen.run(SKELETON)
    with visit(browser, written(tmp_path, filled(RunView, HOSTILE))) as seen:
        seen.run(OPEN_ALL)
        assert seen.run(SKELETON) == skeleton
        assert seen.run("window.pwned") is None
        assert (seen.requests, seen.complaints) == ([], [])
        text: str = seen.run("document.body.innerText")
        assert "<script>window.pwned=1;alert(1)</script>" in text
        assert "\\x1b[31mred" in text
        assert "\\u202egnp.exe\\u202c" in text
        assert "{{ 7*7 }}" in text
        html: str = seen.run("document.documentElement.outerHTML")
        assert not set(html) & set("\x00\x1b\u202e\u202c\u200b")


def test_hostile_words_of_a_run_stay_text(browser: Browser, tmp_path: Path, workshop: Workshop) -> None:
    """Through the journal too: what a tool answered with stands in the report as it was said, and does nothing."""
    page = told(workshop, HOSTILE.replace("\x00", ""))
    with visit(browser, written(tmp_path, page)) as seen:
        seen.run(OPEN_ALL)
        assert seen.run("window.pwned") is None
        assert (seen.requests, seen.complaints) == ([], [])
        assert seen.run("document.querySelectorAll('script, img, iframe, link, base').length") == 0
        assert "<script>window.pwned=1;alert(1)</script>" in seen.run("document.body.innerText")


def test_hostile_words_of_an_output_that_was_mended_stay_text(
    browser: Browser, tmp_path: Path, workshop: Workshop
) -> None:
    """In claims, defects, repairs and the comparison of what was changed, they do nothing."""
    words = HOSTILE.replace("\x00", "")
    with ThreadPoolExecutor(1) as thread:
        page = run_view(thread.submit(judged, workshop, words).result())
    assert page.quality is not None
    assert page.quality.changes
    with visit(browser, written(tmp_path, page)) as seen:
        seen.run(OPEN_ALL)
        assert seen.run("window.pwned") is None
        assert (seen.requests, seen.complaints) == ([], [])
        assert seen.run("document.querySelectorAll('script, img, iframe, link, base').length") == 0
        assert "<script>window.pwned=1;alert(1)</script>" in seen.run(
            "document.querySelector('.diff').innerText"
        )


@pytest.mark.parametrize("faults", [("total", "claim", "key", "section"), ("total", "date")])
@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1120)])
def test_the_section_about_quality_can_be_read_everywhere(
    browser: Browser, tmp_path: Path, scheme: Scheme, width: int, faults: tuple[str, ...]
) -> None:
    """Open as it can be, all of it has contrast, stays within the window, and leads nowhere but into the page."""
    with visit(browser, written(tmp_path, letter_page(*faults)), scheme=scheme, width=width) as seen:
        seen.run(OPEN_ALL)
        assert seen.run("document.querySelectorAll('#quality .diff .new').length") > 0
        assert seen.run(CONTRAST) == []
        assert seen.run(STICKING_OUT) == []
        assert seen.run("document.documentElement.scrollWidth") <= width
        assert (seen.requests, seen.complaints) == ([], [])


def test_the_policy_holds_even_if_markup_got_in(browser: Browser, tmp_path: Path) -> None:
    """Were a script, an image or a style written into the file, the policy of the page would still let none of it work."""
    path = written(tmp_path, filled(RunView, "harmless"))
    planted = (
        "<script>window.pwned=1</script><img src=x onerror='window.pwned=2'>"
        "<img src='https://evil.example/a.png'><style>body{--pwned:1}</style><main id=m style='--pwned:2'>"
    )
    path.write_text(
        path.read_text(encoding="utf-8").replace('<main id="content">', planted), encoding="utf-8"
    )
    with visit(browser, path) as seen:
        assert seen.run("document.querySelectorAll('script').length") == 1, "the script was really planted"
        assert seen.run("window.pwned") is None
        assert seen.run("getComputedStyle(document.body).getPropertyValue('--pwned')") == ""
        assert seen.run("getComputedStyle(document.getElementById('m')).getPropertyValue('--pwned')") == ""
        assert any("Content Security Policy" in said for said in seen.complaints)
        assert len(seen.blocked) == 2
        assert seen.blocked == seen.requests


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_schemes(
    browser: Browser, tmp_path: Path, workshop: Workshop, scheme: Scheme
) -> None:
    """All text has a contrast of 4.5 or more against what lies behind it, and the schemes differ."""
    with visit(browser, written(tmp_path, told(workshop)), scheme=scheme) as seen:
        seen.run(OPEN_ALL)
        assert seen.run(CONTRAST) == []
        background = seen.run("getComputedStyle(document.body).backgroundColor")
        red = int(background.removeprefix("rgb(").partition(",")[0])
        assert (red > 200) == (scheme == "light")


@pytest.mark.parametrize("width", [360, 1120])
@pytest.mark.parametrize("text", ["harmless", HOSTILE, "W" * 3_000])
def test_nothing_sticks_out_of_the_page(browser: Browser, tmp_path: Path, width: int, text: str) -> None:
    """On a phone as on a desk the page is as wide as its window, whatever words are in it."""
    with visit(browser, written(tmp_path, filled(RunView, text)), width=width) as seen:
        seen.run(OPEN_ALL)
        assert seen.run(STICKING_OUT) == []
        assert seen.run("document.documentElement.scrollWidth") <= width


def test_a_report_has_landmarks_headings_and_names(
    browser: Browser, tmp_path: Path, workshop: Workshop
) -> None:
    """One main, one h1, no level of headings left out, every section and drawing named, every link leads somewhere."""
    with visit(browser, written(tmp_path, told(workshop))) as seen:
        found: dict[str, Any] = seen.run(
            """() => ({
              landmarks: ['main', 'header.head', 'nav', 'footer', 'h1'].map(s => document.querySelectorAll(s).length),
              levels: [...document.querySelectorAll('h1,h2,h3,h4')].map(e => Number(e.tagName[1])),
              unnamed: [...document.querySelectorAll('section')].filter(e => !document.getElementById(e.getAttribute('aria-labelledby'))).length,
              drawings: [...document.querySelectorAll('svg:not([aria-hidden])')].map(e => e.getAttribute('aria-label').length > 10),
              dead: [...document.querySelectorAll('a')].filter(e => !document.querySelector(e.getAttribute('href'))).length,
              twice: [...document.querySelectorAll('[id]')].length - new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size,
            })"""
        )
    assert found["landmarks"] == [1, 1, 1, 1, 1]
    assert found["levels"][0] == 1
    assert (found["unnamed"], found["dead"], found["twice"]) == (0, 0, 0)
    assert found["drawings"]
    assert all(found["drawings"])
