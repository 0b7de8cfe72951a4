"""Two runs side by side, and one run under another version of its pack."""

from __future__ import annotations

import re
from pathlib import Path

from console.desk import open_console
from console.shop import HeldShop, chain
from tercet.contracts.policy import Policy


async def test_two_runs_side_by_side(shop: Path) -> None:
    held = HeldShop()
    held.let_go(20)
    async with open_console(None, held.pack) as desk:
        key = await desk.key("ada")
        runs = [
            (await desk.rpc(key, "invokeAgent", **chain(*names)))["session"]["session_id"]
            for names in (("s1", "s2"), ("s1", "s2"), ("s1", "s3"))
        ]
        for run in runs:
            await desk.until(key, run)
        reader = await desk.person("reader", scopes=("read",))
        same = await reader.get(f"/console/compare?a={runs[0]}&b={runs[1]}")
        assert "No difference" in same.text
        assert 'class="differs"' not in same.text, "the time at work differs always, and is no difference"
        other = (await reader.get(f"/console/compare?a={runs[0]}&b={runs[2]}")).text
        assert "not in this plan" in other
        assert "s3" in other
        eve = await desk.person("eve", tenant="other", scopes=("read",))
        for query in (f"a={runs[0]}", f"a={runs[0]}&b={runs[1]}", f"a={runs[0]}&pack={held.pack.ref}"):
            assert (await eve.get(f"/console/compare?{query}")).status_code == 404
        assert (await reader.get("/console/compare")).status_code == 200


async def test_the_values_of_a_call_are_not_compared_with_the_references_of_a_step_that_was_never_called(
    shop: Path,
) -> None:
    async with open_console() as desk:
        gates = [await desk.waiting_gate() for _ in range(2)]
        runs = [gate.rpartition(".")[0] for gate in gates]
        lead = await desk.key("user_finance_lead", roles=("finance_lead",))
        await desk.rpc(lead, "approveGate", gate_id=gates[0])
        await desk.until(lead, runs[0], "completed")
        reader = await desk.person("reader", scopes=("read",))
        page = (await reader.get(f"/console/compare?a={runs[0]}&b={runs[1]}")).text
        (differences,) = re.findall(r"<b>(\d+) differences</b>", page)
        assert page.count('class="differs"') == int(differences), "every one is marked, and counted"
        assert '<tr class="differs"><th scope="row">tool calls</th>' in page
        assert "<td></td></tr>" not in page, "a value that a run does not have is shown as a dash"
        outputs = page.partition('id="outputs-title"')[2]
        assert f"only in <code>{runs[0]}</code>" in outputs
        assert "accepted by the critic" in page
        assert "$from" not in page


async def test_a_run_under_another_version_of_its_pack() -> None:
    old = HeldShop(version="1.0.0")
    strict = Policy(name="NO_WORK", expression="size(plan.steps) > 5", message="too few steps")
    new = HeldShop(version="2.0.0", policies=(strict,))
    old.let_go(9)
    async with open_console(None, old.pack) as desk:
        key = await desk.key("ada")
        run = (await desk.rpc(key, "invokeAgent", **chain("s1")))["session"]["session_id"]
        await desk.until(key, run)
        journal = desk.journal
    async with open_console(journal, old.pack, new.pack) as desk:
        reader = await desk.person("reader", scopes=("read",))
        page = (await reader.get(f"/console/compare?a={run}&pack=shop@2.0.0")).text
        assert "too few steps" in page
        assert "first changed verdict" in page
        kept = (await reader.get(f"/console/compare?a={run}&pack=shop@1.0.0")).text
        assert "unchanged" in kept
        assert "first changed verdict" not in kept
        assert (await reader.get(f"/console/compare?a={run}&pack=shop@9.9.9")).status_code == 404


async def test_what_cannot_be_compared_is_named_above_the_form_that_asked_for_it(shop: Path) -> None:
    async with open_console() as desk:
        run = (await desk.waiting_gate()).rpartition(".")[0]
        reader = await desk.person("reader", scopes=("read",))
        for query, words in (
            (f"a={run}&b=ses_none", "There is no session &#39;ses_none&#39;"),
            (f"a={run}&pack=refunds@9.9.9", "There is no served version &#39;refunds@9.9.9&#39;"),
        ):
            page = await reader.get(f"/console/compare?{query}")
            assert (page.status_code, words in page.text) == (404, True), query
            assert f'name="a" value="{run}"' in page.text
        assert 'value="ses_none"' in (await reader.get(f"/console/compare?a={run}&b=ses_none")).text
        assert 'placeholder="ses_…"' in (await reader.get("/console/compare")).text
