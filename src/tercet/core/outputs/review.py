"""The review of outputs: the outputs of a run with their rules, evidence and readings; and the request to a person to accept them,
with the sources of each piece, the risk, and what was changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.documents import KnownValue, ReadText, TextPiece, TokenVerdict
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Advice, ApprovalRequest
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.outputs.exit import ExitDecision
from tercet.contracts.outputs.quality import TestResult
from tercet.contracts.outputs.quality_rules import QualityRules, SelfConsistency, language_of
from tercet.contracts.outputs.repair import Escalation
from tercet.contracts.outputs.rubric import CritiqueInput, CritiqueTask, Rubric
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.run import Run
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.references import Place
from tercet.contracts.values.trust import with_dotted
from tercet.contracts.verdict import ScoreVerdict
from tercet.core.config import RunConfig
from tercet.core.outputs.grounds import TrustedSource, find_sources, grounds_of, put_in_order
from tercet.core.state import State
from tercet.quality.exit import TRIGGERS, recommend
from tercet.quality.repair.losses import show_difference
from tercet.quality.values import known_values
from tercet.quality.verification.places import Leaf, is_text, leaves, names, parse_location
from tercet.quality.verification.roles import is_field_name, is_one_word


class ToRead(NamedTuple):
    """A text of the outputs that is to be rendered and read."""

    pointer: str
    text: str
    author: Literal["pack", "agent"] = "agent"
    name: str = ""
    """For a value that is not a text: its name in words, after which it is read."""
    source: str = ""
    """For a value that came by reference from a trusted place: that place. It is not read."""


@dataclass(frozen=True, kw_only=True)
class OutputReview:
    """The outputs of a run, and everything they are judged by."""

    state: State
    config: RunConfig
    run: Run
    scored: ScoreVerdict
    """The evaluators' scores of the run; repairs cannot change its floors."""
    repairers: int = 0
    """How many language models can be asked to repair."""

    @property
    def spec(self) -> DecisionSpec:
        """The decision."""
        return self.config.spec

    @property
    def rules(self) -> QualityRules:
        """How the outputs are judged and repaired."""
        return self.config.spec.quality or QualityRules()

    @property
    def sampled(self) -> SelfConsistency:
        """How samples are compared, in a decision that has any."""
        if self.rules.consistency is None:
            raise ValueError(f"decision {self.spec.id} compares no samples")
        return self.rules.consistency

    @property
    def outputs(self) -> JsonObject:
        """The outputs as they are."""
        return self.state.outputs

    @cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """The evidence that may support the outputs, with its members sorted by name, as a session stores it."""
        quality = self.state.quality
        return put_in_order(grounds_of(self.run, quality.drafts, quality.fetched, quality.retried))

    # --- values and texts ---

    @property
    def locale(self) -> str:
        """The locale of the outputs: the request's, if it may set one, else the pack's."""
        return self.rules.locale_for(self.config.compiled.input(), self.spec.untrusted_inputs)

    @property
    def language(self) -> str:
        """The language of the locale."""
        return language_of(self.locale)

    @cached_property
    def known(self) -> tuple[KnownValue, ...]:
        """The values that the outputs may state."""
        return known_values(
            self.rules.values,
            self.evidence,
            self.config.compiled.input(),
            with_dotted(self.spec.untrusted_inputs),
            self.language,
        )

    @cached_property
    def read(self) -> tuple[ReadText, ...]:
        """The texts of the outputs as they were rendered and read."""
        return tuple(map(ReadText.model_validate, self.state.quality.read or ()))

    @cached_property
    def verdict(self) -> VerificationVerdict | None:
        """The result of VERIFY for the current outputs."""
        said = self.state.quality.verdict
        return VerificationVerdict.model_validate(said) if said else None

    def list_texts(self, outputs: JsonObject) -> tuple[ToRead, ...]:
        """Return the texts to read: templates of the pack, texts, and other values behind their names."""
        written = sorted(self.rules.documents, key=lambda each: each.language)
        fitting = [each for each in written if each.language in ("", self.language)]
        templates = {each.output: each.template for each in fitting if self._is_due(each.output, outputs)}
        sources = find_sources(self.run, self.state.quality.drafts or outputs)
        found = [ToRead(pointer.join((name,)), template, "pack") for name, template in templates.items()]
        judged = self.without_samples(outputs)
        free = {
            pointer.join(each.place): each.value
            for each in names(judged)
            if each.place[0] not in templates and not self._is_known_name(each, sources)
        }
        found += [
            self._to_read(leaf, outputs, sources, is_named=pointer.join(leaf.place) not in free)
            for leaf in leaves(judged)
            if leaf.place and leaf.place[0] not in templates and leaf.value not in (None, "")
        ]
        read = {each.pointer for each in found}
        found += [ToRead(place, _words(name)) for place, name in free.items() if place not in read]
        return tuple(found)

    def _is_known_name(self, name: Leaf, sources: dict[str, TrustedSource]) -> bool:
        """Return whether someone vouches for the name of a member: the pack's author, or the trusted data that has it.

        The request does not: its author could write a sentence in the names of its members.
        """
        place = pointer.join(name.place)
        source = next((sources[each] for each in _prefixes(place)[1:] if each in sources), None)
        if source is not None and not source.is_request:
            return True
        if len(name.place) == 1 and name.value in self._declared_names:
            return True
        return self._schema_at(name.place) is not None or is_field_name(name.value, self.known)

    def _schema_at(self, place: Place) -> Any:
        """Return the schema of a place in the outputs; None if the schema does not name every member on the way."""
        node: Any = self.spec.outputs_schema
        for token in place:
            members = as_object(node) or {}
            is_item = isinstance(token, int)
            node = (
                members.get("items") if is_item else (as_object(members.get("properties")) or {}).get(token)
            )
        return node

    @property
    def _declared_names(self) -> frozenset[str]:
        sampled = (self.rules.consistency.into,) if self.rules.consistency else ()
        return frozenset((*self.spec.required_outputs, *self.spec.rendered_outputs, *sampled))

    def _is_due(self, name: str, outputs: JsonObject) -> bool:
        """Return whether a document is to be rendered: once it was changed by a repair, it is no longer the author's."""
        rendered = self.state.quality.rendered
        return name not in rendered or outputs.get(name) == rendered[name]

    def _to_read(
        self, leaf: Leaf, outputs: JsonObject, sources: dict[str, TrustedSource], *, is_named: bool
    ) -> ToRead:
        place = pointer.join(leaf.place)
        name = _words(next((key for key in reversed(leaf.place) if isinstance(key, str)), ""))
        if is_text(leaf.value):
            return ToRead(place, leaf.value, name="" if is_named else name)
        drafted = self.state.quality.drafts or self.outputs
        # A word or number of a trusted source stays its own in the spelling that the schema asks for.
        before = _shown(pointer.value_at(drafted, place)).strip().casefold()
        is_unchanged = before == _shown(leaf.value).casefold()
        found = next(
            (sources[each].member(place[len(each) :]) for each in _prefixes(place) if each in sources), None
        )
        is_bound = is_named and is_unchanged and found is not None and self._is_own(leaf, outputs, found)
        return ToRead(place, _shown(leaf.value), name=name, source=found.place if found and is_bound else "")

    def _is_own(self, leaf: Leaf, outputs: JsonObject, source: TrustedSource) -> bool:
        """Return whether a value vouches for itself: words of the request do where they are one, or listed."""
        if not source.is_request or not isinstance(leaf.value, str):
            return True
        declared = as_object(self._schema_at(leaf.place)) or {}
        if leaf.value in (*(as_list(declared.get("enum")) or ()), declared.get("const")):
            return True
        if any(each.name and each.value == leaf.value.strip() for each in self.known):
            return True
        beside = pointer.value_at(outputs, pointer.join(leaf.place[:-1]))
        words = [each for each in as_list(beside) or () if isinstance(each, str)]
        return is_one_word(leaf.value) and len(words) < 2

    # --- the critic's input ---

    @cached_property
    def tests(self) -> TestResult | None:
        """The results of all test commands together; None if there are none, or one has no result."""
        said = self.state.quality.tests
        if not said or any(not each["result"] for each in said):
            return None
        results = [TestResult.model_validate(each["result"]) for each in said]
        return TestResult(
            passed=sum(each.passed for each in results),
            failed=sum(each.failed for each in results),
            errors=tuple(failure for each in results for failure in each.errors),
        )

    def baseline(self, number: int) -> frozenset[str]:
        """Return the tests of a command that passed in an earlier round, or in earlier runs of its task class where these have the
        same suite."""
        quality, command = self.state.quality, self.rules.tests[number]
        before = quality.passed_tests.get(str(number), ())
        known = quality.drawn.get("tests", {}).get(command.tool, ()) if command.same_suite else ()
        return frozenset((*before, *known))

    @property
    def tested(self) -> frozenset[str]:
        """The places of outputs that declared tests vouch for if they pass."""
        return frozenset(place for each in self.rules.tests for place in each.vouched)

    @property
    def executed(self) -> frozenset[str]:
        """The places of outputs that are judged by running them, and not by the values that they state."""
        return self.tested | {each.output for each in self.rules.attacks}

    @property
    def passed(self) -> frozenset[str]:
        """The commands whose tests have all passed, at least one of which ran."""
        said = list(zip(self.rules.tests, self.state.quality.tests, strict=False))
        results = {
            place: [_has_passed(each) for command, each in said if place in command.vouched]
            for place in self.tested
        }
        wanted = {place: sum(place in c.vouched for c in self.rules.tests) for place in results}
        return frozenset(p for p, found in results.items() if all(found) and len(found) == wanted[p])

    @cached_property
    def rubric(self) -> Rubric:
        """The rubric, with no minimum below the decision's threshold of that name: what will be missed is a defect."""
        limits = {str(each.name): each.effective_minimum for each in self.spec.thresholds}
        lifted = tuple(
            each.model_copy(update={"minimum": max(each.minimum, limits.get(each.name, 0.0))})
            for each in self.rules.rubric.dimensions
        )
        return self.rules.rubric.model_copy(update={"dimensions": lifted})

    @cached_property
    def samples(self) -> frozenset[str]:
        """The outputs that are samples: repetitions and contradictions among them are not defects."""
        wanted = self.rules.consistency
        return frozenset(wanted.samples) - {wanted.into} if wanted is not None else frozenset()

    @cached_property
    def critique_input(self) -> CritiqueInput:
        """All that a critic is given: neither plan nor reasoning nor intermediate results of the run."""
        request = self.config.compiled.request
        required = (each for each in self.spec.required_outputs if each not in self.samples)
        return CritiqueInput(
            task=CritiqueTask(
                description=self.spec.description or (request.intent if request else self.spec.id),
                input=self.config.compiled.input(),
                untrusted_inputs=with_dotted(self.spec.untrusted_inputs),
                required_outputs=tuple(required),
                required_sections=self.rules.required_sections,
                required_values=self.rules.required_values,
            ),
            output=self.without_samples(self.outputs),
            evidence=self.evidence,
            tokens=self.verdict.tokens if self.verdict else (),
            missing=self.verdict.missing if self.verdict else (),
            rubric=self.rubric,
        )

    def without_samples(self, outputs: JsonObject) -> JsonObject:
        """Return the outputs that are judged."""
        return {name: value for name, value in outputs.items() if name not in self.samples}

    @property
    def is_open_to_repair(self) -> bool:
        """Whether the run has a repair left, and a model or rule that can make it."""
        budget = self.config.ctx.run_budget
        left = self.state.quality.escalation
        may_help = not left or (left["kind"] == Escalation.MODEL_UPGRADE and self.repairers > 1)
        return self.scored.ok and self.state.used.repairs < budget.max_repairs and may_help


def bound_text(asked: ToRead) -> ReadText:
    """Return the reading of a value that came by reference from a trusted place, behind the name that it is given."""
    start = len(asked.name) + 2 if asked.name else 0
    text = f"{asked.name}: {asked.text}" if asked.name else asked.text
    name = (TextPiece(start=0, end=start, source="authored"),) if start else ()
    value = TextPiece(start=start, end=len(text), source="bound", pointer=asked.source)
    return ReadText(pointer=asked.pointer, text=text, pieces=(*name, value))


def _has_passed(said: JsonObject) -> bool:
    result = said["result"]
    return not said["error"] and not result.get("failed") and bool(result.get("passed"))


def _prefixes(place: str) -> list[str]:
    """Return a JSON Pointer and those of all values around it, the longest first."""
    parts = place.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else f"{value}"


def _words(name: str) -> str:
    """Return a name in words; what looks like a slot in it is none."""
    return re.sub(r"[_-]+|(?<=[a-z])(?=[A-Z])", " ", name).replace("{{", "{ {").strip()


MOST_TOKENS = 500
"""How many values of all texts together are shown; those that are refused come first."""


def advise(state: State, decided: ExitDecision) -> Advice:
    """Return what a person is advised to say: never a plain yes to a text in which a rule has replaced values."""
    is_replaced = Behaviour.OUTPUTS_PLACED in state.start.behaviour and any(
        entry.get("means") == "rule"
        and entry["note"].startswith("replace_value:")
        and entry["success"] is not False
        for entry in state.quality.log
    )
    advice = recommend(decided)
    return "compare" if advice == "approve" and is_replaced else advice


def request_approval(state: State) -> ApprovalRequest:
    """Return the page for the person who may accept the outputs."""
    quality = state.quality
    decided = ExitDecision.model_validate(quality.exit)
    verdict = VerificationVerdict.model_validate(quality.verdict) if quality.verdict else None
    return ApprovalRequest(
        output=state.outputs,
        provenance={
            "texts": list(_texts(state, verdict)),
            "judgements": [each.model_dump(mode="json") for each in verdict.judgements] if verdict else [],
            "diff": show_difference(quality.drafts, state.outputs) if quality.log else "",
        },
        quality_scores=quality.diagnosis.get("scores", {}),
        confidence=decided.confidence,
        risk_assessment="; ".join(TRIGGERS[each] for each in decided.triggers) or "no risk was found",
        recommended_action=advise(state, decided),
    )


def _texts(state: State, verdict: VerificationVerdict | None) -> Iterator[JsonObject]:
    """Yield each text with the source of each piece, the verdict on each value, and why nothing vouches for it."""
    tokens = sorted(verdict.tokens if verdict else (), key=lambda each: each.status in ("bound", "found"))
    unjudged = {each.location: each.reason for each in verdict.unjudged} if verdict else {}
    for read in map(ReadText.model_validate, state.quality.read or ()):
        own = [each for each in tokens[:MOST_TOKENS] if parse_location(each.location).pointer == read.pointer]
        yield {
            "pointer": read.pointer,
            "pieces": [each.model_dump(mode="json", exclude_defaults=True) for each in read.pieces],
            "tokens": [_shown_token(each) for each in own],
            "unjudged": unjudged.get(read.pointer, ""),
        }


def _shown_token(found: TokenVerdict) -> JsonObject:
    shown = {"text": found.token.text, "status": found.status, "location": found.location}
    return {**shown, "sources": list(found.sources)} if found.sources else shown
