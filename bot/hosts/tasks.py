"""What an event of a run shows to people: text, and tool calls that begin, wait or end. Pure.

All ADKs write the same parts: a call of the model, the request that holds a call, and the response to a call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from blocks.text import fit_visible
from bot.hosts.events import ABORTED
from bot.hosts.host import AgentMessage, MessageDelta, RunOutput, Task, TaskState
from bot.hosts.pauses import OF_THE_FRAMEWORK
from bot.hosts.reading import WAITS
from runtime.confirming import requests_in
from runtime.errors import Invalid
from runtime.jsontypes import Json, JsonObject
from runtime.wire import TRANSFER_TO_AGENT, USER, Event

LONGEST_RESULT = 200
_ENCODER = json.JSONEncoder(ensure_ascii=False)

_NO_TASKS = (TRANSFER_TO_AGENT, "set_model_response")
"""Tools that ADK itself gives to a model. They are not shown."""

_SAID = ("error", "message", "status", "result", "output")
"""The keys of a result with the most useful text, the best first."""


def run_output(event: Event, said: AgentMessage | None) -> Iterator[RunOutput]:
    """What a host yields for one event of a run. `said`: the message in it, if it is complete."""
    if event.partial:
        if event.text:
            yield MessageDelta(author=event.author, text=event.text, invocation_id=event.invocation_id)
        return
    if said is not None:
        yield said
    yield from tasks_in(event)


def tasks_in(event: Event) -> Iterator[Task]:
    """The calls that this event says something about. Later events may say more about the same call."""
    if event.partial or event.author == USER or event.error_code == ABORTED:
        return
    for call in event.calls():
        if call.id and _is_a_task(call.name or ""):
            yield _task(event, call.id, call.name or "", TaskState.RUNNING)
    for response in event.content.responses() if event.content else ():
        if response.id and _is_a_task(response.name or ""):
            yield _ended_task(event, response.id, response.name or "", response.response or {})
    try:
        for request in requests_in(event):
            if request.call.id and _is_a_task(request.call.name or ""):
                yield _task(event, request.call.id, request.call.name or "", TaskState.WAITING)
    except Invalid:
        return  # reading the session finds what is wrong


def one_line(result: Json) -> str:
    """A result as one short line: a text in it that says what happened, or else all of it."""
    if isinstance(result, dict):
        found = next((result[key] for key in _SAID if isinstance(result.get(key), str) and result[key]), None)
        result = result if found is None else found
    if isinstance(result, str):
        text = " ".join(result[: 4 * LONGEST_RESULT].split())
    else:
        text = "".join(islice(_ENCODER.iterencode(result), LONGEST_RESULT))  # a result may be megabytes
    return fit_visible(text, LONGEST_RESULT).text


def _is_a_task(tool: str) -> bool:
    return bool(tool) and not tool.startswith(OF_THE_FRAMEWORK) and tool not in _NO_TASKS


def _ended_task(event: Event, call_id: str, tool: str, result: JsonObject) -> Task:
    error = result.get("error")
    asked = call_id in event.actions.requested_tool_confirmations
    if asked or WAITS in str(error):
        return _task(event, call_id, tool, TaskState.WAITING)
    state = TaskState.DONE if error is None else TaskState.FAILED
    return _task(event, call_id, tool, state, one_line(result) if result else "")


def _task(event: Event, call_id: str, tool: str, state: TaskState, result: str = "") -> Task:
    return Task(call_id=call_id, tool=tool, state=state, result=result, invocation_id=event.invocation_id)
