"""A plugin for agents on google-adk (1.39 and later) that closes the holes in its tool confirmation.

    from google.adk.apps import App
    from adk_confirm import ConfirmationPlugin

    app = App(name="oncall", root_agent=root_agent, plugins=[ConfirmationPlugin(secret=…)])

- A denied call does not run, whatever its predicate says later, and also if the tool itself asked.
- The reason of a denial reaches the model.
- Edited arguments reach the tool: an approval's payload replaces the arguments that it names, unless the tool itself
  asked for a payload.
- An error of a confirmed tool is its result. Without that the call stays open, and another approval runs it again.
- A call that has its result does not run again, and runs of one session wait for each other. Both hold only
  inside one process with one event loop; several servers on one database need sticky sessions.
- Requests announce all this, with the tools' schemas, in their events' `customMetadata`: the bot then offers Edit.
- What people are shown is what the tool gets. A call with arguments that google-adk would drop or convert is refused to
  the model. The tool's defaults are announced, and so shown. A request that a session has twice, and a call that
  would run with other arguments than people saw, is refused.
- A model can't ask in the framework's name, nor say what a tool returned: calls named as google-adk's own (`adk_…`) and
  results are taken out of its answers.
- With a secret that the bot knows too, answers that it did not sign are refused: to confirmations, to a workflow's
  nodes, to questions, to sign-ins, and results of long-running tools, except those named in `open_tools`. Slack has no
  sign-ins: name `adk_request_credential` there to let people sign in with another client. A signature counts once, for
  ten minutes. The secret is given as `secret`, or is in the environment as ADK_CONFIRM_PLUGIN_SECRET, for `adk
  api_server --extra_plugins adk_confirm.ConfirmationPlugin`. While it changes there may be two, the new one first; in
  the environment the old one is ADK_CONFIRM_PLUGIN_SECRET_BEFORE. `unsigned=True` accepts every answer.

Put it first among an app's plugins, or right after google-adk's `ToolCallIntegrityPlugin`: google-adk stops asking
plugins at the first one that answers.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from secrets import token_hex
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event import Event
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_confirm.runtime.adk.binding import bind, schema_of
from adk_confirm.runtime.adk.session_requests import (
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
    times_answered,
)
from adk_confirm.runtime.adk.signing import (
    PLUGIN,
    REQUEST_INPUT,
    SECRET_BEFORE_ENV,
    SECRET_ENV,
    UNSIGNED,
    WORKFLOW_CONFIRMATION,
    Announcement,
    PluginSays,
    SignedAnswer,
    SignedResponse,
    Turn,
    Turns,
    announcement_about,
    announcement_metadata,
    checked_secret,
    expiry_of,
    plugin_question,
    signatures_in,
)
from adk_confirm.runtime.calls.call import REJECTED
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.errors import Forbidden, Invalid
from adk_confirm.runtime.jsontypes import JsonObject, as_json, canonical, same
from adk_confirm.runtime.run.execute import preview_of
from adk_confirm.runtime.signature import Signature
from adk_confirm.runtime.tool import call_with_some, preview_in_time
from adk_confirm.runtime.wire import USER

log = logging.getLogger(__name__)

HELD_RESPONSE = "This tool call requires confirmation, please approve or reject."
"""google-adk's response to a call that its gate holds."""


PREVIEW_CHANGED = (
    "What this call would do has changed since it was approved. Nothing ran: call it again, so that people see it anew."
)
OTHER_CALL = "This is another call than the one that people were asked about, so it did not run."
FORGED = "({name} was taken out: only the framework writes this. Nobody was asked, and nothing ran.)"
CHOICE = "get_user_choice"


class ConfirmationPlugin(BasePlugin):
    def __init__(
        self,
        *,
        secret: str | Sequence[str] | None = None,
        unsigned: bool = False,
        name: str = "adk_confirm",
        open_tools: Sequence[str] = (),
        previews: Mapping[str, Callable[..., object]] | None = None,
        preview_timeout: float = 10.0,
    ) -> None:
        """`unsigned`: every answer counts, whoever sends it. `open_tools`: long-running tools whose results may come
        from others than the bot, and `adk_request_credential` if people may sign in with another client. `previews`: by
        tool, a function of some of its arguments that says what a call would do and has no effect. People see that with
        the call. If it is different when the call would start, nothing runs, and the agent is told to call again."""
        super().__init__(name=name)
        if unsigned and secret is not None:
            raise Invalid("ConfirmationPlugin takes a secret or unsigned=True, not both.")
        self.secrets = () if unsigned else _secrets(secret)
        self._open_tools = frozenset(open_tools)
        self._previews = {tool: Signature.of(function) for tool, function in (previews or {}).items()}
        self._preview_timeout = preview_timeout
        self._turns = Turns()
        self._used: dict[str, float] = {}  # signatures, and until when they would be good

    # One run at a time

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> types.Content | None:
        """Checks a message before anything is stored, so that a refused one leaves no trace in the session."""
        arrived = time.time()  # it may wait long for its turn
        self._say_that_it_is_here(invocation_context.session, user_message)
        await self._take_turn(invocation_context)
        try:
            signatures = [*self._check_answers(invocation_context.session, user_message)]
            signatures += self._check_responses(invocation_context, user_message)
            self._use(invocation_context.session, signatures, arrived)
        except BaseException:
            self._leave(invocation_context)
            raise
        return None

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        await self._take_turn(invocation_context)
        try:
            self._check_node_answers(invocation_context.session)
        except BaseException:
            self._leave(invocation_context)
            raise

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        self._leave(invocation_context)

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:  # noqa: ARG002
        """Ends the run's turn. google-adk 2 reports failed runs here; in 1.39 the end of the task does this."""
        self._leave(invocation_context)

    def _leave(self, invocation_context: InvocationContext) -> None:
        self._turns.leave(_key(invocation_context.session), invocation_context)

    def _turn(self, session: Session) -> Turn:
        return self._turns.of(_key(session))

    async def _take_turn(self, invocation_context: InvocationContext) -> None:
        if not await self._turns.take(_key(invocation_context.session), invocation_context):
            return
        # The session was loaded before this run had its turn, and may have changed since, even if there was no wait.
        session = invocation_context.session
        fresh = await invocation_context.session_service.get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id
        )
        if fresh is not None:
            for field in type(session).model_fields:
                setattr(session, field, getattr(fresh, field))
            session.__pydantic_private__ = fresh.__pydantic_private__

    def _say_that_it_is_here(self, session: Session, message: types.Content) -> None:
        """Answers the bot's question whether the plugin is here: refuses it, as google-adk would without the plugin."""
        for call in (part.function_call for part in message.parts or ()):
            if call is not None and call.name == PLUGIN:
                question = plugin_question(**_place(session))
                signed = str((call.args or {}).get("signed"))
                fits = any(question.signed_by(secret, signed) for secret in self.secrets)
                if fits and expiry_of(signed) >= time.time():
                    raise Forbidden(PluginSays.FITS)
                raise Forbidden(UNSIGNED if self.secrets else PluginSays.OPEN)

    # Answers as they come

    def _check_answers(self, session: Session, message: types.Content) -> Iterator[object]:
        """Yields the signatures of the answers."""
        refuse_results(session, message)
        for response in answers_in(message):
            request = response.id or ""
            about = find_request(session, request)
            if about is not None and about.is_from_node and not self.secrets:
                continue  # a node's answer: without a secret, google-adk's own rules for it count
            confirmation = read_answer(response)
            self._require_signed(session, about, confirmation, times_answered(session, request))
            yield confirmation.hint
            if about is not None:
                about.edit_in(confirmation)

    def _check_responses(self, invocation_context: InvocationContext, message: types.Content) -> Iterator[object]:
        """Checks answers to other requests than confirmations, and yields their signatures."""
        session, config = invocation_context.session, invocation_context.run_config
        signatures = signatures_in(config.custom_metadata if config is not None else None)
        pauses = Pauses.of(session)
        for given in responses_to_pauses(message) if self.secrets else ():
            about = pauses.about(given.id)
            if not self._is_open(about):
                self._check_response(session, about, given, signatures)
                yield signatures.get(given.id or "")

    def _is_open(self, about: Pause | None) -> bool:
        return about is not None and about.name in self._open_tools and about.name != REQUEST_INPUT

    def _check_response(
        self, session: Session, about: Pause | None, given: types.FunctionResponse, signatures: JsonObject
    ) -> None:
        if about is not None:
            response = SignedResponse(
                **_place(session),
                request=about.signed_name,
                name=given.name or "",
                response=given.response or {},
                nth=about.answered,
            )
            if any(response.signed_by(secret, signatures.get(about.call_id)) for secret in self.secrets):
                return
        raise _unsigned(session, given.id)

    def _check_node_answers(self, session: Session) -> None:
        """Checks the session's answers for a workflow's node: the node would run with any of them, and not every node
        asks plugins first. These answers may be old."""
        for pause, answer, signatures in answers_to_pauses(session) if self.secrets else ():
            if not self._is_open(pause):
                self._check_response(session, pause, answer, signatures)
        for about, given, nth in answers_to_nodes(session) if self.secrets else ():
            self._require_signed(session, about, read_answer(given), nth)

    def _require_signed(
        self, session: Session, about: SessionRequest | None, confirmation: ToolConfirmation, nth: int
    ) -> None:
        if not self.secrets:
            return
        if about is not None:
            verdict = SignedAnswer(
                **_place(session),
                request=about.signed_name,
                tool=about.tool,
                arguments=about.arguments,
                defaults=about.defaults,
                confirmed=confirmation.confirmed,
                payload=confirmation.payload,
                preview=about.preview,
                nth=nth,
            )
            if any(verdict.signed_by(secret, confirmation.hint) for secret in self.secrets):
                return
        raise _unsigned(session, None if about is None else about.request)

    def _use(self, session: Session, signatures: Sequence[object], now: float) -> None:
        """Accepts signatures for this run. Each counts once while it is good, also if the session was made anew."""
        accepted = self._turn(session).accepted
        fresh = {str(one): expiry_of(str(one)) for one in signatures if one not in accepted} if self.secrets else {}
        if any(one in self._used or until < now for one, until in fresh.items()):
            raise _unsigned(session, None)
        self._used = {one: until for one, until in self._used.items() if until >= time.time()} | fresh
        accepted.update(fresh)

    # What a model writes

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Takes the framework's calls, and results of tools, out of a model's answer. This is done in place, so that
        later plugins are called."""
        parts = (llm_response.content.parts if llm_response.content is not None else None) or []
        suspect = [at for at, part in enumerate(parts) if part.function_response is not None or _is_googles(part)]
        agent = callback_context._invocation_context.agent
        if not suspect or not isinstance(agent, LlmAgent):
            return
        tools = await agent.canonical_tools(ReadonlyContext(callback_context._invocation_context))
        for at in suspect:
            result, call = parts[at].function_response, parts[at].function_call
            written = result or call
            if written is not None and (result or written.name not in {tool.name for tool in tools}):
                log.warning("a model wrote %s, which only the framework does: taken out", written.name)
                parts[at] = types.Part(text=FORGED.format(name=written.name))

    # The call, once it is answered

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """The result to use instead of running the tool. None if it may run with these arguments."""
        confirmation, call_id = tool_context.tool_confirmation, tool_context.function_call_id
        session, node = tool_context.session, getattr(tool_context, "node_path", None)
        try:
            if confirmation is None:
                # A long-running tool has begun by the time people are asked. A workflow's node asks without a result.
                begins = tool.is_long_running and tool.name != CHOICE  # the choice is a question, shown whole
                asking = call_id or "" if begins else f"{WORKFLOW_CONFIRMATION}{node}"
                if begins or getattr(tool, "_require_confirmation", False):
                    bound = Announcement(gated=False, signed=bool(self.secrets), defaults=bind(tool, tool_args))
                    self._turn(session).asking[asking] = bound
                return None
            # A workflow runs a tool with a new call id each time.
            about = find_request_for_call(session, call_id or "")
            about = about or (find_request(session, f"{WORKFLOW_CONFIRMATION}{node}") if node else None)
            if about is not None and (done := result_of(session, about)) is not None:
                log.warning("%s (%s) was answered again and has its result: it is not run again", tool.name, call_id)
                return done
            # Signatures are checked once more: an answer may get into a session in other ways than by a message.
            nth = 0 if about is None else times_answered(session, about.request) - 1
            self._require_signed(session, about, confirmation, nth)
            self._use(session, [confirmation.hint], time.time())
            if not confirmation.confirmed:
                reason = None if about is None else about.reason(confirmation)
                return {"error": REJECTED, "reason": reason} if reason else {"error": REJECTED}
            if about is not None:
                _refuse_other_call(tool, tool_args, about)
                tool_args.update(edit := about.edit_in(confirmation) or {})
                _refuse_unseen(edit, about.defaults, bind(tool, tool_args))
                seen = Preview.of(about.preview)
                if seen is not None and not seen.same(await self._preview(tool, tool_args, tool_context)):
                    raise Forbidden(PREVIEW_CHANGED)
            bind(tool, tool_args)
        except (Forbidden, Invalid) as error:
            log.warning("%s (%s): %s", tool.name, call_id, error)
            return {"error": str(error)}
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
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        result: Any,
    ) -> dict[str, Any] | None:
        call_id, asking = tool_context.function_call_id or "", tool_context.actions.requested_tool_confirmations
        if call_id not in asking or tool_context.tool_confirmation is not None:
            return None
        try:
            defaults = bind(tool, tool_args)
        except Invalid as error:
            del asking[call_id]
            tool_context.actions.skip_summarization = None
            return {"error": str(error)}
        gated = isinstance(result, dict) and result.get("error") == HELD_RESPONSE
        edits = gated or asking[call_id].payload is None
        preview = await self._preview(tool, tool_args, tool_context)
        edits = edits and preview is None  # nobody would see what the edited call does: the agent has to call again
        schema = schema_of(tool) if edits else None
        self._turn(tool_context.session).asking[call_id] = Announcement(
            gated=gated,
            edits=edits,
            signed=bool(self.secrets),
            schema=schema,
            defaults=defaults,
            preview=preview.as_json() if preview else None,
        )
        return None

    async def _preview(self, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext) -> Preview | None:
        function = self._previews.get(tool.name)
        if function is None:
            return None

        async def look() -> object:
            gets = copy.deepcopy({**tool_args, **bind(tool, tool_args)})
            return await call_with_some(function, gets, _for_reading(tool_context))

        return await preview_of(preview_in_time(look(), self._preview_timeout), tool.name)

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> None:
        """Changes the event's metadata in place. If it returned another event, later plugins would not be called."""
        waits = set(event.long_running_tool_ids or ())
        requests = [one for one in requests_in_event(event) if one.request in waits]
        responses = [one.id or "" for one in event.get_function_responses() if event.author != USER]
        asking = self._turn(invocation_context.session).asking if requests or responses else {}
        calls = [*(one.call_id for one in requests), *responses]
        announcements = {call_id: asking.pop(call_id) for call_id in calls if call_id in asking}
        if self.secrets and event.author != USER:
            others = [*(one.request for one in requests if one.is_from_node), *(id_ for id_, _ in pausing_calls(event))]
            announcements = dict.fromkeys(others, Announcement(gated=False, bound=False, signed=True)) | announcements
        if announcements and not any(announcement_about(event.custom_metadata, call_id) for call_id in announcements):
            event.custom_metadata = {**(event.custom_metadata or {}), **announcement_metadata(announcements)}


def _refuse_other_call(tool: BaseTool, tool_args: dict[str, Any], about: SessionRequest) -> None:
    """Refuses a call that differs in any way from the one that people were asked about."""
    name = about.tool if about.is_from_node else tool.name  # a node may have a name of its own
    is_other = not same(as_json([about.tool, about.arguments]), as_json([name, tool_args]))
    if is_other or (about.announcement is not None and not same(about.defaults, bind(tool, tool_args))):
        raise Forbidden(OTHER_CALL)


def _refuse_unseen(edit: JsonObject, seen: JsonObject, completed: JsonObject) -> None:
    """Refuses an edit that the tool would complete with values that people did not see."""
    for name in edit:
        if name in completed and not same(completed[name], seen.get(name)):
            raise Invalid(f"{name!r} would be completed. Write the whole value, as {canonical(completed[name])}.")


def _for_reading(context: ToolContext) -> ReadonlyContext:
    """The context without actions, on a copy of the session's state, so that a preview changes nothing."""
    here = context._invocation_context
    session = here.session.model_copy(update={"state": copy.deepcopy(here.session.state)})
    return ReadonlyContext(here.model_copy(update={"session": session}))


def _is_googles(part: types.Part) -> bool:
    """Whether the part is a call with a name by which google-adk pauses."""
    name = (part.function_call and part.function_call.name) or ""
    return name.startswith("adk_") or name == CHOICE


def _unsigned(session: Session, request: str | None) -> Forbidden:
    log.warning("an answer to %s in session %s was not signed for this, and is refused", request, session.id)
    return Forbidden(UNSIGNED)


def _place(session: Session) -> dict[str, Any]:
    """The session for which a signature is made."""
    return {"app": session.app_name, "user": session.user_id, "session": session.id}


def _key(session: Session) -> tuple[str, str, str]:
    return session.app_name, session.user_id, session.id


def _secrets(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """The secrets. The first is used for signing."""
    if given is not None:
        if not given and not isinstance(given, str):
            raise Invalid("ConfirmationPlugin has an empty list of secrets. Only unsigned=True accepts every answer.")
        return tuple(checked_secret(secret) for secret in ((given,) if isinstance(given, str) else given))
    found = tuple(_usable_secret(name) for name in (SECRET_ENV, SECRET_BEFORE_ENV) if name in os.environ)
    return found or (_usable_secret(SECRET_ENV),)


def _usable_secret(name: str) -> str:
    """The secret, or a random one in place of one that is missing or too short, so that every answer is refused. It
    must not raise: `adk api_server` goes on without a plugin that can't be made."""
    try:
        return checked_secret(os.environ.get(name, ""), name)
    except Invalid as error:
        log.error("%s Until it has one, ConfirmationPlugin refuses every answer; unsigned=True accepts all.", error)
        return token_hex()
