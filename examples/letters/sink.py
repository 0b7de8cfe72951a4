"""A mail relay for the example: takes letters on this machine, prints them, and takes none twice. Needs aiosmtpd.

python examples/letters/sink.py 8025
"""

from __future__ import annotations

import socket
import sys
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller


class Sink:
    """Keeps letters by their Message-ID; `handed` counts how often each was submitted."""

    def __init__(self) -> None:
        self.letters: dict[str, EmailMessage] = {}
        self.handed: dict[str, int] = {}

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's own name
        """Take a letter, unless it was taken before."""
        letter = message_from_bytes(envelope.content, policy=policy.default)
        name = str(letter["Message-ID"])
        self.handed[name] = self.handed.get(name, 0) + 1
        if name not in self.letters:
            self.letters[name] = letter
            print(f"to {letter['To']}, {letter['Subject']}\n\n{letter.get_content()}")  # noqa: T201 - an example shows what happens
        return "250 taken"


def relay(port: int) -> tuple[Sink, Controller]:
    """A relay on this machine, which is not started yet; port 0 takes any that is free."""
    sink = Sink()
    if not port:  # the controller knocks at the port that it was given
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
    return sink, Controller(sink, hostname="127.0.0.1", port=port)


if __name__ == "__main__":
    _, controller = relay(int(sys.argv[1]) if len(sys.argv) > 1 else 8025)
    controller.start()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        controller.stop()
