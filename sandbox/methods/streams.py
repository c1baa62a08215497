"""Streamed replies. They start in a thread, grow, and end when they are stopped or do not grow for a while."""

from __future__ import annotations

from adk_confirm.sandbox.blockkit.limits import LONGEST_MARKDOWN, check_blocks, check_metadata
from adk_confirm.sandbox.blockkit.schema import Shape, array, kinds, string
from adk_confirm.sandbox.methods.agents import require_agent, session_status
from adk_confirm.sandbox.methods.call import Call, Method, Methods
from adk_confirm.sandbox.methods.chat import thread_of
from adk_confirm.sandbox.reading import JsonObject, as_text, objects
from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.workspace.messages import Content
from adk_confirm.sandbox.workspace.records import Channel, Message, SessionStatus

_CHUNKS = array(kinds({"markdown_text": Shape({"text": string(LONGEST_MARKDOWN, 0)})}), 100, 0)


def _new_content(call: Call, before: str) -> Content:
    """The message's content with the arguments added to the text so far. Of the chunks, only text is supported."""
    chunks = call.args.json("chunks")
    if "markdown_text" in call.args and chunks is not None:
        raise ApiRefusal("cannot_provide_both_markdown_text_and_chunks")
    wrong = [] if chunks is None else list(_CHUNKS(chunks, "/chunks"))
    if wrong:
        raise ApiRefusal("invalid_chunks", messages=wrong)
    fresh = "".join([call.args.text("markdown_text"), *(as_text(each.get("text")) for each in objects(chunks))])
    if len(fresh) > LONGEST_MARKDOWN:
        raise ApiRefusal("msg_too_long")
    text = before + fresh
    return Content(text=text, blocks=[{"type": "markdown", "text": text}] if text else [], streaming_since=call.now)


def start(call: Call) -> JsonObject:
    channel = call.writable()
    thread_ts = thread_of(call, channel)
    if not thread_ts:
        raise ApiRefusal("invalid_arguments", messages=["[ERROR] missing required field: thread_ts"])
    if channel.kind != "im":
        for name in ("recipient_team_id", "recipient_user_id"):
            if not call.args.text(name):
                raise ApiRefusal(f"missing_{name}")
        call.user(call.args.text("recipient_user_id"))
    held = _new_content(call, "")
    message = call.workspace.messages.post(channel, call.bot, thread_ts=thread_ts, by=call.install, **held)
    _set_status(call, channel, thread_ts, "processing")
    return {"ok": True, "channel": channel.id, "ts": message.ts}


def _set_status(call: Call, channel: Channel, thread_ts: str, status: SessionStatus) -> None:
    """Changes the status of the thread's session, if it has one."""
    session = channel.sessions.get(thread_ts)
    if session is not None:
        session.status = status
        call.workspace.changes.tell("status", team=channel.team_id, channel=channel.id, ts=thread_ts)


def _streaming(call: Call) -> tuple[Channel, Message]:
    channel = call.channel()
    message = call.own(channel, call.args.required("ts"), "message_not_owned_by_app")
    live, since = call.workspace.streams_live, message.streaming_since
    if since is not None and live and call.now - since > live:
        call.workspace.messages.finish(channel, message)
        since = None
    if since is None:
        raise ApiRefusal("message_not_in_streaming_state")
    return channel, message


def append(call: Call) -> JsonObject:
    channel, message = _streaming(call)
    if "markdown_text" not in call.args and "chunks" not in call.args:
        raise ApiRefusal("no_text")
    call.workspace.messages.grow(channel, message, **_new_content(call, message.text))
    return {"ok": True, "channel": channel.id, "ts": message.ts}


def stop(call: Call) -> JsonObject:
    channel, message = _streaming(call)
    below = check_blocks(call.args.json("blocks", "invalid_blocks_format")) if "blocks" in call.args else []
    final = _new_content(call, message.text)
    final["blocks"] = [*final["blocks"], *below]
    if "metadata" in call.args:
        final["metadata"] = check_metadata(call.args.json("metadata", "invalid_metadata_format"))
    if not final["blocks"]:
        raise ApiRefusal("no_text")
    status: SessionStatus = "active"
    if "session_status" in call.args:
        require_agent(call)
        status = session_status(call.args.text("session_status"))
    call.workspace.messages.finish(channel, message, **final)
    _set_status(call, channel, message.thread_ts, status)
    return {"ok": True, "channel": channel.id, "ts": message.ts, "message": message.to_json(with_metadata=True)}


METHODS: Methods = {
    "chat.startStream": Method(start, "chat:write", per_minute=20),
    "chat.appendStream": Method(append, "chat:write", per_minute=100),
    "chat.stopStream": Method(stop, "chat:write", per_minute=20),
}
