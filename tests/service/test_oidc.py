"""Bearer tokens of an OpenID Connect issuer are accepted only with a signature, audience, issuer and time that fit."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from service.issuer import AUDIENCE, Issuer, serving
from tercet.contracts.errors import UsageError
from tercet.service.oidc import REFETCH_MS, IssuerError, OidcSettings, TokenError, TokenVerifier

NOW_S = 1_800_000_000


class Clock:
    """A wall clock that tests set."""

    ms = NOW_S * 1000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with serving(Issuer()) as running:
        yield running


@asynccontextmanager
async def verifying(
    issuer: Issuer, clock: Clock | None = None, **settings: Any
) -> AsyncGenerator[TokenVerifier]:
    """A verifier for this issuer that is closed at the end."""
    chosen = OidcSettings(issuer=issuer.url, audience=AUDIENCE, **settings)
    verifier = TokenVerifier(chosen, now_ms=clock or Clock())
    try:
        yield verifier
    finally:
        await verifier.aclose()


async def test_a_valid_token_names_subject_and_roles(issuer: Issuer) -> None:
    """The identity comes from the claims of the token."""
    async with verifying(issuer) as verifier:
        found = await verifier.verify(issuer.token(now_s=NOW_S))
    assert (found.subject, found.roles, found.tenant) == ("rosa", ("finance_lead",), "default")


async def test_the_tenant_comes_from_the_configured_claim(issuer: Issuer) -> None:
    """A token without that claim is refused, since it would fall into some tenant otherwise."""
    async with verifying(issuer, tenant_claim="org", roles_claim="groups") as verifier:
        found = await verifier.verify(issuer.token(now_s=NOW_S, org="acme", groups="a b"))
        assert (found.tenant, found.roles) == ("acme", ("a", "b"))
        for tenant in (None, "", "_service", "a\0b", 7):
            with pytest.raises(TokenError, match="names no tenant"):
                await verifier.verify(issuer.token(now_s=NOW_S, org=tenant, groups="a"))


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"aud": "another"}, "'aud'"),
        ({"aud": None}, "'aud'"),
        ({"iss": "https://evil.example"}, "'iss'"),
        ({"sub": None}, "'sub'"),
        ({"sub": ""}, "'sub'"),
        ({"sub": "rosa\0"}, "printable"),
        ({"sub": "rosa "}, "printable"),
        ({"exp": None}, "'exp'"),
        ({"exp": NOW_S - 61}, "expired"),
        ({"nbf": NOW_S + 61}, "'nbf'"),
        ({"roles": 7}, "'roles'"),
        ({"roles": [1]}, "'roles'"),
        ({"sub": "rosa\ud800"}, "printable"),
        ({"roles": ["lead\ud800"]}, "'roles'"),
    ],
)
async def test_claims_that_do_not_fit_are_refused(
    issuer: Issuer, claims: dict[str, Any], message: str
) -> None:
    """Audience, issuer, subject, expiry and start are all demanded."""
    async with verifying(issuer) as verifier:
        with pytest.raises(TokenError, match=message):
            await verifier.verify(issuer.token(now_s=NOW_S, **claims))


@pytest.mark.parametrize("depth", [100, 5_000])
async def test_a_deeply_nested_payload_is_refused_or_read(issuer: Issuer, depth: int) -> None:
    """A signed token whose claims are nested is read where nothing needs them, and never a fault of ours."""
    nested = "[" * depth + "]" * depth
    signed = issuer.sign(b'{"iss": "%s", "aud": "%s", "sub": "rosa", "exp": %d, "x": %s}' % (
        issuer.url.encode(), AUDIENCE.encode(), NOW_S + 300, nested.encode()
    ))  # fmt: skip
    async with verifying(issuer) as verifier:
        if depth > 1000:
            with pytest.raises(TokenError, match="refused"):
                await verifier.verify(signed)
        else:
            assert (await verifier.verify(signed)).subject == "rosa"


async def test_a_small_clock_skew_is_tolerated(issuer: Issuer) -> None:
    """A token that ended less than a minute ago still counts."""
    async with verifying(issuer) as verifier:
        assert (await verifier.verify(issuer.token(now_s=NOW_S, exp=NOW_S - 59))).subject == "rosa"


async def test_a_token_signed_with_another_key_is_refused(issuer: Issuer) -> None:
    """The same key id with another key does not help."""
    forged = Issuer()
    forged.url = issuer.url
    forged.keys = [ECKey.generate_key("P-256", {"kid": "first"})]
    async with verifying(issuer) as verifier:
        with pytest.raises(TokenError, match="signature"):
            await verifier.verify(forged.token(now_s=NOW_S))


async def test_a_public_key_is_never_a_shared_secret(issuer: Issuer) -> None:
    """A token signed by HMAC with the published key, or not signed at all, is refused."""
    public = issuer.keys[0].as_pem(private=False)
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "rosa", "exp": NOW_S + 300}
    hmac = jwt.encode({"alg": "HS256", "kid": "first"}, claims, OctKey.import_key(base64.b64encode(public)))
    unsigned = (
        ".".join(
            base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
            for part in ({"alg": "none"}, claims)
        )
        + "."
    )
    async with verifying(issuer) as verifier:
        for token in (hmac, unsigned):
            with pytest.raises(TokenError, match="signed with"):
                await verifier.verify(token)


async def test_shared_secrets_in_a_key_set_are_ignored(issuer: Issuer) -> None:
    """A symmetric key that an issuer publishes by mistake verifies nothing, and does not disturb the others."""
    issuer.extra_keys = [{"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQ", "kid": "oct"}]
    async with verifying(issuer) as verifier:
        assert (await verifier.verify(issuer.token(now_s=NOW_S))).subject == "rosa"


async def test_a_rotated_key_is_fetched_once(issuer: Issuer) -> None:
    """A new key id leads to one fetch; invented ones do not lead to a fetch each."""
    clock = Clock()
    async with verifying(issuer, clock) as verifier:
        old = issuer.token(now_s=NOW_S)
        await verifier.verify(old)
        issuer.rotate("second")
        clock.ms += REFETCH_MS
        assert (await verifier.verify(issuer.token(now_s=NOW_S))).subject == "rosa"
        fetched = len(issuer.requests)
        for number in range(5):
            with pytest.raises(TokenError, match="does not publish"):
                await verifier.verify(issuer.token(now_s=NOW_S, header={"kid": f"invented-{number}"}))
        with pytest.raises(TokenError, match="does not publish"):
            await verifier.verify(old)
    assert len(issuer.requests) == fetched == 4


async def test_an_issuer_that_is_down_is_named(issuer: Issuer) -> None:
    """Without any keys no token is verified; with keys from before, known ones still are."""
    issuer.is_down = True
    clock = Clock()
    async with verifying(issuer, clock) as verifier:
        with pytest.raises(IssuerError, match="could not be fetched"):
            await verifier.verify(issuer.token(now_s=NOW_S))
        issuer.is_down = False
        clock.ms += REFETCH_MS
        token = issuer.token(now_s=NOW_S + 3_600)
        await verifier.verify(token)
        issuer.is_down = True
        clock.ms += 3_000_000
        assert (await verifier.verify(token)).subject == "rosa"


@pytest.mark.parametrize(
    "token", ["", "x", "a.b.c", "a.b.c.d.e", "é.é.é", "x" * 20_000, "....", "e30.e30.e30"]
)
async def test_what_is_not_a_token_is_refused(issuer: Issuer, token: str) -> None:
    """Malformed tokens get a typed answer and lead to no request."""
    async with verifying(issuer) as verifier:
        with pytest.raises(TokenError):
            await verifier.verify(token)
    assert issuer.requests == []


@pytest.mark.parametrize("address", ["http://issuer.example", "ftp://issuer.example", "issuer.example", ""])
def test_an_insecure_issuer_is_refused(address: str) -> None:
    """Keys that travel in the clear prove nothing."""
    with pytest.raises(UsageError, match="https"):
        OidcSettings(issuer=address, audience="tercet")


def test_an_audience_is_demanded() -> None:
    """Without one, a token for any other service would be accepted."""
    with pytest.raises(UsageError, match="audience"):
        OidcSettings(issuer="https://issuer.example", audience="")


async def test_known_keys_do_not_wait_for_a_slow_issuer(issuer: Issuer) -> None:
    """While a token with an invented key id makes the service ask the issuer, tokens with known keys are verified."""
    clock = Clock()
    async with verifying(issuer, clock) as verifier, asyncio.timeout(300):
        token = issuer.token(now_s=NOW_S)
        await verifier.verify(token)
        clock.ms += REFETCH_MS
        issuer.may_answer.clear()
        invented = asyncio.create_task(verifier.verify(issuer.token(now_s=NOW_S, header={"kid": "invented"})))
        try:
            while len(issuer.requests) < 3:  # noqa: ASYNC110 - the issuer runs in a thread
                await asyncio.sleep(0.01)
            assert (await verifier.verify(token)).subject == "rosa"
            assert not invented.done()
        finally:
            issuer.may_answer.set()
        with pytest.raises(TokenError, match="does not publish"):
            await invented


@pytest.mark.parametrize(
    "header",
    [
        {"kid": "../../etc/passwd"},
        {"kid": "' OR 1=1 --"},
        {"kid": "x" * 300},
        {"kid": "first\0"},
        {"kid": "FIRST"},
    ],
)
async def test_key_ids_only_choose_among_published_keys(issuer: Issuer, header: dict[str, Any]) -> None:
    """A key id is compared with those of the key set, and is nothing else."""
    async with verifying(issuer) as verifier:
        with pytest.raises(TokenError, match="does not publish"):
            await verifier.verify(issuer.token(now_s=NOW_S, header=header))


async def test_a_key_within_the_token_counts_for_nothing(issuer: Issuer) -> None:
    """A token that brings its own key, or says where to fetch one, is verified with the issuer's keys alone."""
    own = ECKey.generate_key("P-256", {"kid": "first"})
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "eve", "exp": NOW_S + 300}
    async with verifying(issuer) as verifier:
        for more in ({"jwk": own.as_dict(private=False)}, {"jku": f"{issuer.url}/own"}):
            token = jwt.encode({"alg": "ES256", "kid": "first", **more}, claims, own)
            with pytest.raises(TokenError, match="signature"):
                await verifier.verify(token)
    assert "/own" not in issuer.requests


@pytest.mark.parametrize("keys", [[7], ["x"], 7, [{"kty": "EC"}], [None]])
async def test_a_key_set_of_another_shape_is_an_issuer_that_is_unavailable(issuer: Issuer, keys: Any) -> None:
    """What the issuer publishes by mistake is named as its fault, and is no fault of the service."""
    issuer.published = keys
    async with verifying(issuer) as verifier:
        with pytest.raises(IssuerError, match="could not be fetched"):
            await verifier.verify(issuer.token(now_s=NOW_S))
