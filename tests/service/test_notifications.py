"""Notifications: what a gate and a failed compensation send, to whom, and that nothing is lost or sent by two at once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from email import message_from_bytes, policy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from journal.servers import own_journal
from tercet import Actor, Runtime
from tercet.cli.main import app
from tercet.contracts.errors import UsageError
from tercet.contracts.gate import Notify
from tercet.core.events import GateOpened, StepSkipped
from tercet.core.events.gate import Need
from tercet.core.state import State
from tercet.engine.leases import LeaseClient
from tercet.engine.streams.notices import (
    NEVER,
    Attempted,
    Queued,
    list_notices,
    load_notice,
    record,
    resend,
)
from tercet.executor.clock import SystemClock
from tercet.journal.errors import LeaseHeld
from tercet.journal.memory import MemoryJournal
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, Journal
from tercet.service.notifier import Backoff, Notifier, Timing
from tercet.service.targets import (
    EmailTarget,
    Message,
    NotificationSettings,
    compose_mail,
    load_settings,
    open_targets,
)
from tercet.view.notification import notification_view

from .desk import open_desk
from .receivers import ASK, SECRET, Hook, make_certificate, make_pack, open_hook, open_mailbox, pay

CFO = Actor(id="rosa", roles=("cfo",))
QUICK = Timing(poll_ms=10, lease_ms=2_000, backoff=Backoff(first_ms=4, most_ms=40))
HOUR = 3_600_000


class ShiftedClock(SystemClock):
    """The clocks of this machine, with a wall clock that a test sets forward."""

    shift = 0

    def now(self) -> int:
        """Return the wall time."""
        return super().now() + self.shift


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


def settings(hook: Hook | None = None, **more: Any) -> NotificationSettings:
    """The settings of a test: one webhook, and what else it says."""
    targets = more.pop("targets", {})
    if hook is not None:
        targets["ops"] = {
            "kind": "webhook",
            "url": hook.url,
            "secret_env": "HOOK_SECRET",
            **more.pop("ops", {}),
        }
    return NotificationSettings.model_validate({"targets": targets, **more})


@asynccontextmanager
async def notifying(journal: Journal, wanted: NotificationSettings, **more: Any) -> AsyncGenerator[Notifier]:
    """A notifier that runs until the block ends."""
    more.setdefault("timing", QUICK)
    notifier = Notifier(journal, wanted, **more)
    working = asyncio.create_task(notifier.run())
    try:
        yield notifier
    finally:
        await notifier.stop()
        await working


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(300):
        while not is_so():  # noqa: ASYNC110 - there is no event for what a test waits for
            await asyncio.sleep(0.005)


async def until_settled(journal: Journal) -> None:
    """Wait until no notice of the tenant is left to do; other tests share the database, under tenants of their own."""
    async with asyncio.timeout(300):
        while [  # noqa: ASYNC110 - there is no event for what a test waits for
            each
            for each in await journal.reminders(now_ms=NEVER - 1, tenant="default")
            if "expires" not in each.name
        ]:
            await asyncio.sleep(0.005)


async def open_gate(journal: Journal, actor: str = "ada") -> str:
    """Run up to the gate in a process that knows nothing of notifications, and return the gate's id."""
    async with Runtime(make_pack(), journal) as runtime:
        waiting = await runtime.run(ASK, plan=pay(), actor=Actor(id=actor))
        assert waiting.gate is not None
        return waiting.gate.id


def is_signed(headers: dict[str, str], body: bytes) -> bool:
    """Whether a signature fits, computed as a receiver would."""
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return hmac.compare_digest(f"v1,{expected}", headers["webhook-signature"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
async def test_a_gate_of_another_process_reaches_a_webhook_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The run knows nothing of notifications; two workers share the journal, and one of them sends, with a signature."""
    with open_hook() as hook:
        async with own_journal(kind, tmp_path, request) as url, open_journal(url) as journal:
            wanted = settings(hook)
            link = "https://tercet.example.com"
            async with (
                notifying(journal, wanted, public_url=link),
                notifying(journal, wanted, public_url=link),
            ):
                gates = [await open_gate(journal) for _ in range(3)]
                await until(lambda: len(hook.received) >= 3)
                await until_settled(journal)
            assert not [each for each in await list_notices(journal, "default") if each.deliveries]
    assert sorted(body["data"]["gate"] for body in hook.bodies) == sorted(gates)
    headers, body = hook.received[0]
    assert is_signed(headers, body)
    assert not is_signed(headers, body + b" ")
    assert not is_signed({**headers, "webhook-timestamp": "1"}, body)
    first = hook.bodies[0]
    assert first["type"] == "gate.opened"
    assert first["data"]["url"] == f"https://tercet.example.com/console/gates/{first['data']['gate']}"
    assert first["data"]["needs"] == {"CFO": {"roles": ["cfo"], "quorum": 1}}
    assert "acct_41" not in body.decode()


async def test_what_a_stopped_service_missed_is_sent_later() -> None:
    """A gate that opened while no notifier ran is announced by the next one, and one that was answered is not."""
    journal = MemoryJournal()
    answered, waiting = await open_gate(journal), await open_gate(journal)
    async with Runtime(make_pack(), journal) as runtime:
        await runtime.deny(answered, actor=CFO)
    with open_hook() as hook:
        async with notifying(journal, settings(hook)) as notifier:
            await until_settled(journal)
    assert [body["data"]["gate"] for body in hook.bodies] == [waiting]
    assert notifier.counts == {"delivered": 1, "dropped": 1}


async def test_a_receiver_that_is_down_is_tried_again_with_the_same_id() -> None:
    """It answers 500, then takes it; the id stays the same, and the attempts are counted."""
    journal = MemoryJournal()
    with open_hook() as hook:
        hook.status = 500
        async with notifying(journal, settings(hook)) as notifier:
            await open_gate(journal)
            await until(lambda: len(hook.received) >= 2)
            hook.status = 204
            await until_settled(journal)
    assert len(set(hook.ids)) == 1
    assert notifier.counts["delivered"] == 1
    assert notifier.counts["retried"] == len(hook.ids) - 1 >= 2


async def resend_once_released(leases: LeaseClient, notice: str) -> None:
    """Have a notice sent again; the notifier that gave it up may hold it for a moment longer."""
    while True:
        with suppress(LeaseHeld):
            await resend(leases, notice, by="olga")
            return
        await asyncio.sleep(0.01)


async def test_a_receiver_that_no_one_runs_is_given_up_and_sent_again_by_an_operator() -> None:
    """Nothing listens: after the last attempt it is listed as failed, until an operator has it sent again."""
    journal = MemoryJournal()
    with open_hook() as closed:
        pass
    port = int(closed.url.rpartition(":")[2].partition("/")[0])
    wanted = settings(closed, attempts=3)
    async with notifying(journal, wanted) as notifier:
        await open_gate(journal)
        await until(lambda: notifier.counts["failed"])
        [failed] = [each for each in await list_notices(journal, "default") if each.deliveries]
        delivery = failed.deliveries["ops"]
        assert (delivery.status, delivery.attempts, failed.due_at) == ("failed", 3, NEVER)
        assert delivery.error.startswith("the receiver cannot be reached")
        with open_hook(port) as hook:
            leases = LeaseClient(journal=journal, tenant="default", clock=SystemClock())
            await resend_once_released(leases, failed.id)
            await until_settled(journal)
    assert hook.ids == [failed.id]
    assert not [each for each in await list_notices(journal, "default") if each.deliveries]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"is_hanging": True}, "no answer within 200 ms"),
        ({"status": 302}, "the receiver redirects (302), which is not followed"),
        ({"status": 410}, "the receiver answered 410"),
    ],
)
async def test_a_receiver_that_misbehaves_is_bounded(answer: dict[str, Any], error: str) -> None:
    """One that hangs or redirects has not taken it, and the error has no word of the receiver."""
    journal = MemoryJournal()
    with open_hook() as hook:
        for name, value in answer.items():
            setattr(hook, name, value)
        async with notifying(journal, settings(hook, ops={"timeout_ms": 200}, attempts=1)) as notifier:
            await open_gate(journal)
            await until(lambda: notifier.counts["failed"])
    [failed] = [each for each in await list_notices(journal, "default") if each.deliveries]
    assert failed.deliveries["ops"].error == error
    assert len(hook.received) == 1


async def test_a_huge_answer_is_not_read() -> None:
    """Of 100 MB only the beginning is read, and the status counts."""
    journal = MemoryJournal()
    with open_hook() as hook:
        hook.flood = 100_000_000
        async with notifying(journal, settings(hook)) as notifier:
            await open_gate(journal)
            await until(lambda: notifier.counts["delivered"])
    assert hook.written < 50_000_000


async def test_a_gate_that_expires_soon_is_announced_once() -> None:
    """In the last quarter of its time a second notification goes out, once; not for a gate that was answered."""
    journal, clock = MemoryJournal(), ShiftedClock()
    with open_hook() as hook:
        async with notifying(journal, settings(hook), clock=clock):
            answered, waiting = await open_gate(journal), await open_gate(journal)
            await until(lambda: len(hook.received) == 2)
            await until_settled(journal)
            async with Runtime(make_pack(), journal) as runtime:
                await runtime.deny(answered, actor=CFO)
            assert len(await journal.reminders(now_ms=NEVER)) == 2
            clock.shift = HOUR * 44 // 60
            assert await journal.reminders(now_ms=clock.now()) == []
            clock.shift = HOUR * 46 // 60
            await until(lambda: len(hook.received) == 3)
            async with asyncio.timeout(300):
                while await journal.reminders(now_ms=NEVER):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            clock.shift = HOUR * 50 // 60
        async with notifying(journal, settings(hook), clock=clock) as again:
            await again.look()
    warning = hook.bodies[2]
    assert (warning["type"], warning["data"]["gate"]) == ("gate.expires_soon", waiting)
    assert len(hook.received) == len(set(hook.ids)) == 3


@pytest.mark.req("R235")
async def test_an_escalation_and_a_failed_compensation_are_announced() -> None:
    """The run escalates, is abandoned, and cannot undo a step: operators hear of both."""
    journal = MemoryJournal()
    plan: dict[str, Any] = {
        "steps": [
            {"id": "b", "tool": "desk.book", "params": {"desk": "d1"}},
            {"id": "f", "tool": "desk.fail", "params": {}, "depends_on": ["b"]},
        ]
    }
    pack = make_pack(on_failure="compensate", budget={"max_step_retries": 0})
    with open_hook() as hook:
        async with notifying(journal, settings(hook)):
            async with Runtime(pack, journal) as runtime:
                stuck = await runtime.run(ASK, plan=plan)
                assert stuck.gate is not None
                await until(lambda: hook.received)
                await runtime.decide(stuck.gate.id, "abandon", actor=CFO)
                ended = await runtime.resume(stuck.session_id)
            await until_settled(journal)
    assert ended.status == "failed"
    assert [body["type"] for body in hook.bodies] == ["gate.escalated", "compensation.failed"]
    assert (hook.bodies[1]["data"]["step"], hook.bodies[1]["data"]["session"]) == ("b", stuck.session_id)


async def test_targets_get_the_events_and_tenants_that_they_ask_for() -> None:
    """A target for other events or other tenants gets nothing."""
    journal = MemoryJournal()
    with open_hook() as hook, open_hook() as other:
        both = settings(
            hook,
            targets={
                "wrong_event": {
                    "kind": "webhook",
                    "url": other.url,
                    "secret_env": "HOOK_SECRET",
                    "events": ["compensation.failed"],
                },
                "wrong_tenant": {
                    "kind": "webhook",
                    "url": other.url,
                    "secret_env": "HOOK_SECRET",
                    "tenants": ["acme"],
                },
            },
        )
        async with notifying(journal, both):
            await open_gate(journal)
            await until_settled(journal)
    assert (len(hook.received), len(other.received)) == (1, 0)


async def test_slack_gets_a_text_that_cannot_mention_or_link() -> None:
    """The format of Slack is one text, in which < > and & of others are escaped; it is not signed without a secret."""
    journal = MemoryJournal()
    with open_hook() as hook:
        target = {"kind": "webhook", "url": hook.url, "format": "slack"}
        async with notifying(
            journal, settings(targets={"slack": target}), public_url="https://t.example.com"
        ):
            gate = await open_gate(journal, actor="<!channel> & <http://evil.example|ok>")
            await until_settled(journal)
    [body] = hook.bodies
    assert list(body) == ["text"]
    assert "&lt;!channel&gt; &amp; &lt;http" in body["text"]
    assert f"https://t.example.com/console/gates/{gate}" in body["text"]
    assert "webhook-signature" not in hook.received[0][0]


async def test_an_e_mail_has_the_link_and_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mail server demands a login; the mail is plain text with subject, link and a stable id."""
    monkeypatch.setenv("MAIL_PASSWORD", "p4ss")
    journal = MemoryJournal()
    async with open_mailbox("p4ss") as mailbox:
        target = {
            "kind": "email", "host": "127.0.0.1", "port": mailbox.port, "security": "none", "username": "tercet",
            "password_env": "MAIL_PASSWORD", "sender": "tercet@example.com", "to": ["a@example.com", "b@example.com"],
        }  # fmt: skip
        async with notifying(
            journal, settings(targets={"mail": target}), public_url="https://t.example.com/"
        ):
            gate = await open_gate(journal)
            await until_settled(journal)
    [mail] = mailbox.mails
    assert mailbox.logins == ["tercet"]
    assert (mail["From"], mail["To"]) == ("tercet@example.com", "a@example.com, b@example.com")
    assert mail["Subject"] == f"A gate waits for an answer: {gate}"
    assert mail.get_content_type() == "text/plain"
    assert f"https://t.example.com/console/gates/{gate}" in mail.get_content()
    assert mail["Message-ID"].startswith("<msg_")


NASTY = "s\r\nBcc: eve@evil.example\r\n\r\nhello\u202e\u2028"


async def test_no_name_of_a_caller_becomes_a_header_or_a_line() -> None:
    """CR and LF in an actor's name, and in the input and plan of a run, add neither a header nor a line to a mail."""
    journal = MemoryJournal()
    plan = {**pay(), "intent": NASTY}
    request = {"intent": "work", "input": {"account": "acct_41", "more": NASTY}}
    async with open_mailbox() as mailbox:
        target = {
            "kind": "email", "host": "127.0.0.1", "port": mailbox.port, "security": "none",
            "sender": "tercet@example.com", "to": ["a@example.com"],
        }  # fmt: skip
        async with notifying(journal, settings(targets={"mail": target})):
            async with Runtime(make_pack(), journal) as runtime:
                await runtime.run(request, plan=plan, actor=Actor(id=NASTY))
            await until_settled(journal)
    [mail] = mailbox.mails
    assert (mail["Bcc"], mail["To"]) == (None, "a@example.com")
    assert not [line for line in mail.get_content().splitlines() if line.startswith(("Bcc", "hello"))]
    assert "\u202e" not in mail.get_content()


@pytest.mark.parametrize("field", ["gate", "step", "tool", "name", "role", "compensated"])
def test_no_field_of_an_event_becomes_a_header_or_a_line(field: str) -> None:
    """Even where a check further up failed, an event's fields add neither a header nor a line to a mail."""

    def value(name: str) -> str:
        return NASTY if name == field else "plain"

    need = Need(roles=(value("role"),))
    fact: GateOpened | StepSkipped = GateOpened(
        at=1, gate=value("gate"), kind="approval", step=value("step"), needs={value("name"): need},
        shown={"tool": value("tool")},
    )  # fmt: skip
    if field == "compensated":
        fact = StepSkipped(at=1, step=f"compensate:{NASTY}", reason="optional_failed")
    start = SimpleNamespace(session="ses_1", tenant="default", pack="p@1", actor={"id": "ada"})
    view = notification_view(cast("State", SimpleNamespace(start=start)), fact)
    target = EmailTarget(kind="email", host="localhost", sender="t@example.com", to=("a@example.com",))
    sent = compose_mail(target, Message(id="msg_1", view=view, public_url="https://t.example.com"), 1)
    mail = message_from_bytes(sent.as_bytes(policy=policy.SMTP), policy=policy.default)
    assert set(mail) == {
        "Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted",
        "Content-Type", "Content-Transfer-Encoding", "MIME-Version",
    }  # fmt: skip
    assert not [line for line in mail.get_content().splitlines() if line.startswith(("Bcc", "hello"))]
    assert "\u202e" not in mail.get_content()


async def test_a_server_without_starttls_gets_nothing() -> None:
    """Neither the login nor the mail goes out in clear where the file asks for STARTTLS."""
    journal = MemoryJournal()
    async with open_mailbox() as mailbox:
        target = {
            "kind": "email", "host": "127.0.0.1", "port": mailbox.port, "sender": "t@example.com", "to": ["a@example.com"],
        }  # fmt: skip
        async with notifying(journal, settings(targets={"mail": target}, attempts=1)) as notifier:
            await open_gate(journal)
            await until(lambda: notifier.counts["failed"])
    assert mailbox.mails == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_sender_that_is_killed_before_it_recorded_is_followed_by_another(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The receiver has taken it and the process dies by SIGKILL: the next one sends it again, with the same id."""
    with open_hook() as hook:
        async with own_journal(kind, tmp_path, request) as url, open_journal(url) as journal:
            await open_gate(journal)
            killed = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "service.killed_notifier", url, hook.url,
                cwd=Path(__file__).parents[1], env={**os.environ, "HOOK_SECRET": SECRET},
            )  # fmt: skip
            async with asyncio.timeout(300):
                assert await killed.wait() == -signal.SIGKILL
            # More than once, where the machine is so busy that the lease lapses between a delivery and its record.
            sent = len(hook.received)
            assert sent > 0
            async with notifying(journal, settings(hook)):
                await until_settled(journal)
    assert len(hook.ids) == sent + 1
    assert len(set(hook.ids)) == 1


@pytest.mark.parametrize("is_known", [True, False])
async def test_starttls_is_used_before_the_login(
    is_known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login and the mail go out encrypted, and only to a server whose certificate is trusted."""
    monkeypatch.setenv("MAIL_PASSWORD", "p4ss")
    certificate, context = make_certificate(tmp_path)
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    journal = MemoryJournal()
    async with open_mailbox("p4ss", context) as mailbox:
        target = {
            "kind": "email", "host": "127.0.0.1", "port": mailbox.port, "username": "tercet",
            "password_env": "MAIL_PASSWORD", "sender": "tercet@example.com", "to": ["a@example.com"],
        }  # fmt: skip
        async with notifying(journal, settings(targets={"mail": target}, attempts=1)) as notifier:
            await open_gate(journal)
            await until(lambda: notifier.counts["delivered"] or notifier.counts["failed"])
    assert (len(mailbox.mails), mailbox.logins) == ((1, ["tercet"]) if is_known else (0, []))


async def test_a_receiver_that_is_gone_is_not_tried_again() -> None:
    """An answer of 410 ends the attempts, although more were allowed."""
    journal = MemoryJournal()
    with open_hook() as hook:
        hook.status = 410
        async with notifying(journal, settings(hook, attempts=9)) as notifier:
            await open_gate(journal)
            await until(lambda: notifier.counts["failed"])
    assert (len(hook.received), notifier.counts["retried"]) == (1, 0)


async def test_each_target_waits_for_its_own_next_attempt() -> None:
    """A target whose next attempt is later is not tried when another one is due."""
    journal, clock = MemoryJournal(), SystemClock()
    await open_gate(journal)
    with open_hook() as hook, open_hook() as other:
        target = {"kind": "webhook", "url": other.url, "secret_env": "HOOK_SECRET"}
        [reminder] = await journal.reminders(now_ms=NEVER)
        leases = LeaseClient(journal=journal, tenant="default", clock=clock)
        async with leases.holding(reminder.name) as lease:
            now = clock.now()
            queued = Queued(at=now, event="gate.opened", about="g", targets=("ops", "later"))
            failed = Attempted(at=now, target="later", error="no", next_at=now + HOUR)
            notice = await load_notice(journal, "default", reminder.name)
            await record(journal, lease, notice, queued, failed)
        async with notifying(journal, settings(hook, targets={"later": target})) as notifier:
            await until(lambda: notifier.counts["delivered"])
    assert (len(hook.received), len(other.received)) == (1, 0)
    assert [each.due_at for each in await journal.reminders(now_ms=NEVER)] == [now + HOUR]


async def test_figures_say_what_was_delivered() -> None:
    """`/metrics` has the outcomes and what is due."""
    with open_hook() as hook:
        async with open_desk(MemoryJournal(), make_pack(), notifications=settings(hook)) as desk:
            await open_gate(desk.journal)
            await until(lambda: hook.received)
            await until_settled(desk.journal)
            key = await desk.key("olga", scopes=("operate",))
            answer = await desk.client.get("/metrics", headers={"authorization": f"Bearer {key}"})
    assert 'tercet_notifications_total{outcome="delivered"} 1' in answer.text
    assert 'tercet_notifications_total{outcome="failed"} 0' in answer.text
    assert "tercet_notifications_pending 0" in answer.text


async def test_a_service_ignores_the_hooks_of_a_pack() -> None:
    """Only operators say where a service's notifications go."""
    with open_hook() as hook, open_hook() as other:
        pack = make_pack(notify=Notify(webhook=other.url))
        async with open_desk(MemoryJournal(), pack, notifications=settings(hook)) as desk:
            key = await desk.key("ada")
            started = await desk.rpc(key, "invokeAgent", request=ASK, plan=pay(), wait_ms=10_000)
            assert started["session"]["status"] == "awaiting_gate", started
            await until(lambda: hook.received)
    assert (len(hook.received), len(other.received)) == (1, 0)


async def test_ten_thousand_gates_that_were_announced_cost_one_empty_look() -> None:
    """Reminders that are due later, such as warnings of gates that wait, are not read."""
    journal = MemoryJournal()
    later = tuple((f"notify:ses_{n}#9#expires", 2**50) for n in range(10_000))
    await journal.append(Append(tenant="default", stream="s", expected=0, events=(b"1",), reminders=later))
    with open_hook() as hook:
        notifier = Notifier(journal, settings(hook))
        await notifier.look()
        await notifier.stop()
    assert (await notifier.pending(), notifier.counts) == (0, {})


# --- the file and the command line ---

FILE = """
[targets.ops]
kind = "webhook"
url = "{url}"
secret_env = "HOOK_SECRET"
"""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "targets: Field required"),
        ("[targets.ops]\nkind = 'webhook'\n", "targets.ops: Value error, give either url or url_env"),
        ("[targets.ops]\nkind = 'fax'\n", "targets.ops: Input tag 'fax'"),
        ("x = ", "Invalid value"),
        (FILE.format(url="https://a.example") + "extra = 1", "targets.ops.extra: Extra inputs"),
        (
            "[targets.m]\nkind='email'\nhost='h'\nsender='a@b'\nto=['x@y\\nBcc: z@y']\n",
            "targets.m.to.0: String should match",
        ),
        (
            "[targets.m]\nkind='email'\nhost='mx.example.com'\nsecurity='none'\nsender='a@b'\nto=['x@y']\n",
            'security = "none" is for a mail server on this machine',
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    """Every mistake is named with its place."""
    file = tmp_path / "notifications.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        load_settings(file)
    assert refused.value.code == "wrong_notifications"
    assert problem in refused.value.message


@pytest.mark.parametrize(
    "url",
    ["http://hooks.example.com/", "ftp://a.example", "https://user:pw@a.example", "https://", "https://a b"],
)
def test_an_address_that_is_not_https_is_refused(url: str) -> None:
    """Without TLS only this machine is a target, and the error does not repeat the address."""
    wanted = settings(targets={"ops": {"kind": "webhook", "url": url, "secret_env": "HOOK_SECRET"}})
    with pytest.raises(UsageError) as refused:
        open_targets(wanted)
    assert url not in refused.value.message


@pytest.mark.parametrize("secret", [None, "plain", "whsec_c2hvcnQ=", "whsec_!!"])
def test_a_secret_that_is_missing_or_weak_is_refused(
    secret: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target without a usable secret stops the start."""
    env = {} if secret is None else {"HOOK_SECRET": secret}
    wanted = settings(
        targets={"ops": {"kind": "webhook", "url": "https://a.example", "secret_env": "HOOK_SECRET"}}
    )
    with pytest.raises(UsageError) as refused:
        open_targets(wanted, env)
    assert secret is None or secret not in refused.value.message


def test_the_command_line_lists_retries_and_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample reaches the target; a notification that failed is listed, sent again, and then gone."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'tercet.db'}"
    runner = CliRunner()

    async def run(hook: Hook, *, has_gate: bool) -> None:
        async with open_journal(url) as journal:
            if has_gate:
                await open_gate(journal)
            async with notifying(journal, settings(hook, attempts=1)) as notifier:
                await until(lambda: notifier.counts["delivered"] or notifier.counts["failed"])

    with open_hook() as hook:
        file = tmp_path / "n.toml"
        file.write_text(FILE.format(url=hook.url))
        sent = runner.invoke(app, ["notifications", "test", "ops", "--notifications", str(file), "--json"])
        assert (sent.exit_code, json.loads(sent.stdout)["is_delivered"]) == (0, True)
        assert hook.bodies[0]["data"]["is_sample"] is True
        hook.status = 503
        assert (
            runner.invoke(app, ["notifications", "test", "ops", "--notifications", str(file)]).exit_code == 5
        )
        asyncio.run(run(hook, has_gate=True))
        listed = json.loads(runner.invoke(app, ["notifications", "list", "--json"]).stdout)["notifications"]
        [failed] = [each for each in listed if each["deliveries"]]
        assert failed["deliveries"][0] == {
            "target": "ops", "status": "failed", "attempts": 1, "error": "the receiver answered 503", "next_attempt_at": None,
        }  # fmt: skip
        shown = runner.invoke(app, ["notifications", "list"]).stdout
        assert "failed after 1 attempts" in shown
        assert "gate.expires_soon, due at" in shown
        hook.status = 200
        again = runner.invoke(app, ["notifications", "retry", failed["id"]])
        assert again.exit_code == 0, again.output
        asyncio.run(run(hook, has_gate=False))
        assert hook.ids[-1] == hook.ids[-2] == failed["id"]
        assert runner.invoke(app, ["notifications", "retry", failed["id"]]).exit_code == 2
