"""Logging in and out, and what a request without a login or from another site gets."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest

from console.desk import HOST, Browser, open_console
from service.issuer import AUDIENCE, Issuer, serving
from tercet.console.logins import KEY_LOGIN_MS, LINK_MS, csrf_token
from tercet.console.site import PAGES
from tercet.console.visit import next_path
from tercet.runtime import RuntimeOptions
from tercet.service.oidc import OidcSettings
from tercet.testing.clock import VirtualClock


async def test_pages_need_a_login_which_an_api_key_gives(shop: Path) -> None:
    async with open_console() as desk:
        browser = desk.browser()
        page = await browser.get("/console/sessions?status=completed")
        assert (page.status_code, page.url.path) == (200, "/console/login")
        wrong = await browser.send(page, "/console/login", key="tck_0_wrong")
        assert wrong.status_code == 401
        assert "not valid" in wrong.text
        right = await browser.send(wrong, "/console/login", key=await desk.key("user_finance_lead"))
        assert (right.status_code, right.url.path) == (200, "/console/sessions")
        assert "status=completed" in str(right.url)
        inbox = await browser.get("/")
        assert inbox.url.path == "/console"
        assert "Nothing waits for you" in inbox.text


async def test_a_login_cookie_is_opaque_and_kept_from_scripts_and_other_sites(shop: Path) -> None:
    async with open_console() as desk:
        browser = desk.browser()
        key = await desk.key("olga")
        page = await browser.get("/console/login")
        response = await browser.client.post(
            "/console/login", data={**forms(page), "key": key}, headers={"origin": HOST}
        )
        cookies = [
            each for each in response.headers.get_list("set-cookie") if each.startswith("tercet_console")
        ]
        assert len(cookies) == 1
        assert re.match(
            r"tercet_console_8700=[\w-]{43}; HttpOnly; Max-Age=43200; Path=/; SameSite=lax", cookies[0]
        )
        assert key[10:] not in cookies[0]
        elsewhere = Browser(
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app=desk.running.app), base_url=HOST)  # pyright: ignore[reportArgumentType]
        )
        assert (await elsewhere.get("/console")).url.path == "/console/login"


def forms(page: httpx2.Response) -> dict[str, str]:
    return {"csrf": page.text.partition('name="csrf" value="')[2].partition('"')[0]}


async def test_behind_a_proxy_cookies_are_sent_over_https_only(shop: Path) -> None:
    async with open_console(allow_hosts=("ops.example.com",)) as desk:
        browser = desk.browser()
        page = await browser.client.get("/console/login", headers={"host": "ops.example.com"})
        (cookie,) = page.headers.get_list("set-cookie")
        assert cookie.startswith("__Host-tercet_login=")
        assert cookie.endswith("; Secure")


async def test_every_page_carries_the_policy_and_is_not_stored(shop: Path) -> None:
    async with open_console() as desk:
        browser = await desk.person("olga")
        for path in ("/console", "/console/sessions", "/console/login", "/console/none", "/console/gates/x"):
            headers = (await browser.get(path)).headers
            assert headers["content-security-policy"] == (
                "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
                "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
            )
            assert headers["cache-control"] == "no-store"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "same-origin"
        assert (
            (await browser.get("/console/static/console.css")).headers["content-type"].startswith("text/css")
        )
        assert (await browser.get("/console/static/..%2Fvisit.py")).status_code == 404


async def test_a_form_without_the_token_of_the_login_changes_nothing(shop: Path) -> None:
    async with open_console() as desk:
        gate = await desk.waiting_gate()
        browser = await desk.person("user_finance_lead", roles=("finance_lead",))
        other = await desk.person("user_finance_deputy", roles=("finance_lead",))
        page = await browser.get(f"/console/gates/{gate}")
        digest = page.text.partition('name="digest" value="')[2].partition('"')[0]
        right = {"answer": "approve", "digest": digest, "confirmed": "yes", **forms(page)}
        theirs = forms(await other.get("/console"))
        cases: list[tuple[dict[str, str], dict[str, str]]] = [
            ({**right, "csrf": ""}, {}),
            ({**right, **theirs}, {}),
            (right, {"sec-fetch-site": "cross-site"}),
            (right, {"sec-fetch-site": "same-site"}),
            (right, {"origin": "https://evil.example"}),
            (right, {"origin": "null"}),
        ]
        for data, headers in cases:
            refused = await browser.client.post(f"/console/gates/{gate}/answer", data=data, headers=headers)
            assert refused.status_code == 403, (data, headers)
        text = await browser.client.post(
            f"/console/gates/{gate}/answer", content=b"x", headers={"content-type": "text/plain"}
        )
        assert text.status_code == 403
        for page_of in PAGES:
            if page_of.method == "POST" and not page_of.is_public:
                path = re.sub(r"{\w+}", gate, page_of.path)
                assert (await browser.client.post(path, data={"csrf": "x"})).status_code == 403, path
                assert (await desk.browser().client.post(path, data={})).status_code == 401, path
        state = await desk.rpc(await desk.key("olga"), "getSession", session_id=gate.rpartition(".")[0])
        assert state["session"]["status"] == "awaiting_gate"


async def test_a_login_ends_when_its_key_is_revoked_when_it_expires_and_at_logout(shop: Path) -> None:
    clock = VirtualClock()
    async with open_console(options=RuntimeOptions(clock=clock)) as desk:
        revoked, expired, left = [await desk.person(f"person_{number}") for number in range(3)]
        keys = await desk.running.keys.list()
        mine = next(key for key in keys if key.actor == "person_0")
        await desk.running.keys.revoke(mine.id, by="test", now=clock.now())
        assert (await revoked.get("/console")).url.path == "/console/login"
        cookie = dict(left.client.cookies)
        await left.send(await left.get("/console"), "/console/logout")
        left.client.cookies.update(cookie)
        assert (await left.get("/console")).url.path == "/console/login"
        clock.advance(KEY_LOGIN_MS - 1)
        assert (await expired.get("/console")).url.path == "/console"
        clock.advance(1)
        assert (await expired.get("/console")).url.path == "/console/login"


async def test_a_login_link_works_once_and_for_a_few_minutes(shop: Path) -> None:
    clock = VirtualClock()
    async with open_console(options=RuntimeOptions(clock=clock)) as desk:
        browser, second = desk.browser(), desk.browser()
        link = await desk.site.login_path(desk.running.local_key)
        looked = await second.get(link)
        secret = link.partition("token=")[2]
        for stolen in ({}, {"csrf": ""}, {"csrf": csrf_token("")}, forms(looked)):
            forged = await browser.client.post("/console/login/link", data={"token": secret, **stolen})
            assert (forged.status_code, "forged_form" in forged.text) == (403, True), stolen
        page = await browser.send(await browser.get(link), "/console/login/link")
        assert (page.status_code, page.url.path) == (200, "/console")
        assert "olga" in page.text
        again = await second.send(looked, "/console/login/link")
        assert (again.status_code, "link_used" in again.text) == (401, True)
        late = await desk.site.login_path(desk.running.local_key)
        page = await second.get(late)
        clock.advance(LINK_MS)
        assert (await second.send(page, "/console/login/link")).status_code == 401


@pytest.mark.parametrize(
    "given",
    ["https://evil.example", "//evil.example", "/\\evil.example", "/console\\..", "/consoles", "/rpc"],
)
def test_a_login_never_leads_to_another_site(given: str) -> None:
    assert next_path(given) == "/console"


async def follow_issuer(browser: Browser, then: str = "/console") -> str:
    """Log in at the issuer, and return where it sends the browser."""
    started = await browser.client.get(f"/console/login/oidc?next={then}")
    assert started.status_code == 303, started.text
    async with httpx2.AsyncClient() as outside:
        return (await outside.get(started.headers["location"])).headers["location"]


async def test_people_log_in_with_an_issuer_by_code_and_pkce(shop: Path) -> None:
    with serving(Issuer()) as issuer:
        oidc = OidcSettings(issuer=issuer.url, audience=AUDIENCE, client_id="console", client_secret="s3cret")  # noqa: S106 - of this test
        async with open_console(oidc=oidc) as desk:
            gate = await desk.waiting_gate()
            issuer.person = {"sub": "user_finance_lead"}
            browser = desk.browser()
            assert f"Log in with {urlsplit(issuer.url).netloc}" in (await browser.get("/console/login")).text
            back = await follow_issuer(browser, f"/console/gates/{gate}")
            page = await browser.get(back)
            assert (page.status_code, page.url.path) == (200, f"/console/gates/{gate}")
            assert "<b>user_finance_lead</b>" in page.text
            assert 'value="approve"' in page.text
            replayed = await browser.get(back)
            assert (replayed.status_code, "login_refused" in replayed.text) == (401, True)


async def test_an_issuers_answer_that_is_not_of_this_login_is_refused(shop: Path) -> None:
    with serving(Issuer()) as issuer:
        oidc = OidcSettings(issuer=issuer.url, audience=AUDIENCE, client_id="console")
        async with open_console(oidc=oidc) as desk:
            browser, victim = desk.browser(), desk.browser()
            back = await follow_issuer(browser)
            assert (await victim.get(back)).status_code == 401  # another browser
            await follow_issuer(victim)
            assert (await victim.get(back)).status_code == 401  # another state
            query = dict(parse_qsl(urlsplit(back).query))
            for change in (
                {"code": "guessed"},
                {"iss": "https://evil.example"},
                {"code": "", "error": "access_denied"},
            ):
                wrong = await browser.client.get("/console/login/oidc/callback", params={**query, **change})
                assert wrong.status_code == 401, change
            for person in ({"aud": AUDIENCE}, {"nonce": "x"}, {"exp": 1}, {"iss": "https://evil.example"}):
                issuer.person = person
                fresh = desk.browser()
                assert (await fresh.get(await follow_issuer(fresh))).status_code == 401, person
            issuer.person = {}
            fresh = desk.browser()
            assert (await fresh.get(await follow_issuer(fresh))).status_code == 200
