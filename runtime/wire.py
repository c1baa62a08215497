"""ADK's JSON: the messages and events that a runtime and a client exchange.

Written in camelCase, read in camelCase and snake_case. Unknown fields are ignored on reading, so that a newer server
does not break an older client. Nothing here imports google's packages.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject

REQUEST_CONFIRMATION = "adk_request_confirmation"
REQUEST_INPUT = "adk_request_input"
REQUEST_NAMES = (REQUEST_CONFIRMATION, REQUEST_INPUT)
"""What ADK calls the parts that ask people, and those that answer."""
TRANSFER_TO_AGENT = "transfer_to_agent"
USER = "user"

Dialect = Literal["call", "response"]


def new_call_id() -> str:
    return f"adk-{uuid.uuid4()}"


def new_invocation_id() -> str:
    return f"e-{uuid.uuid4()}"


def new_event_id() -> str:
    return str(uuid.uuid4())


LONGEST_ID = 256


@dataclass(frozen=True)
class SessionId:
    """A session's name: the app, its user, and the id."""

    app: str
    user_id: str
    id: str

    def __post_init__(self) -> None:
        for what, text in (("app's name", self.app), ("user's id", self.user_id), ("session's id", self.id)):
            if not is_storable_id(text):
                raise Invalid(
                    f"A {what} is a text of 1 to {LONGEST_ID} characters, none of them NUL: not {text!r:.60}."
                )


def is_storable_id(text: object) -> bool:
    """Whether both databases store the id unchanged."""
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_ID or "\0" in text:
        return False
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


class WireModel(BaseModel):
    """The base of everything that is exchanged. It has camelCase aliases, and accepts either spelling."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        ser_json_bytes="base64",
        val_json_bytes="base64",
        ser_json_inf_nan="null",
    )

    def to_json(self) -> str:
        return self.model_dump_json(by_alias=True, exclude_none=True)

    def to_dict(self) -> dict[str, Any]:
        """The JSON value, for use in a larger one."""
        return self.model_dump(by_alias=True, exclude_none=True, mode="json")


class Blob(WireModel):
    mime_type: str | None = None
    data: bytes | None = None
    display_name: str | None = None


class FileData(WireModel):
    mime_type: str | None = None
    file_uri: str | None = None
    display_name: str | None = None


class FunctionCall(WireModel):
    id: str | None = None
    name: str | None = None
    args: JsonObject | None = None

    @field_validator("args", mode="before")
    @classmethod
    def _typed_values_as_maps(cls, args: object) -> object:
        """A request may be built with its original call typed; as JSON it is a map."""
        if isinstance(args, dict) and any(isinstance(value, BaseModel) for value in args.values()):
            return {
                k: v.model_dump(by_alias=True, exclude_none=True) if isinstance(v, BaseModel) else v
                for k, v in args.items()
            }
        return args

    @property
    def arguments(self) -> JsonObject:
        return self.args or {}


class FunctionResponse(WireModel):
    id: str | None = None
    name: str | None = None
    response: JsonObject | None = None
    will_continue: bool | None = None
    scheduling: str | None = None
    parts: list[JsonObject] | None = None


class Part(WireModel):
    text: str | None = None
    thought: bool | None = None
    thought_signature: bytes | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    executable_code: JsonObject | None = None
    code_execution_result: JsonObject | None = None
    video_metadata: JsonObject | None = None
    tool_call: JsonObject | None = None
    tool_response: JsonObject | None = None
    media_resolution: JsonObject | None = None
    part_metadata: JsonObject | None = None
    audio_transcription: JsonObject | None = None
    media_processing: str | None = None
    speech_metadata: JsonObject | None = None


class Content(WireModel):
    role: str | None = None
    parts: list[Part] | None = None

    @classmethod
    def of_text(cls, text: str, role: str = "user") -> Content:
        return cls(role=role, parts=[Part(text=text)])

    @property
    def text(self) -> str:
        """The text parts, without thoughts."""
        return "".join(p.text for p in self.parts or () if p.text and not p.thought)

    def calls(self) -> Iterator[FunctionCall]:
        return (p.function_call for p in self.parts or () if p.function_call)

    def responses(self) -> Iterator[FunctionResponse]:
        return (p.function_response for p in self.parts or () if p.function_response)


class ToolConfirmation(WireModel):
    """One request (`confirmed` false, with a hint) or one answer, as a tool sees it."""

    hint: str = ""
    confirmed: bool = False
    payload: Json | None = None


class ConfirmationRequest(WireModel):
    """The content of a request, in either dialect."""

    original_function_call: FunctionCall  # with the arguments that the model gave
    tool_confirmation: ToolConfirmation
    defaults: JsonObject | None = None  # the arguments that the model did not give, and the tool gets as well

    def as_part(self, request_id: str, dialect: Dialect) -> Part:
        if dialect == "call":
            return Part(function_call=FunctionCall(id=request_id, name=REQUEST_CONFIRMATION, args=self.to_dict()))
        return Part(
            function_response=FunctionResponse(
                id=request_id, name=REQUEST_CONFIRMATION, response=self.to_dict(), will_continue=True
            )
        )


class EventActions(WireModel):
    skip_summarization: bool | None = None
    state_delta: JsonObject = Field(default_factory=dict)
    artifact_delta: dict[str, int] = Field(default_factory=dict)
    transfer_to_agent: str | None = None
    escalate: bool | None = None
    requested_auth_configs: JsonObject = Field(default_factory=dict)
    requested_tool_confirmations: dict[str, ToolConfirmation] = Field(default_factory=dict)
    end_of_agent: bool | None = None
    agent_state: JsonObject | None = None


class NodeInfo(WireModel):
    path: str = ""


class Event(WireModel):
    """One step of a session, as it is stored and exchanged."""

    content: Content | None = None
    partial: bool | None = None
    turn_complete: bool | None = None
    finish_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    interrupted: bool | None = None
    custom_metadata: JsonObject | None = None
    usage_metadata: JsonObject | None = None
    model_version: str | None = None
    invocation_id: str = ""
    author: str = ""
    actions: EventActions = Field(default_factory=EventActions)
    node_info: NodeInfo = Field(default_factory=NodeInfo)
    long_running_tool_ids: list[str] | None = None
    branch: str | None = None
    id: str = Field(default_factory=new_event_id)
    timestamp: float = Field(default_factory=time.time)

    def calls(self) -> Iterator[FunctionCall]:
        return self.content.calls() if self.content else iter(())

    def responses(self) -> Iterator[FunctionResponse]:
        return self.content.responses() if self.content else iter(())

    @property
    def text(self) -> str:
        return self.content.text if self.content else ""

    def pausing_ids(self) -> set[str]:
        """The ids of the parts that wait for people. A model chooses the name of a call, but only ADK lists its id. An
        id that several parts have counts for none of them, since it is unknown which of them ADK meant."""
        times = Counter([*(call.id for call in self.calls()), *(given.id for given in self.responses())])
        return {one for one in self.long_running_tool_ids or () if times[one] == 1}

    def is_final_response(self) -> bool:
        """Whether the agent has finished, or waits, with this event. ADK's events have a helper of the same name."""
        if self.actions.skip_summarization or self.long_running_tool_ids:
            return True
        if self.error_code and not self.partial and not any(self.calls()):
            return True
        return not (any(self.calls()) or any(self.responses()) or self.partial)


class SessionRecord(WireModel):
    """A session as the REST API shows it."""

    id: str
    app_name: str
    user_id: str
    state: JsonObject = Field(default_factory=dict)
    events: list[Event] = Field(default_factory=list)
    last_update_time: float = 0.0


def json_text(value: Json) -> str:
    """JSON as text for the database, whose own JSON types rewrite numbers."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
