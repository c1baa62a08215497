"""Messages: post, post to one person, update, delete, link."""

from __future__ import annotations

from adk_confirm.sandbox.blockkit.limits import LONGEST_MARKDOWN, check_blocks, check_metadata, check_text
from adk_confirm.sandbox.methods.call import Call, Method, Methods
from adk_confirm.sandbox.reading import JsonObject, objects
from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.workspace.messages import Content
from adk_confirm.sandbox.workspace.records import Channel, Message


def content(call: Call, *, updating: bool = False) -> Content:
    """The message's content from the arguments, if Slack would accept it."""
    args, found = call.args, Content()
    if "markdown_text" in args:
        if "text" in args or "blocks" in args:
            raise ApiRefusal("markdown_text_conflict")
        found["text"] = args.text("markdown_text")
        if len(found["text"]) > LONGEST_MARKDOWN:
            raise ApiRefusal("msg_too_long")
        found["blocks"] = [{"type": "markdown", "text": found["text"]}] if found["text"] else []
    if "text" in args:
        found["text"] = check_text(args.text("text"), updating=updating)
    if "blocks" in args:
        found["blocks"] = check_blocks(args.json("blocks", "invalid_blocks_format"))
    if "attachments" in args:
        found["attachments"] = objects(args.json("attachments"))
    if "metadata" in args:
        raw = args.json("metadata", "invalid_metadata_format")
        found["metadata"] = None if updating and raw == {} else check_metadata(raw)
    says_something = found.get("text", "").strip() or found.get("blocks") or found.get("attachments")
    if not says_something:
        raise ApiRefusal("no_text")
    return found


def thread_of(call: Call, channel: Channel) -> str:
    """The thread that the arguments name, if there is one."""
    thread_ts = call.args.text("thread_ts")
    if not thread_ts:
        return ""
    parent = channel.messages.get(thread_ts)
    if parent is None:
        raise ApiRefusal("thread_not_found")
    if parent.is_reply:
        raise ApiRefusal("cannot_reply_to_message")
    return thread_ts


def post_message(call: Call) -> JsonObject:
    channel = call.writable()
    held = content(call)
    thread_ts = thread_of(call, channel)
    if thread_ts and call.args.flag("reply_broadcast"):
        held["subtype"] = "thread_broadcast"
    message = call.workspace.messages.post(channel, call.bot, thread_ts=thread_ts, by=call.install, **held)
    return _posted_message(channel, message)


def post_ephemeral(call: Call) -> JsonObject:
    channel = call.channel()
    reader = call.args.required("user")
    if call.bot not in channel.members:
        raise ApiRefusal("not_in_channel")
    call.user(reader)
    if reader not in channel.members:
        raise ApiRefusal("user_not_in_channel")
    held = content(call)
    message = call.workspace.messages.post(
        channel, call.bot, thread_ts=thread_of(call, channel), only_for=reader, by=call.install, **held
    )
    return {"ok": True, "message_ts": message.ts}


def update(call: Call) -> JsonObject:
    channel = call.channel()
    message = call.own(channel, call.args.required("ts"), "cant_update_message")
    if message.streaming_since is not None:
        raise ApiRefusal("streaming_state_conflict")
    held = content(call, updating=True)
    if "text" in held and "blocks" not in held:
        held["blocks"] = []
    call.workspace.messages.edit(channel, message, call.bot, **held)
    return {**_posted_message(channel, message), "text": message.text}


def delete(call: Call) -> JsonObject:
    channel = call.channel()
    message = call.own(channel, call.args.required("ts"), "cant_delete_message")
    call.workspace.messages.delete(channel, message)
    return {"ok": True, "channel": channel.id, "ts": message.ts}


def get_permalink(call: Call) -> JsonObject:
    channel = call.channel()
    message = channel.messages.get(call.args.required("message_ts"))
    if message is None:
        raise ApiRefusal("message_not_found")
    return {"ok": True, "channel": channel.id, "permalink": call.workspace.permalink(message)}


def _posted_message(channel: Channel, message: Message) -> JsonObject:
    shown = message.to_json(with_metadata=True)
    return {"ok": True, "channel": channel.id, "ts": message.ts, "message": shown}


METHODS: Methods = {
    "chat.postMessage": Method(post_message, "chat:write", per_minute=10_000),
    "chat.postEphemeral": Method(post_ephemeral, "chat:write", per_minute=100),
    "chat.update": Method(update, "chat:write"),
    "chat.delete": Method(delete, "chat:write"),
    "chat.getPermalink": Method(get_permalink, per_minute=1000),
}
