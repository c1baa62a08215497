"""Channels, their members and their messages."""

from __future__ import annotations

from collections.abc import Sequence

from adk_confirm.sandbox.methods.call import Call, Method, Methods, paged
from adk_confirm.sandbox.reading import JsonObject
from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.workspace.records import Channel, Message


def info(call: Call) -> JsonObject:
    channel = call.channel()
    call.scoped(channel, "read")
    return {"ok": True, "channel": channel.to_json(call.bot)}


def members(call: Call) -> JsonObject:
    channel = call.channel()
    call.scoped(channel, "read")
    page, cursor = call.page(sorted(channel.members))
    return paged({"ok": True, "members": [*page]}, cursor)


def list_all(call: Call) -> JsonObject:
    wanted = (call.args.text("types") or "public_channel").split(",")
    kinds = {"public_channel": "public", "private_channel": "private", "im": "im", "mpim": "mpim"}
    if not set(wanted) <= set(kinds):
        raise ApiRefusal("invalid_types")
    seen: list[Channel] = []
    for channel in call.workspace.directory.channels.values():
        mine = channel.kind == "public" or call.bot in channel.members
        hidden = channel.is_archived and call.args.flag("exclude_archived")
        if mine and not hidden and channel.teams & call.teams and channel.kind in {kinds[each] for each in wanted}:
            call.scoped(channel, "read")
            seen.append(channel)
    page, cursor = call.page(seen)
    return paged({"ok": True, "channels": [channel.to_json(call.bot) for channel in page]}, cursor)


def open_direct(call: Call) -> JsonObject:
    if "channel" in call.args:
        channel = call.channel()
    else:
        names = [name.strip() for name in call.args.required("users").split(",")]
        if len(names) > 8:
            raise ApiRefusal("too_many_users")
        people = [call.user(name) for name in names]
        if any(person.deleted for person in people):
            raise ApiRefusal("user_disabled")
        call.need("im:write" if len(people) == 1 else "mpim:write")
        channel = call.workspace.directory.direct(people[0].team_id, call.bot, *names)
    found: JsonObject = channel.to_json(call.bot) if call.args.flag("return_im") else {"id": channel.id}
    return {"ok": True, "channel": found}


def _readable_channel(call: Call) -> Channel:
    channel = call.channel()
    call.scoped(channel, "history")
    if call.bot not in channel.members:
        raise ApiRefusal("not_in_channel")
    return channel


def _between(call: Call, messages: Sequence[Message]) -> list[Message]:
    oldest, latest = call.args.moment("oldest", "0"), call.args.moment("latest", "9999999999.999999")
    ends_too = call.args.flag("inclusive")
    return [
        each
        for each in messages
        if float(oldest) < float(each.ts) < float(latest) or (ends_too and each.ts in (oldest, latest))
    ]


def history(call: Call) -> JsonObject:
    """Newest first, without replies that are only in threads."""
    channel = _readable_channel(call)
    top = [each for each in channel.messages.values() if not each.is_reply or each.subtype == "thread_broadcast"]
    page, cursor = call.page(list(reversed(_between(call, top))))
    return _messages_page(call, channel, page, cursor)


def replies(call: Call) -> JsonObject:
    """The parent, then its replies, oldest first."""
    channel = _readable_channel(call)
    named = channel.messages.get(call.args.required("ts"))
    if named is None:
        raise ApiRefusal("thread_not_found")
    root = named.thread_ts or named.ts
    thread = call.workspace.messages.thread(channel, root)
    after_root = _between(call, [each for each in thread if each.ts != root])
    page, cursor = call.page([*(each for each in thread if each.ts == root), *after_root], default=1000)
    return _messages_page(call, channel, page, cursor)


def _messages_page(call: Call, channel: Channel, page: Sequence[Message], cursor: str) -> JsonObject:
    with_metadata = call.args.flag("include_all_metadata")
    found: list[JsonObject] = []
    for message in page:
        one = message.to_json(with_metadata=with_metadata)
        answers = call.workspace.messages.thread(channel, message.ts)[1:] if message.thread_ts == message.ts else []
        if answers:
            one["reply_count"] = len(answers)
            one["reply_users"] = [*sorted({each.user for each in answers})]
            one["latest_reply"] = answers[-1].ts
        found.append(one)
    return paged({"ok": True, "messages": [*found], "has_more": bool(cursor)}, cursor)


METHODS: Methods = {
    "conversations.info": Method(info),
    "conversations.members": Method(members),
    "conversations.list": Method(list_all, per_minute=20),
    "conversations.open": Method(open_direct),
    "conversations.history": Method(history),
    "conversations.replies": Method(replies),
}
