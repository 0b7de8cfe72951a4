"""Both critics agree about authority: which values have a source, which source, what is asked, what could not be checked."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import Phase, given, settings

from critic import naive
from critic.authority_strategies import authority_cases
from critic.naive import Case
from critic.strategies import examples
from tercet.contracts.verdict import Verdict
from tercet.critic.verify import verify

SAMPLES = 600


def assert_agreement(case: Case) -> Verdict:
    """Both critics find the same first refusal; or none, and the same steps to ask about and relations left unchecked."""
    verdict, expected = verify(*case), naive.first_refusal(*case)
    if expected is not None:
        assert (verdict.code, verdict.offending_step) == (expected.code, expected.step), (verdict, expected)
        return verdict
    assert verdict.ok, verdict
    asked = {index for index, leads_to in naive.flow_outcomes(case) if "ask" in leads_to}
    assert {demand.step for demand in verdict.gates if demand.gate == "ask"} == asked
    if case.compiled.request is not None:
        assert verdict.unchecked == ()
    return verdict


@examples(400)
@given(authority_cases())
def test_both_critics_agree_about_authority(case: Case) -> None:
    """Relations, kinds, sources and outcomes are decided as the page says."""
    assert_agreement(case)


@pytest.mark.slow
def test_the_generator_reaches_every_end() -> None:
    """Plans pass, are refused and are asked about; each often enough to be a test."""
    seen: Counter[str] = Counter()

    @settings(max_examples=SAMPLES, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
    @given(authority_cases())
    def sample(case: Case) -> None:
        refused = naive.first_refusal(*case)
        seen[refused.code if refused else "ok"] += 1
        if refused is None and any("ask" in leads_to for _, leads_to in naive.flow_outcomes(case)):
            seen["asked"] += 1

    sample()
    assert seen["ok"] > 0.15 * SAMPLES, seen
    assert seen["unbound_argument"] > 0.15 * SAMPLES, seen
    assert seen["asked"] > 0.02 * SAMPLES, seen
