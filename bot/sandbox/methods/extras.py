"""Reactions, and the "is thinking…" of AI apps."""

from __future__ import annotations

from bot.sandbox.methods.call import Call, Method, Methods
from bot.sandbox.refusals import ApiRefusal
from runtime.jsontypes import JsonObject


def add_reaction(call: Call) -> JsonObject:
    channel = call.channel()
    name = call.args.required("name")
    message = channel.messages.get(call.args.required("timestamp"))
    if message is None:
        raise ApiRefusal("message_not_found")
    if call.bot in message.reactions.get(name, set()):
        raise ApiRefusal("already_reacted")
    call.workspace.messages.react(channel, message, name, call.bot)
    return {"ok": True}


def remove_reaction(call: Call) -> JsonObject:
    channel = call.channel()
    name = call.args.required("name")
    message = channel.messages.get(call.args.required("timestamp"))
    if message is None:
        raise ApiRefusal("message_not_found")
    if call.bot not in message.reactions.get(name, set()):
        raise ApiRefusal("no_reaction")
    call.workspace.messages.unreact(channel, message, name, call.bot)
    return {"ok": True}


def set_status(call: Call) -> JsonObject:
    """The status shows in the thread until the app posts there or sets it to nothing."""
    channel = call.channel("channel_id")
    thread_ts = call.args.required("thread_ts")
    if thread_ts not in channel.messages:
        raise ApiRefusal("invalid_thread_ts")
    status = call.args.text("status")
    if status:
        channel.statuses[thread_ts] = status
    else:
        channel.statuses.pop(thread_ts, None)
    call.workspace.changes.tell("status", team=channel.team_id, channel=channel.id, ts=thread_ts)
    return {"ok": True}


METHODS: Methods = {
    "reactions.add": Method(add_reaction, "reactions:write"),
    "reactions.remove": Method(remove_reaction, "reactions:write"),
    "assistant.threads.setStatus": Method(set_status, "chat:write", per_minute=600),
}
