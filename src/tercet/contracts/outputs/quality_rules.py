"""How the outputs of a decision are judged and repaired: the quality loop, as a pack declares it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self, get_args

from pydantic import Field, model_validator

from tercet.contracts.documents import Document, DocumentValue, PluralForms
from tercet.contracts.outputs.repair import RepairRules
from tercet.contracts.outputs.rubric import (
    MOST_CASES,
    CritiqueSettings,
    Rubric,
    TestLevelName,
    VerificationSettings,
    usual_rubric,
)
from tercet.contracts.shape import Authored, JsonObject, Name, Score, as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer
from tercet.contracts.values.plain import PlainObject
from tercet.contracts.values.pointer import value_at
from tercet.contracts.values.trust import input_marks, is_marked, with_dotted

OUTPUT = "$output"
SAMPLE_COUNTS = (3, 5, 7)
LONGEST_CLASS = 400
"""How many bytes the name of a kind of task may have: journals keep what runs taught under it."""
MEASURED_ELSEWHERE = frozenset({"schema", "policy", "test_pass_rate", "self_consistency", "confidence"})
"""Thresholds that no dimension of a rubric is held to, whatever its name: they have a measurement of their own."""
_LEVELS: tuple[TestLevelName, ...] = get_args(TestLevelName)
_LOCALE = re.compile(r"[A-Za-z]{2,3}(?:[_-][A-Za-z0-9]{2,8}){0,3}")


class TestCommand(Authored):
    """A test command that judges outputs: a read_only tool, called in VERIFY through the gateway like any other."""

    __test__ = False  # keeps pytest from collecting a contract

    tool: Name
    params: PlainObject = Field(default_factory=dict)
    """What it is called with; `{"$output": "/code"}` stands for what the outputs have at that JSON Pointer."""
    report: str = "/junit"
    """Where its result holds the JUnit XML: a JSON Pointer."""
    level: TestLevelName = "unit"
    output: str = "/code"
    """The place in the outputs that is tested, and repaired after a failure."""
    vouches: bool = False
    """Whether passing is enough for that output: then no one else is asked about it, and its values are not looked up."""
    max_skipped: Score = 0.0
    """The share of the tests that may be skipped; with more, the command has failed."""
    same_suite: bool = False
    """Whether every run of the task class is tested by the same suite: then a test that passed in an earlier run which was
    committed, and is gone or skipped now, has failed. One that passed in an earlier round of the same run always has."""

    @property
    def vouched(self) -> frozenset[str]:
        """The places of outputs that passing vouches for: what the command is given of the output that it tests."""
        given = find_outputs_given(self.params) if self.vouches else ()
        pairs = ((self.output.rstrip("/"), each.rstrip("/")) for each in given)
        return frozenset(max(pair, key=len) for pair in pairs if _is_within(*pair) or _is_within(*pair[::-1]))


def _is_within(outer: str, inner: str) -> bool:
    return f"{inner}/".startswith(f"{outer}/")


def find_outputs_given(params: Any) -> Iterator[str]:
    """Yield the pointers of `{"$output": …}` in parameters, at any depth."""
    if (members := as_object(params)) is not None:
        if set(members) == {OUTPUT}:
            yield str(members[OUTPUT])
            return
        params = list(members.values())
    for item in as_list(params) or ():
        yield from find_outputs_given(item)


class Attack(Authored):
    """Edge cases that outputs must stand: a read_only tool is called with one after the other, in CRITIQUE."""

    tool: Name
    params: PlainObject = Field(default_factory=dict)
    """What it is called with besides; `{"$output": "/code"}` stands for what the outputs have at that JSON Pointer."""
    case: Name
    """The parameter that takes the case."""
    case_schema: PlainObject | None = None
    """The JSON Schema that cases are made from; None takes that of the parameter."""
    max_cases: int | None = Field(default=None, ge=1, le=MOST_CASES)
    """E_max: how many cases are tried; None means `critique.max_edge_cases`."""
    seed: int = Field(default=0, ge=0)
    """The same seed makes the same cases."""
    refuses_invalid: bool = False
    """Whether cases are tried, too, that break the schema: such a case must fail."""
    imagined: int = Field(default=0, ge=0, le=20)
    """How many of the cases a language model is asked for: one of those that judge outputs."""
    probe_at: str | None = None
    """Where in a case the texts of probes are planted: a JSON Pointer. A result that holds a canary is a defect."""
    output: str = "/code"
    """The place in the outputs that is attacked, and repaired after a failure."""

    def schema_for(self, tool: ToolSpec) -> JsonObject:
        """The schema that cases are made from; empty where nothing says what they look like."""
        if self.case_schema is not None:
            return self.case_schema
        members = as_object(tool.parameters.get("properties")) or {}
        found = as_object(members.get(self.case)) or {}
        shared = {name: tool.parameters[name] for name in ("$defs", "definitions") if name in tool.parameters}
        return {**found, **shared} if found else {}

    @model_validator(mode="after")
    def _case_is_free(self) -> Self:
        if self.case in self.params:
            raise ValueError(f"params give {self.case} a value, and it is the parameter that takes the case")
        return self


class SelfConsistency(Authored):
    """Several samples of one output, of which the one that most agree on is taken: the plan brings them, or the runtime
    draws them."""

    samples: tuple[Name, ...] = ()
    """The outputs that hold the samples: three, five or seven of them, or one that holds them as a list."""
    draws: Literal[3, 5, 7] | None = None
    """How many samples the runtime draws from the step that produces the output, and from a model that regenerates outputs."""
    into: Name
    """The output that the chosen sample becomes."""
    method: Literal["exact", "similarity"] = "exact"
    minimum: Score = 0.70
    """Below this consistency the output counts as LOW_CONFIDENCE."""

    @model_validator(mode="after")
    def _comes_from_somewhere(self) -> Self:
        if self.draws is not None and self.samples:
            raise ValueError(
                "samples are brought by the plan or drawn by the runtime: name samples, or draws"
            )
        if self.draws is None and len(self.samples) not in (1, *SAMPLE_COUNTS):
            raise ValueError(
                "samples names three, five or seven outputs, or one that is a list; or draws says how many are drawn"
            )
        if len(set(self.samples)) < len(self.samples):
            raise ValueError("samples names each output once: one that is compared with itself always agrees")
        return self


def language_of(locale: str) -> str:
    """Return the language of a CLDR locale."""
    return re.split("[_-]", locale)[0].lower()


class QualityRules(Authored):
    """How outputs of a decision are verified, criticised and repaired before they are committed."""

    task_class: Name = "default"
    """The kind of task: runs of one kind learn from each other, and `[control.CLASS]` of the pack steers their repairs."""
    verification: VerificationSettings = Field(default_factory=VerificationSettings)
    locale: str = "en"
    """The CLDR locale that values are written in and texts are read by."""
    locale_from: str | None = None
    """Where the request says the locale: `request#/locale`; `locale` is used where it does not, or is marked as untrusted there."""
    values: tuple[DocumentValue, ...] = ()
    """What outputs may state, for slots and for the screen."""
    units: dict[str, dict[str, PluralForms]] = Field(default_factory=dict[str, dict[str, PluralForms]])
    """Units of the pack's own: for each language, the pattern of each plural category."""
    documents: tuple[Document, ...] = ()
    """Outputs that are rendered from templates of the pack."""
    judge: Literal["none", "model"] = "none"
    """Whether a language model is asked about words that nothing vouches for."""
    max_judge_error: Score = 0.02
    """Of the outputs that the judge called right and a person looked at, the share that may have been refused: at a higher
    rate, the judge does not vouch."""
    min_judge_sample: int = Field(default=50, ge=1)
    """How many such outputs there must be."""
    rubric: Rubric = Field(default_factory=usual_rubric)
    required_sections: tuple[Name, ...] = ()
    """Headings that the text of the outputs must have."""
    required_values: tuple[Name, ...] = ()
    """Declared values that the outputs must state, in a slot or in words."""
    critique: CritiqueSettings = Field(default_factory=CritiqueSettings)
    tests: tuple[TestCommand, ...] = ()
    attacks: tuple[Attack, ...] = ()
    """What tries to break outputs that have passed their tests."""
    consistency: SelfConsistency | None = None
    repair: RepairRules = Field(default_factory=RepairRules)
    is_partial_useful: bool = False
    """Whether a result with small defects is of use: then a person may accept it as partial."""
    novelty: Score | None = None
    """Runs that are further than this from every run before them go to a person; None looks at no runs before."""

    def locale_for(self, given: JsonObject, untrusted: Sequence[str] = ()) -> str:
        """Return the locale of outputs: what the request says where it may, else `locale`."""
        place = (self.locale_from or "").partition("#")[2]
        marks = input_marks(with_dotted(untrusted)) if place.startswith("/") else ()
        if is_marked(marks, pointer.parts(place)):
            return self.locale
        said = value_at(given, place) if self.locale_from is not None else None
        return said if isinstance(said, str) and _LOCALE.fullmatch(said) else self.locale

    def explain_missing(self, output: str, given: JsonObject, untrusted: Sequence[str] = ()) -> str:
        """Return why no document was rendered for an output; empty where the language is not the reason."""
        languages = {each.language for each in self.documents if each.output == output}
        locale = self.locale_for(given, untrusted)
        if not languages or {"", language_of(locale)} & languages:
            return ""
        return f": no document of it is in the language of the locale {locale!r} (documents: {', '.join(sorted(languages))})"

    @model_validator(mode="after")
    def _values_are_named_once(self) -> Self:
        names = [each.name for each in self.values]
        if len(set(names)) < len(names):
            raise ValueError("values names each value once")
        outputs = [(each.output, each.language) for each in self.documents]
        if len(set(outputs)) < len(outputs):
            raise ValueError("documents names each output once for a language")
        return self

    @model_validator(mode="after")
    def _class_can_be_stored(self) -> Self:
        if not self.task_class.isprintable() or len(self.task_class.encode(errors="replace")) > LONGEST_CLASS:
            raise ValueError(f"task_class is a name of at most {LONGEST_CLASS} bytes that can be printed")
        return self

    @model_validator(mode="after")
    def _tests_are_in_order(self) -> Self:
        levels = [_LEVELS.index(each.level) for each in self.tests]
        if levels != sorted(levels):
            raise ValueError(f"tests stand in the order of their levels: {', '.join(_LEVELS)}")
        return self
