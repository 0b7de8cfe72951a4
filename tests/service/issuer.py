"""A small OpenID Connect issuer on loopback: a discovery document, a key set, and signed tokens."""

from __future__ import annotations

import json
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qsl, urlencode

from joserfc import jws
from joserfc.jwk import ECKey, KeySet

AUDIENCE = "tercet"


class Issuer:
    """Publishes its keys over HTTP, and signs what a test asks for."""

    def __init__(self) -> None:
        self.keys = [ECKey.generate_key("P-256", {"kid": "first", "use": "sig"})]
        self.requests: list[str] = []
        self.is_down = False
        self.url = ""
        self.extra_keys: list[dict[str, Any]] = []
        self.published: Any = None
        """What is published instead of the keys."""
        self.may_answer = Event()
        self.may_answer.set()
        self.person: dict[str, Any] = {}
        """The claims of the person who logs in."""
        self._codes: dict[str, dict[str, str]] = {}

    def rotate(self, kid: str) -> None:
        """Replace the signing key."""
        self.keys = [ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})]

    def token(self, *, now_s: int, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a token that is valid for five minutes, with these claims instead of the usual ones; None removes one."""
        said = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "rosa",
            "roles": ["finance_lead"],
            "exp": now_s + 300,
            **claims,
        }
        kept = {name: value for name, value in said.items() if value is not None}
        return self.sign(json.dumps(kept).encode(), header)

    def sign(self, payload: bytes, header: dict[str, Any] | None = None) -> str:
        """Return a token with these bytes as its claims."""
        key = self.keys[0]
        head = {"alg": "ES256", "kid": key.kid, "typ": "JWT", **(header or {})}
        return jws.serialize_compact(head, payload, key, algorithms=["ES256"])

    def document(self, path: str) -> dict[str, Any] | None:
        """Return what is published at a path."""
        if path == "/.well-known/openid-configuration":
            pages = {"authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token"}
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **pages}
        if path == "/keys" and self.published is not None:
            return {"keys": self.published}
        if path == "/keys":
            return {"keys": [*KeySet(list(self.keys)).as_dict()["keys"], *self.extra_keys]}
        return None

    def authorize(self, query: dict[str, str]) -> str:
        """Log the person in, and return where their browser is sent with a code."""
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self._codes[code] = query
        return (
            f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'iss': self.url})}"
        )

    def exchange(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Return the tokens for a code, once, if its verifier, client and address fit."""
        asked = self._codes.pop(form.get("code", ""), None)
        if asked is None or any(asked[name] != form.get(name) for name in ("client_id", "redirect_uri")):
            return None
        hashed = sha256(form.get("code_verifier", "").encode()).digest()
        if urlsafe_b64encode(hashed).rstrip(b"=").decode() != asked["code_challenge"]:
            return None
        claims: dict[str, Any] = {"aud": asked["client_id"], "nonce": asked["nonce"], **self.person}
        return {"token_type": "Bearer", "id_token": self.token(now_s=int(time.time()), **claims)}


@contextmanager
def serving(issuer: Issuer) -> Generator[Issuer]:
    """Serve an issuer on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.requests.append(self.path)
            issuer.may_answer.wait(60)
            page, _, query = self.path.partition("?")
            if page == "/authorize":
                self.send_response(302)
                self.send_header("Location", issuer.authorize(dict(parse_qsl(query))))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            found = None if issuer.is_down else issuer.document(self.path)
            body = json.dumps(found).encode()
            self.send_response(200 if found is not None else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            found = issuer.exchange(form) if self.path == "/token" else None
            body = json.dumps(found or {"error": "invalid_grant"}).encode()
            self.send_response(200 if found else 400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
