"""From a page to HTML. Nothing in a page can become markup, script or an address.

Every value that a template prints is escaped, and spelt out where it cannot be seen, whatever was done to it before.
The only style is our own, named by its hash in the page's policy; there is no script, and the policy allows none.
Addresses in the page lead to places in it, and are made of our own words and numbers.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tercet.replay.report.page import Page
from tercet.replay.report.wording import visible

MARKER = "<!doctype html>\n<!-- a Tercet report -->\n"
"""What every report begins with: so one can be told from other people's files."""


def render(page: Page) -> str:
    """A report as HTML."""
    style = files("tercet.replay.report").joinpath("templates", "style.css").read_text(encoding="utf-8")
    environment = Environment(
        loader=PackageLoader("tercet.replay.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html.j2")
    # Our own file, without a value in it; it must reach the page as it is, since the policy names its hash.
    body = template.render(page=page, style=Markup(style), policy=_policy(style))  # noqa: S704
    return f"{MARKER}{body}\n"


def _policy(style: str) -> str:
    hashed = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'"


def _seen(value: object) -> object:
    """What a template prints, spelt out where it cannot be seen; what is markup already is ours."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
