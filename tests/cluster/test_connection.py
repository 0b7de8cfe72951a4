"""How a cluster reaches Temporal: certificates on both sides, by options and by the variables of Temporal's own tools."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from temporalio.client import Client

from cluster.crew import PATIENCE_S, working
from cluster.orders import make_pack
from plugins.temporal import TemporalServer
from tercet.cluster import worker
from tercet.cluster.connection import TemporalSettings, connect
from tercet.contracts.errors import GatewayError, UsageError
from tercet.journal.memory import MemoryJournal

pytestmark = pytest.mark.slow
SERVER_NAME = "temporal.example"


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.certificate = folder / "ca.pem"
        self.certificate.write_bytes(self._sign(self._name, self._key.public_key(), is_ca=True))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate for a name, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, private = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate.write_bytes(self._sign(subject, key.public_key(), x509.DNSName(name)))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, private

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *names: x509.GeneralName,
        is_ca: bool = False,
    ) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@asynccontextmanager
async def guarded(server: TemporalServer, authority: Authority) -> AsyncGenerator[str]:
    """The address of a proxy before Temporal that demands a client certificate of the authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(*authority.issue(SERVER_NAME))
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    connections: set[asyncio.StreamWriter] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", server.port)
        connections.update((writer, behind_writer))
        await asyncio.gather(copy(reader, behind_writer), copy(behind_reader, writer))

    proxy = await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    finally:
        proxy.close()
        for each in connections:
            each.transport.abort()
        await asyncio.sleep(0)  # an aborted connection is closed in the next turn of the loop


async def test_certificates_are_shown_and_checked(
    temporal: TemporalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With certificates by options, or by variables of Temporal's tools, the server answers; without one, it does not."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("client")
    async with guarded(temporal, authority) as address:
        whole = TemporalSettings(
            address=address, tls_cert=certificate, tls_key=key, tls_ca=authority.certificate,
            tls_server_name=SERVER_NAME,
        )  # fmt: skip
        assert (await connect(whole)).namespace == "default"
        monkeypatch.setenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH", str(authority.certificate))
        monkeypatch.setenv("TEMPORAL_TLS_SERVER_NAME", SERVER_NAME)
        with pytest.raises(UsageError) as refused:
            await connect(TemporalSettings(address=address))
        assert refused.value.code == "temporal_unreachable"
        monkeypatch.setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", str(certificate))
        monkeypatch.setenv("TEMPORAL_TLS_CLIENT_KEY_PATH", str(key))
        monkeypatch.setenv("TEMPORAL_NAMESPACE", "default")
        assert (await connect(TemporalSettings(address=address))).namespace == "default"


async def test_an_api_key_is_sent_encrypted(
    monkeypatch: pytest.MonkeyPatch, temporal: TemporalServer
) -> None:
    """With a key in the environment the connection is by TLS, which this server does not speak: nothing is sent in plain."""
    monkeypatch.setenv("TEMPORAL_API_KEY", "secret")
    with pytest.raises(UsageError) as refused:
        await connect(TemporalSettings(address=temporal.address))
    assert refused.value.code == "temporal_unreachable"
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--temporal-tls-cert", "c.pem"), "temporal_missing"),
        (("--temporal", "127.0.0.1", "--journal", "postgresql:///x"), "wrong_temporal_address"),
        (("--temporal", "http://127.0.0.1:1", "--journal", "postgresql:///x"), "wrong_temporal_address"),
        (("--temporal", "127.0.0.1:1", "--journal", "sqlite:///runs.db"), "journal_not_shared"),
        (
            ("--temporal", "127.0.0.1:1", "--journal", "postgresql:///x", "--temporal-tls-cert", "c"),
            "tls_incomplete",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(options: tuple[str, ...], code: str, tmp_path: Path) -> None:
    """Each mistake is named, with exit code 2, before anything is connected to."""
    refunds = Path(__file__).parents[2] / "examples" / "refunds"
    done = subprocess.run(
        [sys.executable, "-m", "tercet", "worker", str(refunds), *options, "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert f'"{code}"' in done.stdout


async def test_a_namespace_that_the_server_does_not_have_is_named(temporal: TemporalServer) -> None:
    """Search attributes could not be registered in it either: the remedy is another name."""
    with pytest.raises(UsageError) as refused:
        await connect(TemporalSettings(address=temporal.address, namespace="nowhere"))
    assert refused.value.code == "unknown_namespace"
    assert "--temporal-namespace" in str(refused.value.remedy)


async def test_a_worker_that_temporal_takes_nothing_from_ends_with_an_error(temporal: TemporalServer) -> None:
    """Its namespace is gone, as after a key was withdrawn: left running, it would look alive and carry nothing."""
    client = await Client.connect(temporal.address, namespace="gone")
    with pytest.raises(GatewayError) as ended:
        async with asyncio.timeout(PATIENCE_S), working(client, MemoryJournal(), make_pack()):
            await asyncio.Event().wait()
    assert ended.value.code == "temporal_worker_ended"
    assert "gone" in ended.value.message


async def test_tasks_of_a_worker_that_end_at_once_give_one_error() -> None:
    async def fail() -> None:
        raise RuntimeError("gone")

    tasks = [asyncio.create_task(fail()) for _ in range(2)]
    with pytest.raises(GatewayError):
        async with worker._ended_by(tasks):  # pyright: ignore[reportPrivateUsage]
            await asyncio.Event().wait()


def test_without_temporalio_the_extra_is_named(tmp_path: Path) -> None:
    """The core install does not have it: the command says what to install, and every other command works."""
    code = (
        "import sys; sys.modules['temporalio'] = None\n"
        "import tercet, tercet.service.server\n"
        "from tercet.__main__ import run\n"
        "sys.argv[1:] = ['cluster', 'drain', 'a@1.0.0', '--journal', 'postgresql:///x', '--temporal', '127.0.0.1:1', '--json']\n"
        "run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 2, done.stderr
    assert "tercet[cluster]" in done.stdout
