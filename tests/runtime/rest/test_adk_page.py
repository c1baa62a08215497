"""ADK's own browser page, as google-adk ships it, in a real Chromium, with our API on another port."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from playwright.async_api import ConsoleMessage, Page, Request, Response, expect

from adk_confirm import Agent, Runner
from adk_confirm.examples import offline
from adk_confirm.examples.oncall import agent as oncall
from adk_confirm.runtime.rest.guard import Guard
from tests.support.browser import chromium_page
from tests.support.served import served

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@asynccontextmanager
async def adks_page() -> AsyncIterator[tuple[str, dict[str, str]]]:
    """The origin of the page, and its configuration, to be filled in before it is opened."""
    found = importlib.util.find_spec("google.adk")
    assert found is not None
    assert found.submodule_search_locations is not None
    assets = Path(found.submodule_search_locations[0]) / "cli" / "browser"
    configuration: dict[str, str] = {}

    async def configured(_: web.Request) -> web.Response:
        return web.json_response(configuration)

    async def index(_: web.Request) -> web.FileResponse:
        return web.FileResponse(assets / "index.html")

    app = web.Application()
    app.router.add_get("/dev-ui/assets/config/runtime-config.json", configured)
    app.router.add_get("/dev-ui/", index)
    app.router.add_static("/dev-ui/", assets)
    running = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await running.setup()
    try:
        await web.TCPSite(running, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{running.addresses[0][1]}", configuration
    finally:
        await running.cleanup()


@dataclass
class Open:
    """The page, opened on an agent; what it asked the API, and what it complained about."""

    page: Page
    api: str
    answered: list[tuple[str, str, int]] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def listen(self) -> None:
        self.page.on("response", self._heard)
        self.page.on("request", self._asked)
        self.page.on("console", self._said)

    def _heard(self, response: Response) -> None:
        if response.url.startswith(self.api):
            path = response.url.removeprefix(self.api).partition("?")[0]
            self.answered.append((response.request.method, path, response.status))

    def _asked(self, request: Request) -> None:
        if request.url == f"{self.api}/run_sse" and request.method == "POST":
            self.sent.append(json.loads(request.post_data or "null"))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error" and self.api in message.location["url"]:
            self.complaints.append(message.text)

    async def say(self, text: str) -> None:
        box = self.page.locator("textarea").first
        await box.fill(text)
        await box.press("Enter")

    async def submit(self, *, confirmed: bool) -> None:
        form = self.page.locator("app-long-running-response").last
        if confirmed:
            await form.locator("input[type=checkbox]").check()
        await form.get_by_role("button", name="Submit").click()

    async def sees(self, text: str) -> None:
        await expect(self.page.get_by_text(text, exact=False).last).to_be_visible(timeout=20_000)


@pytest.fixture
async def ada() -> AsyncIterator[Open]:
    agent = Agent("oncall", offline.offline(), tools=oncall.tools)
    async with adks_page() as (origin, configuration):
        guard = Guard.of("127.0.0.1", None, [origin])
        async with served(Runner(agent), guard=guard) as api, chromium_page() as page:
            configuration["backendUrl"] = api
            opened = Open(page, api)
            opened.listen()
            await page.goto(f"{origin}/dev-ui/?app=oncall")
            yield opened
            assert opened.complaints == []
            assert [heard for heard in opened.answered if heard[2] >= 400] == []


async def test_a_conversation_and_an_approval(ada: Open) -> None:
    await ada.say("reimburse 1500 for the team dinner")
    await ada.sees("Approve this reimbursement?")
    await ada.submit(confirmed=True)
    await ada.sees("I reimbursed 1500 for the team dinner.")
    answer = ada.sent[1]["newMessage"]["parts"][0]["functionResponse"]
    assert answer["response"] == {"confirmed": True, "payload": {"purpose": "the team dinner", "amount": 1500}}
    assert {"functionCallEventId", "stateDelta"} <= ada.sent[1].keys()
    await ada.say("reimburse 20 for the taxi")
    await ada.sees("I reimbursed 20 for the taxi.")


async def test_a_denial_and_a_form(ada: Open) -> None:
    await ada.say("deploy checkout 2.4.1 to prod")
    await ada.sees("Approve this deployment?")
    await ada.submit(confirmed=False)
    await ada.sees("The deployment of checkout 2.4.1 was not approved")
    await ada.say("I need 3 days off")
    await ada.sees("How many days off do you approve?")
    await ada.submit(confirmed=True)
    await ada.sees("You have 3 days off.")


async def test_the_conversation_is_there_when_the_page_is_opened_again(ada: Open) -> None:
    await ada.say("deploy checkout 2.4.1 to prod")
    await ada.sees("Approve this deployment?")
    session = ada.sent[0]["sessionId"]
    await ada.page.goto(f"{ada.page.url.partition('?')[0]}?app=oncall&session={session}&userId=user")
    await ada.sees("Approve this deployment?")
    await ada.submit(confirmed=True)
    await ada.sees("checkout 2.4.1 is on prod now.")
