"""Words that docstrings, comments, messages and pages avoid, because readers stumble over them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tercet"

AVOIDED = (
    r"somebody|nobody|whoever|whomever",  # name the user, caller, approver or operator, or write "no one"
    r"(?<!there )is no (?!longer\b|more\b|less\b|worse\b|other\b|one\b|such\b)[a-z]+",  # "is not a …"
    r"told",  # reported, shown, notified
    r"mend(?:s|ed|ing)?",  # repair, fix, correct
    r"borne out|bears? \w+ out",  # supported
    r"anew",  # again
    r"how-manieth",  # the number of
    r"(?:taken|takes?|taking|took) (?:it |them |this |that |effects? )?back|way back",  # compensate, undo
    r"hand(?:s|ed|ing)? over",  # pass, escalate
)
PATTERN = re.compile(rf"\b(?:{'|'.join(AVOIDED)})\b", re.IGNORECASE)

RECORDED = "recorded in verdicts or model questions, which a replay derives again byte for byte"
IN_EVENTS = "recorded in events, whose bytes stay the same for the same run"
HASHED = "part of the hash of packs that recorded sessions are pinned to"
ALLOWED = {
    "context/compiler.py": ("what a planner must be told of decision ", RECORDED),
    "contracts/values/plain.py": (" is no JSON value", RECORDED),
    "contracts/plan.py": (" is no name; each value is given under one", RECORDED),
    "contracts/values/references.py": (
        " is no reference: $from, $evidence, $cel, $select and $literal are",
        RECORDED,
    ),
    "critic/evaluators.py": ("nobody ", RECORDED),
    "critic/checks/feasibility.py": ("plan up to there, and plan anew once more is known", RECORDED),
    "critic/checks/unbound_causes.py": ("it is no reference", RECORDED),
    "critic/checks/gates.py": ("", RECORDED),
    "critic/judge.py": ("nobody knows whether step ", RECORDED),
    "critic/checks/structure.py": (" is no boolean", RECORDED),
    "critics/agent.py": ("", HASHED),
    "core/effects.py": ("its way back cannot be worked out: ", IN_EVENTS),
    "core/resolve/sessions.py": ("Session expired: nobody answered gate ", IN_EVENTS),
    "core/outputs/edge_cases.py": ("with a member that nobody foresaw", IN_EVENTS),
    "core/resolve/calls.py": ("it failed, and the agent is told: ", IN_EVENTS),
    "engine/control.py": ("the process was told to stop", IN_EVENTS),
    "engine/driver.py": ("the process was told to stop", IN_EVENTS),
    "engine/outputs/samples.py": ("", IN_EVENTS),
    "planner/answer.py": ("", RECORDED),
    "planner/htn.py": ("plan anew once more is known", RECORDED),
    "planner/prompt.py": ("what the model must be told does not fit into ", RECORDED),
    "policy/expressions.py": (" is no parameter of this tool", RECORDED),
    "quality/exit.py": ("", IN_EVENTS),
    "quality/repair/causes.py": ("", RECORDED),
    "quality/repair/escalation.py": ("", IN_EVENTS),
    "quality/repair/prompts.py": ("You mend one part|outputs that nobody asked for", RECORDED),
    "quality/repair/phase.py": ("taken back: it lost ", IN_EVENTS),
    "quality/rubric/adversarial.py": ("", RECORDED),
    "quality/rubric/critique.py": ("", RECORDED),
    "quality/verification/judge.py": ("", RECORDED),
    "quality/verification/junit.py": ("this is no JUnit report: ", IN_EVENTS),
}
"""Messages that keep their bytes, by module: parts of the messages, separated by `|`, and the reason."""


def pages() -> list[Path]:
    """Return README, CONTRIBUTING, the pages in `docs/` and those of the examples."""
    shown = (ROOT / "docs").rglob("*.md")
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(shown)]
    return [
        *found,
        *sorted((ROOT / "examples").rglob("*.md")),
    ]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings and comments of a module with their lines; single words are identifiers, and are skipped."""
    source = path.read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    if "#" in source and PATTERN.search(source):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def found_in(place: str, line: int, text: str) -> Iterator[str]:
    """Yield each avoided word in a text, with its file and line."""
    for match in PATTERN.finditer(text):
        row = line + text.count("\n", 0, match.start())
        yield f"{place}:{row}: {' '.join(text[max(0, match.start() - 30) : match.end() + 30].split())}"


def is_allowed(parts: str, text: str) -> bool:
    """Return whether a text has one of the parts, which `|` separates; without parts, whether it is a single line."""
    return any(part in text for part in parts.split("|")) if parts else "\n" not in text


def test_the_source_uses_plain_words() -> None:
    """No docstring, comment or message of the source has an avoided word."""
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        allowed = ALLOWED.get(name)
        for line, text in texts(path):
            if allowed is None or not is_allowed(allowed[0], text):
                found += found_in(f"src/tercet/{name}", line, text)
    assert not found, "\n".join(found)


def other_files() -> list[Path]:
    """Return what users read beside pages and source: templates of pages, packs that are copied, examples, dashboards."""
    packs = SOURCE / "packs"
    found = [
        *SOURCE.rglob("*.j2"),
        *(path for kind in ("*.toml", "*.md", "*.yml") for path in packs.rglob(kind)),
        *(path for kind in ("*.toml", "*.sql", "*.py") for path in (ROOT / "examples").rglob(kind)),
        *(ROOT / "docs" / "grafana").glob("*.json"),
        *(ROOT / "docs").glob("*.py"),
        ROOT / "CHANGELOG.md",
        ROOT / "Makefile",
    ]
    return sorted(found)


def test_templates_and_examples_use_plain_words() -> None:
    """No line of a template, a pack that is copied, an example or a dashboard has an avoided word."""
    found = [
        each
        for path in other_files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for each in found_in(path.relative_to(ROOT).as_posix(), number, line)
    ]
    assert not found, "\n".join(found)


def test_the_pages_use_plain_words() -> None:
    """No page has an avoided word outside of quotes and code."""
    found: list[str] = []
    for page in pages():
        is_code = False
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            is_code = is_code != line.startswith("```")
            if not is_code:
                found += found_in(page.relative_to(ROOT).as_posix(), number, re.sub(r"`[^`]*`", "``", line))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "Whoever asks is told.",
        "it is no list",
        "A call that takes it back.",
        "planned anew",
        "mended",
        "handed over",
    ],
)
def test_avoided_words_are_found(text: str) -> None:
    """The pattern finds the words in sentences."""
    assert PATTERN.search(text)


@pytest.mark.parametrize(
    "text", ["it is no longer there", "there is no gate", "amended", "a handover", "is no more"]
)
def test_ordinary_words_are_not_found(text: str) -> None:
    """Usual phrases that only look alike are left alone."""
    assert not PATTERN.search(text)


def test_the_exceptions_are_needed() -> None:
    """Each allowed message still names something that is there."""
    for name, (part, _) in ALLOWED.items():
        messages = [text for _, text in texts(SOURCE / name) if is_allowed(part, text)]
        assert any(PATTERN.search(text) for text in messages), name
