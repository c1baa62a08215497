"""One person's screen as JSON: the whole, or the difference that some changes make. Both have the same shape, and the
page merges both in the same way. A name that maps to null was removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from adk_confirm.sandbox.page.controls import Controls, Guide
from adk_confirm.sandbox.reading import Json, JsonObject, as_text
from adk_confirm.sandbox.refusals import Forbidden, NotFound
from adk_confirm.sandbox.workspace.changes import WorkspaceChange
from adk_confirm.sandbox.workspace.records import Channel, Install, Message, User, View
from adk_confirm.sandbox.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A shortcut of the app, which people find in a message's menu or beside the message box."""

    name: str
    callback_id: str
    where: Literal["message", "global"] = "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What the page shows besides the workspace itself."""

    roles: Mapping[str, str] = field(default_factory=dict)
    """User id → the person's role, in a few words."""
    shortcuts: tuple[Shortcut, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    """Command → what it does, in a few words."""
    tries: Mapping[str, str] = field(default_factory=dict)
    """What a newcomer could say to the app → what that shows, or nothing."""
    welcome: tuple[str, str] = ("", "")
    """A headline and a few words, in the channel to begin in, until something was said there."""
    start: str = ""
    """The id of the channel to begin in."""
    controls: Controls | None = None
    """The bot behind the page, where it can be crashed and its time moved."""
    guide: Guide | None = None


class Screen:
    def __init__(self, workspace: Workspace, user: User, stage: Stage) -> None:
        self._workspace = workspace
        self._user = user
        self._stage = stage

    def whole(self) -> JsonObject:
        install = self._own_install()
        direct = ""
        if install is not None:
            direct = self._workspace.directory.direct(self._user.team_id, self._user.id, install.bot_user_id).id
        channels = [each for each in self._workspace.directory.channels.values() if self._sees(each)]
        team = self._workspace.directory.team(self._user.team_id)
        return {
            "me": self._user.id,
            "now": self._workspace.clock.now(),
            "team": {"id": team.id, "name": team.name, "domain": team.domain},
            "app": {"name": self._workspace.app.name, "bot": install.bot_user_id if install else "", "direct": direct},
            "stage": self._stage_json(),
            "people": self._people(),
            "groups": self._groups(),
            "channels": {each.id: self._channel(each) for each in channels},
            "messages": {each.id: self._messages(each) for each in channels},
            **self._views(),
            "home": self._home(),
        }

    def after(self, changes: Sequence[WorkspaceChange]) -> JsonObject:
        """What is different on this screen now."""
        shown: JsonObject = {}
        channels: JsonObject = {}
        messages: dict[str, JsonObject] = {}
        for change in changes:
            channel = self._workspace.directory.channels.get(change.channel)
            if channel is not None and (change.kind != "channel" or change.user in ("", self._user.id)):
                channels[channel.id] = self._channel(channel)
                if self._sees(channel):
                    seen = messages.setdefault(channel.id, {})
                    if change.ts:
                        seen[change.ts] = self._message(channel, change.ts)
                    elif change.kind == "channel" and not change.user:
                        seen |= self._messages(channel)
            if change.kind in ("person", "install"):
                shown["people"] = self._people()
            elif change.kind == "group":
                shown["groups"] = self._groups()
            elif change.kind == "view" and change.user == self._user.id:
                shown |= self._views()
            elif change.kind == "home" and change.user == self._user.id:
                shown["home"] = self._home()
            elif change.kind == "stage":
                shown |= {"stage": self._stage_json(), "now": self._workspace.clock.now()}
        if channels:
            shown |= {"channels": channels, "messages": {**messages}}
        return shown

    def _sees(self, channel: Channel) -> bool:
        return sees(self._user, channel)

    def _channel(self, channel: Channel) -> Json:
        if not self._sees(channel):
            return None
        others = sorted(channel.members - {self._user.id})
        return {
            "id": channel.id, "kind": channel.kind, "name": channel.name or channel.id,
            "with": (others[0] if others else self._user.id) if channel.kind == "im" else "",
            "member": self._user.id in channel.members, "members": [*sorted(channel.members)],
            "shared": channel.is_ext_shared, "archived": channel.is_archived,
            "sessions": {
                ts: {"status": each.status, "title": each.title} for ts, each in channel.sessions.items()
            },
            "prompts": [{"title": title, "message": message} for title, message in channel.prompts],
            "read": channel.read.get(self._user.id, ""), "unread": self._workspace.unread(self._user.id, channel),
        }  # fmt: skip

    def _messages(self, channel: Channel) -> JsonObject:
        mine = [each.ts for each in channel.ephemerals if each.only_for == self._user.id]
        return {ts: self._message(channel, ts) for ts in [*channel.messages, *mine]}

    def _message(self, channel: Channel, ts: str) -> Json:
        message = channel.messages.get(ts) or next((each for each in channel.ephemerals if each.ts == ts), None)
        if message is None or message.only_for not in ("", self._user.id):
            return None
        shown = message.to_json()
        shown["streaming"] = message.streaming_since is not None
        shown["files"] = [
            {"id": as_text(file.get("id")), "title": as_text(file.get("title")), "size": file.get("size")}
            for file in message.files
        ]
        return shown

    def _views(self) -> JsonObject:
        top = self._workspace.views.top(self._user.id)
        return {
            "modal": None if top is None else {**self._view(top), "errors": {**top.errors}},
            "notices": [*self._workspace.notices.get(self._user.id, [])],
        }

    def _home(self) -> Json:
        home = self._workspace.views.home(self._user.team_id, self._user.id)
        return None if home is None else self._view(home)

    def _view(self, view: View) -> JsonObject:
        install = self._own_install() or next(iter(self._workspace.directory.installs.values()))
        return self._workspace.views.to_json(view, install)

    def _own_install(self) -> Install | None:
        return self._workspace.directory.installed_in(self._user.team_id)

    def _people(self) -> JsonObject:
        return {user.id: self._person(user) for user in self._workspace.directory.users.values()}

    def _person(self, user: User) -> JsonObject:
        return {
            "id": user.id, "name": user.name, "real_name": user.real_name, "tz": user.tz, "bot": user.is_bot,
            "deleted": user.deleted, "guest": user.is_restricted or user.is_ultra_restricted,
            "elsewhere": user.is_stranger or user.team_id != self._user.team_id,
            "role": self._stage.roles.get(user.id, ""),
        }  # fmt: skip

    def _groups(self) -> JsonObject:
        groups = self._workspace.directory.groups.values()
        return {each.id: {"handle": each.handle, "members": [*each.members]} for each in groups if not each.disabled}

    def _stage_json(self) -> JsonObject:
        commands = sorted(self._workspace.app.commands)
        hint = self._stage.guide.hint(self._user) if self._stage.guide else None
        return {
            "commands": [{"name": name, "hint": self._stage.commands.get(name, "")} for name in commands],
            "shortcuts": [
                {"name": each.name, "callback_id": each.callback_id, "where": each.where}
                for each in self._stage.shortcuts
            ],
            "tries": [{"message": text, "title": title or text} for text, title in self._stage.tries.items()],
            "welcome": [*self._stage.welcome],
            "start": self._stage.start,
            "bot": self._bot(),
            "hint": hint.to_json() if hint else None,
        }

    def _bot(self) -> Json:
        controls = self._stage.controls
        if controls is None:
            return None
        return {
            "state": str(controls.state),
            "crashes_in_call": controls.crashes_in_call,
            "minutes_ahead": controls.minutes_ahead,
        }


def sees(user: User, channel: Channel) -> bool:
    """Whether this person can read a channel: as a member, or because it is public in their workspace."""
    return user.id in channel.members or (channel.kind == "public" and user.team_id in channel.teams)


def seen_channel(workspace: Workspace, user: User, channel_id: str) -> Channel:
    """The channel, for somebody who can read it."""
    channel = workspace.directory.channel(channel_id)
    if not sees(user, channel):
        raise Forbidden(f"{user.name} is not in this channel and cannot see it.")
    return channel


def seen_message(workspace: Workspace, user: User, channel_id: str, ts: str) -> Message:
    message = workspace.messages.find(seen_channel(workspace, user, channel_id).id, ts)
    if message.only_for not in ("", user.id):
        raise NotFound(f"There is no message {ts} that {user.name} could see.")
    return message
