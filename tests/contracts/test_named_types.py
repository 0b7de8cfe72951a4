"""The types that the requirements name, under their own names or those they go by here."""

from __future__ import annotations

import pytest

from tercet.contracts.packs.schema import PUBLIC_TYPES

NAMED_BY_THE_TEXTS = {
    "R22": "Plan DecisionRecord ToolCall ToolResult BackgroundSession",
    "R34": "Request RunBudget Threshold CompiledContext RunContext Plan Step Evidence TranscriptEntry "
    "VerificationVerdict CritiqueDiagnosis AgentResult",
    "R35": "ValidationResult ValidationIssue",
    "R37": "CircuitState",
    "R41": "TestResult TestFailure",
    "R42": "CritiqueDiagnosis Defect",
    "R43": "RootCauseClass",
    "R44": "StackTraceAnalysis",
    "R45": "RepairEntry RepairLog",
    "R46": "Provenance",
    "R47": "AuditRecord",
    "R48": "AgentResult",
    "R49": "Reversibility",
    "R50": "RollbackEntry RollbackResult RollbackStatus",
    "R51": "ApprovalRequest",
    "R52": "AgentResult FailureReport HaltRecord",
    "R56": "InvokeRequest",
}


@pytest.mark.req("R22", "R34", "R56")
@pytest.mark.parametrize("line", NAMED_BY_THE_TEXTS)
def test_every_type_that_the_texts_name_is_public(line: str) -> None:
    """Each type of the requirements can be asked for, under its name or the one it goes by here."""
    assert set(NAMED_BY_THE_TEXTS[line].split()) <= set(PUBLIC_TYPES)
