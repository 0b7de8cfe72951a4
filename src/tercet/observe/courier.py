"""How a collector is spoken to: it is asked for its status, and believed no further.

A collector is somebody else's server. One that answers without end would fill the memory, and one that redirects would be
told everything, with the keys in its headers, under another address. So a long answer is not read, and no redirect is
followed: it counts as a refusal.
"""

from __future__ import annotations

import os
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

MOST_READ = 4096
"""An answer of OTLP has a few bytes; one that is longer, or does not say how long it is, is not read."""
REFUSED = 400
"""What a redirect counts as: it is not tried again."""
_PROVIDER = "CREDENTIAL_PROVIDER"


def make_courier() -> Session | None:
    """A session for the exporters; None where a variable of OpenTelemetry names one of somebody's own."""
    if any(name.startswith("OTEL_PYTHON_") and name.endswith(_PROVIDER) for name in os.environ):
        return None
    from requests import Session  # noqa: PLC0415 - an optional dependency

    class Courier(Session):
        def send(self, request: PreparedRequest, **kwargs: Any) -> Response:
            answered = super().send(request, **{**kwargs, "stream": True, "allow_redirects": False})
            return _cut(answered)

    return Courier()


def _cut(answered: Response) -> Response:
    """The same answer, with a body only where it is short."""
    from requests import Response  # noqa: PLC0415 - an optional dependency

    said = answered.headers.get("Content-Length", "")
    is_short = said.isdecimal() and int(said) <= MOST_READ
    cut = Response()
    is_elsewhere = 300 <= answered.status_code < 400  # which the exporters would take for a success
    cut.status_code, cut.reason = REFUSED if is_elsewhere else answered.status_code, answered.reason
    cut.headers, cut.url, cut.request = answered.headers, answered.url, answered.request
    cut.raw = BytesIO(answered.content if is_short else b"")
    answered.close()
    return cut
