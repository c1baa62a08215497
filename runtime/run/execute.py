"""Runs one call: asks its gate, makes its preview, checks whether it may still run, and says how it ended. Stores
nothing."""

from __future__ import annotations

import copy
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from adk_confirm.runtime.calls.call import (
    INTERRUPTED,
    Call,
    CallEvent,
    CallState,
    Finish,
    GateKind,
    HeldRequest,
    Hold,
    Lose,
    Refuse,
    Retry,
    default_hint,
    step,
)
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.context import ToolContext, lost_result
from adk_confirm.runtime.errors import ConfirmError, Invalid, message_of
from adk_confirm.runtime.fence import Failed, NotBegun, fenced
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_json, as_object, as_text, canonical, is_larger, same
from adk_confirm.runtime.signature import BadArguments
from adk_confirm.runtime.telemetry import tracing
from adk_confirm.runtime.tool import Declaration, Tool, ToolOutcomeUnknown, bind, checked
from adk_confirm.runtime.wire import Dialect, EventActions, FunctionCall, ToolConfirmation, new_call_id

log = logging.getLogger(__name__)

_TOOK_EFFECT: JsonObject = {"status": "It took effect before the process stopped; its own result is lost."}


@dataclass(frozen=True)
class CallEnvironment:
    """The surroundings of a call: what its tool may know."""

    app: str
    user_id: str
    session_id: str
    state: JsonObject  # a copy, shared by the tools that run at the same time
    dialect: Dialect = "call"
    may_begin: Callable[[], bool] | None = None  # whether a tool may begin that the store says is running

    def context(self, call: Call, *, runs: bool = False) -> ToolContext:
        """For a tool's body (`runs`), or its other functions: these can't ask people, and what they write is lost."""
        asked = call.request
        confirmation = None
        if asked is not None and asked.confirmed is not None and not call.asks_input:
            payload = asked.answer if asked.confirmed else _payload_of_a_denial(asked, call.reason)
            confirmation = ToolConfirmation(hint=asked.hint, confirmed=asked.confirmed, payload=payload)
        return ToolContext(
            agent_name=call.agent,
            invocation_id=call.invocation_id,
            user_id=self.user_id,
            session_id=self.session_id,
            state=self.state if runs else copy.deepcopy(self.state),
            function_call_id=call.id,
            idempotency_key=call.key or call.id,
            attempt=call.attempt,
            may_begin=self.may_begin if runs else None,
            tool_confirmation=confirmation,
            answer=asked.answer if asked is not None and call.asks_input else None,
            request_id=self.request_id(call) if runs else None,
        )

    def request_id(self, call: Call) -> str:
        """The id of a request. In the call dialect it is new. In the response dialect it is the call's id, unless the
        call has asked before: a repeated answer must not answer the next question."""
        return new_call_id() if self.dialect == "call" or call.asked else call.id


async def admit(
    call: Call, tools: Mapping[str, Tool], environment: CallEnvironment, now: float, patience: float
) -> Call:
    """A call that the model made, after its gate: held, ready, or refused at once. From here on the call has the
    arguments with which the tool will run, whatever the model wrote. A held call has no preview yet."""
    tool = tools.get(call.tool)
    if tool is None:
        known = ", ".join(sorted(tools)) or "none"
        return step(call, Refuse(f"There is no tool {call.tool!r}; there are: {known}."), now)
    call = replace(call, tool_schema=tool.declaration.schema)
    try:
        bound = await checked(lambda: bind(tool, call.args), call.tool, patience)
        call = replace(call, args=bound.args, defaults=bound.defaults)
        gated = await fenced(tool.gated(copy.deepcopy(call.args), environment.context(call)), patience)
    except BadArguments as error:
        return step(call, Refuse(str(error)), now)
    except Failed as failed:
        # Fail closed: if a gate fails, the call is refused.
        log.error("the gate of %s failed", call.tool, exc_info=failed.error)
        return step(call, Refuse(f"The gate of {call.tool} failed, so nothing ran: {_words(failed.error)}"), now)
    call = replace(call, title=await _title(call, tool, environment, patience))
    if not gated:
        return call
    asked = HeldRequest(
        request_id=environment.request_id(call),
        hint=_storable_text(str(tool.hint or default_hint(tool.name))),
    )
    return step(call, Hold(asked, GateKind.STATIC), now)


async def _title(call: Call, tool: Tool, environment: CallEnvironment, patience: float) -> str | None:
    """The title that people will see. If none can be made, people are asked without one."""
    title = getattr(tool, "title", None)
    if title is None:
        return None
    try:
        made: str | None = await fenced(title(copy.deepcopy(call.args), environment.context(call)), patience)
        return made
    except Failed as failed:
        log.error("the title of %s failed; its name is shown instead", call.tool, exc_info=failed.error)
        return None


LONGEST_PREVIEW = 100_000
"""Characters, as JSON."""
_LONGEST_FAILURE = 1000


async def make_preview(call: Call, tool: Tool, environment: CallEnvironment) -> Preview | None:
    """The preview that the tool makes of the call. None if the tool has no preview."""
    preview = getattr(tool, "preview", None)
    if preview is None:
        return None
    return await preview_of(preview(copy.deepcopy(call.run_args), environment.context(call)), call.tool)


async def with_preview(call: Call, tool: Tool, environment: CallEnvironment) -> Call:
    """The held call, its request now with the tool's preview."""
    preview = await make_preview(call, tool, environment)
    return replace(call, asked=(*call.asked[:-1], replace(call.asked[-1], preview=preview)))


async def preview_of(making: Awaitable[Json], tool: str) -> Preview | None:
    """The preview, or why it failed: `making` may raise anything, like a tool."""

    async def made() -> Preview | None:
        shows = await making
        if is_larger(shows, LONGEST_PREVIEW, LONGEST_PREVIEW) or len(canonical(shows)) > LONGEST_PREVIEW:
            return Preview(failed=f"The preview has more than {LONGEST_PREVIEW:,} characters, too many to be shown.")
        return None if shows is None else Preview(shows)

    try:
        return await fenced(made())
    except Failed as failed:
        log.info("the preview of %s failed: %s", tool, type(failed.error).__name__)
        return Preview(failed=_words(failed.error)[:_LONGEST_FAILURE])


_MOST_ANEW = 3


async def ask_again(call: Call, tool: Tool, environment: CallEnvironment) -> Hold | Refuse | None:
    """Asks people anew if the preview is not the one that they approved, also because their own edit changed it. After
    three times the call is refused: a preview that is different each time would never let it run."""
    asked = call.request
    if asked is None or asked.preview is None:
        return None
    preview = await make_preview(call, tool, environment)
    if asked.preview.same(preview):
        return None
    before = [one.preview for one in call.asked if one.preview is not None]
    if sum(not one.same(other) for one, other in pairwise(before)) >= _MOST_ANEW:
        return Refuse(f"What {call.tool} would do changed after each approval, {_MOST_ANEW + 1} times. Nothing ran.")
    log.info("what call %s (%s) would do has changed since it was approved: people are asked anew", call.id, call.tool)
    request = environment.request_id(call)
    return Hold(replace(asked, request_id=request, preview=preview, confirmed=None, answer=None, note=None), call.gate)


async def check_runnable(call: Call, tools: Mapping[str, Tool] | None, patience: float) -> Tool | Refuse:
    """Checks again whether the call can run. Hours may have passed since the request: the tool may be gone or
    unreachable, or take other arguments now."""
    if tools is None:
        return Refuse(f"The tools of {call.agent} can't be reached now, so {call.tool} did not run. Try again later.")
    tool = tools.get(call.tool)
    if tool is None:
        return Refuse(f"The tool {call.tool} is not there any more; nothing ran.")
    try:
        bound = await checked(lambda: bind(tool, call.run_args), call.tool, patience)
    except BadArguments as error:
        return Refuse(f"{error} Nothing ran.")
    if not same(bound.args, call.run_args):
        return Refuse(f"{call.tool} has changed: it would run with other arguments now than those shown. Nothing ran.")
    return tool


async def execute(call: Call, tool: Tool, environment: CallEnvironment) -> tuple[CallEvent, JsonObject | None] | None:
    """Runs the tool. If it raises, the error is its result: the model reads it and may react. Also returns its actions
    as JSON, if there are any. None if the tool may not begin any more: nothing ran."""
    context = environment.context(call, runs=True)

    async def runs() -> object:
        with tracing.span(
            f"execute_tool {call.tool}",
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name=call.tool,
            gen_ai__tool__call__id=call.id,
        ):  # a copy, so that the tool can't change the approved arguments
            context.begins()
            return await tool.run(copy.deepcopy(call.run_args), context)

    try:
        returned = await fenced(runs())
    except NotBegun:
        return None
    except Failed as failed:
        if isinstance(failed.error, ToolOutcomeUnknown):
            return Finish({"error": _words(failed.error)}) if call.gate is GateKind.NONE else Lose(), None
        log.info("tool %s raised %s", call.tool, type(failed.error).__name__)
        return Finish({"error": _words(failed.error)}), None
    try:
        value, actions = as_json(returned), _storable_actions(context.actions)
    except Exception as error:  # noqa: BLE001  (a tool may have put anything into its actions)
        value, actions = lost_result(call.tool, _words(error)), None
    if context.asked is not None:
        if context.asks_input:
            return Hold(context.asked, GateKind.INPUT, _as_result(value)), actions
        asked = replace(context.asked, preview=await make_preview(call, tool, environment))
        return Hold(asked, GateKind.DYNAMIC, _as_result(value)), actions
    return Finish(_as_result(value)), actions


def wants_denial(call: Call, tool: Tool | None) -> bool:
    """Whether the call was denied, its tool's body had asked, and the body wants to be called with the denial."""
    denied = call.state is CallState.REFUSED and call.request is not None and call.request.confirmed is False
    return denied and call.gate is GateKind.DYNAMIC and getattr(tool, "on_denied", "refuse") == "call"


async def hear_denial(call: Call, tool: Tool, environment: CallEnvironment) -> Call:
    """The denied call with the function's response to the denial. It stays denied, whatever the function returns."""
    context = environment.context(call, runs=True)

    async def hears() -> Call:
        value = as_json(await tool.run(copy.deepcopy(call.run_args), context))
        return replace(call, result=_as_result(value), actions=_storable_actions(context.actions))

    try:
        return await fenced(hears())
    except Failed as failed:
        log.info("tool %s raised %s over a denial", call.tool, type(failed.error).__name__)
        return replace(call, result={"error": _words(failed.error)})


def _payload_of_a_denial(asked: HeldRequest, reason: str | None) -> Json:
    """The function's own payload, together with the reason."""
    if reason is None or not isinstance(asked.payload, dict | None):
        return asked.payload
    return {**(asked.payload or {}), "reason": reason}


def _storable_actions(actions: EventActions) -> JsonObject | None:
    """The actions if they can be stored. A tool may have put anything into them."""
    if actions == EventActions():
        return None
    given = as_json(actions.model_dump(by_alias=True, exclude_none=True, warnings=False))
    return EventActions.model_validate(given).to_dict()


async def recover(call: Call, tools: Mapping[str, Tool], environment: CallEnvironment, patience: float) -> CallEvent:
    """What to do with a call that ran when its process died. Only its tool can say that running it again is safe."""
    tool = tools.get(call.tool)
    if tool is not None:
        try:
            effect = as_json(
                await fenced(tool.verify(copy.deepcopy(call.run_args), environment.context(call)), patience)
            )
        except (Failed, Invalid) as failed:
            log.error("verify of %s failed: its outcome stays unknown", call.tool, exc_info=failed)
            effect = None
        if effect is False or (effect is None and tool.idempotent):
            return Retry()
        if effect is not None:
            return Finish(_TOOK_EFFECT if effect is True else _as_result(effect))
    return Finish({"error": INTERRUPTED}) if call.gate is GateKind.NONE else Lose()


def _as_result(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {"result": value}


def _words(error: BaseException) -> str:
    text = message_of(error)
    if isinstance(error, ConfirmError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _storable_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


# Why the model makes a call, in its own words: for people, never for the tool

_WHY, _LONGEST_WHY = "why", 300


def asking_why(declared: Declaration) -> Declaration:
    """The tool as the model sees it, with a field for its reason, unless it has such an argument itself."""
    takes = as_object(declared.schema.get("properties"))
    about = "Why you make this call, in one sentence, for the people who decide on it. The tool does not get it."
    field: JsonObject = {"type": "string", "maxLength": _LONGEST_WHY, "description": about}
    return (
        declared
        if _WHY in takes
        else replace(declared, schema={**declared.schema, "properties": {**takes, _WHY: field}})
    )


def without_why(call: Call, tool: Tool) -> Call:
    """The call without the model's reason among its arguments."""
    if _WHY in as_object(tool.declaration.schema.get("properties")):
        return call
    said = as_text(call.args.get(_WHY)).strip()[:_LONGEST_WHY]
    args = {name: value for name, value in call.args.items() if name != _WHY}
    return replace(call, args=args, why=_storable_text(said) or None)


def call_from_model(asked: FunctionCall, *, agent: str, invocation_id: str, turn: int, place: int) -> Call:
    return Call(
        id=asked.id or new_call_id(),
        key=str(uuid.uuid4()),
        tool=asked.name or "",
        args=asked.arguments,
        agent=agent,
        invocation_id=invocation_id,
        turn=turn,
        place=place,
    )
