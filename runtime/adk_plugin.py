"""A plugin for agents on google-adk (1.39 and later) that closes the holes in its tool confirmation.

    from google.adk.apps import App
    from runtime.adk_plugin import ConfirmationPlugin

    app = App(name="oncall", root_agent=root_agent, plugins=[ConfirmationPlugin()])

- A denied call does not run, whatever its predicate says later, and also if the tool itself asked.
- The reason of a denial reaches the model.
- Edited arguments reach the tool: an approval's payload replaces the arguments that it names, unless the tool itself
  asked for a payload.
- An error of a confirmed tool is its result. Without that the call stays open, and another approval runs it again.
- A call that has its result does not run again, and runs of one session wait for each other. Both apply within one
  process and event loop; several servers on one database need sticky sessions.
- Requests announce all this, with the tools' schemas, in their events' `customMetadata`: the bot then offers Edit.
- A request that a session has twice, and a call that would run with other arguments than people saw, is refused.
- With a secret that the bot knows too, answers that it did not sign are refused: to confirmations, to a workflow's
  nodes, to questions, to sign-ins, and results of long-running tools, except those named in `open_tools`. Slack has no
  sign-ins: name `adk_request_credential` there to let people sign in with another client. The secret is given as
  `secret`, or is in the environment as ADK_CONFIRM_PLUGIN_SECRET, for `adk api_server --extra_plugins
  runtime.adk_plugin.ConfirmationPlugin`. While it changes there may be two, the new one first; in the environment the
  old one is ADK_CONFIRM_PLUGIN_SECRET_BEFORE.

Put it first among an app's plugins: google-adk stops asking plugins at the first one that answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from runtime.adk.reading import (
    Pause,
    Pauses,
    SessionRequest,
    answers_in,
    answers_to_nodes,
    answers_to_pauses,
    find_request,
    find_request_for_call,
    pausing_calls,
    read_answer,
    refuse_results,
    requests_in_event,
    responses_to_pauses,
    result_of,
    schema_of,
    times_answered,
)
from runtime.adk.signing import (
    REQUEST_INPUT,
    SECRET_BEFORE_ENV,
    SECRET_ENV,
    UNSIGNED,
    WORKFLOW_CONFIRMATION,
    Announcement,
    SignedAnswer,
    SignedResponse,
    announcement_about,
    announcement_metadata,
    checked_secret,
    signatures_in,
)
from runtime.adk.turns import Turns
from runtime.calls.call import REJECTED
from runtime.context import as_json
from runtime.errors import Forbidden, Invalid
from runtime.jsontypes import JsonObject, same
from runtime.wire import USER

log = logging.getLogger(__name__)

HELD_RESPONSE = "This tool call requires confirmation, please approve or reject."
"""google-adk's response to a call that its gate holds."""


OTHER_CALL = "This is another call than the one that people were asked about, so it did not run."


class ConfirmationPlugin(BasePlugin):
    def __init__(
        self,
        *,
        secret: str | Sequence[str] | None = None,
        name: str = "adk_confirm",
        open_tools: Sequence[str] = (),
    ) -> None:
        """`open_tools`: long-running tools whose results may come from others than the bot, and
        `adk_request_credential` if people may sign in with another client."""
        super().__init__(name=name)
        self.secrets = _secrets(secret)
        self._open_tools = frozenset(open_tools)
        self._turns = Turns()
        self._asking: dict[str, Announcement] = {}  # by the call's id, until its request's event passes

    # One run at a time

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> types.Content | None:
        """Checks a message before anything is stored, so that a refused one leaves no trace in the session."""
        await self._take_turn(invocation_context)
        try:
            self._check_answers(invocation_context.session, user_message)
            self._check_responses(invocation_context, user_message)
        except BaseException:
            self._turns.leave(_key(invocation_context), invocation_context)
            raise
        return None

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        await self._take_turn(invocation_context)
        try:
            self._check_node_answers(invocation_context.session)
        except BaseException:
            self._turns.leave(_key(invocation_context), invocation_context)
            raise

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        self._turns.leave(_key(invocation_context), invocation_context)

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:  # noqa: ARG002
        """Ends the run's turn. google-adk 2 reports failed runs here; in 1.39 the end of the task does this."""
        self._turns.leave(_key(invocation_context), invocation_context)

    async def _take_turn(self, invocation_context: InvocationContext) -> None:
        if not await self._turns.take(_key(invocation_context), invocation_context):
            return
        # It was loaded before this run had its turn, and may have gone on since, whether there was a wait or not.
        session = invocation_context.session
        fresh = await invocation_context.session_service.get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id
        )
        if fresh is not None:
            for field in type(session).model_fields:
                setattr(session, field, getattr(fresh, field))
            session.__pydantic_private__ = fresh.__pydantic_private__

    # Answers as they come

    def _check_answers(self, session: Session, message: types.Content) -> None:
        refuse_results(session, message)
        for response in answers_in(message):
            request = response.id or ""
            about = find_request(session, request)
            if about is not None and about.is_from_node and not self.secrets:
                continue  # google-adk reads it in ways of its own
            confirmation = read_answer(response)
            if not self._is_signed(session, about, confirmation, times_answered(session, request)):
                log.warning("an answer to %s in session %s was not signed, and is refused", request, session.id)
                raise Forbidden(UNSIGNED)
            if about is not None:
                about.edit_in(confirmation)

    def _check_responses(self, invocation_context: InvocationContext, message: types.Content) -> None:
        """Checks answers to other requests than confirmations."""
        if not self.secrets:
            return
        session, config = invocation_context.session, invocation_context.run_config
        signatures = signatures_in(config.custom_metadata if config is not None else None)
        pauses = Pauses.of(session)
        for given in responses_to_pauses(message):
            self._check_response(session, pauses.about(given.id), given, signatures)

    def _check_response(
        self, session: Session, about: Pause | None, given: types.FunctionResponse, signatures: JsonObject
    ) -> None:
        if about is not None and about.name in self._open_tools and about.name != REQUEST_INPUT:
            return
        if about is not None:
            response = SignedResponse(
                app=session.app_name,
                user=session.user_id,
                session=session.id,
                request=about.signed_name,
                name=given.name or "",
                response=given.response or {},
                nth=about.answered,
            )
            if any(response.signed_by(secret, signatures.get(about.call_id)) for secret in self.secrets):
                return
        log.warning("an answer to %s in session %s was not signed, and is refused", given.id, session.id)
        raise Forbidden(UNSIGNED)

    def _check_node_answers(self, session: Session) -> None:
        """Checks the session's answers for a workflow's node: the node would run with any of them, and not every node
        asks plugins first."""
        for pause, answer, signatures in answers_to_pauses(session) if self.secrets else ():
            self._check_response(session, pause, answer, signatures)
        for about, given, nth in answers_to_nodes(session) if self.secrets else ():
            if not self._is_signed(session, about, read_answer(given), nth):
                log.warning("an answer to %s in session %s was not signed: no run", given.id, session.id)
                raise Forbidden(UNSIGNED)

    def _is_signed(
        self, session: Session, about: SessionRequest | None, confirmation: ToolConfirmation, nth: int
    ) -> bool:
        if not self.secrets:
            return True
        if about is None:
            return False
        verdict = SignedAnswer(
            app=session.app_name,
            user=session.user_id,
            session=session.id,
            request=about.signed_name,
            tool=about.tool,
            arguments=about.arguments,
            confirmed=confirmation.confirmed,
            payload=confirmation.payload,
            nth=nth,
        )
        return any(verdict.signed_by(secret, confirmation.hint) for secret in self.secrets)

    # The call, once it is answered

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """The result to use instead of running the tool. None if it may run with these arguments."""
        confirmation, call_id = tool_context.tool_confirmation, tool_context.function_call_id
        if confirmation is None or call_id is None:
            return None
        session = tool_context.session
        try:
            about = find_request_for_call(session, call_id) or _node_request(tool_context)
        except Forbidden as error:
            log.error("%s (%s): %s", tool.name, call_id, error)
            return {"error": str(error)}
        done = None if about is None else result_of(session, about)
        if done is not None:
            log.warning("%s (%s) was answered again and has its result: it is not run again", tool.name, call_id)
            return done
        refused = self._refuse_unsigned(session, about, confirmation) or _refuse_other_call(tool, tool_args, about)
        return refused or _amend(tool_args, about, confirmation)

    def _refuse_unsigned(
        self, session: Session, about: SessionRequest | None, confirmation: ToolConfirmation
    ) -> dict[str, Any] | None:
        """Checks signatures once more: an answer may get into a session in other ways than by a message."""
        nth = 0 if about is None else times_answered(session, about.request) - 1
        if not self._is_signed(session, about, confirmation, nth):
            log.warning("the answer in session %s was not signed: nothing runs", session.id)
            return {"error": UNSIGNED}
        if confirmation.confirmed:
            return None
        reason = None if about is None else about.reason(confirmation)
        return {"error": REJECTED, "reason": reason} if reason else {"error": REJECTED}

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
        call_id = tool_context.function_call_id or ""
        asking = tool_context.actions.requested_tool_confirmations.get(call_id)
        if asking is None or tool_context.tool_confirmation is not None:
            return
        gated = isinstance(result, dict) and result.get("error") == HELD_RESPONSE
        edits = gated or asking.payload is None
        self._asking[call_id] = Announcement(
            gated=gated, edits=edits, signed=bool(self.secrets), schema=schema_of(tool) if edits else None
        )

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> None:  # noqa: ARG002
        """Changes the event in place. If it returned another event, later plugins would not be called."""
        asked = [one.call_id for one in requests_in_event(event) if one.call_id in self._asking]
        announcements = {call_id: self._asking.pop(call_id) for call_id in asked}
        if self.secrets and event.author != USER:
            others = [
                *(one.request for one in requests_in_event(event) if one.is_from_node),
                *(id_ for id_, _ in pausing_calls(event)),
            ]
            announcements |= {one: Announcement(gated=False, signed=True) for one in others if one not in announcements}
        if announcements and not any(announcement_about(event.custom_metadata, call_id) for call_id in announcements):
            event.custom_metadata = {**(event.custom_metadata or {}), **announcement_metadata(announcements)}


def _node_request(tool_context: ToolContext) -> SessionRequest | None:
    """The request of a workflow's node. A workflow runs a tool with a new call id each time."""
    node = getattr(tool_context, "node_path", None)
    return find_request(tool_context.session, f"{WORKFLOW_CONFIRMATION}{node}") if node else None


def _refuse_other_call(
    tool: BaseTool, tool_args: dict[str, Any], about: SessionRequest | None
) -> dict[str, Any] | None:
    """Refuses a call that differs in any way from the one that people were asked about."""
    if about is None:
        return None
    shown, runs = as_json([about.tool, about.arguments]), as_json([tool.name, tool_args])
    if same(shown, runs) or (about.is_from_node and same(as_json(about.arguments), as_json(tool_args))):
        return None  # a node may have a name of its own
    log.error("%s (%s) is another call now than the one that people saw: nothing runs", tool.name, about.call_id)
    return {"error": OTHER_CALL}


def _amend(
    tool_args: dict[str, Any], about: SessionRequest | None, confirmation: ToolConfirmation
) -> dict[str, Any] | None:
    """The arguments with those of an edit."""
    try:
        tool_args.update((about.edit_in(confirmation) if about is not None else None) or {})
    except Invalid as error:
        return {"error": str(error)}
    return None


def _key(invocation_context: InvocationContext) -> tuple[str, str, str]:
    session = invocation_context.session
    return session.app_name, session.user_id, session.id


def _secrets(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """The secrets. The first is used for signing."""
    if given is None:
        return tuple(_usable_secret(name) for name in (SECRET_ENV, SECRET_BEFORE_ENV) if name in os.environ)
    return tuple(checked_secret(secret) for secret in ((given,) if isinstance(given, str) else given))


def _usable_secret(name: str) -> str:
    """The secret, or a random one in place of a secret that is too short, so that every answer is refused. It must not
    raise: `adk api_server` goes on without a plugin that can't be made."""
    try:
        return checked_secret(os.environ[name], name)
    except Invalid as error:
        log.error("%s Until then every answer is refused.", error)
        return token_hex()
