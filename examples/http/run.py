"""Starts the billing service, reminds a customer of an invoice, shows what the service has sent, and stops it.

The service takes any free port, and the pack is copied with that port in it, so that this runs beside anything.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
USUAL_PORT = "8917"


@contextmanager
def service(environment: dict[str, str]) -> Generator[str]:
    """A running service: the port that it is at."""
    words = [sys.executable, str(HERE / "service.py"), "0"]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    try:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate()


def main() -> int:
    """Run it for the invoice that is named; the exit code is that of the run."""
    invoice = sys.argv[1] if len(sys.argv) > 1 else "inv_7"
    # The token is made up for this one run. The pack only knows the name of the variable that holds it.
    environment = {**os.environ, "LANTERN_TOKEN": secrets.token_hex(16)}
    with tempfile.TemporaryDirectory() as folder, service(environment) as port:
        pack = Path(folder) / "billing"
        shutil.copytree(HERE, pack)
        declared = (pack / "http.toml").read_text(encoding="utf-8")
        (pack / "http.toml").write_text(declared.replace(USUAL_PORT, port), encoding="utf-8")
        given = f'{{"invoice_id": "{invoice}"}}'
        words = ["run", str(pack), "--intent", "billing.remind", "--input", given]
        ran = subprocess.run([sys.executable, "-m", "tercet", *words], env=environment, check=False)  # noqa: S603
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/reminders") as sent:
            sys.stdout.write(f"the service has sent: {sent.read().decode()}\n")
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main())
