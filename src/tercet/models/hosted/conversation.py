"""A question as pydantic-ai asks it, and its response as a reply."""

from __future__ import annotations

from copy import deepcopy
from itertools import groupby

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import Model as Backend
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from tercet.contracts.plain import storable
from tercet.contracts.question import Question

_ANSWER = "answer"


def write_messages(question: Question) -> list[ModelMessage]:
    """The turns of the conversation, with what the system says as standing instructions."""
    system = question.system or None
    turns: list[ModelMessage] = []
    for role, group in groupby(question.messages, key=lambda message: message.role):
        texts = [message.text for message in group]
        if role == "user":
            turns.append(ModelRequest(parts=[UserPromptPart(text) for text in texts], instructions=system))
        else:
            turns.append(ModelResponse(parts=[TextPart(text) for text in texts]))
    return turns or [ModelRequest(parts=[], instructions=system)]


def write_settings(question: Question, backend: Backend) -> ModelSettings:
    """How the provider is asked: no longer than the question allows, and once."""
    settings = ModelSettings(max_tokens=question.max_tokens)
    if "max_retries" not in backend.unsupported_settings:
        settings["max_retries"] = 0
    if question.seed is not None:
        settings["seed"] = question.seed
    if _takes_temperature(backend):
        settings["temperature"] = question.temperature
    return settings


def _takes_temperature(backend: Backend) -> bool:
    # Models that reason refuse it; pydantic-ai would leave it out with a warning on every call.
    profile = dict(backend.profile)
    refusals = ("openai_supports_reasoning", "anthropic_disallows_sampling_settings")
    return not any(profile.get(refusal) for refusal in refusals)


def write_parameters(question: Question, backend: Backend, *, is_prompted: bool) -> ModelRequestParameters:
    """The answer's schema: as a constraint where the provider takes one, else in words at the end of the prompt."""
    if question.answer_schema is None:
        return ModelRequestParameters()
    can_constrain = backend.profile.get("supports_json_schema_output", False)
    return ModelRequestParameters(
        output_mode="native" if can_constrain and not is_prompted else "prompted",
        output_object=OutputObjectDefinition(name=_ANSWER, json_schema=deepcopy(question.answer_schema)),
    )


def read_text(response: ModelResponse) -> str:
    """What the model said, without what it thought."""
    return storable("".join(part.content for part in response.parts if isinstance(part, TextPart)))
