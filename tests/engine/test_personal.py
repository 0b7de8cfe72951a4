"""Personal values: no byte of one is stored, tools get them, and destroying the key of a subject erases them."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from journal.servers import administrator, own_journal
from tercet import Actor, Pack, Runtime, tool
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import NotDone, PackError, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.personal import PersonalMarks, find_tokens
from tercet.contracts.policy import Policy
from tercet.engine.checks.journal import check_journal
from tercet.engine.personal import keys
from tercet.engine.personal.erasure import erase, plan_erasure
from tercet.engine.personal.reveal import Revealer
from tercet.engine.session_reader import load_history
from tercet.journal.database import DatabaseJournal
from tercet.journal.opening import open_journal

MAIL = "mira.jansen@planted.example"
NAME = "Mira Jansen-Planted"
PHONE = "+31 6 5550 1234"
STREET = "Plantedstraat 12"
PLANTED = (MAIL, NAME, PHONE, STREET)
MARKS: dict[str, Any] = {
    "subject": "customer_id",
    "request": ["email", "person.name"],
    "tools": {
        "crm.look_up": {"params": ["email"], "result": ["phone"]},
        "post.send": {"params": ["to", "text"]},
    },
    "evidence": {"customer": {"fields": ["street"], "subject": "customer_id"}},
}
INPUT = {"customer_id": "cus_7", "email": MAIL, "person": {"name": NAME}, "note": f"{NAME} asked"}
PLAN: dict[str, Any] = {
    "intent": "greet",
    "steps": [
        {"id": "look", "tool": "crm.look_up", "params": {"email": {"$from": "request#/email"}}},
        {
            "id": "send",
            "tool": "post.send",
            "params": {"to": {"$from": "look#/phone"}, "text": f"Hello {NAME}"},
            "depends_on": ["look"],
        },
    ],
    "outputs": {"greeted": {"$from": "send#/sent"}, "seen": {"$from": "look#/comment"}},
}
FACT = Evidence(
    id="kg:customer:cus_7#snapshot_1",
    content={"customer_id": "cus_7", "street": STREET},
    source="test",
)


class Desk:
    """The tools of a pack, and what they were called with."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.fails = False

    def pack(self, marks: dict[str, Any] | None = None, **more: Any) -> Pack:
        """Return a pack with two tools that handle personal values."""

        @tool("crm.look_up", mode="read_only", trust="trusted")
        def look_up(email: str) -> dict[str, str]:
            self.seen.append(email)
            return {"phone": PHONE, "comment": f"{email} is {NAME}, call {PHONE}"}

        @tool("post.send", mode="local_write", authority=[], idempotent=True, no_compensation="a letter")
        async def send(to: str, text: str) -> dict[str, str]:
            self.seen.append((to, text))
            if self.fails:
                raise NotDone(f"no letter box for {to}", is_retriable=False)
            return {"sent": "yes"}

        given: dict[str, Any] = {
            "name": "greetings",
            "version": "1.0.0",
            "safety_mode": "destructive",
            "on_failure": "keep",
            "tools": [look_up, send],
            "decisions": [DecisionSpec(id="greet")],
            "evidence": [FACT],
            "personal": PersonalMarks.model_validate(MARKS if marks is None else marks),
        }
        return Pack(**{**given, **more})


def _files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


async def _dump(url: str, folder: Path) -> bytes:
    """Return every byte that a journal has stored."""
    if url.startswith("sqlite"):
        return _files(folder)
    found = b""
    async with administrator(url) as connection:
        for (table,) in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'tercet'"):
            for row in await connection.fetch(f"SELECT * FROM tercet.{table}"):  # noqa: S608 - a catalogue's name
                for value in row:
                    found += value if isinstance(value, bytes) else str(value).encode()
    return found


async def _run(desk: Desk, journal: Any, **more: Any) -> Any:
    async with Runtime(desk.pack(), journal) as runtime:
        return await runtime.run({"intent": "greet", "input": INPUT}, plan=PLAN, **more)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_byte_is_stored_and_erasing_destroys_the_key(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The tools see the values, the journal never does; after erasure the key is in no file either, and all checks hold."""
    desk = Desk()
    async with own_journal(kind, tmp_path, request) as url, open_journal(url) as journal:
        result = await _run(desk, journal)
        assert result.status == "completed"
        assert desk.seen == [MAIL, (PHONE, f"Hello {NAME}")]
        key = await keys.find_key(journal, "default", "cus_7")
        assert key is not None
        assert key.sessions == (result.session_id,)
        stored = base64.b64encode(key.key)
        before = await _dump(url, tmp_path)
        assert [text for text in PLANTED if text.encode() in before] == []
        assert stored in before
        shown = await Revealer(journal, "default", result.session_id).reveal(result.outputs)
        assert shown == {"greeted": "yes", "seen": f"{MAIL} is {NAME}, call {PHONE}"}
        other = await _run(Desk(), journal)  # the same subject again: equal tokens
        assert other.outputs == result.outputs

        planned = await plan_erasure(journal, "default", "cus_7")
        assert planned.sessions == (result.session_id, other.session_id)
        done = await erase(journal, "default", "cus_7", owner="ops", now_ms=1)
        assert done == planned
        with pytest.raises(UsageError, match="no personal values"):
            await erase(journal, "default", "cus_7", owner="ops", now_ms=2)
        assert await Revealer(journal, "default", result.session_id).reveal(result.outputs) == {
            "greeted": "yes",
            "seen": "erased is erased, call erased",
        }
        after = await _dump(url, tmp_path)
        assert stored not in after
        assert key.key not in after
        assert isinstance(journal, DatabaseJournal)
        report = await check_journal(journal, None, progress=lambda _: None)
        assert report.problems == []
        async with Runtime(desk.pack(), journal) as runtime:
            replayed = await runtime.replay(result.session_id)
            assert (replayed.outcome, replayed.difference) == ("replay_equal", None)
            assert replayed.verdicts_rederived >= 3
            again = await runtime.run({"intent": "greet", "input": INPUT}, plan=PLAN)
        assert again.status == "completed"
        assert set(find_tokens(again.outputs)).isdisjoint(find_tokens(result.outputs))


async def test_errors_of_tools_are_sealed() -> None:
    """What a tool says about a failure may repeat what it was given."""
    desk = Desk()
    desk.fails = True
    async with Runtime(desk.pack()) as runtime:
        result = await runtime.run({"intent": "greet", "input": INPUT}, plan=PLAN)
        assert result.status == "paused"
        history = await load_history(runtime.journal, "default", result.session_id)
        stored = b"".join(each.data for each in history.stored)
        assert b"no letter box for [personal:" in stored
        assert [text for text in PLANTED if text.encode() in stored] == []
        assert PHONE in await runtime.reveal(result.reason, result.session_id)


async def test_a_value_of_an_earlier_result_is_found_in_a_later_one() -> None:
    """A tool that received no personal value may return one that another call has brought, in a field that is not marked."""

    @tool("crm.notes", mode="read_only", trust="trusted")
    def notes(case: str) -> dict[str, str]:
        return {"note": f"call {PHONE} about {case}"}

    desk = Desk()
    tools = [*desk.pack().tools, notes]
    steps = [
        PLAN["steps"][0],
        {"id": "n", "tool": "crm.notes", "params": {"case": "7"}, "depends_on": ["look"]},
    ]
    plan = {"intent": "greet", "steps": steps, "outputs": {"note": {"$from": "n#/note"}}}
    async with Runtime(desk.pack(tools=tools)) as runtime:
        result = await runtime.run({"intent": "greet", "input": INPUT}, plan=plan)
        assert PHONE not in str(result.outputs)
        assert await runtime.reveal(result.outputs, result.session_id) == {"note": f"call {PHONE} about 7"}


async def test_a_value_goes_only_into_marked_parameters() -> None:
    """A tool whose parameter is not marked is not called."""
    desk = Desk()
    marks = {
        **MARKS,
        "tools": {"crm.look_up": MARKS["tools"]["crm.look_up"], "post.send": {"params": ["to"]}},
    }
    async with Runtime(desk.pack(marks)) as runtime:
        result = await runtime.run({"intent": "greet", "input": INPUT}, plan=PLAN)
    assert result.status == "paused"
    assert "not marked" in result.reason
    assert desk.seen == [MAIL]


async def test_an_erased_value_is_not_called_with(tmp_path: Path) -> None:
    """A session that waits is refused erasure; forced, its calls fail closed, whichever process resumes it."""
    desk = Desk()
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    gate = Gate(name="GATE_SEND", roles=("lead",), quorum=1)

    def pack() -> Pack:
        made = desk.pack(gates=[gate])
        look, send = made.tools
        return desk.pack(gates=[gate], tools=[look, send.model_copy(update={"gates": ("GATE_SEND",)})])

    async with Runtime(pack(), url, trusts_caller=True) as runtime:
        waiting = await runtime.run({"intent": "greet", "input": INPUT}, plan=PLAN)
        assert waiting.status == "awaiting_gate"
        assert waiting.gate is not None
        assert NAME not in str(waiting.gate.shown)
        with pytest.raises(UsageError) as refused:
            await erase(runtime.journal, "default", "cus_7", owner="ops", now_ms=1)
        assert refused.value.code == "subject_in_progress"
        lead = Actor(id="lena", roles=("lead",))
        await erase(runtime.journal, "default", "cus_7", owner="ops", now_ms=1, is_forced=True)
        await runtime.approve(waiting.gate.id, actor=lead, note="fine")
        ended = await runtime.resume(waiting.session_id)
    assert ended.status == "paused"
    assert "was erased" in ended.reason
    assert desk.seen == [MAIL]


async def test_notes_of_people_are_sealed(tmp_path: Path) -> None:
    """What an approver writes is searched for the values that the session knows."""
    desk = Desk()
    gate = Gate(name="GATE_SEND", roles=("lead",), quorum=1)
    made = desk.pack(gates=[gate])
    look, send = made.tools
    pack = desk.pack(gates=[gate], tools=[look, send.model_copy(update={"gates": ("GATE_SEND",)})])
    async with Runtime(pack, f"sqlite:///{tmp_path / 'runs.db'}", trusts_caller=True) as runtime:
        waiting = await runtime.run({"intent": "greet", "input": INPUT}, plan=PLAN)
        assert waiting.gate is not None
        lead = Actor(id="lena", roles=("lead",))
        await runtime.approve(waiting.gate.id, actor=lead, note=f"I know {NAME}")
        await runtime.resume(waiting.session_id)
    assert desk.seen[-1] == (PHONE, f"Hello {NAME}")
    found = _files(tmp_path)
    assert b"I know [personal:" in found
    assert NAME.encode() not in found


async def test_a_request_says_whose_its_values_are() -> None:
    """Without the subject, with a number or with a token in it, a request is refused and nothing is stored."""
    async with Runtime(Desk().pack()) as runtime:
        token = "[personal:0123456789abcdef:AAAAAAAAAAAAAAAAAAAAAAAAAAAA]"  # noqa: S105 - no password
        for given, code in (
            ({**INPUT, "customer_id": None}, "subject_missing"),
            ({**INPUT, "email": 7}, "personal_not_text"),
            ({**INPUT, "note": f"see {token}"}, "personal_token"),
        ):
            with pytest.raises(UsageError) as refused:
                await runtime.run({"intent": "greet", "input": given}, plan=PLAN)
            assert refused.value.code == code
        assert await runtime.sessions() == []


async def test_tokens_of_another_tenant_are_worthless(tmp_path: Path) -> None:
    """A token is bound to its tenant: the same journal reveals it to no other."""
    async with open_journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
        result = await _run(Desk(), journal)
        assert (
            await Revealer(journal, "other", result.session_id).reveal(result.outputs["seen"])
            == "erased is erased, call erased"
        )
        key = await keys.use_key(journal, "other", "cus_7")
        mine = await keys.find_key(journal, "default", "cus_7")
        assert mine is not None
        assert key.key != mine.key


async def test_processes_that_make_a_key_at_once_agree(tmp_path: Path) -> None:
    """Every session is noted with the one key, also while another process destroys it."""
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with open_journal(url) as one, open_journal(url) as two:
        made = await asyncio.gather(
            *(
                keys.use_key((one, two)[number % 2], "default", "cus_1", f"ses_{number}")
                for number in range(8)
            )
        )
        assert len({key.id for key in made}) == 1
        found = await keys.find_key(one, "default", "cus_1")
        assert found is not None
        assert sorted(found.sessions) == [f"ses_{number}" for number in range(8)]


@pytest.mark.parametrize(
    ("code", "marks", "more"),
    [
        ("subject_missing", {"request": ["email"]}, {}),
        ("unknown_tool", {**MARKS, "tools": {"crm.look": {"params": ["email"]}}}, {}),
        ("personal_field_unknown", {**MARKS, "tools": {"crm.look_up": {"params": ["mail"]}}}, {}),
        (
            "rule_reads_personal",
            MARKS,
            {"policies": [Policy(name="p", scope="step", expression='step.params.email != "a"')]},
        ),
        (
            "subject_missing",
            {**MARKS, "evidence": {"customer": {"fields": ["street"], "subject": "owner"}}},
            {},
        ),
    ],
)
def test_packs_that_depend_on_marked_values_are_refused(
    code: str, marks: dict[str, Any], more: dict[str, Any]
) -> None:
    """A rule would judge a token, so it may not read one; a mark must name something that exists."""
    with pytest.raises(PackError) as refused:
        Desk().pack(marks, **more)
    assert code in {problem.code for problem in refused.value.problems}


def test_numbers_and_formats_cannot_be_marked() -> None:
    """The critic checks schemas on tokens, so a marked field is a text of any form."""

    @tool("crm.look_up", mode="read_only")
    def look_up(email: int) -> dict[str, str]:
        return {"phone": str(email)}

    with pytest.raises(PackError) as refused:
        Desk().pack({**MARKS, "tools": {"crm.look_up": {"params": ["email"]}}}, tools=[look_up])
    assert "personal_not_text" in {problem.code for problem in refused.value.problems}


def test_a_pack_without_marks_has_the_hash_that_it_had() -> None:
    """Marks are part of the pack's hash only where there are any."""
    declared = Desk().pack({}).declarations
    assert "personal" not in declared
    assert "personal" in Desk().pack().declarations
