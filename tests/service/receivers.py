"""What receives notifications in tests: a real HTTP server and a real mail server on loopback, and a pack that has news."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
import warnings
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tercet import DecisionSpec, Gate, Pack, tool
from tercet.contracts.decision import RiskTier
from tercet.contracts.errors import NotDone

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes !!!").decode()
ASK = {"intent": "work", "input": {"account": "acct_41"}}


@tool("bank.transfer", mode="destructive", authority=["to"], gates=["CFO"], no_compensation="final")
def transfer(to: str) -> str:
    """Send money."""
    return f"sent to {to}"


@tool(
    "desk.book",
    mode="local_write",
    compensate={"tool": "desk.cancel", "params": {"desk": {"$from": "self#/desk"}}},
)
def book(desk: str) -> dict[str, str]:
    """Book a desk."""
    return {"desk": desk}


@tool("desk.cancel", mode="local_write", no_compensation="it takes back")
def cancel(desk: str) -> str:
    """Fail to cancel a desk."""
    raise NotDone(f"no {desk}", code="no")


@tool("desk.fail", mode="read_only")
def fail() -> str:
    """Fail."""
    raise NotDone("no", code="no")


def make_pack(**more: Any) -> Pack:
    """A pack with a gate, and a step whose compensation fails."""
    fields: dict[str, Any] = {
        "name": "treasury",
        "version": "1.0.0",
        "safety_mode": "destructive",
        "tools": [transfer, book, cancel, fail],
        "decisions": [DecisionSpec(id="work", risk_tier=RiskTier.LOW)],
        "gates": [Gate(name="CFO", roles=("cfo",), ttl_ms=3_600_000)],
    }
    return Pack(**(fields | more))


def pay(step: str = "s1") -> dict[str, Any]:
    """A plan that waits at the gate."""
    return {"steps": [{"id": step, "tool": "bank.transfer", "params": {"to": "acct_41"}}]}


@dataclass
class Hook:
    """A receiver of webhooks: keeps what it is sent, and answers as a test says."""

    url: str = ""
    status: int = 200
    is_hanging: bool = False
    flood: int = 0
    """How many bytes it answers with."""
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])
    written: int = 0
    released: threading.Event = field(default_factory=threading.Event)
    hit: threading.Event = field(default_factory=threading.Event)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What it was sent, as JSON."""
        return [json.loads(body) for _, body in self.received]

    @property
    def ids(self) -> list[str]:
        """The ids of what it was sent."""
        return [headers["webhook-id"] for headers, _ in self.received]


@contextmanager
def open_hook(port: int = 0) -> Generator[Hook]:
    """Run a receiver until the block ends."""
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            hook.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
            hook.hit.set()
            if hook.is_hanging:
                hook.released.wait(30)
                return
            self.send_response(hook.status)
            self.send_header("location", "http://127.0.0.1:1/elsewhere")
            self.send_header("content-length", str(hook.flood))
            self.end_headers()
            try:
                while hook.written < hook.flood:
                    hook.written += self.wfile.write(b"x" * 65_536)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    hook.url = f"http://127.0.0.1:{server.server_port}/hook"
    try:
        yield hook
    finally:
        hook.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Mailbox:
    """A mail server that keeps what it is given."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list[EmailMessage])
    raw: list[bytes] = field(default_factory=list[bytes])
    logins: list[str] = field(default_factory=list[str])

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Keep a mail."""
        data = cast("bytes", envelope.content)
        self.raw.append(data)
        self.mails.append(message_from_bytes(data, policy=policy.default))
        return "250 kept"


@asynccontextmanager
async def open_mailbox(password: str = "", tls: ssl.SSLContext | None = None) -> AsyncGenerator[Mailbox]:
    """Run a mail server until the block ends; with a password it demands a login, with `tls` STARTTLS before it."""
    mailbox = Mailbox()

    def check(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        login = cast("LoginPassword", data)
        mailbox.logins.append(login.login.decode())
        return AuthResult(success=login.password.decode() == password)

    more: dict[str, Any] = (
        {"authenticator": check, "auth_required": True, "auth_require_tls": tls is not None}
        if password
        else {}
    )
    if tls is not None:
        more |= {"tls_context": tls, "require_starttls": True}
    loop = asyncio.get_running_loop()

    def accept() -> SMTP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a login without TLS is unsafe
            return SMTP(mailbox, hostname="mail.example.com", loop=loop, **more)

    server = await loop.create_server(accept, "127.0.0.1", 0)
    mailbox.port = server.sockets[0].getsockname()[1]
    try:
        yield mailbox
    finally:
        server.close()
        await server.wait_closed()


def make_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Return a file with a certificate for 127.0.0.1 that signs itself, and what a server uses it with."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "cert.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return public, context
