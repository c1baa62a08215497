"""The panel beside the chat, and the records that it shows."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from playwright.async_api import expect

from adk_confirm.bot.audit.ledger import Head, LineKind, append
from adk_confirm.demo.explanations import answer_item, ledger_item, request_item
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.sandbox.page.explanations import Names
from adk_confirm.sandbox.page.panel import Item, delivery_item
from adk_confirm.sandbox.server.delivery import Delivery
from adk_confirm.sandbox.workspace.workspace import Workspace
from tests.sandbox.page.conftest import Scene
from tests.sandbox.page.visitor import Visits
from tests.support.deciding import without_content
from tests.support.stores import KEYS

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CALL: JsonObject = {"id": "adk-1", "name": "deploy", "args": {"service": "checkout"}}
ASKED: JsonObject = {"originalFunctionCall": CALL, "toolConfirmation": {"hint": "Ship it?", "confirmed": False}}
NAME = "adk_request_confirmation"
NAMES = Names(Workspace(our_app()).directory)


class Noted:
    """An `Observed` of items that a test puts in."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._woken = asyncio.Event()

    def note(self, item: Item) -> None:
        self.items.append(item)
        self._woken.set()

    async def follow(self) -> AsyncIterator[Item]:
        sent = 0
        while True:
            for item in self.items[sent:]:
                yield item
                sent += 1
            self._woken.clear()
            if sent == len(self.items):
                await self._woken.wait()


def request() -> Item:
    part: JsonObject = {"functionCall": {"id": "adk-2", "name": NAME, "args": ASKED}}
    return request_item({"author": "oncall", "content": {"role": "model", "parts": [part]}}, time.time())


def answer(confirmed: bool) -> Item:
    part: JsonObject = {"functionResponse": {"id": "adk-2", "name": NAME, "response": {"confirmed": confirmed}}}
    return answer_item({"newMessage": {"role": "user", "parts": [part]}}, time.time())


@pytest.mark.slow
async def test_a_newcomer_watches_the_protocol(scene: Scene, visits: Visits) -> None:
    noted = Noted()
    noted.note(request())
    scene.slack.page.watch(noted)
    me = await visits()
    await me.sees("deploy needs approval", within=me.panel)
    await me.sees("The agent wants to call deploy (service checkout). It waits here", within=me.panel)
    await scene.app.asks(scene.deploys.id, "")
    await me.clicks("Deny…: deploy")
    await expect(me.dialog).to_be_visible()
    await me.presses("Escape")
    await expect(me.dialog).to_have_count(0)
    await me.sees("“Deny…” by dana", within=me.panel)
    noted.note(answer(False))
    line = append(
        Head(),
        "slack-1",
        LineKind.DENIED,
        {"who": {"user": scene.dana.id}},
        KEYS,
        at=datetime.now(UTC),
        salt="s",
        tool="deploy",
    )
    noted.note(ledger_item(line, scene.slack.page.items.names))
    await me.sees("denied deploy", within=me.panel)
    await me.sees("🚫 @dana denied deploy.", within=me.panel)
    kinds = me.panel.locator(".panel-item:visible .kind")
    await expect(kinds).to_have_text(["Request", "Click", "Answer", "Ledger"])

    await me.panel.get_by_text("“Deny…” by dana").click()
    sent = me.panel.get_by_role("region", name="JSON")
    await expect(sent).to_contain_text('"type": "block_actions"')
    await me.clicks("Copy")
    copied = json.loads(await me.page.evaluate("navigator.clipboard.readText()"))
    [clicked] = [made for made in scene.slack.deliveries if made.what == "block_actions"]
    assert copied == clicked.body

    await me.clicks("Ledger", within=me.panel)
    await expect(kinds).to_have_text(["Request", "Click", "Answer"])
    await me.clicks("Call", within=me.panel)
    await me.sees("views.open", within=me.panel)
    await me.sees("The app opens the form “Deny", within=me.panel)
    await me.clicks("Close the panel")
    await expect(me.panel).to_be_hidden()
    await expect(me.page.get_by_role("button", name="Behind the scenes")).to_be_focused()


async def test_a_delivery_is_under_way_until_it_is_known_how_long_it_took() -> None:
    made = Delivery("events_api", "app_mention", {}, time.time())
    assert delivery_item(made, NAMES).status == "…"
    made.status = 200
    assert delivery_item(made, NAMES).status == "…"
    made.acked_after = 0.012
    assert delivery_item(made, NAMES).status == "200 in 12 ms"
    made.status, made.acked_after = 500, None
    assert delivery_item(made, NAMES).status == "500"


async def test_each_kind_of_item_is_explained_in_words() -> None:
    parts: list[JsonObject] = [{"functionResponse": {"id": "adk-1", "name": NAME, "response": ASKED}}]
    other_dialect = request_item({"content": {"parts": [*parts]}}, 1.0)
    assert other_dialect.title == "deploy needs approval"
    assert request_item({}, 1.0).title == "A call needs approval"
    assert answer(True).title == "confirmed"
    assert answer(False).title == "not confirmed"
    line = append(Head(), "system", LineKind.PAUSED, {"by": "x"}, KEYS, at=datetime.now(UTC), salt="s")
    assert ledger_item(line, NAMES).title == "paused"
    assert ledger_item(line, NAMES).note == "⏸️ Runs are paused. Approved calls start once they are resumed."
    assert ledger_item(line, NAMES).body["content"] == {"by": "x"}
    assert ledger_item(without_content(line), NAMES).body["content"] == "purged"
