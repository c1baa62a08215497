"""One sentence for each thing between Slack and the app: what Slack delivers, and what the app calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from adk_confirm.sandbox.methods.call import CallRecord
from adk_confirm.sandbox.people.plain import Reader
from adk_confirm.sandbox.reading import Json, JsonObject, as_object, as_text, label, objects, texts
from adk_confirm.sandbox.refusals import NotFound
from adk_confirm.sandbox.server.delivery import Delivery
from adk_confirm.sandbox.workspace.directory import Directory
from adk_confirm.sandbox.workspace.records import User

_LONG = 90
_NOBODY = User("", "", "nobody", "Nobody", tz="UTC")


@dataclass(frozen=True, slots=True)
class Names:
    """Ids as people know them."""

    directory: Directory

    def person(self, user: Json) -> str:
        """By id, or as `{"user": id}`."""
        user_id = as_text(user) or as_text(as_object(user).get("user"))
        try:
            return self.directory.user(user_id).name
        except NotFound:
            return user_id or "somebody"

    def channel(self, channel_id: Json) -> str:
        try:
            channel = self.directory.channel(as_text(channel_id))
        except NotFound:
            return as_text(channel_id) or "a conversation"
        return f"#{channel.name}" if channel.kind in ("public", "private") else "a direct message"

    def group(self, group_id: Json) -> str:
        group = self.directory.groups.get(as_text(group_id))
        return f"@{group.handle}" if group else as_text(group_id)

    def text(self, mrkdwn: Json) -> str:
        """The first line of a message, shortened, with names in place of ids."""
        plain = self.whole(mrkdwn).partition("\n")[0]
        return plain if len(plain) <= _LONG else f"{plain[: _LONG - 1].rstrip()}…"

    def whole(self, mrkdwn: Json) -> str:
        """A message with names in place of ids."""
        return Reader(self.directory, _NOBODY).mrkdwn(as_text(mrkdwn)).strip()


# What Slack delivers


def delivery(made: Delivery, names: Names) -> str:
    sentence = _event(made, names) if made.kind == "events_api" else _interaction(made, names)
    if made.acked or not made.reason:
        return sentence
    why = made.reason.replace("_", " ")
    after = "It will try again." if made.kind == "events_api" else "The person sees a warning."
    return f"{sentence} Slack could not deliver it ({why}). {after}"


def _event(made: Delivery, names: Names) -> str:
    event = as_object(made.body.get("event"))
    who, where = names.person(event.get("user")), names.channel(event.get("channel"))
    match made.what:
        case "app_mention":
            return f"{who} mentioned the app in {where}."
        case "message":
            return _message(event, names)
        case "app_home_opened":
            return f"{who} opened the app's Home tab, so that the app can bring it up to date."
        case "user_change":
            changed = names.person(as_object(event.get("user")).get("id"))
            return f"The account of {changed} changed."
        case what:
            return f"Slack reports {what}, an event that the app subscribed to."


def _message(event: JsonObject, names: Names) -> str:
    where = names.channel(event.get("channel"))
    subtype = as_text(event.get("subtype"))
    message = as_object(event.get("message")) if subtype == "message_changed" else event
    if message.get("bot_id") and subtype in ("", "message_changed", "thread_broadcast"):
        return f"Slack reports the app's own message in {where}. Apps ignore those."
    if subtype == "message_changed":
        return f"{names.person(message.get('user'))} edited a message in {where}."
    if subtype == "message_deleted":
        return f"A message in {where} was deleted."
    place = f"a thread in {where}" if event.get("thread_ts") else where
    return f"{names.person(event.get('user'))} wrote in {place}. Slack reports all messages where the app is a member."


def _interaction(made: Delivery, names: Names) -> str:
    body, signed = made.body, "Slack signs this and waits three seconds for an answer."
    who = names.person(as_object(body.get("user")).get("id") or body.get("user_id"))
    title = label(as_object(body.get("view")).get("title"))
    form = f"the form “{title}”" if title else "a form"
    match made.what:
        case "block_actions":
            return f"{who} {_what_was_used(body)}. {signed}"
        case "view_submission":
            return f"{who} submitted {form}. {_reply(made.json, objects(as_object(body.get('view')).get('blocks')))}"
        case "message_action" | "shortcut":
            return f"{who} chose a shortcut of the app. {signed}"
        case command:
            said = f"{command} {as_text(body.get('text'))}".strip()
            return f"{who} ran {said} in {names.channel(body.get('channel_id'))}. Only {who} sees the answer."


def _what_was_used(body: JsonObject) -> str:
    action = next(iter(objects(body.get("actions"))), {})
    view = as_object(body.get("view"))
    place = "in the Home tab" if view.get("type") == "home" else "in a form" if view else "on a message"
    option = label(as_object(action.get("selected_option")).get("text"))
    if option:
        return f"chose “{option}” {place}"
    if action.get("type") == "button":
        return f"pressed “{label(action.get('text'))}” {place}"
    return f"changed a field {place}"


def _reply(answer: JsonObject, blocks: list[JsonObject]) -> str:
    match as_text(answer.get("response_action")):
        case "errors":
            wrong = as_object(answer.get("errors"))
            fields = [f"“{label(each.get('label'))}”" for each in blocks if as_text(each.get("block_id")) in wrong]
            return f"The app refused it: something is wrong with {join_words(fields) or 'a field'}."
        case "update":
            title = label(as_object(as_object(answer.get("view")).get("title")))
            return f"The app answered with another form{f', “{title}”' if title else ''}."
        case _:
            return "The app's answer closes it."


# What the app calls


@dataclass(frozen=True, slots=True)
class _Call:
    args: JsonObject
    answer: JsonObject
    names: Names

    @property
    def channel(self) -> str:
        return self.names.channel(self.args.get("channel"))

    @property
    def where(self) -> str:
        return f"a thread in {self.channel}" if self.args.get("thread_ts") else self.channel

    @property
    def text(self) -> str:
        return self.names.text(self.args.get("text"))

    @property
    def form(self) -> str:
        title = label(as_object(self.args.get("view")).get("title"))
        return f"the form “{title}”" if title else "a form"

    def person(self, key: str) -> str:
        return self.names.person(self.args.get(key))


def call(made: CallRecord, names: Names) -> str:
    tell = _CALLS.get(made.method, f"The app calls {made.method}.")
    sentence = tell if isinstance(tell, str) else tell(_Call(made.args, made.answer, names))
    refused = made.error or made.fault
    return f"{sentence} Slack refused: {refused.replace('_', ' ')}." if refused else sentence


_NEVER = {
    "deleted": "a deactivated account",
    "is_bot": "a bot",
    "is_restricted": "a guest",
    "is_stranger": "a stranger",
}


def _lookup(it: _Call) -> str:
    user = as_object(it.answer.get("user"))
    if not user:
        return f"The app looks up {it.person('user')}."
    never = next((words for key, words in _NEVER.items() if user.get(key)), "")
    return f"The app looks up {as_text(user.get('name'))}: {never or 'a member'}."


def _group(it: _Call) -> str:
    people = join_words([it.names.person(each) for each in texts(it.answer.get("users"))])
    return f"The app asks who is in {it.names.group(it.args.get('usergroup'))} now: {people or 'nobody'}."


_SESSION = {
    "processing": "at work, with a stop button",
    "suspended": "waiting for people",
    "active": "waiting for the person's next words",
    "closed": "closed",
    "": "an agent's session",
}

_CALLS: dict[str, str | Callable[[_Call], str]] = {
    "auth.test": "The app asks Slack which app and workspace its token belongs to.",
    "chat.postMessage": lambda it: f"The app posts in {it.where}: “{it.text}”",
    "chat.postEphemeral": lambda it: f"The app shows this to {it.person('user')} only: “{it.text}”",
    "chat.update": lambda it: f"The app redraws its message in {it.channel}: “{it.text}”",
    "chat.delete": lambda it: f"The app deletes its message in {it.channel}.",
    "chat.getPermalink": "The app asks for the link to a message.",
    "chat.startStream": lambda it: f"The app starts a reply in {it.where} that grows.",
    "chat.appendStream": "The reply grows.",
    "chat.stopStream": "The reply is complete.",
    "assistant.threads.setSuggestedPrompts": "The app suggests what one can say in its direct message.",
    "agents.sessions.setStatus": lambda it: (
        f"Slack shows the thread as {_SESSION.get(as_text(it.args.get('status')), 'something else')}."
    ),
    "agents.sessions.rename": lambda it: f"The app gives the thread the title “{as_text(it.args.get('title'))}”.",
    "views.open": lambda it: f"The app opens {it.form}.",
    "views.update": lambda it: f"The app redraws {it.form}, which is open.",
    "views.publish": lambda it: f"The app redraws the Home tab of {it.person('user_id')}.",
    "users.info": _lookup,
    "users.lookupByEmail": lambda it: f"The app looks for the person with the address {as_text(it.args.get('email'))}.",
    "usergroups.users.list": _group,
    "usergroups.list": "The app asks which user groups there are.",
    "conversations.info": lambda it: f"The app asks what kind of channel {it.channel} is.",
    "conversations.members": lambda it: (
        f"The app asks who is in {it.channel}: {len(texts(it.answer.get('members')))} members."
    ),
    "conversations.replies": "The app reads a thread.",
    "conversations.history": lambda it: f"The app reads {it.channel}.",
    "conversations.open": lambda it: f"The app opens a direct message with {it.person('users')}.",
    "apps.connections.open": "The app opens a connection over which Slack talks to it.",
}


def join_words(parts: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
