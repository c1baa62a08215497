"""Agent sessions and suggested prompts. Slack documents them for apps that are declared as agents."""

from __future__ import annotations

from typing import get_args

from adk_confirm.sandbox.methods.call import Call, Method, Methods
from adk_confirm.sandbox.reading import JsonObject, as_object, as_text
from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.workspace.records import AgentSession, Channel, SessionStatus

LONGEST_TITLE = 200
MOST_PROMPTS = 4
NO_STOP_BUTTON = "missing_agent_session_stopped_event_subscription"


def set_status(call: Call) -> JsonObject:
    """Creates the session if the thread has none. Title and initiator count only then."""
    require_agent(call)
    channel, thread_ts = _thread(call)
    status = session_status(call.args.required("status"))
    title, initiator = call.args.text("title"), call.args.text("initiator_user_id")
    if len(title) > LONGEST_TITLE:
        raise _invalid("title")
    if initiator and initiator not in channel.members:
        raise ApiRefusal("user_not_in_channel")
    session = channel.sessions.setdefault(thread_ts, AgentSession(status, title, initiator))
    session.status = status
    call.workspace.changes.tell("status", team=channel.team_id, channel=channel.id, ts=thread_ts)
    answer: JsonObject = {"ok": True, "status": status, "title": session.title}
    if "agent_session_stopped" not in call.workspace.app.events:
        answer |= {"warning": NO_STOP_BUTTON, "response_metadata": {"warnings": [NO_STOP_BUTTON]}}
    return answer


def rename(call: Call) -> JsonObject:
    require_agent(call)
    channel, thread_ts = _thread(call)
    title = call.args.required("title")
    if len(title) > LONGEST_TITLE:
        raise _invalid("title")
    session = channel.sessions.get(thread_ts)
    if session is None:
        raise ApiRefusal("session_not_found")
    session.title = title
    call.workspace.changes.tell("status", team=channel.team_id, channel=channel.id, ts=thread_ts)
    return {"ok": True, "title": title}


def suggest_prompts(call: Call) -> JsonObject:
    """An agent's prompts are shown in the direct message. A call that names a thread does nothing, as documented."""
    require_agent(call)
    channel = call.channel("channel_id")
    listed = call.args.json("prompts")
    prompts = [as_object(each) for each in listed] if isinstance(listed, list) else []
    if not prompts or len(prompts) > MOST_PROMPTS:
        raise _invalid("prompts")
    if any(not as_text(each.get("title")) or not as_text(each.get("message")) for each in prompts):
        raise _invalid("prompts")
    if "thread_ts" not in call.args:
        channel.prompts = [(as_text(each["title"]), as_text(each["message"])) for each in prompts]
        call.workspace.changes.tell("status", team=channel.team_id, channel=channel.id)
    return {"ok": True}


def session_status(name: str) -> SessionStatus:
    for status in get_args(SessionStatus):
        if status == name:
            found: SessionStatus = status
            return found
    raise _invalid("status")


def require_agent(call: Call) -> None:
    if not call.workspace.app.is_agent:
        raise ApiRefusal("not_allowed")


def _thread(call: Call) -> tuple[Channel, str]:
    channel, thread_ts = call.writable("channel_id"), call.args.required("thread_ts")
    root = channel.messages.get(thread_ts)
    if root is None or root.is_reply:
        raise ApiRefusal("thread_not_found")
    return channel, thread_ts


def _invalid(name: str) -> ApiRefusal:
    return ApiRefusal("invalid_arguments", messages=[f"[ERROR] not allowed [json-pointer:/{name}]"])


METHODS: Methods = {
    "agents.sessions.setStatus": Method(set_status, "chat:write"),
    "agents.sessions.rename": Method(rename, "chat:write"),
    "assistant.threads.setSuggestedPrompts": Method(suggest_prompts, "assistant:write", per_minute=100),
}
