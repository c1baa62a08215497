"""A plugin for agents on google-adk (1.39 and later) that closes the holes in its tool confirmation.

    from google.adk.apps import App
    from runtime.adk_plugin import ConfirmationPlugin

    app = App(name="oncall", root_agent=root_agent, plugins=[ConfirmationPlugin()])

- A denied call does not run: whatever its predicate says by then, and also where the tool itself asked.
- The reason of a denial reaches the model.
- Edited arguments reach tools with `require_confirmation`: an approval's payload replaces the arguments that it names.
- What a confirmed tool fails at is its result; without that the call stays open, and approving again runs it again.
- A call that has its result does not run again, and runs of one session wait for each other. Both hold within one
  process and event loop; several servers on one database need sticky sessions.
- Requests announce all this, with the tools' schemas, in their events' `customMetadata`: the bot then offers Edit.
- With a `secret` that the bot knows too (`[agent] secret_env`), answers that it did not sign are refused.

This module alone imports google-adk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from runtime.amending import refuse_unfit
from runtime.call import REJECTED
from runtime.errors import Forbidden
from runtime.jsontypes import JsonObject
from runtime.signing import Announcement, Verdict, announced, announcing
from runtime.turns import Turns
from runtime.wire import REQUEST_CONFIRMATION

log = logging.getLogger(__name__)

WAITS = "This tool call requires confirmation, please approve or reject."


class ConfirmationPlugin(BasePlugin):
    def __init__(self, *, secret: str | None = None, name: str = "adk_confirm") -> None:
        super().__init__(name=name)
        self._secret = secret
        self._turns = Turns()
        self._asking: dict[str, Announcement] = {}  # by the call's id, until its request's event passes

    # One run at a time

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> types.Content | None:
        """Before anything is stored: a refusal here leaves no trace in the session."""
        await self._take_turn(invocation_context)
        try:
            return self._checked(invocation_context.session, user_message)
        except BaseException:
            self._turns.leave(_key(invocation_context), invocation_context)
            raise

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        await self._take_turn(invocation_context)

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        self._turns.leave(_key(invocation_context), invocation_context)

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:  # noqa: ARG002
        """google-adk 2 tells of a run that failed; in 1.39 the end of its task does."""
        self._turns.leave(_key(invocation_context), invocation_context)

    async def _take_turn(self, invocation_context: InvocationContext) -> None:
        if not await self._turns.take(_key(invocation_context), invocation_context):
            return
        # While this run waited the session went on: what was loaded before is not what it is now.
        session = invocation_context.session
        fresh = await invocation_context.session_service.get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id
        )
        if fresh is not None:
            for field in type(session).model_fields:
                setattr(session, field, getattr(fresh, field))
            session.__pydantic_private__ = fresh.__pydantic_private__

    # Answers as they come

    def _checked(self, session: Session, message: types.Content) -> types.Content | None:
        for response in _answers(message):
            given = response.response or {}
            self._check_signature(session, response.id or "", given)
            payload = given.get("payload")
            asked = _asked(session, response.id or "")
            if given.get("confirmed") is True and asked is not None and isinstance(payload, dict):
                call_id, announcement = asked
                if announcement.gated:
                    refuse_unfit(payload, announcement.schema, call_id)
        return None

    def _check_signature(self, session: Session, request: str, given: dict[str, Any]) -> None:
        if self._secret is None:
            return
        verdict = Verdict(
            session.app_name, session.user_id, session.id, request, given.get("confirmed") is True, given.get("payload")
        )
        if not verdict.signed_by(self._secret, given.get("hint")):
            raise Forbidden("This answer is not signed: calls of this agent are approved and denied in Slack only.")

    # The call, once it is answered

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        confirmation, call_id = tool_context.tool_confirmation, tool_context.function_call_id
        if confirmation is None or call_id is None:
            return None
        done = _result(tool_context.session, call_id)
        if done is not None:
            log.warning("%s (%s) was answered again and has its result: it is not run again", tool.name, call_id)
            return done
        payload = confirmation.payload
        if not confirmation.confirmed:
            reason = payload.get("reason") if isinstance(payload, dict) else None
            return {"error": REJECTED, "reason": reason} if reason else {"error": REJECTED}
        announcement = _announcement(tool_context.session, call_id)
        if announcement is not None and announcement.gated and isinstance(payload, dict):
            tool_args.update(payload)
        return None

    async def on_tool_error_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],  # noqa: ARG002
        tool_context: ToolContext,
        error: Exception,
    ) -> dict[str, Any] | None:
        confirmation = tool_context.tool_confirmation
        if confirmation is None or isinstance(error, asyncio.CancelledError):
            return None
        log.warning("%s failed after its approval", tool.name, exc_info=error)
        return {"error": f"{type(error).__name__}: {error}"}

    # What is asked

    async def after_tool_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],  # noqa: ARG002
        tool_context: ToolContext,
        result: Any,
    ) -> None:
        call_id = tool_context.function_call_id
        if call_id and call_id in tool_context.actions.requested_tool_confirmations:
            gated = isinstance(result, dict) and result.get("error") == WAITS
            self._asking[call_id] = Announcement(
                gated=gated, signed=self._secret is not None, schema=_schema(tool) if gated else None
            )

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:  # noqa: ARG002
        asked = [call_id for _, call_id in _requests(event)]
        told = {call_id: self._asking.pop(call_id) for call_id in asked if call_id in self._asking}
        if not told:
            return None
        metadata = {**(event.custom_metadata or {}), **announcing(told)}
        changed: Event = event.model_copy(update={"custom_metadata": metadata})
        return changed


def _key(invocation_context: InvocationContext) -> tuple[str, str, str]:
    session = invocation_context.session
    return session.app_name, session.user_id, session.id


def _answers(message: types.Content) -> Iterator[types.FunctionResponse]:
    for part in message.parts or ():
        if part.function_response is not None and part.function_response.name == REQUEST_CONFIRMATION:
            yield part.function_response


def _requests(event: Event) -> Iterator[tuple[str, str]]:
    """The requests in an event: their ids, and those of the calls that they are about."""
    for call in event.get_function_calls():
        original = (call.args or {}).get("originalFunctionCall")
        if call.name == REQUEST_CONFIRMATION and call.id and isinstance(original, dict) and original.get("id"):
            yield call.id, original["id"]


def _asked(session: Session, request: str) -> tuple[str, Announcement] | None:
    """The call that a request is about, and what was announced of it."""
    for event in session.events:
        for request_id, call_id in _requests(event):
            found = announced(event.custom_metadata, call_id) if request_id == request else None
            if found is not None:
                return call_id, found
    return None


def _announcement(session: Session, call_id: str) -> Announcement | None:
    return next((found for event in session.events if (found := announced(event.custom_metadata, call_id))), None)


def _result(session: Session, call_id: str) -> dict[str, Any] | None:
    """What the call came to, once an answer stands before it."""
    request = next((one for event in session.events for one, call in _requests(event) if call == call_id), None)
    answered = False
    for event in session.events:
        for response in event.get_function_responses():
            if event.author == "user":
                answered = answered or response.id == request
            elif answered and response.id == call_id:
                found: dict[str, Any] | None = response.response
                return found
    return None


def _schema(tool: BaseTool) -> JsonObject | None:
    """The tool's parameters as JSON schema, whichever way it declares them."""
    declaration = tool._get_declaration()
    if declaration is None:
        return None
    if declaration.parameters_json_schema is not None:
        schema: JsonObject = declaration.parameters_json_schema
        return schema
    if declaration.parameters is None:
        return None
    plain: JsonObject = declaration.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain
