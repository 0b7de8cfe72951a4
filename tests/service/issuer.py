"""A small OpenID Connect issuer on loopback: a discovery document, a key set, and signed tokens."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from joserfc import jwt
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
        key = self.keys[0]
        return jwt.encode(
            {"alg": "ES256", "kid": key.kid, **(header or {})},
            {name: value for name, value in said.items() if value is not None},
            key,
        )

    def document(self, path: str) -> dict[str, Any] | None:
        """Return what is published at a path."""
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/keys":
            return {"keys": [*KeySet(list(self.keys)).as_dict()["keys"], *self.extra_keys]}
        return None


@contextmanager
def serving(issuer: Issuer) -> Generator[Issuer]:
    """Serve an issuer on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.requests.append(self.path)
            found = None if issuer.is_down else issuer.document(self.path)
            body = json.dumps(found).encode()
            self.send_response(200 if found is not None else 503)
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
