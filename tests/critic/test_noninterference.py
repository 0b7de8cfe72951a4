"""Untrusted values decide nothing: neither which effects happen without a person, nor any of their authority values.

Two worlds differ in untrusted values alone: in marked fields of the request, in untrusted evidence, in untrusted results
and marked fields of results, and in text that was pasted into a sentence.

- Review: an effect that a plan may have without a person in a world with an attacker's values, it may also have, with the
  same authority values, in the world in which every untrusted value is meaningless.
- Runs: a planner copies untrusted values into its plan wherever a plan can hold them. Whatever the values are, the same
  effects happen without a person, with the same authority values, and each of these values is in a permitted source.

An attacker may well keep an effect from happening: a value that is refused is refused, and a step that fails stops the run
and asks a person.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from critic import naive
from critic.authority_strategies import authority_cases
from critic.naive import Case
from critic.strategies import Doc, examples
from engine.workshop import ADA, Workshop
from tercet.contracts.context import CompiledContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import NotDone
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.plan import Plan
from tercet.contracts.request import Request
from tercet.contracts.verdict import Verdict
from tercet.critic.verify import verify
from tercet.packs.pack import Pack

Critic: TypeAlias = Callable[[Case], Verdict]

# ---- review -------------------------------------------------------------------------------------------------------


def review(case: Case) -> Verdict:
    """The critic itself."""
    return verify(*case)


def with_meaningless_values(case: Case) -> Case:
    """The same case with a value of its own, which nothing else has, in every untrusted place.

    An untrusted fact keeps what it claims in the fields that relations compare: with another claim it belongs to another
    request, and a step that pins it is refused.
    """
    compiled = case.compiled.model_dump(mode="json")
    fresh = (f"zz{number}" for number in itertools.count())
    for fact in compiled["manifests"]["evidence_manifest"]:
        if fact["trust"] == "untrusted":
            claims = [relation.field for relation in naive.relations_of(case, fact["id"])]
            fact["content"] = replaced(
                fact["content"], lambda place, claims=claims: ".".join(map(str, place)) not in claims, fresh
            )
    for result in compiled["results"]:
        tool = naive.tool_named(case, result["tool"])
        marks = ("*",) if result["trust"] == "untrusted" else tool.untrusted if tool else ()
        result["value"] = replaced(result["value"], lambda place, marks=marks: is_marked(marks, place), fresh)
    if compiled["request"]:
        marks = naive.input_marks(case)
        given = compiled["request"]["input"]
        given = replaced(given, lambda place: is_marked(marks, place), fresh)
        for field in case.spec.fields:
            if field.kind == "sentence" and field.pasted == "untrusted" and field.path.place[0] in given:
                given[field.path.place[0]] = without_pasted(given[field.path.place[0]])
        compiled["request"]["input"] = given
    return case._replace(compiled=CompiledContext.model_validate(compiled))


def without_pasted(text: str) -> str:
    """A sentence with other words in its tags and quoted lines."""
    return re.sub(r"(?m)^>.*$", "> zz words", re.sub(r"<mail>.*</mail>", "<mail>zz words</mail>", text))


def is_marked(marks: tuple[str, ...], place: naive.Place) -> bool:
    """Whether a place lies in a marked field."""
    return not naive.is_unmarked(marks, place)


def replaced(
    value: Any, is_untrusted: Callable[[naive.Place], bool], fresh: Any, place: naive.Place = ()
) -> Any:
    """A value with another scalar in every untrusted place."""
    if isinstance(value, dict):
        return {key: replaced(each, is_untrusted, fresh, (*place, key)) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [replaced(each, is_untrusted, fresh, (*place, index)) for index, each in enumerate(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return next(fresh) if place and is_untrusted(place) else value


def free_effects(case: Case, verdict: Verdict) -> dict[int, Doc]:
    """The effects of a plan that passed which need no person, with their authority values as far as they are known;
    values that the pack lets in whatever their source are left out."""
    waiting = {demand.step for demand in verdict.gates}
    found: dict[int, Doc] = {}
    for index, step, tool in naive.calls(case) if verdict.ok else ():
        if naive.is_above_read_only(case, step) and index not in waiting:
            params = naive.params_of(case, step)
            bound = [
                name
                for name in params
                if naive.has_authority(tool, name) and tool.unbound.get(name) != "allow"
            ]
            found[index] = {name: naive.resolved(case, params[name]) for name in bound}
    return found


def assert_no_interference(case: Case, critic: Critic = review) -> None:
    """Whatever a plan may do without a person, it may do in the world without meaning, with the same values."""
    neutral = with_meaningless_values(case)
    free = free_effects(case, critic(case))
    permitted = free_effects(neutral, critic(neutral))
    for index, values in free.items():
        assert index in permitted, f"step {index} needs a person where untrusted values mean nothing"
        assert values == permitted[index]


@examples(300)
@given(authority_cases())
def test_untrusted_values_let_no_effect_through(case: Case) -> None:
    """An effect that needs no person needs none, and has the same values, whatever the untrusted values are."""
    assert_no_interference(case)


def without_marks(case: Case) -> Verdict:
    """A critic that takes marked fields of the request for trusted."""
    return verify(
        *case._replace(spec=DecisionSpec.model_validate({**case.spec.model_dump(), "untrusted_inputs": []}))
    )


def without_labels(case: Case) -> Verdict:
    """A critic that takes all evidence and all results for trusted."""
    compiled = case.compiled.model_dump(mode="json")
    for fact in (*compiled["manifests"]["evidence_manifest"], *compiled["results"]):
        fact["trust"] = "trusted"
    return verify(*case._replace(compiled=CompiledContext.model_validate(compiled)))


@pytest.mark.slow
@pytest.mark.parametrize("critic", [without_marks, without_labels])
def test_the_property_finds_a_weakened_critic(critic: Critic) -> None:
    """A critic that overlooks one sort of untrusted value does not pass."""

    @settings(max_examples=1_000, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(authority_cases())
    def sample(case: Case) -> None:
        assert_no_interference(case, critic)

    with pytest.raises(AssertionError, match=r"needs a person|=="):
        sample()


# ---- runs ---------------------------------------------------------------------------------------------------------


class World(NamedTuple):
    """What an attacker has written everywhere that an attacker can write."""

    text: str
    number: int
    flag: str
    key: str
    """The variable part of the id of a fact."""


WORLDS = (
    World(text="evil_one", number=6661, flag="yes", key="x2"),
    World(text="evil_two", number=6662, flag="no", key="x3"),
)

SNAPSHOT = "snapshot_k1"
W1, W2, T1, FORM = (f"kg:{name}#{SNAPSHOT}" for name in ("window:w1", "window:w2", "ticket:t1", "form:f1"))
CHOSEN = f"kg:window:@key#{SNAPSHOT}"
"""The fact that the attacker names."""

MARKED = ["note", "flag", "pick", "sum"]
ROWS: list[Doc] = [
    {"order_id": "o1", "payment_id": "p3", "amount": 530, "tag": "yes"},
    {"order_id": "o1", "payment_id": "p4", "amount": 540, "tag": "no"},
]
TRUSTED: dict[str, tuple[str, Doc]] = {
    W1: ("window", {"order_id": "o1", "payment_id": "p1", "amount": 500, "rows": ROWS}),
    W2: ("window", {"order_id": "o2", "payment_id": "p2", "amount": 700}),
    f"kg:window:x2#{SNAPSHOT}": ("window", {"order_id": "o8", "payment_id": "p8", "amount": 800}),
    f"kg:window:x3#{SNAPSHOT}": ("window", {"order_id": "o9", "payment_id": "p9", "amount": 900}),
    T1: ("ticket", {"order_id": "o1", "payment_id": "p1", "customer": "c1", "amount": 300}),
}
BIND: list[Doc] = [
    {"evidence": "window", "field": "order_id", "equals": "request.order_id"},
    {"evidence": "ticket", "field": "order_id", "equals": "request.order_id"},
    {"tool": "shop.look", "param": "key", "equals": "request.order_id"},
    {"tool": "shop.look", "field": "order_id", "equals": "request.order_id"},
    {"tool": "bank.pay", "one_source": ["payment_id", "amount"]},
]


def request_in(world: World) -> Doc:
    """The request, with the attacker's words in its marked fields."""
    untrusted = {"note": world.text, "flag": world.flag, "pick": world.key, "sum": world.number}
    return {"order_id": "o1", "customer": "c1", **untrusted}


def looked_up(key: Any) -> Doc:
    """What the shop knows about a key."""
    return {"order_id": key, "payment_id": f"pay_of_{key}", "amount": 1_000 + sum(str(key).encode())}


class Scene(NamedTuple):
    """A pack and a plan in which `@text`, `@number`, `@flag` and `@key` stand for what the attacker wrote."""

    spec: Doc
    unbound: Doc
    steps: list[Doc]

    def plan(self, world: World) -> Plan:
        """The plan of a planner that has read this world."""
        return Plan.model_validate({"intent": "work", "steps": filled(self.steps, world)})


def filled(value: Any, world: World) -> Any:
    """A value with the attacker's words in place of the marks that stand for them."""
    if isinstance(value, dict):
        return {key: filled(each, world) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [filled(each, world) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if value == "@number":
        return world.number
    words = {"@text": world.text, "@flag": world.flag, "@key": world.key}
    for mark, word in words.items():
        value = value.replace(mark, word) if isinstance(value, str) else value
    return value


def _formula(first: str, second: str, condition: str) -> Doc:
    return {"$cel": f"{condition} ? {first} : {second}"}


CONDITIONS = ["request.flag == 'yes'", "request.note == '@text'", "request.sum > 6661"]
"""Conditions that an attacker's value decides."""


class Planner:
    """Writes sound plans in which one or two things are an attacker's or somebody else's.

    It draws from a generator with a seed: Hypothesis varies few choices at a time, and so seldom meets the right two.
    """

    def __init__(self, random: Random, sort: str | None) -> None:
        self._random = random
        self._sort = sort
        self._attacks = random.randint(0, 2)
        self._looks: list[str] = []
        self._effects: list[str] = []

    def steps(self) -> list[Doc]:
        """Two reads, a few steps, and a payment."""
        reads = [self._read("look", "shop.look"), self._read("page", "web.read")]
        self._looks.append("look")
        kinds = [self._one(["look", "note", "pay", "fail"]) for _ in range(self._random.randint(0, 2))]
        return [*reads, *(self._step(f"s{number}", kind) for number, kind in enumerate([*kinds, "pay"]))]

    def _read(self, name: str, tool: str) -> Doc:
        return {"id": name, "tool": tool, "params": {"key": self._key()}, "evidence_refs": [W1]}

    def _attacks_here(self, odds: int) -> bool:
        """Whether this is the place for one of the attacks that are left: once in so many times."""
        if self._attacks == 0 or self._random.randint(1, odds) < odds:
            return False
        self._attacks -= 1
        return True

    def _one(self, options: list[Any]) -> Any:
        return self._random.choice(options)

    def _sound(self, *fields: str) -> list[Any]:
        """Values of one record for some fields."""
        ways: list[Callable[[str], Any]] = [
            lambda field: {"$evidence": f"{W1}#/{field}"},
            lambda field: {"$evidence": f"{T1}#/{field}"},
            lambda field: TRUSTED[W1][1][field],
            lambda field: {"$cel": f'evidence["{W1}"].{field}'},
            lambda field: {"$select": {"from": {"$evidence": f"{W1}#/rows"}, "field": field}},
            *(lambda field, step=step: {"$from": f"{step}#/{field}"} for step in self._looks),
        ]
        way = self._one(ways)
        return [way(field) for field in fields]

    def _attack(self, field: str) -> Any:
        """A value of an attacker, or of somebody else."""
        fact = [f'evidence["{ref}"].{field}' for ref in (W1, T1, FORM)]
        flags = [{"$from": f"{owner}#/flag"} for owner in ("request", "look", "page")]
        sorts: dict[str, list[Any]] = {
            "somebody else": [
                {"$evidence": f"{W2}#/{field}"},
                {"$cel": f'evidence["{W2}"].{field}'},
                TRUSTED[W2][1][field],
            ],
            "copied": ["@text", "@number", _formula(fact[0], "'@text'", "request.order_id == 'o1'")],
            "request": [{"$from": "request#/note"}, {"$from": "request#/sum"}, {"$cel": "request.note"}],
            "deciding": [_formula(fact[0], fact[1], each) for each in (*CONDITIONS, "look.flag == 'yes'")],
            "evidence": [
                {"$evidence": f"{FORM}#/{field}"},
                {"$cel": fact[2]},
                _formula(fact[2], fact[0], "request.order_id == 'o1'"),
            ],
            "chosen": [{"$evidence": f"{CHOSEN}#/{field}"}, {"$cel": f'evidence["{CHOSEN}"].{field}'}],
            "results": [{"$from": "look#/note"}, {"$from": f"page#/{field}"}, {"$cel": "look.note"}],
            "selecting": [
                {"$select": {"from": {"$evidence": f"{W1}#/rows"}, "where": {"tag": flag}, "field": field}}
                for flag in flags
            ],
        }
        return self._one(sorts[self._sort or self._one(list(sorts))])

    def _values(self, *fields: str) -> Doc:
        """Parameters, each of which may be an attack."""
        sound = self._sound(*fields)
        return {
            field: self._attack(field) if self._attacks_here(3) else value
            for field, value in zip(fields, sound, strict=True)
        }

    def _key(self) -> Any:
        sound = [{"$from": "request#/order_id"}, "o1", {"$evidence": f"{W1}#/order_id"}]
        return self._attack("order_id") if self._attacks_here(10) else self._one(sound)

    def _step(self, name: str, kind: str) -> Doc:
        made: Doc = {"id": name, "evidence_refs": [W1]}
        if self._attacks_here(10):
            made["evidence_refs"] = self._one([[W1, W2], [W1, FORM], [W1, CHOSEN], [W2], []])
        if self._attacks_here(6):
            made |= {
                "optional": True,
                "when": self._one([*CONDITIONS, "look.flag == 'yes'", "page.flag == 'yes'"]),
            }
        elif self._random.randint(0, 5) == 0:
            made["when"] = "request.order_id == 'o1'"
        if self._effects and self._random.randint(0, 3) == 0:
            made["depends_on"] = [self._one(self._effects)]
        match kind:
            case "look":
                # No look-up is made three times: the loop guard would stop the run.
                made |= {"tool": "shop.look", "params": {"key": self._key(), "fresh": name == "s0"}}
                self._looks.append(name)
            case "note":
                fields = self._values("order_id", "payment_id", "amount")
                made |= {"kind": "note", "params": {**fields, "note": "@text", "flag": "@flag"}}
                self._looks.append(name)
            case _:
                params = self._values("payment_id", "amount")
                memo = self._one(["@text", "thanks", {"$from": "request#/note"}])
                made |= {"tool": f"bank.{kind}", "params": {**params, "memo": memo}}
                self._undo(made)
                self._effects.append(name)
        return made

    def _undo(self, made: Doc) -> None:
        """Perhaps propose a compensation."""
        if self._attacks_here(3):
            undo = self._one([{"$from": "self#/note"}, {"$from": "params#/memo"}, self._attack("payment_id")])
        elif self._random.randint(0, 3) == 0:
            undo = self._one([{"$from": "params#/payment_id"}, {"$from": "self#/payment_id"}])
        else:
            return
        made["compensate"] = {"tool": "bank.cancel", "params": {"payment_id": undo}}


def make_scene(random: Random, sort: str | None = None) -> Scene:
    """A pack with some relations, and a plan with some of the attacker's words in it, of one sort if one is named."""
    steps = Planner(random, sort).steps()
    spec: Doc = {
        "untrusted_inputs": MARKED,
        "bind": [relation for relation in BIND if random.random() < 0.5],
        "unbound_gate": random.choice([None, None, "ask"]),
        "repeatable": ["bank.pay", "bank.fail", "bank.cancel"],
    }
    names = [name for name in ("payment_id", "amount") if random.random() < 0.3]
    return Scene(spec, {name: random.choice(["refuse", "ask"]) for name in names}, steps)


def scenes(sort: str | None = None) -> st.SearchStrategy[Scene]:
    """Any scene; with attacks of one sort if one is named."""
    return st.integers(0, 2**48).map(lambda seed: make_scene(Random(seed), sort))  # noqa: S311 - no secret


Call: TypeAlias = tuple[str, tuple[tuple[str, Any], ...]]
"""A tool, and its authority values by name."""


def make_pack(scene: Scene, world: World, calls: list[Call], weaken: Doc) -> tuple[Workshop, Pack]:
    """The pack of a scene in a world; every effect writes its authority values down."""
    workshop = Workshop()

    async def look(_: Any, params: Doc) -> Doc:
        return {**looked_up(params["key"]), "note": world.text, "flag": world.flag}

    async def read(_: Any, params: Doc) -> Doc:
        return {
            "order_id": world.text,
            "payment_id": world.text,
            "amount": world.number,
            "note": world.text,
            "flag": world.flag,
        }

    def effect(name: str, *, fails: bool = False) -> Any:
        async def act(_: Any, params: Doc) -> Doc:
            if fails:
                raise NotDone("it does not work", code="broken", remedy="leave it", is_retriable=False)
            bound = {key: value for key, value in params.items() if key != "memo"}
            calls.append((name, tuple(sorted(bound.items()))))
            return {**bound, "note": world.text}

        return act

    marks = () if weaken.get("results") else ("note", "flag")
    shown: Doc = {"untrusted": marks, "result": {"type": "object"}}
    workshop.tool("shop.look", look, "read_only", **shown)
    trust = "trusted" if weaken.get("results") else "untrusted"
    workshop.tool("web.read", read, "read_only", trust=trust)
    for name, fails in (("bank.pay", False), ("bank.fail", True), ("bank.cancel", False)):
        authority = ("payment_id",) if name == "bank.cancel" else ("payment_id", "amount")
        declared: Doc = {
            "authority": authority,
            "unbound": {n: v for n, v in scene.unbound.items() if n in authority},
        }
        workshop.tool(
            name,
            effect(name, fails=fails),
            "local_write",
            reversibility="compensable",
            no_compensation="it is written down",
            untrusted=() if weaken.get("results") else ("note",),
            **declared,
        )
    facts = [
        Evidence.model_validate({"id": ref, "classification": kind, "content": content, "trust": "trusted"})
        for ref, (kind, content) in TRUSTED.items()
    ]
    form = {"order_id": world.text, "payment_id": world.text, "amount": world.number}
    trust = "trusted" if weaken.get("evidence") else "untrusted"
    facts.append(
        Evidence.model_validate({"id": FORM, "classification": "form", "content": form, "trust": trust})
    )
    spec = copy.deepcopy(scene.spec)
    if weaken.get("request"):
        spec["untrusted_inputs"] = []
    if weaken.get("relations"):
        spec["bind"] = []
    gates = (Gate(name="ask", roles=("boss",)),)
    return workshop, workshop.pack(decision=spec, evidence=tuple(facts), gates=gates, on_failure="compensate")


class Run(NamedTuple):
    """What happened in a run: by itself, and after a person has cancelled it."""

    effects: list[Call]
    compensations: list[Call] | None


def run_in(scene: Scene, world: World, weaken: Doc) -> Run:
    """Run a plan in a world in which no person approves anything; a run that waits is cancelled, and compensated."""
    calls: list[Call] = []
    workshop, pack = make_pack(scene, world, calls, weaken)
    request = Request(intent="work", input=request_in(world))

    async def main() -> int | None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(request, plan=scene.plan(world), actor=ADA)
            if result.gate is None:
                return None
            count = len(calls)
            await runtime.cancel(result.session_id, actor=ADA)
            await runtime.resume(result.session_id)
            return count

    count = workshop.run(main())
    return Run(sorted(calls[:count], key=repr), None if count is None else sorted(calls[count:], key=repr))


def permitted_values(scene: Scene) -> set[str]:
    """The values that the trusted part of the pack vouches for: the request's, those of related facts, and what the shop
    says about them."""
    related = {relation["evidence"] for relation in scene.spec["bind"] if "evidence" in relation}
    facts = [
        content for kind, content in TRUSTED.values() if kind not in related or content["order_id"] == "o1"
    ]
    held = [part.value for part in naive.parts(facts, plain=True) if part.kind == "literal"]
    known: set[Any] = {"o1", "c1", *held}
    if not any(relation.get("tool") == "shop.look" for relation in scene.spec["bind"]):
        for _ in range(2):
            known |= {value for key in known for value in looked_up(key).values()}
    return {repr(value) for value in (*known, *looked_up("o1").values())}


def is_alike(first: Run, second: Run) -> bool:
    """Whether two runs have the same effects, or the first has fewer and waits for a person instead."""
    is_stopped = first.compensations is not None and not Counter(first.effects) - Counter(second.effects)
    return first.effects == second.effects or is_stopped


def assert_runs_alike(scene: Scene, weaken: Doc) -> int:
    """The same effects in both worlds, or fewer where a person is asked instead; the same compensations of the same
    effects, if a person cancelled both runs; all of them with permitted values. Returns how many effects there were."""
    first, second = (run_in(scene, world, weaken) for world in WORLDS)
    assert is_alike(first, second) or is_alike(second, first), "an attacker's value decides what happens"
    are_cancelled = first.compensations is not None and second.compensations is not None
    if are_cancelled and first.effects == second.effects:
        assert first.compensations == second.compensations, "an attacker's value decides what is compensated"
    permitted = permitted_values(scene)
    for run in (first, second):
        for tool, values in (*run.effects, *(run.compensations or ())):
            for name, value in values:
                assert repr(value) in permitted, f"{tool} was called with {name} = {value!r}"
    return len(first.effects)


@examples(40)
@given(scenes())
def test_an_attackers_values_change_no_run(scene: Scene) -> None:
    """Copied, referred to, computed with, deciding or compensating: they have no effect that no person has approved."""
    assert_runs_alike(scene, {})


@pytest.mark.slow
def test_honest_effects_happen_in_the_generated_runs() -> None:
    """The property is not met by refusing everything: a good part of the runs has effects."""
    counts: list[int] = []

    @settings(max_examples=40, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(scenes())
    def sample(scene: Scene) -> None:
        counts.append(assert_runs_alike(scene, {}))

    sample()
    assert sum(count > 0 for count in counts) > 0.08 * len(counts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weakness", "sort"),
    [
        ("request", "request"),
        ("evidence", "evidence"),
        ("results", "results"),
        ("relations", "somebody else"),
    ],
)
def test_the_property_finds_weakened_runs(weakness: str, sort: str) -> None:
    """A critic that overlooks one sort of untrusted value, or the relations, lets an attacker through."""

    @settings(max_examples=200, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
              report_multiple_bugs=False)  # fmt: skip
    @given(scenes(sort))
    def sample(scene: Scene) -> None:
        assert_runs_alike(scene, {weakness: True})

    with pytest.raises(AssertionError, match=r"attacker's value|was called with"):
        sample()
