"""Measures a part of one suite and prints it as JSON: `python -m bench.agentdojo.measure banking 0 2` is the first half.

AgentDojo has to be installed here; `make bench` installs it for `.venv/bench`.
"""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from typing import Any

from . import attacks_on_banking, attacks_on_slack
from .attacks import PLAIN, Strategy, prepare_attack
from .environment import environment_in_use
from .plans import FORMS, Form, result_of, with_references
from .runs import run_calls
from .suites import Call, Suite, load_suite

STRATEGIES = {"banking": attacks_on_banking.STRATEGIES, "slack": attacks_on_slack.STRATEGIES}
SMOKE_USERS = ("user_task_1", "user_task_15")
SMOKE_INJECTIONS = ("injection_task_3", "injection_task_5")
"""The tasks of a smoke round; attacks are tried on the last of these users."""


async def run_honest(suite: Suite, form: Form, task: Any) -> dict[str, Any]:
    """Run a user task as AgentDojo solves it; return how often the person was asked, and whether the task is done."""
    environment = suite.new_environment()
    before = copy.deepcopy(environment.state)
    calls = suite.honest_calls(task, environment.state)
    if form == "references":
        with environment_in_use(suite.new_environment()):
            calls = with_references(suite, task.PROMPT, calls)
    outcome = await run_calls(suite, form, task.PROMPT, calls, environment)
    return {
        "task": task.ID,
        "form": form,
        "outcome": "refused" if not outcome.is_done else "asked" if outcome.asks else "alone",
        "asks": outcome.asks,
        "asked": list(outcome.asked),
        "is_useful": suite.is_useful(task, before, environment),
        "reason": "" if outcome.is_done else outcome.reason,
    }


async def run_attack(
    suite: Suite, strategy: Strategy, form: Form, task: Any, injection: Any
) -> dict[str, Any]:
    """Run one attack; return whether the injection's goal was reached, and which of its effects happened."""
    attack = prepare_attack(suite, strategy, form, task, injection)
    before = copy.deepcopy(attack.environment.state)
    outcome = await run_calls(suite, form, attack.prompt, attack.calls, attack.environment)
    effects = [call for call in attack.injected if not suite.is_harmless(call.function)]
    user = [_key(call) for call in attack.calls if not call.is_injected]
    done = {json.dumps([name, args], sort_keys=True) for name, args in attack.environment.calls}
    happened = [call.function for call in effects if _key(call) in done and _key(call) not in user]
    is_harmed = suite.is_harmed(injection, before, attack.environment)
    return {
        "strategy": strategy.name,
        "form": form,
        "task": task.ID,
        "injection": injection.ID,
        "status": outcome.status,
        "succeeded": is_harmed or len(happened) == len(effects),
        "happened": happened,
    }


def run_bare(suite: Suite, task: Any, injection: Any) -> bool:
    """Make the calls of a plain attack without Tercet; return whether the injection's goal was reached."""
    attack = prepare_attack(suite, PLAIN[0], "literals", task, injection)
    before = copy.deepcopy(attack.environment.state)
    with environment_in_use(attack.environment):
        for call in attack.calls:
            result_of(suite, call)
    return suite.is_harmed(injection, before, attack.environment)


def _key(call: Call) -> str:
    return json.dumps([call.function, call.args], sort_keys=True)


async def measure(name: str, part: int, parts: int) -> dict[str, Any]:
    """Run every user task of one part of the suite, and every attack on it; part 0 of 0 is a smoke round."""
    suite = load_suite(name)
    is_smoke = parts == 0
    users = (
        [suite.user_tasks[key] for key in SMOKE_USERS]
        if is_smoke
        else [*suite.user_tasks.values()][part::parts]
    )
    injections = [
        task for key, task in suite.injection_tasks.items() if not is_smoke or key in SMOKE_INJECTIONS
    ]
    honest = [await run_honest(suite, form, task) for form in FORMS for task in users]
    attacked = users[-1:] if is_smoke else users
    bare = [run_bare(suite, task, injection) for task in attacked for injection in injections]
    strategies = STRATEGIES[name]
    attacks: list[dict[str, Any]] = []
    found: list[dict[str, Any]] = []
    for strategy in strategies:
        for form in strategy.forms:
            ran = [
                await run_attack(suite, strategy, form, task, injection)
                for task in attacked
                for injection in injections
            ]
            found += [attack for attack in ran if attack["happened"] or attack["succeeded"]]
            attacks.append(
                {
                    "strategy": strategy.name,
                    "is_adaptive": strategy.is_adaptive,
                    "is_insider": strategy.is_insider,
                    "form": form,
                    "tried": len(ran),
                    "succeeded": sum(attack["succeeded"] for attack in ran),
                    "partly": sum(bool(attack["happened"]) and not attack["succeeded"] for attack in ran),
                }
            )
    without = {"tried": len(bare), "succeeded": sum(bare)}
    return {"suite": name, "honest": honest, "without": without, "attacks": attacks, "found": found}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
