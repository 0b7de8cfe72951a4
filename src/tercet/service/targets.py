"""Targets of notifications: the file that operators write, and how a notification reaches a webhook or a mailbox.

Only operators name targets. Secrets are read from the environment variables that the file names, when the process starts;
neither they nor addresses appear in the journal, in errors or in logs.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
import smtplib
import socket
import ssl
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self
from urllib.parse import urlsplit

import httpx2
import orjson
from pydantic import Field, ValidationError, model_validator

from tercet.contracts.errors import UsageError
from tercet.contracts.shape import Authored
from tercet.core.transcript import timestamp
from tercet.view.notification import NotificationView, NotifiedEvent

MOST_ANSWER = 65_536
"""How many bytes of a receiver's answer are read."""
MOST_TARGETS = 20
_SHORTEST_SECRET = 24
SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of secrets, not one of them
EVENTS: tuple[NotifiedEvent, ...] = (
    "gate.opened",
    "gate.escalated",
    "gate.expires_soon",
    "compensation.failed",
)


# --- the file ---


class _Target(Authored):
    events: tuple[NotifiedEvent, ...] = EVENTS
    tenants: tuple[str, ...] = ()
    """The tenants whose notifications it gets; empty for all."""
    timeout_ms: int = Field(default=10_000, ge=1, le=20_000)

    def wants(self, event: str, tenant: str) -> bool:
        """Whether a notification goes to this target."""
        return event in self.events and (not self.tenants or tenant in self.tenants)


class WebhookTarget(_Target):
    """An address that notifications are posted to."""

    kind: Literal["webhook"]
    url: str = ""
    url_env: str = ""
    """The environment variable that holds the address, for addresses that are secrets themselves."""
    secret_env: str = ""
    """The environment variable that holds the signing secret."""
    format: Literal["tercet", "slack"] = "tercet"

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if bool(self.url) == bool(self.url_env):
            raise ValueError("give either url or url_env")
        if self.format == "tercet" and not self.secret_env:
            raise ValueError("secret_env is missing: it names the variable with the signing secret")
        return self


class EmailTarget(_Target):
    """Mailboxes that notifications are sent to."""

    kind: Literal["email"]
    host: str = Field(min_length=1)
    port: int = Field(default=587, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password_env: str = ""
    sender: str = Field(pattern=r"^[^\s<>@,]+@[^\s<>@,]+$")
    to: tuple[Annotated[str, Field(pattern=r"^[^\s<>@,]+@[^\s<>@,]+$")], ...] = Field(
        min_length=1, max_length=50
    )

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if bool(self.username) != bool(self.password_env):
            raise ValueError("give both username and password_env, or neither")
        if self.security == "none" and not _is_local(self.host):
            raise ValueError('security = "none" is for a mail server on this machine')
        return self


class NotificationSettings(Authored):
    """The file that `--notifications` names."""

    expires_soon_ms: int = Field(default=3_600_000, ge=1)
    """How long before a gate expires it is announced; at most the last quarter of its time."""
    attempts: int = Field(default=12, ge=1, le=50)
    """How often a delivery is tried before it is given up."""
    targets: dict[
        Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,40}$")],
        Annotated[WebhookTarget | EmailTarget, Field(discriminator="kind")],
    ] = Field(min_length=1, max_length=MOST_TARGETS)


def _is_local(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1")


def wrong_settings(place: str, problem: str) -> UsageError:
    """Return the error for a file of targets that cannot be used."""
    return UsageError(
        f"{place}: {problem}",
        code="wrong_notifications",
        remedy="docs/notifications.md describes the file",
    )


def load_settings(path: Path) -> NotificationSettings:
    """Read a file of targets; raises `UsageError` that names the place of the first problem."""
    try:
        return NotificationSettings.model_validate(tomllib.loads(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise wrong_settings(str(path), f"cannot be read: {reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise wrong_settings(str(path), str(error)) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"] if part not in ("webhook", "email"))
        raise wrong_settings(str(path), f"{place or 'file'}: {first['msg']}") from error


# --- sending ---


@dataclass(frozen=True, kw_only=True)
class Message:
    """A notification as it is sent."""

    id: str
    view: NotificationView
    public_url: str

    @property
    def text(self) -> str:
        """The notification as plain text."""
        return self.view.text(self.public_url)


class DeliveryFailed(Exception):  # noqa: N818 - named by what happened
    """A target did not take a notification; the text is ours, and names no address and no secret."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_final = is_final


class Target(Protocol):
    """Sends notifications to one target."""

    async def send(self, message: Message, now_ms: int) -> None:
        """Send; raises `DeliveryFailed` unless the receiver has taken it."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...


def open_target(name: str, settings: WebhookTarget | EmailTarget, env: Mapping[str, str]) -> Target:
    """Return a target with its secrets; raises `UsageError` where one is missing."""
    if isinstance(settings, EmailTarget):
        password = _secret(name, settings.password_env, env) if settings.password_env else ""
        return Mailbox(settings, password)
    url = settings.url or _secret(name, settings.url_env, env)
    _demand_secure(name, url)
    secret = _secret(name, settings.secret_env, env) if settings.secret_env else ""
    return Webhook(settings, url, decode_secret(name, secret) if secret else None)


def _secret(name: str, variable: str, env: Mapping[str, str]) -> str:
    if value := env.get(variable, ""):
        return value
    raise UsageError(
        f"target {name}: the environment variable {variable} is not set",
        code="secret_missing",
        remedy=f"set {variable} before you start this process",
    )


def _demand_secure(name: str, url: str) -> None:
    if not _is_secure(url):
        raise wrong_settings(
            f"target {name}",
            "its address is not https (http is for this machine only), or holds a login or a space",
        )


def _is_secure(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0 and parts.username is None
    except ValueError:
        return False
    is_plain = has_host and url.isprintable() and " " not in url
    return is_plain and (
        parts.scheme == "https" or (parts.scheme == "http" and _is_local(parts.hostname or ""))
    )


def decode_secret(name: str, text: str) -> bytes:
    """Return the bytes of a signing secret, written as `whsec_` and base64."""
    with suppress(binascii.Error):
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
        if text.startswith(SECRET_PREFIX) and len(secret) >= _SHORTEST_SECRET:
            return secret
    raise wrong_settings(
        f"target {name}",
        f"its signing secret is not {SECRET_PREFIX} and the base64 of {_SHORTEST_SECRET} bytes or more",
    )


def sign(secret: bytes, message_id: str, seconds: int, body: bytes) -> str:
    """Return the signature of a body, as the header `webhook-signature` carries it."""
    signed = f"{message_id}.{seconds}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


class Webhook:
    """Posts notifications to an address, signed."""

    def __init__(self, settings: WebhookTarget, url: str, secret: bytes | None) -> None:
        self._settings = settings
        self._url = url
        self._secret = secret
        # A proxy of the environment is used, but not for this machine.
        has_proxy = not _is_local(urlsplit(url).hostname or "")
        self._client = httpx2.AsyncClient(
            timeout=settings.timeout_ms / 1000, follow_redirects=False, trust_env=has_proxy
        )

    async def send(self, message: Message, now_ms: int) -> None:
        """Post a notification; only an answer with a status from 200 to 299 counts."""
        body = orjson.dumps(self._body(message))
        seconds = now_ms // 1000
        headers = {
            "content-type": "application/json",
            "user-agent": "tercet",
            "webhook-id": message.id,
            "webhook-timestamp": str(seconds),
        }
        if self._secret is not None:
            headers["webhook-signature"] = sign(self._secret, message.id, seconds, body)
        try:
            async with (
                asyncio.timeout(self._settings.timeout_ms / 1000),
                self._client.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                status = answer.status_code
                await _read_some(answer)
        except TimeoutError:
            raise DeliveryFailed(f"no answer within {self._settings.timeout_ms:,} ms") from None
        except httpx2.TimeoutException:
            raise DeliveryFailed(f"no answer within {self._settings.timeout_ms:,} ms") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError, OSError) as error:
            raise DeliveryFailed(f"the receiver cannot be reached ({type(error).__name__})") from None
        if 300 <= status < 400:
            raise DeliveryFailed(f"the receiver redirects ({status}), which is not followed")
        if not 200 <= status < 300:
            raise DeliveryFailed(f"the receiver answered {status}", is_final=status == 410)

    def _body(self, message: Message) -> dict[str, Any]:
        view = message.view
        if self._settings.format == "slack":
            text = message.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            return {"text": text}
        data = {**view.fields, "url": _link(message), "text": message.text}
        return {"type": view.event, "timestamp": timestamp(view.at), "data": data}

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()


def _link(message: Message) -> str | None:
    return f"{message.public_url.rstrip('/')}{message.view.path}" if message.public_url else None


async def _read_some(answer: httpx2.Response) -> None:
    """Read an answer up to a bound, and leave the rest: the status alone counts."""
    size = 0
    async for chunk in answer.aiter_raw():
        size += len(chunk)
        if size > MOST_ANSWER:
            return


class Mailbox:
    """Sends notifications by e-mail."""

    def __init__(self, settings: EmailTarget, password: str) -> None:
        self._settings = settings
        self._password = password

    async def send(self, message: Message, now_ms: int) -> None:
        """Send an e-mail; a server that refuses one of the recipients has not taken it."""
        settings = self._settings
        mail = compose_mail(settings, message, now_ms)
        connection = _Connection(settings, self._password)
        sending = asyncio.get_running_loop().run_in_executor(None, connection.send, mail)
        try:
            await asyncio.wait_for(asyncio.shield(sending), settings.timeout_ms / 1000)
        except TimeoutError:
            connection.abort()
            sending.add_done_callback(lambda done: done.exception())
            raise DeliveryFailed(f"no answer within {settings.timeout_ms:,} ms") from None

    async def close(self) -> None:
        """Nothing stays open between two e-mails."""


def compose_mail(settings: EmailTarget, message: Message, now_ms: int) -> EmailMessage:
    """Return the e-mail of a notification; the subject is one line, whatever its parts contain."""
    mail = EmailMessage()
    title = message.view.title
    mail["Subject"] = "".join(c if c.isprintable() else " " for c in title)[:200]
    mail["From"] = settings.sender
    mail["To"] = ", ".join(settings.to)
    mail["Date"] = formatdate(now_ms / 1000)
    mail["Message-ID"] = f"<{message.id}@{settings.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text.encode("utf-8", "replace").decode())
    return mail


class _Connection:
    """One conversation with a mail server, in a thread; it may be aborted from outside."""

    def __init__(self, settings: EmailTarget, password: str) -> None:
        self._settings = settings
        self._password = password
        self._smtp: smtplib.SMTP | None = None
        self._is_aborted = False

    def abort(self) -> None:
        """End the conversation: the thread that waits for the server gets an error."""
        self._is_aborted = True
        if self._smtp is not None and self._smtp.sock is not None:
            with suppress(OSError):
                self._smtp.sock.shutdown(socket.SHUT_RDWR)

    def send(self, mail: EmailMessage) -> None:
        """Send; raises `DeliveryFailed` with the code of the server, never with its words."""
        try:
            with self._connect() as smtp:
                self._smtp = smtp
                refused = smtp.send_message(mail)
        except smtplib.SMTPResponseException as error:
            raise DeliveryFailed(f"the mail server answered {error.smtp_code}") from None
        except smtplib.SMTPRecipientsRefused:
            raise DeliveryFailed("the mail server refused the recipients") from None
        except (smtplib.SMTPException, OSError, ValueError) as error:
            raise DeliveryFailed(f"the mail server cannot be used ({type(error).__name__})") from None
        if refused:
            raise DeliveryFailed(f"the mail server refused {len(refused)} of the recipients")

    def _connect(self) -> smtplib.SMTP:
        settings, seconds = self._settings, self._settings.timeout_ms / 1000
        context = ssl.create_default_context()
        if settings.security == "tls":
            smtp: smtplib.SMTP = smtplib.SMTP_SSL(
                settings.host, settings.port, timeout=seconds, context=context
            )
        else:
            smtp = smtplib.SMTP(settings.host, settings.port, timeout=seconds)
        self._smtp = smtp
        try:
            if settings.security == "starttls":
                smtp.starttls(context=context)  # raises where the server has none: nothing goes out in clear
            if settings.username:
                smtp.login(settings.username, self._password)
        except BaseException:
            smtp.close()
            raise
        return smtp


def open_targets(
    settings: NotificationSettings, env: Mapping[str, str] = os.environ
) -> dict[str, tuple[WebhookTarget | EmailTarget, Target]]:
    """Return the targets by name, each with what sends to it."""
    return {name: (each, open_target(name, each, env)) for name, each in settings.targets.items()}
