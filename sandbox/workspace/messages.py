"""The messages of all channels: posting, editing, deleting, threads. Listeners hear of each change."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

from adk_confirm.sandbox.blockkit.elements import interactive
from adk_confirm.sandbox.reading import JsonObject
from adk_confirm.sandbox.refusals import NotFound
from adk_confirm.sandbox.workspace.changes import Changes
from adk_confirm.sandbox.workspace.clock import Clock
from adk_confirm.sandbox.workspace.directory import Directory
from adk_confirm.sandbox.workspace.records import Channel, Install, Message, copied


@dataclass(frozen=True, slots=True)
class Happening:
    """One change in a channel, from which the events for apps are made."""

    kind: Literal["posted", "edited", "deleted"]
    channel: Channel
    message: Message
    before: Message | None = None


class Content(TypedDict, total=False):
    text: str
    blocks: list[JsonObject]
    attachments: list[JsonObject]
    metadata: JsonObject | None
    files: list[JsonObject]
    subtype: str
    streaming_since: float | None


class Messages:
    def __init__(self, directory: Directory, clock: Clock, changes: Changes) -> None:
        self._directory = directory
        self._clock = clock
        self._changes = changes
        self._last_ts = 0
        self.listeners: list[Callable[[Happening], None]] = []

    def next_ts(self) -> str:
        self._last_ts = max(self._last_ts + 1, int(self._clock.now() * 1_000_000))
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def post(
        self,
        channel: Channel,
        user: str,
        *,
        thread_ts: str = "",
        only_for: str = "",
        by: Install | None = None,
        **content: Unpack[Content],
    ) -> Message:
        message = Message(self.next_ts(), channel.id, self._directory.user(user).team_id, user, "")
        message.thread_ts, message.only_for = thread_ts, only_for
        if by is not None:
            message.bot_id, message.app_id = by.bot_id, self._directory.app.id
        elif self._directory.user(user).is_bot:
            message.bot_id = "B" + user[1:]
        _fill(message, content)
        if only_for:
            channel.ephemerals.append(message)
            self._changes.tell("ephemeral", team=channel.team_id, channel=channel.id, ts=message.ts, user=only_for)
            return message
        parent = channel.messages.get(thread_ts)
        if parent is not None and not parent.thread_ts:
            parent.thread_ts = parent.ts
        channel.messages[message.ts] = message
        self._tell(Happening("posted", channel, message))
        return message

    def edit(self, channel: Channel, message: Message, editor: str, **content: Unpack[Content]) -> None:
        before = message.copy()
        _fill(message, content)
        message.edited_ts, message.edited_by = self.next_ts(), editor
        if message.only_for:
            self._changes.tell("ephemeral", team=channel.team_id, channel=channel.id, ts=message.ts)
        else:
            self._tell(Happening("edited", channel, message, before))

    def grow(self, channel: Channel, message: Message, **content: Unpack[Content]) -> None:
        """A stream grows. Readers see it, but there is no event."""
        _fill(message, content)
        self._changes.tell("message", team=channel.team_id, channel=channel.id, ts=message.ts)

    def finish(self, channel: Channel, message: Message, **content: Unpack[Content]) -> None:
        """A stream ends. There is an event with the final text, which does not count as an edit."""
        before = message.copy()
        _fill(message, {**content, "streaming_since": None})
        self._tell(Happening("edited", channel, message, before))

    def delete(self, channel: Channel, message: Message) -> None:
        if message.only_for:
            channel.ephemerals.remove(message)
            self._changes.tell("ephemeral", team=channel.team_id, channel=channel.id, ts=message.ts)
            return
        del channel.messages[message.ts]
        self._tell(Happening("deleted", channel, message, message.copy()))

    def find(self, channel_id: str, ts: str) -> Message:
        channel = self._directory.channel(channel_id)
        if ts in channel.messages:
            return channel.messages[ts]
        for message in channel.ephemerals:
            if message.ts == ts:
                return message
        raise NotFound(f"There is no message {ts} in {channel.name or channel_id}.")

    def thread(self, channel: Channel, thread_ts: str) -> list[Message]:
        return [each for each in channel.messages.values() if thread_ts in (each.ts, each.thread_ts)]

    def _tell(self, happening: Happening) -> None:
        channel = happening.channel
        self._changes.tell("message", team=channel.team_id, channel=channel.id, ts=happening.message.ts)
        for listener in self.listeners:
            listener(happening)


def _fill(message: Message, content: Content) -> None:
    if "text" in content:
        message.text = content["text"]
    if "blocks" in content:
        message.blocks = with_ids(content["blocks"])
    if "attachments" in content:
        message.attachments = copied(content["attachments"])
    if "metadata" in content:
        message.metadata = copied(content["metadata"])
    if "files" in content:
        message.files = list(content["files"])
    if "subtype" in content:
        message.subtype = content["subtype"]
    if "streaming_since" in content:
        message.streaming_since = content["streaming_since"]


def with_ids(blocks: Iterable[JsonObject]) -> list[JsonObject]:
    """Slack adds ids to blocks and elements that have none."""
    named = copied(list(blocks))
    for block in named:
        block.setdefault("block_id", secrets.token_urlsafe(4))
        for element in interactive(block):
            element.setdefault("action_id", secrets.token_urlsafe(4))
    return named
