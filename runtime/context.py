"""The context of a run, as tools, predicates and instructions see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

from adk_confirm.runtime.calls.call import HeldRequest
from adk_confirm.runtime.errors import Busy, Invalid
from adk_confirm.runtime.fence import NotBegun
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_json
from adk_confirm.runtime.wire import EventActions, ToolConfirmation


def lost_result(tool: str, why: str) -> JsonObject:
    """The result of a tool that returned what can't be stored. It took effect, so no error may invite a second try."""
    return {"status": f"{tool} ran to its end. What it returned is lost: {why}"}


class SessionState(MutableMapping[str, Json]):
    """The session's state. Changes to it become the event's `stateDelta`, and are seen at once by tools that run at the
    same time, which share `state`."""

    def __init__(self, state: JsonObject, delta: JsonObject) -> None:
        self._state, self._delta = state, delta

    def __getitem__(self, key: str) -> Json:
        return self._state[key]

    def __setitem__(self, key: str, value: Json) -> None:
        self._state[key] = self._delta[key] = as_json(value)

    def __delitem__(self, key: str) -> None:
        """In ADK's delta, a deleted key is None."""
        del self._state[key]
        self._delta[key] = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)

    def to_dict(self) -> JsonObject:
        return dict(self._state)


class ReadonlyContext:
    """What an instruction may read."""

    def __init__(
        self, *, agent_name: str, invocation_id: str, user_id: str, session_id: str, state: JsonObject
    ) -> None:
        self.agent_name = agent_name
        self.invocation_id = invocation_id
        self.user_id = user_id
        self.session_id = session_id
        self.state = SessionState(state, {})


class ToolContext(ReadonlyContext):
    """What a tool gets as `tool_context` (or any parameter annotated `ToolContext`)."""

    _may_begin: Callable[[], bool] | None = None

    def __init__(
        self,
        *,
        agent_name: str,
        invocation_id: str,
        user_id: str,
        session_id: str,
        state: JsonObject,
        function_call_id: str,
        idempotency_key: str,
        attempt: int = 0,
        tool_confirmation: ToolConfirmation | None = None,
        answer: Json = None,
        request_id: str | None = None,
        may_begin: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(
            agent_name=agent_name, invocation_id=invocation_id, user_id=user_id, session_id=session_id, state=state
        )
        self.actions = EventActions()
        self.state = SessionState(state, self.actions.state_delta)
        self.function_call_id = function_call_id
        self.idempotency_key = idempotency_key
        self.attempt = attempt
        self.tool_confirmation = tool_confirmation
        self.answer = answer
        """What somebody answered to `request_input`; None before that."""
        self.asked: HeldRequest | None = None
        self.asks_input = False
        self._request_id = request_id
        self._may_begin = may_begin

    def begins(self) -> None:
        """The last check before a tool's effect. Raises `NotBegun` if its process stood still since the store said that
        the tool may begin."""
        if self._may_begin is not None and not self._may_begin():
            raise NotBegun(Busy("The process stood still before the tool began."))

    def request_confirmation(self, *, hint: str | None = None, payload: object = None) -> None:
        """Asks people before the tool goes on. The tool should then return; it is called again with
        `tool_confirmation`.

        `payload` is the form that the answer fills in: JSON, or a pydantic model, whose schema is kept for forms.
        """
        if self._request_id is None:
            raise Invalid("A predicate or an instruction cannot ask for a confirmation; only a tool's body can.")
        schema: JsonObject | None = None
        if isinstance(payload, type) and issubclass(payload, BaseModel):
            schema, payload = payload.model_json_schema(), None
        elif isinstance(payload, BaseModel):
            schema = type(payload).model_json_schema()
        self.asks_input = False
        self.asked = HeldRequest(
            request_id=self._request_id,
            hint=str(as_json(str(hint or ""))),
            payload=None if payload is None else as_json(payload),
            payload_schema=schema,
        )

    def request_input(self, message: str, *, schema: object = None) -> None:
        """Asks people a question. The tool should then return; it is called again with the answer in `answer`.

        `schema` describes the answer: a JSON schema, a pydantic model, or a type such as `int` or `list[str]`. Without
        one, the answer is a text.
        """
        if self._request_id is None:
            raise Invalid("A predicate or an instruction cannot ask people; only a tool's body can.")
        self.asks_input = True
        self.asked = HeldRequest(
            request_id=self._request_id, hint=str(as_json(str(message))), payload_schema=_schema_of(schema)
        )


def _schema_of(schema: object) -> JsonObject | None:
    if schema is None:
        return None
    try:
        kind: Any = schema  # pydantic says whether it is a type
        found = as_json(schema) if isinstance(schema, dict) else TypeAdapter(kind).json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError) as error:
        raise Invalid(f"{schema!r} is not a schema: give a JSON schema, a pydantic model or a type.") from error
    return found if isinstance(found, dict) else None
