"""What an agent waits for that nobody can answer from Slack, and the sentences that say so. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from adk_confirm.bot.hosts.asked import OF_THE_FRAMEWORK, RESULT, AdkRequest, named, waiting_calls
from adk_confirm.bot.hosts.host import AgentMessage, ServerInfo, UnansweredWait
from adk_confirm.bot.hosts.host_events import HostEvent
from adk_confirm.runtime.adk.signing import REQUEST_CREDENTIAL, REQUEST_INPUT
from adk_confirm.runtime.jsontypes import as_text, canonical
from adk_confirm.runtime.wire import REQUEST_CONFIRMATION, FunctionResponse

NOT_RESUMED = "which AgentTool cannot resume"
"""Part of google-adk's response if something waits inside an agent that is used as a tool."""

UNKNOWN = (
    "The agent waits for {name}, which can't be answered from Slack. To continue, answer it in another client of the "
    "agent, such as its own web page, or tell the agent what to do instead."
)
SIGN_IN = (
    "{name} needs a sign-in before it can run, and the agent asked no client for one, so nobody can answer it, here or "
    "elsewhere. Whoever runs the agent gives the tool its credential; then ask again."
)
AGENT_TOOL = (
    "{name} is an agent used as a tool, and something in it wanted to ask people. google-adk can't resume that, so "
    "nobody was asked and nothing ran. Make {name} a sub-agent instead of an AgentTool."
)
ASKED_TWICE = (
    "{name} asked for one more approval after it had one. google-adk passes only the first on, so nobody can answer "
    "the second. Let it ask for everything at once."
)
ONE_ID = (
    "The agent waits for several calls that have the same id, so nobody can answer for one of them, and none runs. Let "
    "its model give each call an id of its own; then ask again."
)
LONG_RUNNING = "{name} is a long-running operation: it has begun, and its result comes later."


def other_waits_in(event: HostEvent) -> Iterator[tuple[str, UnansweredWait]]:
    """The waits in an event that nobody can answer from here, by call id. An agent that is used as a tool gives up at
    once what waits in it."""
    for call in waiting_calls(event):
        name = call.name or ""
        if name.startswith(OF_THE_FRAMEWORK) and name not in (REQUEST_CONFIRMATION, REQUEST_INPUT):
            yield call.id or "", unanswered(event, call.id or "", name, UNKNOWN.format(name=named(name)))
    for response in event.responses():
        if kind := awaited(event, response):
            text = UNKNOWN.format(name=named(kind)) if kind == response.name else SIGN_IN.format(name=response.name)
            yield pause_of(response.id or ""), unanswered(event, response.id or "", kind, text)
        if response.id and NOT_RESUMED in str((response.response or {}).get(RESULT)):
            text = AGENT_TOOL.format(name=response.name or "it")
            yield f"{response.id}!", unanswered(event, response.id, "AgentTool", text)
    there = {call.id or "" for call in event.calls()} | {given.id or "" for given in event.responses()}
    for shared in there & {*event.long_running_tool_ids} - event.pausing_ids():
        yield f"{shared}!shared", unanswered(event, shared, "one id", ONE_ID)


def awaited(event: HostEvent, response: FunctionResponse) -> str:
    """What a response says that its call waits for, such as `adk_request_credential`. Such a response is no result, and
    what it carries is only for the client that answers it. Empty if the call does not wait, or for a confirmation."""
    call_id, name = response.id or "", response.name or ""
    if call_id in event.actions.requested_auth_configs:
        return REQUEST_CREDENTIAL
    goes_on = response.will_continue or call_id in event.long_running_tool_ids
    return name if goes_on and name.startswith(OF_THE_FRAMEWORK) and name != REQUEST_CONFIRMATION else ""


def pause_of(call_id: str) -> str:
    """The key of what a call waits for after it was approved."""
    return f"{call_id}!waits"


def sign_ins_in(event: HostEvent) -> Iterator[str]:
    """The keys of the calls for which the agent asks its clients for a sign-in."""
    calls = (call.arguments for call in waiting_calls(event) if call.name == REQUEST_CREDENTIAL)
    return (pause_of(as_text(args.get("functionCallId", args.get("function_call_id")))) for args in calls)


def unanswered(event: HostEvent, call_id: str, kind: str, text: str) -> UnansweredWait:
    return UnansweredWait(kind=kind, said=_wait(f"{call_id}@{event.id}", event.author, text, event.invocation_id))


def unfinished_operation(asks: AdkRequest, about: ServerInfo) -> UnansweredWait:
    """A long-running operation that has begun, with its tool's first response. As JSON, since a policy may hide some of
    it by name."""
    request = asks.for_people(about)
    note = canonical(asks.before) if asks.before else ""
    said = _wait(request.request_id, request.agent, LONG_RUNNING.format(name=request.tool), request.invocation_id)
    return UnansweredWait(kind="long running", said=said, request=replace(request, hint=note))


def _wait(key: str, author: str, text: str, invocation: str) -> AgentMessage:
    return AgentMessage(event=f"waits:{key}", author=author, text=text, invocation_id=invocation, failed=True)
