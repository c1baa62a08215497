"""A small real Bolt app that posts this project's own cards, forms and lists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from aiohttp import web
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond
from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.blocks.card import card
from adk_confirm.blocks.click_ids import Action, Callback
from adk_confirm.blocks.form import Form, FormErrors, deny_form, read_denial
from adk_confirm.blocks.home import approvals, home_tab
from adk_confirm.blocks.ledger_kinds import LineKind
from adk_confirm.blocks.notices import notice_modal, verdict_modal
from adk_confirm.blocks.shown import FieldDiff, Shown
from adk_confirm.blocks.thread import history
from adk_confirm.bot.confirmation.confirmation import State
from adk_confirm.bot.confirmation.states import Verdict
from adk_confirm.sandbox.server.server import FakeSlack
from tests.blocks import samples

Body = dict[str, Any]  # Bolt hands payloads over as plain dictionaries
FIRST_WORDS, LAST_WORDS = "Looking at **checkout**", " now:\n\n- version `2.14.0`\n- 6 replicas"


def drawn(view: Shown) -> Body:
    """A card, as `chat.postMessage` takes it."""
    return card(view).payload()


class SmallApp:
    """One card, one decision. `go_on` lets a streamed reply go on to its end."""

    def __init__(self, slack: FakeSlack) -> None:
        self.client = AsyncWebClient(slack.bot_token, base_url=slack.url, retry_handlers=[])
        self.bolt = AsyncApp(
            name="small app",  # without a name Bolt reads the source of its callers to find one
            signing_secret=slack.signing_secret,
            client=self.client,
            process_before_response=True,
        )
        self.go_on = asyncio.Event()
        self.view: Shown = samples.EDITABLE
        self.place: tuple[str, str] = ("", "")
        self.submitted: list[Body] = []
        self.counting_in = ""
        self._listen()

    async def asks(self, channel: str, thread_ts: str) -> None:
        """Posts the card."""
        posted = await self.client.chat_postMessage(channel=channel, thread_ts=thread_ts, **drawn(self.view))
        self.place = (channel, posted["ts"])

    async def redraws(self, view: Shown) -> None:
        self.view = view
        channel, ts = self.place
        await self.client.chat_update(channel=channel, ts=ts, **drawn(view))

    async def tells_verdict(self) -> None:
        """What follows on “Counting…”."""
        said = Verdict(confirmation="", kind=LineKind.DENIED, decided=True)
        await self.client.views_update(view_id=self.counting_in, view=verdict_modal(self.view, said))

    def _listen(self) -> None:
        self.bolt.event("app_mention")(self._on_mention)
        self.bolt.event("message")(_nothing)
        self.bolt.event("app_home_opened")(self._on_home)
        self.bolt.action(Action.APPROVE.value)(self._on_approve)
        self.bolt.action(Action.DENY.value)(self._on_deny)
        self.bolt.action(Action.EDIT.value)(self._on_edit)
        self.bolt.action(Action.WITHDRAW.value)(self._on_withdraw)
        self.bolt.action(Action.MORE.value)(self._on_withdraw)
        self.bolt.view(Callback.DENY.value)(self._on_denied)
        self.bolt.view(Callback.EDIT.value)(self._on_edited)
        self.bolt.command("/approvals")(self._on_command)
        self.bolt.shortcut("adk_confirm_history")(self._on_history)

    async def _on_mention(self, event: Body) -> None:
        place = {"channel": event["channel"], "thread_ts": event["ts"]}
        if "status" in event["text"]:
            stream = await self.client.chat_stream(
                **place, recipient_team_id=event["team"], recipient_user_id=event["user"], buffer_size=1
            )
            await stream.append(markdown_text=FIRST_WORDS)
            await self.go_on.wait()
            await stream.append(markdown_text=LAST_WORDS)
            await stream.stop()
        else:
            await self.asks(**place)

    async def _on_home(self, event: Body) -> None:
        await self.client.views_publish(user_id=event["user"], view=home_tab(samples.HOME))

    async def _on_approve(self, ack: AsyncAck, body: Body) -> None:
        await ack()
        voted = (*self.view.voted, body["user"]["id"])
        await self.redraws(replace(self.view, version=self.view.version + 1, voted=voted))

    async def _on_deny(self, ack: AsyncAck, body: Body) -> None:
        await ack()
        await self.client.views_open(trigger_id=body["trigger_id"], view=deny_form(self.view, required=True))

    async def _on_denied(self, ack: AsyncAck, body: Body) -> None:
        self.submitted.append(body["view"]["state"]["values"])
        reason = read_denial(body["view"]["state"]["values"], required=True)
        if reason == "no":
            await ack(response_action="errors", errors={"reason": "Say a little more than that."})
            return
        await ack(response_action="update", view=notice_modal("Counting…"))
        by = (body["user"]["id"],)
        self.counting_in = body["view"]["id"]
        await self.redraws(
            replace(self.view, stage=State.DENIED, version=self.view.version + 1, decided_by=by, reason=reason)
        )

    async def _on_edit(self, ack: AsyncAck, body: Body) -> None:
        await ack()
        await self.client.views_open(trigger_id=body["trigger_id"], view=Form(self.view, samples.SCHEMA).edit_view())

    async def _on_edited(self, ack: AsyncAck, body: Body) -> None:
        values = body["view"]["state"]["values"]
        self.submitted.append(values)
        try:
            changes = Form(self.view, samples.SCHEMA).read(values, must_change=True)
        except FormErrors as wrong:
            await ack(response_action="errors", errors=wrong.errors)
            return
        await ack()
        old = {argument.name: argument.value for argument in self.view.arguments}
        arguments = tuple(replace(each, value=changes.get(each.name, each.value)) for each in self.view.arguments)
        diff = tuple(FieldDiff(name, old.get(name), new) for name, new in changes.items())
        who = body["user"]["id"]
        await self.redraws(
            replace(
                self.view,
                revision=self.view.revision + 1,
                version=self.view.version + 1,
                arguments=arguments,
                diff=diff,
                edited_by=who,
                voted=(who,),
            )
        )

    async def _on_withdraw(self, ack: AsyncAck, body: Body) -> None:
        await ack()
        by = (body["user"]["id"],)
        await self.redraws(
            replace(self.view, stage=State.WITHDRAWN, version=self.view.version + 1, decided_by=by, voted=())
        )

    async def _on_command(self, ack: AsyncAck, respond: AsyncRespond) -> None:
        await ack()
        message = approvals(samples.LISTED)
        await respond(text=message.text, blocks=list(message.blocks))

    async def _on_history(self, ack: AsyncAck, body: Body) -> None:
        await ack()
        await self.client.views_open(trigger_id=body["trigger_id"], view=history(samples.HISTORY, samples.STEPS))


async def _nothing(event: Body) -> None: ...


@asynccontextmanager
async def small_app(slack: FakeSlack) -> AsyncIterator[SmallApp]:
    """The app, running where Slack sends to."""
    app = SmallApp(slack)
    runner = web.AppRunner(app.bolt.web_app(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    slack.sends_to(f"http://{host}:{port}/slack/events")
    yield app
    app.go_on.set()
    await runner.cleanup()
