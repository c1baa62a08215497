"""The payloads that the app gets, in Slack's shapes: events, clicks, views, shortcuts, commands."""

from __future__ import annotations

import secrets
import uuid

from adk_confirm.sandbox.reading import JsonObject, as_object, as_text
from adk_confirm.sandbox.workspace.messages import Happening
from adk_confirm.sandbox.workspace.records import Channel, Install, Message, User, View
from adk_confirm.sandbox.workspace.workspace import Workspace

_CHANNEL_TYPE = {"public": "channel", "private": "group", "im": "im", "mpim": "mpim"}
_SUBSCRIPTION = {"public": "channels", "private": "groups", "im": "im", "mpim": "mpim"}


class Payloads:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    # Events

    def envelope(self, install: Install, event: JsonObject, channel: Channel | None = None) -> JsonObject:
        app = self._workspace.app
        event_id = f"Ev{secrets.token_hex(5).upper()}"
        event = {"event_ts": self._workspace.messages.next_ts(), **event}
        return {
            "token": app.verification_token, "api_app_id": app.id, "event": event,
            "team_id": channel.team_id if channel else install.team_id,  # of a shared channel: whoever made it
            "context_team_id": channel.team_id if channel else install.team_id,
            "context_enterprise_id": None,
            "type": "event_callback", "event_id": event_id, "event_time": int(self._workspace.clock.now()),
            "is_ext_shared_channel": bool(channel and channel.is_ext_shared),
            "event_context": f"4-{event_id}",
            "authorizations": [
                {
                    "enterprise_id": None, "user_id": install.bot_user_id, "is_bot": True,
                    "team_id": install.team_id, "is_enterprise_install": False,
                }
            ],
        }  # fmt: skip

    def events_of(self, happening: Happening, install: Install) -> list[JsonObject]:
        """The events that an app in this channel gets: a mention comes twice, as a mention and as a message."""
        channel, message = happening.channel, happening.message
        wanted, events = self._workspace.app.events, list[JsonObject]()
        by_person = happening.kind == "posted" and not message.bot_id
        mentions_us = f"<@{install.bot_user_id}>" in message.text
        if by_person and mentions_us and channel.kind != "im" and "app_mention" in wanted:
            events.append({**self._message(happening, install), "type": "app_mention"})
        if f"message.{_SUBSCRIPTION[channel.kind]}" in wanted:
            payload = self._message(happening, install)
            if by_person:
                payload["client_msg_id"] = str(uuid.uuid4())
            events.append({**payload, "channel_type": _CHANNEL_TYPE[channel.kind]})
        return events

    def _message(self, happening: Happening, install: Install) -> JsonObject:
        channel, message = happening.channel, happening.message
        payload = message.to_json()
        if happening.kind == "posted":
            parent = channel.messages.get(message.thread_ts)
            if message.is_reply and parent is not None:
                payload["parent_user_id"] = parent.user
            if message.team_id != install.team_id:
                payload |= {"user_team": message.team_id, "source_team": message.team_id}
            return {**payload, "channel": channel.id, "event_ts": message.ts}
        ts = self._workspace.messages.next_ts()
        before = happening.before.to_json() if happening.before else {}
        step: JsonObject = {
            "type": "message", "subtype": f"message_{'changed' if happening.kind == 'edited' else 'deleted'}",
            "hidden": True, "channel": channel.id, "ts": ts, "event_ts": ts, "previous_message": before,
        }  # fmt: skip
        return step | ({"message": payload} if happening.kind == "edited" else {"deleted_ts": message.ts})

    # Interactions

    def _common(self, kind: str, user: User, team_id: str) -> JsonObject:
        team = self._workspace.directory.team(team_id)
        return {
            "type": kind, "token": self._workspace.app.verification_token,
            "user": {"id": user.id, "username": user.name, "name": user.name, "team_id": user.team_id},
            "team": {"id": team.id, "domain": team.domain}, "enterprise": None, "is_enterprise_install": False,
        }  # fmt: skip

    def on_message(self, kind: str, user: User, install: Install, channel: Channel, message: Message) -> JsonObject:
        """The common part of a click, a suggestion and a message shortcut. An ephemeral message is not included."""
        names = {"im": "directmessage", "private": "privategroup"}
        payload = self._common(kind, user, install.team_id)
        payload["channel"] = {"id": channel.id, "name": names.get(channel.kind, channel.name)}
        if not message.only_for:
            payload["message"] = message.to_json()
        if kind != "message_action":
            container: JsonObject = {
                "type": "message", "message_ts": message.ts, "channel_id": channel.id,
                "is_ephemeral": bool(message.only_for),
            }  # fmt: skip
            payload |= {"api_app_id": self._workspace.app.id, "container": container}
            if message.thread_ts:
                container["thread_ts"] = message.thread_ts
        return payload

    def on_view(self, kind: str, user: User, install: Install, view: View) -> JsonObject:
        payload = self._common(kind, user, user.team_id)
        payload["api_app_id"] = self._workspace.app.id
        payload["view"] = self._workspace.views.to_json(view, install)
        if kind in ("block_actions", "block_suggestion"):
            payload["container"] = {"type": "view", "view_id": view.id}
        return payload

    def global_shortcut(self, user: User, callback_id: str) -> JsonObject:
        payload = self._common("shortcut", user, user.team_id)
        return {**payload, "callback_id": callback_id, "action_ts": self._workspace.messages.next_ts()}

    def action(self, element: JsonObject, block_id: str, entered: JsonObject | None) -> JsonObject:
        """One entry of `actions`: the element, and what was done with it."""
        payload: JsonObject = {
            "type": element.get("type"), "action_id": element.get("action_id"), "block_id": block_id,
            "action_ts": self._workspace.messages.next_ts(),
        }  # fmt: skip
        for name in ("text", "value", "style", "confirm", "placeholder", "url"):
            if name in element:
                payload[name] = element[name]
        return payload | {name: value for name, value in (entered or {}).items() if name != "type"}

    def command(self, user: User, channel: Channel, command: str, text: str) -> dict[str, str]:
        team = self._workspace.directory.team(user.team_id)
        names = {"im": "directmessage", "private": "privategroup"}
        return {
            "token": self._workspace.app.verification_token, "team_id": team.id, "team_domain": team.domain,
            "channel_id": channel.id, "channel_name": names.get(channel.kind, channel.name), "user_id": user.id,
            "user_name": user.name, "command": command, "text": text, "api_app_id": self._workspace.app.id,
            "is_enterprise_install": "false",
        }  # fmt: skip


def name_of(body: JsonObject) -> str:
    """What a delivery is about: the event's or interaction's type, or the command."""
    if body.get("type") == "event_callback":
        return as_text(as_object(body.get("event")).get("type"))
    return as_text(body.get("type")) or as_text(body.get("command"))
