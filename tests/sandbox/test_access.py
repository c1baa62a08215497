"""Tokens, people of other workspaces in shared channels, and requests that should not arrive."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.sandbox.people.people import Person
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel

Body = dict[str, Any]


async def test_one_workspace_does_not_see_another(slack: FakeSlack, client: AsyncWebClient) -> None:
    globex = slack.workspace.directory.add_team("Globex")
    hank = slack.person("hank", team=globex)
    theirs = slack.workspace.directory.add_channel(globex, "lab", members=(hank.id,))
    with pytest.raises(SlackApiError, match="user_not_found"):
        await client.users_info(user=hank.id)
    with pytest.raises(SlackApiError, match="channel_not_found"):
        await client.conversations_info(channel=theirs.id)


async def test_a_revoked_token_is_good_for_nothing(slack: FakeSlack, client: AsyncWebClient) -> None:
    slack.install.revoked = True
    with pytest.raises(SlackApiError, match="token_revoked"):
        await client.auth_test()


async def test_a_response_url_replaces_and_deletes(
    slack: FakeSlack, app: AsyncApp, client: AsyncWebClient, ann: Person, deploys: Channel
) -> None:
    @app.action("approve")
    async def on_click(ack: AsyncAck) -> None:
        await ack()

    button = {"type": "button", "action_id": "approve", "text": {"type": "plain_text", "text": "Approve"}}
    blocks = [{"type": "actions", "elements": [button]}]
    await client.chat_postEphemeral(channel=deploys.id, user=ann.id, text="Sure?", blocks=blocks)
    made = await ann.clicks(await ann.finds("Approve", deploys), "Approve")
    url = str(made.body["response_url"])
    async with aiohttp.ClientSession() as session:

        async def answer(body: Body) -> tuple[int, str]:
            async with session.post(url, json=body) as got:
                return got.status, await got.text()

        assert (await answer({"text": ""}))[0] == 400
        assert await answer({"text": "Thank you", "replace_original": True}) == (200, "ok")
        assert ann.sees(deploys) == "adk-confirm: Thank you"
        assert (await answer({"delete_original": True}))[0] == 200
        assert ann.sees(deploys) == ""
        slack.clock.advance(31 * 60)
        assert "expired_url" in (await answer({"text": "late"}))[1]


async def test_only_an_app_token_opens_a_socket(slack: FakeSlack) -> None:
    client = AsyncWebClient(base_url=slack.url)
    for token, code in (("xapp-wrong", "invalid_auth"), (slack.bot_token, "not_allowed_token_type")):
        with pytest.raises(SlackApiError, match=code):
            await client.apps_connections_open(app_token=token)
