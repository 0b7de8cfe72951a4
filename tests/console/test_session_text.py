"""Words of tools, plans and people stay words on every page of a session, and secrets are left out."""

from __future__ import annotations

from console.desk import open_console
from console.shop import HeldShop, chain
from tercet.console.session import TABS

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{7*7}}"


async def test_markup_is_inert_and_secrets_are_masked_on_every_page() -> None:
    held = HeldShop(says=HOSTILE)
    held.let_go(20)
    async with open_console(None, held.pack) as desk:
        key = await desk.key("ada")
        asked = chain("s1", "s2")
        asked["request"]["input"] = {"note": HOSTILE, "api_key": "hunter2-hunter2"}
        for step in asked["plan"]["steps"]:
            step["params"] |= {"text": HOSTILE, "password": "hunter2-hunter2"}
        run = (await desk.rpc(key, "invokeAgent", **asked))["session"]["session_id"]
        await desk.until(key, run)
        olga = await desk.person("olga", scopes=("read", "run", "operate"))
        paths = [f"/console/sessions/{run}?tab={tab}" for tab in TABS]
        paths += [f"/console/sessions/{run}?at=9", f"/console/compare?a={run}&b={run}", "/console/metrics"]
        pages = {path: (await olga.get(path)).text for path in paths}
        for path, page in pages.items():
            assert "<script>alert" not in page, path
            assert "<img src=x" not in page, path
            assert "hunter2" not in page, path
            assert ' style="' not in page, path
            assert "onerror=alert(2)>" not in page, path
        transcript = pages[f"/console/sessions/{run}?tab=transcript"]
        assert "&lt;script&gt;alert(1)" in transcript
        assert "{{7*7}}" in transcript
