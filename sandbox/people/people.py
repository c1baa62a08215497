"""A simulated person who uses the sandbox's Slack: writes, clicks, fills in forms and reads what is on the screen."""

from __future__ import annotations

import html
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

from adk_confirm.sandbox.blockkit.elements import element_label
from adk_confirm.sandbox.people.gestures import Gestures
from adk_confirm.sandbox.people.plain import Reader
from adk_confirm.sandbox.people.seen import Home, Modal, Seen, find_control
from adk_confirm.sandbox.people.state import picked
from adk_confirm.sandbox.people.waiting import PATIENCE
from adk_confirm.sandbox.reading import Json, as_object, as_text, label
from adk_confirm.sandbox.refusals import NotFound, Refused
from adk_confirm.sandbox.server.delivery import Delivery
from adk_confirm.sandbox.workspace.records import Channel, Message, User
from adk_confirm.sandbox.workspace.workspace import Workspace

T = TypeVar("T")
Place = Channel | Seen | str
_MENTION = re.compile(r"(?<![\w<@])@([\w-]+)")


class AskedFirst(Refused):
    """Slack showed its "are you sure" dialog, and the test did not say `sure=True`."""


class Until(Protocol):
    def __call__(self, look: Callable[[], T | None], *, timeout: float = ..., what: str = ...) -> Awaitable[T]: ...


class Person:
    def __init__(self, user_id: str, workspace: Workspace, gestures: Gestures, until: Until) -> None:
        self.id = user_id
        self._workspace = workspace
        self._gestures = gestures
        self._until = until

    @property
    def user(self) -> User:
        return self._workspace.directory.user(self.id)

    @property
    def name(self) -> str:
        return self.user.name

    @property
    def notices(self) -> list[str]:
        """Notices from Slack itself, such as that an app did not answer."""
        return self._workspace.notices.get(self.id, [])

    # Seeing

    def messages(self, place: Place | None = None, *, thread: Seen | str | None = None) -> list[Seen]:
        """A conversation as this person sees it; None is the direct message with the app. With a thread open they also
        see ephemeral messages in the channel beside it."""
        return [self._see(each) for each in self._shown(place, thread)]

    def _shown(self, place: Place | None, thread: Seen | str | None) -> list[Message]:
        channel = self.place(place)
        root = thread.thread if isinstance(thread, Seen) else thread
        mine = [each for each in channel.ephemerals if each.only_for == self.id]
        shown = sorted([*channel.messages.values(), *mine], key=lambda each: each.ts)
        beside = [each.ts for each in mine if not each.thread_ts and root is not None and each.ts > root]
        return [each for each in shown if root is None or root in (each.ts, each.thread_ts) or each.ts in beside]

    def sees(self, place: Place | None = None, *, thread: Seen | str | None = None) -> str:
        """The conversation as one text."""
        return "\n".join(str(each) for each in self.messages(place, thread=thread))

    async def finds(
        self, words: str, place: Place | None = None, *, thread: Seen | str | None = None, timeout: float = PATIENCE
    ) -> Seen:
        """The latest message with these words. Waits for one."""

        def look() -> Seen | None:
            newest_first = map(self._see, reversed(self._shown(place, thread)))
            return next((each for each in newest_first if words in each), None)

        return await self._until(look, timeout=timeout, what=f"{self.name} to see “{words}”")

    def now(self, seen: Seen) -> Seen:
        """The same message as it is now."""
        return self._see(self._workspace.messages.find(seen.channel, seen.ts))

    def modal(self) -> Modal | None:
        view = self._workspace.views.top(self.id)
        return Modal(view, self._reader, self._gestures) if view else None

    @property
    def windows(self) -> list[Modal]:
        """Every modal that this person got, including closed ones."""
        views = self._workspace.views.opened
        return [Modal(view, self._reader, self._gestures) for view in views if view.user == self.id]

    async def gets_modal(self, title: str = "", *, timeout: float = PATIENCE) -> Modal:
        """The modal on top. Waits until its title or text has these words."""

        def look() -> Modal | None:
            modal = self.modal()
            return modal if modal is not None and title in modal else None

        return await self._until(look, timeout=timeout, what=f"{self.name} to get a modal with “{title}”")

    def home(self) -> Home | None:
        view = self._workspace.views.home(self.user.team_id, self.id)
        return Home(view, self._reader, self._gestures) if view else None

    # Doing

    async def says(
        self,
        text: str,
        place: Place | None = None,
        *,
        thread: Seen | str | None = None,
        also_to_channel: bool = False,
        files: Mapping[str, bytes] | None = None,
    ) -> Seen:
        """Types and sends a message. `@name` mentions that person; everything else stays text."""
        root = thread.thread if isinstance(thread, Seen) else thread or ""
        place = place if place is not None or not isinstance(thread, Seen) else thread.channel
        channel = self.place(place)
        return self._see(
            self._gestures.say(
                self.user,
                channel,
                self._with_mentions(text, channel),
                thread_ts=root,
                broadcast=also_to_channel,
                files=files,
            )
        )

    async def edits(self, seen: Seen, text: str) -> None:
        self._gestures.edit(self.user, seen.message, self._with_mentions(text, self.place(seen)))

    async def deletes(self, seen: Seen) -> None:
        self._gestures.delete(self.user, seen.message)

    async def clicks(
        self, seen: Seen, button: str, *, value: Json = None, stale: bool = False, sure: bool = False
    ) -> Delivery:
        """Clicks a control of the message as it is now, or, if `stale`, as it was when it was seen.

        Where Slack asks "are you sure" first, `sure` says yes. Without it nothing is sent, and AskedFirst has the
        text of the dialog.
        """
        message = seen.message if stale else self._workspace.messages.find(seen.channel, seen.ts)
        block_id, element = find_control(message.blocks, button)
        value = button if value is None and element.get("type") == "overflow" else value
        dialog = as_object(element.get("confirm"))
        if dialog and not sure:
            asked = f"{label(dialog.get('title'))}: {label(dialog.get('text'))}"
            raise AskedFirst(f"“{element_label(element)}” asks “{asked}”; say sure=True to go on.")
        action_id = as_text(element.get("action_id"))
        new = picked(element, value, self.user.tz)
        return await self._gestures.act(self.user, message, block_id, action_id, new)

    async def commands(self, command: str, text: str = "", place: Place | None = None) -> Delivery:
        return await self._gestures.command(self.user, self.place(place), command, text)

    async def shortcut(self, callback_id: str, seen: Seen | None = None) -> Delivery:
        """A global shortcut, or one on a message."""
        if seen is None:
            return await self._gestures.shortcut(self.user, callback_id)
        return await self._gestures.message_shortcut(self.user, seen.message, callback_id)

    async def opens_home(self, words: str = "", *, timeout: float = PATIENCE) -> Home:
        """The Home tab. Waits until the app has published it with these words."""
        self._gestures.open_home(self.user)
        return await self.sees_home(words, timeout=timeout)

    def opens_messages(self) -> None:
        """The direct message with the app."""
        self._gestures.open_messages(self.user)

    def stops(self, place: Place | None, thread: Seen | str) -> None:
        """Presses the stop button of the agent's session."""
        channel = self.place(place)
        self._gestures.stop(self.user, channel, thread if isinstance(thread, str) else thread.thread)

    async def sees_home(self, words: str = "", *, timeout: float = PATIENCE) -> Home:
        def look() -> Home | None:
            home = self.home()
            return home if home is not None and words in home else None

        return await self._until(look, timeout=timeout, what=f"{self.name} to see “{words}” on the Home tab")

    def place(self, place: Place | None) -> Channel:
        """A channel, by object, `#name`, id or a message in it; None is the direct message with the app."""
        directory = self._workspace.directory
        if isinstance(place, Channel):
            return place
        if isinstance(place, Seen):
            return directory.channel(place.channel)
        if place is None:
            install = directory.installed_in(self.user.team_id)
            if install is None:
                raise NotFound(f"{self._workspace.app.name} is not installed where {self.name} is.")
            return directory.direct(self.user.team_id, self.id, install.bot_user_id)
        if place in directory.channels:
            return directory.channel(place)
        return directory.channel_named(place, self.user.team_id)

    def _see(self, message: Message) -> Seen:
        author = self._workspace.directory.user(message.user).name
        return Seen(author, self._reader.message(message), message.copy())

    @property
    def _reader(self) -> Reader:
        return Reader(self._workspace.directory, self.user)

    def _with_mentions(self, text: str, channel: Channel) -> str:
        names = {
            each.name: each.id for each in self._workspace.directory.users.values() if self._can_mention(each, channel)
        }
        escaped = html.escape(text, quote=False)
        return _MENTION.sub(lambda found: f"<@{names[found[1]]}>" if found[1] in names else found[0], escaped)

    def _can_mention(self, user: User, channel: Channel) -> bool:
        return user.id in channel.members or (user.team_id == self.user.team_id and user.team_id in channel.teams)
