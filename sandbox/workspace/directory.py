"""Workspaces, people, channels, user groups, and where the app is installed."""

from __future__ import annotations

import dataclasses
import itertools
import secrets
from collections.abc import Callable
from typing import TypedDict, TypeVar, Unpack

from adk_confirm.sandbox.refusals import NotFound
from adk_confirm.sandbox.workspace.changes import Changes
from adk_confirm.sandbox.workspace.records import Channel, ChannelKind, Group, Install, Team, User
from adk_confirm.sandbox.workspace.registration import App

T = TypeVar("T")


class UserFlags(TypedDict, total=False):
    email: str
    tz: str
    real_name: str
    is_bot: bool
    deleted: bool
    is_restricted: bool
    is_ultra_restricted: bool
    is_stranger: bool
    is_admin: bool


class Directory:
    def __init__(self, app: App, changes: Changes) -> None:
        self.app = app
        self.teams: dict[str, Team] = {}
        self.users: dict[str, User] = {}
        self.channels: dict[str, Channel] = {}
        self.groups: dict[str, Group] = {}
        self.installs: dict[str, Install] = {}
        self.listeners: list[Callable[[User], None]] = []
        self._changes = changes
        self._numbers = itertools.count(1)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}0SANDBOX{next(self._numbers):04d}"

    def add_team(self, name: str, *, id: str = "") -> Team:  # noqa: A002 - Slack's word
        team = Team(id or self.new_id("T"), name)
        self.teams[team.id] = team
        return team

    def add_user(self, team: Team, name: str, *, id: str = "", **flags: Unpack[UserFlags]) -> User:  # noqa: A002
        flags.setdefault("real_name", name.capitalize())
        user = User(id or self.new_id("U"), team.id, name, **flags)
        self.users[user.id] = user
        self._changes.tell("person", team=team.id, user=user.id)
        return user

    def change_user(self, user_id: str, **flags: Unpack[UserFlags]) -> User:
        """Changes an account: somebody leaves, becomes a guest, or moves to another time zone."""
        user = self.users[user_id] = dataclasses.replace(self.user(user_id), **flags)
        self._changes.tell("person", team=user.team_id, user=user.id)
        for listener in self.listeners:
            listener(user)
        return user

    def add_channel(
        self,
        team: Team,
        name: str,
        *,
        members: tuple[str, ...] = (),
        private: bool = False,
        id: str = "",  # noqa: A002 - Slack's word
        shared_with: tuple[str, ...] = (),
    ) -> Channel:
        kind: ChannelKind = "private" if private else "public"
        channel = Channel(id or self.new_id("C"), team.id, name, kind, set(members))
        channel.shared_with = frozenset(shared_with)
        self.channels[channel.id] = channel
        self._changes.tell("channel", team=team.id, channel=channel.id)
        return channel

    def direct(self, team_id: str, *people: str) -> Channel:
        """The conversation between exactly these people. It is opened if there is none."""
        members = set(people)
        kind: ChannelKind = "im" if len(members) <= 2 else "mpim"
        for channel in self.channels.values():
            if channel.kind == kind and channel.members == members and channel.team_id == team_id:
                return channel
        name = "" if kind == "im" else "mpdm-" + "-".join(sorted(self.user(each).name for each in members))
        channel = Channel(self.new_id("D" if kind == "im" else "G"), team_id, name, kind, members)
        self.channels[channel.id] = channel
        self._changes.tell("channel", team=team_id, channel=channel.id)
        return channel

    def set_members(self, channel_id: str, *, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> None:
        channel = self.channel(channel_id)
        channel.members = (channel.members | set(add)) - set(remove)
        self._changes.tell("channel", team=channel.team_id, channel=channel.id)

    def set_group(
        self, team: Team, handle: str, members: tuple[str, ...], *, id: str = "", disabled: bool = False  # noqa: A002
    ) -> Group:  # fmt: skip
        """Creates a user group, or replaces the one with this id."""
        group = Group(id or self.new_id("S"), team.id, handle, tuple(members), disabled)
        self.groups[group.id] = group
        self._changes.tell("group", team=team.id)
        return group

    def install(self, team: Team, *, scopes: frozenset[str] | None = None, token: str = "") -> Install:
        """Installs the app in a workspace, with its bot user and token."""
        before = next((each for each in self.installs.values() if each.team_id == team.id), None)
        bot = before.bot_user_id if before else self.new_id("U")
        self.users[bot] = User(bot, team.id, self.app.name, self.app.name, is_bot=True)
        install = Install(
            team_id=team.id,
            bot_user_id=bot,
            bot_id=before.bot_id if before else self.new_id("B"),
            token=token or f"xoxb-{secrets.token_hex(12)}",
            scopes=self.app.scopes if scopes is None else scopes,
        )
        self.installs[install.token] = install
        self._changes.tell("install", team=team.id)
        return install

    def installed_in(self, team_id: str) -> Install | None:
        """The current installation in a workspace."""
        live = [each for each in self.installs.values() if each.team_id == team_id and not each.revoked]
        return live[-1] if live else None

    def team(self, team_id: str) -> Team:
        return _find(self.teams, team_id, "workspace")

    def user(self, user_id: str) -> User:
        return _find(self.users, user_id, "person")

    def channel(self, channel_id: str) -> Channel:
        return _find(self.channels, channel_id, "channel")

    def channel_named(self, name: str, team_id: str) -> Channel:
        for channel in self.channels.values():
            if channel.name == name.lstrip("#") and team_id in channel.teams:
                return channel
        raise NotFound(f"There is no channel {name} in {team_id}.")


def _find(kept: dict[str, T], key: str, what: str) -> T:
    if key not in kept:
        raise NotFound(f"This Slack knows no {what} {key}.")
    return kept[key]
