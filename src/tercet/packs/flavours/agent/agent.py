"""Lets a language model propose the plan; the critic, the gates and the tools are those of the pack.

    python agent.py                     # a scripted model: no key, no network
    python agent.py openai:gpt-5        # a model by its name; `local` is a small one on this machine

What the model writes is only a proposal: a plan that breaks a rule is refused, and nothing of it happens.
"""

import asyncio
import json
import sys
from pathlib import Path

from tercet import Pack, Runtime, RuntimeOptions
from tercet.testing.models import ScriptedModel

HERE = Path(__file__).parent


def scripted(name: str, **_: object) -> ScriptedModel:
    """Return a model that answers with the sample plan."""
    return ScriptedModel(
        name, answers=[json.loads((HERE / "plans" / "sample.json").read_text(encoding="utf-8"))]
    )


async def main(model: str) -> None:
    """Ask the model for a plan, run it, and print where the run is."""
    options = RuntimeOptions() if model else RuntimeOptions(open_model=scripted)
    async with Runtime(Pack.load(HERE), options=options) as runtime:
        request = {"intent": "garden.water_bed", "input": {"plant": "tomato"}}
        result = await runtime.run(request, planner="model", models=[model or "scripted"])
        print(result.status, result.gate.names if result.gate else result.reason)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
