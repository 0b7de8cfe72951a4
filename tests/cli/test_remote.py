"""`--server URL`: the same commands, screens, JSON and exit codes with a service as with its journal."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from service.hosting import Hosted, hosting
from tercet.cli.main import COMMANDS
from tercet.cli.remote import method_for
from tercet.cli.server_option import REMOTE
from tercet.contracts.request import Actor
from tercet.core.messages import Cancel, Extend, Message, Pause, Reply, by, reply
from tercet.journal.errors import JournalUnavailable
from tercet.packs.pack import Pack
from tercet.runtime import Runtime
from tercet.service.methods import METHODS

from .harness import PLANS, REFUNDS, Answer, Tercet

INPUT = '{"order_id": "ord_881", "window_id": "rw_881"}'
RUN = ("run", "refunds", "--intent", "support.refund", "--input", INPUT)
ELSEWHERE = "http://127.0.0.1:1"
SESSION = "ses_0123456789abcdef"
WORDS: dict[str, tuple[str, ...]] = {
    **{name: (SESSION,) for name in REMOTE if name.startswith("sessions ")},
    **{name: (f"{SESSION}.g1",) for name in REMOTE if name.startswith("gates ")},
    "run": RUN[1:],
    "sessions list": (),
    "gates list": (),
    "stop list": (),
    "sessions extend": (SESSION, "tool_calls=1"),
    "sessions settle": (SESSION, "letter"),
    "gates settle": (f"{SESSION}.g1", "--did-not-happen"),
    "gates decide": (f"{SESSION}.g1", "abandon"),
    "stop tool": ("shop.pay",),
    "stop pack": ("refunds",),
    "stop tenant": (),
    "stop lift": ("tenant",),
    "replay": (SESSION,),
    "provenance": (SESSION,),
    "export": (SESSION,),
    "report": (SESSION,),
}


@pytest.fixture
def hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Hosted]:
    """The refund desk behind a service; this folder has no journal of its own."""
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(tmp_path / "refunds.db"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in ("TERCET_SERVER", "TERCET_JOURNAL", "TERCET_ACTORS", "TERCET_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with hosting(f"sqlite:///{tmp_path / 'runs.db'}", Pack.load(REFUNDS)) as found:
        yield found


class Terminal:
    """A person who types commands with an API key."""

    def __init__(self, tercet: Tercet, hosted: Hosted, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
        self._tercet = tercet
        self._hosted = hosted
        self._monkeypatch = monkeypatch
        self._key = key

    def __call__(self, *words: str | Path, is_json: bool = True) -> Answer:
        self._monkeypatch.setenv("TERCET_API_KEY", self._key)
        more = ("--json",) if is_json else ()
        return self._tercet(*words, "--server", self._hosted.url, *more)

    def paste(self, line: str) -> Answer:
        """Run a command that was printed, as it was printed."""
        self._monkeypatch.setenv("TERCET_API_KEY", self._key)
        program, *words = shlex.split(line)
        assert program == "tercet"
        return self._tercet(*words, "--json")


@pytest.fixture
def people(tercet: Tercet, hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> dict[str, Terminal]:
    """An agent, a finance lead and an operator."""
    keys = {
        "agent": hosted.key("agt_support"),
        "lead": hosted.key("user_finance_lead", roles=("finance_lead",)),
        "operator": hosted.local_key,
    }
    return {name: Terminal(tercet, hosted, monkeypatch, key) for name, key in keys.items()}


def without_commands(found: Any) -> Any:
    """Return a result without the commands that come next, which name the service or the journal."""
    return {name: value for name, value in found.items() if name != "next"}


def test_a_refund_at_a_service(tercet: Tercet, hosted: Hosted, people: dict[str, Terminal]) -> None:
    """Run, refuse one's own approval, approve, follow: with the exit codes, screens and JSON of a journal."""
    agent, lead = people["agent"], people["lead"]
    waiting = agent(*RUN)
    assert (waiting.code, waiting.json["status"]) == (4, "awaiting_gate")
    session, gate = waiting.json["session_id"], waiting.json["gates"][0]["id"]
    assert all(hosted.url in line for line in waiting.json["next"])
    for words in (
        ("sessions", "list"), ("sessions", "show", session), ("gates", "list"), ("gates", "show", gate),
        ("stop", "list"), ("provenance", session),
    ):  # fmt: skip
        there, here = agent(*words), tercet(*words, "--journal", hosted.journal, "--json")
        assert (there.code, without_commands(there.json)) == (here.code, without_commands(here.json)), words
    own = agent("approve", gate)
    assert (own.code, own.json["error"]["code"]) == (2, "own_gate")
    shown = people["lead"]("gates", "show", gate[4:10] + gate[gate.index(".") :], is_json=False)
    assert ("24,500" in shown.text, hosted.url in shown.text) == (True, True)
    assert people["lead"]("gates", "show", gate[4:10]).json["id"] == gate
    answer = lead.paste(next(line for line in waiting.json["next"] if "approve" in line))
    assert (answer.code, answer.json["actor"], answer.json["roles"]) == (
        0,
        "user_finance_lead",
        ["finance_lead"],
    )
    (follow,) = answer.json["next"]
    assert agent.paste(follow).code == 0
    ended = agent("show", session, is_json=False)
    assert "completed" in ended.text
    replayed = agent("replay", session)
    assert (replayed.code, replayed.json["outcome"]) == (0, "replay_equal")
    exported = agent("export", session, "-o", "run.tercet")
    assert tercet("verify-bundle", "run.tercet", "--json").code == 0
    own = tercet("export", session, "-o", "own.tercet", "--journal", hosted.journal, "--json")
    assert exported.json["hash"] == own.json["hash"]
    assert agent("report", session, "-o", "run.html").code == 0


def test_a_session_whose_pack_version_is_not_served_any_more(
    tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers, screens and refusals say that the service does not continue it, and their command moves it."""
    for name in ("TERCET_SERVER", "TERCET_JOURNAL", "TERCET_ACTORS", "TERCET_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(tmp_path / "refunds.db"))
    folder, journal = tmp_path / "refunds", f"sqlite:///{tmp_path / 'runs.db'}"
    shutil.copytree(REFUNDS, folder)
    with hosting(journal, Pack.load(folder)) as before:
        keys = [before.key("agt_support"), before.key("user_finance_lead", roles=("finance_lead",))]
        agent = Terminal(tercet, before, monkeypatch, keys[0])
        first, second = (agent(*RUN, "--request-key", key).json for key in "ab")
        assert "not_served" not in agent("show", first["session_id"], is_json=False).text
    header = folder / "pack.toml"
    header.write_text(header.read_text().replace('version = "1.0.0"', 'version = "1.1.0"'))
    with hosting(journal, Pack.load(folder)) as after:
        agent, lead = (Terminal(tercet, after, monkeypatch, key) for key in keys)
        operator = Terminal(tercet, after, monkeypatch, after.local_key)
        says = "The service does not serve its version of refunds@1.0.0, and does not continue it."
        session = first["session_id"]
        move = f"tercet sessions migrate {session} --server {after.url}"
        shown = agent("show", session, is_json=False)
        assert says in shown.text
        assert move in shown.text
        approved = lead("approve", first["gates"][0]["id"], is_json=False)
        assert approved.code == 0
        assert says in approved.text
        assert move in approved.text
        assert "the service continues it" not in approved.text
        shown = agent("show", session, is_json=False)
        assert "no process of the service runs it" in shown.text
        assert move in shown.text
        resumed = agent("sessions", "resume", session)
        assert (resumed.code, resumed.json["next"]) == (4, [move])
        assert (moved := operator.paste(move)).code == 4
        assert all("migrate" not in line for line in moved.json["next"])
        session = second["session_id"]
        move = f"tercet sessions migrate {session} --server {after.url}"
        assert lead("approve", second["gates"][0]["id"]).json["next"] == [move]
        paused = agent("sessions", "pause", session)
        assert paused.json["next"] == [move]
        refused = agent("sessions", "resume", session).json["error"]
        assert refused["code"] == "pack_version_mismatch"
        assert refused["remedy"] == f"move it to the version that the service serves: {move}"
        assert operator.paste(move).code == 4


def test_denied_cancelled_extended_and_resumed(people: dict[str, Terminal]) -> None:
    """Answers and orders reach the service, which carries them out by itself."""
    agent, lead, operator = people["agent"], people["lead"], people["operator"]
    denied, cancelled, kept = (agent(*RUN, "--request-key", key).json for key in "abc")
    answer = lead("deny", denied["gates"][0]["id"], "--note", "no")
    assert (answer.code, answer.json["answer"]) == (0, "deny")
    ended = agent("sessions", "watch", denied["session_id"], is_json=False)
    assert (ended.code, "rejected" in ended.text) == (5, True)
    assert agent("cancel", cancelled["session_id"], "--note", "wrong order").code == 0
    assert agent("sessions", "watch", cancelled["session_id"]).code == 5
    refused = agent("sessions", "extend", kept["session_id"], "tool_calls=5")
    assert (refused.code, refused.json["error"]["code"]) == (2, "scope_missing")
    assert operator("sessions", "extend", kept["session_id"], "tool_calls=5").code == 0
    assert operator("show", kept["session_id"]).json["extended"] == {"tool_calls": 5}
    moved = operator("sessions", "migrate", kept["session_id"])
    assert (moved.code, moved.json["error"]["code"]) == (2, "nothing_to_move")
    assert lead("approve", kept["gates"][0]["id"]).code == 0
    again = agent("resume", kept["session_id"])
    assert (again.code, again.json["status"]) == (0, "completed")


ANN = Actor(id="ann", roles=("lead",))
MESSAGES: dict[str, Message] = {
    "pauseSession": Pause(session=SESSION, note="n", **by(ANN)),
    "cancelSession": Cancel(session=SESSION, note="n", **by(ANN)),
    "extendBudget": Extend(session=SESSION, more={"tokens": 5}, note="n", **by(ANN)),
    "approveGate": reply(f"{SESSION}.g1", "approve", ANN, digest="sha256:1", note="n"),
    "denyGate": reply(f"{SESSION}.g1", "deny", ANN, note="n"),
    "modifyGate": reply(f"{SESSION}.g1", "modify", ANN, changes={"cents": 5}, note="n"),
    "withdrawApproval": reply(f"{SESSION}.g1", "withdraw", ANN, note="n"),
    "settleOutcome": reply(f"{SESSION}.g1", "happened", ANN, value={"id": "r"}, note="n"),
    "decideEscalation": reply(f"{SESSION}.g1", "extend", ANN, value={"tokens": 5}, note="n"),
}


@pytest.mark.parametrize("method", MESSAGES)
def test_a_message_becomes_the_call_that_says_the_same(method: str) -> None:
    """The service takes its parameters, and all of the message but its sender is in them."""
    message = MESSAGES[method]
    name, params = method_for(message)
    assert name == method
    sent = METHODS[name].params.model_validate(params).model_dump(exclude_defaults=True)
    assert (sent["note"], sent.get("session_id") or sent["gate_id"][:20]) == ("n", SESSION)
    if isinstance(message, Reply):
        assert (sent.get("digest", ""), sent.get("changes") or {}) == (message.digest, message.changes)
        assert sent.get("value") == message.value
    assert sent.get("more") == getattr(message, "more", None)
    assert sent.get("happened") in (None, True)
    assert sent.get("decision") in (None, "extend")


def test_a_stopped_tool_pauses_and_goes_on(people: dict[str, Terminal]) -> None:
    """A stop set from here pauses a run there; lifting it lets the service go on."""
    agent, operator = people["agent"], people["operator"]
    stop = operator("stop", "tool", "adp_orders.lookup", "--note", "incident")
    assert (stop.code, stop.json["by"], stop.json["known"]) == (0, "olga", False)
    paused = agent(*RUN)
    assert (paused.code, paused.json["status"]) == (4, "paused")
    (line,) = paused.json["next"]
    assert shlex.split(line)[1:3] == ["sessions", "resume"]
    lifted = operator("stop", "lift", "tool", "adp_orders.lookup")
    assert (lifted.code, lifted.json["resumed"]) == (0, [paused.json["session_id"]])
    resumed = agent.paste(line)
    assert (resumed.code, resumed.json["status"]) == (4, "awaiting_gate")


def test_a_run_that_stays_paused_is_named(
    people: dict[str, Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that the service cannot resume once its stop is lifted is shown with the reason."""
    agent, operator = people["agent"], people["operator"]
    operator("stop", "tool", "adp_orders.lookup")
    session = agent(*RUN).json["session_id"]

    async def fail(*_: Any, **__: Any) -> None:
        raise JournalUnavailable("the journal", "it is gone for a moment")

    monkeypatch.setattr(Runtime, "resume", fail)
    lifted = operator("stop", "lift", "tool", "adp_orders.lookup", is_json=False)
    assert lifted.code == 0
    assert "has resumed 0 runs" in lifted.text
    assert f"! {session} stays paused: " in lifted.text


def test_a_wrong_key_and_a_wrong_address_say_what_to_set(
    people: dict[str, Terminal], monkeypatch: pytest.MonkeyPatch, tercet: Tercet, hosted: Hosted
) -> None:
    """A user of the command line sets a variable, and sends no header; the address that did not answer is named."""
    monkeypatch.setenv("TERCET_API_KEY", "tck_wrong")
    error = tercet("sessions", "list", "--server", hosted.url, "--json").json["error"]
    assert (error["code"], "TERCET_API_KEY" in error["remedy"]) == ("unauthenticated", True)
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = tercet("sessions", "list", "--server", f"http://127.0.0.1:{port}", "--json").json["error"]
    assert f"127.0.0.1:{port}: " in error["message"]
    assert "Error" not in error["message"]


def test_a_plan_is_reviewed_by_the_service(people: dict[str, Terminal]) -> None:
    """The verdict and the exit code are those of the service's own pack; a refused plan is not run."""
    agent = people["agent"]
    good = agent("verify", "refunds", PLANS / "plan_b.json")
    assert (good.code, good.json["verdict"]["outcome"]) == (0, "ok")
    bad = agent("verify", REFUNDS, PLANS / "plan_a.json", is_json=False)
    assert (bad.code, "evidence_not_pinned" in bad.text) == (3, True)
    only = agent("run", REFUNDS, "--plan", PLANS / "plan_a.json")
    assert (only.code, only.json["standing"]) == (3, "refused")  # the pack has one decision
    unnamed = agent("run", "refunds", "--plan", PLANS / "plan_a.json")
    assert (unnamed.code, "--intent" in unnamed.json["error"]["remedy"]) == (2, True)
    run = agent("run", REFUNDS, "--plan", PLANS / "plan_a.json", "--intent", "support.refund")
    assert (run.code, run.json["standing"]) == (3, "refused")


def test_another_tenant_sees_its_own_sessions(
    tercet: Tercet, hosted: Hosted, people: dict[str, Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credential says which tenant: its runs are shown, and those of others do not exist."""
    first = people["agent"](*RUN).json["session_id"]
    other = Terminal(tercet, hosted, monkeypatch, hosted.key("ann", tenant="acme"))
    own = other(*RUN).json["session_id"]
    assert [row["session_id"] for row in other("list").json["sessions"]] == [own]
    assert other("show", own).json["owner"] == "ann"
    hidden = other("show", first)
    assert (hidden.code, hidden.json["error"]["code"]) == (2, "unknown_session")


def test_one_person_tries_a_pack_at_a_development_service(
    tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--dev --as` the printed key acts as any actor, and the printed commands say so."""
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(tmp_path / "refunds.db"))
    monkeypatch.chdir(tmp_path)
    with hosting(f"sqlite:///{tmp_path / 'runs.db'}", Pack.load(REFUNDS), is_dev=True) as found:
        me = Terminal(tercet, found, monkeypatch, found.local_key)
        waiting = me(*RUN, "--dev", "--as", "agt_support")
        assert waiting.code == 4
        line = next(line for line in waiting.json["next"] if "approve" in line)
        answer = me.paste(line)
        assert (answer.code, answer.json["auth"]) == (0, "simulated")


OWN = {"verify", "call", "tools pin", "tools diff"}
"""Commands with an option --server of their own; for tools it names an MCP server."""


@pytest.mark.parametrize("words", sorted(COMMANDS.keys() - {*REMOTE, *OWN}))
def test_a_command_that_needs_the_journal_says_why(tercet: Tercet, words: str) -> None:
    """With `--server` it is refused with exit 2, before it reads or writes anything."""
    refused = tercet(*words.split(), "--server", ELSEWHERE, "--json")
    assert (refused.code, refused.json["error"]["code"]) == (2, "not_remote")
    assert ": " in refused.json["error"]["message"]


@pytest.mark.parametrize("words", REMOTE)
def test_a_remote_command_reads_no_journal_of_this_machine(
    tercet: Tercet, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the service does not answer, each of them says so, and leaves no file behind."""
    monkeypatch.chdir(tmp_path)
    refused = tercet(*words.split(), *WORDS[words], "--server", ELSEWHERE, "--json")
    assert (refused.code, refused.json["error"]["code"]) == (2, "service_unavailable")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        (*RUN, "--model", "local"),
        (*RUN, "--snapshot", "kg"),
        (*RUN, "--as", "bob"),
        ("sessions", "resume", SESSION, "--pack", "refunds"),
        ("sessions", "migrate", SESSION, "--pack", "refunds"),
        ("approve", f"{SESSION}.g1", "--actors", "refunds"),
        ("show", SESSION, "--actors", "refunds"),
        ("verify", "refunds", str(PLANS / "plan_b.json"), "--snapshot", "kg"),
    ],
    ids=" ".join,
)
def test_an_option_that_a_service_cannot_take_is_refused(tercet: Tercet, words: tuple[str, ...]) -> None:
    """It is named, and nothing is sent."""
    refused = tercet(*words, "--server", ELSEWHERE, "--json")
    assert (refused.code, refused.json["error"]["code"]) == (2, "not_remote")


def test_where_the_sessions_are(tercet: Tercet, hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    """TERCET_SERVER names the service, a given --journal goes before it, and both options together are refused."""
    monkeypatch.setenv("TERCET_SERVER", hosted.url)
    monkeypatch.setenv("TERCET_API_KEY", hosted.local_key)
    waiting = tercet(*RUN, "--json").json
    assert all("--server" not in line for line in waiting["next"])
    assert tercet("list", "--json").json["sessions"][0]["session_id"] == waiting["session_id"]
    local = tercet("gates", "list", "--journal", hosted.journal)
    assert (local.code, f"--journal {hosted.journal}" in local.text) == (0, True)
    assert tercet("sessions", "list", "--journal", "sqlite:///none.db", "--json").code == 2
    whole = tercet("stats", "--json")
    assert (whole.code, whole.json["error"]["code"]) == (2, "not_remote")
    both = tercet("list", "--journal", hosted.journal, "--server", hosted.url, "--json")
    assert (both.code, both.json["error"]["code"]) == (2, "usage")
    wrong = tercet("list", "--server", "sqlite:///x.db", "--json")
    assert (wrong.code, wrong.json["error"]["code"]) == (2, "usage")
    monkeypatch.setenv("TERCET_API_KEY", "tck_0_0")
    unknown = tercet("list", "--json")
    assert (unknown.code, json.loads(unknown.out)["error"]["code"]) == (2, "unauthenticated")
