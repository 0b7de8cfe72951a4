"""Other people's words: secrets, what cannot be seen, and length."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import DictLoader, Environment

from tercet.tools.secrets import Redaction
from tercet.view.html.page import make_environment
from tercet.view.html.safe_text import SafeText, secrets_of, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("pay \u202e0054\u202c", "pay \\u202e0054\\u202c"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("nul\x00", "nul\\x00"),
        ("blank\u3164", "blank\\u3164"),
        ("two\nlines\tand naïve ✓", "two\nlines\tand naïve ✓"),
    ],
)
def test_what_cannot_be_seen_is_spelt_out(text: str, shown: str) -> None:
    """Escapes, bidirectional controls, zero widths, tags and fillers are seen; ordinary text stays as it is."""
    assert visible(text) == shown
    assert visible(shown) == shown


@given(st.text())
def test_nothing_that_does_not_print_is_left(text: str) -> None:
    """Whatever it was given, only characters that print are left, and line breaks and tabs."""
    assert all(letter.isprintable() or letter in "\n\t" for letter in visible(text))


def test_long_text_says_how_much_is_left_out() -> None:
    """The beginning and the end stay, and between them stands how many characters are missing."""
    told = SafeText().text("a" * 500 + "b" * 500, 100)
    assert told.startswith("aaa")
    assert told.endswith("bbb")
    assert "900 characters are left out" in told


def test_secrets_of_the_environment_are_cut_out_before_a_text_is_cut() -> None:
    """A secret that lies across the cut leaves no half behind, and is found in JSON and in Base64."""
    wording = SafeText(secrets_of({"BILLING_API_KEY": "correct-horse-battery", "HOME": "/a/b/c/d/e/f"}))
    for place in range(60, 90):
        assert "horse" not in wording.text("x" * place + "correct-horse-battery" + "y" * 100, 100)
    assert wording.value({"said": "correct-horse-battery"}) == json.dumps({"said": "[redacted]"}, indent=2)
    assert wording.text("/a/b/c/d/e/f") == "/a/b/c/d/e/f"


@pytest.mark.parametrize("name", ["password", "api_key", "client_secret", "Authorization", "access_token"])
def test_members_that_are_called_secret_are_not_shown(name: str) -> None:
    """A parameter whose name says that it is secret is not shown, at any depth; a reference to one is."""
    wording = SafeText()
    assert "hunter2" not in wording.value({"a": [{name: "hunter2"}]})
    assert wording.member(name, "hunter2") == "[redacted]"
    assert "s1#/x" in wording.value({name: {"$from": "s1#/x"}})


def test_names_that_only_sound_like_it_are_shown() -> None:
    """Counts of tokens, idempotency keys and hashes are no secrets."""
    value = {"estimated_tokens": 12, "idempotency_key": "sha256:" + "ab" * 32, "key": "k1"}
    assert json.loads(SafeText().value(value)) == value


def test_keys_of_known_shapes_are_cut_out_wherever_they_stand() -> None:
    """A key of a known provider in the middle of a text is not shown."""
    told = SafeText().text("I used AKIAIOSFODNN7EXAMPLE for it")
    assert told == "I used [redacted] for it"


def test_deep_values_are_cut() -> None:
    """A value that is nested without end is shown as far as anybody would read."""
    deep: object = "end"
    for _ in range(500):
        deep = [deep]
    assert "deeper values are left out" in SafeText().inline(deep, 2_000)


def test_a_template_is_compiled_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another page, with other secrets, takes the compiled template, and hides its own."""
    template = DictLoader({"page": "{{ said }} {{ said | text }}"})

    def page(*secrets: str) -> str:
        environment = make_environment(SafeText(Redaction(secrets)), template)
        return environment.get_template("page").render(said="red-hen blue-hen")

    assert "red-hen" not in page("red-hen")

    def compile_again(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Environment, "compile", compile_again)
    assert "red-hen" in page("blue-hen")
    assert "blue-hen" not in page("blue-hen")
