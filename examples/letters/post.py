"""The post room of Alder & Finch: hands a letter to the mail relay of the shop, which listens on this machine.

The relay keeps the Message-ID of every letter that it has taken, and takes none twice. The Message-ID is made of the key of
the call, which is the same for every attempt at it: so a letter that was submitted just before a crash is not sent again.
"""

from __future__ import annotations

import os
import smtplib
from dataclasses import dataclass
from email.message import EmailMessage

from tercet import NotDone, ToolContext, tool

RELAY = "127.0.0.1"
"""Nothing leaves this machine."""
PORT = "ALDER_FINCH_RELAY_PORT"
"""The variable of the environment that names the port of the relay."""
DOMAIN = "alder-finch.example"
TIMEOUT_S = 10


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """That the relay has taken a letter."""

    message_id: str


@tool(
    "letters.send",
    mode="network",
    gates=["GATE_EDITOR"],
    authority=["to"],
    reversibility="irreversible",
    idempotent=True,
    trust="trusted",
    no_compensation="a letter that was sent is sent",
    estimated_ms=100,
)
def send(context: ToolContext, to: str, subject: str, body: str) -> Receipt:
    """Send a letter to a customer by mail."""
    message = EmailMessage()
    message["From"] = f"Alder & Finch <desk@{DOMAIN}>"
    message["To"] = to
    message["Subject"] = subject
    message["Message-ID"] = f"<{context.idempotency_key.replace(':', '-')}@{DOMAIN}>"
    message.set_content(body)
    try:
        relay = smtplib.SMTP(RELAY, int(os.environ.get(PORT, "8025")), timeout=TIMEOUT_S)
    except OSError as error:
        raise NotDone(f"the relay does not answer: {error}", remedy="start it: sink.py") from error
    with relay:
        try:
            relay.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            raise NotDone(f"the relay refuses {to}", is_retriable=False) from error
    return Receipt(message_id=message["Message-ID"])
