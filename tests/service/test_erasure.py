"""eraseSubject: values are shown to callers until their subject is erased, and the audit log says that it was."""

from __future__ import annotations

from service.desk import open_desk
from tercet import Pack, tool
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.personal import PersonalMarks
from tercet.engine.session_reader import load_state
from tercet.engine.streams.audit import read_audit

NAME = "Mira Jansen-Planted"


MARKS = {"subject": "customer_id", "request": ["name"], "tools": {"crm.look": {"params": ["name"]}}}
PLAN = {
    "intent": "greet",
    "steps": [{"id": "a", "tool": "crm.look", "params": {"name": {"$from": "request#/name"}}}],
    "outputs": {"said": {"$from": "a#/said"}},
}


def _greetings(*, is_marked: bool = True) -> Pack:
    @tool("crm.look", mode="read_only", trust="trusted")
    def look(name: str) -> dict[str, str]:
        return {"said": f"hello {name}"}

    return Pack(
        name="greetings" if is_marked else "echo",
        version="1.0.0",
        tools=[look],
        decisions=[DecisionSpec(id="greet")],
        personal=PersonalMarks.model_validate(MARKS if is_marked else {}),
    )


async def test_a_token_is_shown_as_a_value_only_in_its_own_sessions() -> None:
    """No answer about a run of a pack without marks tells what the token of another's value stands for, also not where its
    outputs name the session of the value."""
    async with open_desk(None, _greetings(), _greetings(is_marked=False)) as desk:
        key = await desk.key("olga", scopes=("read", "run"))
        request = {"intent": "greet", "input": {"customer_id": "cus_7", "name": NAME}}
        ran = await desk.rpc(key, "invokeAgent", pack="greetings", request=request, plan=PLAN)
        own = ran["session"]["session_id"]
        assert ran["outputs"] == {"said": f"hello {NAME}"}
        token = str((await load_state(desk.journal, "default", own)).outputs["said"]).removeprefix("hello ")
        assert token.startswith("[personal:")
        note = {
            "id": "n",
            "kind": "note",
            "params": {"session_id": own, "session": {"session_id": own}, "t": token},
        }
        plan = {
            **PLAN,
            "steps": [*PLAN["steps"], note],
            "outputs": {"session": {"$from": "n"}, "said": {"$from": "a#/said"}},
        }
        request = {"intent": "greet", "input": {"name": token}}
        ran = await desk.rpc(key, "invokeAgent", pack="echo", request=request, plan=plan)
        session = ran["session"]["session_id"]
        assert (ran["session"]["status"], ran["outputs"]["said"]) == ("completed", f"hello {token}")
        answers = [
            ran,
            await desk.rpc(key, "getRecord", session_id=session),
            await desk.rpc(key, "replayRun", session_id=session),
            await desk.rpc(key, "listSessions"),
            await desk.rpc(key, "getSession", session_id=session),
        ]
        assert NAME not in str(answers)
        assert NAME in str(await desk.rpc(key, "getSession", session_id=own))


async def test_a_subject_is_erased_over_http() -> None:
    """It needs the scope operate, and leaves no hash from which the values or the subject could be guessed."""

    async with open_desk(None, _greetings()) as desk:
        key = await desk.key("olga", scopes=("read", "run"))
        operator = await desk.key("opal", scopes=("operate", "read"))
        request = {"intent": "greet", "input": {"customer_id": "cus_7", "name": NAME}}
        ran = await desk.rpc(key, "invokeAgent", request=request, plan=PLAN)
        session = ran["session"]["session_id"]
        await desk.until(key, session, "completed")
        record = (await desk.rpc(key, "getRecord", session_id=session))["record"]
        assert record["outputs"]["said"] == f"hello {NAME}"

        assert (await desk.rpc(key, "eraseSubject", subject="cus_7"))["code"] == "scope_missing"
        other = await desk.key("opal", scopes=("operate",), tenant="other")
        assert (await desk.rpc(other, "eraseSubject", subject="cus_7"))["code"] == "unknown_subject"
        erased = (await desk.rpc(operator, "eraseSubject", subject="cus_7", request_key="k1"))["erased"]
        assert erased["sessions"] == [session]
        again = await desk.rpc(operator, "eraseSubject", subject="cus_7", request_key="k1")
        assert again["erased"] == erased

        record = (await desk.rpc(key, "getRecord", session_id=session))["record"]
        assert record["outputs"]["said"] == "hello erased"
        replayed = (await desk.rpc(key, "replayRun", session_id=session))["replay"]
        assert replayed["outcome"] == "replay_equal"
        assert "event 1: request.input.name" in replayed["erased"]
        entries = [entry for _, entry in await read_audit(desk.journal, "default")]
        assert [(each.method, each.outcome) for each in entries] == [
            ("invokeAgent", "ok"),
            ("eraseSubject", "scope_missing"),
            ("eraseSubject", "ok"),
        ]
        assert entries[-1].subject == erased["key_id"]
        assert [each.params for each in entries] == ["", "", ""]


async def test_the_audit_log_keeps_no_text_that_names_nothing() -> None:
    """What a caller writes where an id belongs may be a personal value, and the log is never erased."""
    async with open_desk(None, _greetings()) as desk:
        key = await desk.key("olga", scopes=("answer",))
        for wrong in (NAME, f"ses_1 {NAME}", "ses_0.g1"):
            refused = await desk.rpc(key, "approveGate", gate_id=wrong)
            assert refused["code"] in ("not_found", "scope_missing")
        entries = [entry for _, entry in await read_audit(desk.journal, "default")]
        assert [each.subject for each in entries] == ["", "", "ses_0.g1"]
