"""What the page does for a person. Each gesture is checked when it arrives, and does what Slack's client does."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, JsonValue

from adk_confirm.sandbox.blockkit.elements import interactive
from adk_confirm.sandbox.page.controls import Controls
from adk_confirm.sandbox.page.screen import seen_channel, seen_message
from adk_confirm.sandbox.people import forms, state
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.reading import JsonObject, as_object, objects
from adk_confirm.sandbox.refusals import Forbidden, Invalid, NotFound
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import User, View


@dataclass(frozen=True, slots=True)
class GestureContext:
    """The person at the page, and what their gestures can change."""

    slack: FakeSlack
    user: User
    bot: Controls | None = None

    @property
    def controls(self) -> Controls:
        if self.bot is None:
            raise NotFound("This sandbox has no bot that can be controlled from the page.")
        return self.bot

    @property
    def person(self) -> Person:
        return Person(self.user.id, self.slack.workspace, self.slack.gestures, self.slack.until)

    def view(self, view_id: str) -> View:
        found = self.slack.workspace.views.find(view_id)
        if found.user != self.user.id:
            raise Forbidden("This view is somebody else's.")
        return found

    def picked(self, element: JsonObject, value: JsonValue) -> JsonValue:
        """What was picked, as payloads have it. The page names options by their values."""
        return state.picked(element, value, self.user.tz, state.by_value)


class Gesture(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @abstractmethod
    async def perform(self, context: GestureContext) -> JsonObject:
        """Carries out the gesture. Returns what the page needs besides the changes of its screen."""


class Attached(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    content: Base64Bytes


class Say(Gesture):
    channel: str
    text: str
    thread_ts: str = ""
    broadcast: bool = False
    files: tuple[Attached, ...] = ()

    async def perform(self, context: GestureContext) -> JsonObject:
        if not self.text.strip() and not self.files:
            raise Invalid("There is nothing to send yet.")
        seen_channel(context.slack.workspace, context.user, self.channel)
        files = {each.name: each.content for each in self.files}
        said = await context.person.says(
            self.text, self.channel, thread=self.thread_ts or None, also_to_channel=self.broadcast, files=files
        )
        return {"ts": said.ts}


class Edit(Gesture):
    channel: str
    ts: str
    text: str

    async def perform(self, context: GestureContext) -> JsonObject:
        if not self.text.strip():
            raise Invalid("A message can't become empty. Delete it instead.")
        seen_message(context.slack.workspace, context.user, self.channel, self.ts)
        [seen] = [each for each in context.person.messages(self.channel) if each.ts == self.ts]
        await context.person.edits(seen, self.text)
        return {}


class Delete(Gesture):
    channel: str
    ts: str

    async def perform(self, context: GestureContext) -> JsonObject:
        message = seen_message(context.slack.workspace, context.user, self.channel, self.ts)
        if message.only_for:  # Slack's "Dismiss message"
            context.slack.workspace.messages.delete(context.slack.workspace.directory.channel(self.channel), message)
        else:
            context.slack.gestures.delete(context.user, message)
        return {}


class Act(Gesture):
    channel: str
    ts: str
    block_id: str
    action_id: str
    value: JsonValue = None

    async def perform(self, context: GestureContext) -> JsonObject:
        message = seen_message(context.slack.workspace, context.user, self.channel, self.ts)
        element = _element(message.blocks, self.block_id, self.action_id)
        value = context.picked(element, self.value)
        await context.slack.gestures.act(context.user, message, self.block_id, self.action_id, value)
        return {}


class ActInView(Gesture):
    view: str
    block_id: str
    action_id: str
    value: JsonValue = None

    async def perform(self, context: GestureContext) -> JsonObject:
        view = context.view(self.view)
        element = _element(objects(view.body.get("blocks")), self.block_id, self.action_id)
        value = context.picked(element, self.value)
        await context.slack.gestures.act_in_view(context.user, view, self.block_id, self.action_id, value)
        return {}


class Enter(Gesture):
    view: str
    block_id: str
    value: JsonValue = None

    async def perform(self, context: GestureContext) -> JsonObject:
        view = context.view(self.view)
        element = as_object(_input(view, self.block_id).get("element"))
        context.slack.gestures.enter(view, self.block_id, context.picked(element, self.value))
        return {}


class Submit(Gesture):
    view: str
    values: Mapping[str, JsonValue] = {}
    """The contents of the fields. The person may still be in the last one."""

    async def perform(self, context: GestureContext) -> JsonObject:
        view = context.view(self.view)
        for block_id, value in self.values.items():
            block = _input(view, block_id)
            element = as_object(block.get("element"))
            entered = context.picked(element, value)
            if forms.entered_in(view, block) != state.entry(element, entered):
                context.slack.gestures.enter(view, block_id, entered)
        made = await context.slack.gestures.submit(context.user, view)
        return {"sent": made is not None}


class Close(Gesture):
    view: str

    async def perform(self, context: GestureContext) -> JsonObject:
        context.slack.gestures.close(context.view(self.view))
        return {}


class Command(Gesture):
    channel: str
    command: str
    text: str = ""

    async def perform(self, context: GestureContext) -> JsonObject:
        channel = seen_channel(context.slack.workspace, context.user, self.channel)
        await context.slack.gestures.command(context.user, channel, self.command, self.text)
        return {}


class GlobalShortcut(Gesture):
    callback_id: str

    async def perform(self, context: GestureContext) -> JsonObject:
        await context.slack.gestures.shortcut(context.user, self.callback_id)
        return {}


class MessageShortcut(Gesture):
    channel: str
    ts: str
    callback_id: str

    async def perform(self, context: GestureContext) -> JsonObject:
        message = seen_message(context.slack.workspace, context.user, self.channel, self.ts)
        await context.slack.gestures.message_shortcut(context.user, message, self.callback_id)
        return {}


class OpenHome(Gesture):
    async def perform(self, context: GestureContext) -> JsonObject:
        context.slack.gestures.open_home(context.user)
        return {}


class OpenMessages(Gesture):
    async def perform(self, context: GestureContext) -> JsonObject:
        context.slack.gestures.open_messages(context.user)
        return {}


class Stop(Gesture):
    channel: str
    thread_ts: str

    async def perform(self, context: GestureContext) -> JsonObject:
        channel = seen_channel(context.slack.workspace, context.user, self.channel)
        context.slack.gestures.stop(context.user, channel, self.thread_ts)
        return {}


class Read(Gesture):
    channel: str

    async def perform(self, context: GestureContext) -> JsonObject:
        workspace = context.slack.workspace
        channel = seen_channel(workspace, context.user, self.channel)
        if workspace.unread(context.user.id, channel):
            workspace.mark_read(context.user.id, channel)
        return {}


class Join(Gesture):
    channel: str

    async def perform(self, context: GestureContext) -> JsonObject:
        channel = seen_channel(context.slack.workspace, context.user, self.channel)
        context.slack.workspace.directory.set_members(channel.id, add=(context.user.id,))
        return {}


class PassTime(Gesture):
    minutes: int = Field(ge=1, le=7 * 24 * 60)

    async def perform(self, context: GestureContext) -> JsonObject:
        await context.controls.pass_time(self.minutes)
        return {}


class CrashBot(Gesture):
    async def perform(self, context: GestureContext) -> JsonObject:
        await context.controls.crash()
        return {}


class CrashInCall(Gesture):
    async def perform(self, context: GestureContext) -> JsonObject:
        await context.controls.crash_in_call()
        return {}


class StartBot(Gesture):
    async def perform(self, context: GestureContext) -> JsonObject:
        await context.controls.start()
        return {}


GESTURES: dict[str, type[Gesture]] = {
    "say": Say, "edit": Edit, "delete": Delete, "act": Act, "act_in_view": ActInView, "enter": Enter, "submit": Submit,
    "close": Close, "command": Command, "shortcut": GlobalShortcut,
    "message_shortcut": MessageShortcut, "open_home": OpenHome, "open_messages": OpenMessages,
    "stop": Stop, "read": Read, "join": Join,
    "pass_time": PassTime, "crash": CrashBot, "crash_in_call": CrashInCall, "start": StartBot,
}  # fmt: skip


def _element(blocks: list[JsonObject], block_id: str, action_id: str) -> JsonObject:
    for block in blocks:
        for element in interactive(block):
            if (block.get("block_id"), element.get("action_id")) == (block_id, action_id):
                return element
    raise NotFound("This has just changed, and what you clicked is gone. Look at the new version.")


def _input(view: View, block_id: str) -> JsonObject:
    for block in objects(view.body.get("blocks")):
        if block.get("block_id") == block_id and block.get("type") == "input":
            return block
    raise NotFound("This form has just changed, and the field is gone. Look at the new version.")
