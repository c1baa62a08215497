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


async def test_a_person_of_another_company_is_a_stranger(
    slack: FakeSlack, app: AsyncApp, client: AsyncWebClient, ann: Person
) -> None:
    clicks: list[Body] = []

    @app.action("approve")
    async def on_click(ack: AsyncAck, body: Body) -> None:
        clicks.append(body)
        await ack()

    globex = slack.workspace.directory.add_team("Globex")
    hank = slack.person("hank", team=globex)
    shared = slack.channel("shared", ann, hank, shared_with=(globex,))
    assert (await client.conversations_info(channel=shared.id))["channel"]["is_ext_shared"] is True
    assert (await client.users_info(user=hank.id))["user"]["is_stranger"] is True
    assert "is_stranger" not in (await client.users_info(user=ann.id))["user"]
    button = {"type": "button", "action_id": "approve", "text": {"type": "plain_text", "text": "Approve"}}
    blocks = [{"type": "actions", "elements": [button]}]
    await client.chat_postMessage(channel=shared.id, text="Deploy?", blocks=blocks)
    await hank.clicks(await hank.finds("Approve", shared), "Approve")
    assert clicks[0]["user"]["team_id"] == globex.id
    assert clicks[0]["team"]["id"] == slack.team.id
    await hank.says("hello from outside", shared)
    await slack.settled()
    body = next(made.body for made in slack.deliveries if made.kind == "events_api" and "outside" in str(made.body))
    assert body["is_ext_shared_channel"] is True


async def test_a_revoked_token_is_good_for_nothing(slack: FakeSlack, client: AsyncWebClient) -> None:
    slack.install.revoked = True
    with pytest.raises(SlackApiError, match="token_revoked"):
        await client.auth_test()


async def test_forged_stale_and_broken_requests_can_be_sent(slack: FakeSlack, app: AsyncApp) -> None:
    body = '{"type": "event_callback"}'
    forged = slack.outbox.signed(body, "application/json") | {"X-Slack-Signature": "v0=forged"}
    stale = slack.outbox.signed(body, "application/json", timestamp="1700000000")
    for headers in (forged, stale):
        assert (await slack.outbox.post(body, headers)).status == 401


async def test_an_app_that_cannot_be_reached(slack: FakeSlack, ann: Person, deploys: Channel) -> None:
    slack.sends_to("http://127.0.0.1:9/slack/events")
    made = await ann.commands("/approvals", "", deploys)
    assert (made.status, made.reason) == (None, "connection_failed")
    assert ann.notices == ['/approvals failed with the error "dispatch_failed"']


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
