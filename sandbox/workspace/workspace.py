"""All data of the sandbox's Slack, in memory. The Web API reads and writes it, people see it, and the page draws it."""

from __future__ import annotations

from adk_confirm.sandbox.workspace.changes import Changes
from adk_confirm.sandbox.workspace.clock import Clock
from adk_confirm.sandbox.workspace.directory import Directory
from adk_confirm.sandbox.workspace.messages import Messages
from adk_confirm.sandbox.workspace.records import Channel, Message, StoredFile, User
from adk_confirm.sandbox.workspace.registration import App
from adk_confirm.sandbox.workspace.tickets import Tickets
from adk_confirm.sandbox.workspace.views import Views


class Workspace:
    """One Slack, with as many workspaces as a test needs."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.clock = Clock()
        self.changes = Changes()
        self.directory = Directory(self.app, self.changes)
        self.messages = Messages(self.directory, self.clock, self.changes)
        self.views = Views(self.directory, self.clock, self.changes)
        self.tickets = Tickets(self.clock)
        self.files: dict[str, StoredFile] = {}
        self.notices: dict[str, list[str]] = {}
        self.link_base = ""
        """Where permalinks lead if our page can show them. Otherwise they lead to Slack's own address."""
        self.streams_live = 0.0
        """Seconds after which a stream expires that does not grow; 0 for never."""

    def keep_file(self, user: User, channel: Channel, name: str, content: bytes) -> StoredFile:
        file = StoredFile(self.directory.new_id("F"), user.team_id, name, user.id, content, channel.id)
        self.files[file.id] = file
        return file

    def mark_read(self, user: str, channel: Channel) -> None:
        channel.read[user] = max(channel.messages, default="")
        self.changes.tell("channel", team=channel.team_id, channel=channel.id, user=user)

    def unread(self, user: str, channel: Channel) -> int:
        """Messages by others since this person last looked."""
        last = channel.read.get(user, "")
        return sum(each.ts > last and each.user != user for each in channel.messages.values())

    def notice(self, user: str, text: str) -> None:
        """A notice from Slack itself to one person, such as that an app did not answer."""
        self.notices.setdefault(user, []).append(text)
        self.changes.tell("view", user=user)

    def permalink(self, message: Message) -> str:
        """The link to a message, as people copy it."""
        team = self.directory.team(self.directory.channel(message.channel_id).team_id)
        base = self.link_base or f"https://{team.domain}.slack.com"
        link = f"{base}/archives/{message.channel_id}/p{message.ts.replace('.', '')}"
        return f"{link}?thread_ts={message.thread_ts}&cid={message.channel_id}" if message.is_reply else link
