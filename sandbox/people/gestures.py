"""What Slack's client does for a person: send, click, fill in, submit, and act on the app's answer."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Mapping, Sequence

from adk_confirm.sandbox.blockkit.elements import interactive
from adk_confirm.sandbox.blockkit.limits import check_blocks, check_text, check_view
from adk_confirm.sandbox.people import forms, state
from adk_confirm.sandbox.reading import Json, JsonObject, as_object, as_text, objects
from adk_confirm.sandbox.refusals import ApiRefusal, Forbidden, Invalid, NotFound
from adk_confirm.sandbox.server.delivery import Delivery, Outbox
from adk_confirm.sandbox.server.payloads import Payloads
from adk_confirm.sandbox.workspace.records import Channel, Install, Message, User, View
from adk_confirm.sandbox.workspace.workspace import Workspace

_MENTION = re.compile(r"(<@\w+>)")
TROUBLE = "We had some trouble connecting. Try again?"


class Gestures:
    def __init__(self, workspace: Workspace, payloads: Payloads, outbox: Outbox) -> None:
        self._workspace = workspace
        self._payloads = payloads
        self._outbox = outbox
        self.base = ""
        self.takes_answers = asyncio.Event()
        """While this is not set, Slack delays what apps answer to a submission."""
        self.takes_answers.set()
        self._entered: dict[tuple[str, str], dict[tuple[str, str], JsonObject]] = {}

    def say(
        self,
        user: User,
        channel: Channel,
        text: str,
        *,
        thread_ts: str = "",
        broadcast: bool = False,
        files: Mapping[str, bytes] | None = None,
    ) -> Message:
        if user.id not in channel.members:
            raise Forbidden(f"{user.name} is not in {channel.name or channel.id} and cannot write there.")
        blocks: list[JsonObject] = [_rich_text(text)] if text else []
        subtype = "thread_broadcast" if broadcast and thread_ts else "file_share" if files else ""
        kept = [self._workspace.keep_file(user, channel, name, data) for name, data in (files or {}).items()]
        attached = [file.to_json(self.base, self._workspace.clock.now()) for file in kept]
        return self._workspace.messages.post(
            channel, user.id, thread_ts=thread_ts, text=text, blocks=blocks, subtype=subtype, files=attached
        )

    def edit(self, user: User, message: Message, text: str) -> None:
        channel, found = self._own_message(user, message)
        self._workspace.messages.edit(channel, found, user.id, text=text, blocks=[_rich_text(text)])

    def delete(self, user: User, message: Message) -> None:
        channel, found = self._own_message(user, message)
        self._workspace.messages.delete(channel, found)

    async def act(self, user: User, message: Message, block_id: str, action_id: str, value: Json = None) -> Delivery:
        """A click or a choice in this copy of a message."""
        channel = self._workspace.directory.channel(message.channel_id)
        self._require_access(user, channel)
        if message.only_for not in ("", user.id):
            raise Forbidden(f"{user.name} cannot see this message: only {message.only_for} can.")
        install = self._install(channel, user)
        element = _element(message.blocks, block_id, action_id)
        entered = self._entered.setdefault((user.id, message.ts), {})
        new = _entry(element, value)
        if new is not None:
            entered[block_id, action_id] = new
        payload = self._payloads.on_message("block_actions", user, install, channel, message)
        hook = self._workspace.tickets.hook(install.team_id, channel.id, user.id, message.ts, message.thread_ts)
        payload |= {
            "state": {"values": state.values(message.blocks, entered)},
            "response_url": f"{self.base}/actions/{hook.secret}",
            "trigger_id": self._workspace.tickets.trigger(user.team_id, user.id),
            "actions": [self._payloads.action(element, block_id, new)],
        }
        return await self._interact(user, payload, "This action could not be completed.")

    async def act_in_view(self, user: User, view: View, block_id: str, action_id: str, value: Json = None) -> Delivery:
        element = _element(objects(view.body.get("blocks")), block_id, action_id)
        new = _entry(element, value)
        if new is not None:
            self._workspace.views.enter(view, block_id, action_id, new)
        install = self._app_for(user)
        payload = self._payloads.on_view("block_actions", user, install, view)
        payload["trigger_id"] = self._workspace.tickets.trigger(user.team_id, user.id)
        payload["actions"] = [self._payloads.action(element, block_id, new)]
        return await self._interact(user, payload, TROUBLE)

    def enter(self, view: View, block_id: str, value: Json) -> None:
        """Fills in one input. The app hears of it with the submission."""
        block = next(each for each in objects(view.body.get("blocks")) if each.get("block_id") == block_id)
        element = as_object(block.get("element"))
        self._workspace.views.enter(view, block_id, as_text(element.get("action_id")), state.entry(element, value))

    async def submit(self, user: User, view: View) -> Delivery | None:
        """Sends a modal to the app. None if the client itself found an error: then the app hears nothing."""
        if "submit" not in view.body:
            raise Invalid("This modal has no button to submit it with.")
        wrong = forms.problems(view)
        self._workspace.views.show_errors(view, wrong)
        if wrong:
            return None
        install = self._app_for(user)
        payload = self._payloads.on_view("view_submission", user, install, view)
        payload |= {"trigger_id": self._workspace.tickets.trigger(user.team_id, user.id), "response_urls": []}
        made = await self._interact(user, payload, TROUBLE)
        if made.acked:
            await self.takes_answers.wait()
            self._follow(user, view, made)
        return made

    def close(self, view: View) -> None:
        self._workspace.views.close(view)

    async def command(self, user: User, channel: Channel, command: str, text: str) -> Delivery:
        if command not in self._workspace.app.commands:
            raise NotFound(f"{command} is not a valid command.")
        install = self._install(channel, user)
        hook = self._workspace.tickets.hook(install.team_id, channel.id, user.id)
        form: JsonObject = {
            **self._payloads.command(user, channel, command, text),
            "response_url": f"{self.base}/commands/{hook.secret}",
            "trigger_id": self._workspace.tickets.trigger(user.team_id, user.id),
        }
        made = await self._outbox.deliver("slash_commands", form)
        if not made.acked:
            why = "operation_timeout" if made.reason == "http_timeout" else "dispatch_failed"
            self._workspace.notice(user.id, f'{command} failed with the error "{why}"')
        elif made.answer:
            self.respond(hook.channel_id, user.id, made.json or {"text": made.answer})
        return made

    async def shortcut(self, user: User, callback_id: str) -> Delivery:
        payload = self._payloads.global_shortcut(user, callback_id)
        payload["trigger_id"] = self._workspace.tickets.trigger(user.team_id, user.id)
        return await self._interact(user, payload, TROUBLE)

    async def message_shortcut(self, user: User, message: Message, callback_id: str) -> Delivery:
        channel = self._workspace.directory.channel(message.channel_id)
        self._require_access(user, channel)
        install = self._install(channel, user)
        payload = self._payloads.on_message("message_action", user, install, channel, message)
        hook = self._workspace.tickets.hook(install.team_id, channel.id, user.id, "", message.thread_ts)
        payload |= {
            "callback_id": callback_id,
            "message_ts": message.ts,
            "action_ts": self._workspace.messages.next_ts(),
            "trigger_id": self._workspace.tickets.trigger(user.team_id, user.id),
            "response_url": f"{self.base}/app/{hook.secret}",
        }
        return await self._interact(user, payload, TROUBLE)

    def open_home(self, user: User) -> None:
        install = self._app_for(user)
        direct = self._workspace.directory.direct(user.team_id, user.id, install.bot_user_id)
        event: JsonObject = {"type": "app_home_opened", "user": user.id, "channel": direct.id, "tab": "home"}
        view = self._workspace.views.home(user.team_id, user.id)
        if view is not None:
            event["view"] = self._workspace.views.to_json(view, install)
        self._outbox.event(install, event)

    def open_messages(self, user: User) -> None:
        """The direct message with the app."""
        install = self._app_for(user)
        direct = self._workspace.directory.direct(user.team_id, user.id, install.bot_user_id)
        event: JsonObject = {"type": "app_home_opened", "user": user.id, "channel": direct.id, "tab": "messages"}
        self._outbox.event(install, event)

    def stop(self, user: User, channel: Channel, thread_ts: str) -> None:
        """The stop button of a session. Slack ends the streams in the thread, and the status stays as it is."""
        self._require_access(user, channel)
        session = channel.sessions.get(thread_ts)
        if session is None or session.status != "processing":
            raise Invalid("The agent is not at work here, so there is nothing to stop.")
        if "agent_session_stopped" not in self._workspace.app.events:
            raise Invalid("The app did not subscribe to agent_session_stopped, so there is no stop button.")
        streams = [
            each for each in self._workspace.messages.thread(channel, thread_ts) if each.streaming_since is not None
        ]
        for each in streams:
            self._workspace.messages.finish(channel, each)
        event: JsonObject = {
            "type": "agent_session_stopped", "channel": channel.id, "thread_ts": thread_ts, "user": user.id,
            "streaming_message_ts": [each.ts for each in streams],
        }  # fmt: skip
        self._outbox.event(self._install(channel, user), event, channel)

    def respond(self, channel_id: str, user_id: str, body: JsonObject, thread_ts: str = "") -> Message:
        """A message of the app through an ack or a response URL: only for this person, unless `in_channel`."""
        channel = self._workspace.directory.channel(channel_id)
        text = check_text(as_text(body.get("text")), updating=False)
        blocks = check_blocks(body.get("blocks") or [])
        if not text and not blocks:
            raise ApiRefusal("no_text", status=400)
        install = self._install(channel, self._workspace.directory.user(user_id))
        only_for = "" if body.get("response_type") == "in_channel" else user_id
        return self._workspace.messages.post(
            channel, install.bot_user_id, thread_ts=thread_ts, only_for=only_for, by=install, text=text, blocks=blocks
        )

    async def _interact(self, user: User, payload: JsonObject, trouble: str) -> Delivery:
        made = await self._outbox.deliver("interactive", payload)
        if not made.acked:
            self._workspace.notice(user.id, trouble)
        return made

    def _follow(self, user: User, view: View, made: Delivery) -> None:
        """Carries out the app's answer to a submission."""
        answer, views = made.json, self._workspace.views
        try:
            match answer.get("response_action"):
                case None if not answer:
                    views.close(view)
                case "update":
                    views.update(view, check_view(answer.get("view"), "modal"))
                case "errors":
                    views.show_errors(view, _errors(view, as_object(answer.get("errors"))))
                case other:
                    raise ApiRefusal("invalid_response_action", messages=[json.dumps(other)])
        except ApiRefusal as refused:
            made.reason = str(refused)
            self._workspace.notice(user.id, TROUBLE)

    def _own_message(self, user: User, message: Message) -> tuple[Channel, Message]:
        found = self._workspace.messages.find(message.channel_id, message.ts)
        if found.user != user.id:
            raise Forbidden("People can change their own messages only.")
        return self._workspace.directory.channel(message.channel_id), found

    def _require_access(self, user: User, channel: Channel) -> None:
        if user.id not in channel.members and channel.kind != "public":
            raise Forbidden(f"{user.name} is not in {channel.name or channel.id} and cannot see it.")

    def _app_for(self, user: User) -> Install:
        found = self._workspace.directory.installed_in(user.team_id)
        if found is not None:
            return found
        shared = [each for each in self._workspace.directory.channels.values() if user.id in each.members]
        return self._install(next((each for each in shared if each.is_ext_shared), None), user)

    def _install(self, channel: Channel | None, user: User) -> Install:
        """The installation that serves a channel: of the person's workspace, or of one that shares the channel."""
        for team_id in (user.team_id, *sorted(channel.teams if channel else ())):
            found = self._workspace.directory.installed_in(team_id)
            if found is not None:
                return found
        raise NotFound(f"{self._workspace.app.name} is not installed where {user.name} is.")


def _rich_text(text: str) -> JsonObject:
    """Slack's composer sends rich text beside the text: mentions as elements, other text unescaped."""
    leaves: list[Json] = []
    for piece in _MENTION.split(text):
        if piece.startswith("<@"):
            leaves.append({"type": "user", "user_id": piece[2:-1]})
        elif piece:
            leaves.append({"type": "text", "text": html.unescape(piece)})
    return {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": leaves}]}


def _element(blocks: Sequence[JsonObject], block_id: str, action_id: str) -> JsonObject:
    for block in blocks:
        for element in interactive(block):
            if block.get("block_id") == block_id and element.get("action_id") == action_id:
                return element
    raise NotFound(f"There is nothing to click under {block_id}/{action_id}.")


def _entry(element: JsonObject, value: Json) -> JsonObject | None:
    kind = as_text(element.get("type"))
    if kind == "overflow":
        return {"type": kind, "selected_option": value}
    return state.entry(element, value) if kind in state.SLOTS else None


def _errors(view: View, errors: JsonObject) -> dict[str, str]:
    inputs = {each.get("block_id") for each in objects(view.body.get("blocks")) if each.get("type") == "input"}
    if not errors or not set(errors) <= inputs:
        raise ApiRefusal("invalid_errors", messages=[f"no input block is called {sorted(set(errors) - inputs)}"])
    return {name: as_text(text) for name, text in errors.items()}
