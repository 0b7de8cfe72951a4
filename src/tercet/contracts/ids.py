"""Typed ids. At run time each is a plain string."""

from __future__ import annotations

from typing import NewType

RunId = NewType("RunId", str)
SessionId = NewType("SessionId", str)
TraceId = NewType("TraceId", str)
PlanId = NewType("PlanId", str)
StepId = NewType("StepId", str)
TenantId = NewType("TenantId", str)
ActorId = NewType("ActorId", str)
ToolName = NewType("ToolName", str)
GateName = NewType("GateName", str)
DecisionKey = NewType("DecisionKey", str)
SnapshotId = NewType("SnapshotId", str)
EvidenceId = NewType("EvidenceId", str)
