"""Secrets are cut out of whatever comes back, however it is spelt."""

from __future__ import annotations

import base64
import html
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import NotDone
from tercet.tools.secrets import MIN_LENGTH, REDACTED, Redaction, read_secret

PLANTED = "sk_live+9/Qz=71x"
secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=12, max_size=40)


@given(secrets, st.text(max_size=20), st.text(max_size=20))
def test_a_secret_is_cut_out_wherever_it_stands(secret: str, before: str, after: str) -> None:
    """As it is, in another case, percent-encoded, and in Base64 with anything before and after it."""
    redaction = Redaction([secret])
    spellings = [secret, secret.upper(), quote(secret, safe="")]
    for text in spellings:
        assert text not in redaction.text(f"{before}{text}{after}")
    packed = base64.b64encode(f"{before}{secret}{after}".encode()).decode()
    cleaned = redaction.text(packed)
    assert REDACTED in cleaned


@given(secrets, st.integers(1, 80), st.sampled_from(["\n", "\r\n", "\\n", "%0A"]))
def test_a_secret_in_base64_is_cut_out_however_it_is_broken_into_lines(
    secret: str, width: int, end: str
) -> None:
    """As mail and PEM do, at any width."""
    packed = base64.b64encode(secret.encode()).decode()
    wrapped = end.join(packed[at : at + width] for at in range(0, len(packed), width))
    assert REDACTED in Redaction([secret]).text(f"see:\n{wrapped}\n")


@given(secrets, st.sampled_from(["", " ", ":", "-", "\\x", ", 0x", "\n"]), st.booleans())
def test_a_secret_in_hexadecimal_is_cut_out(secret: str, between: str, upper: bool) -> None:
    """In either case, with and without separators."""
    spelt = between.join(f"{byte:02X}" if upper else f"{byte:02x}" for byte in secret.encode())
    assert Redaction([secret]).text(f"<{spelt}>") == f"<{REDACTED}>"


@given(secrets, st.data())
def test_a_secret_is_cut_out_whichever_characters_are_percent_encoded(
    secret: str, data: st.DataObject
) -> None:
    """All of them, or any."""
    encoded = data.draw(st.lists(st.booleans(), min_size=len(secret), max_size=len(secret)))
    spelt = "".join(
        f"%{ord(c):02X}" if is_encoded else c for c, is_encoded in zip(secret, encoded, strict=True)
    )
    every = "".join(f"%{ord(c):02x}" for c in secret)
    for text in (spelt, every):
        assert Redaction([secret]).text(f"<{text}>") == f"<{REDACTED}>"


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ({"a": [f"x {PLANTED} y", 1, None, True]}, {"a": [f"x {REDACTED} y", 1, None, True]}),
        ({PLANTED: 1}, {REDACTED: 1}),
        (base64.b64encode(PLANTED.encode()).decode()[:-2], REDACTED),
        ("nothing of it", "nothing of it"),
    ],
)
def test_values_are_cleaned_at_every_depth(value: Any, cleaned: Any) -> None:
    """Texts, keys and lists; what holds no secret is as it was."""
    found = Redaction([PLANTED]).value(value)
    assert PLANTED not in str(found)
    assert found == cleaned or REDACTED in str(found)


AWKWARD = "Zx/81+q&\"k'=\\ 7w"


@pytest.mark.parametrize(
    "spelt",
    [
        json.dumps(AWKWARD),
        json.dumps(AWKWARD).replace("/", "\\/"),
        json.dumps(AWKWARD).replace("+", "\\u002B").replace('\\"', "\\u0022"),
        html.escape(AWKWARD),
        html.escape(AWKWARD).replace("+", "&#43;").replace("/", "&#x2F;"),
        repr(AWKWARD),
        quote(AWKWARD),
        quote_plus(AWKWARD),
    ],
)
def test_a_secret_is_known_as_other_writings_escape_it(spelt: str) -> None:
    """An error quotes the JSON or HTML of a service as it came, in which signs of the secret may be escaped."""
    told = Redaction([AWKWARD]).text(f"the key is {spelt}.")
    assert REDACTED in told
    assert not any(part in told for part in ("Zx", "81", "7w"))


def test_a_number_that_is_the_secret_is_cut_out() -> None:
    """A secret of digits may come back as a number."""
    assert Redaction(["81549300"]).value([81549300, 8154, 1.5]) == [REDACTED, 8154, 1.5]


def test_basic_authentication_is_known_by_its_password() -> None:
    """Where the secret is user and password in Base64, a service that tells the password is cut short as well."""
    secret = base64.b64encode(b"billing:correct horse").decode()
    assert Redaction([secret]).text("hello correct horse") == f"hello {REDACTED}"


@pytest.mark.parametrize("value", ["", "  ", "a" * (MIN_LENGTH - 1), "line\nbreak", "ünicode"])
def test_a_secret_that_cannot_be_one_keeps_the_call_back(value: str) -> None:
    """The error names the variable and not its value."""
    with pytest.raises(NotDone) as caught:
        read_secret({"TOKEN": value}, "TOKEN", "a.b")
    assert (caught.value.code, caught.value.is_retriable) == ("secret_missing", False)
    assert "TOKEN" in str(caught.value)
    assert not value.strip() or value not in str(caught.value)
