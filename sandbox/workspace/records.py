"""Slack's records: people, channels, messages, views, installations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeVar
from zoneinfo import ZoneInfo

from adk_confirm.sandbox.reading import Json, JsonObject

J = TypeVar("J")


def copied(value: J) -> J:
    """A deep copy of JSON, much quicker than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {name: copied(one) for name, one in value.items()}  # type: ignore[return-value]  # as J is a dict
    if isinstance(value, list):
        return [copied(one) for one in value]  # type: ignore[return-value]  # as J is a list
    return value


@dataclass(frozen=True, slots=True)
class Team:
    id: str
    name: str

    @property
    def domain(self) -> str:
        return self.name.lower().replace(" ", "-")


@dataclass(frozen=True, slots=True)
class User:
    id: str
    team_id: str
    name: str
    real_name: str
    email: str = ""
    tz: str = "Europe/Berlin"
    is_bot: bool = False
    deleted: bool = False
    is_restricted: bool = False
    is_ultra_restricted: bool = False
    is_stranger: bool = False
    is_admin: bool = False

    def to_json(self, now: float, seen_from: str, with_email: bool) -> JsonObject:
        """The user as another team sees them: a person from another company is a stranger."""
        offset = datetime.fromtimestamp(now, ZoneInfo(self.tz)).utcoffset()
        profile: JsonObject = {"real_name": self.real_name, "display_name": self.name, "team": self.team_id}
        if with_email and self.email:
            profile["email"] = self.email
        user: JsonObject = {
            "id": self.id, "team_id": self.team_id, "name": self.name, "real_name": self.real_name,
            "deleted": self.deleted, "is_bot": self.is_bot, "is_app_user": False, "updated": int(now),
            "tz": self.tz, "tz_offset": int(offset.total_seconds()) if offset else 0, "profile": profile,
        }  # fmt: skip
        if not self.deleted:
            user |= {
                "is_admin": self.is_admin, "is_restricted": self.is_restricted,
                "is_ultra_restricted": self.is_ultra_restricted,
            }  # fmt: skip
        if self.is_stranger or self.team_id != seen_from:
            user["is_stranger"] = True
        return user


@dataclass(frozen=True, slots=True)
class Group:
    """A user group, which on-call tools keep up to date."""

    id: str
    team_id: str
    handle: str
    members: tuple[str, ...]
    disabled: bool = False

    def to_json(self, now: float, *, with_users: bool) -> JsonObject:
        group: JsonObject = {
            "id": self.id, "team_id": self.team_id, "is_usergroup": True, "is_subteam": True,
            "name": self.handle, "handle": self.handle, "date_delete": int(now) if self.disabled else 0,
            "user_count": len(self.members),
        }  # fmt: skip
        return group | {"users": [*self.members]} if with_users else group


ChannelKind = Literal["public", "private", "im", "mpim"]
SessionStatus = Literal["processing", "active", "suspended", "closed"]


@dataclass(slots=True)
class AgentSession:
    """A thread as a session of an agent."""

    status: SessionStatus
    title: str = ""
    initiator: str = ""


@dataclass(slots=True)
class Channel:
    id: str
    team_id: str
    name: str
    kind: ChannelKind
    members: set[str]
    is_archived: bool = False
    shared_with: frozenset[str] = frozenset()
    messages: dict[str, Message] = field(default_factory=dict, repr=False)
    ephemerals: list[Message] = field(default_factory=list, repr=False)
    read: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, AgentSession] = field(default_factory=dict)
    prompts: list[tuple[str, str]] = field(default_factory=list)
    """What the app suggests to say in its direct message: titles and messages."""

    @property
    def is_ext_shared(self) -> bool:
        return bool(self.shared_with)

    @property
    def teams(self) -> frozenset[str]:
        return self.shared_with | {self.team_id}

    def to_json(self, reader: str) -> JsonObject:
        channel: JsonObject = {
            "id": self.id, "created": 1_700_000_000, "is_channel": self.kind == "public",
            "is_group": self.kind == "private", "is_im": self.kind == "im", "is_mpim": self.kind == "mpim",
            "is_private": self.kind != "public", "is_archived": self.is_archived,
            "is_ext_shared": self.is_ext_shared, "is_shared": self.is_ext_shared, "is_org_shared": False,
            "context_team_id": self.team_id, "is_member": reader in self.members,
        }  # fmt: skip
        if self.is_ext_shared:
            channel["shared_team_ids"] = [*sorted(self.teams)]
        if self.kind == "im":
            others = sorted(self.members - {reader})
            return channel | {"user": others[0] if others else reader, "is_open": True}
        return channel | {"name": self.name, "name_normalized": self.name, "num_members": len(self.members)}


@dataclass(slots=True)
class Message:
    ts: str
    channel_id: str
    team_id: str
    user: str
    text: str
    blocks: list[JsonObject] = field(default_factory=list)
    attachments: list[JsonObject] = field(default_factory=list)
    bot_id: str = ""
    app_id: str = ""
    thread_ts: str = ""
    subtype: str = ""
    metadata: JsonObject | None = None
    edited_ts: str = ""
    edited_by: str = ""
    files: list[JsonObject] = field(default_factory=list)
    only_for: str = ""
    streaming_since: float | None = None

    @property
    def is_reply(self) -> bool:
        return bool(self.thread_ts) and self.thread_ts != self.ts

    def copy(self) -> Message:
        """A copy that shares the content: an edit replaces the content and never changes it in place."""
        return replace(self)

    def to_json(self, *, with_metadata: bool = False) -> JsonObject:
        message: JsonObject = {"type": "message", "ts": self.ts, "user": self.user, "team": self.team_id}
        message["text"] = self.text
        optional: dict[str, Json] = {
            "subtype": self.subtype, "bot_id": self.bot_id, "app_id": self.app_id, "thread_ts": self.thread_ts,
            "blocks": list(self.blocks), "attachments": list(self.attachments), "files": list(self.files),
        }  # fmt: skip
        message |= {name: value for name, value in optional.items() if value}
        if self.edited_ts:
            message["edited"] = {"user": self.edited_by, "ts": self.edited_ts}
        if with_metadata and self.metadata is not None:
            message["metadata"] = self.metadata
        if self.only_for:
            message["is_ephemeral"] = True
        return copied(message)


@dataclass(slots=True)
class View:
    """A modal or a Home tab, with what its reader has entered so far."""

    id: str
    team_id: str
    user: str
    kind: Literal["modal", "home"]
    body: JsonObject
    hash: str
    entered: dict[tuple[str, str], JsonObject] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    closed: bool = False


@dataclass(slots=True)
class StoredFile:
    id: str
    team_id: str
    name: str
    user: str
    content: bytes
    channel: str

    def to_json(self, base: str, now: float) -> JsonObject:
        address = f"{base}/files-pri/{self.team_id}-{self.id}/{self.name}"
        return {
            "id": self.id, "created": int(now), "name": self.name, "title": self.name, "user": self.user,
            "mimetype": "text/plain", "filetype": "text", "size": len(self.content), "mode": "hosted",
            "is_external": False,
            "url_private": address, "url_private_download": f"{address}?download=1",
            "channels": [self.channel],
        }  # fmt: skip


@dataclass(slots=True)
class Install:
    """The app in one workspace."""

    team_id: str
    bot_user_id: str
    bot_id: str
    token: str
    scopes: frozenset[str]
    revoked: bool = False
