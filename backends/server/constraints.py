"""Constraints on the form of an answer, in the fields of OpenAI and of vLLM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from backends.server.access import ApiError
from backends.server.messages import EndpointBody, RequestBody


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _decode_schema(value: object) -> object:
    """Return a JSON schema; vLLM accepts it as a string too."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"not a JSON schema: {error}") from None


Strings = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_as_list)]
JsonSchema = Annotated[dict[str, JsonValue], BeforeValidator(_decode_schema)]


class StructuredOutputs(EndpointBody):
    """vLLM's newer form of the `guided_…` fields."""

    # JSON has no optional white space here, and there is one engine.
    fields_without_effect = frozenset({"disable_any_whitespace", "disable_fallback"})

    choice: Strings = ()
    regex: str = ""
    grammar: str = ""
    # pydantic has a method `json`, so the attribute has another name.
    json_schema: Annotated[JsonSchema | None, Field(validation_alias="json")] = None


class NamedJsonSchema(RequestBody):
    """The `json_schema` of a response format."""

    json_schema: Annotated[JsonSchema | None, Field(validation_alias="schema")] = None


class ResponseFormat(RequestBody):
    """OpenAI's `response_format`."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedJsonSchema = NamedJsonSchema()

    @property
    def answer_schema(self) -> dict[str, JsonValue] | None:
        """Return the schema of the answer, if any. Raises ApiError if it is missing."""
        if self.type == "text":
            return None
        if self.type == "json_object":
            return {"type": "object"}
        if self.json_schema.json_schema is None:
            param = "response_format.json_schema.schema"
            raise ApiError(400, f"{param}: Field required", param=param)
        return self.json_schema.json_schema


@dataclass(frozen=True, slots=True)
class OutputConstraint:
    """Constraint on the form of the answer; at most one field is set."""

    choice: tuple[str, ...] = ()
    regex: str = ""
    json_schema: dict[str, JsonValue] | None = None
    grammar: str = ""
