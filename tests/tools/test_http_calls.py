"""Calls of an HTTP service: what is sent, where it may go, and what every kind of answer means."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.errors import GatewayError
from tercet.core.answers import Done, Ended, NotHappened, Unknown
from tercet.tools import ToolContext
from tercet.tools.http.service import World

from .loopback import CONTEXT, Behave, Heard, Loopback, call, respond, saying, serving


def ended(behave: Behave, name: str = "getThing", params: Any = None, **more: Any) -> Ended:
    """How one call of a service that behaves so ends."""
    timeout_ms: int = more.pop("timeout_ms", 10_000)

    async def main() -> Ended:
        async with serving(behave) as service:
            given = {"note": "hello"} if name == "makeThing" and params is None else params
            return await call(service.tools(**more)[name], given, timeout_ms=timeout_ms)

    return asyncio.run(main())


def heard(name: str, params: dict[str, Any], **more: Any) -> Heard:
    """What a service hears of one call."""

    async def main() -> Heard:
        async with serving(saying(respond())) as service:
            assert isinstance(await call(service.tools(**more)[name], params), Done)
            return service.heard[0]

    return asyncio.run(main())


# --- what is sent ---


def test_parameters_go_where_the_description_says() -> None:
    """Path, query and header parameters are encoded, each in its own way."""
    request = heard("getThing", {"id": "a b/c?d", "tags": ["x&y", "ü"], "X-Trace": "t1"})
    assert (request.method, request.path) == ("GET", "/things/a%20b%2Fc%3Fd?tags=x%26y&tags=%C3%BC")
    assert request.headers["x-trace"] == "t1"
    assert "idempotency-key" not in request.headers


def test_a_call_hands_the_trace_on() -> None:
    """A call of a run that somebody traces carries its own span; where nobody does, there is no such header."""

    async def main(context: ToolContext) -> Heard:
        async with serving(saying(respond())) as service:
            tool = service.tools()["getThing"]
            assert isinstance(await call(tool, {"id": "1"}, context=context), Done)
            return service.heard[0]

    span = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert asyncio.run(main(replace(CONTEXT, traceparent=span))).headers["traceparent"] == span
    assert "traceparent" not in asyncio.run(main(CONTEXT)).headers


@pytest.mark.req("R110")
def test_an_effect_carries_its_key_and_its_fence() -> None:
    """The idempotency key goes along as a header, the fencing token where the pack names one for it."""
    request = heard("makeThing", {"note": "é"}, fencing_header="X-Fence")
    assert (request.method, request.path, request.body) == ("POST", "/things", b'{"note": "\\u00e9"}')
    assert (request.headers["idempotency-key"], request.headers["x-fence"]) == ("key-1", "7")
    other = heard("makeThing", {"note": "é"}, idempotency_header="X-Once")
    assert (other.headers["x-once"], "idempotency-key" in other.headers) == ("key-1", False)


@pytest.mark.parametrize("value", ["..", ".", "a/../b", "..\\x", ""])
def test_a_path_does_not_lead_up(value: str) -> None:
    """A value that would make another path of it is not sent."""
    ending = ended(saying(respond()), params={"id": value})
    assert isinstance(ending, NotHappened)
    assert (ending.code, ending.is_retriable) == ("argument_unsendable", False)


@pytest.mark.parametrize("value", ["a\r\nHost: evil.test", "é", " a"])
def test_a_header_stays_one(value: str) -> None:
    """A value that would make two headers of one, or none, is not sent."""
    ending = ended(saying(respond()), params={"id": "1", "X-Trace": value})
    assert isinstance(ending, NotHappened)
    assert ending.code == "argument_unsendable"


async def test_a_base_path_stands_before_every_path() -> None:
    """Where a service lives below a path, its operations do as well."""

    async def main() -> str:
        async with serving(saying(respond())) as service:
            tools = service.tools(base_url=f"http://127.0.0.1:{service.port}/v2/")
            await call(tools["getThing"])
            return service.heard[0].path

    assert (await main()) == "/v2/things/1"


# --- where it may go ---


def resolving(*answers: str) -> tuple[World, list[str]]:
    """A world in which every name has these addresses, and the list of names that were asked for."""
    asked: list[str] = []

    async def resolve(host: str, _: int) -> Sequence[str]:
        asked.append(host)
        return answers

    return World(resolve=resolve), asked


def refused(ending: Ended) -> str:
    """The code of a call that was not made, and would not be made another time."""
    assert isinstance(ending, NotHappened)
    assert not ending.is_retriable
    return ending.code


async def test_what_was_heard_before_a_redirect_is_not_taken_for_not_sent() -> None:
    """A redirect that cannot be followed leaves open what the first request did, and the name is asked for once."""
    away = respond(status="302 Found", headers={"location": f"/{'a' * 66_000}"})

    async def main() -> tuple[Ended, int, list[str]]:
        async with serving(saying(away)) as service:
            world, asked = resolving("127.0.0.1")
            said = {"operation": "getThing", "mode": "destructive"}
            tools = service.tools(host="name.test", world=world, operations=[said])
            return await call(tools["getThing"]), len(service.heard), asked

    ending, count, asked = await main()
    assert (type(ending), count, asked) == (Unknown, 1, ["name.test"])


def test_a_host_of_many_addresses_that_is_not_reached_was_not_called() -> None:
    """Each takes a connection and never greets; together they have no more time than one, so the outcome is known."""
    hosts = [f"127.0.0.{number}" for number in range(1, 9)]

    def main(port: int) -> Ended:
        world, _ = resolving(*hosts)
        tools = Loopback(port=port).tools(
            host="name.test",
            world=world,
            base_url=f"https://name.test:{port}",
            private=[f"{host}:{port}" for host in hosts],
            operations=[{"operation": "makeThing", "timeout_ms": 6_000}],
        )
        return asyncio.run(call(tools["makeThing"], {"note": "a"}, timeout_ms=6_000))

    with socket.create_server(("0.0.0.0", 0), backlog=32) as silent:  # noqa: S104 - every address of loopback
        ending = main(silent.getsockname()[1])
    assert isinstance(ending, NotHappened)
    assert ending.code == "not_connected"


async def test_a_private_address_is_not_called() -> None:
    """Nor is one that the pack does not list called because it lists another."""

    async def main() -> tuple[Ended, int]:
        async with serving(saying(respond())) as service:
            tools = service.tools(is_listed=False, private=["127.0.0.1:1", "10.0.0.1:80"])
            return await call(tools["makeThing"], {"note": "a"}), len(service.heard)

    ending, count = await main()
    assert (refused(ending), count) == ("private_address", 0)


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:169.254.169.254"], ["fe80::1%eth0"], ["nonsense"]],
)
async def test_a_private_address_behind_a_name_is_not_called(addresses: list[str]) -> None:
    """Every address of a name is looked at; one that is private is one too many."""

    async def main() -> tuple[Ended, int]:
        async with serving(saying(respond())) as service:
            world, _ = resolving(*addresses)
            tools = service.tools(host="api.example.test", is_listed=False, world=world)
            return await call(tools["getThing"]), len(service.heard)

    ending, count = await main()
    assert (refused(ending), count) == ("private_address", 0)


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f000001"])
def test_the_real_resolver_leads_to_loopback_and_is_stopped(host: str) -> None:
    """Whatever spelling the operating system understands, what counts is the address that it comes to."""
    assert refused(ended(saying(respond()), host=host, is_listed=False)) == "private_address"


async def test_a_name_is_looked_up_once_and_that_address_is_called() -> None:
    """The connection goes to the address that was looked at, under the name that was asked for."""

    async def main() -> tuple[Ended, list[str], Heard]:
        async with serving(saying(respond())) as service:
            world, asked = resolving("127.0.0.1")
            ending = await call(service.tools(host="api.example.test", world=world)["getThing"])
            return ending, asked, service.heard[0]

    ending, asked, request = await main()
    assert isinstance(ending, Done)
    assert asked == ["api.example.test"]
    assert request.headers["host"].startswith("api.example.test:")


async def test_another_address_is_tried_only_before_anything_was_sent() -> None:
    """A dead address among good ones is passed by; the request is heard once."""

    async def main() -> tuple[Ended, int]:
        async with serving(saying(respond())) as service:
            world, _ = resolving("127.0.0.2", "127.0.0.1")
            listed = [f"127.0.0.{n}:{service.port}" for n in (1, 2)]
            tools = service.tools(host="api.example.test", world=world, private=listed)
            return await call(tools["makeThing"], {"note": "a"}), len(service.heard)

    ending, count = await main()
    assert (isinstance(ending, Done), count) == (True, 1)


def test_a_name_that_nobody_knows_was_not_called() -> None:
    """Nothing was sent, so trying again is safe."""

    async def resolve(host: str, _: int) -> Sequence[str]:
        raise OSError("Name or service not known")

    ending = ended(saying(respond()), "makeThing", host="api.example.test", world=World(resolve=resolve))
    assert isinstance(ending, NotHappened)
    assert (ending.code, ending.is_retriable, ending.is_attempt_only) == ("host_not_found", True, True)


async def test_a_service_that_is_not_there_was_not_called() -> None:
    """A refused connection is known not to have happened."""

    async def main() -> Ended:
        async with serving(saying(respond())) as service:
            tools = service.tools()
        return await call(tools["makeThing"], {"note": "a"})

    ending = await main()
    assert isinstance(ending, NotHappened)
    assert (ending.code, ending.is_attempt_only) == ("not_connected", True)
    assert "127.0.0.1:" in str(ending)


async def test_an_address_is_listed_in_any_spelling() -> None:
    """What counts is the address and not how it was written down."""
    tools = Loopback(port=1).tools(
        host="api.example.test", private=["[0:0:0:0:0:0:0:1]:1"], world=resolving("::1")[0]
    )
    ending = await call(tools["getThing"])
    assert isinstance(ending, NotHappened)
    assert ending.code == "not_connected"  # it was allowed, and nobody is there


# --- redirects ---


def redirect(location: str, status: str = "302 Found") -> bytes:
    """An answer that points elsewhere."""
    return respond(status=status, headers={"location": location}, body=b"")


@pytest.mark.parametrize(
    "location",
    ["http://evil.example.test/", "//evil.example.test/x", "https://127.0.0.1/", "http://127.0.0.1:1/x", "http://u@127.0.0.1/",
     "file:///etc/passwd", "http://[::1]/", "http://127.0.0.1:bad/"],
)  # fmt: skip
def test_a_redirect_to_another_host_is_not_followed(location: str) -> None:
    """Another host, port or scheme is another service, and nobody allowed it."""
    ending = ended(saying(redirect(location), respond()))
    assert refused(ending) == "redirect_refused"


def test_a_redirect_on_the_same_host_is_followed() -> None:
    """Three times, and only by what reads."""

    async def main(count: int, name: str = "getThing") -> tuple[Ended, list[str]]:
        answers = [redirect(f"/moved/{number}?a=1") for number in range(count)]
        async with serving(saying(*answers, respond())) as service:
            given = {"id": "1"} if name == "getThing" else {"note": "a"}
            return await call(service.tools()[name], given), [each.path for each in service.heard]

    ending, paths = asyncio.run(main(3))
    assert ending == replace_latency(ending, Done(value={"id": 1}))
    assert paths == ["/things/1", "/moved/0?a=1", "/moved/1?a=1", "/moved/2?a=1"]
    assert refused(asyncio.run(main(4))[0]) == "redirect_refused"
    ending, paths = asyncio.run(main(1, "makeThing"))
    assert (isinstance(ending, Unknown), paths) == (True, ["/things"])


def replace_latency(like: Ended, ending: Done) -> Done:
    """The same end, with the latency of another."""
    return Done(value=ending.value, error=ending.error, latency_ms=like.latency_ms)


# --- answers that misbehave ---

MEASURED: dict[str, Any] = {"max_answer_bytes": 10_000}


async def endless(_: Heard, writer: asyncio.StreamWriter) -> None:
    """An answer without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[")
    while True:
        writer.write(b"1," * 2_000)
        await writer.drain()


async def endless_chunks(_: Heard, writer: asyncio.StreamWriter) -> None:
    """The same in chunks."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"fa0\r\n" + b"1," * 2_000 + b"\r\n")
        await writer.drain()


async def endless_headers(_: Heard, writer: asyncio.StreamWriter) -> None:
    """Headers that never come to a body."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x: " + b"y" * 1_000 + b"\r\n")
        await writer.drain()


async def one_byte_and_then_nothing(_: Heard, writer: asyncio.StreamWriter) -> None:
    """An answer that begins, and does not go on."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{")
    await writer.drain()
    await asyncio.Event().wait()


async def silence(_: Heard, writer: asyncio.StreamWriter) -> None:
    """No answer at all."""
    await asyncio.Event().wait()


async def hang_up(_: Heard, writer: asyncio.StreamWriter) -> None:
    """The connection ends instead of an answer."""


@pytest.mark.parametrize(
    ("behave", "code", "timeout_ms"),
    [
        pytest.param(endless, "answer_too_large", 10_000, id="endless"),
        pytest.param(endless_chunks, "answer_too_large", 10_000, id="endless in chunks"),
        pytest.param(endless_headers, "connection_lost", 10_000, id="endless headers"),
        pytest.param(saying(respond(headers={"content-length": "99999999"})), "answer_too_large", 10_000, id="says it is large"),
        pytest.param(saying(respond(headers={"content-length": "500"})), "connection_lost", 10_000, id="says it is longer"),
        pytest.param(saying(respond({"id": 12345}, headers={"content-length": "5"})), "answer_not_json", 10_000, id="says it is shorter"),
        pytest.param(saying(respond(headers={"content-encoding": "gzip"})), "answer_encoded", 10_000, id="packed"),
        pytest.param(saying(respond(headers={f"x-{n}": "1" for n in range(300)})), "answer_too_large", 10_000, id="headers"),
        pytest.param(saying(b"HTTP/9.9 what\r\n\r\n"), "connection_lost", 10_000, id="no HTTP"),
        pytest.param(one_byte_and_then_nothing, "timeout", 300, id="one byte"),
        pytest.param(silence, "timeout", 300, id="silence"),
        pytest.param(hang_up, "connection_lost", 10_000, id="hangs up"),
        pytest.param(saying(respond(body=b"<html>")), "answer_not_json", 10_000, id="no JSON"),
        pytest.param(saying(respond(body=b'{"id": NaN}')), "answer_not_json", 10_000, id="NaN"),
        pytest.param(saying(respond(body=b'{"id": 1, "id": 2}')), "answer_not_json", 10_000, id="a key twice"),
        pytest.param(saying(respond(body=b'{"id": 9007199254740993}')), "answer_not_json", 10_000, id="a number too large"),
        pytest.param(saying(respond(body=b'{"id": 1' + b"0" * 5_000 + b"}")), "answer_not_json", 10_000, id="a number far too large"),
        pytest.param(saying(respond(body=b"[" * 4_000 + b"]" * 4_000)), "answer_not_json", 10_000, id="nested"),
        pytest.param(saying(respond(body=b'{"id": "\xff"}')), "answer_not_text", 10_000, id="no UTF-8"),
    ],
)  # fmt: skip
def test_an_answer_that_misbehaves_is_stopped_with_its_reason(
    behave: Behave, code: str, timeout_ms: int
) -> None:
    """A read of it is not done, and may be tried again; each reason has a code of its own."""
    ending = ended(behave, timeout_ms=timeout_ms, **MEASURED)
    assert isinstance(ending, NotHappened)
    assert ending.code == code


@pytest.mark.parametrize(
    ("behave", "kind", "words"),
    [
        pytest.param(endless, Done, "more than 10,000 bytes", id="endless"),
        pytest.param(
            saying(respond(body=b"<html>", status="201 Created")), Done, "not usable JSON", id="no JSON"
        ),
        pytest.param(
            saying(respond({"id": "one"}, status="201 Created")),
            Done,
            "breaks its schema",
            id="another schema",
        ),
        pytest.param(
            saying(respond(headers={"content-length": "500"})), Unknown, "peer closed", id="cut off"
        ),
        pytest.param(hang_up, Unknown, "disconnected", id="hangs up"),
        pytest.param(one_byte_and_then_nothing, Unknown, "did not answer", id="one byte"),
    ],
)
@pytest.mark.req("R110")
def test_an_effect_behind_a_bad_answer_is_never_said_to_be_missing(
    behave: Behave, kind: type, words: str
) -> None:
    """The service said yes and talked nonsense: done. It said nothing, or not to the end: unknown."""
    timeout_ms = 5_000 if "did not answer" in words else 600_000
    ending = ended(behave, "makeThing", timeout_ms=timeout_ms, **MEASURED)
    assert isinstance(ending, kind)
    assert isinstance(ending, Done | Unknown)
    assert words in ending.error


@pytest.mark.req("R109")
async def test_a_call_that_ran_out_of_time_has_no_connection_left() -> None:
    """Whoever gave up has hung up as well."""

    async def main() -> tuple[Ended, bytes]:
        closed: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            closed.set_result(await reader.read())  # ends when the other side does
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server:
            tools = Loopback(port=server.sockets[0].getsockname()[1]).tools()
            return await call(tools["getThing"], timeout_ms=2_000), await asyncio.wait_for(closed, 600)

    ending, rest = await main()
    assert (ending.error, rest) == ("things.getThing did not answer within 2,000 ms", b"")


async def test_a_call_that_nobody_looks_after_ends_as_well() -> None:
    """The tool holds itself to its time, also where no gateway does."""

    async def main() -> None:
        async with serving(silence) as service:
            tool = service.tools(operations=[{"operation": "getThing", "timeout_ms": 300}])["getThing"]
            await tool.call(CONTEXT, id="1")

    with pytest.raises(GatewayError, match="300 ms") as caught:
        await main()
    assert caught.value.code == "timeout"


def test_a_name_that_takes_too_long_was_not_called() -> None:
    """Nothing was sent, and that is known before the call's own time is over."""

    async def resolve(_: str, __: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    ending = ended(
        saying(respond()),
        "makeThing",
        host="api.example.test",
        world=World(resolve=resolve),
        connect_timeout_ms=50,
    )
    assert isinstance(ending, NotHappened)
    assert (ending.code, ending.is_retriable) == ("host_not_found", True)


def test_without_the_extra_nothing_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer says what to install."""
    monkeypatch.setitem(sys.modules, "httpx2", None)
    ending = ended(saying(respond()), "makeThing")
    assert isinstance(ending, NotHappened)
    assert (ending.code, "tercet[http]" in ending.error) == ("http_unavailable", True)


# --- what a status means ---


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, Done), (202, Done), (204, Done), (301, Unknown), (302, Unknown), (303, Unknown), (304, Unknown),
        (307, NotHappened), (308, NotHappened), (400, NotHappened), (401, NotHappened), (403, NotHappened),
        (404, NotHappened), (405, NotHappened), (407, Unknown), (408, Unknown), (409, NotHappened), (410, NotHappened),
        (418, Unknown), (422, NotHappened), (425, NotHappened), (429, NotHappened), (451, NotHappened), (499, Unknown),
        (500, Unknown), (501, Unknown), (502, Unknown), (503, Unknown), (504, Unknown), (599, Unknown),
    ],
)  # fmt: skip
def test_what_a_status_says_about_an_effect(status: int, kind: type) -> None:
    """Success is done, a refusal is not done, and everything else leaves it open."""
    body = b"" if status in (204, 304) else b"null"
    ending = ended(saying(respond(status=f"{status} So", body=body)), "deleteThing")
    assert isinstance(ending, kind)
    if isinstance(ending, NotHappened):
        assert ending.is_attempt_only
        assert ending.is_retriable == (status in (425, 429))
        assert ending.code == f"http_{status}"


def test_a_pack_knows_its_service_better() -> None:
    """It may say that a status means something else for an operation."""
    said = [{"operation": "deleteThing", "not_done": [503], "unknown": [409]}]
    busy = ended(saying(respond(status="503 Busy")), "deleteThing", operations=said)
    assert (
        isinstance(busy, NotHappened),
        busy.error.startswith("things.deleteThing: the service answered 503"),
    ) == (True, True)
    assert isinstance(ended(saying(respond(status="409 Conflict")), "deleteThing", operations=said), Unknown)


@pytest.mark.parametrize(
    ("said", "wait_ms"),
    [
        ("7", 7_000),
        ("999999", 600_000),
        ("Sun, 15 Nov 2026 10:00:30 GMT", 30_000),
        ("Sun, 15 Nov 2020 10:00:30 GMT", 0),
        ("soon", 0),
        ("-5", 0),
    ],
)
def test_a_service_says_how_long_to_wait(said: str, wait_ms: int) -> None:
    """`Retry-After` in seconds or as a date, bounded; what is neither is nothing."""
    world = World(now=lambda: datetime(2026, 11, 15, 10, 0, tzinfo=UTC))
    ending = ended(
        saying(respond(status="429 Slow", headers={"retry-after": said})), "deleteThing", world=world
    )
    assert isinstance(ending, NotHappened)
    assert (ending.retry_after_ms, ending.is_retriable) == (wait_ms, True)


def test_a_refusal_is_told_in_the_words_of_the_service() -> None:
    """In one line of bounded length, whatever it sent."""
    ending = ended(saying(respond(body=b"no\x00 such\r\n thing" + b"!" * 5_000, status="404 Not Found")))
    assert ending.error.startswith("things.getThing: the service answered 404: no such thing!!!")
    assert len(ending.error) < 300


def test_the_words_of_a_refusal_are_not_waited_for() -> None:
    """A 400 whose body never comes is a 400."""

    async def behave(_: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 10\r\n\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    ending = ended(behave, "makeThing")
    assert isinstance(ending, NotHappened)
    assert ending.code == "http_400"


# --- certificates ---


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for api.example.test, with its key in the same file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("makes its certificate with openssl")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=things"
    names = ["-addext", "subjectAltName=DNS:api.example.test", "-keyout", str(path), "-out", str(path)]
    subprocess.run([openssl, *words.split(), *names], check=True, capture_output=True)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("host", "is_done"), [("api.example.test", True), ("other.example.test", False)])
async def test_the_certificate_is_compared_with_the_name(certificate: Path, host: str, is_done: bool) -> None:
    """Though the connection goes to an address, the name counts: a certificate for another one ends it unsent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    names: list[str | None] = []
    context.sni_callback = lambda _, name, __: names.append(name)

    async def resolve(_: str, __: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async def main() -> Ended:
        async with serving(saying(respond()), ssl=context) as service:
            world = World(resolve=resolve, tls=ssl.create_default_context(cafile=certificate))
            tools = service.tools(host=host, world=world, base_url=f"https://{host}:{service.port}")
            return await call(tools["makeThing"], {"note": "a"})

    ending = await main()
    assert isinstance(ending, Done if is_done else NotHappened)
    assert names == [host]


async def test_attempts_carry_the_same_key() -> None:
    """Another attempt at an action is the same action to the service."""

    async def main() -> set[str]:
        async with serving(saying(respond())) as service:
            tool = service.tools()["makeThing"]
            for attempt in (1, 2):
                await call(tool, {"note": "a"}, context=replace(CONTEXT, attempt=attempt))
            return {each.headers["idempotency-key"] for each in service.heard}

    assert (await main()) == {"key-1"}
