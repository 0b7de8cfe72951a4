"""The view of a run as one HTML page. Nothing in a view can become markup, script or an address.

Every value that a template prints is escaped, loses the secrets that are known, and has invisible characters spelt out.
The only style is our own, named by its hash in the page's policy; there is no script, and the policy allows none.
Addresses in the page lead to places in it, and are made of numbers.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from importlib.resources import files
from types import CodeType
from typing import Any

from jinja2 import BaseLoader, BytecodeCache, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from tercet.contracts.shape import as_object
from tercet.view.html.graph import draw_plan, step_anchor
from tercet.view.html.safe_text import SafeText, Shown
from tercet.view.html.timeline import draw_curve, draw_timeline
from tercet.view.run import RunView
from tercet.view.session import SessionView
from tercet.view.text import as_sentence, as_words, count, duration_text, elapsed, score, utc_time

MARKER = "<!doctype html>\n<!-- a Tercet report -->\n"
"""The first bytes of every report, by which it is recognised."""
_LONGEST = 1_000
"""The number of characters of a value that are shown if a template sets no limit."""


class CompiledTemplates(BytecodeCache):
    """The compiled templates of this process, by name, file and source: each page has an environment of its own, and
    compiling takes longer than everything else that is done for a page."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Put the code of a template into its bucket, if it was compiled before."""
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template."""
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


_COMPILED = CompiledTemplates()


def render(run: RunView, safe: SafeText | None = None) -> str:
    """Return the page of a run."""
    style = files("tercet.view.html").joinpath("templates", "style.css").read_text(encoding="utf-8")
    template = make_environment(safe or SafeText()).get_template("report.html.j2")
    # Our own file without any values; it must be unchanged, since the policy contains its hash.
    body = template.render(run=run, style=Markup(style), policy=_policy(style))  # noqa: S704
    return f"{MARKER}{body}\n"


def make_environment(safe: SafeText, *loaders: BaseLoader) -> Environment:
    """Return an environment in which every printed value is made safe; templates of `loaders` come before the report's."""

    def shown(value: object) -> object:
        is_plain = isinstance(value, str) and not isinstance(value, Markup | Shown)
        return safe.text(value, _LONGEST) if is_plain else value

    def query_text(query: Any) -> str:
        fields = as_object(query) or {}
        if not fields.get("query"):
            return safe.inline(query, 600)
        return safe.text(f"{fields.get('classification', '')}: {fields['query']}".removeprefix(": "), 600)

    environment = Environment(
        loader=ChoiceLoader([*loaders, PackageLoader("tercet.view.html")]),
        autoescape=True,
        undefined=StrictUndefined,
        bytecode_cache=_COMPILED,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "capitalized": _capitalized,
        "count": count,
        "elapsed": elapsed,
        "inline": safe.inline,
        "utc_time": utc_time,
        "percent": _percent,
        "plain": "{:g}".format,
        "score": score,
        "sentence": as_sentence,
        "signed": _signed,
        "as_words": as_words,
        "text": safe.text,
        "duration_text": duration_text,
        "two_digits": "{:.2g}".format,
        "value": safe.value,
    }
    functions: dict[str, Any] = {
        "draw_curve": draw_curve,
        "draw_plan": partial(draw_plan, safe=safe),
        "draw_timeline": partial(draw_timeline, safe=safe),
        "figures": _figures,
        "left_out": _left_out,
        "member": safe.member,
        "query_text": query_text,
        "step_anchor": step_anchor,
    }
    environment.filters.update(filters)
    environment.globals.update(functions)
    environment.tests["multiline"] = lambda value: isinstance(value, str) and "\n" in value
    return environment


def _policy(style: str) -> str:
    hashed = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'"


def _capitalized(text: str) -> str:
    """Return a sentence with a capital letter, unless it begins with a name of the code such as `ledger.note`."""
    word = text.partition(" ")[0].rstrip(".,:;?!")
    return text if "." in word or "_" in word else f"{text[:1].upper()}{text[1:]}"


def _percent(share: float | None) -> float:
    return 0.0 if share is None else round(100 * min(1.0, max(0.0, share)), 1)


def _signed(number: float) -> str:
    return f"{number:+.2f}".replace("-", "−")


def _left_out(shown: Sequence[object], most: int, noun: str) -> Markup:
    """Return a line that says how many entries of a list a page leaves out."""
    more = len(shown) - most
    text = Markup('<p class="small soft">{} are left out.</p>')
    return text.format(count(more, noun)) if more > 0 else Markup()


def _figures(session: SessionView) -> list[tuple[str, str, bool]]:
    """Return the numbers at the head of a page, each with its noun and whether it is bad news."""
    counts = session.counts
    numbers = [
        (counts.calls, "call", False),
        (counts.plans, "plan", False),
        (counts.approvals, "approval", False),
        *([(counts.repairs, "repair", False)] if counts.repairs else []),
        (counts.lost_processes, "lost process", bool(counts.lost_processes)),
    ]
    return [
        (f"{counts.done} of {counts.steps}", f"steps done{f', {counts.skipped} skipped' if counts.skipped else ''}", False),
        *((f"{number:,}", noun if number == 1 else f"{noun}{'es' if noun.endswith('s') else 's'}", bad) for number, noun, bad in numbers),
        (duration_text(session.work_ms), "at work", False),
    ]  # fmt: skip
