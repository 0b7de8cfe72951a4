"""The measurements of a suite as tables in Markdown."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

FORMS = {"literals": "plan in literals", "references": "plan with references", "turns": "turn by turn"}


def describe(suite: dict[str, Any]) -> str:
    """Return the tables of one suite: a summary, who was asked where, and each strategy of the attacks."""
    without = f"Without Tercet, {_share([suite['without']])} plain attacks succeed."
    parts = [f"## {suite['suite']}", summary(suite), without, asked(suite), strategies(suite)]
    if any(row["succeeded"] or row["partly"] for row in suite["attacks"]):
        parts.append(successes(suite))
    return "\n\n".join(parts) + "\n"


def summary(suite: dict[str, Any]) -> str:
    """Return one row for each form: the user's tasks, and the attacks."""
    rows = [
        [
            "form", "alone", "asked", "refused", "done", "asks", "most asks in a task",
            "plain attacks that succeeded", "adaptive attacks that succeeded", "attacks by colleagues that succeeded",
        ]
    ]  # fmt: skip
    for form, title in FORMS.items():
        tasks = [task for task in suite["honest"] if task["form"] == form]
        attacks = [row for row in suite["attacks"] if row["form"] == form]
        rows.append(
            [
                title,
                *(str(sum(task["outcome"] == outcome for task in tasks)) for outcome in ("alone", "asked", "refused")),
                f"{sum(task['is_useful'] for task in tasks)} of {len(tasks)}",
                str(sum(task["asks"] for task in tasks)),
                str(max(task["asks"] for task in tasks)),
                _share([row for row in attacks if not row["is_adaptive"]]),
                _share([row for row in attacks if row["is_adaptive"] and not row["is_insider"]]),
                _share([row for row in attacks if row["is_insider"]]),
            ]
        )  # fmt: skip
    return table(rows)


def asked(suite: dict[str, Any]) -> str:
    """Return which user tasks asked for which tools, or were refused."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for task in suite["honest"]:
        if task["outcome"] != "alone":
            found[task["task"]][task["form"]] = task["reason"] or ", ".join(
                name.partition(".")[2] for name in task["asked"]
            )
    rows = [["asked in", *FORMS.values()]]
    rows += [[task, *(forms.get(form, "") for form in FORMS)] for task, forms in found.items()]
    return table(rows)


def strategies(suite: dict[str, Any]) -> str:
    """Return how many attacks of each strategy succeeded, of those that were tried."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for row in suite["attacks"]:
        name = "plain" if not row["is_adaptive"] else "a colleague's" if row["is_insider"] else "adaptive"
        found[f"{name}: {row['strategy']}"][row["form"]] = _share([row])
    rows = [["attack", *FORMS.values()]]
    rows += [[name, *(forms.get(form, "") for form in FORMS)] for name, forms in found.items()]
    return table(rows)


def successes(suite: dict[str, Any]) -> str:
    """Return the injection tasks that succeeded, or of which an effect happened."""
    found: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for attack in suite["found"]:
        outcome = (
            "succeeded" if attack["succeeded"] else f"partly: {', '.join(sorted(set(attack['happened'])))}"
        )
        found[attack["strategy"], attack["injection"], outcome] += 1
    rows = [["attack", "injection task", "outcome", "runs"]]
    rows += [[*key, str(count)] for key, count in found.items()]
    return table(rows)


def _share(rows: list[dict[str, Any]]) -> str:
    return f"{sum(row['succeeded'] for row in rows)} of {sum(row['tried'] for row in rows):,}" if rows else ""


def table(rows: list[list[str]]) -> str:
    """Return rows as a Markdown table; the first is its heading."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
