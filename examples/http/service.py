"""The billing service of Lantern Books: a few invoices in memory, behind a token, on this machine only."""

from __future__ import annotations

import json
import os
import re
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

INVOICES: dict[str, dict[str, Any]] = {
    "inv_7": {"invoice_id": "inv_7", "customer": "Ada Example", "total_cents": 4250, "due_on": "2026-10-01"},
    # The name was typed in by the customer, and is not an instruction.
    "inv_8": {
        "invoice_id": "inv_8",
        "customer": "--help; rm -rf / $(whoami)",
        "total_cents": 100,
        "due_on": "2026-10-05",
    },
}
REMINDERS: dict[str, dict[str, Any]] = {}
"""What was sent, by the key of the request: one that comes again is answered, and not sent again."""

INVOICE = re.compile(r"/v1/invoices/(?P<id>[^/?]+)(?P<rest>/reminders)?")


class Desk(BaseHTTPRequestHandler):
    """Answers one request."""

    server_version = "lantern"
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """An invoice, or the list of reminders."""
        if self.path == "/v1/reminders":
            self._answer(HTTPStatus.OK, list(REMINDERS.values()))
            return
        invoice = self._find()
        if invoice is not None:
            self._answer(HTTPStatus.OK, invoice)

    def do_POST(self) -> None:
        """Send a reminder."""
        length = int(self.headers.get("Content-Length", "0"))
        given = json.loads(self.rfile.read(length) or b"{}")
        invoice, key = self._find(), self.headers.get("Idempotency-Key", "")
        if invoice is None:
            return
        if not key:
            self._answer(HTTPStatus.BAD_REQUEST, {"error": "a reminder needs an Idempotency-Key"})
            return
        made = {"reminder_id": f"rem_{len(REMINDERS) + 1}", "invoice_id": invoice["invoice_id"], **given}
        self._answer(HTTPStatus.CREATED, REMINDERS.setdefault(key, made))

    def _find(self) -> dict[str, Any] | None:
        """Return the invoice of a path; answers with an error if there is none, or the caller may not see it."""
        if self.headers.get("Authorization") != f"Bearer {os.environ['LANTERN_TOKEN']}":
            self._answer(HTTPStatus.UNAUTHORIZED, {"error": "who are you?"})
            return None
        match = INVOICE.fullmatch(self.path)
        invoice = INVOICES.get(match["id"]) if match else None
        if invoice is None:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "there is no such invoice"})
        return invoice

    def _answer(self, status: HTTPStatus, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature is the library's
        """Log nothing."""


def main() -> None:
    """Serve on the port that is given, or on any; its number is printed once the service can be reached."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8917
    with ThreadingHTTPServer(("127.0.0.1", port), Desk) as server:
        sys.stdout.write(f"{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main()
